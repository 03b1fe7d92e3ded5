"""Count the tokens of rank ≤ k, by document, model and threshold. Hits are counted here, and nowhere else.

`of_stores` counts rank stores, and `ladder.shipped.counted` the ladder's sums. A `Counts` is of one text. Each of
its documents can be left out, of all models alike (`Counts.left_out`), and a step keeps it by `to_table`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Integers, Reals
from rbp.errors import DataError, ParameterError
from rbp.laws.resampling import degrees_of_freedom, repeated, without_each
from rbp.measurements.ranked import Ranked
from rbp.metric import TieRule
from rbp.store import RankStore

THRESHOLDS = (1, 2, 3, 5, 7, 10, 18, 30, 50, 78, 100, 200, 500, 1000)  # up to 100: where Pythia's values are published


@dataclass(frozen=True)
class Counts:
    """Counts of some models on one text. All have read the same tokens of the same documents.

    models: a row each, with model (its name), family and size (S); of the ladder's also rung, seed, budget and trained
    (`ladder.shipped`). vocabulary: how many tokens could be; thresholds: k, ascending. tokens: of each document,
    shape (rows,); hits: tokens of rank ≤ k, shape (rows, models, thresholds); nll: sums over a document's tokens of
    −ln p, in nats, shape (rows, models). repeats: whether the last row is no document, but the tokens that repeat an
    earlier document's beginning (`repeated`): they count in values, not in intervals. Only `of_stores` knows them;
    shipped sums have no tokens, and their intervals count every token.
    """

    dataset: str
    models: pd.DataFrame
    vocabulary: int
    thresholds: tuple[int, ...]
    tokens: Integers
    hits: Integers
    nll: Reals
    repeats: bool = False

    @property
    def documents(self) -> int:
        """Return how many documents can be left out."""
        return len(self.tokens) - self.repeats

    @property
    def names(self) -> list[str]:
        """Return the names of the models."""
        return self.models["model"].tolist()

    @property
    def sizes(self) -> Integers:
        """Return S of each model."""
        return self.models["size"].to_numpy(np.int64)

    @property
    def families(self) -> list[str]:
        """Return the families, in the order of the models."""
        return list(dict.fromkeys(self.models["family"]))

    @property
    def firsts(self) -> Integers:
        """Return the places of the first model of each size: the others are its training again, with other seeds."""
        return np.unique(self.sizes, return_index=True)[1].astype(np.int64)

    def place(self, k: int) -> int:
        """Return the place of k among the thresholds. Raises ParameterError for one that was not counted."""
        if k not in self.thresholds:
            available = ", ".join(map(str, self.thresholds))
            raise ParameterError(f"hits were not counted at k = {k}", "ks", f"There is: {available}.")
        return self.thresholds.index(k)

    def keep(self, models: npt.ArrayLike | None = None, ks: Sequence[int] | None = None) -> "Counts":
        """Keep some models, by their places or True and False for each, and some of the thresholds.

        Raises ParameterError for a k that was not counted.
        """
        places = np.arange(len(self.models)) if models is None else np.asarray(models)
        places = np.flatnonzero(places) if places.dtype == bool else places.astype(np.int64)
        chosen = self.thresholds if ks is None else tuple(sorted(set(ks)))
        return replace(
            self,
            models=self.models.iloc[places].reset_index(drop=True),
            thresholds=chosen,
            hits=self.hits[:, places][:, :, [self.place(k) for k in chosen]],
            nll=self.nll[:, places],
        )

    def budgets(self, family: str) -> list[int]:
        """Return the training tokens at which a family of the ladder has models, ascending."""
        return sorted(self.models.loc[self.models["family"] == family, "budget"].unique().tolist())

    def of(self, family: str, budget: int | None = None, *, seed: int | None = None) -> "Counts":
        """Select a family at one budget (default: its largest), by size, other seeds after seed 0; or one seed.

        Raises ParameterError for a family or a budget that is not there.
        """
        if family not in self.families:
            available = ", ".join(self.families)
            raise ParameterError(f"family {family} is not there", "family", f"There is: {available}.")
        budgets = self.budgets(family)
        if budget is not None and budget not in budgets:
            available = ", ".join(f"{budget:,}" for budget in budgets)
            raise ParameterError(f"{family} has no budget of {budget:,} tokens", "budget", f"There is: {available}.")
        chosen = self.models[(self.models["family"] == family) & (self.models["budget"] == (budget or budgets[-1]))]
        chosen = chosen if seed is None else chosen[chosen["seed"] == seed]
        return self.keep(chosen.sort_values(["size", "seed"]).index)

    @property
    def neg_log_rbp(self) -> Reals:
        """Return −ln RBP_k, shape (models, thresholds); infinite where no token has rank ≤ k."""
        with np.errstate(divide="ignore"):
            value: Reals = -np.log(self.hits.sum(axis=0) / self.tokens.sum()) + 0.0
        return value

    @property
    def log_neg_log_rbp(self) -> Reals:
        """Return ln(−ln RBP_k), shape (models, thresholds); −inf where every token is a hit."""
        value: Reals = _log_neg_log(np.array([self.tokens.sum()]), self.hits.sum(axis=0)[None])[0]
        return value

    @property
    def cross_entropy(self) -> Reals:
        """Return the cross-entropy, nats per token, shape (models,)."""
        value: Reals = self.nll.sum(axis=0) / self.tokens.sum()
        return value

    def table(self, *, infinite: bool = False) -> pd.DataFrame:
        """Return the models' rows of the measurement table (`rbp.measurements.table`), with their columns of `models`.

        The infinite −ln RBP_k of a threshold that no token meets, and an infinite cross-entropy, are left out unless
        wanted: neither can be a point of a fit.
        """
        hits, value = self.hits.sum(axis=0), self.neg_log_rbp
        rows: list[tuple[Any, ...]] = []
        for m, entropy in enumerate(self.cross_entropy):
            met = [(i, k) for i, k in enumerate(self.thresholds) if infinite or hits[m, i]]
            rows += [(m, "neg_log_rbp", k, value[m, i], hits[m, i]) for i, k in met]
            rows += [(m, "cross_entropy", None, entropy, None)] if infinite or np.isfinite(entropy) else []
        place, metrics, ks, values, counted = zip(*rows, strict=True) if rows else [()] * 5
        columns = {  # made at once: a folder may hold thousands of stores, whose tables are joined
            **{name: column.array.take(np.array(place, dtype=np.intp)) for name, column in self.models.items()},
            "metric": pd.array(metrics, dtype="str"),
            "k": pd.array(ks, dtype="Int64"),
            "value": np.array(values, dtype=np.float64),
            "hits": pd.array(counted, dtype="Int64"),
        }
        return pd.DataFrame(columns).assign(dataset=self.dataset, tokens=int(self.tokens.sum()))

    def left_out(self) -> "LeftOut":
        """Compute both metrics of the text, and of it without each document, for intervals by documents.

        A document is left out of all models at all k: an easy one is easy for all.
        """
        tokens, hits, nll = (without_each(sums[: self.documents]) for sums in (self.tokens, self.hits, self.nll))
        for left, sums in ((tokens, self.tokens), (hits, self.hits), (nll, self.nll)):
            left[0] = sums.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):  # without the only document there is nothing
            return LeftOut(self, _log_neg_log(tokens, hits), np.log(nll / tokens[:, None]))


@dataclass(frozen=True)
class LeftOut:
    """Both metrics of some models on one text, and on it without each of its D documents (`Counts.left_out`).

    y: ln(−ln RBP_k), shape (1 + D, models, thresholds), −inf where all tokens are hits; x: ln of the cross-entropy,
    shape (1 + D, models). The text as it is comes first, as `rbp.laws.resampling.interval` wants it.
    """

    counts: Counts
    y: Reals
    x: Reals

    @property
    def df(self) -> float:
        """Return the degrees of freedom of intervals by these documents."""
        return degrees_of_freedom(self.counts.tokens[: self.counts.documents])

    def keep(self, models: npt.ArrayLike) -> "LeftOut":
        """Keep some of the models, as `Counts.keep` takes them."""
        places = np.arange(self.x.shape[1])[np.asarray(models)]
        return LeftOut(self.counts.keep(places), self.y[:, places], self.x[:, places])

    def at(self, k: int | None) -> Reals:
        """Return y at k, or x (None), shape (1 + D, models). Raises what `Counts.place` does."""
        return self.x if k is None else self.y[:, :, self.counts.place(k)]

    def by_metric(self) -> Iterator[tuple[int | None, Reals]]:
        """Yield the cross-entropy (None), then every k, each with its values by `at`."""
        return ((k, self.at(k)) for k in (None, *self.counts.thresholds))


def _log_neg_log(tokens: npt.NDArray[Any], hits: npt.NDArray[Any]) -> Reals:
    with np.errstate(divide="ignore"):
        value: Reals = np.log(np.log(tokens[:, None, None] / hits))
    return value


def count_hits(
    ranks: npt.ArrayLike, cells: Integers, number: int, thresholds: Sequence[int], tokens: npt.ArrayLike | None = None
) -> Integers:
    """Count the tokens of each cell that have rank ≤ k, shape (number, thresholds).

    ranks, cells: shape (n,), cells from 0 to number − 1; thresholds: ascending; tokens: shape (n,), how many have this
    rank (default: one each).
    """
    width = len(thresholds) + 1
    level = np.searchsorted(thresholds, ranks)  # the first threshold that the rank meets; the last is for none
    counts = np.bincount(cells * width + level, tokens, number * width).reshape(number, width)
    return counts.cumsum(axis=1)[:, :-1].astype(np.int64)


def of_stores(stores: Sequence[RankStore], thresholds: Sequence[int], rule: TieRule = "paper") -> list[Counts]:
    """Count the hits of one family's models on each text, texts by name; models by S, then by name.

    Where models share an S, the first counts as the rung, and the others as its training again with other seeds.
    Raises ParameterError for stores of several families, and for a k that is no possible rank; DataError for a damaged
    store, and where two models did not rank the same tokens of a text.
    """
    families = sorted({store.family for store in stores})
    if len(families) != 1:
        fault = f"the rank stores are of {len(families)} families: {', '.join(families) or 'none'}"
        raise ParameterError(fault, "measurements", "Give a folder with the stores of one family.")
    ordered = sorted(stores, key=lambda store: (store.dataset, store.size, store.model))
    datasets = dict.fromkeys(store.dataset for store in ordered)
    return [_of_ranked([Ranked(s, rule) for s in ordered if s.dataset == name], thresholds) for name in datasets]


def store_table(ranked: Ranked, thresholds: Sequence[int] | None = None, *, infinite: bool = False) -> pd.DataFrame:
    """Return the measurement table of a rank store (`Counts.table`), at some thresholds or the usual ones.

    Raises ParameterError for a k that is no possible rank, DataError for a damaged store.
    """
    table = _of_ranked([ranked], thresholds, by_document=False).table(infinite=infinite)
    return table.assign(source=f"ranks {ranked.store.folder.name}", **ranked.store.training.known)


def _of_ranked(ranked: Sequence[Ranked], thresholds: Sequence[int] | None, *, by_document: bool = True) -> Counts:
    """Count models on one text, in their order; or its documents as one: by document, every k would be too much."""
    store, first = ranked[0].store, ranked[0].tokens
    same, ks = ["document", "position", "token"], ranked[0].thresholds(thresholds)
    place = np.zeros(len(first), dtype=np.int64)
    if by_document:
        again = repeated(first)
        names, place[~again] = np.unique(first["document"][~again], return_inverse=True)
        place[again] = len(names)
    tokens = np.bincount(place).astype(np.int64)
    hits, nll = [], []
    for model in ranked:
        # A document drawn for all models at once must be the same document to all.
        if model is not ranked[0] and not first[same].equals(model.tokens[same]):
            fault = f"{model.store.model} and {store.model} did not rank the same tokens of {store.dataset}"
            raise DataError(fault, str(model.store.folder), "Extract both with one tokenizer, corpus and protocol.")
        hits.append(count_hits(model.ranks, place, len(tokens), model.thresholds(ks)))
        nll.append(np.bincount(place, model.tokens["nll"], len(tokens)))
    models = [{"model": model.store.model, "family": model.store.family, "size": model.store.size} for model in ranked]
    return Counts(
        dataset=store.dataset,
        models=pd.DataFrame(models),
        vocabulary=store.vocabulary,
        thresholds=tuple(ks),
        tokens=tokens,
        hits=np.stack(hits, axis=1),
        nll=np.stack(nll, axis=1).astype(np.float64),
        repeats=by_document and bool(again.any()),
    )


_BESIDE = ["dataset", "vocabulary", "repeats", "thresholds", "tokens", "hits", "nll"]  # the columns of its models


def to_table(counts: Sequence[Counts]) -> pd.DataFrame:
    """Make a row for each text and model: dataset, vocabulary, repeats, its columns of `models`, and lists of numbers.

    Those are thresholds, and by row tokens, hits (at all thresholds of the first document, then of the next)
    and nll.
    """
    return pd.concat([_rows(text) for text in counts], ignore_index=True)


def _rows(counts: Counts) -> pd.DataFrame:
    count = len(counts.models)
    arrays: dict[str, Any] = {
        "thresholds": [counts.thresholds] * count,
        "tokens": [counts.tokens] * count,
        "hits": [model_hits.ravel() for model_hits in counts.hits.swapaxes(0, 1)],
        "nll": list(counts.nll.T),
    }
    return counts.models.assign(dataset=counts.dataset, vocabulary=counts.vocabulary, repeats=counts.repeats, **arrays)


def from_table(table: pd.DataFrame) -> list[Counts]:
    """Rebuild what `to_table` was given, in its order."""
    counts = []
    for dataset, rows in table.groupby("dataset", sort=False):
        first = rows.iloc[0]
        thresholds = tuple(int(k) for k in first["thresholds"])
        counts.append(
            Counts(
                dataset=str(dataset),
                models=rows.drop(columns=_BESIDE).reset_index(drop=True),
                vocabulary=int(first["vocabulary"]),
                thresholds=thresholds,
                tokens=np.asarray(first["tokens"], dtype=np.int64),
                hits=np.stack([np.reshape(flat, (-1, len(thresholds))) for flat in rows["hits"]], axis=1),
                nll=np.stack(rows["nll"].tolist(), axis=1),
                repeats=bool(first["repeats"]),
            )
        )
    return counts
