"""The ledger's frame: a claim of the paper, the rule that decides it, and the verdict that the numbers give."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from rbp.book import results
from rbp.core.errors import ChapterError
from rbp.paper.claims.rules import FAILS, HOLDS, PART, Rule

#: no evidence at hand can decide it; a chapter that will decide it has not recorded its number yet
UNCHECKED, OPEN = "cannot be checked here", "not judged yet"

#: verdict → (the key under which it is counted, its sign)
VERDICTS = {
    HOLDS: ("holds", "✓"),
    PART: ("part", "◐"),
    FAILS: ("fails", "✗"),
    UNCHECKED: ("unchecked", "?"),
    OPEN: ("open", "○"),
}


#: a claim's weight, by whether it is core
WEIGHTS = {True: "core", False: "detail"}


@dataclass(frozen=True)
class Group:
    """Whose claims they are: the key under which they are counted, and how the page heads them and their table."""

    key: str
    title: str
    says: str


PAPER = Group("paper", "The paper's claims", "The paper says")
EARLIER = Group("earlier", "Its earlier version's claims", "The earlier version says")
OTHERS = Group("others", "Others' claims", "They say")
OWN = Group("own", "Our own tests", "We test")
PREDICTIONS = Group(
    "predictions", "Our predictions", "We predicted"
)  # written down before what they foretell was measured
GROUPS = (PAPER, EARLIER, OTHERS, OWN, PREDICTIONS)


class Numbers(Mapping[str, results.Value]):
    """What the chapters recorded, by "chapter::key". A missing number names the chapter that should record it."""

    def __init__(self, recorded: Mapping[str, Mapping[str, results.Recorded]]) -> None:
        self._values = {
            f"{chapter}::{key}": each.value for chapter, own in recorded.items() for key, each in own.items()
        }

    @classmethod
    def read(cls, chapters: Path) -> "Numbers":
        """Read the `results.json` of every executed chapter below `chapters`, but the ledger's own."""
        paths = sorted(path for path in chapters.glob("*/results.json") if path.parent.name != "claims")
        if not paths:
            raise ChapterError("no chapter has been executed yet", str(chapters), "Build the book first: make book.")
        return cls(results.merge(paths))

    def __getitem__(self, key: str) -> results.Value:
        if key not in self._values:
            chapter, _, name = key.partition("::")
            raise ChapterError(f"the chapter {chapter} has not recorded '{name}'", "claims ledger", "Execute it again.")
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def number(self, key: str) -> float:
        """A recorded number."""
        value = self[key]
        if isinstance(value, str):
            raise ChapterError(f"'{key}' is a word, not a number", "claims ledger")
        return float(value)

    def count(self, key: str) -> int:
        """A recorded count."""
        return round(self.number(key))

    def word(self, key: str) -> str:
        """A recorded word or phrase."""
        return str(self[key])

    def all(self, start: str) -> list[float]:
        """Every recorded number whose "chapter::key" begins with `start`. Raises ChapterError if there is none."""
        found = [self.number(key) for key in self._values if key.startswith(start)]
        if not found:
            raise ChapterError(f"nothing is recorded under '{start}…'", "claims ledger", "Execute the chapter again.")
        return found


#: a rule with the numbers in it, or what no rule decides, UNCHECKED or OPEN; and a sentence or two of what was found
Judged = tuple[Rule | str, str]
Judge = Callable[[Numbers], Judged]


@dataclass(frozen=True)
class Claim:
    """A claim in our words, where it stands, and the rule that decides it.

    `number` is its name and stays: those of the paper and its earlier versions that were listed first are 1 to 30; those
    added since, of any group, count on from 31 in the order in which they came. `part` is its subject within the group.
    `evidence` names the chapter to read, or a figure or table in it ("k1#figure-3"). `core`: much of the paper's
    argument, or of the doubt of it, hangs on it; the others are details.
    """

    number: int
    group: Group
    part: str
    place: str
    text: str
    rule: str
    evidence: str
    core: bool
    judge: Judge

    def judged(self, numbers: Numbers) -> "Entry":
        """The claim with its verdict. Raises ChapterError where a number is missing."""
        rule, finding = self.judge(numbers)
        verdict, own = (rule.verdict(), rule) if isinstance(rule, Rule) else (rule, None)
        if verdict not in VERDICTS:
            raise ChapterError(f"claim {self.number} has the unknown verdict '{verdict}'", "claims ledger")
        return Entry(self, verdict, finding, own)


@dataclass(frozen=True)
class Entry:
    """A judged claim; `rule` has its numbers, and is None where no rule decides."""

    claim: Claim
    verdict: str
    finding: str
    rule: Rule | None


CLAIMS: list[Claim] = []


def claim(
    number: int,
    part: str,
    place: str,
    text: str,
    *,
    rule: str,
    evidence: str,
    group: Group = PAPER,
    core: bool = False,
) -> Callable[[Judge], Judge]:
    """Enter the decorated judge into the ledger."""

    def enter(judge: Judge) -> Judge:
        CLAIMS.append(Claim(number, group, part, place, text, rule, evidence, core, judge))
        return judge

    return enter


def judge_all(numbers: Numbers) -> list[Entry]:
    """Every claim, judged, in the order of their numbers. Raises ChapterError where a number is missing."""
    return [each.judged(numbers) for each in sorted(CLAIMS, key=lambda entry: entry.number)]


def stressed(entries: list[Entry], harder: float) -> list[Entry]:
    """The entries as they would be judged with every bar so much harder, 0.2 for a fifth, or easier, −0.2."""
    return [replace(each, verdict=each.rule.stressed(harder)) if each.rule else each for each in entries]


def of_group(entries: list[Entry], group: Group) -> list[Entry]:
    """The entries of one group, in their order."""
    return [entry for entry in entries if entry.claim.group == group]


def counts(entries: list[Entry]) -> dict[str, int]:
    """How many claims of each group have each verdict, by "group.verdict"; `judged` are those decided either way."""
    result: dict[str, int] = {}
    for group in GROUPS:
        found = Counter(VERDICTS[entry.verdict][0] for entry in of_group(entries, group))
        own = {key: found[key] for key, _ in VERDICTS.values()}
        own |= {"judged": own["holds"] + own["part"] + own["fails"], "all": found.total()}
        result |= {f"{group.key}.{key}": count for key, count in own.items()}
    return result


def as_table(entries: list[Entry]) -> pd.DataFrame:
    """The ledger as a table of one row a claim."""
    rows = [
        (
            e.claim.number,
            e.claim.group.key,
            WEIGHTS[e.claim.core],
            e.claim.part,
            e.claim.text,
            e.claim.place,
            e.verdict,
            e.finding,
            e.claim.rule,
            e.claim.evidence,
        )
        for e in entries
    ]
    return pd.DataFrame(
        rows, columns=["claim", "group", "weight", "part", "text", "place", "verdict", "finding", "rule", "evidence"]
    )
