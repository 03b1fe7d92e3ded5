"""Analyse a family trained from scratch: its law with two intervals, parts of its scatter, trials of its training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa
from matplotlib.axes import Axes
from scipy import stats

from companion.chapters.families import TRANSFORMER, counts_at, exponents, measure_label, of_measure
from companion.project import LADDER
from rbp.arrays import Reals, check_level
from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import curves, fitted_lines, shades
from rbp.figures.style import INK, LABELS, Panels, legend_below, log_axis, neg_log_rbp_label
from rbp.figures.wording import dataset_label, dataset_order, family_label
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import covariance, interval
from rbp.measurements import Source
from rbp.measurements.counts import Counts, LeftOut
from rbp.measurements.ranked import SHARES
from rbp.report.display import INTERVAL, Columns, shown
from rbp.tables import checked, read_csv


def points_by_document(left: LeftOut, *, level: float = 0.95) -> pd.DataFrame:
    """Compute −ln RBP_k of every model at every k, with its interval by documents.

    Columns dataset, family, model, size, k, value, low, high (NaN where all misses lie in one document). An interval
    covers what other documents of the kind could have given the same model.
    """
    counts, rows = left.counts, []
    values = np.exp(np.stack(interval(left.y, left.df, level=level), axis=-1))
    for m, labels in enumerate(counts.models[["family", "model", "size"]].itertuples(index=False, name=None)):
        rows += [(counts.dataset, *labels, k, *values[m, i]) for i, k in enumerate(counts.thresholds)]
    columns = ["dataset", "family", "model", "size", "k", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def laws_by_document(left: LeftOut, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the power law through the rungs at each k, with two intervals of α that answer different questions.

    alpha_low, alpha_high: ordinary least squares, from the scatter about the line. It covers what moves single rungs:
    seeds, lack of fit, and noise of documents that rungs do not share. text_low, text_high: by documents, each left
    out of all rungs. It covers which documents there are, and takes the rungs as they are.

    One row for each k: dataset, family, k, documents, tokens, misses (fewest of a rung), n, alpha, alpha_low,
    alpha_high, alpha_se, df, text_low, text_high (NaN where all misses of a rung lie in one document), r_squared,
    residual_se, note (why there is no fit; its numbers are then NaN).
    """
    first = left.keep(left.counts.firsts)
    counts, values = first.counts, np.exp(first.y[0])
    total = int(counts.tokens.sum())
    rows = []
    for i, k in enumerate(counts.thresholds):
        row: dict[str, Any] = {
            "dataset": counts.dataset,
            "family": counts.families[0],
            "k": k,
            "documents": counts.documents,
            "tokens": total,
            "misses": total - int(counts.hits[:, :, i].sum(axis=0).max()),
            "n": len(counts.sizes),
        }
        _, low, high = interval(exponents(counts.sizes, first.y[:, :, i]), first.df, level=level)
        try:
            fit = fit_power_law(counts.sizes, values[:, i], level=level)
        except FitError as error:
            row["note"] = error.what
        else:
            names = ("alpha", "alpha_low", "alpha_high", "alpha_se", "r_squared", "residual_se", "df")
            row |= {name: getattr(fit, name) for name in names}
            row |= {"text_low": low, "text_high": high, "note": ""}
        rows.append(row)
    columns = ["alpha", "alpha_low", "alpha_high", "alpha_se", "df", "text_low", "text_high", "r_squared"]
    ordered = ["dataset", "family", "k", "documents", "tokens", "misses", "n", *columns, "residual_se", "note"]
    return pd.DataFrame(rows, columns=ordered)


PARTS_OF_SCATTER = ["total", "document", "seed", "seed_low", "seed_high", "lack", "n", "seed_df"]


