"""Can it forecast? Hidden models at every cut, the control by cross-entropy, other curves, and the explorer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

from companion.page import data_within
from companion.stats import cells as questions
from companion.stats.shapes import SHAPES, fit_shape
from rbp.arrays import Reals
from rbp.errors import FitError
from rbp.figures.curves import LINES, SIGNED, off_the_line
from rbp.figures.style import FAINT, INK, LABELS, Panels, family_style, log_axis, neg_log_rbp_label, single_panel
from rbp.figures.wording import DATASETS, FAMILIES, cell_label, dataset_label, dataset_order
from rbp.laws.offset import extended
from rbp.laws.power import fit_power_law
from rbp.measurements import Source
from rbp.report.display import INTERVAL, Columns, shown


def summary(told: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """How the forecasts of `cells.forecasts` came out, by the columns `by`.

    Columns `by`, n (points fitted: "8", or "3 or 4"), count, covered (inside their interval), optimistic (−ln RBP_k
    forecast too low), and in per cent: error_signed (the median of the relative error), error_median, error_largest (of
    its size), width_median (of the interval, relative to the forecast). Of the law with a fitted floor (`cuts`),
    where there is one: floored, floor_optimistic (how many forecasts, and too low), floor_median, and floor_zero (how
    many lines have a floor of 0). score: the mean of `interval_scores`, where `every_cut` has it.
    """
    rows = told.assign(
        n=told["n"].astype(str),
        optimistic=told["error"] < 0,
        error=told["error"].abs(),
        error_signed=told["error"],
        width=(told["high"] - told["low"]) / told["predicted"],
        floor_optimistic=told["floor_error"] < 0,
        floor_error=told["floor_error"].abs(),
        floor_zero=(told["floor"] == 0) & ~told.duplicated([*questions.CELL, "n"]),
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
        score=("score", "mean"),
        floored=("floor_error", "count"),
        floor_optimistic=("floor_optimistic", "sum"),
        floor_median=("floor_error", "median"),
        floor_zero=("floor_zero", "sum"),
    )
    per_cent = ["floor_median", "error_signed", "error_median", "error_largest", "width_median"]
    return table.assign(**{name: 100 * table[name] for name in per_cent})


def forecasts_shown(told: pd.DataFrame, by: Sequence[str], caption: str) -> dict[str, Any]:
    """`summary` as a page shows it."""
    labels = {"dataset": "Dataset", "family": "Family", "k": "k", "hidden": "largest models hidden"}
    cells: Columns = {name: labels[name] for name in by}
    return shown(
        summary(told, by),
        {
            **cells,
            "count": "forecasts",
            "covered": "covered",
            "optimistic": "too optimistic",
            "error_signed": ("median error (%)", "{:+.1f}"),
            "error_median": ("median size of it (%)", "{:.1f}"),
            "width_median": ("median width (%)", "{:.1f}"),
            "score": ("mean interval score (%)", "{:.0f}"),
            "floor_median": ("size of it with a floor (%)", "{:.1f}"),
        },
        caption=caption,
        data=told,
    )


def interval_scores(value: Reals, low: Reals, high: Reals, level: float) -> Reals:
    """Score intervals of confidence `level` by what came: the less, the better; in per cent of the value.

    Of the logarithms, the width plus 2/(1 − level) times what the value lies outside by (Gneiting and Raftery, 2007,
    equation 43). A wide interval scores badly although it covers. An exact interval of normal errors whose median size
    is 5 per cent scores 35 on average, at 95 per cent.
    """
    outside = np.maximum(np.log(low / value), 0) + np.maximum(np.log(value / high), 0)
    scores: Reals = 100 * (np.log(high / low) + 2 / (1 - level) * outside)
    return scores


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


def cuts(points: pd.DataFrame, *, level: float) -> pd.DataFrame:
    """The larger models of one family forecast from the smallest three sizes, from four, and so on.

    `points` are one cell's. Columns seen (models fitted), hidden (models that are not), model, size, value (measured),
    predicted, low, high; and of E + A·S^(−α), fitted to the same models where they are four sizes: floor (E), floored
    (the forecast), which are NaN elsewhere.
    """
    points = points.sort_values(["size", "model"])
    rows: list[pd.DataFrame] = []
    for largest in sorted(set(points["size"]))[2:-1]:
        small, large = points[points["size"] <= largest], points[points["size"] > largest]
        told = fit_power_law(small["size"], small["value"], level=level).predict(large["size"])
        told = told.rename(columns={"value": "predicted"})[["predicted", "low", "high"]]
        known = large[["model", "size", "value"]].reset_index(drop=True)
        floor, floored = np.nan, np.full(len(large), np.nan)
        if small["size"].nunique() > 3:
            floor, floored = extended(small["size"], small["value"], large["size"])
        known = known.assign(floor=floor, floored=floored)
        rows.append(pd.concat([known, told.reset_index(drop=True)], axis=1).assign(seen=len(small), hidden=len(large)))
    return pd.concat(rows, ignore_index=True)


def every_cut(points: pd.DataFrame, *, level: float) -> pd.DataFrame:
    """`cuts` of each cell of four sizes or more, whatever the number of hidden models: no cut is chosen.

    Columns CELL, those of `cuts`, n (as seen), error (predicted/value − 1), floor_error, covered, score
    (`interval_scores`). Raises FitError where no cell has four sizes.
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
    errors = {"error": told["predicted"] / told["value"] - 1, "floor_error": told["floored"] / told["value"] - 1}
    value, low, high = (told[name].to_numpy(np.float64) for name in ("value", "low", "high"))
    scores = interval_scores(value, low, high, level)
    return told.assign(n=told["seen"], **errors, covered=covered, score=scores)


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


