"""What counting alone makes of the published fits at large k, and the missed tokens themselves."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.book import steps
from rbp.core.arrays import Integers, Reals
from rbp.core.errors import DataError, FitError, ParameterError
from rbp.evidence import Source, open_source
from rbp.evidence.ranked import Ranked
from rbp.ladder import shipping
from rbp.ranks.store import RankStore
from rbp.stats.clustering import design_effect, discordance, log_size_weights, trend_bound
from rbp.stats.counting import alpha_error, noise_floor, simulated_r_squared, tokens_needed
from rbp.stats.power_law import fit_power_law

CELL = ["dataset", "family"]


def expected_r_squared(
    points: pd.DataFrame,
    fits: pd.DataFrame,
    tokens: pd.DataFrame,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """R² as measured, and as it would be if the fitted law were exact and counting the only noise.

    points: dataset, family, k, size, value; fits: `cells.fit_table` of them by dataset, family and k; tokens:
    `tokens.tokens_behind`. Only fits whose number of tokens is known (not "at most"). Columns CELL, k, n,
    alpha, r_squared, tokens, misses (fewest of a model), typical (geometric mean of −ln RBP_k), noise_median,
    noise_low, noise_high (of `counting.simulated_r_squared`), verdict: "noise is enough" (the measured R² is not below
    noise_low), "more than noise" (below), "no test" (half of the simulated measurements have no logarithm).
    Raises DataError where no number of tokens is known.
    """
    if tokens.empty or (tokens["basis"] == "at most").all():
        raise DataError(
            "nothing tells how many tokens stand behind the values", "measurements", "Give tokens and hits."
        )
    known = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    rows = []
    for fit in fits.dropna(subset=["alpha"]).merge(known, on=CELL).to_dict("records"):
        own = points[(points[CELL] == [fit["dataset"], fit["family"]]).all(axis=1) & (points["k"] == fit["k"])]
        typical = float(np.exp(np.log(own["value"]).mean()))
        drawn = simulated_r_squared(own["size"], fit["alpha"], typical, fit["tokens"], resamples=resamples, seed=seed)
        finite = drawn[np.isfinite(drawn)]
        row = {name: fit[name] for name in (*CELL, "k", "n", "alpha", "r_squared", "tokens")}
        row |= {"misses": float((-np.expm1(-own["value"])).min() * fit["tokens"]), "typical": typical}
        row |= dict.fromkeys(("noise_median", "noise_low", "noise_high"), np.nan) | {"verdict": "no test"}
        if 2 * finite.size >= drawn.size:
            low, middle, high = np.quantile(finite, [(1 - level) / 2, 0.5, (1 + level) / 2])
            verdict = "more than noise" if fit["r_squared"] < low else "noise is enough"
            row |= {"noise_median": middle, "noise_low": low, "noise_high": high, "verdict": verdict}
        rows.append(row)
    columns = [*CELL, "k", "n", "alpha", "r_squared", "tokens", "misses", "typical"]
    return pd.DataFrame(rows, columns=[*columns, "noise_median", "noise_low", "noise_high", "verdict"])


def rises(points: pd.DataFrame, tokens: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The families whose missed tokens rise with size, and whether chance can make that: `clustering.trend_bound`.

    points, tokens as for `expected_r_squared`. One row for each dataset, family and k where the trend of the missed
    tokens in ln S is positive: CELL, k, models, misses_smallest, misses_largest, and for the ends and for the trend
    over all sizes z, p and needed (ends_z … trend_needed).
    """
    known = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    rows = []
    for key, own in points.merge(known, on=CELL, suffixes=("_stated", "")).groupby([*CELL, "k"]):
        own = own.sort_values("size")
        if own["size"].nunique() < 2:
            continue
        misses = np.rint(-np.expm1(-own["value"].to_numpy(float)) * own["tokens"].to_numpy(float))
        trend = trend_bound(misses, log_size_weights(own["size"]), level=level)
        if trend.change <= 0:
            continue
        ends = trend_bound(misses[[0, -1]], [-1, 1], level=level)
        row = (*key, len(own), misses[0], misses[-1], ends.z, ends.p, ends.needed, trend.z, trend.p, trend.needed)
        rows.append(row)
    names = [*CELL, "k", "models", "misses_smallest", "misses_largest"]
    names += [f"{kind}_{name}" for kind in ("ends", "trend") for name in ("z", "p", "needed")]
    return pd.DataFrame(rows, columns=names).sort_values("trend_z", ascending=False, ignore_index=True)


