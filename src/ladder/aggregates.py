"""Rank by every model of the families, and keep what the law needs: of most models not each token's rank, but sums.

aggregates/NAME/ holds, of one model on all documents that are ranked,

    counts.parquet       dataset, document, greater, equal: how many tokens have this rank
    by_document.parquet  dataset, document: tokens, nll, entropy (sums, nats, in single precision; of the model's
                         prediction at each token)
    about.json           the weights, and what was ranked

Of the models of seed 0 at the largest budget each token's rank is kept as well, in a rank store in ranks/, and in the
store's folder the entropies and temperatures of `rbp.extract.entropies`.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder.making import Line, Making
from ladder.measuring import Measured, measure
from ladder.ranking import read_corpus, store_of, windows
from ladder.recipe import Change
from ladder.shipped import TABLES
from rbp.extract.entropies import TEMPERATURES, has_entropies, write_entropies
from rbp.extract.protocol import plan_rows
from rbp.io import folder_beside, swap_in, write_file, write_json
from rbp.processes import DONE, Task, Tell

_SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": ["dataset", "equal"]}


def aggregate(found: dict[str, Measured]) -> dict[str, pd.DataFrame]:
    """The tables of what was measured on each dataset, by name: see the module."""
    columns = [column for column in Measured._fields if column != "tempered"]
    parts = [
        pd.DataFrame({"dataset": name, **{column: getattr(measured, column) for column in columns}})
        for name, measured in found.items()
    ]
    whole = pd.concat(parts, ignore_index=True).assign(tokens=1)

    def sums(by: list[str], added: list[str]) -> pd.DataFrame:
        return whole.groupby(["dataset", *by], sort=True)[added].sum().reset_index()

    return {
        "counts": sums(["document", "greater", "equal"], ["tokens"]),
        "by_document": sums(["document"], ["tokens", "nll", "entropy"]),
    }


def jobs(making: Making, lines: Sequence[Line]) -> list[Task]:
    """Those finished models of the lines that are not ranked yet."""
    return [
        Task(line.at(tokens), rank, (making, line, tokens))
        for line, tokens, about in making.finished(lines)
        if not is_done(making, line.at(tokens), about["checksum"], ranks=keeps_ranks(making, line, tokens))
    ]


def rank(told: Tell, making: Making, line: Line, tokens: int) -> None:
    """Rank all documents by one finished model, on one thread. A job."""
    weights, keep = making.about(line, tokens)["checksum"], keeps_ranks(making, line, tokens)
    rank_by(told, making, making.model(line, tokens), line.at(tokens), line.family.name, weights, ranks=keep)


def rank_by(told: Tell, making: Making, folder: Path, name: str, family: str, weights: str, *, ranks: bool) -> None:
    """Rank all documents by the model in a folder, whose weights have this checksum; ranks: keep each token's too."""
    import torch

    from rbp.extract.extraction import Settings, quiet
    from rbp.extract.models import find_model, load_model, load_tokenizer

    torch.set_num_threads(1)
    files = replace(find_model(str(folder)), name=name)
    settings = Settings(device="cpu", family=family)
    with quiet():
        model = load_model(files, "float32", torch.device("cpu")).model
        tokenizer = load_tokenizer(files)
    found = {}
    for domain in making.base.domains:
        told(domain.name)
        corpus = read_corpus(making.place, domain.name)
        rows = plan_rows(corpus, tokenizer, windows(making.base)).rows
        if ranks:
            store = store_of(files, corpus, windows(making.base), making.place / "ranks", settings)
            one = found[domain.name] = measure(model, rows, TEMPERATURES)
            write_entropies(store, one.entropy, one.document, one.tempered)
        else:
            found[domain.name] = measure(model, rows)
    write(making.place / "aggregates" / name, aggregate(found), key(making, weights))
    told(DONE)


def keeps_ranks(making: Making, line: Line, tokens: int) -> bool:
    """Whether each token's rank is kept: of seed 0 at the largest budget, but for trials."""
    return line.seed == 0 and line.change == Change() and tokens == making.ladders.training.budgets[-1]


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of a model; numbers as int64 and float64."""
    tables = {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}
    wide = {np.dtype(np.int32): np.int64, np.dtype(np.float32): np.float64}
    return {
        name: table.astype({column: wide.get(kind, kind) for column, kind in table.dtypes.items()})
        for name, table in tables.items()
    }


def key(making: Making, weights: str) -> dict[str, Any]:
    """All that determines the tables of a model. weights: their checksum."""
    about = json.loads((making.place / "text.json").read_bytes())
    texts = {part["name"]: part["fingerprint"] for part in about["evaluation"]}
    return {"weights": weights, "texts": texts, "windows": windows(making.base).as_dict()}


def is_done(making: Making, name: str, weights: str, *, ranks: bool) -> bool:
    """Whether the tables of a model are there, made with these weights; ranks: and its rank stores are whole."""
    try:
        about = json.loads((making.place / "aggregates" / name / "about.json").read_bytes())
    except (OSError, ValueError):
        return False
    if about != key(making, weights):
        return False
    own = (making.place / "ranks").glob(f"{name}-*/manifest.json") if ranks else ()
    return all(has_entropies(path.parent) for path in own)


def write(folder: Path, tables: dict[str, pd.DataFrame], about: dict[str, Any]) -> None:
    """Write a model's folder: its tables, and `key`."""
    with folder_beside(folder) as new:
        for name, table in tables.items():
            # sums to seven digits; split into bytes, most of which are alike, a table is a third smaller
            numbers = {c: np.int32 if table[c].dtype == np.int64 else np.float32 for c in table if c != "dataset"}
            encoding = {c: "BYTE_STREAM_SPLIT" for c in numbers if c != "equal"}
            data = io.BytesIO()
            table.astype(numbers).to_parquet(data, index=False, column_encoding=encoding, **_SMALL)
            write_file(new / f"{name}.parquet", data.getvalue())
        write_json(new / "about.json", about)
        swap_in(new, folder)