# ── What the page and the ledger say

#: the mean interval score of a good cut: see `interval_scores`
SCORE = 35
FLOORED = ("floored", "floor_optimistic", "floor_median", "floor_zero")


def cuts_told(every: pd.DataFrame, family: str) -> dict[str, Any]:
    """What the page and the ledger say of `every_cut`: of each cut, more of `family`, and of all of them."""
    outcomes = summary(every, ["family", "hidden"])
    found: dict[str, Any] = {}
    for row in outcomes.to_dict("records"):
        cut, own = f"{row['family']}.h{row['hidden']}", row["family"] == family
        found |= {f"cut.score.{cut}": row["score"], f"cut.error_median.{cut}": row["error_median"]}
        if row["hidden"] == 1 or (own and row["hidden"] in (2, 6)):
            found |= {f"cut.count.{cut}": row["count"], f"cut.optimistic.{cut}": row["optimistic"]}
        if own and row["hidden"] == 2:
            found |= {f"cut.{name}.{cut}": row[name] for name in FLOORED}
    for name, own in (("one", every[every["hidden"] == 1]), ("all", every)):
        found |= {f"cuts.{name}.count": len(own), f"cuts.{name}.optimistic": int((own["error"] < 0).sum())}
    return found | {
        "cuts.made": len(outcomes),
        "cuts.covering": int((outcomes["covered"] / outcomes["count"] >= 0.9).sum()),
        "cuts.near": int((outcomes["error_median"] <= 5).sum()),
        "cuts.sharp": int((outcomes["score"] <= SCORE).sum()),
        "cuts.width_max": outcomes["width_median"].max(),
    }


def control_told(beside: pd.DataFrame) -> dict[str, Any]:
    """What the page says of the control (`control`)."""
    if beside.empty:
        return {}
    models = beside.drop_duplicates(["dataset", "model"])
    return {
        "control.models": len(models),
        "control.optimistic": int((models["error_control"] < 0).sum()),
        "control.error_median": 100 * models["error_control"].abs().median(),
        "control.rbp_error_median": 100 * beside.loc[beside["k"] == beside["k"].min(), "error"].abs().median(),
    }


def curves_told(
    family: str, floor: pd.DataFrame, bent: pd.DataFrame, drawn: pd.DataFrame, level: float
) -> dict[str, Any]:
    """What the page says of a floor (of one family), of bends, and of other curves."""
    own = floor[floor["family"] == family]
    strongest = bent.sort_values("p").iloc[0]
    found: dict[str, Any] = {"offset.cells": len(own), "offset.told": int(own["distinguishable"].sum())}
    found |= {"offset.r_squared_median": floor["r_squared"].median()}
    found |= {
        "bent.cells": len(bent),
        "bent.alarms": int(bent["alarm"].sum()),
        "bent.expected": (1 - level) * len(bent),
    }
    found |= {"bent.alarms_holm": int(bent["alarm_holm"].sum()), "bent.upwards": int((bent["coefficient"] > 0).sum())}
    found |= {"bent.strongest": f"{cell_label(strongest)} at k = {strongest['k']}"}
    known = drawn["shape"].isin(["power law", "logarithm"]) & drawn["sampled"].isin([family, "GPT-2"])
    for row in drawn[known].to_dict("records"):
        found |= {f"drawn.{row['shape'].replace(' ', '_')}.{row['sampled']}": 100 * row["share"]}
    return found


