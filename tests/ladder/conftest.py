"""Very small ladders that are trained, ranked and shipped once, for all tests of a process."""

from pathlib import Path

import pytest
import torch
from made_ladder import quiet, write_grid

from rbp.ladder import aggregates, floor
from rbp.ladder import grid as grid_module
from rbp.ladder.grid import Grid
from rbp.ladder.ngrams import ORDERS
from rbp.ladder.shipping import ship


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Grid, Path]:
    """Transformers and n-grams, and the folder that they are shipped to; of the transformers two seeds."""
    folder, threads = tmp_path_factory.mktemp("workshop"), torch.get_num_threads()
    grid = write_grid(folder)
    lines = grid.choose(["neox"], seeds=[0]) + grid.choose(["neox"], seeds=[1])
    for line in lines:
        grid_module.train(quiet, grid, line)
    for job in [*aggregates.jobs(grid, lines), *floor.jobs(grid, ORDERS)]:
        job.work(quiet, *job.arguments)
    torch.set_num_threads(threads)
    ship(grid, ["neox", "ngrams"], folder / "shipped")
    return grid, folder / "shipped"
