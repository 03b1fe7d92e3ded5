"""Claims as claims.toml has them: rules in words, judged by what chapters record for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.execute import results
from companion.execute.rules import FAILS, HOLDS, PART, Bar, is_met, names_in
from companion.ledger.claims import Numbers, read_claims
from rbp.errors import ChapterError

TEXT = (
    """
[line]
number = 2
part = "The law"
where = "figure 3"
says = "Every family lies on a line."
rule = "holds if nine in ten fits are good"
evidence = "holds#figure-3"
numbers = {r = "a::r.*", low = "a::low", by = "a::by", cell = "b::cell", turns = "b::turns", surely = "a::surely"}
holds = "share(r >= good) >= fits and turns == 'no'"
in_part = """
    + "'''"
    + """
count(r) - low >= 2
or surely
"""
    + "'''"
    + """
finding = "{low} of {r[0]:.2f}, {by:+.1f}% at least: {cell}."
[line.bars]
good = {says = "R² of a good fit", at = 0.97, kind = "r_squared"}
fits = {says = "fits that are good", at = 0.9}
"""
)
RESTING = """
[rests]
number = 3
group = "argument"
part = "All"
where = "here"
says = "It rests."
rule = "holds if claim 2 holds"
evidence = "holds"
rests_on = ["line"]
holds = "line.holds and line.low > 0"
in_part = "line.in_part"
finding = "{line[low]}"
"""


def read(tmp_path, text):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    return read_claims(path)


def numbers(values):
    recorded = {key: results.recorded(key, value) for key, value in values.items()}
    return Numbers({"a": recorded, "b": recorded})


LINE = {f"r.{i}": 0.98 for i in range(11)} | {"r.1": 0.9, "rest": 0.1}
LINE |= {"low": 1, "by": -2.0, "cell": "GPT-2", "turns": "no"}


def test_a_claim_is_judged_by_what_is_recorded_for_it(tmp_path):
    line, rests = read(tmp_path, TEXT + RESTING)
    sure = numbers(LINE | {"surely": False})
    assert (line.judged(sure).verdict, line.judged(sure).finding) == (HOLDS, "1 of 0.98, −2.0% at least: GPT-2.")
    assert [line.judged(sure, by).verdict for by in (-0.2, 0.05)] == [HOLDS, PART]  # 10 of 11 reach 90%, not 94.5%
    assert line.judged(numbers(LINE | {"surely": True, "turns": "yes", "low": 10})).verdict == PART
    assert line.judged(numbers(LINE | {"surely": False, "turns": "yes", "low": 10})).verdict == FAILS
    assert [rests.judged(sure, by).verdict for by in (0.0, 0.05)] == [HOLDS, PART], "its bars are those of the other"
    assert rests.judged(numbers(LINE | {"surely": True, "low": 0})).verdict == PART
    with pytest.raises(ChapterError, match=r"claim line .*a::surely"):
        rests.judged(numbers(LINE))
    unsuited, _ = read(tmp_path, TEXT.replace("{by:+.1f}", "{cell:+.1f}") + RESTING)
    with pytest.raises(ChapterError, match=r"claim line cannot be judged by its numbers"):
        unsuited.judged(sure)


BARS = [
    ({"at": 0.9}, 0.72, 1.0),  # a share is at most 1
    ({"at": 0.5, "harder": -1}, 0.6, 0.4),
    ({"at": 0.97, "kind": "r_squared"}, 0.964, 0.976),
    ({"at": 0.1, "kind": "within"}, 0.12, 0.08),
    ({"at": -5, "kind": "number"}, -6.0, -4.0),
]


@pytest.mark.parametrize(("bar", "easier", "harder"), BARS)
def test_a_bar_a_fifth_easier_or_harder(bar, easier, harder):
    assert [Bar(says="", **bar).moved(by) for by in (-0.2, 0.0, 0.2)] == [easier, bar["at"], harder]


FAULTS = [
    ("number = 2", "", "line.number: Field required"),
    ("fits and turns", "most and turns", "line: holds: there is no most among its numbers, bars and claims: by, cell"),
    ("{low} of", "{lower} of", "line: finding: there is no lower among"),
    ("number = 3", "number = 2", "rests.number: 2 is line's; 3 is free"),
    ('rests_on = ["line"]', 'rests_on = ["line", "lines"]', "rests.rests_on: there is no claim lines"),
    ("[rests]", "[rests", "the claims are not TOML"),
]


@pytest.mark.parametrize(("old", "new", "named"), FAULTS, ids=[named for *_, named in FAULTS])
def test_a_fault_of_a_claim_is_named_with_its_field_and_what_may_stand_there(tmp_path, old, new, named):
    assert old in TEXT + RESTING
    with pytest.raises(ChapterError) as error:
        read(tmp_path, (TEXT + RESTING).replace(old, new, 1))
    assert named in str(error.value)


VALUES = {"y": 1.0, "good": 0.97, "b": True, "words": "no", "law": {"low": 1.0, "holds": True}}


REFUSED = "good|a.b > 1|__import__('os')|least(good) > 1|x > 1|1 + 'a' > 2|2|words > 1|law.none > 1|[1] > 0"
REFUSED += "|y if b else good|share(good > 1) > 0|y in law|(lambda: b)()|"


@pytest.mark.parametrize("text", REFUSED.split("|"))
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        is_met(text, VALUES)


NUMBERS = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(values=NUMBERS, at=st.floats(0, 1), least=st.floats(0, 1), b=st.booleans())
def test_conditions_mean_what_python_says(values, at, least, b):
    named = {"v": values, "at": at, "least": least, "b": b, "law": {"high": at, "holds": b}}
    cases = {
        "share(v >= at) >= least": sum(value >= at for value in values) / len(values) >= least,
        "least(v) < at and not 1 > 2": min(values) < at,
        "least(v) > at or most(v) <= at": min(values) > at or max(values) <= at,
        "at <= total(v) / count(v) <= least": at <= sum(values) / len(values) <= least,
        "not law.holds or law.high * 2 - 1 > least": not b or at * 2 - 1 > least,
        "b and 'a' != 'b' and at == at": b,
    }
    if len(values) % 2:
        cases["median(v) >= at"] = sorted(values)[len(values) // 2] >= at
    for text, wanted in cases.items():
        assert is_met(text, named) == wanted, text
        assert set(names_in(text)) <= named.keys()