# ── Figures


def cut_panels(told: pd.DataFrame) -> Panels:
    """The errors of all forecasts by how many of a family's largest models were hidden, families side by side.

    `told`: `forecasts.every_cut`. Below zero a forecast is too optimistic; within a column k grows from left to right.
    """
    rows = told.assign(off=100 * told["error"], floored=100 * told["floor_error"])
    ks = sorted(rows["k"].unique())
    cuts = rows.groupby("family")["hidden"].max().sort_values(ascending=False, kind="stable")
    panels: list[list[str]] = []
    for family, columns in cuts.items():  # as many families to a panel as have no more cuts than the first
        if not panels or cuts[panels[-1]].sum() + columns > cuts.iloc[0]:
            panels.append([])
        panels[-1].append(str(family))
    reach = 1.08 * rows["off"].abs().max()

    named = {", ".join(own): own for own in panels}

    def draw(ax: Axes, key: str) -> None:
        ax.axhline(0, color=INK, lw=1)
        labels: list[str] = []
        for family in named[key]:
            colour, marker = family_style(family, sorted(cuts.index))
            for hidden, cell in rows[rows["family"] == family].groupby("hidden"):
                middle = len(labels)
                at = middle + 0.5 * ((cell["k"].map(ks.index) + 0.5) / len(ks) - 0.5)
                for inside in (True, False):
                    some, face = cell["covered"] == inside, colour if inside else "none"
                    ax.plot(at[some], cell["off"][some], marker, color=colour, mfc=face, ms=4.5, mew=0.9, alpha=0.8)
                for shown_by, style in (("off", {"color": INK}), ("floored", {"color": SECOND, "ls": (0, (1.5, 1))})):
                    ax.plot([middle - 0.34, middle + 0.34], [cell[shown_by].median()] * 2, lw=2, **style)
                labels.append(f"{hidden}\n{(cell['off'] < 0).sum()}/{len(cell)}")
            last = len(labels) - 1
            ax.text(
                last - (cuts[family] - 1) / 2, 0.97 * reach, family, color=colour, ha="center", va="top", weight="bold"
            )
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlim(-0.6, max(len(labels), 3) - 0.4)
        ax.set_ylim(-reach, reach)
        ax.yaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("largest models hidden; forecasts too optimistic")
        ax.set_ylabel("forecast less measured (%)")

    return Panels(list(named), draw, size=(4.6, 3.7))


BEYOND, SECOND = 100, "#8A7A00"  # no family’s colour


def shape_figure(points: pd.DataFrame, fits: Mapping[str, Any], *, ylabel: str) -> Figure:
    """The points of one family with several fitted curves, drawn on to BEYOND times the largest size.

    `fits` maps the name of a curve to its `ShapeFit`.
    """
    low, high = points["size"].min(), points["size"].max()
    sizes = np.geomspace(low, high * BEYOND, 200)
    styles = ["-", (0, (6, 2)), (0, (2, 1.5)), "-."]

    def draw(ax: Axes) -> None:
        ax.axvspan(high, high * BEYOND, color=FAINT, alpha=0.5, lw=0)
        ends = {}
        for i, (name, fit) in enumerate(fits.items()):
            value = np.maximum(fit.predict(sizes), points["value"].min() / 10)
            colour = [INK, "#D55E00", "#2A7FC0", "#009E73"][i % 4]
            ax.plot(sizes, value, ls=styles[i % 4], color=colour, lw=1.8, label=name)
            ends[name] = value[-1]
        ax.plot(points["size"], points["value"], "o", color=INK, ms=6, zorder=3, label="measured")
        ax.set_xlim(low / 1.5, high * BEYOND)
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_ylim(max(min(ends.values()), points["value"].min() / 3) / 1.1, points["value"].max() * 1.1)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel(ylabel)
        ax.annotate(
            "no model here", (high * BEYOND**0.5, 0.96), xycoords=("data", "axes fraction"), ha="center", va="top"
        )
        ax.legend(loc="lower left")

    return single_panel(draw, size=(4.6, 3.6))


