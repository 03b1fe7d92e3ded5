"""The grid of ladders as its chapters take it: hits by document of every model, by family, budget and text.

All models rank the same documents, and those are drawn anew alike for all (the same `seed` gives the same draws): so
what is compared is compared on the same draws.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.arrays import Reals
from rbp.core.errors import DataError
from rbp.evidence.document_hits import Hits
from rbp.paper.ladder import heights, resample_both
from rbp.paper.wording import dataset_order

CE = "CE"  # the cross-entropy, among the measures; the others are thresholds, "k = 1"
TRANSFORMER, LSTM, NGRAMS = "neox", "lstm", "ngrams"
FAMILY_LABELS = {TRANSFORMER: "Transformer", LSTM: "LSTM", NGRAMS: "n-grams", "mamba2": "Mamba-2"}


def family_label(family: str) -> str:
    """The name of a family as a title shows it."""
    return FAMILY_LABELS.get(family, family)


def measure_label(k: int | None) -> str:
    """The measure of −ln RBP_k, or of the cross-entropy (None)."""
    return CE if k is None else f"k = {k}"


def rung_of(model: str, family: str) -> str:
    """The rung of a model of a grid: "150k" of neox-150k-at-8m."""
    return model.removeprefix(f"{family}-").partition("-at-")[0]


@dataclass(frozen=True)
class Drawn:
    """ln y of each measure, as it is, shape (models,), and on documents drawn anew, shape (draws, models)."""

    models: tuple[str, ...]
    sizes: Reals
    whole: Mapping[str, Reals]
    draws: Mapping[str, Reals]

    def take(self, places: Sequence[int]) -> "Drawn":
        """Some of the models, by their places."""
        at = list(places)
        return Drawn(
            tuple(self.models[i] for i in at),
            self.sizes[at],
            {name: y[at] for name, y in self.whole.items()},
            {name: y[:, at] for name, y in self.draws.items()},
        )


@dataclass(frozen=True)
class Grid:
    """Hits of every family at every budget of training tokens that is there: (family, budget) → text → its hits.

    The models of a `Hits` are those of seed 0, by size.
    """

    lines: Mapping[tuple[str, int], Mapping[str, Hits]]

    @property
    def families(self) -> list[str]:
        """The families, in the order in which they are given."""
        return list(dict.fromkeys(family for family, _ in self.lines))

    def budgets(self, family: str) -> list[int]:
        """The budgets of a family, ascending."""
        return sorted(budget for own, budget in self.lines if own == family)

    @property
    def datasets(self) -> list[str]:
        """The texts."""
        return dataset_order(dataset for line in self.lines.values() for dataset in line)

    def largest(self, family: str) -> Mapping[str, Hits]:
        """The hits of a family at its largest budget."""
        if not (budgets := self.budgets(family)):
            raise DataError(f"the grid has no {family_label(family)}", "measurements", "Train it: rbp ladder train.")
        return self.lines[family, budgets[-1]]

    def points(self, ks: Iterable[int], family: str = TRANSFORMER) -> pd.DataFrame:
        """A row for each model, text and measure: dataset, family, model, size, training_tokens, measure, value."""
        rows = []
        for (own, budget), line in self.lines.items():
            for dataset, hits in line.items() if own == family else ():
                for name, y in whole(hits, ks).items():
                    rows += [
                        (dataset, family, model, int(size), budget, name, float(value))
                        for model, size, value in zip(hits.models, hits.sizes, np.exp(y), strict=True)
                    ]
        columns = ["dataset", "family", "model", "size", "training_tokens", "measure", "value"]
        return pd.DataFrame(rows, columns=columns)


def whole(hits: Hits, ks: Iterable[int]) -> dict[str, Reals]:
    """ln y of every model on the text as it is, by measure, the cross-entropy first; shape (models,)."""
    y = heights(hits)
    found = {CE: np.log(hits.nll.sum(axis=0) / hits.tokens.sum())}
    return found | {measure_label(k): y[:, hits.thresholds.index(k)] for k in ks}


def drawn(hits: Hits, ks: Iterable[int], *, resamples: int, seed: int = 0) -> Drawn:
    """`whole`, and the same on documents drawn anew."""
    ks = list(ks)
    y, entropy = resample_both(hits, resamples=resamples, seed=seed)
    draws = {CE: np.log(entropy)} | {measure_label(k): y[:, :, hits.thresholds.index(k)] for k in ks}
    return Drawn(hits.models, hits.sizes.astype(np.float64), whole(hits, ks), draws)


def interval(values: npt.ArrayLike, level: float) -> tuple[float, float]:
    """Percentiles of what documents drawn anew give; NaN where a draw has no value."""
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


_ABOUT = ["name", "family", "rung", "size", "budget"]


def hits_of(models: pd.DataFrame, tables: Mapping[str, Mapping[str, pd.DataFrame]], ks: Sequence[int]) -> pd.DataFrame:
    """What a grid is made of, from the sums that are kept of each model (`rbp.ladder.aggregates`).

    models: a row each, of seed 0, with name, family, size, budget and vocabulary; tables: name → its "counts" and
    "by_document". A row for each text, model and document, as `from_rows` takes it: dataset, family, model, size,
    budget, vocabulary, document, tokens, nll, and "k…", the tokens of rank ≤ k, by the paper's tie rule.
    """
    parts = []
    for about in models.to_dict("records"):
        own = tables[about["name"]]
        counts = own["counts"]
        rank = counts["greater"] + counts["equal"]
        below = {f"k{k}": counts["tokens"].where(rank <= k, 0) for k in ks}
        sums = counts[["dataset", "document"]].assign(**below).groupby(["dataset", "document"]).sum()
        rows = own["by_document"].merge(sums.reset_index(), on=["dataset", "document"], validate="one_to_one")
        kept = {"family": about["family"], "model": about["name"], "size": about["size"], "budget": about["budget"]}
        rows = rows.drop(columns="entropy").assign(**kept, vocabulary=about["vocabulary"])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def from_rows(rows: pd.DataFrame) -> Grid:
    """A grid from a row for each text, model and document (`hits_of`).

    Raises DataError where two models did not rank the same tokens of a text.
    """
    thresholds = tuple(sorted(int(name[1:]) for name in rows.columns if name[1:].isdigit()))
    columns = [f"k{k}" for k in thresholds]
    lines: dict[tuple[str, int], dict[str, Hits]] = {}
    tokens: dict[str, npt.NDArray[np.int64]] = {}
    for (family, budget, dataset), own in rows.groupby(["family", "budget", "dataset"], sort=False):
        ordered = own.sort_values(["size", "model", "document"])
        models = ordered.drop_duplicates("model")
        counted = ordered["tokens"].to_numpy(np.int64).reshape(len(models), -1)
        if not (counted == tokens.setdefault(str(dataset), counted[0])).all():
            raise DataError(f"models of {family} did not rank the same tokens", str(dataset), "Rank all of them anew.")
        lines.setdefault((str(family), int(budget)), {})[str(dataset)] = Hits(
            dataset=str(dataset),
            family=str(family),
            vocabulary=int(models["vocabulary"].iloc[0]),
            models=tuple(models["model"]),
            sizes=models["size"].to_numpy(np.int64),
            thresholds=thresholds,
            tokens=counted[0],
            hits=ordered[columns].to_numpy(np.int64).reshape(len(models), -1, len(columns)).transpose(1, 0, 2),
            nll=ordered["nll"].to_numpy(np.float64).reshape(len(models), -1).T,
        )
    return Grid(lines)
