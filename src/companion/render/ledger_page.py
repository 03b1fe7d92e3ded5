"""The ledger's page: a line for each claim that unfolds, with filters, which book/_static/ledger.js shows."""

import html
import re
from collections import Counter
from collections.abc import Mapping

from companion.ledger.claims import ARGUMENT, GROUPS, VERDICTS, WEIGHTS, Claim, Entry, Group, of_group

Stressed = Mapping[str, list[Entry]]
"""All claims judged with other bars, by words such as "20% harder"."""


def render(entries: list[Entry], stressed: Stressed, titles: Mapping[str, str]) -> str:
    """Write the ledger as HTML: filters, then a line for each claim, by group and subject, which unfolds.

    entries and each list of `stressed`: of `judge_all`. `titles` maps a chapter's name to its title, for the links to
    the evidence. Without its script the page shows all claims; filters are for the script to show.
    """
    other = {
        entry.claim.name: {words: judged[i].verdict for words, judged in stressed.items()}
        for i, entry in enumerate(entries)
    }
    sections = "".join(
        _section(group, members, other, titles) for group in GROUPS if (members := of_group(entries, group))
    )
    status = '<p class="rbp-ledger-count" role="status" hidden></p>'
    return f'<div class="rbp-ledger">{_tools(entries)}{sections}{status}</div>'


def _target(claim: Claim) -> str:
    """Return the address of the figure, table or chapter that decides a claim."""
    chapter, _, anchor = claim.evidence.partition("#")
    return f"{chapter}.html#{anchor}" if anchor else f"{chapter}.html"


def card_of(claim: Claim) -> str:
    """Return the address of a claim's card (`companion.render.cards`), from the first page's folder's parent."""
    return f"claims/{claim.number}.html"


def count_verdicts(entries: list[Entry]) -> str:
    """Count the claims of each verdict, as a line of badges."""
    counts = Counter(entry.verdict for entry in entries)
    present = [verdict for verdict in VERDICTS if counts[verdict]]
    items = "".join(f"<li>{write_badge(verdict)} <b>{counts[verdict]}</b></li>" for verdict in present)
    return f'<ul class="rbp-counts" aria-label="Verdicts">{items}</ul>'


def write_badge(verdict: str) -> str:
    """Label a verdict with its sign and its words, so that colour is never alone."""
    key, sign = VERDICTS[verdict]
    return f'<span class="rbp-verdict rbp-{key}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def _tools(entries: list[Entry]) -> str:
    groups = {group.key: group.title for group in GROUPS if of_group(entries, group)}
    verdicts = {verdict: verdict for verdict in VERDICTS}
    return (
        '<div class="rbp-ledger-tools rbp-ledger-row" hidden>'
        + _choice("group", "Source", "all", groups)
        + _choice("weight", "Weight", "all", {weight: weight for weight in WEIGHTS.values()})
        + _choice("verdict", "Verdict", "all", verdicts)
        + _field("text", "Search", '<input type="search" id="rbp-ledger-text">')
        + '<button type="button" class="rbp-ledger-clear">Clear filters</button></div>'
    )


def _choice(name: str, label: str, every: str, options: Mapping[str, str]) -> str:
    listed = "".join(f'<option value="{key}">{html.escape(says)}</option>' for key, says in options.items())
    return _field(name, label, f'<select id="rbp-ledger-{name}"><option value="">{every}</option>{listed}</select>')


def _field(name: str, label: str, control: str) -> str:
    return f'<div class="rbp-ledger-field"><label for="rbp-ledger-{name}">{label}</label>{control}</div>'


def _section(
    group: Group, entries: list[Entry], other: Mapping[str, Mapping[str, str]], titles: Mapping[str, str]
) -> str:
    parts = list(dict.fromkeys(entry.claim.part for entry in entries))
    lists = "".join(
        f'<div class="rbp-ledger-part"><h4>{html.escape(part)}</h4>'
        + "".join(_claim(entry, other[entry.claim.name], titles) for entry in entries if entry.claim.part == part)
        + "</div>"
        for part in parts
    )
    return f'<section id="claims-{group.key}"><h3>{group.title}</h3>{count_verdicts(entries)}{lists}</section>'


def typeset(text: str) -> str:
    """Set a sentence as HTML: indices and exponents, RBP_k, S^(−α), and thousands as in 20,000."""
    text = re.sub(r"(?<=\d) (?=\d{3}(?!\d))", ",", text)
    marked = re.sub(r"\^\(([^()]+)\)|\^(\w)", lambda m: f"<sup>{m[1] or m[2]}</sup>", html.escape(text))
    return re.sub(r"(?<=[A-Zα])_(\d+|[a-zSN])(?![a-z\d])", r"<sub>\1</sub>", marked)


def _claim(entry: Entry, other: Mapping[str, str], titles: Mapping[str, str]) -> str:
    claim, number = entry.claim, entry.claim.number
    chapter = claim.evidence.partition("#")[0]
    title = html.escape(titles.get(chapter, chapter))
    core = '<span class="rbp-core">core</span>' if claim.core else ""
    # whoever only scrolls reads these whole
    open_class = " rbp-whole" if claim.core or claim.group is ARGUMENT else ""
    return (
        f'<details class="rbp-claim{open_class}" id="claim-{claim.name}" data-number="{number}" '
        f'data-verdict="{entry.verdict}" '
        f'data-weight="{WEIGHTS[claim.core]}">'
        # addresses by number lead on
        f'<summary><span class="rbp-number" id="claim-{number}">{number}</span>{write_badge(entry.verdict)}'
        f'<span class="rbp-says">{typeset(claim.text)}</span>{core}</summary>'
        f'<div class="rbp-finding"><p>{typeset(entry.finding)}</p>'
        f'<p class="rbp-rule">Rule: {typeset(claim.rule)}.</p><p class="rbp-rule">{_bars(entry, other)}</p>'
        f'<p class="rbp-evidence"><a href="{_target(claim)}">Evidence: {title}</a> · Source: '
        f'{html.escape(claim.place)} · <a href="../{card_of(claim)}">Permanent link</a></p></div></details>'
    )


def _bars(entry: Entry, other: Mapping[str, str]) -> str:
    """Name the bars of a claim, or the claims whose bars it has, with the verdicts where all are easier or harder."""
    claim = entry.claim
    if not claim.bars and not claim.rests_on:
        return "This rule is a yes or no: it has no bar."
    bars = [html.escape(bar.in_words()) for bar in claim.bars.values()]
    links = [f'<a href="#claim-{other_claim.name}">{other_claim.number}</a>' for other_claim in claim.others]
    bars += [f"of the claims on which it rests: {', '.join(links)}"] * bool(links)
    verdicts = "; ".join(f"{words}: {write_badge(verdict)}" for words, verdict in other.items())
    return f"Bars: {'; '.join(bars)}.<br>With all bars {verdicts}"
