"""Cross-entropy beside −ln RBP_k: on the same models where both are known, and as Table 1 prints them."""

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.errors import DataError, FitError
from rbp.evidence import published
from rbp.stats.compare import paired_exponents

#: a difference of two slopes, each printed to three digits, is known to this
ROUNDING = 0.001


def pair_metrics(table: pd.DataFrame, k: int = 1) -> pd.DataFrame:
    """The models of a measurement table for which both cross-entropy and −ln RBP_k are known.

    Columns dataset, family, model, size, cross_entropy, neg_log_rbp, ratio (the first over the second). Raises
    DataError where there is no such model.
    """
    keys = ["dataset", "family", "model", "size"]
    chosen = table[(table["metric"] == "cross_entropy") | (table["k"] == k).fillna(False)]
    wide = chosen.pivot_table(index=keys, columns="metric", values="value", observed=True)
    if not {"cross_entropy", "neg_log_rbp"} <= set(wide.columns) or wide.dropna().empty:
        raise DataError(
            f"no model has both its cross-entropy and −ln RBP_{k} on one dataset",
            "measurements",
            "Give a source that holds rows of both metrics for the same models.",
        )
    pairs = wide.dropna().reset_index().rename_axis(columns=None)
    return pairs.assign(ratio=pairs["cross_entropy"] / pairs["neg_log_rbp"])


def paired_table(pairs: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The paired test of α of cross-entropy against α of −ln RBP_k, for each dataset and family of `pairs`.

    Columns dataset, family, n (models), size_min, size_max, the fields of `PairedExponents`, and note: why there
    is no test ("" where there is one; its numbers are then missing).
    """
    rows = []
    for (dataset, family), own in pairs.groupby(["dataset", "family"]):
        cell = {"dataset": dataset, "family": family, "n": len(own), "note": ""}
        cell |= {"size_min": own["size"].min(), "size_max": own["size"].max()}
        try:
            test = paired_exponents(own["size"], own["cross_entropy"], own["neg_log_rbp"], level=level)
            rows.append(cell | vars(test))
        except FitError as error:
            rows.append(cell | {"note": error.what})
    columns = ["dataset", "family", "n", "size_min", "size_max", "difference", "low", "high", "t", "p", "df"]
    return pd.DataFrame(rows, columns=[*columns, "alpha_first", "alpha_second", "level", "note"])


def printed_differences() -> pd.DataFrame:
    """Table 1: in each cell and for each k, the printed exponent of cross-entropy minus that of −ln RBP_k.

    Columns dataset, family, k, alpha_ce, alpha_rbp, difference, r_squared_ce, r_squared_rbp, within: whether the
    rounding of the two printed slopes can be all of their difference.
    """
    printed = published.table1().assign(alpha=lambda table: -table["slope"])
    columns = ["dataset", "family", "alpha", "r_squared"]
    entropy = printed.loc[printed["metric"] == "cross_entropy", columns]
    ranks = printed.loc[printed["metric"] == "neg_log_rbp", [*columns, "k"]]
    table = entropy.merge(ranks, on=["dataset", "family"], suffixes=("_ce", "_rbp"))
    table["difference"] = (table["alpha_ce"] - table["alpha_rbp"]).round(3)
    table["within"] = table["difference"].abs() <= ROUNDING + 1e-9
    return table.sort_values(["dataset", "family", "k"], ignore_index=True)


def closeness_by_k(printed: pd.DataFrame) -> pd.DataFrame:
    """For each k of `printed_differences`: how near its exponents are to those of cross-entropy.

    Columns k, mean_difference, mean_distance (of |difference|), correlation over the cells, closest: in how many
    cells this k is the nearest of all (a tie counts for each).
    """
    distance = printed["difference"].abs()
    nearest = distance <= distance.groupby([printed["dataset"], printed["family"]]).transform("min") + 1e-9
    rows = [
        {
            "k": k,
            "mean_difference": own["difference"].mean(),
            "mean_distance": own["difference"].abs().mean(),
            "correlation": own["alpha_ce"].corr(own["alpha_rbp"]),
            "closest": int(nearest[own.index].sum()),
        }
        for k, own in printed.groupby(printed["k"].astype("int64"))
    ]
    return pd.DataFrame(rows)


def crossing_k(k: npt.ArrayLike, alpha: npt.ArrayLike, target: float) -> float:
    """The threshold, on a logarithmic scale of k, at which α_k first equals `target`; NaN where it never does.

    `k` and `alpha` have shape (n,), k in increasing order.
    """
    x, above = np.log(np.asarray(k, float)), np.asarray(alpha, float) - target
    for i in range(len(x) - 1):
        if above[i] * above[i + 1] <= 0 and above[i] != above[i + 1]:
            return float(np.exp(x[i] + (x[i + 1] - x[i]) * above[i] / (above[i] - above[i + 1])))
    return float("nan")


def order_disagreements(pairs: pd.DataFrame) -> pd.DataFrame:
    """Every two models of one dataset of `pairs`, and whether the two metrics order them alike.

    Columns dataset, first, second (models), same_family, disagree: the one with the lower cross-entropy has the
    lower RBP_k (the higher −ln RBP_k).
    """
    rows = [
        {
            "dataset": dataset,
            "first": a["model"],
            "second": b["model"],
            "same_family": a["family"] == b["family"],
            "disagree": (a["cross_entropy"] - b["cross_entropy"]) * (a["neg_log_rbp"] - b["neg_log_rbp"]) < 0,
        }
        for dataset, own in pairs.groupby("dataset")
        for a, b in combinations(own.to_dict("records"), 2)
    ]
    return pd.DataFrame(rows, columns=["dataset", "first", "second", "same_family", "disagree"])
