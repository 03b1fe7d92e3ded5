"""The published measurements: how many tokens are behind them, and how they compare with the paper's text."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa
from matplotlib import ticker
from matplotlib.axes import Axes
from scipy.stats import t as t_distribution

from companion.evidence import published
from companion.evidence.tokens import STATED
from companion.plots import single_panel
from companion.project import LADDER
from rbp import provenance
from rbp.errors import DataError
from rbp.figures.curves import curves
from rbp.figures.style import INK, Panels, family_style, legend_below, log_axis
from rbp.figures.wording import dataset_label, dataset_order, listed
from rbp.laws import counting
from rbp.laws.table import fit_table
from rbp.measurements import open_source, select
from rbp.report.display import Column, shown
from rbp.tables import checked, read_csv

VOCABULARIES = {"Pythia": 50256, "OPT": 50272, "GPT-2": 50257}
"""How many entries the paper's footnote 2 gives each family's vocabulary."""


def least_covered(points: pd.DataFrame, k: int) -> float:
    """Return the least share of a text's tokens that are among the first k, over all models and texts."""
    return float(np.exp(-points["value"][points["k"] == k].max()))


def orders(values: "pd.Series[Any]") -> float:
    """Return how many orders of magnitude lie between the smallest and the largest value."""
    return float(np.log10(values.max() / values.min()))


def published_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return −ln RBP_k of a measurement table. Raises DataError where none of its families is one of the paper's."""
    points = select(table, metric="neg_log_rbp")
    if not set(points["family"]) & set(published.models()["family"]):
        raise DataError(
            "none of the given families is published, and this chapter is about published measurements",
            "measurements",
            'Use "published", or rows of its families.',
        )
    return points


def with_counting_error(points: pd.DataFrame, tokens: pd.DataFrame) -> pd.DataFrame:
    """Add counting errors to the points (a measurement table) whose number of tokens is known (`tokens.tokens_behind`).

    Adds basis, relative_se (of −ln RBP_k, by counting independent tokens) and misses (tokens of rank above k).
    Raises DataError where no number of tokens is known.
    """
    counted_points = points.drop(columns="tokens").merge(tokens, on=["dataset", "family"])
    if counted_points.empty:
        raise DataError("the number of tokens of these points is not known", "measurements", "Add the column tokens.")
    n = counted_points["tokens"].to_numpy(dtype=float)
    relative_se = counting.counting_error(counted_points["value"], n)
    return counted_points.assign(relative_se=relative_se, misses=-np.expm1(-counted_points["value"]) * n)


def checks_table(checked: pd.DataFrame) -> dict[str, Any]:
    """Show the checks of the published files (`checks`), for `Page.table`."""
    return shown(
        checked,
        {
            "what": "check",
            "compared": "numbers",
            "agree": "agree",
            "worst": ("largest difference", "{:.1e}"),
            "unit": "of which kind",
        },
    )


def vocabularies() -> dict[str, list[int]]:
    """Collect the widths of the output layers of each family, by the parameter file of the authors' repository."""
    return {str(name): sorted(set(widths)) for name, widths in published.models().groupby("family")["vocab_size"]}


def setup_statistics(points: pd.DataFrame, sizes: pd.DataFrame, recovered: pd.DataFrame) -> dict[str, Any]:
    """Summarise models, thresholds, tokens and vocabularies; `sizes` has a row a model."""
    sure, widths = recovered[recovered["basis"] != "likely"], vocabularies()
    fewer = int((sure["tokens"] < STATED).sum())
    low, high = int(points["k"].min()), int(points["k"].max())
    agree = [family for family, printed in VOCABULARIES.items() if widths[family] == [printed]]
    qwen = published.models().query("family == 'Qwen2.5'")
    larger = qwen.loc[qwen["vocab_size"] == qwen["vocab_size"].max(), "name"]
    pythia = [f"{width:,}" for width in widths["Pythia"]]
    spans = {name: orders(sizes.loc[sizes["family"] == name, "size"]) for name in ("GPT-2", "OPT", "Qwen2.5")}
    return {
        **{f"orders.{family}": span for family, span in spans.items()},
        "thresholds.orders": orders(points["k"]),
        "thresholds.low": low,
        "thresholds.high": high,
        "thresholds.decades": len(str(high)) - len(str(low)) + 1,
        "cells_reaching_stated": len(sure) - fewer,
        "cells_below_stated": fewer,
        "vocabularies.agree": len(agree),
        "vocabularies.families": " and ".join(agree),
        "vocabularies.Pythia": f"{', '.join(pythia[:-1])} or {pythia[-1]}",
        "vocabularies.Qwen2.5.min": widths["Qwen2.5"][0],
        "vocabularies.Qwen2.5.max": widths["Qwen2.5"][-1],
        "vocabularies.Qwen2.5.largest_of": " and ".join(larger),
        "threshold_share_of_vocabulary": high / widths["GPT-2"][-1],
        "covered_by_20000": least_covered(points, 20_000),
    }


