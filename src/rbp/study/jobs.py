"""A study's jobs, which its Snakefile runs in the study's folder: each whole or not at all, and safe to repeat."""

import os
from dataclasses import replace
from pathlib import Path

from rbp.errors import DataError
from rbp.io import write_file
from rbp.store import REDO, Store
from rbp.study.config import Cell, Study

RANKS = Path("ranks")


def rank_shard(study: Study, cell: Cell, number: int) -> Path:
    """Rank one share of a cell's packs, the `number`-th from 1, into the cell's store; gives its folder."""
    from rbp.choices import Settings
    from rbp.extract.extraction import extract, extract_on_gpus, gpus, quiet, say_on_stderr
    from rbp.models.find import find_model

    os.environ["HF_HUB_OFFLINE"] = "1"
    say_on_stderr()
    content, model = study.content, cell.model
    settings = Settings(
        dtype=content.dtype,
        device=content.device,
        vocabulary=content.vocabulary,
        fields=tuple(cell.corpus.fields),
        family=model.family,
    )
    with quiet():
        files = replace(find_model(model.name, model.revision), name=model.label)
    what = [files], [cell.corpus.name], study.protocol, RANKS, settings
    if content.shards > 1:
        return extract(*what, (number, content.shards))[0]
    if content.device == "cuda" and len(visible := gpus()) > 1:
        extract_on_gpus(*what, visible)
    return extract(*what)[0]


def merge_shards(folders: set[Path]) -> Path:
    """Finish the store of a cell, given the folders that its shards name; gives the folder.

    Raises DataError if they name several, and if a pack is missing, damaged or unproved.
    """
    if len(folders) > 1:
        what = "the shards measured different things: " + " and ".join(sorted(folder.name for folder in folders))
        raise DataError(what, str(RANKS), "Their manifests say what differs. Run the study again.")
    store = Store(*folders)
    with store.lock():
        store.clear()
        for path in store.parts()[1]:  # damaged, or there a second time
            path.unlink()
        if store.checked() is None:
            raise DataError("a pack is missing, or was not verified", str(store.folder), REDO)
        store.finish({})
    return store.folder


def write_table(folders: list[Path], path: Path) -> None:
    """Write the measurement table of rank stores as Parquet, and as CSV beside it."""
    from rbp.measurements import open_source

    table = open_source(folders).checkpoints
    write_file(path.with_suffix(".csv"), table.to_csv(index=False))
    write_file(path, table.to_parquet(index=False))
