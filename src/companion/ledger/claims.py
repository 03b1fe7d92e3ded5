"""The claims of the ledger, the rules that decide them, and the verdicts that the numbers give."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
from companion.project import Project
from rbp.errors import ChapterError

#: no evidence at hand can decide it
UNCHECKED = "cannot be checked here"
#: true whatever was measured, so that it is not counted as held
ALGEBRA = "follows by algebra"

#: verdict → (the key under which it is counted, its sign)
VERDICTS = {
    HOLDS: ("holds", "✓"),
    PART: ("part", "◐"),
    FAILS: ("fails", "✗"),
    UNDECIDED: ("undecided", "≈"),
    UNCHECKED: ("unchecked", "?"),
    ALGEBRA: ("algebra", "∴"),
}


#: a claim's weight, by whether it is core
WEIGHTS = {True: "core", False: "detail"}


@dataclass(frozen=True)
class Group:
    """A group of claims by their source: the key under which they are counted, and their heading on the page."""

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
    """The values that the chapters have recorded, by chapter and key (`Page.record`)."""

    def __init__(self, recorded: Mapping[str, Mapping[str, results.Recorded]]) -> None:
        self.recorded = recorded

    @classmethod
    def read(cls, project: Project) -> "Numbers":
        """Read the values of every executed chapter except the ledger; of chapters not built, the accepted ones."""
        accepted = results.read_book(project.expected) if project.expected.exists() else {}
        paths = [path for path in project.chapters.glob("*/results.json") if path.parent.name != "ledger"]
        if recorded := accepted | results.merge(sorted(paths)):
            return cls(recorded)
        raise ChapterError("no chapter has been executed yet", str(project.chapters), "Build the book: make book.")

    def __getitem__(self, name: str) -> Any:
        """Return the value of CHAPTER::KEY; of CHAPTER::KEY.* a list of all whose keys begin so. KeyError for none."""
        chapter, _, key = name.partition("::")
        many, values = key.endswith(".*"), self.recorded.get(chapter, {})
        matches = [values[each].value for each in values if each == key or (many and each.startswith(key[:-1]))]
        if not matches:
            raise KeyError(name)
        return matches if many else matches[0]

    def named(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of some keys, by other names. KeyError, with the key, for one that is not recorded."""
        return {name: self[key] for name, key in keys.items()}


#: a rule with the numbers in it, or UNCHECKED, which no rule decides; and a sentence or two of what was found
Judged = tuple[Rule | str, str]
Judge = Callable[[Numbers], Judged]


@dataclass(frozen=True)
class Claim:
    """A claim in our words, its place in the paper, and the rule that decides it.

    `name`: of its table in the file, and of its address, ledger.html#claim-NAME. `number` never changes: 1 to
    30 for the first claims of the paper, then in the order of addition. `part`: its subject within the group.
    `evidence`: the chapter to read, or a figure or table in it ("k1#figure-3"). `core`: much of the argument depends on
    it. `keys`: of the recorded values that decide it, CHAPTER::KEY, by the rule's names for them. `rests_on`: other
    claims, whose rules decide it.
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
    keys: Mapping[str, str] = field(default_factory=dict)
    rests_on: tuple[int, ...] = ()

    def judged(self, numbers: Numbers) -> "Entry":
        """Judge the claim. Raises ChapterError where a number is missing."""
        rule, finding = self.judge(numbers)
        verdict, decided_by = (rule.verdict(), rule) if isinstance(rule, Rule) else (rule, None)
        if verdict not in VERDICTS:
            raise ChapterError(f"claim {self.number} has the unknown verdict '{verdict}'", "claims ledger")
        return Entry(self, verdict, finding, decided_by)


@dataclass(frozen=True)
class Entry:
    """A judged claim; `rule` holds the numbers that decided, and is None where no rule decides."""

    claim: Claim
    verdict: str
    finding: str
    rule: Rule | None

    @property
    def bars(self) -> Mapping[str, Bar]:
        """The rule's bars that can be moved, without the bars of other claims that it rests on."""
        bars = self.rule.bars if self.rule else {}
        return {name: bar for name, bar in bars.items() if "." not in name}


FILE = Path(__file__).with_name("claims.toml")


