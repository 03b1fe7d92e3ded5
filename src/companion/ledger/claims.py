"""The claims of the ledger, the rules that decide them, and the verdicts that the numbers give."""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from companion.execute import results
from companion.execute.prose import all_or_none
from companion.execute.rules import FAILS, HOLDS, PART, UNDECIDED, Bar, is_met, names_in
from companion.project import CLAIMS, Project
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
        values = self.recorded.get(chapter, {})
        matches = [values[matching_key].value for matching_key in results.select(values, key)]
        if not matches:
            raise KeyError(name)
        return matches if key.endswith(".*") else matches[0]

    def named(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of some keys, by other names. KeyError, with the key, for one that is not recorded."""
        return {name: self[key] for name, key in keys.items()}


#: a condition that is never met, for a rule without such a part
NEVER = "1 > 2"
Name = Annotated[str, Field(pattern=r"^[a-z]\w*$")]
Key = Annotated[str, Field(pattern=r"^\w+::[^:]+$")]


def _find_group(key: Any) -> Any:
    groups = {group.key: group for group in GROUPS}
    if key not in groups:
        raise ValueError(f"it is not one of {', '.join(groups)}")
    return groups[key]


class Claim(BaseModel):
    """A claim in our words, its place in the paper, and the rule that decides it: a table of claims.toml.

    name: of its table, and of its address, ledger.html#claim-NAME. number never changes: 1 to 30 for the first claims of
    the paper, then in the order of addition. group: a key of GROUPS; part: its subject within the group. place ("where"
    in the file): in the paper. text ("says"). rule: in words. evidence: the chapter to read, or a figure or table in it,
    "holds#law-k1". core: much of the argument depends on it.

    keys ("numbers"): the recorded values that decide it, CHAPTER::KEY (`Numbers`), by the names that rule and finding
    have for them. rests_on: claims whose values and verdicts they may use: `law.high`, `law.holds`, `law.in_part` and
    `law.undecided` in a rule, {law[high]} in a finding. holds, in_part, undecided: the rule (`rules.is_met`); where it is
    undecided, the other two do not count. bars: by name. verdict: where no rule decides. algebra: what follows without a
    measurement. finding: a sentence or two with the values, "{high} of {fits}".
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Name
    number: int
    group: Annotated[Group, BeforeValidator(_find_group)] = PAPER
    part: str
    place: str = Field(alias="where")
    text: str = Field(alias="says")
    rule: str
    evidence: str
    core: bool = False
    keys: dict[Name, Key] = Field(alias="numbers", default={})
    rests_on: list[str] = []
    holds: str = NEVER
    in_part: str = NEVER
    undecided: str = NEVER
    bars: dict[Name, Bar] = {}
    verdict: Literal["cannot be checked here"] | None = None
    algebra: bool = False
    finding: str
    _others: dict[str, "Claim"] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check_names(self) -> "Claim":
        """See that something decides it, and that rule and finding name what there is."""
        if self.holds == NEVER and not self.verdict:
            raise ValueError("holds: missing; or verdict, where no rule decides")
        values = {*self.keys, *self.rests_on}
        in_finding = (re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(self.finding) if name)
        named = {"finding": (set(in_finding), values)}
        for field, text in {"holds": self.holds, "in_part": self.in_part, "undecided": self.undecided}.items():
            named[field] = set(names_in(text)), values | {*self.bars}
        for field, (names, allowed) in named.items():
            if unknown := sorted(names - allowed):
                has = ", ".join(sorted(allowed)) or "none"
                raise ValueError(f"{field}: there is no {unknown[0]} among its numbers, bars and claims: {has}")
        return self

    @property
    def others(self) -> list["Claim"]:
        """The claims on which it rests."""
        return list(self._others.values())

    def judged(self, numbers: Numbers, harder: float = 0.0) -> "Entry":
        """Judge the claim with all bars so much harder, 0.2 for a fifth, or easier, −0.2.

        Raises ChapterError where a number is missing, or cannot be compared as the rule compares it.
        """
        try:
            values = numbers.named(self.keys)
        except KeyError as error:
            fault = f"claim {self.name} names a number that no chapter has recorded: {error.args[0]}"
            remedy = "Record it there (page.record) and run `rbp book`, or name another key in claims.toml."
            raise ChapterError(fault, "claims ledger", remedy) from None
        for name, other in self._others.items():
            decided = other.judged(numbers, harder).verdict
            if decided in (UNCHECKED, ALGEBRA):
                return Entry(self, decided, f"It rests on claim {other.number}, which no rule decides yet.")
            flags = {"holds": decided == HOLDS, "in_part": decided in (HOLDS, PART), "undecided": decided == UNDECIDED}
            values[name] = numbers.named(other.keys) | flags
        try:
            finding = all_or_none(re.sub(r"(?<![\w.])-(?=\d)", "−", self.finding.format(**values)))
            return Entry(self, self.verdict or self._decide(values, harder), finding)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            fault = f"claim {self.name} cannot be judged by its numbers: {error}"
            raise ChapterError(fault, "claims ledger", "Correct its table in claims.toml.") from None

    def _decide(self, values: Mapping[str, Any], harder: float) -> str:
        values = {**values, **{name: bar.moved(harder) for name, bar in self.bars.items()}}
        if is_met(self.undecided, values):
            return UNDECIDED
        if is_met(self.holds, values):
            return ALGEBRA if self.algebra else HOLDS
        return PART if is_met(self.in_part, values) else FAILS


@dataclass(frozen=True)
class Entry:
    """A judged claim: its verdict, and what was found."""

    claim: Claim
    verdict: str
    finding: str


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """Read the claims of a file, a table each. Raises ChapterError with each claim's faults, by field."""
    claims: dict[str, Claim] = {}
    faults: list[str] = []
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ChapterError(f"the claims are not TOML: {error}", path.name) from None
    for name, table in tables.items():
        try:
            claims[name] = Claim.model_validate({"name": name} | table)
        except ValidationError as error:
            for fault in error.errors():
                place = ".".join([name, *map(str, fault["loc"])])
                faults.append(f"{place}: {fault['msg'].removeprefix('Value error, ')}")
    taken: dict[int, str] = {}
    for claim in claims.values():
        if (first := taken.setdefault(claim.number, claim.name)) != claim.name:
            faults.append(f"{claim.name}.number: {claim.number} is {first}'s; {max(taken) + 1} is free")
        faults += [f"{claim.name}.rests_on: there is no claim {name}" for name in claim.rests_on if name not in tables]
        claim._others.update({name: claims[name] for name in claim.rests_on if name in claims})
    if faults:
        raise ChapterError("claims are not valid", "\n".join(faults), f"Correct them in {path.name}.")
    return list(claims.values())


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


def judge_all(numbers: Numbers, harder: float = 0.0) -> list[Entry]:
    """Judge every claim as `Claim.judged` does, in the order of their numbers."""
    return [claim.judged(numbers, harder) for claim in sorted(read_claims(), key=lambda claim: claim.number)]


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
