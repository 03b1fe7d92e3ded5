"""How much of a token's rank its own −ln p and the entropy of the prediction tell, and what one temperature changes."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.interpolate import CubicSpline
from scipy.stats import rankdata

from rbp.book.steps import step
from rbp.core import provenance
from rbp.core.arrays import Integers, Reals, check_level
from rbp.core.errors import DataError, ParameterError
from rbp.evidence import Source, open_source
from rbp.evidence.ranked import Ranked
from rbp.paper.display import shown
from rbp.paper.mixtures import FEWEST, local_slope
from rbp.paper.wording import dataset_label, dataset_order, model_label
from rbp.ranks.entropies import TEMPERATURES, Entropies, has_entropies
from rbp.ranks.store import RankStore
from rbp.stats.resampling import document_sums, interval, without_each

K = (1, 10, 100)
FOLDS = 5
LN_RANK = "ln rank"
BY = ("−ln p", "entropy", "both")
_ABOUT = ["dataset", "family", "model", "size"]
CALIBRATED = (
    *_ABOUT,
    *("hit", "temperature", "entropy", "cost", "calibrated", "gain", "gain_low", "gain_high"),
    *("slope", "slope_calibrated", "slope_change", "slope_change_low", "slope_change_high"),
)


class Tokens(NamedTuple):
    """Of each ranked token: its document, rank, −ln p and, where it is known, the entropy of the prediction (nats)."""

    document: Integers
    rank: Reals
    nll: Reals
    entropy: Reals | None

    @classmethod
    def of(cls, store: RankStore, entropies: Entropies | None = None) -> "Tokens":
        """The tokens of a store, with its entropies if they are given."""
        ranked = Ranked(store)
        _, place = np.unique(ranked.tokens["document"], return_inverse=True)
        rank = np.asarray(ranked.ranks, dtype=np.float64)
        nll = ranked.tokens["nll"].to_numpy(np.float64)
        return cls(place.astype(np.int64), rank, nll, None if entropies is None else entropies.entropy)

    def by(self, name: str) -> tuple[Reals, ...]:
        """What is known of each token under one of BY."""
        known = {"−ln p": (self.nll,), "entropy": (self.entropy,), "both": (self.nll, self.entropy)}[name]
        return tuple(each for each in known if each is not None)


class Cells:
    """Cells of one or two variables that hold about equally many tokens: 2·√T of them for T tokens.

    Of two variables the first is cut into quantiles, four times as many as the second is cut into within each. A mean
    in each cell is a regression that takes no shape for granted; noise that it learns costs about 2/√T of what is
    explained.
    """

    def __init__(self, first: Reals, second: Reals | None = None) -> None:
        cells = max(4, int(2 * np.sqrt(len(first))))
        self.inner = 1 if second is None else max(2, round(np.sqrt(cells / 4)))
        outer = cells // self.inner
        self._first = np.quantile(first, np.arange(1, outer) / outer)
        self.count = outer * self.inner
        if second is not None:
            place = np.searchsorted(self._first, first)
            inner = np.arange(1, self.inner) / self.inner
            order = np.argsort(place, kind="stable")
            parts = np.split(second[order], np.searchsorted(place[order], np.arange(1, outer)))
            self._second = np.array(
                [np.quantile(np.sort(part), inner) if len(part) else np.full(inner.size, np.inf) for part in parts]
            )

    def __call__(self, first: Reals, second: Reals | None = None) -> Integers:
        """The cell of each token."""
        place = np.searchsorted(self._first, first)
        if second is None:
            return place.astype(np.int64)
        within = sum((second > edge[place]).astype(np.int64) for edge in self._second.T)
        return np.asarray(place * self.inner + within, dtype=np.int64)

    def means(self, place: Integers, value: Reals) -> Reals:
        """The mean of `value` in each cell, drawn to that of all by the weight of one token: no share is 0 or 1."""
        counts = np.bincount(place, minlength=self.count)
        return np.asarray((np.bincount(place, value, self.count) + value.mean()) / (counts + 1))


def explained(tokens: Tokens, k: Sequence[int] = K, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """How much of the rank each of BY tells, on documents that it was not learnt from.

    The regression is the mean in each of `Cells`, learnt on four fifths of the documents and scored on the last, in
    turn. Columns outcome ("ln rank", or "rank ≤ k"), by, explained (the share that is gone of the squared deviations of
    ln rank, or of the hits' binomial deviance, McFadden's R²), low, high (by documents, the regressions as they are),
    wrong (the share of hits and misses said wrongly; NaN for ln rank). Left out: an entropy that is not known, a k at
    which all tokens are hits or misses, and a text of fewer than FOLDS documents.
    """
    check_level(level)
    documents = int(tokens.document.max()) + 1
    fold = np.random.default_rng(seed).permutation(documents)[tokens.document] % FOLDS
    outcomes = {LN_RANK: np.log(tokens.rank)} | {f"rank ≤ {each}": (tokens.rank <= each).astype(float) for each in k}
    outcomes = {name: y for name, y in outcomes.items() if y.min() < y.max()}
    rows = []
    for name in BY if documents >= FOLDS else ():
        known = tokens.by(name)
        if len(known) < (2 if name == "both" else 1):
            continue
        said = {outcome: np.empty((2, len(fold))) for outcome in outcomes}
        order = np.argsort(known[0])  # what is in order is found in the quantiles several times as fast
        known, folds = tuple(each[order] for each in known), fold[order]
        for out in range(FOLDS):
            train, test = np.flatnonzero(folds != out), np.flatnonzero(folds == out)
            own, others = ([each[chosen] for each in known] for chosen in (train, test))
            cells = Cells(*own)
            learnt, place = cells(*own), cells(*others)
            for outcome, y in outcomes.items():
                values = y[order[train]]
                said[outcome][0, order[test]] = cells.means(learnt, values)[place]
                said[outcome][1, order[test]] = values.mean()
        for outcome, y in outcomes.items():
            loss, none = (_loss(outcome, y, each) for each in said[outcome])
            low, high = _ratio_interval(loss, none, tokens.document, level)
            wrong = np.nan if outcome == LN_RANK else float(((said[outcome][0] > 0.5) != (y > 0.5)).mean())
            rows.append((outcome, name, 1 - loss.sum() / none.sum(), low, high, wrong))
    return pd.DataFrame(rows, columns=["outcome", "by", "explained", "low", "high", "wrong"])


def _loss(outcome: str, y: Reals, said: Reals) -> Reals:
    return (y - said) ** 2 if outcome == LN_RANK else -np.log(np.where(y > 0.5, said, 1 - said))


def _ratio_interval(loss: Reals, none: Reals, document: Integers, level: float) -> tuple[float, float]:
    """The interval of 1 − Σ loss/Σ none, from that of the ratio's logarithm."""
    left, whole = without_each(document_sums(np.column_stack([loss, none]), document)).T
    _, high, low = 1 - np.exp(interval(np.log(left / whole), level=level))
    return float(low), float(high)


