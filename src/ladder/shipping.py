"""Put families into the project, for `ladder.shipped`, with their text; and read what is known of the text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa

from ladder import LADDER, aggregates, text
from ladder.making import Making, TrainingRun
from ladder.shipped import APART, RANKS, RECORDS, SUMS, TABLES, TRIALS, how_to_make
from ladder.workspace import read_record
from rbp import provenance
from rbp.arrays import Integers
from rbp.errors import DataError
from rbp.io import folder_beside, label, parse_json, swap_in, write_file, write_json
from rbp.store import RankStore, Store, open_store
from rbp.tables import COUNT_FROM_0, checked, read_csv

MODELS, TEXT, COUNTS = "families", "text.json", "token_counts.csv"
RESOLUTION = 4096  # −ln p in shipped stores is rounded to 1/RESOLUTION nat, which makes them a fifth smaller


def ship(making: Making, families: Sequence[str], to: Path) -> dict[str, list[str]]:
    """Copy what is ranked of some families into a ladder's folder; gives their models that are left out, not ranked.

    Of a model that is not ranked the record is kept, where it is known, with "ranked": false. So is the record that is
    there of the same weights, trained before. Other families stay as they are, and so does every file that would not
    change. With them go the tokenizer, and what is known of the text. Raises DataError for a family of which nothing is
    ranked, for ranks that are damaged, and where the families that are there are of another text.
    """
    shipped = _read_records(making, to)
    by_name, entries = {entry["name"]: entry for entry in shipped}, []
    left_out: dict[str, list[str]] = {}
    for family in families:
        records, left_out[family] = [], []
        for name, run_record in _models(making, family):
            before = by_name.get(name, {})
            if not _is_ranked(making, name, run_record):
                left_out[family].append(name)
                entries += [{**entry, "ranked": False} for entry in (run_record or before,) if entry]
                continue
            same = before.get("checksum") == run_record["checksum"]
            records.append(
                {**(before if same else run_record), "ranked": True, "vocabulary": making.base.text.vocabulary}
            )
        if not records:
            raise DataError(f"no model of {family} is ranked", str(making.place.folder), how_to_make(family))
        entries += records
        with_ranks = [record["name"] for record in records if _stores(making, record["name"])]
        for name in with_ranks:
            _copy_model(making.place / "models" / name, to / MODELS / family / name)
        if with_ranks:
            _copy_ranks([path for name in with_ranks for path in _stores(making, name)], to / RANKS / family)
        _write_sums(making.place / "aggregates", records, to / RANKS / family, to / SUMS / family)
    _ship_text(making, to)
    _write_records(making, to, [*entries, *(entry for entry in shipped if entry["family"] not in families)])
    return left_out


def ship_trials(making: Making, runs: Sequence[TrainingRun], to: Path) -> dict[str, list[str]]:
    """Put the sums of what is ranked of trials into a ladder's folder, apart from their families: see TRIALS.

    What is there of other trials stays. Raises DataError where nothing of a family is ranked, and as `ship`.
    """
    shipped = _read_records(making, to)
    left_out: dict[str, list[str]] = {}
    for family in dict.fromkeys(run.family.name for run in runs):
        name = family + TRIALS
        family_runs = [run for run in runs if run.family.name == family]
        abouts = [(run.model_name(tokens), making.about(run, tokens)) for run in family_runs for tokens in run.budgets]
        records = [
            {**record, "family": name, "ranked": True, "vocabulary": making.base.text.vocabulary}
            for model, record in abouts
            if _is_ranked(making, model, record)
        ]
        new = {record["name"] for record in records}
        if not records:
            remedy = f"Make them: rbp ladder sweep --trials, rbp ladder rank --trials, --family {family}."
            raise DataError(f"no model of these trials of {family} is ranked", str(making.place.folder), remedy)
        stay = [entry for entry in shipped if entry["family"] == name and entry["name"] not in new]
        folder = to / SUMS / name
        _write_sums(making.place / "aggregates", records, to / RANKS / name, folder, [entry["name"] for entry in stay])
        shipped = [*(entry for entry in shipped if entry["family"] != name), *stay, *records]
        left_out[name] = [model for model, _ in abouts if model not in new]
    if (making.place / text.MORE).is_file():
        _put(to / text.MORE, (making.place / text.MORE).read_bytes())
    _write_records(making, to, shipped)
    return left_out


def _read_records(making: Making, to: Path) -> list[dict[str, Any]]:
    """Read the records in a ladder's folder. Raises DataError where they are of another text."""
    new, old, path = making.place / TEXT, to / TEXT, to / RECORDS
    if new.is_file() and old.is_file() and new.read_bytes() != old.read_bytes():
        fault = "the families that are there are of another text, or of another tokenizer"
        raise DataError(fault, str(old), "Give another folder: --to.")
    records: list[dict[str, Any]] = parse_json(path.read_bytes()) if path.is_file() else []
    return records


def _write_records(making: Making, to: Path, entries: Sequence[dict[str, Any]]) -> None:
    families = [family.name for family in making.ladders.families]
    order = [*families, *APART, *(name + TRIALS for name in families)]
    write_json(to / RECORDS, sorted(entries, key=lambda entry: order.index(entry["family"])))


