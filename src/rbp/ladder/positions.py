"""How well a model ranks by a token's position in its window: sums for data/ladder/positions.parquet.

The rank stores cannot tell. In them whole documents are ranked, in windows that overlap, so the first half of a window
is scored at the beginning of documents alone. Here a text is one stream, as in training: its documents in their order,
the end of a text before each; it is cut into windows as long as the models read, whole ones only, and every token but
the first of a window is ranked, with as many tokens before it as its position says. (The end of a text is not.)
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet

from rbp.core import provenance
from rbp.core.arrays import Integers
from rbp.core.errors import DataError
from rbp.core.files import label, write_file
from rbp.core.processes import DONE, Task, Tell
from rbp.evidence.counts import count_hits
from rbp.evidence.shipped import models
from rbp.ladder.measuring import measure
from rbp.ladder.paths import LADDER
from rbp.ladder.ranking import evaluation_documents
from rbp.ranks.protocols import Row

FILE = "positions.parquet"
KS = (1, 10, 100)
WINDOW = 256  # tokens that the models read at once
UNITS = 64  # stretches of whole documents that intervals leave out in turn, at most
COLUMNS = ["model", "dataset", "unit", "first", "last", "tokens", "positions", *(f"hits_{k}" for k in KS), "nll"]


def edges(window: int) -> Integers:
    """The first positions of the bins, and the end: each holds what is nearest to a power of 2, by ratio."""
    powers = 2 ** np.arange(int(np.log2(window)) + 1)
    first = np.ceil(powers / np.sqrt(2)).astype(np.int64)
    return np.append(first[first < window], window)


def stream_rows(documents: Sequence[Sequence[int]], end: int, window: int) -> tuple[list[Row], Integers]:
    """Whole windows of a stream of documents, and the document of each of the stream's tokens.

    A row's `document` is the number of its window, its `start` the place of its first token in the stream.
    """
    whole = [token for ids in documents for token in (end, *ids)]
    stream = np.array(whole, dtype=np.int64)
    of = np.repeat(np.arange(len(documents)), [1 + len(ids) for ids in documents])
    rows = []
    for number in range(len(stream) // window):
        ids = stream[number * window : (number + 1) * window]
        rows.append(Row(number, number * window, ids, np.flatnonzero(ids[1:] != end) + 1))
    return rows, of


def sums(model: Any, rows: Sequence[Row], of: Integers, window: int, ks: Sequence[int] = KS) -> pd.DataFrame:
    """What a model makes of the rows, by unit and bin: COLUMNS but model and dataset.

    first, last: positions of the bin; positions: the sum of ln position over its tokens; nll: of −ln p, nats. Units
    are stretches of documents of about as many tokens.
    """
    found = measure(model, rows)
    position = np.concatenate([row.scored for row in rows])
    place = np.concatenate([row.start + row.scored for row in rows])
    starts = np.flatnonzero(np.diff(of, prepend=-1))  # each document's first token in the stream
    unit = starts[of[place]] * min(UNITS, len(starts)) // len(of)
    bounds = edges(window)
    bins = np.searchsorted(bounds, position, side="right") - 1
    number = len(bounds) - 1
    cell = (unit * number + bins).astype(np.int64)
    hits = count_hits(found.greater + found.equal, cell, int(cell.max()) + 1, list(ks))
    table = pd.DataFrame({"cell": np.arange(len(hits)), "tokens": np.bincount(cell)})
    table["positions"], table["nll"] = np.bincount(cell, np.log(position)), np.bincount(cell, found.nll)
    table[[f"hits_{k}" for k in ks]] = hits
    table = table[table["tokens"] > 0]
    at = table["cell"] % number
    return table.assign(unit=table["cell"] // number, first=bounds[at], last=bounds[at + 1] - 1).drop(columns="cell")


def jobs(families: Sequence[str], out: Path, folder: Path = LADDER) -> list[Task]:
    """Those shipped models (of seed 0, at the largest budget) whose sums are not in `out` yet."""
    about = models(families, folder=folder)
    last = about["budget"] == about.groupby("family")["budget"].transform("max")
    chosen = about[last & (about["seed"] == 0)]
    each = zip(chosen["model"], chosen["family"], strict=True)
    return [Task(name, _run, (name, family, out, folder)) for name, family in each if not _path(out, name).is_file()]


def _path(out: Path, name: str) -> Path:
    return out / f"{name}.parquet"


def _run(told: Tell, name: str, family: str, out: Path, folder: Path) -> None:
    """Rank the streams of all texts by a shipped model. A job."""
    import torch

    from rbp.ladder.architectures import by_matrices
    from rbp.ranks.extraction import quiet
    from rbp.ranks.models import find_model, load_model, load_tokenizer

    torch.set_num_threads(1)
    files = find_model(str(folder / "families" / family / name))
    with quiet():
        model, tokenizer = by_matrices(load_model(files, "float32", torch.device("cpu")).model), load_tokenizer(files)
    parts = []
    for domain in pd.read_csv(folder / "documents.csv")["domain"].unique():
        told(domain)
        texts = [document.text for document in evaluation_documents(domain, folder)]
        ids = tokenizer(texts, verbose=False)["input_ids"]
        rows, of = stream_rows(ids, tokenizer.eos_token_id, WINDOW)
        parts.append(sums(model, rows, of, WINDOW).assign(model=name, dataset=domain))
    _write(_path(out, name), pd.concat(parts, ignore_index=True))
    told(DONE)


def _write(path: Path, table: pd.DataFrame) -> None:
    data = io.BytesIO()
    numbers = {column: np.int32 if table[column].dtype.kind == "i" else np.float32 for column in COLUMNS[2:]}
    table[COLUMNS].astype(numbers).to_parquet(data, index=False, compression="zstd", compression_level=19)
    write_file(path, data.getvalue())


def gather(out: Path, to: Path) -> None:
    """Put the sums of all models that are in `out` into one file."""
    _write(to, pd.concat([pd.read_parquet(path) for path in sorted(out.glob("*.parquet"))], ignore_index=True))


def read(folder: Path = LADDER) -> pd.DataFrame:
    """The sums: COLUMNS. Raises DataError for a missing or damaged file."""
    path = folder / FILE
    try:
        table: pd.DataFrame = parquet.read_table(path, columns=COLUMNS).to_pandas()
    except (OSError, arrow.ArrowException) as error:
        what = f"cannot read the file: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(
            what, label(path), "Restore it: git checkout -- data/ladder; or: rbp ladder positions."
        ) from None
    provenance.note(path)
    return table
