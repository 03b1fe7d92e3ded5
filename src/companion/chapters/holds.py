"""Does it hold? The paper's fits at every k, how exponent and R² go with k, and Table 1 recomputed."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes

from companion.evidence import published
from companion.stats.subsets import CELL
from rbp.figures.curves import scaling_panels
from rbp.figures.style import INK, Panels, family_style, legend_below, log_axis, neg_log_rbp_label
from rbp.figures.wording import cell_label, dataset_label, dataset_order, fits_listed, listed
from rbp.report.display import INTERVAL, shown

GOOD, KEPT = 0.97, 0.9  # R² of a good fit (section 4.2), and of one that the law still describes (4.4)
KS = (1, 10, 50, 100, 20_000, 30_000)  # the paper's, of figures 3 to 5
DRAWN = (1, 20_000)
MANY = 12  # thresholds that each have a figure

# ── One law for each family, dataset and k


def thresholds(table: pd.DataFrame, ks: list[int]) -> list[int]:
    """The thresholds k to fit: `ks`; if none is named all that the table has, or those of KS where it has MANY more."""
    available = sorted(table["k"].dropna().unique())
    return ks or (available if len(available) <= MANY else [k for k in KS if k in available] or available)


def thresholds_to_draw(points: pd.DataFrame, ks: list[int]) -> list[int]:
    """The thresholds k that have a figure: all that are requested or measured; of the authors' numbers DRAWN."""
    measured = sorted(points["k"].unique())
    authors = not ks and set(points["source"]) <= set(published.SOURCES)
    return [k for k in DRAWN if k in measured] if authors else measured


def logarithms(points: pd.DataFrame) -> pd.DataFrame:
    """The rival that a reader should try: a line in ln S, −ln RBP_k = a − b·ln S, for each dataset, family and k.

    Column r_squared: of ln(−ln RBP_k), as that of the power law; NaN where the line leaves the positive numbers.
    """
    rows = []
    for (dataset, family, k), own in points[points["value"] > 0].groupby([*CELL, "k"]):
        told = np.polyval(np.polyfit(np.log(own["size"]), own["value"], 1), np.log(own["size"]))
        seen = np.log(own["value"])
        with np.errstate(invalid="ignore"):
            left = ((seen - np.log(told)) ** 2).sum(skipna=False)
        rows.append((dataset, family, k, 1 - left / ((seen - seen.mean()) ** 2).sum()))
    return pd.DataFrame(rows, columns=[*CELL, "k", "r_squared"])