def _ship_text(making: Making, to: Path) -> None:
    """Copy the tokenizer and descriptions of the text, and count how often each token is read at the largest budget."""
    steps = making.ladders.steps(making.base, making.ladders.training.budgets[-1])
    seen = count_tokens(
        making.place.rows(making.base)[: steps * making.ladders.training.batch], making.base.text.vocabulary
    )
    _put(to / COUNTS, seen.to_csv(index=False).encode())
    for path in (making.place / TEXT, making.place / "documents.csv", *(making.place / "tokenizer").iterdir()):
        _put(to / path.relative_to(making.place.folder), path.read_bytes())


def _models(making: Making, family: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the models of a family in the order of the recipe, each with its record, {} if it is not trained."""
    return [
        (run.model_name(tokens), making.about(run, tokens)) for run in making.choose([family]) for tokens in run.budgets
    ]


def _is_ranked(making: Making, name: str, record: dict[str, Any]) -> bool:
    """Say whether the sums of a model are there, and of these weights."""
    ranked = read_record(making.place / "aggregates" / name / "about.json")
    return bool(record) and ranked == aggregates.key(making, record["checksum"])


def _stores(making: Making, name: str) -> list[Path]:
    return [path.parent for path in sorted((making.place / "ranks").glob(f"{name}-*/manifest.json"))]


def _copy_model(folder: Path, to: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        _put(to / name, (folder / name).read_bytes())


def _put(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        write_file(path, data)


def _copy_ranks(stores: Sequence[Path], to: Path) -> None:
    """Copy some stores, −ln p rounded."""
    with folder_beside(to) as new:
        for path in stores:
            store = open_store(path)
            ranks = store.ranks().drop(columns="top")  # which would take a third more
            nll = np.round(ranks["nll"].astype(np.float64) * RESOLUTION) / RESOLUTION
            copy = Store(new / path.name)
            copy.begin(
                store.manifest["key"],
                {**store.manifest["about"], "nll": f"rounded to 1/{RESOLUTION} nat"},
                1,
                store.tokens,
            )
            copy.write(0, {**ranks, "nll": nll.astype(np.float32)})
            copy.finish({})
        swap_in(new, to)


def _write_sums(
    folder: Path, records: Sequence[dict[str, Any]], ranks: Path, to: Path, unchanged: Sequence[str] = ()
) -> None:
    """Write the tables of all models; where a model's stores are shipped, from these, so that numbers agree.

    unchanged: models that are in the tables already, and stay.
    """
    stores: dict[str, list[RankStore]] = {}
    for path in sorted(ranks.glob("*/manifest.json")):
        store = open_store(path.parent)
        stores.setdefault(store.model, []).append(store)
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    for name, parts in tables.items() if unchanged else ():
        old = pd.read_parquet(to / f"{name}.parquet")
        parts.append(old[old["model"].isin(unchanged)])
    for record in records:
        if rank_stores := stores.get(record["name"]):
            new_tables = aggregates.aggregate(rank_stores)
        else:
            new_tables = aggregates.read_tables(folder / record["name"])
        for name, table in new_tables.items():
            tables[name].append(table.assign(model=record["name"]))
    with folder_beside(to) as new:
        for name, parts in tables.items():
            model_rows = pd.concat(parts, ignore_index=True)[["model", "dataset", *TABLES[name]]]
            aggregates.write_table(new / f"{name}.parquet", model_rows)
        swap_in(new, to)


_REMEDY = "Restore the file: git checkout -- data/ladder; or make it: rbp ladder ship."


def shipped_text(folder: Path = LADDER) -> pd.DataFrame:
    """Read the text by part: use ("training" or "evaluation"), name, origin, licence, documents, characters, tokens.

    Also left_out, documents of a training source that share a long passage with an evaluation text, and held_out,
    those kept for evaluation. Raises DataError for a malformed file.
    """
    path = folder / TEXT
    columns = ["name", "origin", "licence", "documents", "characters", "tokens"]
    try:
        content = parse_json(path.read_bytes())
        parts = [
            {"use": use, **{name: part[name] for name in columns}}
            | {"left_out": len(part.get("left_out", ())), "held_out": part.get("held_out", 0)}
            for use in ("training", "evaluation")
            for part in content[use]
        ]
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", label(path), _REMEDY) from None
    except (ValueError, KeyError, TypeError):
        raise DataError("this does not describe the ladder's text", label(path), _REMEDY) from None
    provenance.note(path)
    return pd.DataFrame(parts)


def count_tokens(rows: npt.NDArray[np.uint16], vocabulary: int) -> pd.DataFrame:
    """Count the tokens of training rows, an array of any shape: columns token, count."""
    counts = np.bincount(rows.ravel(), minlength=vocabulary)
    return pd.DataFrame({"token": np.arange(vocabulary), "count": counts})


def read_token_counts(folder: Path = LADDER) -> Integers:
    """Return how often the families read each token at their largest budget, shape (vocabulary,).

    Raises DataError if the file is missing or not such a table.
    """
    path = folder / COUNTS
    schema = pa.DataFrameSchema({"token": COUNT_FROM_0, "count": COUNT_FROM_0})
    table = checked(read_csv(path), schema, path, keys=["token"], remedy=_REMEDY)
    if not np.array_equal(table["token"], np.arange(len(table))):
        raise DataError("the tokens must be numbered from 0 on, none left out", label(path), _REMEDY)
    return table["count"].to_numpy(np.int64)
