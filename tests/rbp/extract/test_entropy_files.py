from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from rbp.errors import DataError
from rbp.extract.entropies import ENTROPY, RESOLUTION, TEMPERATURES, Entropies, has_entropies, write_entropies
from rbp.extract.store import RankStore, open_store
from rbp.measurements import open_source

LENGTHS = [5, 1, 9]


def written(folder: Path) -> tuple[RankStore, np.ndarray, np.ndarray, np.ndarray]:
    """A store with both files, and what they were made of: documents, entropies, −ln p by temperature."""
    rng = np.random.default_rng(0)
    store = make_store(folder / "one", rng.integers(0, 100, sum(LENGTHS)), LENGTHS, nll=1.5)
    document = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    nll = rng.uniform(0, 4, (sum(LENGTHS), len(TEMPERATURES)))
    nll[:, TEMPERATURES.index(1.0)] = 1.5
    entropy = rng.uniform(0, np.log(100), sum(LENGTHS))
    write_entropies(store, entropy, document, nll)
    return store, document, entropy, nll


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store, document, entropy, nll = written(tmp_path)
    assert has_entropies(store.folder)
    found = Entropies(store)
    assert np.abs(found.entropy - entropy).max() <= 0.5 / RESOLUTION
    assert list(found.temperatures.columns) == list(TEMPERATURES)
    for place, rows in found.temperatures.iterrows():
        np.testing.assert_allclose(rows, nll[document == place].sum(0), rtol=1e-6)


def test_the_store_is_the_same_with_them_and_its_source_has_them(tmp_path: Path) -> None:
    store, *_ = written(tmp_path)
    assert open_store(store.folder).manifest == store.manifest
    assert open_store(store.folder).problems() == []
    assert open_source(store.folder).stores == [store]
    make_store(tmp_path / "two", [0, 1], [2], model="two")
    assert [one.store for one in open_source(tmp_path).entropies] == [store]
    for lacking in (tmp_path / "two", "published"):
        with pytest.raises(DataError, match="has no entropies of predictions"):
            _ = open_source(lacking).entropies


def test_those_of_another_model_or_text_are_refused(tmp_path: Path) -> None:
    store, document, entropy, nll = written(tmp_path)
    for given, message in (
        ((entropy, document, nll * 1.001), "of another model or text"),
        ((entropy, np.minimum(document, 1), nll), "of another model or text"),
        ((entropy[:-1], document, nll), "not the entropies of the store's tokens"),
        ((entropy + 5, document, nll), "not the entropies of the store's tokens"),
    ):
        with pytest.raises(DataError, match=message):
            write_entropies(store, *given)
    other = make_store(tmp_path / "other", np.zeros(sum(LENGTHS), dtype=int), LENGTHS, nll=2.0, model="other")
    for path in store.folder.glob("*.parquet"):
        (other.folder / path.name).write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="of another model or text"):
        _ = Entropies(other).temperatures


@pytest.mark.parametrize(
    ("columns", "cut", "message"),
    [
        ({"entropy": np.zeros(3, dtype=np.float16)}, None, "not the entropies of the store's tokens"),
        ({"entropy": np.zeros(3, dtype=np.float16)}, -9, "cannot be read"),
        ({"other": [1.0]}, None, "cannot be read"),
    ],
    ids=["too few", "cut short", "another column"],
)
def test_damaged_files_are_said(columns: dict[str, Any], cut: int | None, message: str, tmp_path: Path) -> None:
    store, *_ = written(tmp_path)
    path = store.folder / ENTROPY
    pd.DataFrame(columns).to_parquet(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=message):
        _ = Entropies(store).entropy