@step("ladder_told", of=partial(open_source, "ladder"), reads=["data/ladder/families-ranks/neox"], seconds=35)
def explained_by_all(source: Source) -> pd.DataFrame:
    """`explained` of every store of a source, with dataset, family, model and size."""
    known = {one.store.folder: one for one in entropies_of(source)}
    parts = [explained(Tokens.of(store, known.get(store.folder))).assign(**about(store)) for store in source.stores]
    return pd.concat(parts, ignore_index=True)[[*_ABOUT, *parts[0].columns[: -len(_ABOUT)]]]


def entropies_of(source: Source) -> list[Entropies]:
    """The entropies of a source; none where it has none, but for a source without ranks, which raises DataError."""
    stores = source.stores
    try:
        return source.entropies
    except DataError:
        if any(has_entropies(store.folder) for store in stores):
            raise
        return []


def tokens_of(source: Source, wanted: Sequence[RankStore] | None = None) -> list[tuple[RankStore, Tokens]]:
    """Every store with its tokens, or those that are wanted; entropies where the source has them."""
    known = {one.store.folder: one for one in entropies_of(source)}
    stores = source.stores if wanted is None else wanted
    return [(store, Tokens.of(store, known.get(store.folder))) for store in stores]


def about(store: RankStore) -> dict[str, Any]:
    """Whose ranks a store holds."""
    return {name: getattr(store, name) for name in _ABOUT}


