"""A larger k beside a larger model: what is shown of the exchange, and how much chance a bend would take."""

from collections.abc import Iterable

import pandas as pd
from scipy.stats import chi2

from rbp.stats.law_in_k import exchange


def exchange_by_k(
    points: pd.DataFrame, in_k: pd.DataFrame, traded: pd.DataFrame, k_from: int, k: Iterable[int]
) -> pd.DataFrame:
    """`exchange` from `k_from` to each larger k, for the largest model of the family whose sizes differ most.

    `traded`: the exchange of all models, from `k_from` to one k.
    """
    span = traded.groupby("family")["size"].agg(lambda size: size.max() / size.min())
    family = span.idxmax()
    chosen = traded[traded["family"] == family].sort_values("size").groupby("dataset").tail(1)
    own = in_k[in_k["model"].isin(chosen["model"])]
    larger = sorted(each for each in {*k, *traded["k_to"]} if each > k_from)
    return exchange(points[points["family"] == family], own, k_from, larger)


def noise_excess(noise: pd.DataFrame, level: float) -> "pd.Series[float]":
    """By which factor the variance of counting would have to be larger for chance to explain each χ² of `noise`."""
    allowed = pd.Series(chi2.ppf(level, noise["df"].astype(float)), index=noise.index)
    return noise["chi2"] / allowed
