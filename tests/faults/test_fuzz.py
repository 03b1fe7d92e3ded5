"""Whatever is read may be anything: no input ends in anything but a result or an error of ours."""

import fuzz
import pytest
from draws import loop_and_slow


@pytest.mark.long
@pytest.mark.parametrize("examples", loop_and_slow(12, 800))
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_nothing_ends_in_anything_but_a_result_or_an_error_of_ours(name, examples, tmp_path):
    assert fuzz.fuzz(name, tmp_path, examples) >= examples
