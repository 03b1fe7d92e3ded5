"""Rank by every model of the grid, and keep what the law needs: of most models not each token's rank, but sums.

aggregates/NAME/ holds, of one model on all documents that are ranked,

    counts.parquet       dataset, document, greater, equal: how many tokens have this rank
    by_rank.parquet      dataset, greater, equal: tokens, nll (their sum, nats)
    by_document.parquet  dataset, document: tokens, nll, entropy (sums, nats; of the model's prediction at each token)
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

from rbp.extraction.protocols import Row, plan
from rbp.files import folder_beside, swap_in, write_file, write_json
from rbp.ladder.grid import Grid, Line
from rbp.ladder.jobs import DONE, Job, Told
from rbp.ladder.ranks import read_corpus, store_of, windows

BATCH = 16  # rows of one width that a model reads at once
TABLES = ("counts", "by_rank", "by_document")


class Measured(NamedTuple):
    """Of each scored token: its document, greater and equal (int64, see `rbp.metric`), nll and entropy (nats)."""

    document: npt.NDArray[np.int64]
    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float64]
    entropy: npt.NDArray[np.float64]


def measure(model: Any, rows: Sequence[Row]) -> Measured:
    """Ranks by the model's own logits, and the entropy of its prediction, of all scored tokens in order.

    Rows of one width are read together, padded at the end, which a causal model does not see. Raises RankError where
    a logit is NaN or +inf.
    """
    import torch

    from rbp.extraction.head import rank_logits

    found: dict[int, tuple[npt.NDArray[Any], ...]] = {}
    order = sorted(range(len(rows)), key=lambda i: rows[i].width)
    while order:
        width = rows[order[0]].width
        some = [i for i in order[:BATCH] if rows[i].width == width]
        order = order[len(some) :]
        ids = np.zeros((len(some), width), dtype=np.int64)
        for line, i in zip(ids, some, strict=True):
            line[: len(rows[i].ids)] = rows[i].ids
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids), use_cache=False).logits
            for own, i in zip(logits, some, strict=True):
                scored = torch.from_numpy(rows[i].scored)
                mine = own[scored - 1].float()
                ranks = rank_logits(mine, torch.from_numpy(rows[i].ids)[scored])
                chances = mine.log_softmax(1)
                entropy = -(chances.exp() * chances).sum(1, dtype=torch.float64)
                found[i] = (ranks.greater.numpy(), ranks.equal.numpy(), ranks.nll.double().numpy(), entropy.numpy())
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


def jobs(grid: Grid, lines: Sequence[Line]) -> list[Job]:
    """Those finished models of the lines that are not ranked yet."""
    names = {line.name for line in lines}
    there = [(line, tokens) for line, tokens, _ in grid.finished() if line.name in names]
    return [Job(line.at(tokens), rank, (grid, line, tokens)) for line, tokens in there if not _done(grid, line, tokens)]


def rank(told: Told, grid: Grid, line: Line, tokens: int) -> None:
    """Rank all documents by one finished model, on one thread. A job."""
    import torch

    from rbp.extraction.about import quiet
    from rbp.extraction.models import find_model, load_model, load_tokenizer
    from rbp.extraction.run import Settings

    torch.set_num_threads(1)
    files = replace(find_model(str(grid.model(line, tokens))), name=line.at(tokens))
    settings = Settings(device="cpu", family=line.family.name)
    with quiet():
        model, tokenizer = load_model(files, "float32", torch.device("cpu")).model, load_tokenizer(files)
    found = {}
    for domain in grid.base.domains:
        told(domain.name)
        corpus = read_corpus(grid.place, domain.name)
        if keeps_ranks(grid, line, tokens):
            store_of(files, corpus, windows(grid.base), grid.place / "ranks", settings)
        found[domain.name] = measure(model, plan(corpus, tokenizer, windows(grid.base)).rows)
    _write(grid.place / "aggregates" / line.at(tokens), aggregate(found), _key(grid, line, tokens))
    told(DONE)


def keeps_ranks(grid: Grid, line: Line, tokens: int) -> bool:
    """Whether each token's rank is kept: of seed 0 at the largest budget."""
    return line.seed == 0 and tokens == grid.ladders.training.budgets[-1]


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of a model."""
    return {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}


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
            data = io.BytesIO()
            table.to_parquet(data, index=False, compression="zstd", compression_level=15)
            write_file(new / f"{name}.parquet", data.getvalue())
        write_json(new / "about.json", key)
        swap_in(new, folder)
