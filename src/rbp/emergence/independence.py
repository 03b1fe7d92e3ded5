"""How far from independent the tokens of a window are, by the counts of windows that succeed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as t_distribution

from rbp.emergence.counts import with_error
from rbp.emergence.models import PARAMETERS, fit_distance
from rbp.errors import DataError, FitError
from rbp.scaling import paired_exponents

CELL = ["dataset", "family", "k"]


def ratios(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """−ln p(N) over N·(−ln RBP_k) for every model, k and N > 1: 1 where the tokens are independent.

    counts: dataset, model, family, size, k, n, successes, windows, with n = 1 for every k. Adds neg_log (−ln p),
    single (−ln RBP_k), ratio, ratio_low, ratio_high; effective (ratio·N: as many independent tokens would succeed as
    rarely), and log10_gain (log₁₀ of p(N) over RBP_k^N: how many times more often windows succeed than equation 6
    says, as a power of ten). The interval is that of `counts.share_error`, normal on ln p; the error of the single
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
    Columns CELL, n, models, alpha (of −ln p(N)), alpha_single, difference, low, high, p: `scaling.paired_exponents`.
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
    ln p, `counts.share_error`); edge (the simpler law that it has become, `models.SequenceFit`); and the law's
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
