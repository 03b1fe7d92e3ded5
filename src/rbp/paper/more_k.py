"""A larger k beside a larger model: which models are shown, and the tables of the chapter on it."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
from scipy.stats import chi2

from rbp.paper.display import INTERVAL, shown, weak
from rbp.paper.wording import dataset_label, model_label
from rbp.stats.law_in_k import exchange


def pair_label(row: Any) -> str:
    """ "pythia-12b on Wikipedia": the model and the dataset of a row."""
    return f"{model_label(row.model)} on {dataset_label(row.dataset)}"


def largest(traded: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest model of each dataset and family."""
    return traded.sort_values("size").groupby(["dataset", "family"]).tail(1).sort_values(["dataset", "family"])


def exchange_by_k(
    points: pd.DataFrame, in_k: pd.DataFrame, traded: pd.DataFrame, k_from: int, k: Iterable[int]
) -> pd.DataFrame:
    """`exchange` from `k_from` to each larger k, for the largest model of the family whose sizes differ most.

    `traded`: the exchange of all models, from `k_from` to one k.
    """
    span = traded.groupby("family")["size"].agg(lambda size: size.max() / size.min())
    family = span.idxmax()
    chosen = largest(traded[traded["family"] == family])
    own = in_k[in_k["model"].isin(chosen["model"])]
    larger = sorted(each for each in {*k, *traded["k_to"]} if each > k_from)
    return exchange(points[points["family"] == family], own, k_from, larger)


def noise_excess(noise: pd.DataFrame, level: float) -> "pd.Series[float]":
    """By which factor the variance of counting would have to be larger for chance to explain each χ² of `noise`."""
    allowed = pd.Series(chi2.ppf(level, noise["df"].astype(float)), index=noise.index)
    return noise["chi2"] / allowed


def noise_shown(noise: pd.DataFrame, level: float) -> dict[str, Any]:
    """`sampling_tests` by dataset: the scatter about the lines, the noise of counting, and how many are rejected."""
    rows = noise.assign(rejected=noise["p"] < 1 - level).groupby("dataset", as_index=False)
    return shown(
        rows.agg(
            pairs=("rejected", "size"),
            rejected=("rejected", "sum"),
            tokens=("tokens", "min"),
            scatter=("residual_se", "median"),
            noise=("noise", "median"),
        ),
        {
            "dataset": "Dataset",
            "pairs": "pairs",
            "rejected": "not explained by counting",
            "tokens": ("tokens, fewest", "{:,.0f}"),
            "scatter": ("scatter about the line", "{:.4f}"),
            "noise": ("noise of counting", "{:.4f}"),
        },
        caption="<b>Is the bend an accident of sampling?</b> Medians of the scatter about the line and of the noise of "
        "counting, and in how many pairs a test that respects the dependence of the points (generalized least squares, "
        f"χ²) rejects the straight line at the {1 - level:.0%} level.",
        data=noise,
    )


def exponents_shown(both: pd.DataFrame, level: float) -> dict[str, Any]:
    """`beside_size` by dataset, family and k: the exponents in k of the family's models, and its exponent in S."""
    rows = both.groupby(["dataset", "family", "k"], as_index=False).agg(
        low=("alpha", "min"),
        high=("alpha", "max"),
        alpha_s=("alpha_s", "first"),
        s_low=("alpha_low_s", "first"),
        s_high=("alpha_high_s", "first"),
        times=("times", "median"),
        n=("n_s", "first"),
    )
    return shown(
        rows.assign(note=weak(rows["n"])),
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "at k",
            ("low", "high"): ("α in k, models", "{:.3f} to {:.3f}"),
            "alpha_s": ("α in S", "{:.3f}"),
            ("s_low", "s_high"): (f"{level:.0%} interval", INTERVAL),
            "times": ("ratio", "{:.1f}"),
            "n": "sizes",
            "note": "note",
        },
        caption="<b>Paired by family and dataset.</b> The exponent in k of the family’s models, the exponent in S at "
        "some thresholds, and the median ratio. The download has every model.",
        data=both,
    )


def exchange_shown(traded: pd.DataFrame, k_from: int, k_to: int) -> dict[str, Any]:
    """What `k_to` in place of `k_from` is worth for the largest model of each dataset and family."""
    rows = largest(traded)
    rows = rows.assign(
        note=rows["extrapolated"].map({True: "extrapolated", False: ""}),
        worth_exact=1 / rows["exact"],
        worth_measured=1 / rows["measured"],
    )
    return shown(
        rows,
        {
            "dataset": "Dataset",
            "model": "Model",
            "alpha_k": ("α in k", "{:.3f}"),
            "alpha_s": ("α in S", "{:.3f}"),
            "local": ("S′/S, local", "{:.1f}"),
            "worth_exact": ("S/S′, integrated", "{:.0f}"),
            "worth_measured": ("S/S′, measured", "{:.0f}"),
            "note": "note",
        },
        caption=f"<b>What k = {k_to} instead of {k_from} is worth</b>, for the largest model of each family with so "
        f"many thresholds. S/S′: as many times more parameters would be needed at k = {k_from}. A negative S′/S is no "
        "size at all. The download has every model.",
        data=traded,
    )


def preprint_shown(
    in_k: pd.DataFrame, noise: pd.DataFrame, both: pd.DataFrame, traded: pd.DataFrame, level: float
) -> dict[str, Any]:
    """The preprint's statements, each beside what was found."""
    r_squared, times = in_k["r_squared"], both["times"]
    found = {
        "R² ≥ 0.99 for every model and dataset, k ≤ 100": f"{(r_squared >= 0.99).sum()} of {len(in_k)}; "
        f"lowest {r_squared.min():.4f}",
        "−ln RBP_k is a power law in k": f"departures not explained by counting in {(noise['p'] < 1 - level).sum()} of "
        f"{len(noise)} pairs tested",
        "the exponent in k is larger than that in S": f"{(times > 1).sum()} of {len(both)} comparisons; "
        f"{times.min():.1f} to {times.max():.1f} times",
        "ΔS/S ≈ −(α_k/α_S)·Δk/k": f"sign right; small steps only: no size for {(traded['local'] <= 0).sum()} of "
        f"{len(traded)} models",
    }
    return shown(
        pd.DataFrame(found.items(), columns=["the preprint", "here"]),
        {"the preprint": "the preprint", "here": "here"},
        caption="<b>The preprint’s three statements.</b> The final version of the paper does not repeat them.",
    )
