"""Put whole families of the grid into the project, as `rbp.evidence.grid` reads them."""

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.errors import DataError
from rbp.core.files import folder_beside, parse_json, swap_in, write_file, write_json
from rbp.evidence.grid import RANKS, RECORDS, SUMS, TABLES
from rbp.ladder import aggregates, floor
from rbp.ladder.grid import Grid
from rbp.ladder.measuring import Measured
from rbp.ladder.ngrams import ORDERS
from rbp.ranks.entropies import BY_TEMPERATURE, ENTROPY, Entropies
from rbp.ranks.store import RankStore, Store, open_store

MODELS = "families"
RESOLUTION = 4096  # −ln p in shipped stores is rounded to 1/RESOLUTION nat, which makes them a fifth smaller
_CODES = {"dataset", "model", "equal"}  # columns of few different values
_SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": sorted(_CODES)}


def ship(grid: Grid, families: Sequence[str], to: Path) -> dict[str, int]:
    """Copy families that are whole into a ladder's folder; gives the bytes of each there, weights, ranks and sums.

    What is there of other families stays as it is, and so does every file that would not change. Of a line that
    repeats one with another seed nothing is shipped unless it is ranked. Raises DataError for a family of which a model
    is missing, and for ranks that are damaged, or of other weights than the model's.
    """
    bytes_of, found = {}, {family: _records(grid, family) for family in families}
    for family, records in found.items():
        kept = [record["name"] for record in records if _keeps_ranks(grid, record)]
        for name in kept:
            if family != floor.FAMILY:
                _copy_model(grid.place / "models" / name, to / MODELS / name)
        _copy_ranks(grid.place / "ranks", kept, to / RANKS / family)
        _write_sums(grid.place / "aggregates", records, to / RANKS / family, to / SUMS / family)
        folders = [*(to / MODELS / name for name in kept), to / RANKS / family, to / SUMS / family]
        bytes_of[family] = sum(path.stat().st_size for each in folders for path in each.rglob("*") if path.is_file())
    path = to / RECORDS
    there = parse_json(path.read_bytes()) if path.is_file() else []
    order = [*(family.name for family in grid.ladders.families), floor.FAMILY]
    records = [record for record in there if record["family"] not in found] + [r for rs in found.values() for r in rs]
    write_json(path, sorted(records, key=lambda record: order.index(record["family"])))
    return bytes_of


def _records(grid: Grid, family: str) -> list[dict[str, Any]]:
    """What is known of each model of a family, in the order of the recipe."""
    found, missing = [], []
    if family == floor.FAMILY:
        wanted = [(floor.name(grid, order), floor.about(grid, order), True) for order in ORDERS]
    else:
        wanted = [
            (line.at(tokens), grid.about(line, tokens), line.seed == 0)
            for line in grid.choose([family])
            for tokens in grid.ladders.budgets(line.seed)
        ]
    for name, about, needed in wanted:
        try:
            ranked = json.loads((grid.place / "aggregates" / name / "about.json").read_bytes())
        except (OSError, ValueError):
            ranked = {}
        if about and ranked == aggregates.key(grid, about["checksum"]):
            found.append({**about, "vocabulary": grid.base.text.vocabulary})
        elif needed:
            missing.append(name)
    if missing:
        remedy = f"rbp ladder train --family {family}, rbp ladder rank --family {family}."
        what = f"the family is not whole: {len(missing)} of its models are not ranked, {missing[0]} for one"
        raise DataError(what, str(grid.place.folder), f"Make them: {remedy}")
    return found


def _keeps_ranks(grid: Grid, record: dict[str, Any]) -> bool:
    if record["family"] == floor.FAMILY:
        return bool(record["rung"] == str(ORDERS[-1]))
    return bool(record["seed"] == 0 and record["budget"] == grid.ladders.training.budgets[-1])


def _copy_model(folder: Path, to: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        data = (folder / name).read_bytes()
        if not (to / name).is_file() or (to / name).read_bytes() != data:
            write_file(to / name, data)


def _copy_ranks(folder: Path, models: Sequence[str], to: Path) -> None:
    """Copy the stores of some models, −ln p rounded, with what lies beside them."""
    found = [path.parent for name in models for path in sorted(folder.glob(f"{name}-*/manifest.json"))]
    with folder_beside(to) as new:
        for path in found:
            store = open_store(path)
            ranks = store.ranks()
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
            for beside in (ENTROPY, BY_TEMPERATURE):
                shutil.copy(path / beside, copy.folder)
        swap_in(new, to)


def _write_sums(folder: Path, records: Sequence[dict[str, Any]], ranks: Path, to: Path) -> None:
    """Write the tables of all models; of those whose stores are shipped, by these: their numbers are the stores'."""
    stores: dict[str, list[RankStore]] = {}
    for path in sorted(ranks.glob("*/manifest.json")):
        store = open_store(path.parent)
        stores.setdefault(store.model, []).append(store)
    tables: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    for record in records:
        if own := stores.get(record["name"]):
            made = aggregates.aggregate({store.dataset: _measured(store) for store in own})
        else:
            made = aggregates.read(folder / record["name"])
        for name, table in made.items():
            tables[name].append(table.assign(model=record["name"]))
    with folder_beside(to) as new:
        for name, parts in tables.items():
            whole = pd.concat(parts, ignore_index=True)[["model", "dataset", *TABLES[name]]]
            numbers = {c: np.int32 if whole[c].dtype.kind == "i" else np.float32 for c in TABLES[name]}
            encoding = {column: "BYTE_STREAM_SPLIT" for column in numbers if column not in _CODES}
            data = io.BytesIO()
            whole.astype(numbers).to_parquet(data, index=False, column_encoding=encoding, **_SMALL)
            write_file(new / f"{name}.parquet", data.getvalue())
        swap_in(new, to)


def _measured(store: RankStore) -> Measured:
    ranks = store.ranks()
    document, greater, equal = (ranks[column].to_numpy(np.int64) for column in ("document", "greater", "equal"))
    nll = ranks["nll"].to_numpy(np.float64)
    return Measured(document, greater, equal, nll, Entropies(store).entropy, np.empty((len(nll), 0)))
