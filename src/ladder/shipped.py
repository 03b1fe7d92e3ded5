"""Read what the ladder ships: all its models, and their counts on the texts (`counted`), by document and by rank.

Ranks of single tokens are there of seed 0 at the largest budget: `open_source("ladder").stores`, "ladder:lstm", …
In a ladder's folder `rbp ladder ship --family` puts

    families.json          a record for each model
    families-sums/FAMILY/  of all models of a family:
        counts.parquet       model, dataset, document, greater, equal, tokens: how many have this rank
        by_document.parquet  model, dataset, document, tokens, nll (sums, nats)
    families-ranks/FAMILY/ rank stores
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet

from ladder import LADDER
from rbp import provenance
from rbp.errors import DataError, ParameterError
from rbp.io import label, parse_json
from rbp.measurements.counts import THRESHOLDS, Counts, count_hits
from rbp.measurements.parts import Part, Ranks
from rbp.measurements.ranked import usual
from rbp.measurements.sources import Named
from rbp.metric import TieRule, rank
from rbp.store import RankStore

RECORDS, SUMS, RANKS = "families.json", "families-sums", "families-ranks"
FIRST = "v1"  # the ladder before the families: its heads and depths changed with size
ABLATION = "ablation"  # two of its rungs with other heads
APART = (FIRST, ABLATION)  # no families, and there only where they are named
TRIALS = "-trials"  # ends the name of what is kept of a family's trials, longer runs among them: so are these
TABLES = {
    "counts": ("document", "greater", "equal", "tokens"),
    "by_document": ("document", "tokens", "nll"),
}  # by name, with the columns beside model and dataset

#: what is known of a model, in this order, wherever models are rows
MODEL = ["model", "family", "rung", "seed", "size", "budget", "trained"]
_COLUMNS = [*MODEL, "cpu_seconds", "vocabulary"]
_NAMES = {"model": "name", "trained": "tokens"}  # in the records
_REMEDY = "Restore it: git checkout -- data/ladder; or make it: rbp ladder ship --family."


def models(families: Collection[str] = (), *, folder: Path = LADDER) -> pd.DataFrame:
    """Read the models whose ranks are shipped, a row each, by family (in the recipe's order), budget, S and seed.

    Columns MODEL: model (its name), family, rung ("10k"), seed (0 has all budgets, others the largest), size (S),
    budget (D, as planned), trained (as read, whole batches). Then cpu_seconds (of training), vocabulary. families: some
    of them; none named: all but APART and trials. Raises ParameterError for a family that is not shipped, DataError for
    a missing or malformed file.
    """
    path = folder / RECORDS
    try:
        entries = [entry for entry in parse_json(path.read_bytes()) if entry.get("ranked")]
        rows = [[entry[_NAMES.get(column, column)] for column in _COLUMNS] for entry in entries]
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", label(path), _REMEDY) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("this is not a list of the families' models", label(path), _REMEDY) from None
    provenance.note(path)
    table = pd.DataFrame(rows, columns=_COLUMNS)
    shipped = [name for name in table["family"].unique() if (folder / SUMS / name).is_dir()]
    for name in families:
        if name not in shipped:
            available = f"There is: {', '.join(shipped) or 'none'}."
            raise ParameterError(f"family {name} is not shipped", "family", f"{available} {how_to_make(name)}")
    chosen = table[table["family"].isin(families or [name for name in shipped if not is_apart(name)])]
    place = chosen["family"].map({name: i for i, name in enumerate(shipped)})
    return chosen.assign(place=place).sort_values(["place", "budget", "size", "seed"], ignore_index=True)[_COLUMNS]


def is_apart(family: str) -> bool:
    """Say whether what has this name is no family, and is there only where it is named."""
    return family in APART or family.endswith(TRIALS)


def how_to_make(family: str) -> str:
    """Return the commands that make a family and ship it."""
    commands = ", ".join(f"rbp ladder {command} --family {family}" for command in ("train", "rank", "ship"))
    return f"Make it: {commands}."


def counted(
    thresholds: Sequence[int] = THRESHOLDS,
    *,
    families: Collection[str] = (),
    datasets: Collection[str] = (),
    rule: TieRule = "paper",
    folder: Path = LADDER,
) -> list[Counts]:
    """Return what the models of some families (none named: all that are shipped) make of each text.

    thresholds: k at which hits are counted; rule: how equal scores count. Raises ParameterError for a family, a dataset
    or a k that is not there, DataError for a missing or damaged file, and where models ranked other tokens.
    """
    family_models = models(families, folder=folder)
    if family_models.empty:
        raise DataError("no family is shipped", label(folder / SUMS), _REMEDY)
    vocabulary, ks = int(family_models["vocabulary"].iloc[0]), sorted(set(thresholds))
    if wrong := [k for k in ks if not 1 <= k <= vocabulary]:
        raise ParameterError(f"k = {wrong[0]} is not among the ranks 1 to {vocabulary}", "thresholds", None)
    of_families = [rows for _, rows in family_models.groupby("family", sort=False)]
    sums = [_table(rows, "by_document", folder) for rows in of_families]
    available = list(sums[0]["dataset"].cat.categories)
    if unknown := [name for name in datasets if name not in available]:
        raise ParameterError(f"no ranks on {unknown[0]}", "datasets", f"There is: {', '.join(available)}.")
    parts = [
        _of_family(rows, of_documents, datasets, ks, rule, folder)
        for rows, of_documents in zip(of_families, sums, strict=True)
    ]
    counts = []
    for name in datasets or available:
        tokens = parts[0][name]["tokens"][:, :1]
        arrays = [part.get(name, {"tokens": np.zeros((0, 1))}) for part in parts]
        if not all(np.array_equal(part["tokens"], np.tile(tokens, part["tokens"].shape[1])) for part in arrays):
            raise DataError(f"the models did not rank the same tokens of {name}", label(folder / SUMS), _REMEDY)
        joined = {key: np.concatenate([part[key] for part in arrays], axis=1) for key in ("hits", "nll")}
        counts.append(
            Counts(
                name,
                family_models[MODEL],
                vocabulary,
                tuple(ks),
                tokens[:, 0].astype(np.int64),
                joined["hits"],
                joined["nll"],
            )
        )
    return counts


def measurements(rule: TieRule = "paper", also: Sequence[int] = (), *, folder: Path = LADDER) -> pd.DataFrame:
    """Return all models of seed 0 as rows of the measurement table (`rbp.measurements.table`), with their training.

    also: thresholds beside the usual ones.
    """
    thresholds = usual(int(models(folder=folder)["vocabulary"].max()), also)
    parts = [
        counts.keep(counts.models["seed"] == 0).table() for counts in counted(thresholds, rule=rule, folder=folder)
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(source=SUMS, **trained(table["model"], folder=folder))


def trained(names: "pd.Series[str]", *, folder: Path = LADDER) -> dict[str, Any]:
    """Return training_tokens (as planned), step and seed of models by their names; missing where none was trained.

    Raises DataError for a missing or malformed file.
    """
    path = folder / RECORDS
    try:
        records = {entry["name"]: entry for entry in parse_json(path.read_bytes()) if entry.get("steps")}
        found = [records.get(name, {}) for name in names]
        columns = {"training_tokens": "budget", "step": "steps", "seed": "seed"}
        return {name: pd.array([record.get(old) for record in found], dtype="Int64") for name, old in columns.items()}
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError("this is not a list of the families' models", label(path), _REMEDY) from None


_Arrays = dict[str, npt.NDArray[Any]]


def _of_family(
    family_models: pd.DataFrame,
    sums: pd.DataFrame,
    datasets: Collection[str],
    ks: list[int],
    rule: TieRule,
    folder: Path,
) -> dict[str, _Arrays]:
    """Return the arrays of `Counts` of a family's models, by dataset; tokens with a column for each model as well.

    sums: its table by document; datasets: some of its own (none named: all).
    """
    counts = _table(family_models, "counts", folder, datasets)
    ranks = np.asarray(rank(counts["greater"], counts["equal"], rule))
    by_dataset: dict[str, _Arrays] = {}
    vocabulary, models = int(family_models["vocabulary"].iloc[0]), len(family_models)
    model = counts["model"].cat.codes.to_numpy(np.int64)
    for name in sums["dataset"].cat.categories:
        if datasets and name not in datasets:
            continue
        rows, dataset_rows = sums[sums["dataset"] == name], np.flatnonzero(counts["dataset"] == name)
        documents, place = np.unique(rows["document"], return_inverse=True)
        shape, cell = (len(documents), models), place * models + rows["model"].cat.codes.to_numpy(np.int64)
        arrays: _Arrays = {
            column: np.bincount(cell, rows[column], len(documents) * models).reshape(shape).astype(np.float64)
            for column in ("tokens", "nll")
        }
        document, tokens = (counts[column].to_numpy()[dataset_rows] for column in ("document", "tokens"))
        cell = np.searchsorted(documents, document) * models + model[dataset_rows]
        # of ranks up to the vocabulary there must be all tokens
        hits = count_hits(ranks[dataset_rows], cell, len(documents) * models, [*ks, vocabulary], tokens).reshape(
            *shape, -1
        )
        arrays["hits"] = hits[:, :, :-1]
        if not np.array_equal(hits[:, :, -1], arrays["tokens"]):
            raise DataError(f"the tables do not fit together on {name}", label(folder / SUMS), _REMEDY)
        by_dataset[str(name)] = arrays
    return by_dataset


def _table(family_models: pd.DataFrame, name: str, folder: Path, datasets: Collection[str] = ()) -> pd.DataFrame:
    """Return a table of one family, of some datasets (none named: all) as far as they are there.

    Models in the order of `family_models` and datasets, sorted, are categories.
    """
    path, codes = folder / SUMS / str(family_models["family"].iloc[0]) / f"{name}.parquet", ["model", "dataset"]
    try:
        rows = [("dataset", "in", list(datasets))] if datasets else None
        table: pd.DataFrame = parquet.read_table(
            path, columns=[*codes, *TABLES[name]], read_dictionary=codes, filters=rows
        ).to_pandas()
    except (OSError, arrow.ArrowException) as error:
        fault = f"cannot read the file: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(fault, label(path), _REMEDY) from None
    provenance.note(path)
    if set(table["model"].cat.categories) != set(family_models["model"]):
        raise DataError("its models are not those of families.json", label(path), _REMEDY)
    table["model"] = table["model"].cat.set_categories(family_models["model"])
    table["dataset"] = table["dataset"].cat.set_categories(sorted(table["dataset"].cat.categories))
    return table


class _Stores(Ranks):
    """Rank stores of the ladder."""

    def missing(self, folder: Path) -> DataError:
        """Return how they are restored, or made."""
        return DataError(f"the family {folder.name} is not shipped", label(folder), how_to_make(folder.name))


class _Family(_Stores):
    """A family trained here, at its largest budget: rank stores of seed 0, and sums of all its models."""

    def counts(self, thresholds: Sequence[int]) -> list[Counts]:
        """Return the counts of all seeds."""
        name = self.folders[0].name
        return [counts.of(name) for counts in counted(thresholds, families=[name], rule=self.rule, folder=LADDER)]


class _Families(_Stores):
    """All models of the families; the folders hold their rank stores, which the largest budgets have."""

    def opened(self) -> list[RankStore]:
        """Open all stores. Raises DataError where there are none."""
        if not self.folders:
            remedy = "Restore it: git checkout -- data/ladder; or make your own: rbp ladder train, rbp ladder rank."
            raise DataError("the ladder has no ranks", label(LADDER / RANKS), remedy)
        return super().opened()

    def table(self) -> pd.DataFrame:
        """Return the measurements of all budgets."""
        return measurements(self.rule, self.ks, folder=LADDER)


def _one(family: str) -> Callable[[str, TieRule], Part]:
    return lambda word, rule: _Family(word, (LADDER / RANKS / family,), rule)


def _all(word: str, rule: TieRule) -> Part:
    return _Families(word, tuple(sorted((LADDER / RANKS).glob("*"))), rule)


SOURCES = {
    "ladder": Named("the ladder: transformers of 10k to 2.7m parameters trained here, 8 M tokens", _one("neox")),
    "ladder:lstm": Named("the LSTMs trained here, 8 M tokens", _one("lstm")),
    "ladder:all": Named("all families trained here, 0.5 to 8 M tokens", _all),
}
