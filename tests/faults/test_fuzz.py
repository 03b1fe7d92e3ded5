"""Fuzzing, in small: `make test-slow` draws ten thousand examples and more."""

import fuzz
import pytest


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_nothing_ends_in_anything_but_a_result_or_an_error_of_ours(name, tmp_path):
    assert fuzz.fuzz(name, tmp_path, 30) >= 30
