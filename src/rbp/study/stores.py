"""What of a study is measured already: its rank stores, and whether what says so can be believed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbp.errors import DataError
from rbp.extraction.store import Store
from rbp.paths import DATA
from rbp.study.file import Cell, Study
from rbp.study.jobs import merge_job, read_json, shards_of
from rbp.study.names import dataset_name, short


@dataclass(frozen=True)
class Progress:
    """How far a cell is: packs that are there, of how many (0: not known), tokens of all, and whether it is whole."""

    done: int = 0
    packs: int = 0
    tokens: int | None = None
    whole: bool = False

    @property
    def words(self) -> str:
        """The same for people."""
        if self.whole:
            return "whole"
        return f"{self.done} of {self.packs} packs" if self.packs else "nothing"


def model_label(cell: Cell) -> str:
    """What a rank store calls the cell's model: the hub id, or the name of its folder."""
    return short(cell.model.name) if Path(cell.model.name).is_absolute() else cell.model.name


def progress(study: Study, cell: Cell) -> Progress:
    """How far a cell is, by the names of the files that are there; `freshen` is what looks into them."""
    folder = _folder(study, cell)
    if folder is None:
        return Progress()
    manifest = Store(folder).manifest
    there = {path.name.split("-")[0] for path in (folder / "parts").glob("[0-9]*.parquet")}
    whole = manifest["complete"] and (study.out / merge_job(cell).output).is_file()
    return Progress(len(there), manifest["packs"], manifest["tokens"], whole)


def finished_store(study: Study, cell: Cell) -> Store:
    """The store of a cell that is done. Raises DataError if it is not."""
    job = merge_job(cell)
    said = read_json(study.out / job.output)
    if said is None:
        raise DataError(f"{job.name} is not done yet", str(study.out), "Do it first: rbp study run.")
    return Store(study.ranks / said["store"])


def _folder(study: Study, cell: Cell) -> Path | None:
    """The store of a cell: as its jobs say, or, where none has ended yet, by what the manifests say."""
    for job in (merge_job(cell), *shards_of(study, cell)):
        said = read_json(study.out / job.output)
        if said is not None and (study.ranks / said["store"] / "manifest.json").is_file():
            return Path(study.ranks / said["store"])
    wanted = (model_label(cell), dataset_name(cell.corpus.name), study.protocol.as_dict(), study.content.dtype)
    for path in sorted(study.ranks.glob("*/manifest.json")):
        try:
            manifest = Store(path.parent).manifest
        except DataError:
            continue
        about, key = manifest["about"], manifest["key"]
        if (about["model"], about["dataset"], key["protocol"], key["dtype"]) == wanted:
            return path.parent
    return None


def stamp(cell: Cell) -> dict[str, list[int]]:
    """The sizes and times of the local files that a cell is made from: whether they may have changed."""
    model, corpus = Path(cell.model.name), Path(cell.corpus.name)
    files = [path for path in sorted(model.iterdir()) if path.is_file()] if model.is_absolute() else []
    files += [corpus if corpus.is_absolute() else DATA / "ladder" / "documents.csv"]
    found = {path.name: path.stat() for path in files if path.is_file()}
    return {name: [it.st_size, it.st_mtime_ns] for name, it in found.items()}


def freshen(study: Study) -> list[str]:
    """Take away what says that work is done which is not there, or not any more; gives a line for each.

    Every part of every store of the study is read and compared with its checksum.
    """
    lines = []
    for cell in study.cells:
        merged = study.out / merge_job(cell).output
        outputs = [study.out / job.output for job in shards_of(study, cell)]
        said = read_json(merged)
        if said is not None and said.get("stamp") == stamp(cell) and _is_whole(study.ranks / said["store"]):
            continue
        if merged.is_file():
            merged.unlink()
            lines.append(f"{cell.label}: the store is not as it was: what is missing is measured again")
        whole: dict[str, set[int]] = {}
        for path in filter(Path.is_file, outputs):
            said = read_json(path) or {}
            name = str(said.get("store"))
            if name not in whole:
                whole[name] = set(Store(study.ranks / name).parts()[0])
            if said.get("stamp") != stamp(cell) or not set(said["packs"]) <= whole[name]:
                path.unlink()
                lines.append(f"{cell.label}, shard {path.stem}: not as it was, so it is looked at again")
    return lines


def _is_whole(folder: Path) -> bool:
    store = Store(folder)
    try:
        manifest = store.manifest
    except DataError:
        return False
    return bool(manifest["complete"]) and {path.name for path in store.parts()[0].values()} == set(manifest["parts"])


def marker(study: Study, cell: Cell, folder: Path, packs: list[int], **more: Any) -> dict[str, Any]:
    """What a finished job says: where the ranks are, which packs, and what they were made from."""
    return {"cell": cell.label, "store": folder.name, "packs": packs, "stamp": stamp(cell), **more}