def split_scatter(sizes: npt.ArrayLike, values: Reals, *, level: float = 0.95) -> dict[str, float]:
    """Split the scatter of ln(−ln RBP_k) about the line through the first model of each of `sizes`.

    Models of one size are neighbours and differ in their seed. values: of the text and of it without each of its D
    documents, shape (1 + D, models), all finite; at least three different sizes, and two documents.

    Variances total = document + seed + lack, of which the last two can be negative. total: the squared scatter of the
    fit, over n − 2 degrees of freedom. document: what drawing other documents moves the rungs apart by. seed, seed_low,
    seed_high: the variance between seeds of one size, less what documents add to it, with an interval; seed_df: its
    degrees of freedom. NaN without repeated sizes; their part is then in lack, the rest.
    """
    y = values[0]
    size, rung = np.unique(np.asarray(sizes, dtype=np.float64), return_inverse=True)
    first = np.unique(rung, return_index=True)[1]
    design = np.column_stack([np.ones(len(size)), np.log(size)])
    residual = np.eye(len(size)) - design @ np.linalg.pinv(design)
    df, seed_df = len(size) - 2, len(rung) - len(size)
    member = np.eye(len(size))[rung]
    within = np.eye(len(rung)) - member @ (member / member.sum(axis=0)).T

    text = covariance(values)
    moved = residual @ text[np.ix_(first, first)] @ residual  # the residuals' covariance by documents
    total = float(np.sum((residual @ y[first]) ** 2)) / df
    document = float(np.trace(moved)) / df
    parts = {"total": total, "document": document, "lack": total - document, "n": len(size), "seed_df": seed_df}
    if not seed_df:
        return parts
    between = float(np.sum((within @ y) ** 2)) / seed_df
    shared = float(np.trace(within @ text @ within)) / seed_df
    tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], seed_df)
    low, high = np.maximum(seed_df * between / tails - shared, 0)
    seed = between - shared
    return parts | {"seed": seed, "seed_low": float(low), "seed_high": float(high), "lack": total - document - seed}


def scatter_parts(left: LeftOut, *, level: float = 0.95) -> pd.DataFrame:
    """Split the scatter of a text at every k: dataset, family, k and PARTS_OF_SCATTER (`split_scatter`).

    A k at which all misses of a model lie in one document has no row.
    """
    counts, rows = left.counts, []
    for k in counts.thresholds:
        if np.isfinite(left.at(k)).all():
            parts = split_scatter(counts.sizes, left.at(k), level=level)
            rows.append({"dataset": counts.dataset, "family": counts.families[0], "k": k} | parts)
    return pd.DataFrame(rows, columns=["dataset", "family", "k", *PARTS_OF_SCATTER])


@dataclass(frozen=True)
class LadderLaws:
    """A family's law on each dataset.

    texts: the counts behind it; shown: the requested thresholds, k → its name ("10", "0.4 V"); points: see
    `points_by_document`, of the first model of each size; laws: see `laws_by_document`; splits: see `scatter_parts`.
    The tables hold THRESHOLDS as well.
    """

    texts: list[Counts]
    shown: dict[int, str]
    points: pd.DataFrame
    laws: pd.DataFrame
    splits: pd.DataFrame

    def at(self, table: pd.DataFrame) -> pd.DataFrame:
        """Select the rows of one of the tables at the requested thresholds; column `threshold`: their names."""
        rows = table[table["k"].isin(list(self.shown))]
        return rows.assign(threshold=rows["k"].map(self.shown))


def fit_ladder(
    source: Source,
    datasets: Sequence[str] = (),
    ks: Sequence[int] = (1, 10, 100),
    shares: Sequence[float] = SHARES,
    *,
    level: float = 0.95,
) -> LadderLaws:
    """Read rank stores, and fit every text, whole and without each of its documents.

    source: rank stores of one family, such as "ladder"; datasets: none named means all; shares: large k, as shares of
    the vocabulary. The ladder's own counts come from `shipped_counts`, as far as it has them.
    Raises ParameterError for an unknown dataset and for values that make no sense, FitError for fewer than three
    sizes or two documents; else what `Source.counts` raises.
    """
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ParameterError(f"{wrong[0]} is not a share of the vocabulary", "shares", "Give shares between 0 and 1.")
    if not [*ks, *shares]:
        raise ParameterError("no threshold is given", "ks, shares", "Give some, such as ks=1,10,100.")
    counts, shown = counts_at(source, ks, shares)
    available = {text.dataset: text for text in counts}
    if unknown := [name for name in datasets if name not in available]:
        raise ParameterError(f"there are no ranks on {unknown[0]}", "datasets", f"There is: {', '.join(available)}.")
    texts = [available[name] for name in (datasets or dataset_order(available))]
    tables: list[list[pd.DataFrame]] = [[], [], []]
    for text in texts:
        if len(text.firsts) < 3:
            fault = f"{len(text.firsts)} sizes are too few for a law"
            raise FitError(fault, f"{text.families[0]} on {text.dataset}", "Give the ranks of at least three sizes.")
        if text.documents < 2:
            raise FitError("an interval needs several documents", text.dataset, "Give a text of several documents.")
        left = text.left_out()
        tables[0].append(points_by_document(left.keep(text.firsts), level=level))
        tables[1].append(laws_by_document(left, level=level))
        tables[2].append(scatter_parts(left, level=level))
    return LadderLaws(texts, shown, *(pd.concat(parts, ignore_index=True) for parts in tables))


