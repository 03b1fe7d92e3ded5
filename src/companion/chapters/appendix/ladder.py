"""What the chapter on the ladder asks of a family's rank stores: the law, its intervals, its scatter, and Pythia's."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from companion.chapters.families import TRANSFORMER, counts_at, exponents, measure_label
from rbp.arrays import Reals, check_level
from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import curves, fitted_lines, ramp
from rbp.figures.style import INK, LABELS, Panels, legend_below, log_axis, neg_log_rbp_label
from rbp.figures.wording import dataset_label, dataset_order, family_label
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import covariance, interval
from rbp.measurements import Source
from rbp.measurements.counts import Counts, LeftOut
from rbp.measurements.ranked import SHARES
from rbp.report.display import INTERVAL, INTERVAL_1, Columns, shown


def points_by_document(left: LeftOut, *, level: float = 0.95) -> pd.DataFrame:
    """−ln RBP_k of every model at every k, with its interval by documents.

    Columns dataset, family, model, size, k, value, low, high (NaN where all misses lie in one document). An interval
    says what other documents of the kind could have given this very model.
    """
    one, rows = left.counts, []
    values = np.exp(np.stack(interval(left.y, level=level), axis=-1))
    for m, about in enumerate(one.models[["family", "model", "size"]].itertuples(index=False, name=None)):
        rows += [(one.dataset, *about, k, *values[m, i]) for i, k in enumerate(one.thresholds)]
    columns = ["dataset", "family", "model", "size", "k", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def laws_by_document(left: LeftOut, *, level: float = 0.95) -> pd.DataFrame:
    """The power law through the rungs at each k, with two intervals of α that answer different questions.

    alpha_low, alpha_high: ordinary least squares, from the scatter about the line. It covers what moves single rungs:
    seeds, lack of fit, and noise of documents that rungs do not share. text_low, text_high: by documents, each left
    out of all rungs. It covers which documents there are, and takes the rungs as they are.

    One row for each k: dataset, family, k, documents, tokens, misses (fewest of a rung), n, alpha, alpha_low,
    alpha_high, alpha_se, df, text_low, text_high (NaN where all misses of a rung lie in one document), r_squared,
    residual_se, note (why there is no fit; its numbers are then NaN).
    """
    first = left.keep(left.counts.firsts)
    one, values = first.counts, np.exp(first.y[0])
    total = int(one.tokens.sum())
    rows = []
    for i, k in enumerate(one.thresholds):
        row: dict[str, Any] = {
            "dataset": one.dataset,
            "family": one.families[0],
            "k": k,
            "documents": len(one.tokens),
            "tokens": total,
            "misses": total - int(one.hits[:, :, i].sum(axis=0).max()),
            "n": len(one.sizes),
        }
        _, low, high = interval(exponents(one.sizes, first.y[:, :, i]), level=level)
        try:
            fit = fit_power_law(one.sizes, values[:, i], level=level)
        except FitError as error:
            row["note"] = error.what
        else:
            names = ("alpha", "alpha_low", "alpha_high", "alpha_se", "r_squared", "residual_se", "df")
            row |= {name: getattr(fit, name) for name in names}
            row |= {"text_low": low, "text_high": high, "note": ""}
        rows.append(row)
    columns = ["alpha", "alpha_low", "alpha_high", "alpha_se", "df", "text_low", "text_high", "r_squared"]
    wanted = ["dataset", "family", "k", "documents", "tokens", "misses", "n", *columns, "residual_se", "note"]
    return pd.DataFrame(rows, columns=wanted)


@dataclass(frozen=True)
class ScatterParts:
    """Variances of ln(−ln RBP_k) about the line: total = document + seed + lack, of which the last two can be negative.

    total: the squared scatter of the fit, over n − 2 degrees of freedom.
    document: what drawing other documents moves the rungs apart by.
    seed, seed_low, seed_high: the variance between seeds of one size, less what documents add to it, with an interval;
    seed_df: its degrees of freedom. NaN without repeated sizes; their part is then in lack.
    lack: the rest.
    """

    total: float
    document: float
    seed: float
    seed_low: float
    seed_high: float
    lack: float
    n: int
    seed_df: int


def split_scatter(sizes: npt.ArrayLike, values: Reals, *, level: float = 0.95) -> ScatterParts:
    """Split the scatter of ln(−ln RBP_k) about the line through the first model of each of `sizes`.

    Models of one size stand side by side and differ in their seed. values: of the text and of it without each of its D
    documents, shape (1 + D, models), all finite; at least three different sizes, and two documents.
    """
    y = values[0]
    size, rung = np.unique(np.asarray(sizes, dtype=np.float64), return_inverse=True)
    first = np.unique(rung, return_index=True)[1]
    design = np.column_stack([np.ones(len(size)), np.log(size)])
    residual = np.eye(len(size)) - design @ np.linalg.pinv(design)
    df = len(size) - 2
    member = np.eye(len(size))[rung]
    within = np.eye(len(rung)) - member @ (member / member.sum(axis=0)).T
    seed_df = len(rung) - len(size)

    text = covariance(values)
    moved = residual @ text[np.ix_(first, first)] @ residual  # the residuals' covariance by documents
    total = float(np.sum((residual @ y[first]) ** 2)) / df
    document = float(np.trace(moved)) / df
    seed = low = high = nan
    if seed_df:
        between = float(np.sum((within @ y) ** 2)) / seed_df
        shared = float(np.trace(within @ text @ within)) / seed_df
        seed = between - shared
        tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], seed_df)
        low, high = np.maximum(seed_df * between / tails - shared, 0)
    return ScatterParts(
        total=total,
        document=document,
        seed=seed,
        seed_low=float(low),
        seed_high=float(high),
        lack=total - document - (seed if seed_df else 0),
        n=len(size),
        seed_df=seed_df,
    )


def scatter_parts(left: LeftOut, *, level: float = 0.95) -> pd.DataFrame:
    """The `ScatterParts` of a text at every k: dataset, family, k and its fields.

    A k at which all misses of a model lie in one document has no row.
    """
    one, rows = left.counts, []
    for k in one.thresholds:
        if np.isfinite(left.at(k)).all():
            found = split_scatter(one.sizes, left.at(k), level=level)
            rows.append({"dataset": one.dataset, "family": one.families[0], "k": k} | asdict(found))
    return pd.DataFrame(rows, columns=["dataset", "family", "k", *(field.name for field in fields(ScatterParts))])


@dataclass(frozen=True)
class LadderLaws:
    """A family's law on each dataset.

    texts: the counts behind it; shown: the thresholds asked for, k → its name ("10", "0.4 V"); points: see
    `points_by_document`, of the first model of each size; laws: see `laws_by_document`; splits: see `scatter_parts`.
    The tables hold THRESHOLDS as well.
    """

    texts: list[Counts]
    shown: dict[int, str]
    points: pd.DataFrame
    laws: pd.DataFrame
    splits: pd.DataFrame

    def at(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of one of the tables at the thresholds asked for, with the column `threshold`, their names."""
        own = table[table["k"].isin(list(self.shown))]
        return own.assign(threshold=own["k"].map(self.shown))


