"""Short shards in one job: what they share, and what becomes of the others when one fails or is killed."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbp.core.errors import DataError
from rbp.core.files import write_json
from rbp.core.paths import Project
from rbp.study import plan, tasks
from rbp.study.config import Cell, Study, read_study
from rbp.study.jobs import Job, all_jobs, bundles_file, shards_of, state
from rbp.study.plan import bundles


def planned(study: Study, monkeypatch: pytest.MonkeyPatch, seconds: float, at_once: int | None = 100) -> list[int]:
    """How many shards each job gets, if every one is planned to take so long."""
    monkeypatch.setattr(plan, "_shard_seconds", lambda *_: seconds)
    found = bundles(study, False, at_once)
    shards = [name for bundle in found.values() for name in bundle["shards"]]
    assert shards == [job.name for job in all_jobs(study) if job.kind == "shard"]  # each once, in order
    limit = 24 * 60 if math.isinf(seconds) else 15 + 3 * seconds / 60
    assert all(bundle["minutes"] >= limit for bundle in found.values())
    return [len(bundle["shards"]) for bundle in found.values()]


@pytest.mark.parametrize(
    ("seconds", "at_once", "each"),
    [
        (5.0, None, [1] * 200),  # no scheduler, no queue to stand in
        (5.0, 100, [12] * 16 + [8]),  # a minute
        (5.0, 8, [25] * 8),  # as many jobs as there may be
        (5.0, 1, [60] * 3 + [20]),  # five minutes at most
        (0.5, 100, [120, 80]),
        (61.0, 100, [2] * 100),
        (301.0, 100, [1] * 200),
        (math.inf, 100, [1] * 200),  # nobody knows how long
    ],
)
def test_shards_share_a_job_by_their_planned_seconds(
    write_study: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, seconds: float, at_once: int, each: list[int]
) -> None:
    assert planned(read_study(write_study(shards=200)), monkeypatch, seconds, at_once) == each


def test_a_job_of_several_shards_asks_for_the_time_of_all_and_the_memory_of_the_largest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.toml"
    file.write_text('models = ["openai-community/gpt2", "facebook/opt-6.7b"]\ncorpora = ["humaneval"]')
    study = read_study(file)
    monkeypatch.setattr(plan, "_shard_seconds", lambda *_: 20.0)
    (bundle,) = bundles(study, True, 100).values()
    assert bundle["cells"] == [cell.name for cell in study.cells]
    assert bundle["minutes"] == 15 + 3 * 40 / 60
    assert bundle["megabytes"] == max(plan.job_memory(study, cell, True) for cell in study.cells)


@pytest.fixture
def bundle(
    write_study: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> tuple[Study, list[int], dict[int, Any]]:
    """A study of five shards in one job; the shards that were worked on, in order; and errors to raise, by shard."""
    study = read_study(write_study(shards=5))
    done: list[int] = []
    errors: dict[int, BaseException] = {}

    def shard(study: Study, cell: Cell, job: Job, device: str) -> None:
        number = int(Path(job.name).name.split("-of-")[0])
        done.append(number)
        if number in errors:
            raise errors[number]
        write_json(study.out / job.output, {"store": "any"})

    monkeypatch.setattr(tasks, "_shard", shard)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    study.out.mkdir()
    write_json(bundles_file(study), bundles(study, False, 1))
    return study, done, errors


def test_shards_of_a_job_are_done_in_turn_and_never_twice(bundle: tuple[Study, list[int], dict[int, Any]]) -> None:
    study, done, _ = bundle
    name = next(iter(bundles(study, False, 1)))
    for _ in range(2):
        tasks.run(study, Project(), name, "cpu")
        assert done == [1, 2, 3, 4, 5]
    assert bundles(study, False, 1) == {}


def test_a_shard_that_fails_leaves_the_others(bundle: tuple[Study, list[int], dict[int, Any]]) -> None:
    study, done, errors = bundle
    name = next(iter(bundles(study, False, 1)))
    errors[2] = DataError("the text is empty", "a.jsonl", "Give another.")
    with pytest.raises(DataError, match="the text is empty"):
        tasks.run(study, Project(), name, "cpu")
    stands = [state(study, job) for job in shards_of(study, study.cells[0])]
    assert [one.stand for one in stands] == ["done", "failed", "done", "done", "done"]
    assert stands[1].remedy == "Give another."
    assert not (study.out / f"{name}.json").exists()
    errors.clear()
    tasks.run(study, Project(), name, "cpu")
    assert done == [1, 2, 3, 4, 5, 2]
    assert (study.out / f"{name}.json").exists()


@pytest.mark.parametrize("error", [SystemExit(143), RuntimeError("CUDA error: an illegal memory access")])
def test_one_that_takes_the_process_with_it_is_the_last_next_time(
    bundle: tuple[Study, list[int], dict[int, Any]], error: BaseException
) -> None:
    study, done, errors = bundle
    name = next(iter(bundles(study, False, 1)))
    errors[2] = error
    for _ in range(2):
        with pytest.raises(type(error)):
            tasks.run(study, Project(), name, "cpu")
    assert done == [1, 2, 3, 4, 5, 2]


def test_one_that_was_killed_is_the_last_next_time(bundle: tuple[Study, list[int], dict[int, Any]]) -> None:
    study, done, _ = bundle
    killed = study.out / "state" / f"{shards_of(study, study.cells[0])[0].name}.json"
    write_json(killed, {"host": "another", "pid": 1, "started": time.time()})  # and not known to be dead yet
    tasks.run(study, Project(), next(iter(bundles(study, False, 1))), "cpu")
    assert done == [2, 3, 4, 5, 1]
