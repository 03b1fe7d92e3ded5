"""Claims as claims.toml has them: rules in words, judged by what chapters record for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion import results
from companion.ledger.claims import Numbers, read_claims
from companion.ledger.rules import FAILS, HOLDS, PART, Bar, Rule, read_bar, read_condition

BARS = {
    "good": read_bar({"says": "R² of a good fit", "at": 0.97, "kind": "r_squared"}),
    "fits": read_bar({"says": "fits that are good", "at": 0.9}),
}
TEXT = """
[line]
number = 2
part = "The law"
where = "figure 3"
says = "Every family lies on a line."
rule = "holds if nine in ten fits are good"
evidence = "holds#figure-3"
numbers = {r = "a::r.*", low = "a::low", by = "a::by", cell = "b::cell", turns = "b::turns", surely = "a::surely"}
holds = "share(r >= good) >= fits and turns == 'no'"
in_part = "count(r) - low >= 2 or surely"
finding = "{low} of {r[0]:.2f}, {by:+.1f}% at least: {cell}."
[line.bars]
good = {says = "R² of a good fit", at = 0.97, kind = "r_squared"}
fits = {says = "fits that are good", at = 0.9}
"""


def judged(values, tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text(TEXT)
    recorded = {key: results.recorded(key, value) for key, value in values.items()}
    entry = read_claims(path)[0].judged(Numbers({"a": recorded, "b": recorded}))
    return entry.verdict, entry.finding, entry.rule


LINE = {f"r.{i}": 0.98 for i in range(11)} | {"r.1": 0.9, "rest": 0.1}
LINE |= {"low": 1, "by": -2.0, "cell": "GPT-2", "turns": "no"}


def test_a_claim_is_judged_by_what_is_recorded_for_it(tmp_path):
    verdict, finding, rule = judged(LINE | {"surely": False}, tmp_path)
    assert (verdict, finding) == (HOLDS, "1 of 0.98, −2.0% at least: GPT-2.")
    assert rule
    assert [rule.verdict({"fits": 0.95}), rule.verdict({"good": 0.99})] == [PART, PART]
    assert judged(LINE | {"surely": True, "turns": "yes", "low": 10}, tmp_path)[0] == PART
    assert judged(LINE | {"surely": False, "turns": "yes", "low": 10}, tmp_path)[0] == FAILS


@pytest.mark.parametrize(
    "text", ["good", "a.b > 1", "__import__('os')", "least(good) > 1", "x > 1", "1 + 'a' > 2", "2"]
)
def test_what_is_no_condition_is_refused(text):
    with pytest.raises((ValueError, TypeError)):
        Rule(read_condition(text, {"y": 1.0}, BARS), False, BARS).verdict()


NUMBERS = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(values=NUMBERS, at=st.floats(0, 1), least=st.floats(0, 1))
def test_conditions_mean_what_python_says(values, at, least):
    bars = {"at": Bar("", at, 0, 1, 0.01), "least": Bar("", least, 0, 1, 0.01)}
    cases = {
        "share(v >= at) >= least": sum(value >= at for value in values) / len(values) >= least,
        "least(v) < at and not 1 > 2": min(values) < at,
        "least(v) > at or most(v) <= at": min(values) > at or max(values) <= at,
        "at <= total(v) / count(v) <= least": at <= sum(values) / len(values) <= least,
    }
    if len(values) % 2:
        cases["median(v) >= at"] = sorted(values)[len(values) // 2] >= at
    for text, wanted in cases.items():
        assert (Rule(read_condition(text, {"v": values}, bars), False, bars).verdict() == HOLDS) == wanted, text
