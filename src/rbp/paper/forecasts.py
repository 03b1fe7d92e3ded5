"""What the power law forecasts, and how it compares with other curves: summaries and tables of the chapter on it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.errors import FitError
from rbp.paper.display import INTERVAL, Columns, shown
from rbp.stats import cells as questions
from rbp.stats.power_law import fit_power_law


def summary(told: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """How the forecasts of `cells.forecasts` came out, by the columns `by`.

    Columns `by`, n (points fitted: "8", or "3 or 4"), count, covered (inside their interval), optimistic (−ln RBP_k
    forecast too low), and in per cent: error_signed (the median of the relative error), error_median, error_largest (of
    its size), width_median (of the interval, relative to the forecast).
    """
    rows = told.assign(
        n=told["n"].astype(str),
        optimistic=told["error"] < 0,
        error=told["error"].abs(),
        error_signed=told["error"],
        width=(told["high"] - told["low"]) / told["predicted"],
    )
    table = rows.groupby(list(by), as_index=False, sort=True).agg(
        n=("n", lambda n: " or ".join(sorted(set(n), key=int))),
        count=("covered", "size"),
        covered=("covered", "sum"),
        optimistic=("optimistic", "sum"),
        error_signed=("error_signed", "median"),
        error_median=("error", "median"),
        error_largest=("error", "max"),
        width_median=("width", "median"),
    )
    per_cent = ["error_signed", "error_median", "error_largest", "width_median"]
    return table.assign(**{name: 100 * table[name] for name in per_cent})


def forecasts_shown(told: pd.DataFrame, by: Sequence[str], caption: str) -> dict[str, Any]:
    """`summary` as a page shows it."""
    labels = {"dataset": "Dataset", "family": "Family", "k": "k", "hidden": "largest models hidden"}
    cells: Columns = {name: labels[name] for name in by}
    return shown(
        summary(told, by),
        {
            **cells,
            "n": "points fitted",
            "count": "forecasts",
            "covered": "covered",
            "optimistic": "too hopeful",
            "error_signed": ("median error (%)", "{:+.1f}"),
            "error_median": ("median size of it (%)", "{:.1f}"),
            "error_largest": ("largest error (%)", "{:.1f}"),
            "width_median": ("median width (%)", "{:.1f}"),
        },
        caption=caption,
        data=told,
    )


def control(table: pd.DataFrame, told: pd.DataFrame, *, holdout: int, holdout_few: int, level: float) -> pd.DataFrame:
    """Cross-entropy forecast from S by the same law, for the hidden models of `told` whose cross-entropy `table` holds.

    A row for each model and k of `told` (`cells.forecasts`): its columns, and value, predicted, error, covered of
    cross-entropy, with the suffix _control. No row where the source has no cross-entropy of four sizes.
    """
    entropy = table[table["metric"] == "cross_entropy"]
    names = ["dataset", "family", "model"]
    wanted = ["value", "predicted", "error", "covered"]
    try:
        found = questions.forecasts(entropy, holdout=holdout, holdout_few=holdout_few, level=level)
    except FitError:
        found = pd.DataFrame(columns=[*names, *wanted])
    return told.merge(found[[*names, *wanted]], on=names, suffixes=("", "_control"))


def control_shown(beside: pd.DataFrame) -> dict[str, Any]:
    """`control` as a page shows it."""
    percent = {name: 100 * beside[name] for name in ("error", "error_control")}
    said = {name: beside[name].map({True: "yes", False: "no"}) for name in ("covered", "covered_control")}
    return shown(
        beside.assign(**percent, **said),
        {
            "dataset": "Dataset",
            "model": "Model",
            "k": "k",
            "ahead": ("times ahead", "{:.1f}"),
            "error": ("error, RBP (%)", "{:.1f}"),
            "covered": "covered, RBP",
            "error_control": ("error, cross-entropy (%)", "{:.1f}"),
            "covered_control": "covered, cross-entropy",
        },
        caption="<b>The control: the same law forecasts the same models’ cross-entropy.</b> Below zero: too hopeful.",
        data=beside,
    )


def cuts(points: pd.DataFrame, *, level: float) -> pd.DataFrame:
    """The larger models of one family forecast from the smallest three sizes, from four, and so on.

    `points` are one cell's. Columns seen (models fitted), hidden (models that are not), model, size, value (measured),
    predicted, low, high.
    """
    points = points.sort_values(["size", "model"])
    rows: list[pd.DataFrame] = []
    for largest in sorted(set(points["size"]))[2:-1]:
        small, large = points[points["size"] <= largest], points[points["size"] > largest]
        told = fit_power_law(small["size"], small["value"], level=level).predict(large["size"])
        told = told.rename(columns={"value": "predicted"})[["predicted", "low", "high"]]
        known = large[["model", "size", "value"]].reset_index(drop=True)
        rows.append(pd.concat([known, told.reset_index(drop=True)], axis=1).assign(seen=len(small), hidden=len(large)))
    return pd.concat(rows, ignore_index=True)


def every_cut(points: pd.DataFrame, *, level: float) -> pd.DataFrame:
    """`cuts` of each cell of four sizes or more, whatever the number of hidden models: no cut is chosen.

    Columns CELL, those of `cuts`, n (as seen), error (predicted/value − 1) and covered. Raises FitError where no cell
    has four sizes.
    """
    cells = []
    for key, own in points.groupby(questions.CELL):
        if own["size"].nunique() > 3:
            cell: dict[str, Any] = dict(zip(questions.CELL, key, strict=True))
            cells.append(cuts(own, level=level).assign(**cell))
    if not cells:
        raise FitError("no family has points enough", "measurements", "Give at least four sizes of one family.")
    told = pd.concat(cells, ignore_index=True)
    covered = told["value"].between(told["low"], told["high"])
    return told.assign(n=told["seen"], error=told["predicted"] / told["value"] - 1, covered=covered)


def curve_errors(told: pd.DataFrame) -> "pd.Series[float]":
    """The median size of each curve's relative error in the forecasts, in per cent: by "power_law", "offset" …"""
    errors = told.filter(regex="^error").abs().median()
    return 100 * errors.rename(lambda name: name.removeprefix("error").strip().replace(" ", "_") or "power_law")


