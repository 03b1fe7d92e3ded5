"""How many tokens of each document have rank ≤ k, and their loss: every model of a family on one text, every k."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rbp.core.arrays import Integers, Reals
from rbp.core.errors import DataError, ParameterError
from rbp.evidence.ranked import Ranked
from rbp.ranks.metric import TieRule
from rbp.ranks.store import RankStore

GRID = (1, 2, 3, 5, 7, 10, 18, 30, 50, 78, 100, 200, 500, 1000)  # up to 100: where Pythia's values are published
_ABOUT = ["dataset", "family", "model", "size", "vocabulary"]


@dataclass(frozen=True)
class Hits:
    """The hits of a family on one dataset.

    vocabulary: how many logits were counted. models, sizes: by S, then by name; where models share an S, the first is
    the rung and the others are its training again with other seeds. thresholds: k, ascending. tokens: ranked tokens of
    each document, shape (documents,); hits: those of rank ≤ k, shape (documents, models, thresholds); nll: the sum of
    their −ln p in nats, shape (documents, models).
    """

    dataset: str
    family: str
    vocabulary: int
    models: tuple[str, ...]
    sizes: Integers
    thresholds: tuple[int, ...]
    tokens: Integers
    hits: Integers
    nll: Reals

    @property
    def rungs(self) -> Integers:
        """The places among the models of the first one of each size."""
        return np.unique(self.sizes, return_index=True)[1].astype(np.int64)

    def place(self, k: int) -> int:
        """Where k is among the thresholds. Raises ParameterError for one that was not counted."""
        if k not in self.thresholds:
            there = ", ".join(map(str, self.thresholds))
            raise ParameterError(f"hits were not counted at k = {k}", "ks", f"There is: {there}.")
        return self.thresholds.index(k)


def as_table(counted: Sequence[Hits]) -> pd.DataFrame:
    """A row for each dataset, model and document: those, family, size, vocabulary, tokens, nll, and "k…" for each k."""
    parts = []
    for one in counted:
        for m, model in enumerate(one.models):
            about = dict(zip(_ABOUT, (one.dataset, one.family, model, int(one.sizes[m]), one.vocabulary), strict=True))
            columns = {f"k{k}": one.hits[:, m, i] for i, k in enumerate(one.thresholds)}
            own = {"document": np.arange(len(one.tokens)), "tokens": one.tokens, "nll": one.nll[:, m]}
            parts.append(pd.DataFrame({**about, **own, **columns}))
    return pd.concat(parts, ignore_index=True)


def from_table(table: pd.DataFrame) -> list[Hits]:
    """What `as_table` was given."""
    thresholds = tuple(int(name[1:]) for name in table.columns if name[1:].isdigit())
    found = []
    for dataset, rows in table.groupby("dataset"):
        models = rows.drop_duplicates("model")
        cells = rows[[f"k{k}" for k in thresholds]].to_numpy(np.int64)
        found.append(
            Hits(
                dataset=str(dataset),
                family=str(models["family"].iloc[0]),
                vocabulary=int(models["vocabulary"].iloc[0]),
                models=tuple(models["model"]),
                sizes=models["size"].to_numpy(np.int64),
                thresholds=thresholds,
                tokens=rows.loc[rows["model"] == models["model"].iloc[0], "tokens"].to_numpy(np.int64),
                hits=cells.reshape(len(models), -1, len(thresholds)).transpose(1, 0, 2),
                nll=rows["nll"].to_numpy(np.float64).reshape(len(models), -1).T,
            )
        )
    return found


def count(stores: Sequence[RankStore], thresholds: Sequence[int], rule: TieRule = "paper") -> list[Hits]:
    """The hits of `stores` at each of `thresholds`, a dataset each, in the order of their names.

    Raises ParameterError for stores of several families, and for a k that is no possible rank; DataError for a
    damaged store, and where two models did not rank the same tokens of a dataset.
    """
    families = sorted({store.family for store in stores})
    if len(families) != 1:
        what = f"the rank stores are of {len(families)} families: {', '.join(families) or 'none'}"
        raise ParameterError(what, "measurements", "Give a folder with the stores of one family.")
    datasets = sorted({store.dataset for store in stores})
    return [_dataset([s for s in stores if s.dataset == name], sorted(set(thresholds)), rule) for name in datasets]


def _dataset(stores: Sequence[RankStore], thresholds: list[int], rule: TieRule) -> Hits:
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    first = Ranked(ordered[0], rule).tokens
    _, place = np.unique(first["document"], return_inverse=True)
    documents = int(place.max()) + 1
    hits = np.empty((documents, len(ordered), len(thresholds)), dtype=np.int64)
    nll = np.empty((documents, len(ordered)))
    for model, store in enumerate(ordered):
        ranked = Ranked(store, rule)
        ranked.thresholds(thresholds)
        # A document drawn for all models at once must be the same document to all.
        if not first[["document", "position", "token"]].equals(ranked.tokens[["document", "position", "token"]]):
            what = f"{store.model} and {ordered[0].model} did not rank the same tokens of {store.dataset}"
            raise DataError(what, str(store.folder), "Extract both with one tokenizer, corpus and protocol.")
        for i, k in enumerate(thresholds):
            hits[:, model, i] = np.bincount(place, ranked.ranks <= k, minlength=documents)
        nll[:, model] = np.bincount(place, ranked.tokens["nll"], minlength=documents)
    return Hits(
        dataset=ordered[0].dataset,
        family=ordered[0].family,
        vocabulary=ordered[0].vocabulary,
        models=tuple(store.model for store in ordered),
        sizes=np.array([store.size for store in ordered], dtype=np.int64),
        thresholds=tuple(thresholds),
        tokens=np.bincount(place, minlength=documents).astype(np.int64),
        hits=hits,
        nll=nll,
    )


def document_losses(store: RankStore) -> Reals:
    """The sum of −ln p over the tokens of each document of `store`, shape (documents,), in the order of `count`."""
    tokens = Ranked(store).tokens
    _, place = np.unique(tokens["document"], return_inverse=True)
    return np.bincount(place, tokens["nll"].astype("float64")).astype(np.float64)