def ladder_laws(
    source: Source,
    datasets: Sequence[str] = (),
    ks: Sequence[int] = (1, 10, 100),
    shares: Sequence[float] = SHARES,
    *,
    level: float = 0.95,
) -> LadderLaws:
    """Read the rank stores, and fit: the text, and it without each of its documents.

    source: rank stores of one family, such as "ladder"; datasets: none named means all; shares: large k, as shares of
    the vocabulary. The ladder's own counts come from `shipped_counts`, as far as it has them.
    Raises ParameterError for an unknown dataset and for values that make no sense, FitError for fewer than three
    sizes or two documents; else what `Source.counts` raises.
    """
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ParameterError(f"{wrong[0]} is no share of the vocabulary", "shares", "Give shares between 0 and 1.")
    if not [*ks, *shares]:
        raise ParameterError("no threshold is asked for", "ks, shares", "Give some, such as ks=1,10,100.")
    counts, shown = counts_at(source, ks, shares)
    there = {one.dataset: one for one in counts}
    if unknown := [name for name in datasets if name not in there]:
        raise ParameterError(f"no ranks on {unknown[0]}", "datasets", f"There is: {', '.join(there)}.")
    texts = [there[name] for name in (datasets or dataset_order(there))]
    tables: list[list[pd.DataFrame]] = [[], [], []]
    for one in texts:
        if len(one.firsts) < 3:
            what = f"{len(one.firsts)} sizes are too few for a law"
            raise FitError(what, f"{one.families[0]} on {one.dataset}", "Give the ranks of at least three sizes.")
        if len(one.tokens) < 2:
            raise FitError("one document cannot be left out", one.dataset, "Give a text of several documents.")
        left = one.left_out()
        tables[0].append(points_by_document(left.keep(one.firsts), level=level))
        tables[1].append(laws_by_document(left, level=level))
        tables[2].append(scatter_parts(left, level=level))
    return LadderLaws(texts, shown, *(pd.concat(parts, ignore_index=True) for parts in tables))


