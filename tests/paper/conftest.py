import numpy as np
import pytest
from toy_stores import make_store


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(5)
    lengths = [40, 3, 700, 25]
    return make_store(tmp_path / "toy", rng.geometric(0.4, sum(lengths)).clip(max=99) - 1, lengths)
