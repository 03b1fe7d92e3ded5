"""A very small ladder that is trained and ranked once, for all tests of a process."""

import pytest
import torch
from made_ladder import quiet, write_ladder

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