# ── Figures

PARTS = {
    "document": ("documents", "#2A7FC0", "o"),
    "seed": ("seeds", "#D55E00", "s"),
    "lack": ("lack of fit", "#009E73", "D"),
}


def scatter_panels(splits: pd.DataFrame) -> Panels:
    """The scatter about the line and its parts, by dataset, beside each other for each threshold.

    `splits` has dataset, k, threshold, and the variances total, document, seed, seed_low, seed_high, lack of
    ln(−ln RBP_k). Drawn are square roots in per cent, on a logarithmic axis. Hollow marks at the lower edge: parts
    whose variance comes out at zero or below.
    """
    drawn = 100 * np.sqrt(splits[["total", *PARTS]].clip(lower=0))
    least = float(drawn[drawn > 0].min().min()) / 2
    most = 2 * float(max(drawn.max().max(), 100 * np.sqrt(splits["seed_high"].max())))
    thresholds: Sequence[str] = splits.sort_values("k")["threshold"].drop_duplicates().tolist()

    def draw(ax: Axes, dataset: str) -> None:
        own = splits[splits["dataset"] == dataset]
        place = own["threshold"].map(thresholds.index).to_numpy(float)
        whole = 100 * np.sqrt(own["total"].to_numpy(float))
        ax.hlines(whole, place - 0.42, place + 0.42, color=INK, lw=1.3, label="whole scatter")
        for i, (part, (name, colour, marker)) in enumerate(PARTS.items()):
            if own[part].isna().all():
                continue
            x = place + 0.25 * (i - 1)
            height = 100 * np.sqrt(own[part].clip(lower=0).to_numpy(float))
            seen = height > least
            ax.plot(x[seen], height[seen], marker, color=colour, ms=6, mew=0, label=name)
            if not seen.all():
                edge = np.full((~seen).sum(), least)
                ax.plot(x[~seen], edge, marker, color=colour, mfc="none", ms=6, mew=1.3, clip_on=False)
            if part == "seed":
                ends = 100 * np.sqrt(own[["seed_low", "seed_high"]].to_numpy(float).T)
                ax.vlines(x, np.maximum(ends[0], least), ends[1], color=colour, lw=1.2)
        for border in range(1, len(thresholds)):
            ax.axvline(border - 0.5, color=INK, lw=0.4, alpha=0.4)
        ax.set_xticks(range(len(thresholds)), thresholds)
        ax.set_xlim(-0.5, len(thresholds) - 0.5)
        ax.set_yscale("log")
        ax.set_ylim(least, most)
        log_axis(ax, "y")
        ax.tick_params(axis="x", length=0, pad=8)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("threshold k")
        ax.set_ylabel(f"per cent of {neg_log_rbp_label()}")
        ax.set_title(dataset_label(dataset))
        legend_below(ax)

    return Panels(dataset_order(splits["dataset"]), draw, size=(4.6, 4.0))