def ladder_statistics(ladder: LadderLaws) -> dict[str, Any]:
    """Summarise a family's points and laws at the chosen thresholds."""
    laws, points = ladder.at(ladder.laws).dropna(subset="alpha"), ladder.at(ladder.points)
    ordered = points.sort_values("size").groupby(["dataset", "k", "threshold"], as_index=False)["value"]
    steps: Any = ordered.agg(lambda value: int((value.diff().dropna() < 0).all()))
    rising_rows = steps[steps["value"] == 0]
    by_dataset = rising_rows.groupby("dataset")["threshold"].agg(", ".join)
    rising = [f"{dataset_label(str(name))} ({by_dataset[name]})" for name in dataset_order(by_dataset.index)]
    first = laws[laws["k"] == min(ladder.shown)]
    width = (first["text_high"] - first["text_low"]) / (first["alpha_high"] - first["alpha_low"])
    return {
        "rungs": len(ladder.texts[0].firsts),
        "vocabulary": ladder.texts[0].vocabulary,
        "size_min": int(points["size"].min()),
        "size_max": int(points["size"].max()),
        "cells": len(steps),
        "falls": int(steps["value"].sum()),
        "rising_cells": ", ".join(rising) or "none",
        "r_squared_median": laws["r_squared"].median(),
        "width_ratio": width.median(),
    }


def law_panels(points: pd.DataFrame, *, level: float) -> Panels:
    """Draw −ln RBP_k of a family's rungs against S, by dataset, with the power law of each threshold and its band.

    `points` has dataset, size, k, threshold (its name), value, low, high. Where there is no fit, there is no line.
    """
    rows = points[points["value"] > 0].sort_values("k")  # 0 has no logarithm
    rows = rows.assign(line="k = " + rows["threshold"])
    names = dict(zip(rows["line"], rows["k"], strict=True))
    colours = shades(set(names.values()))
    return curves(
        rows, "size", "value", labels=(LABELS["size"], neg_log_rbp_label()), log="xy", name_ends=True, ylim="shared",
        styles={name: (colours[int(k)], "o") for name, k in names.items()},
        fitted=fitted_lines(rows, ["dataset", "line"], level), size=(4.6, 3.4),
    )  # fmt: skip


