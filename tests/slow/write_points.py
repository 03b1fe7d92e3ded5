"""Failures at every step of writing the things of `write_cases`.

After each: what can be read is the old content or the new, whole, or an error that says what is wrong; and a
run without a failure gives the content that it would have given at once, with nothing left beside it.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from injected import CLEAN, DONE, KILLED, KINDS, Outcome, trial
from write_cases import CASES, Case


def count(
    name: str, base: Path, model: Path, ladder: Path, share: float = 1.0, seed: int = 0, twice: bool = True
) -> int:
    """How many `trials` of a case were made: of its first step, and of a share of the others drawn at random."""
    rng, tried = random.Random(seed), 0  # noqa: S311
    for tried in trials(CASES[name](model, ladder), base, twice, lambda at: at == 1 or rng.random() < share, seed):  # noqa: B007
        pass
    return tried


def trials(
    case: Case, base: Path, twice: bool = True, chosen: Callable[[int], bool] = lambda at: True, seed: int = 0
) -> Iterator[int]:
    """Every fault at every (chosen) step of a case; yields how many failures were tried so far. Raises AssertionError.

    twice: another failure, at random, in the run that follows the first.
    """
    rng = random.Random(seed)  # noqa: S311
    prepared, work = base / "prepared", base / "work"
    prepared.mkdir(parents=True)
    made = _acted(replace(case, act=case.prepare), prepared)
    assert made.code == DONE, made.said
    work = _copied(prepared, work)
    before = _seen(case, work)
    whole = _acted(case, work)
    assert whole.code == DONE, whole.said
    after = _seen(case, work)
    assert after != before, "the case writes nothing"
    tried = 0
    for at in filter(chosen, range(1, whole.steps + 1)):
        for kind in KINDS:
            _copied(prepared, work)
            first = _acted(case, work, at, kind)
            what = f"{case.name}, {kind} at step {at} of {whole.steps}"
            tried += _checked(case, work, first, before, after, what)
            if twice:  # another failure while it is mended
                second = rng.choice(KINDS)
                again = _acted(case, work, rng.randint(1, whole.steps), second)
                tried += _checked(case, work, again, before, after, f"{what}, and again")
            last = _acted(case, work)
            assert last.code == DONE, f"{what}: the rerun fails: {last.said}"
            assert _seen(case, work) == after, f"{what}: the rerun gives another content"
            left = [path.name for path in work.rglob(".*.tmp")]
            assert not left or (twice and second == "broken"), f"{what}: {left} are left over"
        yield tried


def _checked(case: Case, work: Path, outcome: Outcome, before: Any, after: Any, what: str) -> bool:
    """Whether the failure came about; what is then to be seen is whole."""
    if not outcome.hit:
        assert outcome.code == DONE, f"{what}: {outcome.said}"
        return False
    # a step whose failure costs nothing, as the removal of what is not needed any more, may fail
    assert outcome.code in (DONE, CLEAN, KILLED), f"{what}: {outcome.said}"
    found = _seen(case, work)
    ok = found in (before, after) or case.on_the_way(found, after)
    assert ok, f"{what}: what can be read is neither the old nor the new content"
    return True


def _acted(case: Case, work: Path, at: int = 0, kind: str = "broken") -> Outcome:
    def act() -> None:
        case.act(work)

    return trial(act, work, at, kind)


def _seen(case: Case, work: Path) -> Any:
    """What a reader gets of a copy (looking changes nothing), in a process of its own (Arrow begins threads)."""
    looked = _copied(work, work.with_name("looked"))
    found = trial(lambda: case.seen(looked), looked)
    assert found.code == DONE, found.said
    return found.given


def _copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))
