"""The ledger's frame: a claim of the paper, the rule that decides it, and the verdict that the numbers give."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from companion import results
from companion.ledger.rules import (
    FAILS,
    HOLDS,
    PART,
    UNDECIDED,
    Bar,
    Condition,
    Rule,
    every,
    met,
    read_bar,
    read_condition,
)
from rbp.errors import ChapterError

#: no evidence at hand can decide it; a chapter that will decide it has not recorded its number yet
UNCHECKED, OPEN = "cannot be checked here", "not judged yet"
#: true whatever was measured, so that it is not counted as held
ALGEBRA = "follows by algebra"

#: verdict → (the key under which it is counted, its sign)
VERDICTS = {
    HOLDS: ("holds", "✓"),
    PART: ("part", "◐"),
    FAILS: ("fails", "✗"),
    UNDECIDED: ("undecided", "≈"),
    UNCHECKED: ("unchecked", "?"),
    OPEN: ("open", "○"),
    ALGEBRA: ("algebra", "∴"),
}


#: a claim's weight, by whether it is core
WEIGHTS = {True: "core", False: "detail"}


@dataclass(frozen=True)
class Group:
    """Whose claims they are: the key under which they are counted, and how the page heads them."""

    key: str
    title: str


ARGUMENT = Group("argument", "The argument")  # of the book: each rests on other claims
PAPER = Group("paper", "The paper's claims")
EARLIER = Group("earlier", "Its earlier version's claims")
OTHERS = Group("others", "Others' claims")
OWN = Group("own", "Our own tests")
PREDICTIONS = Group("predictions", "Our predictions")  # written down before what they foretell was measured
FOOTNOTE = Group("footnote", "Footnote: sizes and vocabularies, which the headline does not count")
GROUPS = (ARGUMENT, PAPER, EARLIER, OTHERS, OWN, PREDICTIONS, FOOTNOTE)


class Numbers:
    """What the chapters have recorded for the claims (`Page.claim`)."""

    def __init__(self, recorded: Mapping[str, Mapping[str, results.Recorded]]) -> None:
        self._values = {
            key: each.value for own in recorded.values() for key, each in own.items() if key.startswith("claim.")
        }

    @classmethod
    def read(cls, chapters: Path) -> "Numbers":
        """Read the `results.json` of every executed chapter below `chapters`, but the ledger's own."""
        paths = sorted(path for path in chapters.glob("*/results.json") if path.parent.name != "ledger")
        if not paths:
            raise ChapterError("no chapter has been executed yet", str(chapters), "Build the book first: make book.")
        return cls(results.merge(paths))

    def of_claim(self, name: str) -> dict[str, Any]:
        """What is known of a claim, by key: values, and lists of values."""
        found: dict[str, Any] = {}
        for recorded, value in self._values.items():
            if recorded.startswith(f"claim.{name}."):
                key, _, place = recorded.removeprefix(f"claim.{name}.").partition(".")
                if place:
                    found.setdefault(key, {})[int(place)] = value
                else:
                    found[key] = value
        return {k: [v[i] for i in sorted(v)] if isinstance(v, dict) else v for k, v in found.items()}


#: a rule with the numbers in it, or what no rule decides, UNCHECKED or OPEN; and a sentence or two of what was found
Judged = tuple[Rule | str, str]
Judge = Callable[[Numbers], Judged]


@dataclass(frozen=True)
class Claim:
    """A claim in our words, where it stands, and the rule that decides it.

    `name`: of its table in the file, and of its address, ledger.html#claim-NAME. `number` stays: 1 to 30 for those of
    the paper that were listed first, then in the order in which they came. `part`: its subject within the group.
    `evidence`: the chapter to read, or a figure or table in it ("k1#figure-3"). `core`: much of the argument hangs on
    it. `rests_on`: other claims, whose rules decide it.
    """

    name: str
    number: int
    group: Group
    part: str
    place: str
    text: str
    rule: str
    evidence: str
    core: bool
    judge: Judge
    rests_on: tuple[int, ...] = ()

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

    @property
    def bars(self) -> Mapping[str, Bar]:
        """The rule's own bars, which can be moved: not those of other claims that it rests on."""
        bars = self.rule.bars if self.rule else {}
        return {name: bar for name, bar in bars.items() if "." not in name}


