"""Shards and merges: whatever the partition, the order and what is lost in between, the store is the same."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from made_studies import parts

from rbp.core.errors import DataError
from rbp.core.paths import LADDER, ROOT
from rbp.ranks.store import Store, open_store
from rbp.study import tasks
from rbp.study.config import Study, read_study
from rbp.study.jobs import freshen, merge_job, model_label, progress, shards_of, state


def measure(study: Study, order: random.Random | None = None) -> None:
    """All shards of a study that are not done, and its merges, in this process."""
    for cell in study.cells:
        jobs = [job for job in shards_of(study, cell) if not (study.out / job.output).exists()]
        if order:
            order.shuffle(jobs)
        for job in jobs:
            tasks._shard(study, cell, job, "cpu")
        if not (study.out / merge_job(cell).output).exists():
            tasks._merge(study, cell)


@pytest.mark.parametrize("shards", [1, 5, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 3, 12, 20))])
def test_any_partition_gives_the_same_store(
    shards: int, write_study: Callable[..., Path], whole_store: dict[str, bytes]
) -> None:
    study = read_study(write_study(shards=shards))
    measure(study, random.Random(shards))  # noqa: S311
    assert parts(study.ranks) == whole_store
    (folder,) = study.ranks.iterdir()
    assert set(open_store(folder).manifest["parts"]) == set(whole_store)
    assert progress(study, study.cells[0]).whole


def test_shards_of_two_partitions_add_up(write_study: Callable[..., Path], whole_store: dict[str, bytes]) -> None:
    """A study goes on with other shards than it began with, and repeats nothing."""
    first = read_study(write_study(shards=3))
    tasks._shard(first, first.cells[0], shards_of(first, first.cells[0])[1], "cpu")
    before = {path: path.stat().st_mtime_ns for path in first.ranks.glob("*/parts/*")}
    assert 0 < len(before) < len(whole_store)
    second = read_study(write_study(shards=2))
    measure(second)
    assert parts(second.ranks) == whole_store
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_what_is_damaged_is_found_and_measured_again(study: Study, whole_store: dict[str, bytes]) -> None:
    measure(study)
    assert freshen(study) == []
    part = sorted(study.ranks.glob("*/parts/*"))[2]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    (cell,) = study.cells
    lines = freshen(study)
    assert len(lines) == 2  # the store's, and that of the one shard that the part belongs to
    assert "shard 1-of-2" in lines[1]
    kept = [(study.out / job.output).exists() for job in shards_of(study, cell)]
    assert kept == [False, True]
    measure(study)
    assert parts(study.ranks) == whole_store
    assert freshen(study) == []


def test_a_missing_part_never_makes_a_whole_store(study: Study) -> None:
    (cell,) = study.cells
    for job in shards_of(study, cell):
        tasks._shard(study, cell, job, "cpu")
    sorted(study.ranks.glob("*/parts/*"))[3].unlink()
    with pytest.raises(DataError, match="pack 3 is missing or damaged"):
        tasks._merge(study, cell)
    assert not (study.out / merge_job(cell).output).exists()
    assert not any((study.out / job.output).exists() for job in shards_of(study, cell))  # they are looked at again
    (folder,) = study.ranks.iterdir()
    with pytest.raises(DataError):
        Store(folder).finish({})


def test_other_weights_are_another_measurement(study: Study, tmp_path: Path) -> None:
    import shutil

    model = tmp_path / "model"
    shutil.copytree(study.models[0].name, model)
    shutil.copytree(LADDER / "tokenizer", model, dirs_exist_ok=True)
    path = tmp_path / "copied.toml"
    text = study.path.read_text().replace(str(study.models[0].name), str(model))
    path.write_text(text.replace(str(study.out), str(tmp_path / "copied")))
    copied = read_study(path)
    measure(copied)
    assert freshen(copied) == []
    weights = model / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert len(freshen(copied)) == 3  # the store, and both shards
    measure(copied)
    assert len(list(copied.ranks.iterdir())) == 2


def test_a_merge_before_its_shards_says_so(study: Study) -> None:
    with pytest.raises(DataError, match="is not done yet"):
        tasks._merge(study, study.cells[0])


def test_a_new_study_has_everything_left(study: Study) -> None:
    assert {state(study, job).stand for job in shards_of(study, study.cells[0])} == {"left"}


@pytest.mark.builds
def test_the_ladders_study_asks_for_the_ranks_that_are_shipped(tmp_path: Path) -> None:
    """Its cells by their names, and one with all that determines ranks: weights, text, tokenizer, protocol, dtype."""
    study = replace(read_study(ROOT / "studies" / "ladder.toml"), out=tmp_path)
    names = {f"{model_label(cell)}-{cell.corpus.name.removeprefix('ladder/')}": cell for cell in study.cells}
    shipped = sorted((ROOT / "data" / "ladder" / "families-ranks" / "neox").iterdir())
    ranked = {folder.name.rsplit("-", 1)[0] for folder in shipped}
    assert set(names) == ranked
    cell = names["neox-10k-at-8m-humaneval"]
    tasks._shard(study, cell, shards_of(study, cell)[0], "cpu")
    (folder,) = study.ranks.iterdir()
    (same,) = (store for store in shipped if store.name.startswith("neox-10k-at-8m-humaneval-"))
    assert folder.name.rsplit("-", 1)[1] == same.name.rsplit("-", 1)[1]