# ── Table 1 of the paper


CELL = ["dataset", "metric", "k", "family"]
COUNTED = ("wikipedia", "neg_log_rbp", 10_000, "GPT-2")  # whose exact counts were published
GOOD = 0.97  # R² of a good fit (section 4.2)

#: printed to three digits: half a unit of the last one, and the rounding of binary fractions
HALF_DIGIT = 0.0005 + 1e-9


def beside_printed(fits: pd.DataFrame, *, everything: bool = False) -> pd.DataFrame:
    """Join fits (`fit_table` by dataset, metric, k and family) with the printed cells of Table 1.

    Adds `slope`, `printed_slope`, `printed_r_squared` (NaN where Table 1 has no such cell), and `slope_agrees`,
    `r_squared_agrees`: whether ours round to the printed digits (missing where either is missing). With
    `everything`, printed cells without a fit of ours are kept too. Rows are in the datasets' order (`dataset_order`).
    """
    printed = published.table1().rename(columns={"slope": "printed_slope", "r_squared": "printed_r_squared"})
    table = fits.merge(printed, on=CELL, how="outer" if everything else "left")
    table["slope"] = -table["alpha"]
    for name in ("slope", "r_squared"):
        off = (table[name] - table[f"printed_{name}"]).abs()
        table[f"{name}_agrees"] = (off <= HALF_DIGIT).astype("boolean").mask(off.isna())
    order = dataset_order(table["dataset"])
    return table.sort_values(CELL, key=lambda c: c.map(order.index) if c.name == "dataset" else c, ignore_index=True)


