"""Chapter "Large k and noise": what counting makes of the fits at large k, and which tokens are missed there."""

from collections.abc import Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

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
from companion.steps import step
from ladder import shipping
from rbp.arrays import Integers, Reals
from rbp.errors import DataError, FitError, ParameterError
from rbp.extract.store import RankStore
from rbp.figures.curves import by_number, curves, numbered, shades, spread
from rbp.figures.style import INK, Panels, family_style, legend_below, log_axis
from rbp.figures.wording import cell_label, dataset_label, dataset_order, fits_listed
from rbp.laws.counting import alpha_error, tokens_needed
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import interval, without_each
from rbp.measurements import Source, open_source
from rbp.measurements.ranked import Ranked
from rbp.report.display import Columns, shown

CELL = ["dataset", "family"]


#: k → the name of the range it lies in; Holm's correction is for the fits of one range
RANGES = {"small": (1, 100), "middle": (101, 9_999), "large": (10_000, 10**9)}
BEYOND, ENOUGH, OPEN = "more than noise", "noise is enough", "open"


def scatter_judged(
    points: pd.DataFrame,
    tokens: pd.DataFrame,
    clustered: pd.DataFrame,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """Is the scatter about each fitted law more than the noise of counting? `overdispersion.scatter_about_law`.

    points: dataset, family, k, size, value; tokens: `tokens.tokens_behind`; clustered: `clustering_table`. A row for
    each cell of three sizes and known tokens: CELL, k, range (of RANGES), n, tokens, misses (fewest of a model),
    counting (its noise in ln(−ln RBP_k)), deviance, df, p, p_holm, extra, extra_low, extra_high (the scatter beyond),
    effect, effect_low, effect_high (the ladder's design effect), p_clustered, p_clustered_holm; verdict, for all
    effects up to the interval's end: BEYOND (counting does not make the deviance, after Holm), ENOUGH (it makes half of
    the squared scatter) or OPEN; mostly: whether extra is below counting. Raises DataError where no tokens are known.
    """
    if tokens.empty or (tokens["basis"] == "at most").all():
        raise DataError(
            "nothing tells how many tokens stand behind the values", "measurements", "Give tokens and hits."
        )
    known = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    rows = []
    for key, own in points.merge(known, on=CELL, suffixes=("_stated", "")).groupby([*CELL, "k"]):
        total = float(own["tokens"].iloc[0])
        misses = np.rint(-np.expm1(-own["value"].to_numpy(float)) * total)
        if own["size"].nunique() < 3 or not ((misses > 0) & (misses < total)).all():
            continue
        effect, low, high = design_effects_at(clustered, str(key[0]), misses.mean() / total)
        least, most = np.nanmin([1.0, low]), np.nanmax([1.0, high])
        asked = (1.0, effect if effect > 0 else 1.0, least, most)
        found = scatter_about_law(
            own["size"], misses, total, design_effects=asked, level=level, resamples=resamples, seed=seed
        )
        one, clustering, narrow, wide = found
        row = dict(zip([*CELL, "k"], key, strict=True)) | {"n": len(own), "tokens": total, "misses": misses.min()}
        row |= {"counting": one.counting, "deviance": one.deviance, "df": one.df, "p": one.p}
        row |= {"extra": one.extra, "extra_low": one.extra_low, "extra_high": one.extra_high}
        row |= {"effect": effect, "effect_low": low, "effect_high": high, "p_clustered": clustering.p}
        rows.append(row | {"p_most": wide.p, "enough": narrow.enough, "mostly": narrow.extra <= narrow.counting})
    if not rows:
        raise FitError("no family has three models that miss tokens", "measurements", "Give more models, or another k.")
    table = pd.DataFrame(rows)
    ends = [last for _, last in RANGES.values()]
    table.insert(3, "range", [list(RANGES)[int(np.searchsorted(ends, k))] for k in table["k"]])
    for name in ("p", "p_clustered", "p_most"):
        table[f"{name}_holm"] = table.groupby("range")[name].transform(holm)
    beyond = table["p_most_holm"] < 1 - level
    table["verdict"] = np.where(beyond, BEYOND, np.where(table["enough"], ENOUGH, OPEN))
    return table.drop(columns=["p_most", "p_most_holm", "enough"])


def design_effects_at(
    clustered: pd.DataFrame, dataset: str, share: float, what: str = "scatter"
) -> tuple[float, float, float]:
    """The design effect at about this share of misses, and its interval.

    clustered: `clustering_table`; what: "scatter" (about a line), or "difference" (the mean over pairs of models).
    That of the dataset itself, at the rate that is nearest on a logarithmic scale; of a dataset without ranks, the
    median over the others, with the widest interval. NaN where there is none.
    """
    own = clustered[clustered["what"] == what].dropna(subset="effect")
    own = own[own["dataset"] == dataset] if (own["dataset"] == dataset).any() else own
    if own.empty:
        return np.nan, np.nan, np.nan
    off = np.abs(np.log(own["rate"] / share))
    own = own[off == off.min()]
    return float(own["effect"].median()), float(own["effect_low"].min()), float(own["effect_high"].max())


def rises(points: pd.DataFrame, tokens: pd.DataFrame, clustered: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The families whose missed tokens rise with size, and whether chance can make that: `clustering.trend_bound`.

    points, tokens, clustered as for `scatter_judged`. A row for each cell and k where the trend of the missed tokens in
    ln S is positive: CELL, k, models, misses_smallest, misses_largest; for the ends and for the trend over all sizes z,
    p and needed (ends_z … trend_needed); effect, effect_high (the design effect of differences between models, and its
    interval's upper end); beyond: whether the trend is more than chance even at that end.
    """
    known = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    rows = []
    for key, own in points.merge(known, on=CELL, suffixes=("_stated", "")).groupby([*CELL, "k"]):
        own = own.sort_values("size")
        if own["size"].nunique() < 2:
            continue
        share = -np.expm1(-own["value"].to_numpy(float))
        misses = np.rint(share * own["tokens"].to_numpy(float))
        trend = trend_bound(misses, log_size_weights(own["size"]), level=level)
        if trend.change <= 0:
            continue
        ends = trend_bound(misses[[0, -1]], [-1, 1], level=level)
        effect, _, high = design_effects_at(clustered, str(key[0]), share.mean(), "difference")
        row = (*key, len(own), misses[0], misses[-1], ends.z, ends.p, ends.needed, trend.z, trend.p, trend.needed)
        rows.append((*row, effect, high, bool(trend.needed > np.nanmax([1.0, high]))))
    names = [*CELL, "k", "models", "misses_smallest", "misses_largest"]
    names += [f"{kind}_{name}" for kind in ("ends", "trend") for name in ("z", "p", "needed")]
    table = pd.DataFrame(rows, columns=[*names, "effect", "effect_high", "beyond"])
    return table.astype({"beyond": bool}).sort_values("trend_z", ascending=False, ignore_index=True)


def one_cell(points: pd.DataFrame, family: str = "", dataset: str = "") -> pd.DataFrame:
    """The points of one family on one dataset; "" leaves a choice open, and the cell with the most points is taken.

    Raises ParameterError where there are none.
    """
    own = points[points["family"].eq(family or points["family"]) & points["dataset"].eq(dataset or points["dataset"])]
    if own.empty:
        what = f"no values of {family or 'any family'} on {dataset or 'any dataset'}"
        raise ParameterError(what, "family, dataset", "Name a family and a dataset of the measurements.")
    most = own.groupby(CELL, as_index=False).size().sort_values("size", ascending=False, kind="stable").iloc[0]
    return own[(own[CELL] == most[CELL]).all(axis=1)]


def tokens_for(
    points: pd.DataFrame, half_widths: npt.ArrayLike, effects: Sequence[float], used: float, *, level: float = 0.95
) -> pd.DataFrame:
    """How many tokens each model takes for α to be known to ± each of `half_widths`, counting being the only noise.

    points: of one cell; used: the tokens behind them (NaN: not known). One row for each k of four sizes or more, design
    effect and half-width: k, models, alpha, fitted (the half-width that the fit has), by_counting (what counting the
    tokens used would leave of it), effect, half_width, tokens. Raises FitError where no k has four sizes.
    """
    rows = []
    for k, own in points.groupby("k"):
        if own["size"].nunique() < 4:
            continue
        fit = fit_power_law(own["size"], own["value"], level=level)
        smooth = fit.predict(own["size"])["value"]  # the line's own values: single points carry their noise
        fitted = (fit.alpha_high - fit.alpha_low) / 2
        counting = alpha_error(own["size"], smooth, used) * fitted / fit.alpha_se if used > 0 else np.nan
        for effect in effects:
            for width in np.asarray(half_widths, dtype=float):
                needed = tokens_needed(own["size"], smooth, width, design_effect=effect, level=level)
                rows.append((k, len(own), fit.alpha, fitted, counting, effect, width, needed))
    if not rows:
        raise FitError("no threshold has four sizes", "measurements", "Measure more models.")
    names = ["k", "models", "alpha", "fitted", "by_counting", "effect", "half_width", "tokens"]
    return pd.DataFrame(rows, columns=names).astype({"k": "int64"})


#: shares of missed tokens: from those at k = 1 down to GPT-2's 0.4% at k = 10 000, and further
RATES = (0.5, 0.15, 0.05, 0.02, 0.01, 0.004, 0.002)
PIECE = 511  # ranked tokens of a document, at most, by the authors' protocol
SEEN = (0, 1, 10, 100, 1_000, 10_000)  # times that a token stood in the training text: edges of the classes


def aligned(stores: Sequence[RankStore]) -> tuple[pd.DataFrame, Reals]:
    """The tokens that several models ranked, and their ranks: (document, position, token), shape (T, models).

    Raises DataError where two stores do not hold the same tokens in the same places.
    """
    places, ranks = None, []
    for store in stores:
        ranked = Ranked(store)
        own = ranked.tokens[["document", "position", "token"]]
        if places is not None and not places.equals(own):
            what = f"{store.model} and {stores[0].model} did not rank the same tokens of {store.dataset}"
            raise DataError(what, str(store.folder), "Extract both with one tokenizer, corpus and protocol.")
        places = own
        ranks.append(np.asarray(ranked.ranks, dtype=float))
    if places is None:
        raise DataError("there is no rank store", "stores", "Give one at least.")
    return places, np.column_stack(ranks)


def pieces(places: pd.DataFrame, length: int = PIECE) -> Integers:
    """The documents cut into pieces of at most `length` tokens: the number of the piece of each token, shape (T,).

    A design effect grows with the length of what is drawn as a whole. Taking pieces for documents gives that of a
    text of many short documents of these kinds, such as the authors'.
    """
    name = places["document"].to_numpy(np.int64) * 1_000_000 + places["position"].to_numpy(np.int64) // length
    return np.unique(name, return_inverse=True)[1].astype(np.int64)


def threshold_for(ranks: npt.ArrayLike, rate: float) -> int:
    """The k at which about `rate` of all ranks lie above it (models pooled)."""
    return max(1, int(np.quantile(np.asarray(ranks, dtype=float), 1 - rate, method="lower")))


def clustering_table(stores: Sequence[RankStore], rates: Sequence[float] = RATES) -> pd.DataFrame:
    """The design effects of misses, of differences between models, and of models' scatter, for stores of one dataset.

    What is drawn as a whole are `pieces`; the intervals are over documents. One row for each rate and what: "misses",
    the geometric mean over the models; "difference", over the pairs of models, of which one of the two misses; and
    "scatter", of all about a line (`clustering.log_scatter_effect`, of three models or more). Columns dataset, what,
    rate (asked for), k, tokens, documents, effect, effect_low, effect_high (95%).
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
    documents, drawn = places["document"].to_numpy(), pieces(places)
    rows = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        missed = ranks > k
        pairs = [missed[:, j].astype(float) - missed[:, i] for i, j in combinations(range(len(ordered)), 2)]
        parts = {"misses": list(missed.T), "difference": pairs}
        base = {"dataset": ordered[0].dataset, "rate": rate, "k": k, "tokens": len(ranks)}
        base["documents"] = len(np.unique(documents))
        for what, values in parts.items():
            sums = [cluster_sums(each, drawn, documents) for each in values if np.ptp(each.astype(float))]
            rows.append(base | {"what": what} | _effect(sums, log_design_effect))
        if len({store.size for store in ordered}) > 2:
            line = log_scatter_effect([store.size for store in ordered])
            rows.append(base | {"what": "scatter"} | _effect([scatter_sums(missed, drawn, documents)], line))
    columns = ["dataset", "what", "rate", "k", "tokens", "documents", "effect", "effect_low", "effect_high"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _effect(sums: Sequence[Reals], log_statistic: Statistic) -> dict[str, float]:
    """The geometric mean of a design effect over several sums by document, with its interval; nothing of none."""
    if not sums:
        return {}
    wide, ends = np.concatenate(sums, axis=1), np.cumsum([each.shape[1] for each in sums])[:-1]

    def mean(totals: Any) -> Any:
        blocks = np.split(totals, ends, axis=-1)
        return sum(log_statistic(block) for block in blocks) / len(blocks)

    with np.errstate(all="ignore"):
        value, low, high = np.exp(interval(mean(without_each(wide))))
    return {"effect": float(value), "effect_low": float(low), "effect_high": float(high)}


def by_training_count(
    stores: Sequence[RankStore], counts: Integers, rates: Sequence[float] = RATES, edges: Sequence[int] = SEEN
) -> pd.DataFrame:
    """Which tokens are missed: by how often the token stood in the training text.

    counts: shape (vocabulary,), the training count of every token. One row for each model, rate and class of counts
    (from `low` up to the next edge): dataset, model, size, rate, k, low, tokens (of the evaluation text in the class),
    misses, share_of_tokens, share_of_misses.
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
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


@step("ladder_misses", of=partial(open_source, "ladder"), reads=["data/ladder/families-ranks/neox"], seconds=15)
def misses_of(source: Source) -> pd.DataFrame:
    """`clustering_table` of each dataset of rank stores."""
    return pd.concat([clustering_table(stores) for stores in _by_dataset(source)], ignore_index=True)


@step("ladder_rare", reads=["data/ladder/families-ranks/neox", "data/ladder/token_counts.csv"], seconds=1)
def rare() -> pd.DataFrame:
    """`by_training_count` of every domain of the shipped ladder."""
    counts = shipping.read_token_counts()
    tables = [by_training_count(stores, counts) for stores in _by_dataset(open_source("ladder"))]
    return pd.concat(tables, ignore_index=True)


def _by_dataset(source: Source) -> list[list[RankStore]]:
    names = dict.fromkeys(store.dataset for store in source.stores)
    return [[store for store in source.stores if store.dataset == name] for name in names]


# ── What is recorded


def scatter_told(judged: pd.DataFrame, rising: pd.DataFrame, level: float) -> dict[str, Any]:
    """What the page and the ledger say of `scatter_judged`, at large k above all, and of `rises`."""
    large, small = (judged[judged["range"] == name] for name in ("large", "small"))
    values: dict[str, Any] = {
        "small_extra": 100 * small["extra"].median(),
        "large.tests": len(large),
        "large.holm": int((large["p_holm"] < 1 - level).sum()),
        "large.beyond": int((large["verdict"] == BEYOND).sum()),
        "large.enough": int((large["verdict"] == ENOUGH).sum()),
        "large.open": int((large["verdict"] == OPEN).sum()),
        "large.mostly": int(large["mostly"].sum()),
        "rises": len(rising),
        "rises_surely": int(rising["beyond"].sum()),
    }
    if len(large):
        values |= {"large_cells": fits_listed(large[large["verdict"] == BEYOND], joint="; ")}
    pythia = large[(large["family"] == "Pythia") & (large["dataset"] == "wikipedia") & (large["k"] == 30_000)]
    values |= {f"pythia_{end}": pythia[end].mean() for end in ("extra_low", "extra_high")}
    gpt_2 = rising[(rising["family"] == "GPT-2") & (rising["dataset"] == "wikipedia") & (rising["k"] == 10_000)]
    row: Any
    for row in (gpt_2 if len(gpt_2) else rising).head(1).to_dict("records"):
        values |= {"rise.from": int(row["misses_smallest"]), "rise.to": int(row["misses_largest"])}
        values |= {"rise.z": row["ends_z"], "rise.needed": min(row["ends_needed"], row["trend_needed"])}
        values |= {"rise.effect": row["effect"], "rise.effect_high": row["effect_high"]}
    return values


def rare_told(table: pd.DataFrame) -> dict[str, Any]:
    """What the prose says of tokens that were seldom trained on. table: `by_training_count` at one rate."""
    first, last = (table[table["size"] == size] for size in (table["size"].min(), table["size"].max()))
    own = last[(last["dataset"] == dataset_order(last["dataset"])[0]) & (last["low"] < 100)]
    ends = [each[each["low"] < 10].groupby("dataset")["misses"].sum() for each in (first, last)]
    return {
        "rare_tokens": 100 * own["share_of_tokens"].sum(),
        "rare_misses": 100 * own["share_of_misses"].sum(),
        "rarest_rises": int((ends[1] > ends[0]).sum()),
        "texts": len(ends[0]),
    }


# ── Figures and tables: what `Page.figure` and `Page.table` take besides a name


def scatter_figure(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The scatter of models beyond counting (markers, with intervals), and counting itself (dashes), against k.

    table: `scatter_judged`. One panel for each family and dataset that has large k, if any has. Grey bars: counting,
    for independent tokens and as far as the interval of the design effect goes. Filled: more than noise. A line to
    the bottom includes none.
    """
    large = table[table["range"] == "large"]
    cells = (large if len(large) else table)[["dataset", "family"]].drop_duplicates().itertuples(index=False)
    order = dataset_order(table["dataset"])
    ordered = sorted(cells, key=lambda cell: (order.index(cell[0]), cell[1]))
    keys = {f"{family} on {dataset_label(dataset)}": (dataset, family) for dataset, family in ordered}
    ends = table["k"].min() / 1.6, table["k"].max() * 1.6
    bottom = 100 * table["counting"].min() / 4

    def draw(ax: Axes, key: str) -> None:
        dataset, family = keys[key]
        own = table[(table["dataset"] == dataset) & (table["family"] == family)].sort_values("k")
        colour, marker = family_style(family, sorted(set(table["family"])))
        for row in own.itertuples():
            counting = 100 * row.counting
            least, most = np.nanmin([1.0, row.effect_low]), np.nanmax([1.0, row.effect_high])
            span = [counting * np.sqrt(least), counting * np.sqrt(most)]
            ax.plot([row.k, row.k], span, color=INK, lw=5, alpha=0.22, solid_capstyle="butt")
            ax.plot(row.k, counting, "_", color=INK, ms=8, alpha=0.7)
            line = np.maximum(100 * np.array([row.extra_low, row.extra_high]), bottom)
            ax.plot([row.k * 1.06] * 2, line, "-", color=colour, lw=1.2)
            style = {"mew": 0} if row.verdict == BEYOND else {"mfc": "white", "mew": 1.2}
            ax.plot(row.k * 1.06, max(100 * row.extra, bottom), marker, color=colour, ms=6, zorder=3, **style)
        ax.set_yscale("log")
        ax.set_ylim(bottom, 150 * table["extra_high"].clip(upper=2).max())
        log_axis(ax, "y")
        ax.set_xlim(*ends)
        log_axis(ax, "x")
        ax.set_xlabel("threshold k")
        ax.set_ylabel("scatter of −ln RBPₖ (per cent)")
        ax.set_title(key)

    return {
        "figure": Panels(list(keys), draw),
        "caption": f"<b>The scatter of models about their line, beyond counting,</b> with {level:.0%} intervals. "
        "Dashes: counting; grey: as far as design effects go. Filled: more than noise.",
        "alt": "Scatter beyond counting stays level in k while the noise of counting rises to meet it at k of 10 000 "
        "and more",
        "data": table,
    }


def rare_figure(table: pd.DataFrame) -> dict[str, Any]:
    """The rate of misses by how often a token stood in the training text, a panel for each dataset, a line for each S.

    table: `by_training_count` at one rate. Classes of fewer than 20 tokens in the text are left out.
    """
    lows = sorted(int(low) for low in table["low"].unique())
    names = [f"{a}" if b == a + 1 else f"{a:,}–{b - 1:,}" for a, b in pairwise(lows)] + [f"{lows[-1]:,}+"]
    colours = shades(sorted(int(size) for size in table["size"].unique()))

    def draw(ax: Axes, dataset: str) -> None:
        own = table[(table["dataset"] == dataset) & (table["tokens"] >= 20) & (table["misses"] > 0)]
        for size, rows in by_number(own, "size"):
            rows = rows.sort_values("low")
            place = [lows.index(low) for low in rows["low"]]
            ax.plot(place, rows["misses"] / rows["tokens"], "o-", color=colours[size], ms=4.5, mew=0, lw=1.2)
        ax.set_xticks(range(len(lows)), names, rotation=30, ha="right")
        ax.set_yscale("log")
        log_axis(ax, "y")
        ax.set_xlabel("times in the training text")
        ax.set_ylabel("share of tokens missed")
        ax.set_title(dataset_label(dataset))
        legend_below(ax, numbered(colours, "S"))

    return {
        "figure": Panels(dataset_order(table["dataset"]), draw, size=(4.6, 5.2)),
        "caption": "<b>Which tokens are missed</b>, by how often they stood in the training text, at the k at which a "
        f"model misses {table['rate'].iloc[0]:.1%} of all. A line for each model size S.",
        "alt": "The rate of misses falls steeply with the training count, from most of the rarest tokens to nearly "
        "none of the common",
        "data": table,
    }


def tokens_figure(points: pd.DataFrame, table: pd.DataFrame, *, used: float, level: float) -> dict[str, Any]:
    """How many tokens a wanted precision of α takes: a panel for each design effect, a line for each of six k.

    points: of one cell; table: its `tokens_for` (infinite ones are not drawn). used: as many as were in fact used, a
    dashed line; NaN where that is not known.
    """
    rows = table[table["k"].isin(spread(table["k"], 6)) & np.isfinite(table["tokens"])]
    panels = curves(
        rows.assign(design=[f"design effect {effect:g}" for effect in rows["effect"]]), "half_width", "tokens",
        labels=("wanted half-width of the interval of α", "tokens for each model"), panel="design", line="k",
        styles={k: (colour, "") for k, colour in shades(rows["k"].unique()).items()}, log="xy",
        at=[used] if used > 0 else [], ylim="shared", size=(4.6, 4.2),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": "<b>Tokens for each model, for α to be known to ± so much</b> "
        f"({cell_label(points.iloc[0])}, {level:.0%}), by counting alone. Dashed: as many as were used.",
        "alt": "Tokens needed against the wanted precision of the exponent: falling lines, the higher the larger k",
        "data": table[["k", "half_width", "effect", "tokens"]],
    }


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def scatter_table(judged: pd.DataFrame) -> dict[str, Any]:
    """The scatter of each fit, tested and estimated (rows of `scatter_judged`)."""
    percent = ["counting", "extra", "extra_low", "extra_high"]
    columns: Columns = {
        "dataset": "Dataset",
        "family": "Family",
        "k": "k",
        "misses": ("fewest missed", "{:,.0f}"),
        "p": ("p", _p),
        "p_holm": ("p of so many tests", _p),
        "counting": ("counting, %", "{:.1f}"),
        ("extra", "extra_low", "extra_high"): ("beyond it, %", "{:.1f} [{:.1f}, {:.1f}]"),
        "verdict": ("verdict", lambda verdict: verdict.removesuffix(" than noise")),  # short, to fit the page
    }
    caption = (
        "<b>Is the scatter about the line more than counting?</b> p: that counting independent tokens makes as much. "
        "Of so many tests: by Holm’s correction. Per cent: standard deviations of ln(−ln RBPₖ)."
    )
    table = judged.assign(**{name: 100 * judged[name] for name in percent})
    order = dataset_order(table["dataset"])
    table = table.assign(place=table["dataset"].map(order.index)).sort_values(["place", "family", "k"])
    return shown(table, columns, caption=caption, data=judged)


def rises_table(rising: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The cases in which misses rise with size (`rises`)."""
    columns: Columns = {
        "dataset": "Dataset",
        "family": "Family",
        "k": "k",
        "misses_smallest": ("missed, smallest model", "{:,.0f}"),
        "misses_largest": ("missed, largest model", "{:,.0f}"),
        "ends_z": ("z at least", "{:.1f}"),
        "ends_needed": ("effect needed", "{:.1f}"),
        "trend_needed": ("trend: effect needed", "{:.1f}"),
        "effect": ("effect in our small models", "{:.1f}"),
        "effect_high": ("at most (95%)", "{:.1f}"),
    }
    caption = (
        "<b>All cases in which misses rise with size.</b> z at least: of the largest model against the smallest. "
        f"Effect needed: the design effect that would make it, or the trend, chance, at {level:.0%}."
    )
    return shown(rising, columns, caption=caption)