def law_table(laws: pd.DataFrame, *, caption: str, data: pd.DataFrame) -> dict[str, Any]:
    """List the law of each text and k with both intervals of α, for `Page.table`; data: the laws at all k."""
    columns: Columns = {
        ("dataset", "threshold"): ("dataset, k", "{}, {}"),
        "alpha": ("α", "{:.3f}"),
        ("alpha_low", "alpha_high"): ("from the scatter", INTERVAL),
        ("text_low", "text_high"): ("from the documents", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "scatter": ("scatter, %", "{:.1f}"),
        "misses": ("fewest misses", "{:,}"),
    }
    return shown(laws.assign(scatter=100 * laws["residual_se"]), columns, caption=caption, data=data)


PARTS = {
    "document": ("documents", "#9457C0", "o"),
    "seed": ("seeds", "#A0522D", "s"),
    "lack": ("lack of fit", "#5C8A2E", "D"),
}


def scatter_panels(splits: pd.DataFrame) -> Panels:
    """Draw the scatter about the line and its parts, by dataset, side by side for each threshold.

    `splits` has dataset, k, threshold, and the variances total, document, seed, seed_low, seed_high, lack of
    ln(−ln RBP_k). Heights are square roots in per cent, on a logarithmic axis. Hollow marks at the lower edge: parts
    whose variance comes out at zero or below.
    """
    heights = 100 * np.sqrt(splits[["total", *PARTS]].clip(lower=0))
    least = float(heights[heights > 0].min().min()) / 2
    most = 2 * float(max(heights.max().max(), 100 * np.sqrt(splits["seed_high"].max())))
    thresholds: Sequence[str] = splits.sort_values("k")["threshold"].drop_duplicates().tolist()

    def draw(ax: Axes, dataset: str) -> None:
        rows = splits[splits["dataset"] == dataset]
        place = rows["threshold"].map(thresholds.index).to_numpy(float)
        scatter = 100 * np.sqrt(rows["total"].to_numpy(float))
        ax.hlines(scatter, place - 0.42, place + 0.42, color=INK, lw=1.3, label="whole scatter")
        for i, (part, (name, colour, marker)) in enumerate(PARTS.items()):
            if rows[part].isna().all():
                continue
            x = place + 0.25 * (i - 1)
            height = 100 * np.sqrt(rows[part].clip(lower=0).to_numpy(float))
            seen = height > least
            ax.plot(x[seen], height[seen], marker, color=colour, ms=6, mew=0, label=name)
            if not seen.all():
                edge = np.full((~seen).sum(), least)
                ax.plot(x[~seen], edge, marker, color=colour, mfc="none", ms=6, mew=1.3, clip_on=False)
            if part == "seed":
                seed_interval = 100 * np.sqrt(rows[["seed_low", "seed_high"]].to_numpy(float).T)
                ax.vlines(x, np.maximum(seed_interval[0], least), seed_interval[1], color=colour, lw=1.2)
        for border in range(1, len(thresholds)):
            ax.axvline(border - 0.5, color=INK, lw=0.8, ls=":")
        ax.set_xticks(range(len(thresholds)), thresholds)
        ax.set_xlim(-0.5, len(thresholds) - 0.5)
        ax.set_yscale("log")
        ax.set_ylim(least, most)
        log_axis(ax, "y")
        ax.tick_params(axis="x", length=0, pad=8)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("threshold k")
        ax.set_ylabel(f"% of {neg_log_rbp_label()}")
        ax.set_title(dataset_label(dataset))
        legend_below(ax)

    return Panels(dataset_order(splits["dataset"]), draw, size=(4.6, 2.9))


# ── Trials of learning rates, seeds, batches and repeated text

TRIALS = LADDER / "trials.csv"
_COUNT = pa.Column("int64", pa.Check.ge(0, error="must not be negative"))
_POSITIVE = pa.Column("float64", pa.Check.gt(0, error="must be positive"))
_SCHEMA = pa.DataFrameSchema(
    {
        **dict.fromkeys(("model", "family", "rung"), pa.Column("str")),
        **dict.fromkeys(("seed", "budget", "batch"), _COUNT),
    }
    | {"rate": _POSITIVE, "distinct": pa.Column("float64", nullable=True), "loss": _POSITIVE}
)


def read_trials() -> pd.DataFrame:
    """Read the losses of all trials (data/ladder/README.md). Raises DataError for a missing or malformed file."""
    return checked(read_csv(TRIALS), _SCHEMA, TRIALS, keys=["model"], remedy="Restore it: git checkout -- data/ladder.")


def compare_trials(trials: pd.DataFrame, family: str = TRANSFORMER) -> pd.DataFrame:
    """Compare the loss of each trial with the loss of the grid's run of its size and budget, on rows that no run reads.

    trials: `read_trials`. Columns rung, budget, what (the trial changes), loss, difference (from the grid's run, per
    cent), seeds: the standard deviation of such a difference between seeds, per cent, pooled over rungs and budgets.
    """
    runs = trials[trials["family"] == family].assign(log=100 * np.log(trials["loss"]))
    runs["what"] = runs["model"].map(_describe_changes(trials)).fillna("")
    usual = runs[runs["what"] == ""]
    spread = usual.groupby(["rung", "budget"])["log"].agg(["var", "size"]).query("size > 1")
    variance = (spread["var"] * (spread["size"] - 1)).sum() / (spread["size"] - 1).sum()
    grid = usual[usual["seed"] == 0][["rung", "budget", "log"]]
    table = runs[runs["what"] != ""].merge(grid, on=["rung", "budget"], suffixes=("", "_grid"))
    table = table.assign(difference=table["log"] - table["log_grid"], seeds=np.sqrt(2 * variance))
    names = ["rung", "budget", "what", "loss", "difference", "seeds"]
    return table.sort_values(["budget", "rung", "what"], kind="stable")[names].reset_index(drop=True)


def trial_statistics(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise `compare_trials`: how many other rates, the most that one lowers the loss, and the seeds' spread (%).

    repeated: how far above the grid's loss a run over repeated text ends at most (%).
    """
    rates = table[table["what"].str.endswith("the rate")]
    repeated = table.loc[table["what"].str.endswith("repeated"), "difference"].max()
    values = {"rates": len(rates), "best": -rates["difference"].min(), "spread": table["seeds"].max()}
    return {f"trials.{name}": value for name, value in (values | {"repeated": repeated}).items()}


def trials_table(table: pd.DataFrame) -> dict[str, Any]:
    """Show `compare_trials`, for `Page.table`."""
    columns: Columns = {
        ("rung", "what"): ("size and change", "{}, {}"),
        "difference": ("difference, %", "{:+.2f}"),
        "loss": ("loss", "{:.3f}"),
        "budget": ("tokens", "{:,}"),
    }
    caption = (
        "<b>Other rates hardly help.</b> Each trial’s loss, in nats, on rows that no run reads, and its difference "
        f"from the ladder’s run. Between seeds its standard deviation is {table['seeds'].iloc[0]:.2f}%."
    )
    return shown(table, columns, caption=caption, data=table)


def compare_ranks(grid: Sequence[Counts], runs: Sequence[Counts], trials: pd.DataFrame) -> pd.DataFrame:
    """Compare ranked trials with the grid's runs of the same size and budget, in each measure.

    grid, runs: counts of the family, and of its trials; trials: `read_trials`, for what a trial changes. A row for each
    trial and measure (k missing: cross-entropy): rung, size, budget, what, k, difference (of ln y, its mean over the
    texts), seeds: the standard deviation of such a mean between seeds, pooled over the cells with several. Both in per
    cent of y.
    """
    rows = pd.concat([counts.table() for counts in (*grid, *runs)], ignore_index=True)
    rows = rows.assign(log=100 * np.log(rows["value"]), k=rows["k"].fillna(0).astype(int))
    rows["what"] = rows["model"].map(_describe_changes(trials)).fillna("")
    cell = ["rung", "size", "budget", "k"]
    usual = rows[rows["what"] == ""].pivot_table(index=[*cell, "seed"], columns="dataset", values="log")
    spread = usual.mean(axis=1).groupby(cell).agg(["var", "count"]).query("count > 1").reset_index()
    spread["weight"] = spread["count"] - 1
    sums = spread.assign(sum=spread["var"] * spread["weight"]).groupby("k")[["sum", "weight"]].sum()
    scatter = np.sqrt(2 * sums["sum"] / sums["weight"])
    table = []
    key: Any
    for key, texts in rows[rows["what"] != ""].groupby(["model", "what", *cell], sort=False):
        labels: dict[str, Any] = dict(zip(["model", "what", *cell], key, strict=True))
        away = texts.set_index("dataset")["log"] - usual.loc[(*key[2:], 0)]
        row = labels | {"difference": away.mean(), "seeds": scatter[labels["k"]]}
        table.append(row | {"k": labels["k"] or None})
    columns = ["rung", "size", "budget", "what", "k", "difference", "seeds"]
    differences = pd.DataFrame(table, columns=columns).astype({"k": "Int64"})
    return differences.sort_values(["size", "budget", "what"], kind="stable")


def _describe_changes(trials: pd.DataFrame) -> "pd.Series[str]":
    """Describe what each trial changes in the grid's recipe, by model; trials that change nothing are left out."""
    usual = trials.loc[~trials["model"].str.contains("-rate")].groupby(["family", "rung"])["rate"].first()
    changes: dict[str, str] = {}
    row: Any
    for row in trials.itertuples():
        if pd.notna(row.distinct):
            changes[row.model] = f"the first {row.distinct / 1e6:g} M, repeated"
        elif "-batch" in row.model:
            changes[row.model] = f"batches of {row.batch} rows"
        elif "-rate" in row.model:
            rate = usual.get((row.family, row.rung))
            changes[row.model] = f"a rate of {row.rate:g}" if rate is None else f"{row.rate / rate:.3g} × the rate"
    return pd.Series(changes, dtype="str")


def rank_statistics(ranks: pd.DataFrame, points: pd.DataFrame, k: int = 10) -> dict[str, Any]:
    """Summarise `compare_ranks` for the trial of half the rate at the largest size and budget that has one.

    At k: by how much y falls, and the exponent in S from the size before it in the grid, by the grid's run and by the
    trial. points: `families.tabulate_points`.
    """
    last = ranks[(ranks["k"] == k) & (ranks["what"] == "0.5 × the rate")].iloc[-1]
    grid = of_measure(points, k).query("training_tokens == @last.budget")
    logs = np.log(grid.pivot_table(index="size", columns="dataset", values="value")).mean(axis=1)
    (small, large), (before, after) = np.log(logs.index[-2:]), logs.iloc[-2:]
    steps = {
        f"step.{name}": (before - after - by / 100) / (large - small)
        for name, by in (("grid", 0), ("half", last.difference))
    }
    values = {"falls": -last.difference, "seeds": last.seeds} | steps
    return {f"trials.{name}": value for name, value in values.items()}


# ── Other architectures


def _on_shared_rungs(text: Counts, family: str, ks: Sequence[int]) -> list[LeftOut]:
    """Select the rungs that the transformer and a family both have on a text, at their largest budgets, by size."""
    both = [text.of(name, seed=0) for name in (TRANSFORMER, family)]
    shared = [rung for rung in both[0].models["rung"] if rung in set(both[1].models["rung"])]
    if len(shared) < 3:
        fault = f"{len(shared)} sizes of {family} are sizes of the transformer too"
        raise DataError(fault, text.dataset, "A law needs three. Train more: rbp ladder train --family.")
    places = [[counts.models["rung"].tolist().index(rung) for rung in shared] for counts in both]
    return [counts.keep(models, ks).left_out() for counts, models in zip(both, places, strict=True)]


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
        sizes = [line.counts.sizes for line in (first, second)]
        for k, their in first.by_metric():
            both = (their, second.at(k))
            fits = [fit_power_law(size, np.exp(y[0]), level=level) for size, y in zip(sizes, both, strict=True)]
            slopes = [exponents(size, y) for size, y in zip(sizes, both, strict=True)]
            difference, low, high = interval(slopes[1] - slopes[0], first.df, level=level)
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


def architectures_table(table: pd.DataFrame) -> dict[str, Any]:
    """Show the exponents of `compare_architectures`, for `Page.table`."""
    name = family_label(table["family"].iloc[0]).removeprefix("Our ")
    columns: Columns = {
        ("dataset", "measure"): ("dataset, measure", "{}, {}"),
        "difference": ("difference", "{:+.3f}"),
        ("low", "high"): ("by documents, paired", "[{:+.3f}, {:+.3f}]"),
        ("scatter_low", "scatter_high"): ("from the scatter", "[{:+.3f}, {:+.3f}]"),
        "alpha_transformer": ("α, transformer", "{:.3f}"),
        "alpha": (f"α, {name}", "{:.3f}"),
        "r_squared_transformer": ("R², transformer", "{:.4f}"),
        "r_squared": (f"R², {name}", "{:.4f}"),
    }
    return shown(table.assign(measure=table["k"].map(measure_label)), columns, data=table)
