"""The grid of ladders as its chapters take it: hits by document of every model, by family, budget and text.

All models rank the same documents, and those are drawn anew alike for all (the same `seed` gives the same draws): so
what is compared is compared on the same draws.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.book.steps import step
from rbp.core import provenance
from rbp.core.arrays import Reals
from rbp.core.errors import DataError
from rbp.core.files import bytes_below, parse_json
from rbp.core.paths import LADDER, label
from rbp.evidence.document_hits import Hits
from rbp.evidence.grid import ABLATION, FIRST, RANKS, RECORDS, SUMS, Counted, counted
from rbp.ladder.recipe import LADDERS, Ladders, read_ladders
from rbp.paper.ladder import log_neg_log_rbp, resample_both
from rbp.paper.wording import dataset_order

CE = "CE"  # the cross-entropy, among the measures; the others are thresholds, "k = 1"
TRANSFORMER, LSTM, NGRAMS = "neox", "lstm", "ngrams"
FAMILY_LABELS = {
    TRANSFORMER: "Transformer",
    LSTM: "LSTM",
    NGRAMS: "n-grams",
    "mamba2": "Mamba-2",
    ABLATION: "other heads",
}


def family_label(family: str) -> str:
    """The name of a family as a title shows it."""
    return FAMILY_LABELS.get(family, family)


def measure_label(k: int | None) -> str:
    """The measure of −ln RBP_k, or of the cross-entropy (None)."""
    return CE if k is None else f"k = {k}"


def rung_of(model: str, family: str) -> str:
    """The rung of a model of a grid: "150k" of neox-150k-at-8m."""
    return model.removeprefix(f"{family}-").partition("-at-")[0]


def what_differs(models: Iterable[str]) -> list[str]:
    """What each model trained again has of its own by the recipe, beside its first training: "weights" or "order"."""
    repeats = _recipe().repeats
    seeds = [int(model.rpartition("-seed")[2]) for model in models]
    return ["weights" if repeats[seed].weights else "order" for seed in seeds]


def planned() -> tuple[dict[str, tuple[str, ...]], tuple[int, ...]]:
    """What the recipe would train: the rungs of each family, by size, and the budgets. Not all of it need be there."""
    ladders = _recipe()
    return {family.name: family.rungs for family in ladders.families}, tuple(ladders.training.budgets)


def _recipe() -> Ladders:
    ladders, _ = read_ladders()
    provenance.note(LADDERS, LADDERS.parent / ladders.text)
    return ladders


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

    def rungs(self, family: str, budget: int) -> list[str]:
        """The rungs of a family at a budget, by size; none where it has none."""
        line = self.lines.get((family, budget), {})
        return [rung_of(model, family) for model in next(iter(line.values())).models] if line else []

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
        """A row for each model, text and measure: dataset, family, model, size, training_tokens, measure, k, value.

        k is missing for the cross-entropy.
        """
        rows = []
        for (own, budget), line in self.lines.items():
            for dataset, hits in line.items() if own == family else ():
                for name, k in [(CE, None), *((measure_label(k), k) for k in ks)]:
                    values = np.exp(whole(hits, [] if k is None else [k])[name])
                    rows += [
                        (dataset, family, model, int(size), budget, name, k, float(value))
                        for model, size, value in zip(hits.models, hits.sizes, values, strict=True)
                    ]
        columns = ["dataset", "family", "model", "size", "training_tokens", "measure", "k", "value"]
        return pd.DataFrame(rows, columns=columns).astype({"k": "Int64"})


def whole(hits: Hits, ks: Iterable[int]) -> dict[str, Reals]:
    """ln y of every model on the text as it is, by measure, the cross-entropy first; shape (models,)."""
    y = log_neg_log_rbp(hits)
    found = {CE: np.log(hits.nll.sum(axis=0) / hits.tokens.sum())}
    return found | {measure_label(k): y[:, hits.place(k)] for k in ks}


def drawn(hits: Hits, ks: Iterable[int], *, resamples: int, seed: int = 0) -> Drawn:
    """`whole`, and the same on documents drawn anew."""
    ks = list(ks)
    y, entropy = resample_both(hits, resamples=resamples, seed=seed)
    draws = {CE: np.log(entropy)} | {measure_label(k): y[:, :, hits.place(k)] for k in ks}
    return Drawn(hits.models, hits.sizes.astype(np.float64), whole(hits, ks), draws)


def interval(values: npt.ArrayLike, level: float) -> tuple[float, float]:
    """Percentiles of what documents drawn anew give; NaN where a draw has no value."""
    low, high = np.quantile(np.asarray(values, dtype=np.float64), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def as_rows(counted: Sequence[Counted]) -> pd.DataFrame:
    """What a grid is made of: a row for each text, model of seed 0 and document, as `from_rows` takes it.

    Columns dataset, family, model, size, budget, vocabulary, document, tokens, nll, and "k…", the tokens of rank ≤ k.
    """
    parts = []
    for text in counted:
        for i in np.flatnonzero(text.models["seed"] == 0):
            own = {name: text.models[name].iloc[i] for name in ("family", "model", "size", "budget")}
            columns = {f"k{k}": text.hits[:, i, j] for j, k in enumerate(text.thresholds)}
            sums = {"document": np.arange(len(text.tokens)), "tokens": text.tokens, "nll": text.nll[:, i]}
            parts.append(
                pd.DataFrame({"dataset": text.dataset, **own, "vocabulary": text.vocabulary, **sums, **columns})
            )
    return pd.concat(parts, ignore_index=True)


@step("grid_hits", reads=["data/ladder/families.json", "data/ladder/families-sums"], seconds=20)
def shipped_hits() -> pd.DataFrame:
    """The shipped grid's hits by document, as `as_rows` gives them."""
    return as_rows(counted())


