"""The ledger's frame: a claim of the paper, the rule that decides it, and the verdict that the numbers give."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rbp.book import results
from rbp.core.errors import ChapterError

HOLDS, PART, FAILS = "holds", "holds in part", "does not hold"
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
GROUPS = (PAPER, EARLIER, OTHERS, OWN)


class Numbers(Mapping[str, results.Value]):
    """What the chapters recorded, by "chapter::key". A missing number names the chapter that should record it."""

    def __init__(self, recorded: Mapping[str, Mapping[str, results.Recorded]]) -> None:
        self._values = {
            f"{chapter}::{key}": each.value for chapter, own in recorded.items() for key, each in own.items()
        }

    @classmethod
    def read(cls, chapters: Path) -> "Numbers":
        """Read the `results.json` of every executed chapter below `chapters`, but the ledger's own."""
        paths = sorted(path for path in chapters.glob("*/results.json") if path.parent.name != "01_claims")
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


#: a judge turns the recorded numbers into a verdict and a sentence or two of what was found
Judge = Callable[[Numbers], tuple[str, str]]


@dataclass(frozen=True)
class Claim:
    """A claim in our words, where it stands, and the rule that decides it.

    `number` is its name and stays: those of the paper and its earlier versions that were listed first are 1 to 30; those
    added since, of any group, count on from 31 in the order in which they came. `part` is its subject within the group.
    `evidence` names the chapter to read, or a figure or table in it ("10_k1#figure-3").
    """

    number: int
    group: Group
    part: str
    place: str
    text: str
    rule: str
    evidence: str
    judge: Judge


@dataclass(frozen=True)
class Entry:
    """A judged claim."""

    claim: Claim
    verdict: str
    finding: str


CLAIMS: list[Claim] = []


def claim(
    number: int, part: str, place: str, text: str, *, rule: str, evidence: str, group: Group = PAPER
) -> Callable[[Judge], Judge]:
    """Enter the decorated judge into the ledger."""

    def enter(judge: Judge) -> Judge:
        CLAIMS.append(Claim(number, group, part, place, text, rule, evidence, judge))
        return judge

    return enter


def by_exceptions(exceptions: int, cases: int, *, holds: float = 0.0, part: float = 0.5) -> str:
    """The verdict where at most the share `holds`, or at most the share `part`, of the cases are exceptions."""
    return HOLDS if exceptions <= holds * cases else PART if exceptions <= part * cases else FAILS


def judge_all(numbers: Numbers) -> list[Entry]:
    """Every claim, judged, in the order of their numbers. Raises ChapterError where a number is missing."""
    entries = []
    for each in sorted(CLAIMS, key=lambda entry: entry.number):
        verdict, finding = each.judge(numbers)
        if verdict not in VERDICTS:
            raise ChapterError(f"claim {each.number} has the unknown verdict '{verdict}'", "claims ledger")
        entries.append(Entry(each, verdict, finding))
    return entries


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


def badge(verdict: str) -> str:
    """A verdict as a small label: its sign and its words, so that colour is never alone."""
    key, sign = VERDICTS[verdict]
    return f'<span class="rbp-verdict rbp-{key}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def summary(entries: list[Entry]) -> str:
    """How many claims have each verdict, as a line of badges."""
    found = Counter(entry.verdict for entry in entries)
    items = "".join(f"<li>{badge(verdict)} <b>{found[verdict]}</b></li>" for verdict in VERDICTS if found[verdict])
    return f'<ul class="rbp-counts" aria-label="Verdicts">{items}</ul>'


def as_table(entries: list[Entry]) -> pd.DataFrame:
    """The ledger as a table of one row a claim."""
    rows = [
        (
            e.claim.number,
            e.claim.group.key,
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
        rows, columns=["claim", "group", "part", "text", "place", "verdict", "finding", "rule", "evidence"]
    )


def render(entries: list[Entry], titles: Mapping[str, str]) -> str:
    """The ledger as HTML, by group and subject: tables on a wide page, one card for each claim on a phone.

    `titles` maps a chapter's name to its title, for the links to the evidence.
    """
    return "".join(_section(group, own, titles) for group in GROUPS if (own := of_group(entries, group)))


def _section(group: Group, entries: list[Entry], titles: Mapping[str, str]) -> str:
    parts = list(dict.fromkeys(entry.claim.part for entry in entries))
    tables = "".join(
        f"<h4>{html.escape(part)}</h4>"
        f"<table><thead><tr><th>No.</th><th>{group.says}</th><th>Verdict</th><th>We find</th></tr></thead><tbody>"
        + "".join(_row(entry, titles) for entry in entries if entry.claim.part == part)
        + "</tbody></table>"
        for part in parts
    )
    return f'<section class="rbp-ledger" id="claims-{group.key}"><h3>{group.title}</h3>{summary(entries)}{tables}</section>'


def _typeset(text: str) -> str:
    """A sentence as HTML: indices and exponents set as such, RBP_k, S^(−α), and thousands apart, as in 20 000."""
    text = re.sub(r"(?<=\d)[, ](?=\d{3}(?!\d))", "\N{NARROW NO-BREAK SPACE}", text)
    marked = re.sub(r"\^\(([^()]+)\)|\^(\w)", lambda m: f"<sup>{m[1] or m[2]}</sup>", html.escape(text))
    return re.sub(r"(?<=[A-Zα])_(\d+|[a-zSN])(?![a-z\d])", r"<sub>\1</sub>", marked)


def _row(entry: Entry, titles: Mapping[str, str]) -> str:
    claim = entry.claim
    chapter, _, anchor = claim.evidence.partition("#")
    title = html.escape(titles.get(chapter, chapter))
    target = f"{chapter}.html#{anchor}" if anchor else f"{chapter}.html"
    link = f'<a class="rbp-evidence" href="{target}">Evidence: {title}</a>'
    return (
        f'<tr id="claim-{claim.number}"><td class="no">{claim.number}</td>'
        f'<td>{_typeset(claim.text)} <span class="rbp-place">({html.escape(claim.place)})</span></td>'
        f"<td>{badge(entry.verdict)}</td>"
        f'<td>{_typeset(entry.finding)}<span class="rbp-rule">Rule: {_typeset(claim.rule)}</span>{link}</td></tr>'
    )
