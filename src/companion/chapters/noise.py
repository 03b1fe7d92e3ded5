"""Chapter "Large k and noise": counting noise in the fits at large k, and which tokens are missed there."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

from companion.plots import name_rows
from companion.stats.cells import holm
from companion.stats.clustering import (
    Statistic,
    cluster_sums,
    log_design_effect,
    log_scatter_effect,
    log_size_weights,
    scatter_sums,
    trend_bound,
)
from companion.stats.overdispersion import scatter_about_law
from ladder import shipping
from rbp.arrays import Integers, Reals
from rbp.errors import DataError, FitError
from rbp.figures.style import FAINT, Panels, family_style, log_axis
from rbp.figures.wording import cell_label, dataset_label, dataset_order, family_label, listed
from rbp.laws.resampling import degrees_of_freedom, interval, without_each
from rbp.measurements import Source, open_source
from rbp.measurements.ranked import Ranked
from rbp.report.display import Columns, shown
from rbp.store import RankStore

CELL = ["dataset", "family"]
GREY = "#868B93"


#: k → the name of the range it lies in; Holm's correction is for the fits of one range
RANGES = {"small": (1, 100), "middle": (101, 9_999), "large": (10_000, 10**9)}
BEYOND, ENOUGH, OPEN = "more than noise", "noise is enough", "open"


def known_cells(tokens: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of `tokens.tokens_behind` whose number is known. Raises DataError where none is."""
    with_tokens = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    if with_tokens.empty:
        raise DataError("the number of tokens behind the values is not known", "measurements", "Give tokens and hits.")
    return with_tokens