def from_rows(rows: pd.DataFrame) -> Grid:
    """A grid from a row for each text, model and document (`as_rows`).

    Raises DataError where two models did not rank the same tokens of a text.
    """
    thresholds = tuple(sorted(int(name[1:]) for name in rows.columns if name[1:].isdigit()))
    columns = [f"k{k}" for k in thresholds]
    lines: dict[tuple[str, int], dict[str, Hits]] = {}
    tokens: dict[str, npt.NDArray[np.int64]] = {}
    for (family, _, dataset), own in rows.groupby(["family", "budget", "dataset"], sort=False):
        ordered = own.sort_values(["size", "model", "document"])
        models = ordered.drop_duplicates("model")
        counted = ordered["tokens"].to_numpy(np.int64).reshape(len(models), -1)
        if not (counted == tokens.setdefault(str(dataset), counted[0])).all():
            raise DataError(f"models of {family} did not rank the same tokens", str(dataset), "Rank all of them anew.")
        lines.setdefault((str(family), int(models["budget"].iloc[0])), {})[str(dataset)] = Hits(
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


def costs(folder: Path = LADDER) -> pd.DataFrame:
    """What the shipped families took to train, and how large they are, a row for each, in the order of the records.

    Columns family; models (trained); core_hours: of training, where budgets of a line share the trunk up to where they
    branch off; slowest, fastest: tokens per second of one core, over the models (of n-grams: counted); weights, ranks,
    sums: bytes. Raises DataError for a missing or malformed file.
    """
    try:
        table = pd.DataFrame(each for each in parse_json((folder / RECORDS).read_bytes()) if each["family"] != FIRST)
        cooldown = read_ladders(folder / LADDERS.name)[0].training.cooldown
        rate = table["tokens"] / table["cpu_seconds"].clip(lower=0.1)
        last = table["budget"] == table.groupby(["family", "rung", "seed"])["budget"].transform("max")
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError("this is no list of the families' models", label(folder / RECORDS), None) from None
    provenance.note(folder / RECORDS)
    branched = table["family"] != NGRAMS
    share = (~branched).astype(float).mask(branched, cooldown + (1 - cooldown) * last)
    whole = table.assign(core_hours=table["cpu_seconds"] * share / 3600, rate=rate).groupby("family", sort=False)
    found = whole.agg(
        models=("name", "size"), core_hours=("core_hours", "sum"), slowest=("rate", "min"), fastest=("rate", "max")
    ).reset_index()
    for column, place in (("weights", "families"), ("ranks", RANKS), ("sums", SUMS)):
        found[column] = [bytes_below(folder / place / name) for name in found["family"]]
    return found
