"""Table 1 of the paper beside what is recomputed: what is counted, named and shown of `against_print.recompute`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from rbp.paper.display import INTERVAL, shown
from rbp.paper.wording import dataset_label, dataset_order


def agreement(cells: pd.DataFrame) -> tuple[int, int]:
    """How many printed numbers, slopes and R², are compared, and how many of them agree to every digit."""
    agree = cells[["slope_agrees", "r_squared_agrees"]].dropna()
    return agree.size, int(agree.to_numpy(dtype=bool).sum())


def metric_names(cells: pd.DataFrame) -> list[str]:
    """ "cross-entropy", or "k = 10", of each cell."""
    return ["cross-entropy" if pd.isna(k) else f"k = {k}" for k in cells["k"]]


def named(cells: pd.DataFrame, *, r_squared: bool = False) -> str:
    """The cells in one line, each by family, dataset and metric, on request with the printed R²."""
    texts = cells["family"] + ", " + cells["dataset"].map(dataset_label) + ", " + metric_names(cells)
    if r_squared:
        texts += cells["printed_r_squared"].map(" ({:.3f})".format)
    return "; ".join(texts)


def metrics_apart(cells: pd.DataFrame) -> pd.DataFrame:
    """The printed fits of cross-entropy and of −ln RBP_1, by dataset and family.

    Columns dataset, family, r_squared_off (the difference, to the printed digits) and slope_off (of the
    slopes, in per cent of that of −ln RBP_1).
    """
    entropy, first = cells[cells["metric"] == "cross_entropy"], cells[cells["k"] == 1]
    pair = entropy.merge(first, on=["dataset", "family"], suffixes=("", "_1"))
    return pair[["dataset", "family"]].assign(
        r_squared_off=(pair["printed_r_squared"] - pair["printed_r_squared_1"]).abs().round(3),
        slope_off=(100 * (pair["printed_slope"] / pair["printed_slope_1"] - 1)).abs().round(9),
    )


def steeper_with_k(cells: pd.DataFrame) -> pd.DataFrame:
    """Whether the printed exponent rises from the last k to this one: a row by dataset and family, a column by k."""
    ranks = cells[cells["metric"] == "neg_log_rbp"]
    slopes = ranks.pivot_table(index=["dataset", "family"], columns="k", values="printed_slope")
    return slopes.diff(axis=1).iloc[:, 1:] < 0


def datasets_shown(cells: pd.DataFrame, level: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """The recomputed cells of each dataset beside the printed ones, with the dataset's name."""
    have = cells[cells["verdict"] != "no points"]
    for dataset in dataset_order(have["dataset"]):
        own = have[have["dataset"] == dataset]
        compared, agree = agreement(own)
        rows = own.assign(
            metric=metric_names(own),
            low=-own["alpha_high"],
            high=-own["alpha_low"],
            agrees=own["verdict"].map({"agrees": "yes", "differs": "no"}),
        ).replace({"metric": {"cross-entropy": "CE"}})
        yield (
            dataset,
            shown(
                rows,
                {
                    "metric": "Metric",
                    "family": "Family",
                    "n": ("sizes", "{:.0f}"),
                    "slope": ("slope", "{:.4f}"),
                    "printed_slope": ("printed", "{:.3f}"),
                    ("low", "high"): (f"{level:.0%} interval", INTERVAL),
                    "r_squared": ("R²", "{:.4f}"),
                    "printed_r_squared": ("R² printed", "{:.3f}"),
                    "agrees": "agrees",
                },
                caption=f"<b>{dataset_label(dataset)}: ours beside the printed</b>; {agree} of {compared} numbers "
                "agree.",
                data=own,
            ),
        )


def unclear_shown(unclear: pd.DataFrame, level: float) -> dict[str, Any]:
    """The cells whose printed slope cannot be told from zero."""
    return shown(
        unclear.assign(metric=metric_names(unclear)),
        {
            "dataset": "Dataset",
            "family": "Family",
            "metric": "Metric",
            "models": "sizes",
            "printed_slope": ("slope", "{:.3f}"),
            "printed_r_squared": ("R²", "{:.3f}"),
            ("implied_low", "implied_high"): (f"implied {level:.0%} interval", INTERVAL),
            "implied_p": ("p", "{:.3f}"),
        },
        caption="<b>Printed slopes that cannot be told from zero</b>, by the interval that slope and R² imply for so "
        "many models. For C4 and GitHub it takes the models to be those of the other datasets.",
        data=unclear,
    )


def largest_change(size: "pd.Series[int]") -> float:
    """The largest relative change of the value, from the smallest size to the largest, whose slope prints as 0.000."""
    return float(0.0005 * np.log(size.max() / size.min()))