def judge_scatter(
    points: pd.DataFrame,
    tokens: pd.DataFrame,
    clustered: pd.DataFrame,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Test whether the scatter about each fitted law exceeds counting noise: `overdispersion.scatter_about_law`.

    points: dataset, family, k, size, value; tokens: `known_cells`; clustered: `clustering_table`. A row for each cell
    of three sizes and known tokens: CELL, k, range (of RANGES), n, tokens, misses (fewest of a model),
    counting (its noise in ln(−ln RBP_k)), deviance, df, p, p_holm, extra, extra_low, extra_high (the scatter beyond),
    effect, effect_low, effect_high (the ladder's design effect); verdict, for all effects up to the interval's end:
    BEYOND (counting does not make the deviance, after Holm), ENOUGH (it makes half of the squared scatter) or OPEN;
    mostly: whether extra is below counting. Raises FitError where there is no such cell.
    """
    rows = []
    for key, cell in points.merge(tokens, on=CELL, suffixes=("_stated", "")).groupby([*CELL, "k"]):
        total = float(cell["tokens"].iloc[0])
        misses = np.rint(-np.expm1(-cell["value"].to_numpy(float)) * total)
        if cell["size"].nunique() < 3 or not ((misses > 0) & (misses < total)).all():
            continue
        effect, low, high = design_effects_at(clustered, str(key[0]), misses.mean() / total)
        least, most = np.nanmin([1.0, low]), np.nanmax([1.0, high])
        independent, narrow, wide = scatter_about_law(
            cell["size"], misses, total, design_effects=(1.0, least, most), level=level, resamples=resamples, seed=seed
        )
        row = dict(zip([*CELL, "k"], key, strict=True)) | {"n": len(cell), "tokens": total, "misses": misses.min()}
        fields = ("counting", "deviance", "df", "p", "extra", "extra_low", "extra_high")
        row |= {name: getattr(independent, name) for name in fields}
        row |= {"effect": effect, "effect_low": low, "effect_high": high}
        rows.append(row | {"p_most": wide.p, "enough": narrow.enough, "mostly": narrow.extra <= narrow.counting})
    if not rows:
        raise FitError("no family has three models that miss tokens", "measurements", "Give more models, or another k.")
    table = pd.DataFrame(rows)
    range_ends = [last for _, last in RANGES.values()]
    table.insert(3, "range", [list(RANGES)[int(np.searchsorted(range_ends, k))] for k in table["k"]])
    for name in ("p", "p_most"):
        table[f"{name}_holm"] = table.groupby("range")[name].transform(holm)
    beyond = table["p_most_holm"] < 1 - level
    table["verdict"] = np.where(beyond, BEYOND, np.where(table["enough"], ENOUGH, OPEN))
    return table.drop(columns=["p_most", "p_most_holm", "enough"])


def design_effects_at(
    clustered: pd.DataFrame, dataset: str, share: float, what: str = "scatter"
) -> tuple[float, float, float]:
    """Look up the design effect at about this share of misses, and its interval.

    clustered: `clustering_table`; what: "scatter" (about a line), or "difference" (the mean over pairs of models).
    Taken from the dataset itself, at the nearest rate on a logarithmic scale; for a dataset without ranks, the
    median over the others, with the widest interval. NaN where there is none.
    """
    rows = clustered[clustered["what"] == what].dropna(subset="effect")
    rows = rows[rows["dataset"] == dataset] if (rows["dataset"] == dataset).any() else rows
    if rows.empty:
        return np.nan, np.nan, np.nan
    off = np.abs(np.log(rows["rate"] / share))
    rows = rows[off == off.min()]
    return float(rows["effect"].median()), float(rows["effect_low"].min()), float(rows["effect_high"].max())


RESULTS = ("z", "p", "needed")  # of `trend_bound`


def find_rises(
    points: pd.DataFrame, tokens: pd.DataFrame, clustered: pd.DataFrame, *, level: float = 0.95
) -> pd.DataFrame:
    """Find the families whose missed tokens rise with size, and test the rise by `clustering.trend_bound`.

    points, tokens, clustered as for `judge_scatter`. A row for each cell and k where the trend of the missed tokens in
    ln S is positive: CELL, k, models, misses_smallest, misses_largest; for the ends and for the trend over all sizes z,
    p and needed (ends_z … trend_needed); effect, effect_high (the design effect of differences between models, and its
    interval's upper end); beyond: whether the trend is more than chance even at that end.
    """
    rows = []
    for key, cell in points.merge(tokens, on=CELL, suffixes=("_stated", "")).groupby([*CELL, "k"]):
        cell = cell.sort_values("size")
        if cell["size"].nunique() < 2:
            continue
        share = -np.expm1(-cell["value"].to_numpy(float))
        misses = np.rint(share * cell["tokens"].to_numpy(float))
        trend = trend_bound(misses, log_size_weights(cell["size"]), level=level)
        if trend.change <= 0:
            continue
        extremes = trend_bound(misses[[0, -1]], [-1, 1], level=level)
        effect, _, high = design_effects_at(clustered, str(key[0]), share.mean(), "difference")
        results = [getattr(test, name) for test in (extremes, trend) for name in RESULTS]
        row = (*key, len(cell), misses[0], misses[-1], *results)
        rows.append((*row, effect, high, bool(trend.needed > np.nanmax([1.0, high]))))
    names = [*CELL, "k", "models", "misses_smallest", "misses_largest"]
    names += [f"{kind}_{name}" for kind in ("ends", "trend") for name in RESULTS]
    table = pd.DataFrame(rows, columns=[*names, "effect", "effect_high", "beyond"])
    return table.astype({"beyond": bool}).sort_values("trend_z", ascending=False, ignore_index=True)


#: shares of missed tokens: from those at k = 1 down to GPT-2's 0.4% at k = 10 000, and further
RATES = (0.5, 0.15, 0.05, 0.02, 0.01, 0.004, 0.002)
PIECE = 511  # ranked tokens of a document, at most, by the authors' protocol
SEEN = (0, 1, 10, 100, 1_000, 10_000)  # edges of the classes of counts in the training text


def align_ranks(stores: Sequence[RankStore]) -> tuple[pd.DataFrame, Reals]:
    """Align the ranks of several models: their tokens (document, position, token), and ranks of shape (T, models).

    Raises DataError where two stores do not hold the same tokens in the same places.
    """
    places, ranks = None, []
    for store in stores:
        ranked = Ranked(store)
        tokens = ranked.tokens[["document", "position", "token"]]
        if places is not None and not places.equals(tokens):
            fault = f"{store.model} and {stores[0].model} did not rank the same tokens of {store.dataset}"
            raise DataError(fault, str(store.folder), "Extract both with one tokenizer, corpus and protocol.")
        places = tokens
        ranks.append(np.asarray(ranked.ranks, dtype=float))
    if places is None:
        raise DataError("there is no rank store", "stores", "Give at least one.")
    return places, np.column_stack(ranks)


def cut_pieces(places: pd.DataFrame, length: int = PIECE) -> Integers:
    """Number the pieces of at most `length` tokens into which documents are cut, for each token, shape (T,).

    A design effect grows with the length of what is sampled as a whole. Pieces give the design effect of a text of many
    short documents, such as the authors'.
    """
    name = places["document"].to_numpy(np.int64) * 1_000_000 + places["position"].to_numpy(np.int64) // length
    return np.unique(name, return_inverse=True)[1].astype(np.int64)


def threshold_for(ranks: npt.ArrayLike, rate: float) -> int:
    """Find the k above which about `rate` of all ranks lie (models pooled)."""
    return max(1, int(np.quantile(np.asarray(ranks, dtype=float), 1 - rate, method="lower")))


def clustering_table(stores: Sequence[RankStore], rates: Sequence[float] = RATES) -> pd.DataFrame:
    """Measure design effects of misses, of differences between models, and of models' scatter, on one dataset.

    The units sampled as a whole are `cut_pieces`; the intervals are over documents. One row for each rate and what:
    "misses", the geometric mean over the models; "difference", over the pairs of models, of which one of the two
    misses; and "scatter", of all about a line (`clustering.log_scatter_effect`, of three models or more). Columns
    dataset, what, rate (requested), k, tokens, documents, effect, effect_low, effect_high (95%).
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = align_ranks(ordered)
    documents, pieces = places["document"].to_numpy(), cut_pieces(places)
    once = Ranked(ordered[0]).units.once
    df = degrees_of_freedom(places[once].groupby("document").size())

    def effect(add_up: Callable[..., Reals], values: Sequence[Any], statistic: Statistic) -> dict[str, float]:
        sums = [add_up(value, pieces, documents) for value in values]
        independent = [add_up(value[once], pieces[once], documents[once]) for value in values]
        return _effect(sums, independent, statistic, df)

    rows = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        missed = ranks > k
        pairs = [missed[:, j].astype(float) - missed[:, i] for i, j in combinations(range(len(ordered)), 2)]
        parts = {"misses": list(missed.T), "difference": pairs}
        base = {"dataset": ordered[0].dataset, "rate": rate, "k": k, "tokens": len(ranks)}
        base["documents"] = len(np.unique(documents))
        for kind, values in parts.items():
            values = [missed_tokens for missed_tokens in values if np.ptp(missed_tokens.astype(float))]
            rows.append(base | {"what": kind} | effect(cluster_sums, values, log_design_effect))
        if len({store.size for store in ordered}) > 2:
            line = log_scatter_effect([store.size for store in ordered])
            rows.append(base | {"what": "scatter"} | effect(scatter_sums, [missed], line))
    columns = ["dataset", "what", "rate", "k", "tokens", "documents", "effect", "effect_low", "effect_high"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _effect(
    sums: Sequence[Reals], independent: Sequence[Reals], log_statistic: Statistic, df: float
) -> dict[str, float]:
    """Average a design effect over several sums by document: the geometric mean, with its interval; {} for none.

    independent: the sums without what repeats an earlier document's beginning, for the interval, of `df`.
    """
    if not sums:
        return {}
    part_ends = np.cumsum([part.shape[1] for part in sums])[:-1]
    totals = without_each(np.concatenate(independent, axis=1))
    totals[0] = np.concatenate(sums, axis=1).sum(axis=0)

    def mean(totals: Any) -> Any:
        blocks = np.split(totals, part_ends, axis=-1)
        return sum(log_statistic(block) for block in blocks) / len(blocks)

    with np.errstate(all="ignore"):
        value, low, high = np.exp(interval(mean(totals), df))
    return {"effect": float(value), "effect_low": float(low), "effect_high": float(high)}


def by_training_count(
    stores: Sequence[RankStore], counts: Integers, rates: Sequence[float] = RATES, edges: Sequence[int] = SEEN
) -> pd.DataFrame:
    """Count which tokens are missed, by how often the token occurred in the training text.

    counts: shape (vocabulary,), the training count of every token. One row for each model, rate and class of counts
    (from `low` up to the next edge): dataset, model, size, rate, k, low, tokens (of the evaluation text in the class),
    misses, share_of_tokens, share_of_misses.
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = align_ranks(ordered)
    group = np.searchsorted(np.asarray(edges), counts[places["token"].to_numpy()], side="right") - 1
    tokens = np.bincount(group, minlength=len(edges))
    parts = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        for i, store in enumerate(ordered):
            misses = np.bincount(group[ranks[:, i] > k], minlength=len(edges))
            table = pd.DataFrame({"low": edges, "tokens": tokens, "misses": misses})
            table["share_of_tokens"] = tokens / tokens.sum()
            table["share_of_misses"] = misses / max(misses.sum(), 1)
            parts.append(table.assign(dataset=store.dataset, model=store.model, size=store.size, rate=rate, k=k))
    return pd.concat(parts, ignore_index=True)


def measure_clustering(source: Source) -> pd.DataFrame:
    """Compute `clustering_table` of each dataset of rank stores."""
    return pd.concat([clustering_table(stores) for stores in _by_dataset(source)], ignore_index=True)


def rare_misses() -> pd.DataFrame:
    """Compute `by_training_count` of every domain of the shipped ladder."""
    counts = shipping.read_token_counts()
    tables = [by_training_count(stores, counts) for stores in _by_dataset(open_source("ladder"))]
    return pd.concat(tables, ignore_index=True)


def _by_dataset(source: Source) -> list[list[RankStore]]:
    names = dict.fromkeys(store.dataset for store in source.stores)
    return [[store for store in source.stores if store.dataset == name] for name in names]


# ── What is recorded


def summarize_scatter(judged: pd.DataFrame, rising: pd.DataFrame, level: float) -> dict[str, Any]:
    """Collect the numbers of `judge_scatter`, mostly at large k, and of `find_rises`, for page and ledger, by key."""
    large = judged[judged["range"] == "large"]
    values: dict[str, Any] = {
        "large.tests": len(large),
        "large.holm": int((large["p_holm"] < 1 - level).sum()),
        "large.beyond": int((large["verdict"] == BEYOND).sum()),
        "large.enough": int((large["verdict"] == ENOUGH).sum()),
        "large.open": int((large["verdict"] == OPEN).sum()),
        "large.mostly": int(large["mostly"].sum()),
        "rises": len(rising),
        "rises_significantly": int(rising["beyond"].sum()),
    }
    if len(large):
        beyond = large[large["verdict"] == BEYOND]
        values |= {"large_cells": listed(f"{cell_label(row)} at k = {row.k:,}" for row in beyond.itertuples())}
    pythia = large[(large["family"] == "Pythia") & (large["dataset"] == "wikipedia") & (large["k"] == 30_000)]
    values |= {f"pythia_{end}": pythia[end].mean() for end in ("extra_low", "extra_high")}
    gpt_2 = rising[(rising["family"] == "GPT-2") & (rising["dataset"] == "wikipedia") & (rising["k"] == 10_000)]
    row: Any
    for row in gpt_2.to_dict("records"):
        values |= {"rise.from": int(row["misses_smallest"]), "rise.to": int(row["misses_largest"])}
        values |= {"rise.z": row["ends_z"], "rise.needed": min(row["ends_needed"], row["trend_needed"])}
        values |= {"rise.effect": row["effect"], "rise.effect_high": row["effect_high"]}
    return values


def write_answers(judged: pd.DataFrame, *, level: float, resamples: int) -> list[str]:
    """Say in how many fits of `judge_scatter` the scatter is more than noise, and where no test could show it."""
    sentences, undecided = [], []
    for name, (low, high) in RANGES.items():
        rows = judged[judged["range"] == name]
        counts = rows["verdict"].value_counts()
        if least := len(rows) / (resamples + 1):  # the smallest p of a simulation, times Holm's factor
            where = f"k of {low:,} to {high:,}" if name != "large" else f"k of {low:,} or more"
            beyond, enough, undecidable = (int(counts.get(verdict, 0)) for verdict in (BEYOND, ENOUGH, OPEN))
            fits = f"of {len(rows)} fits"
            text = f"At {where}, scatter is significantly more than counting (Holm) in {beyond} {fits}. Noise is "
            sentences.append(text + f"enough in {enough} {fits}, and too few models leave {undecidable} {fits} open.")
            undecided += [len(rows)] * (least >= 1 - level)
    if undecided:
        need = int(np.ceil(max(undecided) / (1 - level)))
        text = f"With {resamples:,} simulations none of {max(undecided)} tests can reach {level:.4g}: after "
        text += f"Holm’s correction p is {max(undecided) / (resamples + 1):.2g} at least. Give resamples={need}."
        sentences.append(text)
    return sentences


def summarize_rare(table: pd.DataFrame) -> dict[str, Any]:
    """Collect the page's numbers on tokens that are rare in training. table: `by_training_count` at one rate."""
    first, last = (table[table["size"] == size] for size in (table["size"].min(), table["size"].max()))
    rare = last[(last["dataset"] == dataset_order(last["dataset"])[0]) & (last["low"] < 100)]
    misses = [models[models["low"] < 10].groupby("dataset")["misses"].sum() for models in (first, last)]
    return {
        "rare_tokens": 100 * rare["share_of_tokens"].sum(),
        "rare_misses": 100 * rare["share_of_misses"].sum(),
        "rarest_rises": int((misses[1] > misses[0]).sum()),
        "texts": len(misses[0]),
    }


# ── Figures and tables: what `Page.figure` and `Page.table` take besides a name


def _plotted(judged: pd.DataFrame) -> pd.DataFrame:
    """Select the fits at large k, or all where there are none."""
    large = judged[judged["range"] == "large"]
    return large if len(large) else judged


def plotted_counts(judged: pd.DataFrame) -> dict[str, int]:
    """Count what `scatter_figure` plots: fits, and beyond, which scatter significantly more than counting."""
    plotted = _plotted(judged)
    return {"fits": len(plotted), "beyond": int((plotted["verdict"] == BEYOND).sum())}


def scatter_figure(judged: pd.DataFrame) -> dict[str, Any]:
    """Plot the scatter of models beyond counting, and counting itself: a panel for each dataset, a row for each fit.

    judged: `judge_scatter`, of which the fits at large k are plotted, or all where there are none. Grey: counting, for
    independent tokens and as far as the interval of the design effect goes. Filled: more than noise. A line to the left
    edge includes none.
    """
    table = _plotted(judged)
    families = sorted(set(table["family"]))
    limits = 25 * table["counting"].min(), 150 * table["extra_high"].clip(upper=2).max()

    def draw(ax: Axes, dataset: str) -> None:
        fits: list[Any] = list(table[table["dataset"] == dataset].sort_values(["family", "k"]).itertuples())
        for y, row in enumerate(fits):
            colour, marker = family_style(row.family, families)
            effects = np.array([np.nanmin([1.0, row.effect_low]), np.nanmax([1.0, row.effect_high])])
            ax.plot(100 * row.counting * np.sqrt(effects), [y, y], color=GREY, lw=6, solid_capstyle="butt")
            line = np.maximum(100 * np.array([row.extra_low, row.extra_high]), limits[0])
            ax.plot(line, [y, y], color=colour, lw=1.2)
            style = {"mew": 0} if row.verdict == BEYOND else {"mfc": FAINT, "mew": 1.2}
            ax.plot(max(100 * row.extra, limits[0]), y, marker, color=colour, ms=6, zorder=3, **style)
        name_rows(ax, [f"{family_label(row.family)}, k = {row.k:,}" for row in fits])
        ax.set_xlim(*limits)
        log_axis(ax, "x")
        ax.set_xlabel("scatter of −ln RBPₖ beyond counting (%)")
        ax.set_title(dataset_label(dataset))

    rows = int(table.groupby("dataset").size().max())
    return {
        "figure": Panels(dataset_order(table["dataset"]), draw, size=(4.6, 1.0 + 0.29 * rows)),
        "alt": "Intervals of the scatter beyond counting, a row for each fit, over grey bars of counting itself",
        "data": judged,
    }


def rises_table(rising: pd.DataFrame, *, caption: str) -> dict[str, Any]:
    """Show the cases in which misses rise with size (`find_rises`)."""
    columns: Columns = {
        ("family", "dataset", "k"): ("Case", "{} on {}, k = {:,}"),
        "ends_needed": ("effect needed", "{:.1f}"),
        ("effect", "effect_high"): ("ours", "{:.1f} (up to {:.1f})"),
        "trend_needed": ("needed by the trend", "{:.1f}"),
        "ends_z": ("z at least", "{:.1f}"),
        ("misses_smallest", "misses_largest"): ("missed, smallest to largest", "{:,.0f} to {:,.0f}"),
    }
    return shown(rising, columns, caption=caption)
