import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.execute.results import (
    ChapterResults,
    Recorded,
    agree,
    chapter_results,
    compare,
    recorded,
)
from rbp.errors import RbpError
from rbp.io import canonical_json

VALUES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(), st.booleans(), st.text())
TOLERANCES = st.one_of(st.none(), st.floats(0, 10))
RECORDED = st.one_of(
    st.builds(Recorded, VALUES, st.text(max_size=5), TOLERANCES),
    st.builds(Recorded, VALUES, st.just(""), TOLERANCES, st.floats(0.1, 9), st.text(min_size=1, max_size=5)),
)


@given(st.dictionaries(st.text(max_size=5), RECORDED, max_size=4))
def test_a_chapter_reads_back_as_it_was_written(values):
    written = canonical_json(ChapterResults("01_a", values, ("b", "a", "b")).as_dict())
    back = chapter_results(json.loads(written), "here")
    assert back == ChapterResults("01_a", values, ("a", "b"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan"), None, [1], 1j])
def test_what_is_no_value_is_refused_by_its_key(value):
    with pytest.raises(RbpError, match=r"\(alpha\.x\)"):
        recorded("alpha.x", value)
    with pytest.raises(RbpError, match="may move by"):
        recorded("k", 1.0, "", 0.0, 3.0, "")  # a wider tolerance has a reason


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (Recorded(2.0, tolerance=0.1), Recorded(2.19, tolerance=0.1), []),
        (Recorded(2.0, tolerance=0.1), Recorded(2.21, tolerance=0.1), ["moved"]),
        (Recorded(100, within=3, because="near"), Recorded(104, within=9, because="near"), ["moved"]),
        (Recorded(2.0, tolerance=1e-9), Recorded(2.1, tolerance=1.0), ["moved"]),  # it cannot widen its own
        (Recorded(2.0), Recorded(2.0, "nats"), ["moved"]),
        (Recorded(1), Recorded(True), ["moved"]),
        (Recorded(1), Recorded(1.0), []),
        (None, Recorded(1.0), ["new"]),
        (Recorded(1.0), None, ["missing"]),
    ],
)
def test_compare(old, new, kinds):
    differences = compare({"01": {"k": new} if new else {}}, {"01": {"k": old} if old else {}})
    assert [difference.kind for difference in differences] == kinds


def test_a_rerun_agrees_as_a_build_does_and_exactly_where_builds_do_not_compare():
    accepted = Recorded(100.0, within=3, because="near")
    assert [agree(accepted, Recorded(value)) for value in (103, 104)] == [True, False]
    timed = Recorded(2.0, tolerance=None)
    assert [agree(timed, Recorded(value, tolerance=None)) for value in (2.0, 2.1)] == [True, False]
    assert [agree(None, None), agree(None, timed), agree(timed, None)] == [True, False, False]
