"""What counting alone makes of the published fits at large k, and the missed tokens themselves."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.book.steps import step
from rbp.core.arrays import Integers, Reals
from rbp.core.errors import DataError, FitError, ParameterError
from rbp.evidence import Source, open_source
from rbp.evidence.ranked import Ranked
from rbp.ladder import shipping
from rbp.ranks.store import RankStore
from rbp.stats.cells import holm
from rbp.stats.clustering import (
    Statistic,
    cluster_sums,
    discordance,
    log_design_effect,
    log_scatter_effect,
    log_size_weights,
    scatter_sums,
    trend_bound,
)
from rbp.stats.counting import alpha_error, tokens_needed
from rbp.stats.overdispersion import scatter_about_law
from rbp.stats.power_law import fit_power_law
from rbp.stats.resampling import interval, without_each

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

    points: dataset, family, k, size, value; tokens: `tokens.tokens_behind`; clustered: `clustering_table`. One row for
    each cell of three sizes and known tokens: CELL, k, range (of RANGES), n, tokens, misses (fewest of a
    model), counting (its noise in ln(−ln RBP_k)), deviance, df, p, p_holm, extra, extra_low, extra_high (the scatter
    beyond counting), effect, effect_low, effect_high (the ladder's design effect), p_clustered, p_clustered_holm.

    verdict, for all effects from 1 to the interval's end: BEYOND where counting does not make the deviance, after Holm;
    ENOUGH where it makes half of the squared scatter (extra_high below counting); else OPEN. mostly: whether extra is
    below counting. Raises DataError where no tokens are known.
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


def summary(judged: pd.DataFrame, level: float) -> dict[str, int]:
    """How many of these rows of `scatter_judged` are what."""
    return {
        "tests": len(judged),
        "holm": int((judged["p_holm"] < 1 - level).sum()),
        "beyond": int((judged["verdict"] == BEYOND).sum()),
        "enough": int((judged["verdict"] == ENOUGH).sum()),
        "mostly": int(judged["mostly"].sum()),
    }


def design_effects_at(
    clustered: pd.DataFrame, dataset: str, share: float, what: str = "scatter"
) -> tuple[float, float, float]:
    """The design effect at about this share of misses, and its interval, in pieces of the authors' length.

    clustered: `clustering_table`; what: "scatter" (about a line), or "difference" (the mean over pairs of models).
    That of the dataset itself, at the rate that is nearest on a logarithmic scale; of a dataset without ranks, the
    median over the others, with the widest interval. NaN where there is none.
    """
    own = clustered[(clustered["what"] == what) & clustered["model"].isna()].dropna(subset=["effect_pieces"])
    own = own[own["dataset"] == dataset] if (own["dataset"] == dataset).any() else own
    if own.empty:
        return np.nan, np.nan, np.nan
    off = np.abs(np.log(own["rate"] / share))
    own = own[off == off.min()]
    low, high = own["effect_pieces_low"].min(), own["effect_pieces_high"].max()
    return float(own["effect_pieces"].median()), float(low), float(high)


def rises(points: pd.DataFrame, tokens: pd.DataFrame, clustered: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The families whose missed tokens rise with size, and whether chance can make that: `clustering.trend_bound`.

    points, tokens, clustered as for `scatter_judged`. One row for each dataset, family and k where the trend of the
    missed tokens in ln S is positive: CELL, k, models, misses_smallest, misses_largest; for the ends and for the trend
    over all sizes z, p and needed (ends_z … trend_needed); effect and effect_high (the design effect of differences
    between models, `design_effects_at` this share of misses, and the upper end of its interval); and beyond: whether
    the trend is more than chance for independent tokens and for tokens that cluster as far as that end.
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
WHAT = ("misses", "difference", "scatter")  # that has a design effect
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

    One row for each rate and what: "misses" of each model, the "difference" of each pair (model the smaller, other the
    larger), and, without a model, the geometric mean over the models, that over the pairs, and the "scatter" of all
    about a line (`clustering.log_scatter_effect`, of three models or more). Columns dataset, what, model, other, size,
    other_size, rate (asked for), k, tokens, documents, misses, other_misses, shared (missed by both), z (McNemar's,
    tokens taken as independent), z_documents; effect with effect_low and effect_high (95%, by
    `resampling.interval` of the logarithm); effect_pieces, … (the same for `pieces` drawn as wholes, the
    interval still over documents).
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
    documents = places["document"].to_numpy()
    clusters = {"effect": documents, "effect_pieces": pieces(places)}
    rows: list[dict[str, Any]] = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        missed = ranks > k
        base = {"dataset": ordered[0].dataset, "rate": rate, "k": k, "tokens": len(ranks)}
        base["documents"] = len(np.unique(documents))
        every: dict[str, dict[str, list[Reals]]] = {what: {name: [] for name in clusters} for what in WHAT[:2]}

        def own(what: str, values: npt.NDArray[Any], kept: dict[str, list[Reals]]) -> dict[str, Any]:
            sums = {name: cluster_sums(values, each, documents) for name, each in clusters.items()}
            for name, each in sums.items():
                kept[name].append(each)
            return {"what": what} | _effects({name: [each] for name, each in sums.items()}, log_design_effect)

        for i, store in enumerate(ordered):
            if missed[:, i].any() and not missed[:, i].all():
                row: dict[str, Any] = {"model": store.model, "size": store.size, "misses": int(missed[:, i].sum())}
                rows.append(base | row | own("misses", missed[:, i], every["misses"]))
        for i, j in combinations(range(len(ordered)), 2):
            if not (missed[:, i] != missed[:, j]).any():
                continue
            found = discordance(missed[:, i], missed[:, j], documents)
            row = {"model": ordered[i].model, "size": ordered[i].size, "misses": found.first_only + found.both}
            row |= {"other": ordered[j].model, "other_size": ordered[j].size}
            row |= {"other_misses": found.second_only + found.both, "shared": found.both}
            row |= {"z": found.z, "z_documents": found.z_documents}
            rows.append(base | row | own("difference", missed[:, j].astype(float) - missed[:, i], every["difference"]))
        rows += [base | {"what": what} | _effects(sums, log_design_effect) for what, sums in every.items()]
        if len({store.size for store in ordered}) > 2:
            about = {name: [scatter_sums(missed, each, documents)] for name, each in clusters.items()}
            line = log_scatter_effect([store.size for store in ordered])
            rows.append(base | {"what": "scatter"} | _effects(about, line))
    columns = ["dataset", "what", "model", "other", "size", "other_size", "rate", "k", "tokens", "documents", "misses"]
    columns += ["other_misses", "shared", "z", "z_documents"]
    columns += [f"{name}{end}" for name in clusters for end in ("", "_low", "_high")]
    table = pd.DataFrame(rows).reindex(columns=columns)
    whole = ["size", "other_size", "misses", "other_misses", "shared"]
    return table.astype(dict.fromkeys(whole, "Int64"))


def _effects(parts: Mapping[str, Sequence[Reals]], statistic: Statistic) -> dict[str, float]:
    """The geometric mean of a design effect over several sums by document, with its interval, for each of `parts`."""
    found: dict[str, float] = {}
    for name, sums in parts.items():
        if not sums:
            continue
        wide, ends = np.concatenate(sums, axis=1), np.cumsum([each.shape[1] for each in sums])[:-1]

        def mean(totals: Any, ends: Any = ends) -> Any:
            blocks = np.split(totals, ends, axis=-1)
            return sum(statistic(block) for block in blocks) / len(blocks)

        with np.errstate(all="ignore"):
            value, low, high = np.exp(interval(mean(without_each(wide))))
        found |= {name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)}
    return found


def by_training_count(
    stores: Sequence[RankStore], counts: Integers, rates: Sequence[float] = RATES, edges: Sequence[int] = SEEN
) -> pd.DataFrame:
    """Which tokens are missed: by how often the token stood in the training text.

    counts: shape (vocabulary,), the training count of every token. One row for each model, rate and class of counts
    (from `low` up to the next edge): dataset, model, size, rate, k, low, high (missing: no end), tokens (of the
    evaluation text in the class), misses, share_of_tokens, share_of_misses, miss_rate.
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
    group = np.searchsorted(np.asarray(edges), counts[places["token"].to_numpy()], side="right") - 1
    tokens = np.bincount(group, minlength=len(edges))
    rows = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        for i, store in enumerate(ordered):
            misses = np.bincount(group[ranks[:, i] > k], minlength=len(edges))
            for c, low in enumerate(edges):
                high = edges[c + 1] - 1 if c + 1 < len(edges) else pd.NA
                shares = (tokens[c] / tokens.sum(), misses[c] / max(misses.sum(), 1), misses[c] / max(tokens[c], 1))
                about = (store.dataset, store.model, store.size, rate, k, low, high)
                rows.append((*about, int(tokens[c]), int(misses[c]), *shares))
    columns = ["dataset", "model", "size", "rate", "k", "low", "high", "tokens", "misses"]
    columns += ["share_of_tokens", "share_of_misses", "miss_rate"]
    return pd.DataFrame(rows, columns=columns).astype({"high": "Int64"})


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