def cuts_shown(every: pd.DataFrame, level: float) -> dict[str, Any]:
    """What `Page.figure` takes for the forecasts at every cut."""
    ks = ", ".join(map(str, sorted(set(every["k"]))))
    return {
        "figure": cut_panels(every),
        "caption": "<b>All forecasts, at every cut and of every family.</b> Below zero: too optimistic. Within a cut, "
        f"k grows from left to right ({ks}). Hollow: outside the {level:.0%} interval. Lines: medians; dotted, with a "
        "fitted floor. Below each cut: how many of its forecasts are too optimistic.",
        "alt": "The errors of forecasts against the number of hidden models, for each family. Pythia's lie below zero "
        "with few models hidden, and above it with six or seven; those of the others lie on both sides",
        "data": every,
    }


def residuals_shown(off: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for how far each point of one family lies from its line (`cells.residuals`)."""
    family, (same, neighbours) = off["family"].iloc[0], same_side(off)
    styles = dict(zip(sorted(off["k"].unique()), LINES, strict=False))
    return {
        "figure": off_the_line(off, line="k", styles=styles),
        "caption": f"<b>{family}: how far each model lies from the fitted line.</b> By chance alone, marks would jump "
        f"about zero; here {same} of {neighbours} neighbours in size lie on the same side. Lines join neighbours.",
        "alt": f"Distance of each {family} model from its power law, against model size, for several k",
        "data": off,
    }


def base_of(points: pd.DataFrame, family: str) -> pd.DataFrame:
    """The points of one family that other curves are shown by: its first k and dataset, in the book's order."""
    own = points[points["family"] == family]
    own = own[own["k"] == own["k"].min()]
    found: pd.DataFrame = own[own["dataset"] == dataset_order(own["dataset"])[0]]
    return found


def sizes_of(points: pd.DataFrame, base: pd.DataFrame) -> dict[str, Any]:
    """The sizes of every family of three or more on the dataset and at the k of `base`: where curves are drawn at."""
    sample = points[(points["k"] == base["k"].iloc[0]) & (points["dataset"] == base["dataset"].iloc[0])]
    return {str(f): own["size"].to_numpy() for f, own in sample.groupby("family") if own["size"].nunique() > 2}


def curves_shown(base: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for several curves through the same points (`base_of`)."""
    fits = {shape: fit_shape(shape, base["size"], base["value"]) for shape in SHAPES}
    family, dataset, k = (base[name].iloc[0] for name in ("family", "dataset", "k"))
    return {
        "figure": shape_figure(base, fits, ylabel=neg_log_rbp_label(int(k))),
        "caption": f"<b>Three curves through the same points</b> ({family}, {dataset_label(dataset)}, k = {k}), each "
        "of two fitted parameters, drawn on to sizes a hundred times larger than any measured.",
        "alt": "Points of one family with a power law, a logarithm and a logistic curve drawn on to larger sizes",
        "data": base.assign(**{shape: curve.predict(base["size"]) for shape, curve in fits.items()}),
    }


# ── The explorer: what moves it is book/_static/explorer.js

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)  # of its intervals


def explorer(source: Source) -> str:
    """The explorer of all points of `source`, as HTML: it needs its scripts, and draws itself in the browser.

    A model knows the part of the source that it is from, for the command that makes the same fit; quantiles: Student's
    t by level, then by degrees of freedom from 1 on.
    """
    parts = {(row.dataset, row.model): part.name for part in source.parts for row in part.table.itertuples()}
    table = source.table
    named = [parts[key] for key in zip(table["dataset"], table["model"], strict=True)]
    data = _points(table.assign(source=named))
    most = max(table.groupby(["dataset", "family", "metric", "k"], dropna=False).size().max(), 3)
    freedom = np.arange(1, most - 1)
    quantiles = {level: student.ppf((1 + level) / 2, freedom).tolist() for level in LEVELS}
    within = data_within(data | {"quantiles": quantiles})
    return f'<div class="rbp-explorer"><noscript><p>The explorer needs JavaScript.</p></noscript>{within}</div>'


def _points(table: pd.DataFrame) -> dict[str, Any]:
    datasets = dataset_order(table["dataset"])
    models: dict[tuple[str, str, int, str], int] = {}
    points = []
    for row in table.to_dict("records"):
        place = models.setdefault((row["model"], row["family"], row["size"], row["source"]), len(models))
        points.append([datasets.index(row["dataset"]), place, _whole(row["k"]), row["value"]])
    families = sorted(set(table["family"]))
    styles = {family: family_style(family, families) for family in families}
    labels = DATASETS | FAMILIES
    return {"datasets": datasets, "models": list(models), "points": points, "labels": labels, "styles": styles}


def _whole(number: Any) -> int | None:
    return None if pd.isna(number) else int(number)