def read_claims(path: Path = FILE) -> list[Claim]:
    """Read the claims of a file, a table each, by their names.

    number, group (a key of GROUPS), part, where, says, rule (in words), evidence, core: as of a `Claim`. numbers: the
    recorded values that decide it, CHAPTER::KEY (`Numbers`), by the names that rule and finding have for them. holds,
    in_part, undecided: the rule (`rules.read_condition`); bars: by name (`rules.read_bar`). verdict: UNCHECKED where nothing
    decides; algebra: what follows without a measurement. rests_on: claims whose rules and values a rule may use, and a
    finding as "{law[high]}". finding: a sentence or two with the recorded values, "{high} of {fits}".
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
            keys=table.get("numbers", {}),
            rests_on=tuple(tables[other]["number"] for other in table.get("rests_on", ())),
        )
        for name, table in tables.items()
    ]


def _judge_of(name: str, tables: Mapping[str, Any]) -> Judge:
    table = tables[name]
    keys: Mapping[str, str] = table.get("numbers", {})
    rests_on = {other: _judge_of(other, tables) for other in table.get("rests_on", ())}

    def judge(numbers: Numbers) -> Judged:
        try:
            values = numbers.named(keys)
        except KeyError as error:
            what = f"claim {name} names a number that no chapter has recorded: {error.args[0]}"
            remedy = "Record it there (page.record) and run `rbp book`, or name another key in claims.toml."
            raise ChapterError(what, "claims ledger", remedy) from None
        bars = {key: read_bar(bar) for key, bar in table.get("bars", {}).items()}
        for other, judge_other in rests_on.items():
            decided, _ = judge_other(numbers)
            if not isinstance(decided, Rule):
                return decided, f"It rests on claim {tables[other]['number']}, which no rule decides yet."
            rule = decided.of_claim(tables[other]["number"])
            decides: Condition = ("not", rule.undecided)
            values[other] = numbers.named(tables[other].get("numbers", {})) | {
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
            what = f"claim {name} cannot be judged by its numbers: {error}"
            raise ChapterError(what, "claims ledger", "Mend its table in claims.toml.") from None
        rule = Rule(holds, part, bars, undecided)
        return ALGEBRA if table.get("algebra") and rule.verdict() == HOLDS else rule, finding

    return judge


def lacking(numbers: Numbers) -> list[str]:
    """List the keys that claims name and no chapter has recorded, each with its claim."""
    missing = []
    for claim in read_claims():
        for key in claim.keys.values():
            try:
                numbers[key]
            except KeyError:
                missing.append(f"{key} (claim {claim.name})")
    return missing


def verdicts_of(project: Project, chapter: str, path: Path) -> list[str]:
    """Judge the claims that name values of a chapter, by the values of a run (`path`): a line and finding each."""
    concerned = [claim for claim in read_claims() if any(key.startswith(f"{chapter}::") for key in claim.keys.values())]
    if not concerned:
        return []
    numbers, lines = Numbers({**Numbers.read(project).recorded, **results.merge([path])}), []
    for claim in concerned:
        try:
            entry = claim.judged(numbers)
            lines.append(f"claim {claim.name}: {entry.verdict}. {entry.finding}")
        except ChapterError as error:
            lines.append(str(error))
    return lines


def judge_all(numbers: Numbers) -> list[Entry]:
    """Judge every claim, in the order of their numbers. Raises ChapterError where a number is missing."""
    return [each.judged(numbers) for each in sorted(read_claims(), key=lambda entry: entry.number)]


def stressed(entries: list[Entry], harder: float) -> list[Entry]:
    """Judge again with every bar so much harder, 0.2 for a fifth, or easier, −0.2."""
    return [replace(each, verdict=each.rule.stressed(harder)) if each.rule else each for each in entries]


def of_group(entries: list[Entry], group: Group) -> list[Entry]:
    """Select the entries of one group, in their order."""
    return [entry for entry in entries if entry.claim.group == group]


def counts(entries: list[Entry]) -> dict[str, int]:
    """Count the verdicts in each group, by "group.verdict"; `judged` are the claims that a rule was applied to."""
    result: dict[str, int] = {}
    for group in GROUPS:
        tally = Counter(VERDICTS[entry.verdict][0] for entry in of_group(entries, group))
        number = {key: tally[key] for key, _ in VERDICTS.values()}
        judged = sum(number[key] for key in ("holds", "part", "fails", "undecided"))
        number |= {"judged": judged, "all": tally.total()}
        result |= {f"{group.key}.{key}": count for key, count in number.items()}
    return result


def as_table(entries: list[Entry]) -> pd.DataFrame:
    """Return the ledger as a table, a row for each claim."""
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
