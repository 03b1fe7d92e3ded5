"""A very small ladder, trained and ranked once for all tests of a process; and tasks without one of their own."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from made_ladder import quiet, write_ladder

from rbp.core import processes
from rbp.core.errors import RbpError
from rbp.ladder import ranking, runs, training
from rbp.ladder.recipe import Recipe, read
from rbp.ladder.text import prepare
from rbp.ladder.workspace import Workspace


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Recipe]:
    """A working folder with all runs trained and ranked."""
    folder = tmp_path_factory.mktemp("workshop")
    config, texts = write_ladder(folder)
    recipe, place = read(config), Workspace(folder / "out")
    prepare(place, recipe, texts)
    threads = torch.get_num_threads()
    for which in runs.choose_runs(recipe):
        training.train(quiet, place, recipe, which, "cpu")
        ranking.rank(quiet, place, recipe, which, ["questions", "tales"])
    torch.set_num_threads(threads)
    return place, recipe


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For `run_tasks`, each of whose processes would import torch anew."""

    def run(jobs: Sequence[processes.Task], at_once: int, show: Callable[[str, str], None]) -> dict[str, RbpError]:
        failed = {}
        for job in jobs:
            try:
                job.work(lambda line, name=job.name: show(name, line), *job.arguments)
            except RbpError as error:
                failed[job.name] = error
        return failed

    monkeypatch.setattr(processes, "run_tasks", run)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
