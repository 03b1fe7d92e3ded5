"""Cross-entropy beside −ln RBP_k: on the same models where both are known, and as Table 1 prints them."""

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.errors import DataError, FitError
from rbp.evidence import published
from rbp.paper.against_print import HALF_DIGIT
from rbp.paper.display import INTERVAL_4, shown, weak
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

    Columns dataset, family, n (models), size_min, size_max, the fields of `PairedExponents`, note: why there is no
    test ("" where there is one; else its numbers are missing), relative: the difference in per cent of the exponent
    of −ln RBP_k, and drift: by how many per cent it moves the ratio of the two from the smallest size to the largest.
    Raises DataError where there is no test at all.
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
    tests = pd.DataFrame(rows, columns=[*columns, "alpha_first", "alpha_second", "level", "note"])
    if tests["difference"].isna().all():
        raise DataError("no family has both metrics at three sizes", "measurements", "Give a source with more models.")
    span = tests["size_max"] / tests["size_min"]
    return tests.assign(
        relative=100 * tests["difference"] / tests["alpha_second"], drift=100 * (span ** -tests["difference"] - 1)
    )


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


def crossings(printed: pd.DataFrame) -> pd.DataFrame:
    """Where the curves of figure 6, exponents at every k, cross the exponent of cross-entropy of `printed_differences`.

    Columns dataset, family, crossing (the k, see `crossing_k`), above: whether all of the curve lies above.
    """
    curves = (
        published.fit_by_k()
        .dropna(subset="slope")
        .merge(printed[["dataset", "family", "alpha_ce"]].drop_duplicates(), on=["dataset", "family"])
    )
    rows = []
    for (dataset, family), own in curves.sort_values("k").groupby(["dataset", "family"]):
        alpha, target = -own["slope"], own["alpha_ce"].iloc[0]
        rows.append((dataset, family, crossing_k(own["k"], alpha, target), bool((alpha > target).all())))
    return pd.DataFrame(rows, columns=["dataset", "family", "crossing", "above"])


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


def odd_pair(pairs: pd.DataFrame, orders: pd.DataFrame) -> pd.DataFrame:
    """The rows of `pairs` of the first two models of two families whose order the metrics disagree on.

    The one of the higher cross-entropy comes first. No row where there are no such two.
    """
    odd = orders[orders["disagree"] & ~orders["same_family"]].head(1)
    names = odd.melt("dataset", ["first", "second"], value_name="model")[["dataset", "model"]]
    return pairs.merge(names, on=["dataset", "model"]).sort_values("cross_entropy", ascending=False)


def paired_test_shown(tests: pd.DataFrame, k: int, level: float) -> dict[str, Any]:
    """`paired_table` as a page shows it, the cells that have a test."""
    tested = tests.dropna(subset="difference")
    return shown(
        tested.assign(note=weak(tested["n"])),
        {
            "dataset": "Dataset",
            "family": "Family",
            "n": "sizes",
            "alpha_first": ("α, cross-entropy", "{:.4f}"),
            "alpha_second": (f"α, −ln RBP, k = {k}", "{:.4f}"),
            "difference": ("difference", "{:.4f}"),
            ("low", "high"): (f"{level:.0%} interval", INTERVAL_4),
            "p": ("p", "{:.2g}"),
            "note": "note",
        },
        caption="<b>The paired test.</b> The difference of the exponents, from the slope of the ratio. Four sizes "
        "leave two degrees of freedom: such a test finds large differences only.",
        data=tests,
    )


def closeness_shown(closeness: pd.DataFrame) -> dict[str, Any]:
    """`closeness_by_k` as a page shows it."""
    return shown(
        closeness,
        {
            "k": "k",
            "mean_difference": ("mean difference", "{:.3f}"),
            "mean_distance": ("mean distance", "{:.3f}"),
            "correlation": ("correlation", "{:.2f}"),
            "closest": "cells where it is nearest",
        },
        caption="<b>Is k = 1 the threshold that scales like cross-entropy?</b> Over the cells of Table 1: the mean of "
        "α (cross-entropy) − α (−ln RBP<sub>k</sub>), the mean of its size, the correlation of the two exponents over "
        "the cells, and in how many cells this k is nearest of all.",
    )


def printed_shown(printed: pd.DataFrame) -> dict[str, Any]:
    """`printed_differences` at k = 1 as a page shows them, with the k that is nearest in each cell."""
    nearest = printed.loc[printed["difference"].abs().groupby([printed["dataset"], printed["family"]]).idxmin()]
    nearest = nearest[["dataset", "family", "k"]].rename(columns={"k": "nearest"})
    table = printed[printed["k"] == 1].merge(nearest, on=["dataset", "family"])
    return shown(
        table.assign(within=table["within"].map({True: "yes", False: "no"})),
        {
            "dataset": "Dataset",
            "family": "Family",
            "alpha_ce": ("α, cross-entropy", "{:.3f}"),
            "alpha_rbp": ("α, −ln RBP₁", "{:.3f}"),
            "difference": ("difference", "{:.3f}"),
            "within": "rounding explains it",
            "nearest": "nearest k",
            "r_squared_ce": ("R², cross-entropy", "{:.3f}"),
            "r_squared_rbp": ("R², −ln RBP₁", "{:.3f}"),
        },
        caption="<b>Cross-entropy and RBP₁ in Table 1 of the paper</b>, as printed. The differences have no interval.",
        data=table,
    )


def beside_table_1(tests: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """A `paired_table` at k = 1 beside the printed exponents, where Table 1 has the cell.

    Its rows with alpha_ce and alpha_rbp (printed), and agree: how many of the two round to the printed digits.
    """
    cells = printed.loc[printed["k"] == 1, ["dataset", "family", "alpha_ce", "alpha_rbp"]]
    table = tests.dropna(subset="difference").merge(cells, on=["dataset", "family"])
    off = table[["alpha_first", "alpha_second"]].to_numpy() - table[["alpha_ce", "alpha_rbp"]].to_numpy()
    return table.assign(agree=(np.abs(off) <= HALF_DIGIT).sum(axis=1))


def beside_table_1_shown(beside: pd.DataFrame) -> dict[str, Any]:
    """`beside_table_1` as a page shows it, by slopes."""
    exponents = ["alpha_first", "alpha_ce", "alpha_second", "alpha_rbp"]
    return shown(
        beside.assign(**{name: -beside[name] for name in exponents}),
        {
            "dataset": "Dataset",
            "family": "Family",
            "alpha_first": ("cross-entropy, ours", "{:.4f}"),
            "alpha_ce": ("cross-entropy, printed", "{:.3f}"),
            "alpha_second": ("−ln RBP₁, ours", "{:.4f}"),
            "alpha_rbp": ("−ln RBP₁, printed", "{:.3f}"),
        },
        caption="<b>Our slopes beside those of Table 1</b>, where the points of both metrics are published.",
        data=beside,
    )
