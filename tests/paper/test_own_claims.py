"""The rules of our own tests: each verdict follows from the numbers that a chapter records."""

import pytest

from rbp.book import results
from rbp.paper.claims import ledger
from rbp.paper.claims.ledger import FAILS, HOLDS, OWN, PART

CHAPTER = "23_rank_and_cross_entropy"
FOUND = {
    "apart.k1": 5,
    "compared.k1": 5,
    "seeds.apart.k1": 9,
    "seeds.pairs.k1": 16,
    "offset_max.texts.k1": 8.0,
    "seeds.median.k1": 0.9,
    "runs.offset": 1.1,
    "tightest_at_1": 0,
    "tightest_of": 5,
    "tightest.wikipedia.Pythia": 10,
    "nearer.k1": 4,
    "forecasts.k1": 11,
    "direct.Pythia.k1": 5.5,
    "control.Pythia.k1": 5.6,
}


@pytest.mark.parametrize(
    ("number", "changes", "verdict"),
    [
        (46, {}, FAILS),
        (46, {"apart.k1": 0, "seeds.apart.k1": 4}, PART),
        (46, {"apart.k1": 0, "seeds.apart.k1": 0}, HOLDS),
        (47, {}, FAILS),
        (47, {"tightest_at_1": 3}, PART),
        (47, {"tightest_at_1": 5}, HOLDS),
        (48, {}, FAILS),
        (48, {"nearer.k1": 6}, PART),
        (48, {"nearer.k1": 9}, HOLDS),
    ],
)
def test_a_verdict_follows_its_rule(number: int, changes: dict[str, float], verdict: str) -> None:
    values = {key: results.recorded(key, value) for key, value in (FOUND | changes).items()}
    (claim,) = [each for each in ledger.CLAIMS if each.number == number]
    assert claim.group == OWN
    assert claim.judge(ledger.Numbers({CHAPTER: values}))[0] == verdict