def same_side(residuals: pd.DataFrame) -> tuple[int, int]:
    """How many neighbours in size lie on the same side of their line, and of how many.

    `residuals` comes from `cells.residuals`.
    """
    same = pairs = 0
    for _, own in residuals.sort_values("size").groupby(["dataset", "k", "family"]):
        sides = np.sign(own["residual"].to_numpy())
        same += int((sides[1:] == sides[:-1]).sum())
        pairs += len(sides) - 1
    return same, pairs


def offsets_shown(floor: pd.DataFrame, family: str, level: float) -> dict[str, Any]:
    """`cells.offsets` of one family as a page shows them."""
    own = floor[floor["family"] == family]
    return shown(
        own.assign(verdict=own["distinguishable"].map({True: "told from 0", False: "not told from 0"})),
        {
            "dataset": "Dataset",
            "k": "k",
            "offset": ("E", "{:.3f}"),
            ("offset_low", "offset_high"): (f"{level:.0%} interval", INTERVAL),
            "smallest": ("smallest value", "{:.3f}"),
            "verdict": "verdict",
        },
        caption=f"<b>{family}: a floor E under −ln RBPₖ</b>, beside the smallest value that was measured. The CSV has "
        "all families.",
        data=floor,
    )


def imitations_shown(drawn: pd.DataFrame, family: str, good_fit: float, draws: int, seed: int) -> dict[str, Any]:
    """`cells.imitations` as a page shows them; `family` is whose curves were drawn."""
    share = f"R² ≥ {good_fit:g} (%)"
    return shown(
        drawn.assign(share=100 * drawn["share"]),
        {
            "shape": "true curve",
            "sampled": "sizes of",
            "n": "sizes",
            "smooth": ("R², no scatter", "{:.4f}"),
            "median": ("median R²", "{:.3f}"),
            ("low", "high"): ("R², 5% to 95%", INTERVAL),
            "share": (share, "{:.0f}"),
        },
        caption=f"<b>R² of a power law on curves that are and are not power laws</b>, {draws} draws each (seed "
        f"{seed}), with the scatter of {family}.",
        data=drawn,
    )