FILE = Path(__file__).with_name("claims.toml")


def read_claims(path: Path = FILE) -> list[Claim]:
    """The claims of a file, a table each, by the name under which chapters record what decides it (`Page.claim`).

    number, group (a key of GROUPS), part, where, says, rule (in words), evidence, core: as of a `Claim`. holds,
    in_part, undecided: the rule (`rules.read_condition`); bars: by name (`rules.read_bar`). verdict: UNCHECKED where nothing
    decides; algebra: what follows without a measurement. rests_on: claims whose rules and values a rule may use, and a
    finding as "{law[high]}". finding: a sentence or two with the recorded values, "{high} of {fits}"; finding_open:
    where none are recorded yet, if a later chapter may do so.
    """
    groups = {group.key: group for group in GROUPS}
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Claim(
            name=name,
            number=table["number"],
            group=groups[table.get("group", PAPER.key)],
            part=table["part"],
            place=table["where"],
            text=table["says"],
            rule=table["rule"],
            evidence=table["evidence"],
            core=table.get("core", False),
            judge=_judge_of(name, tables),
            rests_on=tuple(tables[other]["number"] for other in table.get("rests_on", ())),
        )
        for name, table in tables.items()
    ]


def _judge_of(name: str, tables: Mapping[str, Any]) -> Judge:
    table = tables[name]
    rests_on = {other: _judge_of(other, tables) for other in table.get("rests_on", ())}

    def judge(numbers: Numbers) -> Judged:
        values = numbers.of_claim(name)
        if not values and "finding_open" in table:
            return OPEN, table["finding_open"]
        bars = {key: read_bar(bar) for key, bar in table.get("bars", {}).items()}
        for other, judge_other in rests_on.items():
            decided, _ = judge_other(numbers)
            if not isinstance(decided, Rule):
                return decided, f"It rests on claim {tables[other]['number']}, which no rule decides yet."
            rule = decided.of_claim(tables[other]["number"])
            decides: Condition = ("not", rule.undecided)
            values[other] = numbers.of_claim(other) | {
                "holds": every(decides, rule.holds),
                "in_part": every(decides, met(1, rule.holds, rule.part)),
                "undecided": rule.undecided,
            }
            bars |= rule.bars
        try:
            finding = re.sub(r"(?<![\w.])-(?=\d)", "−", table["finding"].format(**values))
            if "verdict" in table:
                return table["verdict"], finding
            conditions = ("holds", "in_part", "undecided")
            holds, part, undecided = (read_condition(table.get(key, "0 > 1"), values, bars) for key in conditions)
        except (KeyError, ValueError, TypeError) as error:
            what = f"claim {table['number']} cannot be judged by what is recorded under claim.{name}: {error}"
            raise ChapterError(what, f"claims ledger, {table['evidence']}", "Execute the chapter again.") from None
        rule = Rule(holds, part, bars, undecided)
        return ALGEBRA if table.get("algebra") and rule.verdict() == HOLDS else rule, finding

    return judge


def judge_all(numbers: Numbers) -> list[Entry]:
    """Every claim, judged, in the order of their numbers. Raises ChapterError where a number is missing."""
    return [each.judged(numbers) for each in sorted(read_claims(), key=lambda entry: entry.number)]


def stressed(entries: list[Entry], harder: float) -> list[Entry]:
    """The entries as they would be judged with every bar so much harder, 0.2 for a fifth, or easier, −0.2."""
    return [replace(each, verdict=each.rule.stressed(harder)) if each.rule else each for each in entries]


def of_group(entries: list[Entry], group: Group) -> list[Entry]:
    """The entries of one group, in their order."""
    return [entry for entry in entries if entry.claim.group == group]


def counts(entries: list[Entry]) -> dict[str, int]:
    """How many claims of each group have each verdict, by "group.verdict"; `judged` are those that a rule was applied to."""
    result: dict[str, int] = {}
    for group in GROUPS:
        found = Counter(VERDICTS[entry.verdict][0] for entry in of_group(entries, group))
        own = {key: found[key] for key, _ in VERDICTS.values()}
        own |= {"judged": own["holds"] + own["part"] + own["fails"] + own["undecided"], "all": found.total()}
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
