"""Rank by every model of the families, and keep what the law needs: for most models sums, not each token's rank.

aggregates/NAME/ holds, of one model on all documents that are ranked,

    counts.parquet       dataset, document, greater, equal: how many tokens have this rank
    by_document.parquet  dataset, document: tokens, nll (sums, nats, in single precision)
    about.json           the weights, and what was ranked

Of the models of seed 0 at the largest budget each token's rank is kept as well, in a rank store in ranks/.
"""

import io
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder.making import Making, TrainingRun
from ladder.ranking import read_corpus, stores_of, windows_of
from ladder.recipe import Change
from ladder.shipped import TABLES
from ladder.workspace import read_record
from rbp.io import folder_beside, swap_in, temporary_folder, write_file, write_json
from rbp.processes import DONE, Task, Tell
from rbp.store import RankStore


def aggregate(stores: Iterable[RankStore]) -> dict[str, pd.DataFrame]:
    """Return the tables of one model's rank stores, one for each dataset, by name: see the module."""
    kinds = {"document": np.int64, "greater": np.int64, "equal": np.int64, "nll": np.float64}
    parts = [store.ranks()[list(kinds)].astype(kinds).assign(dataset=store.dataset) for store in stores]
    ranks = pd.concat(parts, ignore_index=True).assign(tokens=1)

    def sums(by: list[str], added: list[str]) -> pd.DataFrame:
        return ranks.groupby(["dataset", *by], sort=True)[added].sum().reset_index()

    return {
        "counts": sums(["document", "greater", "equal"], ["tokens"]),
        "by_document": sums(["document"], ["tokens", "nll"]),
    }


def jobs(making: Making, runs: Sequence[TrainingRun]) -> list[Task]:
    """Return a job for each finished model of the runs that is not ranked yet."""
    return [
        Task(run.model_name(tokens), rank, (making, run, tokens))
        for run, tokens, record in making.finished(runs)
        if not is_done(making, run.model_name(tokens), record["checksum"])
    ]


def rank(tell: Tell, making: Making, run: TrainingRun, tokens: int) -> None:
    """Rank all documents by one finished model, on one thread; stores that are not kept are temporary. A job."""
    import torch

    from rbp.choices import Settings
    from rbp.models.find import find_model

    torch.set_num_threads(1)
    name, weights = run.model_name(tokens), making.about(run, tokens)["checksum"]
    files = replace(find_model(str(making.model(run, tokens))), name=name)
    settings = Settings(device="cpu", family=run.family.name)
    corpora = [read_corpus(making.place, domain.name) for domain in making.base.domains]
    kept = nullcontext(making.place / "ranks") if keeps_ranks(making, run, tokens) else temporary_folder("rbp-ladder")
    with kept as folder:
        tables = aggregate(stores_of(files, corpora, windows_of(making.base), folder, settings))
    write_tables(making.place / "aggregates" / name, tables, key(making, weights))
    tell(DONE)


def keeps_ranks(making: Making, run: TrainingRun, tokens: int) -> bool:
    """Say whether each token's rank is kept: of seed 0 at the largest budget, but for trials."""
    return run.seed == 0 and run.change == Change() and tokens == making.ladders.training.budgets[-1]


def read_tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Read the tables of a model; numbers as int64 and float64."""
    tables = {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}
    wide = {np.dtype(np.int32): np.int64, np.dtype(np.float32): np.float64}
    return {
        name: table.astype({column: wide.get(kind, kind) for column, kind in table.dtypes.items()})
        for name, table in tables.items()
    }


def key(making: Making, weights: str) -> dict[str, Any]:
    """Return all that determines the tables of a model. weights: their checksum."""
    text_record = read_record(making.place / "text.json")
    texts = {part["name"]: part["fingerprint"] for part in text_record["evaluation"]}
    return {"weights": weights, "texts": texts, "windows": windows_of(making.base).as_dict()}


def is_done(making: Making, name: str, weights: str) -> bool:
    """Say whether the tables of a model are there, made with these weights; they are written after its rank stores."""
    return read_record(making.place / "aggregates" / name / "about.json") == key(making, weights)


def write_tables(folder: Path, tables: dict[str, pd.DataFrame], record: dict[str, Any]) -> None:
    """Write a model's folder, with its tables and `key`."""
    with folder_beside(folder) as new:
        for name, table in tables.items():
            write_table(new / f"{name}.parquet", table)
        write_json(new / "about.json", record)
        swap_in(new, folder)


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write counts and sums in 32 bits: sums have seven digits, and bytes, most of which are alike, lie together."""
    codes = [column for column in ("model", "dataset", "equal") if column in table]  # of few different values
    numbers = {
        c: np.int32 if table[c].dtype.kind == "i" else np.float32 for c in table if c not in ("model", "dataset")
    }
    split = {column: "BYTE_STREAM_SPLIT" for column in numbers if column not in codes}
    small: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": codes}
    data = io.BytesIO()
    table.astype(numbers).to_parquet(data, index=False, column_encoding=split, **small)
    write_file(path, data.getvalue())