# ── What `Page.figure` takes


def law_shown(points: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """−ln RBP_k of a family's rungs against S, by dataset, with the power law of each threshold and its band.

    `points` has dataset, size, k, threshold (its name), value, low, high. Where there is no fit, there is no line.
    """
    rows = points[points["value"] > 0].sort_values("k")  # 0 has no logarithm
    rows = rows.assign(line="k = " + rows["threshold"])
    names = list(dict.fromkeys(rows["line"]))
    figure = curves(
        rows, "size", "value", labels=(LABELS["size"], neg_log_rbp_label()), log="xy", ends=True, ylim="shared",
        styles={name: (colour, "o") for name, colour in zip(names, ramp(len(names)), strict=True)},
        fitted=fitted_lines(rows, ["dataset", "line"], level), size=(4.6, 4.2),
    )  # fmt: skip
    return {
        "figure": figure,
        "caption": f"<b>−ln RBPₖ of the rungs.</b> One line for each threshold, with the {level:.0%} confidence band "
        f"of the line. Bars: the {level:.0%} interval of each rung, by documents. They move together, as a hard "
        "document is hard for all rungs: points can lie closer to their line than their bars are long. V is the "
        "vocabulary.",
        "alt": "Log-log plots of −ln RBP at each threshold against model size with fitted lines, one panel a text",
        "data": points,
    }


def scatter_shown(splits: pd.DataFrame) -> dict[str, Any]:
    """`scatter_panels`."""
    return {
        "figure": scatter_panels(splits),
        "caption": "<b>The scatter about the law and its parts,</b> as standard deviations in per cent of −ln RBPₖ. "
        "Line: the whole; its square is the sum of the squares of its parts. Hollow, on the lower edge: a part that "
        "comes out at zero or below. Bars: the interval of the seeds’ part.",
        "alt": "For each text and threshold a line, the whole scatter, and three marks: documents, seeds, lack of fit",
        "data": splits,
    }


# ── Tables: what `Page.table` takes


def texts_shown(text: pd.DataFrame) -> dict[str, Any]:
    """The text that was trained and evaluated on (`shipping.shipped_text`)."""
    use = text["use"].map({"training": "trained on", "evaluation": "evaluated on"})
    table = text.assign(use=use, name=text["name"].map(dataset_label))
    caption = (
        "<b>The text.</b> An equal share of the tokens was drawn from each training source. Evaluation documents were "
        "ranked whole."
    )
    columns: Columns = {
        "use": "use",
        "name": "name",
        "documents": ("documents", "{:,}"),
        "tokens": ("tokens", "{:,}"),
        "licence": "licence",
        "origin": "origin",
    }
    return shown(table, columns, caption=caption, data=text)


def laws_shown(laws: pd.DataFrame, *, level: float, data: pd.DataFrame) -> dict[str, Any]:
    """The law of each text and k with both intervals of α; data: the laws at all k, for the CSV."""
    columns: Columns = {
        "dataset": "Text",
        "threshold": "k",
        "misses": ("missed, fewest", "{:,}"),
        "alpha": ("α", "{:.3f}"),
        ("alpha_low", "alpha_high"): ("from the scatter", INTERVAL),
        ("text_low", "text_high"): ("from the text", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "scatter": ("scatter, %", "{:.1f}"),
    }
    caption = (
        f"<b>The fits, with both {level:.0%} intervals of α.</b> Missed, fewest: tokens of rank above k, for the rung "
        "that misses fewest. Scatter: the standard deviation of the residuals, as a percentage of −ln RBPₖ."
    )
    return shown(laws.assign(scatter=100 * laws["residual_se"]), columns, caption=caption, data=data)


def reruns_shown(again: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """How far rungs trained again lie from their first training (`reruns`, with `what` differs)."""
    columns: Columns = {
        "dataset": "Text",
        "size": ("S", "{:,}"),
        "what": "another",
        "difference": ("difference, %", "{:+.1f}"),
        ("low", "high"): (f"{level:.0%} interval", INTERVAL_1),
    }
    caption = "<b>Trained again:</b> −ln RBP<sub>k</sub> beside the first training’s; intervals by documents."
    rows = again.replace({"what": {"weights": "start", "order": "order of the text"}})
    return shown(rows, columns, caption=caption, data=again)


# ── Other architectures


def _on_shared_rungs(text: Counts, family: str, ks: Sequence[int]) -> list[LeftOut]:
    """Select the rungs that the transformer and a family both have on a text, at their largest budgets, by size."""
    both = [text.of(name, seed=0) for name in (TRANSFORMER, family)]
    shared = [rung for rung in both[0].models["rung"] if rung in set(both[1].models["rung"])]
    if len(shared) < 3:
        what = f"{len(shared)} rungs of {family} are the transformer's as well"
        raise DataError(what, text.dataset, "Three are needed for a law: train them: rbp ladder train --family.")
    places = [[one.models["rung"].tolist().index(rung) for rung in shared] for one in both]
    return [one.keep(at, ks).left_out() for one, at in zip(both, places, strict=True)]


def compare_architectures(
    texts: Sequence[Counts], family: str, ks: Sequence[int], *, level: float = 0.95
) -> pd.DataFrame:
    """Compare the exponents in S of the transformer and of a family, on the rungs of both, at their largest budgets.

    Columns dataset, k (missing for the cross-entropy), family, n, alpha_transformer, r_squared_transformer, alpha,
    r_squared, difference (the family's less the transformer's); low, high: by documents, the same for both;
    scatter_low, scatter_high: from the scatter about the two lines, whose rungs are taken as pairs: the line of the
    ratio.
    """
    check_level(level)
    rows = []
    for text in texts:
        first, second = _on_shared_rungs(text, family, ks)
        sizes = [one.counts.sizes for one in (first, second)]
        for k, their in first.each():
            both = (their, second.at(k))
            fits = [fit_power_law(size, np.exp(y[0]), level=level) for size, y in zip(sizes, both, strict=True)]
            slopes = [exponents(size, y) for size, y in zip(sizes, both, strict=True)]
            difference, low, high = interval(slopes[1] - slopes[0], level=level)
            # sizes of a rung differ by few per cent: the ratio is taken along the transformer's
            ratio = fit_power_law(sizes[0], np.exp(both[1][0] - both[0][0]), level=level)
            half = (ratio.alpha_high - ratio.alpha_low) / 2
            rows.append(
                {"dataset": text.dataset, "k": k, "family": family, "n": fits[1].n}
                | {"alpha_transformer": fits[0].alpha, "r_squared_transformer": fits[0].r_squared}
                | {"alpha": fits[1].alpha, "r_squared": fits[1].r_squared, "difference": difference}
                | {"low": low, "high": high, "scatter_low": difference - half, "scatter_high": difference + half}
            )
    return pd.DataFrame(rows).astype({"k": "Int64"})


def architectures_table(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Show the exponents of `compare_architectures`, for `Page.table`."""
    columns: Columns = {
        "dataset": "Text",
        "measure": "of",
        "family": "family",
        "alpha_transformer": ("α, transformer", "{:.3f}"),
        "alpha": ("α, family", "{:.3f}"),
        "difference": ("difference", "{:+.3f}"),
        ("low", "high"): ("from the text, paired", "[{:+.3f}, {:+.3f}]"),
        ("scatter_low", "scatter_high"): ("from the scatter", "[{:+.3f}, {:+.3f}]"),
        "r_squared_transformer": ("R², transformer", "{:.4f}"),
        "r_squared": ("R², family", "{:.4f}"),
    }
    caption = (
        f"<b>Exponents of two designs, trained on the same text,</b> with {level:.0%} intervals of the difference: by "
        "documents, and by how models scatter."
    )
    rows = table.assign(family=table["family"].map(family_label), measure=table["k"].map(measure_label))
    return shown(rows, columns, caption=caption, data=table)