def floors(
    tokens: pd.DataFrame, precisions: tuple[float, ...], effects: tuple[float, ...], *, level: float = 0.95
) -> pd.DataFrame:
    """`counting.noise_floor` of each family's tokens at `level`, for several precisions and design effects.

    tokens: dataset, family, tokens. Columns CELL, tokens, precision, effect, floor (−ln RBP_k), misses (there).
    """
    rows = []
    for cell in tokens.dropna(subset=["tokens"]).to_dict("records"):
        for precision in precisions:
            for effect in effects:
                total = float(cell["tokens"])
                floor = noise_floor(total, precision=precision, design_effect=effect, level=level)
                rows.append(
                    (cell["dataset"], cell["family"], total, precision, effect, floor, -np.expm1(-floor) * total)
                )
    return pd.DataFrame(rows, columns=[*CELL, "tokens", "precision", "effect", "floor", "misses"])


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


#: shares of missed tokens at which the large k of the paper lie: GPT-2 misses 0.4% at k = 10 000
RATES = (0.05, 0.02, 0.01, 0.004, 0.002)
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
    """The design effects of misses, and of the differences between models, for stores of one dataset.

    One row for each model and rate (other missing), and for each pair of models (model the smaller, other the larger):
    dataset, model, other, size, other_size, rate (asked for), k, tokens, documents, misses, other_misses, shared
    (missed by both), z (McNemar's, tokens taken as independent), effect (the design effect of the misses, or of the
    difference), effect_pieces (the same with `pieces` in place of documents), z_documents, top (the share of the
    misses that lie in the document with most of them).
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
    documents = places["document"].to_numpy()
    _, place = np.unique(documents, return_inverse=True)
    piece = pieces(places)
    rows = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        missed = ranks > k
        base = {"dataset": ordered[0].dataset, "rate": rate, "k": k, "tokens": len(ranks), "documents": place.max() + 1}
        for i, store in enumerate(ordered):
            misses = int(missed[:, i].sum())
            top = np.bincount(place, missed[:, i]).max() / misses if misses else np.nan
            row: dict[str, Any] = {"model": store.model, "size": store.size, "misses": misses, "top": top}
            row |= {
                name: design_effect(missed[:, i], each)
                for name, each in (("effect", documents), ("effect_pieces", piece))
            }
            rows.append(base | row)
        for i, j in combinations(range(len(ordered)), 2):
            if not (missed[:, i] != missed[:, j]).any():
                continue
            found = discordance(missed[:, i], missed[:, j], documents)
            row = {"model": ordered[i].model, "size": ordered[i].size, "other": ordered[j].model}
            row |= {"other_size": ordered[j].size, "misses": found.first_only + found.both}
            row |= {"other_misses": found.second_only + found.both, "shared": found.both, "z": found.z}
            row |= {"effect": found.design_effect, "z_documents": found.z_documents}
            row["effect_pieces"] = discordance(missed[:, i], missed[:, j], piece).design_effect
            rows.append(base | row)
    columns = ["dataset", "model", "other", "size", "other_size", "rate", "k", "tokens", "documents", "misses"]
    columns += ["other_misses", "shared", "z", "effect", "effect_pieces", "z_documents", "top"]
    table = pd.DataFrame(rows).reindex(columns=columns)
    return table.astype({"other_size": "Int64", "other_misses": "Int64", "shared": "Int64"})


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


# What the shipped ladder shows takes long, and is made once: steps of the workflow


def make_misses() -> pd.DataFrame:
    """`clustering_table` of every domain of the shipped ladder: the step "ladder_misses"."""
    return _misses(open_source("ladder"))


def misses_of(source: Source) -> pd.DataFrame:
    """`clustering_table` of each dataset of rank stores; of the ladder from its step."""
    return steps.table("ladder_misses") if source.is_exactly("ladder") else _misses(source)


def _misses(source: Source) -> pd.DataFrame:
    return pd.concat([clustering_table(stores) for stores in _by_dataset(source)], ignore_index=True)


def make_rare() -> pd.DataFrame:
    """`by_training_count` of every domain of the shipped ladder: the step "ladder_rare"."""
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
    without tokens), fall (largest over smallest: 1 where size does not help).
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
            fall = rates[1] / rates[0] if tokens and rates[0] else np.nan
            rows.append((dataset, name, tokens, *shares, *rates, fall))
    columns = ["dataset", "group", "tokens", "share_of_tokens", "share_of_misses", "smallest", "largest", "fall"]
    return pd.DataFrame(rows, columns=columns)


def _sums(rows: pd.DataFrame) -> Integers:
    """Tokens and misses of each group, shape (groups, 2)."""
    sums = rows.groupby("group")[["tokens", "misses"]].sum().reindex(range(len(GROUPS)), fill_value=0)
    return sums.to_numpy(np.int64)
