"""How much of a token's rank its own −ln p and the entropy of the prediction tell."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.steps import step
from rbp.arrays import Integers, Reals, check_level
from rbp.errors import DataError
from rbp.extract.entropies import Entropies, has_entropies
from rbp.extract.store import RankStore
from rbp.figures.curves import numbered, shades
from rbp.figures.style import INK, Panels, legend_below
from rbp.figures.wording import dataset_label, dataset_order
from rbp.laws.resampling import document_sums, interval, without_each
from rbp.measurements import Source, open_source
from rbp.measurements.ranked import Ranked

K = (1, 10, 100)
FOLDS = 5
LN_RANK = "ln rank"
EXPLAINED = ["outcome", "by", "explained", "low", "high", "wrong"]
BY = ("−ln p", "entropy", "both")
_ABOUT = ["dataset", "family", "model", "size"]


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


def explained(tokens: Tokens, k: Sequence[int] = K) -> pd.DataFrame:
    """How much of the rank each of BY tells, on documents that it was not learnt from.

    The regression is the mean in each of `Cells`, learnt on four fifths of the documents and scored on the last, in
    turn. Columns outcome ("ln rank", or "rank ≤ k"), by, explained (of the squared deviations, or of the hits' binomial
    deviance), low, high (by documents, the regressions as they are), wrong (the share of hits and misses said wrongly;
    NaN for ln rank). Left out: a k at which all tokens are hits or misses, and a text of fewer than FOLDS documents.
    """
    documents = int(tokens.document.max()) + 1
    fold = np.random.default_rng(0).permutation(documents)[tokens.document] % FOLDS
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
            low, high = _ratio_interval(loss, none, tokens.document)
            wrong = np.nan if outcome == LN_RANK else float(((said[outcome][0] > 0.5) != (y > 0.5)).mean())
            rows.append((outcome, name, 1 - loss.sum() / none.sum(), low, high, wrong))
    return pd.DataFrame(rows, columns=EXPLAINED)


def _loss(outcome: str, y: Reals, said: Reals) -> Reals:
    return (y - said) ** 2 if outcome == LN_RANK else -np.log(np.where(y > 0.5, said, 1 - said))


def _ratio_interval(loss: Reals, none: Reals, document: Integers) -> tuple[float, float]:
    """The interval of 1 − Σ loss/Σ none, from that of the ratio's logarithm."""
    left, whole = without_each(document_sums(np.column_stack([loss, none]), document)).T
    _, high, low = 1 - np.exp(interval(np.log(left / whole)))
    return float(low), float(high)


@step("ladder_told", of=partial(open_source, "ladder"), reads=["data/ladder/families-ranks/neox"], seconds=35)
def explained_by_all(source: Source) -> pd.DataFrame:
    """`explained` of every store of a source, with dataset, family, model and size."""
    known = {one.store.folder: one for one in entropies_of(source)}
    parts = [explained(Tokens.of(store, known.get(store.folder))).assign(**about(store)) for store in source.stores]
    columns = [*_ABOUT, *EXPLAINED]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


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

    The chance of a hit, by `Cells` learnt on one of the two, is averaged over the other's tokens. Columns dataset,
    family, k, by, learnt ("smallest", "largest"), first (−ln RBP_k of that one), measured (of the other), said, and
    moved: (said − first)/(measured − first), with low and high by documents. Left out: texts with one size, and a k at
    which a model has no hit, or both as many.
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


# ── What the page says, and shows

NO_ENTROPIES = (
    "<p>These ranks come without the entropies of the predictions, so what needs them is left out. "
    "<code>rbp ladder rank</code> measures them for models that it trained.</p>"
)


def told(shares: pd.DataFrame) -> dict[str, Any]:
    """What the page says of `explained_by_all`: least and most."""
    found: dict[str, Any] = {}
    for by, label in (("−ln p", "alone"), ("both", "both")):
        own = shares.loc[(shares["by"] == by) & (shares["outcome"] == "rank ≤ 1"), "explained"]
        found |= {f"explained.first.{label}.min": float(own.min()), f"explained.first.{label}.max": float(own.max())}
    return found


def rate_panels(rates: pd.DataFrame) -> Panels:
    """The share of tokens of rank ≤ k against −ln p, a panel for each text and a colour for each k.

    rates: of `hit_rates`. Thin: the smallest model, thick: the largest. Dotted: from here on, to the left, rank ≤ k is
    certain, as p times rank is at most 1.
    """
    colours = shades(rates["k"].unique())

    def draw(ax: Axes, dataset: str) -> None:
        own = rates[rates["dataset"] == dataset]
        largest = own.groupby("family")["size"].transform("max")
        for (k, _, size), rows in own.groupby(["k", "family", "size"]):
            width = 2.2 if size == largest[rows.index[0]] else 0.9
            ax.plot(rows["nll"], rows["share"], color=colours[int(str(k))], lw=width)
        for k in colours:
            ax.axvline(np.log(k + 1), color=INK, lw=0.7, ls=":")
        ax.set_xlim(0, 12)
        ax.set_xlabel("−ln p of the token (nats)")
        ax.set_ylabel("share of rank ≤ k")
        ax.set_title(dataset_label(dataset))
        legend_below(ax, numbered(colours, "k"))

    return Panels(dataset_order(rates["dataset"]), draw)


def rates_shown(rates: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for `rate_panels`."""
    return {
        "figure": rate_panels(rates),
        "caption": "<b>The share of tokens of rank ≤ k by their −ln p</b>, in the smallest model (thin) and the "
        "largest (thick). To the left of a dotted line, rank ≤ k is certain.",
        "alt": "The share of rank at most k falls from one to zero as −ln p grows, earlier in the largest model",
        "data": rates,
    }
