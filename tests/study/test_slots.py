"""A GPU for each job: pretended ones, and real processes that hold them."""

import multiprocessing
import signal
import time
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import pytest
from draws import loop_and_slow

from rbp.study.tasks import one_of

pytestmark = pytest.mark.builds


def hold(place: Path, gpus: list[str], said: "Queue[tuple[str, str, float]]", seconds: float, together: Any) -> None:
    together.wait(60)
    with one_of(gpus, place) as gpu:
        said.put((gpu, "taken", time.monotonic()))
        time.sleep(seconds)
        said.put((gpu, "freed", time.monotonic()))


@pytest.mark.parametrize("count", loop_and_slow(3, 7))
def test_no_gpu_is_held_twice_and_all_are_used(tmp_path: Path, count: int) -> None:
    gpus = ["0", "5"] if count == 3 else ["0", "1", "5"]
    context = multiprocessing.get_context("spawn")
    said: Any = context.Queue()
    together = context.Barrier(count)
    jobs = [context.Process(target=hold, args=(tmp_path, gpus, said, 0.3, together)) for _ in range(count)]
    for job in jobs:
        job.start()
    events = [said.get(timeout=60) for _ in range(2 * count)]
    for job in jobs:
        job.join(60)
    assert [job.exitcode for job in jobs] == [0] * count
    assert {gpu for gpu, _, _ in events} == set(gpus)
    for gpu in gpus:
        mine = sorted((when, what) for name, what, when in events if name == gpu)
        assert [what for _, what in mine] == ["taken", "freed"] * (len(mine) // 2)


def test_a_killed_job_gives_its_gpu_back(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    said: Any = context.Queue()
    alone = context.Barrier(1)
    first = context.Process(target=hold, args=(tmp_path, ["0"], said, 60, alone))
    first.start()
    assert said.get(timeout=60)[1] == "taken"
    first.kill()
    first.join(60)
    assert first.exitcode == -signal.SIGKILL
    with one_of(["0"], tmp_path) as gpu:
        assert gpu == "0"
