"""Verdicts follow from the recorded numbers, and change with them."""

from pathlib import Path

import pytest

from rbp.book import results
from rbp.core.errors import ChapterError
from rbp.core.paths import Project
from rbp.paper.claims import ledger
from rbp.paper.claims.ledger import FAILS, HOLDS, PART, _typeset, by_exceptions

EXPECTED = results.read_book(Project().expected)
LOGNORMAL_BEST = {"better_2_count": 0, "lognormal_rank.1": 1, "lognormal_at_limit": 0}


def _numbers(**changes: object) -> ledger.Numbers:
    """The accepted results, with some values changed; keys as "chapter::key" through `changes["chapter::key"]`."""
    recorded = {chapter: dict(values) for chapter, values in EXPECTED.items()}
    for name, value in changes.items():
        chapter, key = name.split("::")
        recorded[chapter][key] = results.recorded(key, value)
    return ledger.Numbers(recorded)


def _verdict(number: int, **changes: object) -> str:
    (entry,) = [e for e in ledger.judge_all(_numbers(**changes)) if e.claim.number == number]
    return entry.verdict


def test_every_claim_can_be_judged_and_its_number_is_its_own() -> None:
    entries = ledger.judge_all(_numbers())
    numbers = [entry.claim.number for entry in entries]
    assert numbers == sorted(set(numbers))
    counts = ledger.counts(entries)
    assert len(entries) == sum(counts[f"{group.key}.all"] for group in ledger.GROUPS)
    for group in ledger.GROUPS:
        assert counts[f"{group.key}.all"] == sum(counts[f"{group.key}.{key}"] for key, _ in ledger.VERDICTS.values())


@pytest.mark.parametrize(
    ("number", "changes", "verdict"),
    [
        (2, {"03_k1::r_squared_high": 16}, HOLDS),
        (2, {"03_k1::r_squared_high": 10}, FAILS),
        (3, {"04_moderate_k::r_squared_below": 0}, HOLDS),
        (3, {"04_moderate_k::r_squared_below": 3}, PART),
        (3, {"04_moderate_k::r_squared_below": 20}, FAILS),
        (6, {f"06_every_k::{key}": 16 for key in ("rise", "close_02", "below_01")}, HOLDS),
        (7, {"02_measurements::sizes_orders_of_magnitude": 5.1}, HOLDS),
        (7, {"02_measurements::models": 23}, FAILS),
        (8, {"02_measurements::thresholds_orders_of_magnitude": 5.0}, HOLDS),
        (9, {"02_measurements::cells_below_stated": 0}, HOLDS),
        (11, {"05_large_k::r_squared_lower": 2}, FAILS),
        (12, {"16_noise::large_enough": 14, "16_noise::rising_surely": 0}, HOLDS),
        (12, {"16_noise::large_enough": 3}, FAILS),
        (14, {"15_independence::cells_below": 10}, HOLDS),
        (14, {"15_independence::cells_below": 200}, PART),
        (15, {"14_emergence::length_below_one.Pythia": 0}, HOLDS),
        (15, {"14_emergence::length_below_one.Pythia": 3}, PART),
        (16, {"14_emergence::sharper": 40}, HOLDS),
        (16, {"14_emergence::turns": 0}, FAILS),
        (17, {"14_emergence::predictions_inside": 600}, HOLDS),
        (17, {"14_emergence::rises": 300}, FAILS),
        (18, {"08_cross_entropy::tested_apart": 0}, HOLDS),
        (18, {"08_cross_entropy::closest_1": 3}, FAILS),
        (19, {"01_metric::rbp1.crowded": 1.0, "01_metric::rbp1.even": 1.0}, FAILS),
        (20, {"20_rank_distributions::better_2_count": 0}, PART),
        (20, {f"20_rank_distributions::{k}": v for k, v in LOGNORMAL_BEST.items()}, HOLDS),
        (21, {"19_predicted_curves::predicted_apart": False}, PART),
        (22, {"18_appendix_c::ratio_r_squared.S": 0.999}, HOLDS),
        (22, {"18_appendix_c::ratio_r_squared.lnS": 0.6}, FAILS),
        (23, {"17_premise::gap_share.last": 0.001}, HOLDS),
        (23, {"18_appendix_c::verdict.14": "does not follow"}, FAILS),
        (24, {"18_appendix_c::verdict.24": "follows"}, HOLDS),
        (24, {"18_appendix_c::verdict.24": "does not follow"}, FAILS),
        (25, {"18_appendix_c::verdict.after 26": "follows", "18_appendix_c::fraction_share_max": 0.05}, HOLDS),
        (25, {"18_appendix_c::verdict.after 26": "follows"}, FAILS),
        (26, {"18_appendix_c::verdict.earlier, B.4": "follows"}, HOLDS),
        (27, {"07_more_k::r_squared_high": 63}, FAILS),
        (27, {"07_more_k::noise_rejected": 0}, HOLDS),
        (28, {"07_more_k::larger": 100}, PART),
        (31, {"09_forecasts::forecast.covered.all": 58}, HOLDS),
        (31, {"09_forecasts::forecast.error_median.all": 12.0}, FAILS),
        (32, {"10_table1::agree.rounded": 100, "10_table1::agree": 50}, FAILS),
    ],
)
def test_a_verdict_changes_with_its_numbers(number: int, changes: dict[str, object], verdict: str) -> None:
    assert _verdict(number, **changes) == verdict


@pytest.mark.parametrize(
    ("exceptions", "verdict"), [(0, HOLDS), (1, HOLDS), (2, PART), (5, PART), (6, FAILS), (10, FAILS)]
)
def test_few_exceptions_are_forgiven_and_more_than_half_are_not(exceptions: int, verdict: str) -> None:
    assert by_exceptions(exceptions, 10, holds=0.1) == verdict
    assert by_exceptions(exceptions, 10) == (PART if exceptions == 1 else verdict)


def test_a_missing_number_names_the_chapter() -> None:
    without = {chapter: values for chapter, values in EXPECTED.items() if chapter != "07_more_k"}
    with pytest.raises(ChapterError, match="07_more_k"):
        ledger.judge_all(ledger.Numbers(without))


def test_before_any_chapter_was_executed_the_ledger_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ChapterError, match="make book"):
        ledger.Numbers.read(tmp_path)


def test_sentences_are_escaped_and_typeset() -> None:
    assert _typeset("RBP_k < S^(−α)") == "RBP<sub>k</sub> &lt; S<sup>−α</sup>"
    assert _typeset("α_k/α_S") == "α<sub>k</sub>/α<sub>S</sub>"
    assert _typeset("<script>") == "&lt;script&gt;"