def transferred(source: Source, k: Sequence[int] = K, *, level: float = 0.95) -> pd.DataFrame:
    """Is the rank the same function of −ln p, or of −ln p and entropy, in the smallest and the largest model of a text?

    The chance of a hit, by `Cells` learnt on one of the two, is averaged over the other's tokens, which are the same.
    Columns dataset, family, k, by, learnt ("smallest", "largest"), first (−ln RBP_k of that one), measured (of the
    other), said, and moved: (said − first)/(measured − first), with low and high by documents, what was learnt
    as it is. Left out: texts with one size, and a k at which a model has no hit, or both as many.
    """
    check_level(level)
    found, rows = _ends(source), []
    for (_, small), (store, large) in zip(found[::2], found[1::2], strict=True):
        cases: list[tuple[Any, ...]] = []
        columns: list[Reals] = []
        for name, order in product(("−ln p", "both"), ((small, large, "smallest"), (large, small, "largest"))):
            one, other, label = order
            known = one.by(name), other.by(name)
            if min(map(len, known)) < (1 if name == "−ln p" else 2):
                continue
            cells = Cells(*known[0])
            places = cells(*known[0]), cells(*known[1])
            for each in k:
                hits = [(tokens.rank <= each).astype(float) for tokens in (one, other)]
                if min(hit.mean() for hit in hits) > 0 and hits[0].mean() != hits[1].mean():
                    columns += [hits[0], hits[1], cells.means(places[0], hits[0])[places[1]]]
                    cases.append((store.dataset, store.family, each, name, label))
        if cases:
            sums = np.column_stack([np.bincount(large.document), *(np.bincount(large.document, c) for c in columns)])
            tokens_, *hit = without_each(sums).T
            first, measured, said = -np.log(np.reshape(hit, (-1, 3, len(tokens_))) / tokens_).transpose(1, 2, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = (said - first) / (measured - first)
            whole = [each[0] for each in (first, measured, said)]
            ends = interval(moved, level=level)
            rows += [(*case, *values) for case, *values in zip(cases, *whole, *ends, strict=True)]
    names = ["dataset", "family", "k", "by", "learnt", "first", "measured", "said", "moved", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def hit_rates(source: Source, k: Sequence[int] = K, width: float = 0.5) -> pd.DataFrame:
    """The share of tokens of rank ≤ k by their −ln p, of the smallest and the largest model of each text.

    Columns dataset, family, model, size, k, nll (the middle of a bin of `width` nats), tokens, share. Bins of fewer
    than 100 tokens are left out.
    """
    parts = []
    for store, tokens in _ends(source):
        place = (tokens.nll / width).astype(np.int64)
        counts = np.bincount(place)
        for each in k:
            share = np.bincount(place, tokens.rank <= each) / np.maximum(counts, 1)
            rows = {"nll": (np.arange(len(counts)) + 0.5) * width, "tokens": counts, "share": share}
            parts.append(pd.DataFrame(rows).assign(k=each, **about(store))[counts >= 100])
    columns = [*_ABOUT, "k", "nll", "tokens", "share"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def _ends(source: Source) -> list[tuple[RankStore, Tokens]]:
    """The smallest and the largest model of each family on each text, in turn, where there are two sizes."""
    found: dict[tuple[str, str], list[RankStore]] = {}
    for store in source.stores:
        found.setdefault((store.dataset, store.family), []).append(store)
    several = [own for own in found.values() if own[0].size < own[-1].size]  # they are by size
    return tokens_of(source, [store for own in several for store in (own[0], own[-1])])


# Where rank and probability disagree


def extremes(store: RankStore, tokens: Tokens, count: int = 4, before: int = 12) -> pd.DataFrame:
    """The tokens of a store whose rank and −ln p disagree most, by where they stand among all its tokens.

    The rule: take the share of the store's tokens with a smaller −ln p (ties by half) less the share with a smaller
    rank. Its `count` largest values are sort "improbable, high", its smallest "probable, yet not first";
    of each token of the vocabulary the most extreme alone. Columns sort, context (the `before` tokens that come
    before, with line breaks as ⏎), token, rank, p, entropy (nats; NaN where it is not known), document, position.
    """
    ranks = store.ranks()
    apart = (_standing(tokens.nll) - _standing(tokens.rank)) / len(ranks)
    decode, rows = _decoder(store), []
    token, document = ranks["token"].to_numpy(), ranks["document"].to_numpy()
    for sort, value in (("improbable, high", -apart), ("probable, not first", apart)):
        order = np.lexsort((np.arange(len(value)), value))
        first = np.unique(token[order], return_index=True)[1]
        for i in order[np.sort(first)[:count]]:
            start = max(int(i) - before, int(np.searchsorted(document, document[i])))
            about_it = {"document": document[i], "position": ranks["position"].iloc[i], "rank": int(tokens.rank[i])}
            entropy = np.nan if tokens.entropy is None else tokens.entropy[i]
            about_it |= {"p": float(np.exp(-tokens.nll[i])), "entropy": entropy}
            rows.append(
                {"sort": sort, "context": decode(token[start:i]), "token": decode(token[i : i + 1]), **about_it}
            )
    columns = ["sort", "context", "token", "rank", "p", "entropy", "document", "position"]
    return pd.DataFrame(rows, columns=columns)


def _standing(values: Reals) -> Reals:
    """How many values are smaller, and half of those that are the same."""
    found: Reals = rankdata(values)
    return found


def _decoder(store: RankStore) -> Callable[[npt.NDArray[Any]], str]:
    """From tokens to text, by the tokenizer beside a ladder's ranks; where there is none, the tokens' numbers."""
    beside = (folder / "tokenizer" / "tokenizer.json" for folder in store.folder.resolve().parents[1:3])
    path = next((path for path in beside if path.is_file()), None)
    if path is None:
        return lambda tokens: " ".join(f"#{token}" for token in tokens)
    from tokenizers import Tokenizer

    provenance.note(path)
    tokenizer = Tokenizer.from_file(str(path))
    return lambda tokens: tokenizer.decode(tokens.tolist(), skip_special_tokens=False).replace("\n", "⏎")


# One temperature


def calibrated(found: Sequence[Entropies], *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """What one temperature for each model changes in the cross-entropy, and in the slope of ln(−ln RBP_1) in ln CE.

    found: of one family on one text. The temperature that is best on one half of the documents (drawn with `seed`, the
    same for all models) is used on the other, and the reverse. One row for each model:
    dataset, family, model, size, hit (RBP_1), temperature (mean of the halves'), entropy (of the predictions, nats),
    cost and calibrated (CE as it is, and with the temperature), gain, gain_low, gain_high (their difference, by
    documents); and of the family, in every row, slope, slope_calibrated, slope_change, slope_change_low,
    slope_change_high, NaN for fewer than three models. Raises DataError for fewer than two documents.
    """
    check_level(level)
    ordered = sorted(found, key=lambda one: (one.store.size, one.store.model))
    sums, tokens, hits = (np.stack(part, axis=1) for part in zip(*map(_by_document, ordered), strict=True))
    documents = len(tokens)
    if documents < 2:
        what = "half of one document is none"
        raise DataError(what, ordered[0].store.dataset, "Rank more documents.")
    rng = np.random.default_rng(seed)
    half = rng.permutation(documents) % 2 == 0
    scored = [_scored(half, sums[:, m], tokens[:, m]) for m in range(len(ordered))]
    cost, better, temperature = (np.stack(part, axis=1) for part in zip(*scored, strict=True))
    hit = without_each(hits) / without_each(tokens)
    rows: list[dict[str, Any]] = []
    for m, one in enumerate(ordered):
        gain = cost[:, m] - better[:, m]
        _, low, high = interval(gain, level=level)
        known = {"hit": hit[0, m], "temperature": temperature[0, m], "entropy": one.entropy.mean(), "cost": cost[0, m]}
        known |= {"calibrated": better[0, m], "gain": gain[0], "gain_low": low, "gain_high": high}
        rows.append(about(one.store) | known)
    table, names = pd.DataFrame(rows), list(CALIBRATED[-5:])
    if len(ordered) < FEWEST or not ((hit[0] > 0) & (hit[0] < 1)).all():
        return table.assign(**dict.fromkeys(names, np.nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        before, after = (local_slope(hit, each) for each in (cost, better))
    changed = interval(after - before, level=level)
    return table.assign(**dict(zip(names, (before[0], after[0], *changed), strict=True)))


def calibrated_by_all(found: Sequence[Entropies], *, level: float = 0.95) -> pd.DataFrame:
    """`calibrated` of each family on each text that has two documents; an empty table if there is none."""
    groups: dict[tuple[str, str], list[Entropies]] = {}
    for one in found:
        groups.setdefault((one.store.dataset, one.store.family), []).append(one)
    parts = [calibrated(own, level=level) for own in groups.values() if len(own[0].temperatures) > 1]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=CALIBRATED)


def _by_document(one: Entropies) -> tuple[Reals, Reals, Reals]:
    """Σ −ln p at each temperature, tokens and hits of each document."""
    ranked = Ranked(one.store)
    _, place = np.unique(ranked.tokens["document"], return_inverse=True)
    tokens, hits = np.bincount(place).astype(np.float64), np.bincount(place, ranked.ranks <= 1).astype(np.float64)
    return one.temperatures.to_numpy(np.float64), tokens, hits


_FINE = np.linspace(np.log(TEMPERATURES[0]), np.log(TEMPERATURES[-1]), 601)


def _scored(half: npt.NDArray[np.bool_], sums: Reals, tokens: Reals) -> tuple[Reals, Reals, Reals]:
    """A model's CE as it is and by temperatures of the other half, and the mean of those: shape (1 + D,) each.

    Of all documents, then of all but each. half: whether a document is in the first; sums: (documents, temperatures);
    tokens: (documents,). A half without a document has no temperature: NaN.
    """
    grid, total = np.log(TEMPERATURES), without_each(tokens)
    cost = without_each(sums[:, TEMPERATURES.index(1.0)]) / total
    better, best = np.zeros_like(cost), np.zeros_like(cost)
    halves = [without_each(np.column_stack([sums, tokens]) * mine[:, None]) for mine in (half, ~half)]
    for learnt, scored in (halves, halves[::-1]):
        with np.errstate(divide="ignore", invalid="ignore"):
            known = learnt[:, :-1] / learnt[:, -1:]
        at = minimum(grid, known)
        better += _at(CubicSpline(grid, scored[:, :-1].T), at) / total
        best += np.exp(at) / 2
    return cost, better, best


def minimum(grid: Reals, values: Reals) -> Reals:
    """Where the cubic spline through `values`, along their last axis at `grid`, is least: to a parabola's vertex.

    NaN where a value is not finite. The least of _FINE and its neighbours make the parabola; at an end, the end.
    """
    whole: Any = np.isfinite(values).all(-1)
    fine = CubicSpline(grid, np.moveaxis(np.where(whole[..., None], values, 0.0), -1, 0))(_FINE)
    least = np.clip(fine.argmin(0), 1, len(_FINE) - 2)
    left, middle, right = (np.take_along_axis(fine, (least + step)[None], 0)[0] for step in (-1, 0, 1))
    bend = left - 2 * middle + right
    step = np.clip(np.where(bend > 0, (left - right) / (2 * np.where(bend > 0, bend, 1.0)), 0.0), -1, 1)
    found: Reals = np.where(whole, _FINE[least] + step * (_FINE[1] - _FINE[0]), np.nan)
    return found


def _at(curve: CubicSpline, at: Reals) -> Reals:
    """The spline of each element at its own place."""
    place = np.clip(np.searchsorted(curve.x, at, side="right") - 1, 0, len(curve.x) - 2)
    away = at - curve.x[place]
    terms = [np.take_along_axis(c, place[None], 0)[0] for c in curve.c]
    return np.asarray(((terms[0] * away + terms[1]) * away + terms[2]) * away + terms[3])


# As a page shows it

NO_ENTROPIES = (
    "<p>These ranks come without the entropies of the predictions, so what needs them is left out. "
    "<code>rbp ladder rank</code> measures them for models that it trained.</p>"
)


def chosen(source: Source, text: str) -> tuple[RankStore, Tokens]:
    """The largest model on a text (no name: the first) and its tokens. Raises ParameterError for an unknown text."""
    texts = dataset_order(store.dataset for store in source.stores)
    if text and text not in texts:
        raise ParameterError(f"there are no ranks of {text!r}", "text", f"There is: {', '.join(texts)}.")
    return tokens_of(source, [store for store in source.stores if store.dataset == (text or texts[0])][-1:])[0]


def summary(shares: pd.DataFrame, transfer: pd.DataFrame, calibrated: pd.DataFrame) -> dict[str, float]:
    """The least and the most of `explained_by_all`, `transferred` (from the smallest, k = 1), `calibrated_by_all`."""
    found: dict[str, float] = {}

    def ends(name: str, values: "pd.Series[float]") -> None:
        found.update({f"{name}.min": float(values.min()), f"{name}.max": float(values.max())})

    for by, label in (("−ln p", "alone"), ("both", "both")):
        own = shares[shares["by"] == by]
        found[f"explained.ln_rank.{label}.min"] = float(own.loc[own["outcome"] == LN_RANK, "explained"].min())
        ends(f"explained.first.{label}", own.loc[own["outcome"] == "rank ≤ 1", "explained"])
        up = transfer[(transfer["by"] == by) & (transfer["learnt"] == "smallest") & (transfer["k"] == 1)]
        ends(f"moved.{label}", up["moved"])
    ends("moved.both.all", transfer.loc[transfer["by"] == "both", "moved"])
    ends("temperature", calibrated["temperature"])
    gain, change = calibrated["gain"].max(), calibrated["slope_change"].abs().max()
    return found | {"gain.max": float(gain), "slope_change": float(change)}


def explained_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`explained_by_all` as a page shows it: of the largest model on each text."""
    largest = table[table["size"] == table.groupby("dataset")["size"].transform("max")]
    wide = largest.pivot_table(index=["dataset", "outcome"], columns="by", values="explained", sort=False)
    ends = largest[largest["by"] == largest["by"].iloc[-1]].set_index(["dataset", "outcome"])[["low", "high"]]
    wrong = largest.pivot_table(index=["dataset", "outcome"], columns="by", values="wrong", sort=False)
    rows = wide.join(ends).join(wrong.add_prefix("wrong ")).reset_index()
    by = [name for name in BY if name in wide]
    columns: dict[Any, Any] = {"dataset": "text", "outcome": "told"}
    columns |= {name: (f"by {name}", "{:.1%}") for name in by}
    columns |= {("low", "high"): (f"{level:.0%} interval of the last", "{:.1%} to {:.1%}")}
    columns |= {f"wrong {name}": (f"wrong by {name}", "{:.1%}") for name in (by[0], by[-1]) if f"wrong {name}" in rows}
    return shown(
        rows,
        columns,
        caption="<b>How much of a token’s rank is told</b>, in the largest model on each text: the share of the "
        "deviance that is gone on other documents. “Wrong”: hit or miss guessed wrong.",
        data=table,
    )


def transferred_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`transferred` as a page shows it: what is learnt from the smallest model."""
    return shown(
        table[table["learnt"] == "smallest"],
        {
            "dataset": "text",
            "k": "k",
            "by": "by",
            "first": ("−ln RBPₖ, smallest", "{:.3f}"),
            "measured": ("largest", "{:.3f}"),
            "said": ("as learnt", "{:.3f}"),
            "moved": ("change told", "{:.0%}"),
            ("low", "high"): (f"{level:.0%} interval", "{:.0%} to {:.0%}"),
        },
        caption="<b>Is it the same function in small and large models?</b> The chance of rank ≤ k, learnt from the "
        "smallest model, over the largest one’s tokens.",
        data=table,
    )


def extremes_shown(table: pd.DataFrame, store: RankStore) -> dict[str, Any]:
    """`extremes` as a page shows it."""
    return shown(
        table,
        {
            "sort": "sort",
            "context": "before",
            "token": "token",
            "rank": "rank",
            "p": ("p", "{:.5f}"),
            "entropy": ("entropy (nats)", "{:.2f}"),
        },
        caption=f"<b>Where rank and probability disagree most</b>: {model_label(store.model)} on "
        f"{dataset_label(store.dataset)}, by a token’s place among all in −ln p less that in rank. ⏎ is a line break.",
    )
