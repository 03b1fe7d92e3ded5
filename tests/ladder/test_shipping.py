"""What is shipped of a ladder: models, ranks, sums and records, and how they are read."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ladder import shipped
from ladder.shipping import RESOLUTION, read_token_counts, ship
from rbp.errors import DataError
from rbp.measurements import sources
from rbp.store import open_store, store_folders

LAST = "at-0.00256m"
#: the models of seed 0 at the largest budget
KEPT = {"neox": [f"neox-{rung}-{LAST}" for rung in ("narrow", "wide")], "lstm": [f"lstm-narrow-{LAST}"]}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("family", KEPT)
def test_the_models_kept_are_those_of_seed_0_at_the_largest_budget(workshop, family):
    making, folder = workshop
    assert sorted(path.name for path in (folder / "families" / family).iterdir()) == KEPT[family]
    stores = [open_store(path) for path in store_folders([folder / "families-ranks" / family])]
    assert sorted({store.model for store in stores}) == KEPT[family]
    for store in stores:
        before = open_store(making.place / "ranks" / store.folder.name)
        assert store.manifest["key"] == before.manifest["key"]
        shipped_ranks, other, beside = store.ranks(), before.ranks(), ["nll", "top"]
        np.testing.assert_array_equal(shipped_ranks.drop(columns=beside), other.drop(columns=beside))
        np.testing.assert_allclose(shipped_ranks["nll"], other["nll"], atol=0.51 / RESOLUTION)


def test_shipping_again_changes_nothing_and_families_of_another_text_are_refused(workshop, tmp_path):
    making, folder = workshop
    counts = Counter(making.place.rows(making.base)[: 2_560 // 32].ravel().tolist())  # of the largest budget
    assert read_token_counts(folder).tolist() == [counts[token] for token in range(280)]
    own = shutil.copytree(folder, tmp_path / "shipped")
    assert ship(making, ["lstm"], own) == {"lstm": [f"lstm-narrow-{LAST}-seed{seed}" for seed in (1, 2)]}
    assert contents(own) == contents(folder)
    (own / "text.json").write_text("{}")
    with pytest.raises(DataError, match="of another text"):
        ship(making, ["neox"], own)
    assert contents(own) == contents(folder) | {Path("text.json"): b"{}"}


def test_each_family_has_a_door(workshop, tmp_path, monkeypatch):
    _, folder = workshop
    monkeypatch.setattr(shipped, "LADDER", tmp_path)
    with pytest.raises(DataError, match="the family lstm is not shipped"):
        _ = sources.open_source("ladder:lstm").table
    monkeypatch.setattr(shipped, "LADDER", folder)
    ladders = [word for word in sources.available_sources() if word.startswith("ladder")]
    assert ladders == ["ladder", "ladder:lstm", "ladder:all"]
    neox, lstm, every = map(sources.open_source, ladders)
    assert set(neox.table["model"]) == set(KEPT["neox"])
    assert set(lstm.table["model"]) == set(KEPT["lstm"])
    times = ("", " at 0.00064 M", " at 0.00128 M")
    assert set(every.table["family"]) == {f"{family}{time}" for family in KEPT for time in times}
