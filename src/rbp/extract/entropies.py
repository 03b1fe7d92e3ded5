"""What may lie beside a store's ranks: how sure the model was at each token, and how it fares at other temperatures.

entropy.parquet       entropy: of the model's prediction at each token (nats), a row for each of `RankStore.ranks`;
                      half precision, rounded to 1/RESOLUTION nat, which makes the file a third smaller
temperatures.parquet  document, temperature, nll: the sum of −ln p over the document's tokens (nats, single precision)
                      with all logits divided by the temperature

A store needs neither, its digest does not know of them, and a program that does not look for them does not see them.
"""

import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp import provenance
from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.extract.store import RankStore, full_disk
from rbp.io import write_file

#: dense where the best temperatures of language models lie, and wide enough to see the curve's shape
TEMPERATURES = (0.5, 0.7, 0.85, 1.0, 1.15, 1.35, 1.6, 2.0)
RESOLUTION = 32
ENTROPY, BY_TEMPERATURE = "entropy.parquet", "temperatures.parquet"
REMEDY = "Restore it: git checkout -- data/ladder; or remove it, and make it again: rbp ladder rank."

_SMALL: dict[str, Any] = {"index": False, "compression": "zstd", "compression_level": 19}
_NEAR = 1e-4  # of a document's sum: two programs' sums of the same model differ by less


def has_entropies(folder: Path) -> bool:
    """Whether both files are in a store's folder."""
    return all((folder / name).is_file() for name in (ENTROPY, BY_TEMPERATURE))


def write_entropies(store: RankStore, entropy: npt.ArrayLike, document: npt.ArrayLike, nll: npt.ArrayLike) -> None:
    """Write both files into the store's folder.

    entropy, document: shape (tokens,), in the order of `RankStore.ranks`; nll: shape (tokens, TEMPERATURES). Raises
    DataError if nll at temperature 1 is not the store's, or entropy not possible: it is of another model or text.
    """
    values = np.asarray(nll, dtype=np.float64)
    sums = pd.DataFrame(values, columns=list(TEMPERATURES)).groupby(np.asarray(document)).sum()
    sums.index.name = "document"
    long = sums.melt(var_name="temperature", value_name="nll", ignore_index=False).reset_index()
    _check(store, long, store.folder)
    _check_entropy(store, np.asarray(entropy), store.folder)
    rounded = np.round(np.asarray(entropy, dtype=np.float64) * RESOLUTION) / RESOLUTION
    small = {"document": np.int32, "temperature": np.float32, "nll": np.float32}
    with full_disk(store.folder):
        _put(store.folder / ENTROPY, pd.DataFrame({"entropy": rounded.astype(np.float16)}))
        _put(store.folder / BY_TEMPERATURE, long.astype(small), use_dictionary=["document", "temperature"])


@dataclass(frozen=True)
class Entropies:
    """The two files of a store that has them. Reading raises DataError for a file that is damaged, or not its own."""

    store: RankStore

    @cached_property
    def entropy(self) -> Reals:
        """The entropy of the prediction at each token of `RankStore.ranks` (nats), shape (tokens,)."""
        path = self.store.folder / ENTROPY
        values: Reals = _read(path, "entropy")["entropy"].to_numpy(np.float64)
        _check_entropy(self.store, values, path)
        return values

    @cached_property
    def temperatures(self) -> pd.DataFrame:
        """Σ −ln p (nats) of each document at each temperature: index document, a column for each of TEMPERATURES."""
        path = self.store.folder / BY_TEMPERATURE
        long = _read(path, "document", "temperature", "nll").astype({"document": np.int64, "nll": np.float64})
        long["temperature"] = long["temperature"].astype(np.float64).round(6)
        _check(self.store, long, path)
        return long.pivot_table(index="document", columns="temperature", values="nll")


def _check(store: RankStore, long: pd.DataFrame, where: Path) -> None:
    ranks = store.ranks()
    own = ranks["nll"].astype(np.float64).groupby(ranks["document"]).sum()
    found = long[long["temperature"] == 1.0].set_index("document")["nll"]
    same = own.index.equals(found.index) and np.allclose(found, own, rtol=_NEAR, atol=_NEAR)
    if not same or sorted(set(long["temperature"])) != list(TEMPERATURES):
        raise DataError("these are of another model or text than the store's ranks", str(where), REMEDY)


def _check_entropy(store: RankStore, values: npt.NDArray[Any], where: Path) -> None:
    most = np.log(store.vocabulary) + 1 / RESOLUTION
    if len(values) != store.tokens or not ((values >= -1 / RESOLUTION) & (values <= most)).all():
        raise DataError("these are not the entropies of the store's tokens", str(where), REMEDY)


def _read(path: Path, *columns: str) -> pd.DataFrame:
    try:
        table = pd.read_parquet(path, columns=list(columns))
    except (OSError, ValueError):  # pyarrow's errors are of these kinds
        raise DataError("the file cannot be read", str(path), REMEDY) from None
    provenance.note(path)
    return table


def _put(path: Path, table: pd.DataFrame, **options: Any) -> None:
    data = io.BytesIO()
    table.to_parquet(data, **_SMALL, **options)
    write_file(path, data.getvalue())
