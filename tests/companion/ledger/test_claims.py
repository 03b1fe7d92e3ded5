"""Verdicts follow from the recorded numbers, change with them, and cannot be set by hand unseen."""

import pytest

from companion.execute import results
from companion.ledger import claims as ledger
from companion.ledger.claims import ALGEBRA, FAILS, HOLDS, PART, UNDECIDED
from companion.project import Project

EXPECTED = results.read_book(Project().expected)
CLAIMS = sorted(ledger.read_claims(), key=lambda claim: claim.number)
KEYS = {claim.name: claim.keys for claim in CLAIMS}
SCORED = ["predicted_ladders", "predicted_paths", "predicted_others"]
APART = {"runs": 3, "runs_apart": 3, "texts": 3, "texts_apart": 3}
"""Pairs of architectures and of texts enough to count, all apart."""

#: of claims whose rule is more than a comparison: a verdict, and the numbers that give it; "law.r" is the claim law's
CASES: dict[str, list[tuple[str, dict[str, object]]]] = {
    "law": [(PART, {"r": [*7 * [0.96], 0.99]}), (PART, {"beaten": 54}), (FAILS, {"r": [0.98]})],
    "emergence_predictable": [
        (HOLDS, {"inside": 650, "texts_inside": 430}),
        (PART, {"inside": 360, "texts_inside": 300}),
        (FAILS, {"rises": 648, "texts_rises": 400}),  # that success rises decides nothing
    ],
    "exponents_alike": [
        (HOLDS, {"relative": [9.0], "relative_most": [9.0]}),
        (PART, {"relative": [*11 * [11.0], 9.0], "relative_most": [*11 * [11.0], 9.0]}),
        (FAILS, {"relative_least": [11.0]}),
        (FAILS, {"outside": 1}),
    ],
    "argument_no_law": [
        (FAILS, {"accurate.scores": [30.0], "same_exponent.change_low": -1}),
        (PART, {"same_exponent.large_earlier_change_low": -1}),  # above 1e8, from the first straight step
    ],
    "sum_of_both": [
        (UNDECIDED, {"closest": 2, "rejected": 3}),
        (HOLDS, {"rank_ratio_high": 0.99, "closest": 2, "rejected": 3}),
    ],
    "not_deduced": [
        (HOLDS, {"closer": 0, **APART}),
        (UNDECIDED, {"seeds_p": 0.06}),
        (FAILS, {"seeds_p": 0.06, "runs": 3, "texts": 3, "runs_apart": 0, "texts_apart": 0}),
    ],
    "tokens_independent": [(HOLDS, {"inside": [0.95] * 5}), (PART, {"inside": [0.95, 0.95, 0.6, 0.95, 0.95]})],
    "equal_entropy": [(UNDECIDED, {"seeds_p": 0.06}), (PART, {"runs": 3, "runs_apart": 0})],
    "rank_forecasts": [
        (UNDECIDED, {"nearer": 4}),
        (FAILS, {"sign_p": 0.04}),
        (PART, {"nearer": 3, "sign_p": 0.04}),
        (HOLDS, {"nearer": 4, "sign_p": 0.04}),
    ],
} | {
    name: [
        (HOLDS, {"inside": 8, "tested": 10, "p": 0.6}),
        (UNDECIDED, {"inside": 7, "tested": 10, "p": 0.3}),
        (FAILS, {"inside": 70, "tested": 100, "p": 0.01}),  # more than half hold, and 80% was promised
    ]
    for name in SCORED
}


def given(claim, values):
    """Other values of a claim's numbers, as "chapter::key"; a list stands for that of all there are."""
    changes: dict[str, object] = {}
    for name, value in values.items():
        of, _, number = name.rpartition(".")
        chapter, key = KEYS[of or claim][number].split("::")
        if isinstance(value, list):
            keys = [each for each in EXPECTED[chapter] if each.startswith(key.removesuffix("*"))]
            changes |= {f"{chapter}::{each}": value[min(i, len(value) - 1)] for i, each in enumerate(keys)}
        else:
            changes[f"{chapter}::{key}"] = value
    return changes


def accepted_numbers(changes):
    """The accepted results, with some values changed; keys as "chapter::key"."""
    recorded = {chapter: dict(values) for chapter, values in EXPECTED.items()}
    for name, value in changes.items():
        chapter, key = name.split("::")
        recorded.setdefault(chapter, {})[key] = results.recorded(key, value)
    return ledger.Numbers(recorded)


ENTRIES = ledger.judge_all(accepted_numbers({}))
STRESSED = {
    f"20% {words}": ledger.judge_all(accepted_numbers({}), by) for words, by in (("easier", -0.2), ("harder", 0.2))
}


@pytest.mark.parametrize("name", CASES)
def test_a_verdict_changes_with_its_numbers(name):
    (claim,) = (claim for claim in CLAIMS if claim.name == name)
    for verdict, values in CASES[name]:
        assert claim.judged(accepted_numbers(given(name, values))).verdict == verdict, values


def test_a_run_shows_the_verdicts_of_its_chapter(tmp_path):
    values = EXPECTED["elsewhere"] | {"larger": results.recorded("larger", 191)}
    path = tmp_path / "results.json"
    results.write_chapter(path, results.ChapterResults("elsewhere", values))
    lines = ledger.verdicts_of(Project(), "elsewhere", path)
    names = ["power_in_k", "k_or_size", "exchange", "about_ranking"]
    assert [line.partition(":")[0] for line in lines] == [f"claim {name}" for name in names]
    assert lines[1].startswith(f"claim k_or_size: {FAILS}. It is larger in 191 of 192")
    results.write_chapter(path, results.ChapterResults("elsewhere", EXPECTED["see"]))
    assert "elsewhere::pairs" in ledger.verdicts_of(Project(), "elsewhere", path)[0]


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.bars], ids=lambda claim: claim.name)
def test_harder_bars_move_a_verdict_one_way(claim):
    order = [ALGEBRA, HOLDS, PART, FAILS, UNDECIDED]
    numbers = accepted_numbers({})
    decided = (claim.judged(numbers, by / 10).verdict for by in range(-9, 10))
    verdicts = [order.index(verdict) for verdict in decided if verdict != UNDECIDED]
    assert verdicts == sorted(verdicts)