def recompute(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compare all 168 printed cells of Table 1, in its order, with our fits of a measurement table, where available.

    The columns of `beside_printed`, and: `verdict` ("agrees", "differs", "no points"), `models` (how many the family
    has), and `implied_p`: what the printed R² implies with so many models (`implied_by_print`).

    Empty where no cell can be compared.
    """
    cells = beside_printed(fit_table(table, CELL, level=level), everything=True).dropna(subset="printed_slope")
    order = published.table1()[CELL].reset_index(names="place")
    cells = order.merge(cells, on=CELL, validate="one_to_one").sort_values("place", ignore_index=True)
    cells = cells.drop(columns="place")
    both = cells["slope_agrees"] & cells["r_squared_agrees"]
    cells["verdict"] = both.map({True: "agrees", False: "differs"}).astype(object).where(both.notna(), "no points")
    if (cells["verdict"] == "no points").all():
        return cells[:0]
    cells["models"] = cells["family"].map(published.models()["family"].value_counts())
    pairs = zip(cells["printed_r_squared"], cells["models"], strict=True)
    return cells.assign(implied_p=[implied_by_print(r_squared, int(n)) for r_squared, n in pairs])


def implied_by_print(r_squared: float, n: int) -> float:
    """Compute the slope's two-sided p value that a printed R² of n points implies; NaN where it is printed as 0 or 1.

    In a straight line through n points, t = slope/se has t² = R²(n − 2)/(1 − R²).
    """
    if not 0 < r_squared < 1:
        return np.nan
    return float(2 * t_distribution.sf(np.sqrt(r_squared * (n - 2) / (1 - r_squared)), n - 2))


def with_rounded_shares(table: pd.DataFrame, decimals: int) -> pd.DataFrame:
    """Round every RBP_k of a measurement table to `decimals` before its logarithm."""
    rounded = -np.log(np.round(np.exp(-table["value"]), decimals))
    return table.assign(value=table["value"].where(table["metric"] == "cross_entropy", rounded))


def table_1_statistics(table: pd.DataFrame) -> dict[str, Any]:
    """Compare Table 1 as printed with our fits of the published points, of exact shares and of rounded ones."""
    cells, rounded = recompute(table), recompute(with_rounded_shares(table, 6))
    if cells.empty:
        return {}
    counted, from_rounded = (rows.set_index(CELL).loc[COUNTED, "r_squared"] for rows in (cells, rounded))
    four = cells["dataset"].isin(["wikipedia", "humaneval", "hotpotqa", "auslegal"])
    moderate = cells[cells["k"].isin([10, 100]) & four]
    low = moderate[moderate["printed_r_squared"] < GOOD]
    others = cells[cells["k"].isin([1, 10, 100]) & cells["dataset"].isin(["c4", "pile-github"])]
    low_others = others[others["printed_r_squared"] < GOOD]
    compared, agree = count_agreement(cells)
    values = {
        "cells": len(cells),
        "compared": compared,
        "agree": agree,
        "agree_rounded": count_agreement(rounded)[1],
        "differs": name_cells(cells[cells["verdict"] == "differs"]) or "none",
        "counted": counted,
        "from_rounded": from_rounded,
        "printed": cells.set_index(CELL).loc[COUNTED, "printed_r_squared"],
        "unclear": int((cells["implied_p"] > 0.05).sum()),
        "moderate": len(moderate),
        "moderate_low": len(low),
        "moderate_low_on": listed(map(dataset_label, low["dataset"].unique()), joint=" and "),
        "c4_and_github.cells": len(others),
        "c4_and_github.good": len(others) - len(low_others),
        "c4_and_github.low_cells": name_cells(low_others, r_squared=True),
    }
    return {f"table1.{name}": value for name, value in values.items()}


def count_agreement(cells: pd.DataFrame) -> tuple[int, int]:
    """Count the printed numbers, slopes and R², that are compared, and how many agree to every digit."""
    agree = cells[["slope_agrees", "r_squared_agrees"]].dropna()
    return agree.size, int(agree.to_numpy(dtype=bool).sum())


def name_cells(cells: pd.DataFrame, *, r_squared: bool = False) -> str:
    """List cells in one line, each by family, dataset and metric, on request with the printed R²."""
    metrics = ["cross-entropy" if pd.isna(k) else f"k = {k:,}" for k in cells["k"]]
    rows = zip(cells["family"], map(dataset_label, cells["dataset"]), metrics, cells["printed_r_squared"], strict=True)
    return "; ".join(", ".join(names) + (f" ({value:.3f})" if r_squared else "") for *names, value in rows)


_COVERAGE = ("text", "documents", "statistic", "level", "kind", "covered", "width", "score")


def interval_coverage() -> pd.DataFrame:
    """Read how often each kind of interval over documents covers the truth, on the ladder: data/ladder/coverage.csv.

    One row for each kind: at 95%, of statistics that are no design effects, covered_10, covered_20, covered_24 (the
    judgments), covered_32 (Wikipedia), covered_40 and covered_164, by the number of documents, width and score (the
    narrowest's, and the best's, is 1); covered_80: of 80%, all numbers of documents; covered_effect: of design effects.
    Means over texts and statistics.
    """
    path, names = LADDER / "coverage.csv", ["text", "statistic", "kind"]
    columns = {name: pa.Column(str if name in names else int if name == "documents" else float) for name in _COVERAGE}
    keys, remedy = _COVERAGE[:5], "Restore it: git checkout -- data/ladder."
    table = checked(read_csv(path), pa.DataFrameSchema(columns), path, keys=keys, remedy=remedy)
    provenance.note(path)
    effect = table["statistic"].str.contains("design effect")
    wide, narrow = (table[~effect & (table["level"] == level)] for level in (0.95, 0.8))
    by_size = wide.pivot_table(index="kind", columns="documents", values="covered").add_prefix("covered_")
    by_kind = by_size.join(wide.groupby("kind")[["width", "score"]].mean())
    by_kind["covered_80"] = narrow.groupby("kind")["covered"].mean()
    by_kind["covered_effect"] = table[effect & (table["level"] == 0.95)].groupby("kind")["covered"].mean()
    return by_kind.reindex(table["kind"].unique()[::-1]).reset_index().rename_axis(columns=None)


def interval_coverage_table(by_kind: pd.DataFrame) -> dict[str, Any]:
    """Show `interval_coverage`."""
    columns: dict[str | tuple[str, ...], Column] = {"kind": "interval", "score": ("score", "{:.2f}")}
    columns |= {"width": ("width", "{:.2f}"), "covered_10": ("10 documents", "{:.1%}")}
    columns |= {f"covered_{count}": (str(count), "{:.1%}") for count in (20, 24, 32, 40, 164)}
    columns |= {"covered_80": ("80%, all", "{:.1%}"), "covered_effect": ("design effects", "{:.1%}")}
    return shown(
        by_kind,
        columns,
        data=by_kind,
    )


_GREY = "#6B7280"


def tokens_figure(behind: pd.DataFrame, stated: int) -> dict[str, Any]:
    """Plot the number of tokens behind the points of each dataset and family, and the number `stated`.

    `behind` has dataset, family, tokens and basis; hollow markers are "likely", not identified.
    """
    datasets, families = dataset_order(behind["dataset"]), sorted(set(behind["family"]))

    def draw(ax: Axes) -> None:
        ax.axvline(stated, color=INK, lw=1.2, ls=(0, (5, 3)))
        ax.annotate(
            f"the paper: at least {stated:,}", (stated, 1), (-5, 4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="right",
        )  # fmt: skip
        for place, family in enumerate(families):
            colour, marker = family_style(family, families)
            rows = behind[behind["family"] == family]
            y = rows["dataset"].map(datasets.index).to_numpy(float) + 0.17 * (place - (len(families) - 1) / 2)
            likely = (rows["basis"] == "likely").to_numpy()
            for chosen, face in ((~likely, colour), (likely, "none")):
                x = rows["tokens"].to_numpy(float)[chosen]
                label = family if face == colour else None
                ax.plot(x, y[chosen], marker, color=colour, mfc=face, ms=7, mew=1.4, label=label)
        ax.set_yticks(range(len(datasets)), [dataset_label(name) for name in datasets])
        ax.set_ylim(len(datasets) - 0.4, -0.6)
        ax.set_xlim(behind["tokens"].min() / 1.5, max(stated, behind["tokens"].max()) * 1.5)
        log_axis(ax, "x", plain=False)
        ax.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 3)))
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set_xlabel("tokens behind a point")
        legend_below(ax)

    return {
        "figure": single_panel(draw, size=(4.6, 2.6)),
        "alt": "Number of tokens by dataset and family: some 25 thousand on HotpotQA, 30 to 42 thousand on HumanEval, "
        "320 thousand on Wikipedia, just below 500 thousand on the Australian legal corpus",
        "data": behind,
    }


def whole_numbers_figure(share: npt.ArrayLike, name: str, tokens: int) -> dict[str, Any]:
    """Plot the distances of a cell's shares times its number of tokens, and times another, from whole numbers."""
    part = np.asarray(share, dtype=np.float64)
    distances = {f"times {n:,}": part * n - np.rint(part * n) for n in (tokens, tokens + 100)}

    def draw(ax: Axes, title: str) -> None:
        ax.hist(distances[title], bins=np.linspace(-0.5, 0.5, 26).tolist(), color=_GREY)
        ax.set_xlim(-0.5, 0.5)
        ax.set_xlabel("distance to the nearest whole number")
        ax.set_ylabel("readings")
        ax.set_title(title)

    return {
        "figure": Panels(list(distances), draw, size=(4.4, 2.3)),
        "caption": f"<b>One number of tokens fits, another does not.</b> {part.size} readings for {name}, "
        "times N: how far from whole numbers.",
        "alt": "Two histograms: all distances near zero for the right number of tokens, spread over all distances for "
        "another number",
        "data": pd.DataFrame({"share": part} | distances),
    }


def sampling_figure(points: pd.DataFrame) -> dict[str, Any]:
    """Plot against k the relative error of −ln RBP_k from counting independent tokens, the median over a family.

    `points` has dataset, family, k and relative_se.
    """
    rows = points.groupby(["dataset", "family", "k"])["relative_se"].median().mul(100).reset_index()
    labels = ("threshold k", "relative error (%)")
    return {
        "figure": curves(
            rows, "k", "relative_se", labels=labels, line="family", log="xy", ylim="shared", size=(4.6, 2.7)
        ),
        "alt": "Relative error against k, one panel per dataset, one line per family",
        "data": points,
    }


Row = tuple[str, str, int, int, float, str]
COLUMNS = ["check", "what", "compared", "agree", "worst", "unit"]


def checks() -> pd.DataFrame:
    """Check the published files, a row for each check.

    Columns: check (a short key), what (a phrase), compared and agree (how many numbers), worst (the largest
    difference, in `unit`).
    """
    ranks = open_source("published").table.query("metric == 'neg_log_rbp'")
    rows = [*_overlaps(), *_fits(ranks), *_shares(ranks)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _overlaps() -> Iterator[Row]:
    """Compare readings of one quantity in two places; the GPT-2 counts are exact, so they have their own row."""
    pairs = published.agreement()
    pairs["relative"] = pairs["difference"].abs() / pairs["first_value"]
    counted = pairs["first"] == "repository"
    for key, check, compared in (
        ("two_figures", "−ln RBP_k that two figures show (3, 4, 8a and 9 against 7 and 8a)", pairs[~counted]),
        ("exact_counts", "GPT-2’s exact counts on Wikipedia against figures 3 and 4", pairs[counted]),
    ):
        yield key, check, len(compared), int(compared["ok"].sum()), float(compared["relative"].max()), "relative"


def _fits(ranks: pd.DataFrame) -> Iterator[Row]:
    """Compare fits of the points with Table 1, and with the curves of figure 6."""
    fits = fit_table(ranks[ranks["k"].isin([1, 10, 100])], ["dataset", "metric", "k", "family"])
    printed = beside_printed(fits).dropna(subset="printed_slope")
    agree = printed[["slope_agrees", "r_squared_agrees"]].to_numpy(dtype=bool)
    off = max((printed[name] - printed[f"printed_{name}"]).abs().max() for name in ("slope", "r_squared"))
    yield "table_1", "R² and slopes of Table 1 for k = 1, 10, 100", agree.size, int(agree.sum()), off, "absolute"

    by = ["dataset", "family", "k"]
    curve = published.fit_by_k().merge(fit_table(ranks, by), on=by, suffixes=("_drawn", ""))
    curve = curve[curve["n"] == curve["n"].max()]  # at the other thresholds only four models were published
    off = pd.concat([curve["r_squared"] - curve["r_squared_drawn"], curve["alpha"] + curve["slope"]]).dropna().abs()
    check = "R² and slopes of figure 6, at the k for which all Pythias are published"
    yield "figure_6", check, off.size, int((off <= 2e-6).sum()), float(off.max()), "absolute"


def _shares(ranks: pd.DataFrame) -> Iterator[Row]:
    """Check what shares must obey: the histogram sums to one, RBP_k rises with k, figure 5 was rounded."""
    mass = published.rank_bins().groupby("model")["mass"].sum()
    off = (mass - 1).abs()
    check = "bin masses of figure 8c sum to 1 over ranks 2 and up"
    yield "bins", check, off.size, int((off <= 1e-5).sum()), float(off.max()), "absolute"

    step = ranks.sort_values("k").groupby(["dataset", "model"])["value"].diff().dropna()
    rise = max(float(step.max()), 0.0)
    check = "−ln RBP_k never rises from one k to the next"
    yield "monotone", check, step.size, int((step <= 0).sum()), rise, "absolute"

    figure_5 = published.rbp().query("source == 'figure 5'")
    scaled = np.exp(-figure_5["neg_log_rbp"]) * 1e6
    off = (scaled - scaled.round()).abs()
    close = int((off <= 0.05).sum())
    yield "figure_5", "RBP_k of figure 5 are whole millionths", off.size, close, float(off.max()), "millionths"
