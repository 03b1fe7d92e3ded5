"""Put families of the grid into the project, as `rbp.evidence.grid` reads them."""

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rbp.core.errors import DataError
from rbp.core.files import bytes_below, folder_beside, parse_json, swap_in, write_file, write_json
from rbp.evidence.grid import RANKS, RECORDS, SUMS, TABLES
from rbp.ladder import ablation, aggregates, floor
from rbp.ladder.grid import Grid
from rbp.ladder.measuring import Measured
from rbp.ladder.ngrams import ORDERS
from rbp.ranks.entropies import BY_TEMPERATURE, ENTROPY, Entropies
from rbp.ranks.store import RankStore, Store, open_store

MODELS = "families"
RESOLUTION = 4096  # −ln p in shipped stores is rounded to 1/RESOLUTION nat, which makes them a fifth smaller
_CODES = {"dataset", "model", "equal"}  # columns of few different values
_SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": sorted(_CODES)}


class Shipped(NamedTuple):
    """What was shipped of a family: the bytes of its weights, ranks and sums, and its models that are not ranked."""

    bytes: int
    left_out: list[str]


def ship(grid: Grid, families: Sequence[str], to: Path) -> dict[str, Shipped]:
    """Copy what is ranked of some families into a ladder's folder.

    Of a model that is not ranked the record is kept, where it is known, with "ranked": false. So is the record that is
    there of the same weights, trained before. Other families stay as they are, and so does every file that would not
    change. Raises DataError for a family of which nothing is ranked, and for ranks that are damaged.
    """
    path = to / RECORDS
    there = parse_json(path.read_bytes()) if path.is_file() else []
    known, entries, shipped = {entry["name"]: entry for entry in there}, [], {}
    for family in families:
        records, left_out = [], []
        for name, about in _models(grid, family):
            before = known.get(name, {})
            if not _is_ranked(grid, name, about):
                left_out.append(name)
                entries += [{**entry, "ranked": False} for entry in (about or before,) if entry]
                continue
            same = before.get("checksum") == about["checksum"]
            records.append({**(before if same else about), "ranked": True, "vocabulary": grid.base.text.vocabulary})
        if not records:
            make = "" if family == floor.FAMILY else f"rbp ladder train --family {family}, "
            remedy = f"Make them: {make}rbp ladder rank --family {family}."
            raise DataError(f"no model of {family} is ranked", str(grid.place.folder), remedy)
        entries += records
        kept = [record["name"] for record in records if _keeps_ranks(grid, record)]
        for name in kept if family != floor.FAMILY else ():
            _copy_model(grid.place / "models" / name, to / MODELS / name)
        if kept:
            _copy_ranks(grid.place / "ranks", kept, to / RANKS / family)
        _write_sums(grid.place / "aggregates", records, to / RANKS / family, to / SUMS / family)
        folders = [*(to / MODELS / name for name in kept), to / RANKS / family, to / SUMS / family]
        shipped[family] = Shipped(sum(map(bytes_below, folders)), left_out)
    entries += [entry for entry in there if entry["family"] not in families]
    order = [*(each.name for each in grid.ladders.families), floor.FAMILY, ablation.FAMILY]
    write_json(path, sorted(entries, key=lambda entry: order.index(entry["family"])))
    return shipped


def _models(grid: Grid, family: str) -> list[tuple[str, dict[str, Any]]]:
    """The models of a family in the order of the recipe, each with its record, {} if it is not trained."""
    if family == floor.FAMILY:
        return [(floor.name(grid, order), floor.about(grid, order)) for order in ORDERS]
    if family == ablation.FAMILY:
        return [(which.name, ablation.about(grid, which)) for which in ablation.choose(grid)]
    return [
        (line.at(tokens), grid.about(line, tokens))
        for line in grid.choose([family], also=f"{ablation.FAMILY}, {floor.FAMILY}")
        for tokens in grid.ladders.budgets(line.seed)
    ]


def _is_ranked(grid: Grid, name: str, about: dict[str, Any]) -> bool:
    """Whether the sums of a model are there, and of these weights."""
    try:
        ranked = json.loads((grid.place / "aggregates" / name / "about.json").read_bytes())
    except (OSError, ValueError):
        return False
    return bool(about) and bool(ranked == aggregates.key(grid, about["checksum"]))


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
