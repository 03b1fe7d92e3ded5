"""Very small ladders that are trained, ranked and shipped once, for all tests of a process."""

import pytest
import torch
from made_ladder import quiet, write_making

from ladder import aggregates
from ladder import making as making_module
from ladder.shipping import ship


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """Transformers and LSTMs, and the folder that they are shipped to; of the transformers two seeds."""
    folder, threads = tmp_path_factory.mktemp("workshop"), torch.get_num_threads()
    making = write_making(folder)
    runs = making.choose(["neox", "lstm"], seeds=[0]) + making.choose(["neox"], seeds=[1])
    for run in runs:
        making_module.train(quiet, making, run)
    for job in aggregates.jobs(making, runs):
        job.work(quiet, *job.arguments)
    torch.set_num_threads(threads)
    ship(making, ["neox", "lstm"], folder / "shipped")
    return making, folder / "shipped"
