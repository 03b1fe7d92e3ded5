"""Rank by every model of the grid, and keep what the law needs: of most models not each token's rank, but sums.

aggregates/NAME/ holds, of one model on all documents that are ranked,

    counts.parquet       dataset, document, greater, equal: how many tokens have this rank
    by_rank.parquet      dataset, greater, equal: tokens, nll (their sum, nats, in single precision)
    by_document.parquet  dataset, document: tokens, nll, entropy (likewise; of the model's prediction at each token)
    about.json           the weights, and what was ranked

Of the models of seed 0 at the largest budget `rbp.extraction` writes each token's rank as well, into ranks/.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.errors import DataError
from rbp.core.files import folder_beside, swap_in, write_file, write_json
from rbp.core.processes import DONE, Task, Tell
from rbp.ladder.grid import Grid, Line
from rbp.ladder.ranking import read_corpus, store_of, windows
from rbp.ranks.protocols import Row, plan_rows

BATCH, STEP = 16, 64  # rows of one width that a model reads at once; widths are multiples of this
TABLES = ("counts", "by_rank", "by_document")
_SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": ["dataset", "equal"]}


class Measured(NamedTuple):
    """Of each scored token: its document, greater and equal (int64, see `rbp.ranks.metric`), nll and entropy (nats)."""

    document: npt.NDArray[np.int64]
    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float64]
    entropy: npt.NDArray[np.float64]


def measure(model: Any, rows: Sequence[Row]) -> Measured:
    """Ranks by the model's logits, and the entropy of its prediction, of all scored tokens in order.

    model: one of `architectures`, whose output layer is a matrix. Rows of one width are read together, padded at the
    end, which a causal model does not see. Raises DataError where a logit is NaN or infinite.
    """
    import torch

    head, found = model.get_output_embeddings(), dict[int, tuple[npt.NDArray[Any], ...]]()
    widths = [-(-len(row.ids) // STEP) * STEP for row in rows]
    order = sorted(range(len(rows)), key=lambda i: widths[i])
    while order:
        width = widths[order[0]]
        some = [i for i in order[:BATCH] if widths[i] == width]
        order = order[len(some) :]
        ids = np.zeros((len(some), width), dtype=np.int64)
        for line, i in zip(ids, some, strict=True):
            line[: len(rows[i].ids)] = rows[i].ids
        with torch.inference_mode():
            hidden = model.base_model(input_ids=torch.from_numpy(ids), use_cache=False)[0]
            for states, i in zip(hidden, some, strict=True):  # the logits of a row stay in the cache
                scored = torch.from_numpy(rows[i].scored)
                logits = head(states[scored - 1])
                target = logits.gather(1, torch.from_numpy(rows[i].ids)[scored, None])
                greater, equal = (logits > target).sum(1), (logits == target).sum(1)
                highest = logits.amax(1, keepdim=True)
                weights = logits.sub_(highest).exp()
                total = weights.sum(1, dtype=torch.float64)
                nll = total.log() - (target - highest)[:, 0]
                entropy = total.log() - weights.mul_(logits).sum(1, dtype=torch.float64) / total
                if not entropy.isfinite().all():
                    what = "a logit is NaN or infinite"
                    raise DataError(what, f"document {rows[i].document}", "Check the weights.")
                found[i] = tuple(each.numpy() for each in (greater, equal, nll, entropy))
    document = np.concatenate([np.full(len(row.scored), row.document) for row in rows])
    return Measured(document, *(np.concatenate([found[i][n] for i in range(len(rows))]) for n in range(4)))


def aggregate(found: dict[str, Measured]) -> dict[str, pd.DataFrame]:
    """The tables of what was measured on each dataset, by name: see the module."""
    parts = [pd.DataFrame({"dataset": name, **measured._asdict()}) for name, measured in found.items()]
    whole = pd.concat(parts, ignore_index=True).assign(tokens=1)

    def sums(by: list[str], columns: list[str]) -> pd.DataFrame:
        return whole.groupby(["dataset", *by], sort=True)[columns].sum().reset_index()

    return {
        "counts": sums(["document", "greater", "equal"], ["tokens"]),
        "by_rank": sums(["greater", "equal"], ["tokens", "nll"]),
        "by_document": sums(["document"], ["tokens", "nll", "entropy"]),
    }


def jobs(grid: Grid, lines: Sequence[Line]) -> list[Task]:
    """Those finished models of the lines that are not ranked yet."""
    names = {line.name for line in lines}
    there = [(line, tokens) for line, tokens, _ in grid.finished() if line.name in names]
    return [
        Task(line.at(tokens), rank, (grid, line, tokens)) for line, tokens in there if not _done(grid, line, tokens)
    ]


def rank(told: Tell, grid: Grid, line: Line, tokens: int) -> None:
    """Rank all documents by one finished model, on one thread. A job."""
    import torch

    from rbp.ladder.architectures import by_matrices
    from rbp.ranks.extraction import Settings, quiet
    from rbp.ranks.models import find_model, load_model, load_tokenizer

    torch.set_num_threads(1)
    files = replace(find_model(str(grid.model(line, tokens))), name=line.at(tokens))
    settings = Settings(device="cpu", family=line.family.name)
    with quiet():
        model = by_matrices(load_model(files, "float32", torch.device("cpu")).model)
        tokenizer = load_tokenizer(files)
    found = {}
    for domain in grid.base.domains:
        told(domain.name)
        corpus = read_corpus(grid.place, domain.name)
        if keeps_ranks(grid, line, tokens):
            store_of(files, corpus, windows(grid.base), grid.place / "ranks", settings)
        found[domain.name] = measure(model, plan_rows(corpus, tokenizer, windows(grid.base)).rows)
    _write(grid.place / "aggregates" / line.at(tokens), aggregate(found), _key(grid, line, tokens))
    told(DONE)


def keeps_ranks(grid: Grid, line: Line, tokens: int) -> bool:
    """Whether each token's rank is kept: of seed 0 at the largest budget."""
    return line.seed == 0 and tokens == grid.ladders.training.budgets[-1]


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of a model; numbers as int64 and float64."""
    tables = {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}
    wide = {np.dtype(np.int32): np.int64, np.dtype(np.float32): np.float64}
    return {
        name: table.astype({column: wide.get(kind, kind) for column, kind in table.dtypes.items()})
        for name, table in tables.items()
    }


def _key(grid: Grid, line: Line, tokens: int) -> dict[str, Any]:
    """All that determines the tables."""
    about = json.loads((grid.place / "text.json").read_bytes())
    texts = {part["name"]: part["fingerprint"] for part in about["evaluation"]}
    return {"weights": grid.about(line, tokens)["checksum"], "texts": texts, "windows": windows(grid.base).as_dict()}


def _done(grid: Grid, line: Line, tokens: int) -> bool:
    try:
        about = json.loads((grid.place / "aggregates" / line.at(tokens) / "about.json").read_bytes())
    except (OSError, ValueError):
        return False
    return bool(about == _key(grid, line, tokens))


def _write(folder: Path, tables: dict[str, pd.DataFrame], key: dict[str, Any]) -> None:
    with folder_beside(folder) as new:
        for name, table in tables.items():
            # sums to seven digits; split into bytes, most of which are alike, a table is a third smaller
            numbers = {c: np.int32 if table[c].dtype == np.int64 else np.float32 for c in table if c != "dataset"}
            encoding = {c: "BYTE_STREAM_SPLIT" for c in numbers if c != "equal"}
            data = io.BytesIO()
            table.astype(numbers).to_parquet(data, index=False, column_encoding=encoding, **_SMALL)
            write_file(new / f"{name}.parquet", data.getvalue())
        write_json(new / "about.json", key)
        swap_in(new, folder)
