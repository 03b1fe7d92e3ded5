"""The harness of the slow set is used in small here too."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "slow"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tiny  # late: most tests need none

    return tiny.save_model(tmp_path_factory.mktemp("model") / "tiny")