#: groups of training counts, from … up to the next, by the words that name them
GROUPS = {"fewer than ten times": 0, "10 to 99 times": 10, "100 to 999 times": 100, "a thousand times or more": 1000}


def group_rates(table: pd.DataFrame) -> pd.DataFrame:
    """How the misses of rare and of frequent tokens change from the smallest model to the largest.

    table: `by_training_count` at one rate. One row for each dataset and group of GROUPS: dataset, group, tokens,
    share_of_tokens, share_of_misses (of the largest model's), smallest, largest (their shares of missed tokens, NaN
    without tokens).
    """
    starts = np.array(list(GROUPS.values()))
    named = table.assign(group=np.searchsorted(starts, table["low"].to_numpy(np.int64), side="right") - 1)
    rows = []
    for dataset, own in named.groupby("dataset"):
        first, last = (_sums(own[own["size"] == size]) for size in (own["size"].min(), own["size"].max()))
        for i, name in enumerate(GROUPS):
            tokens = int(first[i, 0])
            rates = [float(end[i, 1]) / tokens if tokens else np.nan for end in (first, last)]
            shares = tokens / first[:, 0].sum(), last[i, 1] / last[:, 1].sum()
            rows.append((dataset, name, tokens, *shares, *rates))
    columns = ["dataset", "group", "tokens", "share_of_tokens", "share_of_misses", "smallest", "largest"]
    return pd.DataFrame(rows, columns=columns)


def _sums(rows: pd.DataFrame) -> Integers:
    """Tokens and misses of each group, shape (groups, 2)."""
    sums = rows.groupby("group")[["tokens", "misses"]].sum().reindex(range(len(GROUPS)), fill_value=0)
    return sums.to_numpy(np.int64)
