"""How far from independent the tokens of a window are: by published counts, and by rank stores."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as t_distribution

from rbp.book.steps import step
from rbp.core.arrays import Integers
from rbp.core.errors import DataError, FitError
from rbp.evidence import Source, open_source
from rbp.evidence.ranked import Ranked
from rbp.paper.wording import dataset_order
from rbp.ranks.store import RankStore
from rbp.stats.clustering import cluster_sums, log_design_effect, variance_parts
from rbp.stats.compare import paired_exponents
from rbp.stats.hit_models import PARAMETERS, fit_distance, held_out, summed
from rbp.stats.resampling import document_sums, interval, log_neg_log_share, without_each
from rbp.stats.windows import runs, with_error

CELL = ["dataset", "family", "k"]


def ratios(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """−ln p(N) over N·(−ln RBP_k) for every model, k and N > 1: 1 where the tokens are independent.

    counts: dataset, model, family, size, k, n, successes, windows, with n = 1 for every k. Adds neg_log (−ln p),
    single (−ln RBP_k), ratio, ratio_low, ratio_high; effective (ratio·N: as many independent tokens would succeed as
    rarely), and log10_gain (log₁₀ of p(N) over RBP_k^N: how many times more often windows succeed than equation 6
    says, as a power of ten). The interval is that of `windows.share_error`, normal on ln p; the error of the single
    token, far smaller, is left out. Where no window succeeds, ratio and ratio_high are missing and ratio_low is what
    one success would give.
    """
    first = counts[counts["n"] == 1].set_index(["dataset", "model", "k"])
    if first.empty:
        raise DataError("there are no windows of one token", "windows", "Count windows for n = 1 too.")
    table = with_error(counts)
    single = pd.Series(-np.log((first["successes"] / first["windows"]).astype(float)), first.index)
    table = table[table["n"] > 1].join(single.rename("single"), on=["dataset", "model", "k"])
    table = table[table["single"] > 0]
    count, windows = table["successes"].to_numpy(float), table["windows"].to_numpy(float)
    neg_log = -np.log(np.where(count > 0, count, np.nan) / windows)
    half = norm.ppf((1 + level) / 2) * table["error"].to_numpy()
    independent = table["n"].to_numpy() * table["single"].to_numpy()
    low = np.where(count > 0, np.maximum(neg_log - half, 0), np.log(windows))
    ratio = neg_log / independent
    return table.assign(
        neg_log=neg_log,
        ratio=ratio,
        ratio_low=low / independent,
        ratio_high=(neg_log + half) / independent,
        effective=ratio * table["n"],
        log10_gain=(independent - neg_log) / np.log(10),
    ).reset_index(drop=True)


def ratio_by_length(found: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The ratio by family, k and N over the models: its geometric mean, with the spread of models as the interval.

    found: `ratios`. Only cells in which every model has a success. Columns CELL, n, models, ratio, low, high (a t
    interval of the mean of ln ratio: of models drawn anew on this very text), smallest, largest, effective.
    """
    rows = []
    for key, own in found.groupby([*CELL, "n"]):
        if own["ratio"].isna().any() or len(own) < 2:
            continue
        logs = np.log(own["ratio"].to_numpy())
        half = t_distribution.ppf((1 + level) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        mean, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
        n = key[-1]
        rows.append((*key, len(logs), mean, low, high, own["ratio"].min(), own["ratio"].max(), mean * n))
    names = [*CELL, "n", "models", "ratio", "low", "high", "smallest", "largest", "effective"]
    return pd.DataFrame(rows, columns=names)


def by_size(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Does the exponent change with N? α of −ln p(N), less that of −ln RBP_k, for the same models.

    Under independence both are the same. Only cells in which every model has a success, and three models at least.
    Columns CELL, n, models, alpha (of −ln p(N)), alpha_single, difference, low, high, p: `compare.paired_exponents`.
    The models are the only source of error that the test knows: few windows stand behind a long N.
    """
    rows = []
    for key, own in counts.groupby(CELL):
        share = (own["successes"] / own["windows"]).where(own["successes"] > 0)
        wide = own.assign(y=-np.log(share.astype(float)))
        wide = wide.pivot_table(values="y", index="size", columns="n", dropna=False)
        lengths = [int(n) for n in wide.columns]
        for n in (n for n in lengths if n > 1 and 1 in lengths):
            both = wide[[1, n]]
            if both.isna().any(axis=None) or len(both) < 3:
                continue
            try:
                test = paired_exponents(both.index.to_numpy(), both[n], both[1], level=level)
            except FitError:
                continue
            found = (len(both), test.alpha_first, test.alpha_second, test.difference, test.low, test.high, test.p)
            rows.append((*key, n, *found))
    names = [*CELL, "n", "models", "alpha", "alpha_single", "difference", "low", "high", "p"]
    return pd.DataFrame(rows, columns=names)


def extrapolations(counts: pd.DataFrame, *, up_to: int = 10, at: Sequence[int] = (50, 100)) -> pd.DataFrame:
    """Each law fitted to N ≤ up_to, and held against the success at longer N.

    Independence is equation 6: the single token alone. One row for each model, k, law and length of `at` at which
    some window succeeds: dataset, family, model, size, k, law, n, distance (of the fit), predicted and measured
    (−ln p), factor (predicted over measured), log10_factor (log₁₀ of the predicted p over the measured), error (of
    ln p, `windows.share_error`); edge (the simpler law that it has become, `hit_models.SequenceFit`); and the law's
    parameters. Cells in which a law has more parameters than points, or a share is 0 or 1, are left out.
    """
    rows = []
    for key, own in with_error(counts).groupby(["dataset", "family", "model", "size", "k"]):
        own = own.sort_values("n")
        near, far = own[own["n"] <= up_to], own[own["n"].isin(list(at)) & (own["successes"] > 0)]
        if far.empty or not (near["successes"] > 0).all():
            continue
        for law in PARAMETERS:
            used = near[near["n"] == 1] if law == "independence" else near
            try:
                fit = fit_distance(used["n"], -np.log((used["successes"] / used["windows"]).astype(float)), law)
            except DataError:
                continue
            measured = -np.log(far["successes"].to_numpy(float) / far["windows"].to_numpy(float))
            for n, real, said, error in zip(far["n"], measured, fit.neg_log(far["n"]), far["error"], strict=True):
                rows.append((*key, law, n, fit.distance, said, real, error, fit.edge, fit.parameters))
    names = ["dataset", "family", "model", "size", "k", "law", "n", "distance"]
    names += ["predicted", "measured", "error", "edge"]
    table = pd.DataFrame([row[:-1] for row in rows], columns=names)
    table["factor"] = table["predicted"] / table["measured"]
    table["log10_factor"] = (table["measured"] - table["predicted"]) / np.log(10)
    parameters = pd.DataFrame([row[-1] for row in rows], columns=["hit", "stay", "correlation", "renewal"])
    return pd.concat([table, parameters], axis=1)


_MARGIN = 1e-8  # of a factor: the same from other starts, and from counts changed by 1e-13, to 1e-9


def closest(found: pd.DataFrame) -> "pd.Series[str]":
    """Which law comes closest to the measured −ln p, by model and k; "undecided" where two are as close, to rounding.

    found: rows of `extrapolations` at one length. A law that has become a simpler one is that one, and does not count.
    """
    own = found[found["edge"] == ""]
    off = own.assign(off=own["factor"].map(np.log).abs()).set_index(["model", "k", "law"])["off"].unstack()  # noqa: PD010
    least = off.min(axis=1)
    near = off.le(least + _MARGIN, axis=0).sum(axis=1)
    return off.idxmin(axis=1).where(near == 1, "undecided")


K = (1, 10, 100)
LEVEL = 0.95
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200)

Row = tuple[str, float, float, float, float]  # quantity, x, value, low, high
_NONE = float("nan")


def dependence(
    stores: Sequence[RankStore],
    k: Sequence[int],
    *,
    level: float = LEVEL,
) -> pd.DataFrame:
    """All that a chapter shows of hits along documents: dataset, model, family, size, k, quantity, x, value, low, high.

    quantity, with x:
    - ratio: −ln p(n) over n·(−ln RBP_k), x = n, of overlapping windows, with its interval by documents
      (`rbp.stats.resampling`).
    - p: success of overlapping windows, x = n, with its interval by documents.
    - shared: of `clustering.variance_parts`; design effect, with its interval by documents; x missing.
    - gain markov, gain documents, gain both: `hit_models.held_out`, nats per token, with intervals by documents.
    A k at which every token is a hit, or none, and a k beyond the vocabulary, are left out.
    """
    parts = []
    for store in stores:
        ranked = Ranked(store)
        for threshold in (each for each in k if each <= store.vocabulary):
            hit = np.asarray(ranked.ranks <= threshold)
            if hit.all() or not hit.any():
                continue
            places = ranked.tokens["document"].to_numpy(), ranked.tokens["position"].to_numpy()
            rows = list(_rows(hit, *places, level))
            table = pd.DataFrame(rows, columns=["quantity", "x", "value", "low", "high"])
            about: dict[str, Any] = {
                "dataset": store.dataset,
                "model": store.model,
                "family": store.family,
                "size": store.size,
            }
            parts.append(table.assign(**about, k=threshold))
    if not parts:
        raise DataError("no store has hits and misses at these thresholds", "k", "Choose other thresholds.")
    columns = ["dataset", "model", "family", "size", "k", "quantity", "x", "value", "low", "high"]
    return pd.concat(parts, ignore_index=True)[columns]


@step("ladder_dependence", of=partial(open_source, "ladder"), reads=["data/ladder/families-ranks/neox"], seconds=13)
def _at_every_k(source: Source) -> pd.DataFrame:
    """`dependence` at K."""
    return dependence(source.stores, K)


def dependence_of(source: Source, k: Sequence[int] = K, *, level: float = LEVEL) -> pd.DataFrame:
    """`dependence` of rank stores; of the ladder from its step, where that has these k and this level."""
    if not (_at_every_k.has(source) and set(k) <= set(K) and level == LEVEL):
        return dependence(source.stores, k, level=level)
    table = _at_every_k(source)
    return table[table["k"].isin(k)].reset_index(drop=True)


def at_largest(table: pd.DataFrame) -> pd.DataFrame:
    """`dependence` of the largest model, a row for each dataset and k.

    Columns dataset, k, shared, design effect with effect low and effect high, gain markov, gain documents, gain both.
    NaN where there is none.
    """
    own = table[(table["size"] == table["size"].max()) & table["x"].isna()]
    own = own.drop_duplicates(["dataset", "k", "quantity"])
    names = ["shared", "design effect", "gain markov", "gain documents", "gain both"]
    wide = own.pivot_table(index=["dataset", "k"], columns="quantity", values="value").reindex(columns=names)
    ends = own[own["quantity"] == "design effect"].set_index(["dataset", "k"])[["low", "high"]]
    wide = wide.join(ends.add_prefix("effect "))
    found: pd.DataFrame = wide.reindex(dataset_order(own["dataset"]), level="dataset").rename_axis(columns=None)
    return found.reset_index()


def _rows(hit: np.ndarray, documents: Integers, positions: Integers, level: float) -> Iterator[Row]:
    yield from _windows(hit, documents, positions, level)
    yield "shared", _NONE, variance_parts(hit, documents).shared, _NONE, _NONE
    yield "design effect", _NONE, *_design_effect(hit, documents, level)
    try:
        gains = held_out(summed(hit, documents, positions), level=level)
    except (DataError, FitError):  # too few documents, or too short ones
        return
    for name, gain, low, high in gains[["model", "gain", "low", "high"]].itertuples(index=False):
        yield f"gain {name}", _NONE, gain, low, high


def _design_effect(hit: np.ndarray, documents: Integers, level: float) -> tuple[float, float, float]:
    with np.errstate(invalid="ignore", divide="ignore"):  # without one document the others may not vary
        value, low, high = np.exp(interval(log_design_effect(without_each(cluster_sums(hit, documents))), level=level))
    return float(value), float(low), float(high)


def _log_ratio(totals: Any) -> Any:
    """ln of −ln p(n) over −ln p(1), from totals of successes and windows of n, hits and tokens."""
    good, all_, hits, tokens = (totals[..., i] for i in range(4))
    with np.errstate(divide="ignore"):  # no success
        return np.log(np.log(good / all_) / np.log(hits / tokens))


def _windows(hit: np.ndarray, documents: Integers, positions: Integers, level: float) -> Iterator[Row]:
    """Window success and its ratio to independence, with intervals from documents."""
    reached, place = runs(hit, documents, positions), runs(np.ones_like(hit), documents, positions)
    lengths = [n for n in LENGTHS if (place >= n).any()]
    columns = [each >= n for n in lengths for each in (reached, place)]
    sums = document_sums(np.column_stack(columns), documents)
    p = sums[:, ::2].sum(axis=0) / sums[:, 1::2].sum(axis=0)
    for i, length in enumerate(lengths):
        own = sums[:, 2 * i : 2 * i + 2]
        _, *ends = interval(log_neg_log_share(without_each(own)), level=level)
        with np.errstate(over="ignore"):  # e to the power of minus infinity is 0
            high, low = np.exp(-np.exp(ends))
        yield "p", length, float(p[i]), float(low), float(high)
        if length > 1 and p[i] > 0:
            both = np.column_stack([own, sums[:, :2]])
            _, low, high = np.exp(interval(_log_ratio(without_each(both)), level=level)) / length
            yield "ratio", length, float(np.log(p[i]) / (length * np.log(p[0]))), float(low), float(high)
