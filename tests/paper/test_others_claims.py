"""The verdicts on others' claims follow from what the chapter on the sister law recorded."""

import pytest

from rbp.book import results
from rbp.paper.claims import ledger, others
from rbp.paper.claims.ledger import FAILS, HOLDS, OTHERS, PART

RECORDED = {
    "texts": 4,
    "entropy_high": 4,
    "entropy_closer": 4,
    "r_squared_min": 0.98,
    "alignment_still": 4,
    "confidence_still": 4,
    "confidence_min": 1.0,
    "confidence_max": 2.0,
    "share_inside": 4,
    "share_falls": 4,
    "share_min": 0.7,
    "share_max": 0.9,
}


@pytest.mark.parametrize(
    ("number", "changes", "verdict"),
    [
        (53, {}, HOLDS),
        (53, {"entropy_closer": 3}, PART),
        (53, {"entropy_high": 3}, FAILS),
        (54, {}, HOLDS),
        (54, {"alignment_still": 3}, PART),
        (54, {"alignment_still": 3, "confidence_still": 3}, FAILS),
        (55, {}, HOLDS),
        (55, {"share_inside": 0}, PART),
        (55, {"share_falls": 3}, PART),
        (55, {"share_inside": 0, "share_falls": 0}, FAILS),
    ],
)
def test_a_verdict_changes_with_its_numbers(number: int, changes: dict[str, float], verdict: str) -> None:
    chapters = {others.CHAPTER: RECORDED | changes, "17_premise": {"gap_share.first": 0.1, "gap_share.last": 0.2}}
    numbers = ledger.Numbers(
        {name: {key: results.recorded(key, value) for key, value in own.items()} for name, own in chapters.items()}
    )
    (claim,) = [each for each in ledger.CLAIMS if each.number == number]
    assert claim.group == OTHERS
    assert claim.judge(numbers)[0] == verdict