def fits_told(points: pd.DataFrame, fits: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of the fits (`fit_table`): up to k = 100, and beyond."""
    fitted = fits.dropna(subset="alpha")
    small, large = fitted[fitted["k"] <= 100], fitted[fitted["k"] > 1000]
    found: dict[str, Any] = {}
    if len(small):
        least = small[small["k"] == small["k"].min()]
        worst = small.sort_values("r_squared").iloc[0]
        width = 100 * (small["alpha_high"] - small["alpha_low"]) / small["alpha"].abs()
        found |= {"fits": len(small), "high": int((small["r_squared"] >= GOOD).sum())}
        found |= {"r_squared_median": small["r_squared"].median(), "r_squared_min": worst["r_squared"]}
        found |= {"alpha_min": least["alpha"].min(), "alpha_max": least["alpha"].max()}
        cut = 100 * (1 - 10 ** -least["alpha"])  # what ten times the parameters take off −ln RBP_k
        found |= {"cut_min": cut.min(), "cut_max": cut.max()}
        found |= {"width_many": width[small["n"] > 5].median(), "width_few": width[small["n"] <= 5].median()}
        widest = small.sort_values("residual_se").iloc[-1]
        for name, fit in (("lowest", worst), ("widest", widest)):
            found[f"{name}_cell"] = f"{cell_label(fit)}, k = {fit['k']}"
        logs = logarithms(points[points["k"] <= 100])
        both = small.merge(logs, on=[*CELL, "k"], suffixes=("", "_log"))
        found |= {"logarithm_median": both["r_squared_log"].median()}
        found |= {"beats_logarithm": int((both["r_squared"] > both["r_squared_log"].fillna(-np.inf)).sum())}
    one, moderate = small[small["k"] == 1], small[small["k"] > 1]
    for name, own in (("first", one), ("moderate", moderate)):
        found |= {f"r_squared.{name}.{cell}": r for cell, r in _by_cell(own).items()}
        found |= {f"{name}.fits": len(own), f"{name}.high": int((own["r_squared"] >= GOOD).sum())}
    if len(one):
        lowest = one.sort_values("r_squared").iloc[0]
        found |= {"first.r_squared_min": lowest["r_squared"], "first.lowest_cell": cell_label(lowest)}
    below = moderate[moderate["r_squared"] < GOOD].sort_values("r_squared")
    found |= {"moderate.below": fits_listed(below, r_squared=True)}
    if len(large):
        found |= {f"large.r_squared.{cell}": r for cell, r in _by_cell(large).items()}
        found |= {"large.fits": len(large), "large.low": int((large["r_squared"] <= KEPT).sum())}
        best, gpt_2 = large.sort_values("r_squared").iloc[-1:], large[large["family"] == "GPT-2"]
        found |= {"large.r_squared_max": best["r_squared"].item(), "large.best_cell": fits_listed(best)}
        found |= {"large.gpt2": len(gpt_2), "large.gpt2_rising": int((gpt_2["alpha"] < 0).sum())}
        found |= {"large.rising_cells": fits_listed(large[large["alpha_high"] < 0])}
        first, last = (
            large[large["k"] == k].set_index(CELL)["r_squared"] for k in (large["k"].min(), large["k"].max())
        )
        pairs = pd.concat([first, last], axis=1).dropna()
        found |= {"large.pairs": len(pairs), "large.lower": int((pairs.iloc[:, 1] < pairs.iloc[:, 0]).sum())}
    moves = points.sort_values("size")
    moves = moves.assign(step=moves.groupby([*CELL, "k"])["value"].diff()).dropna(subset="step")
    for name, own in (("k1", moves[moves["k"] == 1]), ("to_100", moves[moves["k"].between(2, 100)])):
        found |= {f"steps.{name}": len(own), f"falls.{name}": int((own["step"] < 0).sum())}
    return found


def _by_cell(fits: pd.DataFrame) -> dict[str, float]:
    """R² of each fit, by the end of its key."""
    return {f"{fit['dataset']}.{fit['family']}.k{fit['k']}": fit["r_squared"] for _, fit in fits.iterrows()}


def law_shown(points: pd.DataFrame, *, level: float = 0.95) -> dict[str, Any]:
    """What `Page.figure` takes for the points and the law at one k, as in the paper's figures 3 to 5."""
    k = int(points["k"].iloc[0])
    number = 3 if k == 1 else 4 if k <= 100 else 5
    theirs = points["source"].isin(published.SOURCES).all() and k in KS
    origin = f" (figure {number} of the paper, recomputed)" if theirs else ""
    zeros = int((points["value"] == 0).sum())
    return {
        "figure": scaling_panels(points, ylabel=neg_log_rbp_label(k), level=level),
        "caption": f"<b>−ln RBP<sub>{k}</sub> against model size</b>{origin}. Each "
        f"family’s power law with its {level:.0%} confidence band; dashed: of four models or fewer."
        + (f" Not shown: {zeros} values of 0, which have no logarithm; their families have no line." if zeros else ""),
        "alt": f"Log-log plot of −ln RBP at k = {k} against model size: points of each family about a straight line",
        "data": points,
    }


# ── Exponent and R² at every k


Quantity = Literal["alpha", "r_squared"]

_R_SQUARED_TICKS = (0, 0.5, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999)
_GAP = 30  # no line is drawn across a wider gap in k: what happens within is not known
_DODGE = 1.045  # neighbours at one k stand this factor apart, so that their intervals do not hide each other


def against_k(
    fits: pd.DataFrame,
    quantity: Quantity,
    *,
    printed: pd.DataFrame | None = None,
    published: pd.DataFrame | None = None,
) -> Panels:
    """The exponent α, or R², against k: one panel for each dataset, a colour and a marker for each family.

    `fits` comes from `subsets.fit_thresholds`. Fits of all models are filled and joined by a solid line; α has
    intervals, and the common models are hollow. `printed` (dataset, family, k and `quantity`) adds crosses;
    `published` (the same columns) adds a broad grey line, the paper's curve. Panels are limited to where the exponents
    lie: an interval may leave the view.
    """
    families = list(dict.fromkeys(fits["family"]))

    def draw(ax: Axes, dataset: str) -> None:
        own, cells, curve = (_of(table, dataset, quantity) for table in (fits, printed, published))
        curve = curve.sort_values("k")
        ax.plot(curve["k"], _height(curve[quantity], quantity), color="#8a8d91", lw=3.5, alpha=0.5, zorder=1.5)
        styles = {family: family_style(family, families) for family in families if family in set(own["family"])}
        for place, (family, style) in enumerate(styles.items()):
            dodge = _DODGE ** (place - (len(styles) - 1) / 2)
            _family(ax, own[own["family"] == family], quantity, style, dodge)
            there = cells[cells["family"] == family]
            ax.plot(there["k"] * dodge, _height(there[quantity], quantity), "x", color=style[0], ms=5, zorder=3)
        _axes(ax, pd.concat([table[["k", quantity]].astype(float) for table in (own, cells, curve)]), quantity)
        ax.set_title(dataset_label(dataset))
        legend_below(ax, styles)

    return Panels(dataset_order(fits["dataset"]), draw, size=(4.6, 4.1))


def sets_of(fits: pd.DataFrame) -> pd.DataFrame:
    """The set of models to follow over k in each family and dataset: "common", or "all" where both are the same."""
    return fits.dropna(subset="alpha").groupby(CELL, as_index=False).agg(models=("models", "max"))


def against_k_shown(
    fits: pd.DataFrame, quantity: Quantity, families: Sequence[str] = (), *, level: float = 0.95
) -> dict[str, Any]:
    """What `Page.figure` takes for `against_k`, with the cells of Table 1 and the curves of figure 6.

    families: those of the paper's curves to show; none: all.
    """
    printed = curves = fits[:0]
    if set(fits["dataset"]) & set(published.DATASETS):
        printed = published.table1().query("metric == 'neg_log_rbp'").assign(alpha=lambda table: -table.slope)
        curves = published.fit_by_k().assign(alpha=lambda table: -table.slope)
        curves = curves[curves["family"].isin(families or curves["family"])]
    drawn_there, printed_there = (set(fits["dataset"]) & set(table["dataset"]) for table in (curves, printed))
    theirs = "Crosses: cells of Table 1 without points to refit. " if printed_there else ""
    theirs += "Grey: the paper’s curve for Pythia. " if drawn_there else ""
    crosses = printed[printed["k"].isin([500, 2500, 10000]) & (printed["r_squared"] < 1)]
    name, number = {"alpha": ("The exponent α", "6b"), "r_squared": ("R²", "6a")}[quantity]
    origin = f" (figure {number} of the paper, with every family here)" if drawn_there else ""
    own = {
        "alpha": f"Bars: {level:.0%} intervals, which may leave the view. Hollow: models measured at every k.",
        "r_squared": "Dashed: R² = 0.9. The axis is spread towards 1.",
    }[quantity]
    seen = {
        "alpha": "The exponent rises with k for every family up to k = 100, at different heights on each dataset",
        "r_squared": "R² lies near 0.99 for k up to 100 and falls at large k, for GPT-2 first",
    }[quantity]
    return {
        "figure": against_k(fits.dropna(subset="alpha"), quantity, printed=crosses, published=curves),
        "caption": f"<b>{name} against k</b>{origin}. {theirs}{own}",
        "alt": seen,
        "data": fits,
    }


def _of(table: pd.DataFrame | None, dataset: str, quantity: Quantity) -> pd.DataFrame:
    if table is None:
        return pd.DataFrame({"family": [], "k": [], quantity: []})
    return table[table["dataset"] == dataset].dropna(subset=[quantity])


def _height(value: "pd.Series[float]", quantity: Quantity) -> "pd.Series[float]":
    """R² is drawn as 1 − R² on a logarithmic axis upside down, which spreads what lies close to 1."""
    return value if quantity == "alpha" else 1 - value


def _family(ax: Axes, own: pd.DataFrame, quantity: Quantity, style: tuple[str, str], dodge: float) -> None:
    colour, marker = style
    every, common = (own[own["models"] == models].sort_values("k") for models in ("all", "common"))
    x, height = every["k"].to_numpy(dtype=float) * dodge, _height(every[quantity], quantity)
    for stretch in np.split(np.arange(x.size), np.flatnonzero(x[1:] > _GAP * x[:-1]) + 1):
        ax.plot(x[stretch], height.iloc[stretch], color=colour, lw=1.3)
    ax.plot(x, height, marker, color=colour, mew=0, ms=5, zorder=3)
    if quantity == "alpha":  # a family of so few sizes has intervals of R² that fill the panel
        ax.vlines(x, every["alpha_low"], every["alpha_high"], color=colour, lw=1, alpha=0.55, zorder=2)
        ax.plot(common["k"] * dodge, common["alpha"], marker, color=colour, mfc="none", mew=1, ms=3.5, zorder=3)


def _axes(ax: Axes, shown: pd.DataFrame, quantity: Quantity) -> None:
    if quantity == "alpha":
        low, high = shown[quantity].min(), shown[quantity].max()
        margin = 0.12 * max(high - low, 0.1)
        ax.set_ylim(min(low - margin, 0), high + margin)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_ylabel("exponent α")
    else:
        ax.set_yscale("log")
        ax.set_ylim(1, 6e-4)
        ax.yaxis.set_major_locator(ticker.FixedLocator([1 - tick for tick in _R_SQUARED_TICKS]))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{1 - value:.3g}"))
        ax.yaxis.set_minor_locator(ticker.NullLocator())
        ax.axhline(0.1, color=INK, lw=0.9, ls=(0, (5, 3)), zorder=1)
        ax.set_ylabel("R² (axis spread towards 1)")
    ax.set_xlim(shown["k"].min() / 1.6, shown["k"].max() * 1.6)
    log_axis(ax, "x", plain=False)
    ax.set_xlabel("threshold k")


def by_k_told(points: pd.DataFrame, fits: pd.DataFrame, rise: pd.DataFrame, chains: pd.DataFrame) -> dict[str, Any]:
    """What the page says of the fits at every k (`subsets.fit_thresholds`, `subsets.steps`, `subsets.chains`)."""
    fitted = fits.dropna(subset="alpha")
    small, hundred = fitted[fitted["k"] < 1000], fitted[(fitted["models"] == "all") & (fitted["k"] == 100)]
    low = small[small["r_squared"] <= KEPT]
    found: dict[str, Any] = {"below_1000.fits": len(small), "below_1000.low": len(low)}
    if len(hundred):
        found |= {"alpha_100_min": hundred["alpha"].min(), "alpha_100_max": hundred["alpha"].max()}
    found |= {"rise_cells": len(rise), "rise": int((rise["difference"] > 0).sum())}
    found |= {"rise_surely": int((rise["low"] > 0).sum())}
    found |= {name: int(chains[name].sum()) for name in ("steps", "falling", "surely_falling")}
    return found | gains(points, 1, 100)


def against_figure_6(fits: pd.DataFrame) -> dict[str, Any]:
    """How far the fits of all Pythias lie from the numbers behind figure 6."""
    curves = published.fit_by_k().assign(alpha=lambda table: -table.slope)
    shared = fits[fits["models"] == "all"].merge(curves, on=[*CELL, "k"], suffixes=("", "_published"))
    if not len(shared):
        return {}
    off = max((shared[name] - shared[f"{name}_published"]).abs().max() for name in ("r_squared", "alpha"))
    return {"figure_6.compared": len(shared), "figure_6.difference": off}


def print_told() -> dict[str, Any]:
    """What the paper itself prints on R² and exponents at every k: figure 6, and Table 1."""
    printed = published.table1().query("metric == 'neg_log_rbp'")
    figure_6 = published.fit_by_k().sort_values(["dataset", "k"])
    below_1000, at_1, at_100 = (figure_6[rows] for rows in (figure_6.k < 1000, figure_6.k == 1, figure_6.k == 100))
    drops = figure_6[(figure_6.k < 20_000) & (figure_6.r_squared < GOOD)].groupby("dataset", as_index=False).first()
    step = figure_6.dropna(subset="slope").groupby("dataset").slope.diff().dropna()
    low = printed[(printed.k < 1000) & (printed.r_squared <= KEPT)].sort_values(["dataset", "k"])
    found: dict[str, Any] = {
        "figure_6.points": len(below_1000),
        "figure_6.low": int((below_1000.r_squared <= KEPT).sum()),
        "figure_6.r_squared_min": below_1000.r_squared.min(),
        "figure_6.steps": len(step),
        "figure_6.rising": int((step < 0).sum()),
        "figure_6.curves": len(at_1),
        "figure_6.below_01": int((at_1.slope > -0.1).sum()),
        "figure_6.close_02": int(at_100.slope.between(-0.25, -0.15, inclusive="left").sum()),
        "figure_6.kept": len(at_1) - len(drops),
        "figure_6.drops": fits_listed(drops, r_squared=True, joint="; "),
        "printed.cells": int((printed.k < 1000).sum()),
        "printed.low": len(low),
        "printed.low_cells": fits_listed(low, r_squared=True, joint="; "),
    }
    for name, own in (("small", printed[printed.k <= 100]), ("large", printed[printed.k > 100])):
        found |= {f"printed.{name}.cells": len(own), f"printed.{name}.good": int((own.r_squared >= GOOD).sum())}
    return found


def gains(points: pd.DataFrame, low: int, high: int) -> dict[str, int]:
    """Whether more is gained at threshold `high` than at `low`, from the smallest to the largest model of a family.

    points: dataset, family, model, size, k and value (−ln RBP_k). gain_cells: the cells of dataset and family with two
    models or more at both thresholds; of those, gain_factor: −ln RBP_k falls by the larger factor at `high`;
    gain_points: RBP_k itself gains more there.
    """
    wide = points.pivot_table("value", [*CELL, "size"], "k").reindex(columns=[low, high]).dropna()
    ends = wide.groupby(CELL).agg(["first", "last", "size"])
    ends = ends[ends[low, "size"] > 1]
    factor = {k: ends[k, "first"] / ends[k, "last"] for k in (low, high)}
    gained = {k: np.exp(-ends[k, "last"]) - np.exp(-ends[k, "first"]) for k in (low, high)}
    larger = {name: int((each[high] > each[low]).sum()) for name, each in {"factor": factor, "points": gained}.items()}
    return {"gain_cells": len(ends)} | {f"gain_{name}": count for name, count in larger.items()}


def exponents_shown(fits: pd.DataFrame, rise: pd.DataFrame, chains: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponent at k = 1 and 100, its rise and its steps, for each dataset and family, for `Page.table`.

    `fits` comes from `subsets.fit_thresholds`, `rise` from `subsets.steps` of these two k, `chains` from
    `subsets.chains`.
    """
    at = fits[fits["models"] == "all"].pivot_table("alpha", CELL, "k").reindex(columns=[1, 100])
    worst = fits[fits["k"] < 1000].groupby(CELL)["r_squared"].min().rename("worst")
    rows = rise.set_index(CELL)[["difference", "low", "high"]].join(at.set_axis(["one", "hundred"], axis=1))
    return shown(
        rows.join(chains.set_index(CELL)[["falling", "steps"]]).join(worst).reset_index(),
        {
            "dataset": "Dataset",
            "family": "Family",
            "one": ("α, k = 1", "{:.3f}"),
            "hundred": ("α, k = 100", "{:.3f}"),
            "difference": ("rise", "{:+.3f}"),
            ("low", "high"): (f"{level:.0%} interval (paired)", INTERVAL),
            ("falling", "steps"): ("steps that do not rise", "{:.0f} of {:.0f}"),
            "worst": ("lowest R², k < 1000", "{:.3f}"),
        },
        caption="<b>The exponent from k = 1 to k = 100.</b> α and its rise: all models. Steps: up to k = 100, on the "
        "common models. Lowest R²: of either set.",
    )


# ── Table 1, recomputed


def agreement(cells: pd.DataFrame) -> tuple[int, int]:
    """How many printed numbers, slopes and R², are compared, and how many of them agree to every digit."""
    agree = cells[["slope_agrees", "r_squared_agrees"]].dropna()
    return agree.size, int(agree.to_numpy(dtype=bool).sum())


def metric_names(cells: pd.DataFrame) -> list[str]:
    """ "cross-entropy", or "k = 10", of each cell."""
    return ["cross-entropy" if pd.isna(k) else f"k = {k}" for k in cells["k"]]


def named(cells: pd.DataFrame, *, r_squared: bool = False) -> str:
    """The cells in one line, each by family, dataset and metric, on request with the printed R²."""
    datasets, printed = map(dataset_label, cells["dataset"]), cells["printed_r_squared"]
    rows = zip(cells["family"], datasets, metric_names(cells), printed, strict=True)
    return "; ".join(", ".join(names) + (f" ({value:.3f})" if r_squared else "") for *names, value in rows)


def recomputed_shown(cells: pd.DataFrame, level: float) -> dict[str, Any]:
    """The recomputed cells beside the printed ones, for `Page.table`."""
    have = cells[cells["verdict"] != "no points"]
    compared, agree = agreement(have)
    rows = have.assign(
        metric=metric_names(have),
        low=-have["alpha_high"],
        high=-have["alpha_low"],
        agrees=have["verdict"].map({"agrees": "yes", "differs": "no"}),
    ).replace({"metric": {"cross-entropy": "CE"}})
    columns: dict[Any, Any] = {
        "dataset": "Dataset",
        "metric": "Metric",
        "family": "Family",
        "n": ("sizes", "{:.0f}"),
        "slope": ("slope", "{:.4f}"),
        "printed_slope": ("printed", "{:.3f}"),
        ("low", "high"): (f"{level:.0%} interval", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "printed_r_squared": ("R² printed", "{:.3f}"),
        "agrees": "agrees",
    }
    caption = f"<b>Table 1 of the paper, recomputed.</b> {agree} of {compared} numbers agree to every printed digit."
    return shown(rows, columns, caption=caption, data=have)


def unclear_shown(cells: pd.DataFrame, level: float) -> dict[str, Any]:
    """The cells whose printed slope cannot be told from zero."""
    unclear = cells[cells["implied_p"] > 1 - level]
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


def table_told(cells: pd.DataFrame, rounded: pd.DataFrame, level: float) -> dict[str, Any]:
    """What the page and the ledger say of Table 1: `cells` as recomputed, `rounded` with shares rounded first."""
    have, unclear = cells[cells["verdict"] != "no points"], cells[cells["implied_p"] > 1 - level]
    compared, agree = agreement(cells)
    four = cells["dataset"].isin(["wikipedia", "humaneval", "hotpotqa", "auslegal"])
    mid = cells[cells["k"].isin([10, 100]) & four]
    one, other = (
        rows[(rows["dataset"] == "wikipedia") & (rows["family"] == "GPT-2") & (rows["k"] == 10000)]
        for rows in (cells, rounded)
    )
    below = mid[mid["printed_r_squared"] < GOOD]
    elsewhere = cells[cells["k"].isin([1, 10, 100]) & cells["dataset"].isin(["c4", "pile-github"])]
    low = elsewhere[elsewhere["printed_r_squared"] < GOOD]
    found: dict[str, Any] = {
        "cells": len(cells),
        "recomputed": len(have),
        "compared": compared,
        "agree": agree,
        "agree_rounded": agreement(rounded)[1],
        "differs": named(cells[cells["verdict"] == "differs"]) or "none",
        "counted": one["r_squared"].item(),
        "from_rounded": other["r_squared"].item(),
        "printed": one["printed_r_squared"].item(),
        "unclear": len(unclear),
        "moderate": len(mid),
        "moderate_low": len(below),
        "moderate_low_on": listed(map(dataset_label, below["dataset"].unique()), joint=" and "),
        "c4_and_github.cells": len(elsewhere),
        "c4_and_github.good": len(elsewhere) - len(low),
        "c4_and_github.low_cells": named(low, r_squared=True),
    }
    return {f"table1.{key}": value for key, value in found.items()}
