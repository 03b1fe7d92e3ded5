"""The ledger as its page shows it: rows, filters and sliders. What moves them is book/_static/ledger.js."""

import html
import re
from collections import Counter
from collections.abc import Mapping

from companion.ledger.claims import ARGUMENT, GROUPS, PAPER, VERDICTS, WEIGHTS, Claim, Entry, Group, of_group
from companion.ledger.rules import Bar
from companion.page import data_within

LEAD = 22


def render(entries: list[Entry], titles: Mapping[str, str]) -> str:
    """The ledger as HTML, by group and subject: tables on a wide page, one card for each claim on a phone.

    `titles` maps a chapter's name to its title, for the links to the evidence. Without its script the page shows all
    rows with the verdicts of the rules as they are; filters and sliders are for the script to show.
    """
    data = {
        "verdicts": VERDICTS,
        "rules": {entry.claim.number: entry.rule.as_data() for entry in entries if entry.rule and entry.rule.bars},
    }
    found = {group: _section(group, own, titles) for group in GROUPS if (own := of_group(entries, group))}
    first, rest = found.pop(ARGUMENT, ""), "".join(found.values())
    status = '<p class="rbp-ledger-count" role="status" hidden></p>'
    return f'<div class="rbp-ledger">{first}{_core(entries)}{_tools(entries)}{rest}{status}{data_within(data)}</div>'


def _core(entries: list[Entry]) -> str:
    """What matters most: the paper's core claims in a line each, with a link to the row and to what decides it."""
    items = "".join(
        f'<li>{badge(entry.verdict)} <a href="#claim-{entry.claim.name}">{_typeset(entry.claim.text)}</a> '
        f'<a class="rbp-evidence" href="{_target(entry.claim)}">what decides it</a></li>'
        for entry in of_group(entries, PAPER)
        if entry.claim.core
    )
    return f'<div class="rbp-ledger-core"><h3>What matters most</h3><ul>{items}</ul></div>'


def _target(claim: Claim) -> str:
    """Where what decides a claim is shown."""
    chapter, _, anchor = claim.evidence.partition("#")
    return f"{chapter}.html#{anchor}" if anchor else f"{chapter}.html"


def summary(entries: list[Entry]) -> str:
    """How many claims have each verdict, as a line of badges."""
    found = Counter(entry.verdict for entry in entries)
    items = "".join(f"<li>{badge(verdict)} <b>{found[verdict]}</b></li>" for verdict in VERDICTS if found[verdict])
    return f'<ul class="rbp-counts" aria-label="Verdicts">{items}</ul>'


def badge(verdict: str) -> str:
    """A verdict as a small label: its sign and its words, so that colour is never alone."""
    key, sign = VERDICTS[verdict]
    return f'<span class="rbp-verdict rbp-{key}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def _tools(entries: list[Entry]) -> str:
    groups = {group.key: group.title for group in GROUPS if of_group(entries, group)}
    found = {verdict: verdict for verdict in VERDICTS}
    buttons = (("easy", "All bars a fifth easier"), ("at", "As set"), ("hard", "All bars a fifth harder"))
    return (
        '<div class="rbp-ledger-tools" hidden><div class="rbp-ledger-row">'
        + _choice("group", "Whose", "everybody’s", groups)
        + _choice("weight", "Weight", "core and detail", {each: each for each in WEIGHTS.values()})
        + _choice("verdict", "Verdict", "any", found)
        + _field("text", "With the words", '<input type="search" id="rbp-ledger-text">')
        + '</div><div class="rbp-ledger-buttons">'
        + "".join(f'<button type="button" data-all="{where}">{says}</button>' for where, says in buttons)
        + "</div></div>"
    )


def _choice(name: str, label: str, every: str, options: Mapping[str, str]) -> str:
    listed = "".join(f'<option value="{key}">{html.escape(says)}</option>' for key, says in options.items())
    return _field(name, label, f'<select id="rbp-ledger-{name}"><option value="">{every}</option>{listed}</select>')


def _field(name: str, label: str, control: str) -> str:
    return f'<div class="rbp-ledger-field"><label for="rbp-ledger-{name}">{label}</label>{control}</div>'


def _section(group: Group, entries: list[Entry], titles: Mapping[str, str]) -> str:
    parts = list(dict.fromkeys(entry.claim.part for entry in entries))
    tables = "".join(
        f'<div class="rbp-ledger-part"><h4>{html.escape(part)}</h4>'
        f"<table><thead><tr><th>No.</th><th>{group.says}</th><th>Verdict</th><th>We find</th></tr></thead><tbody>"
        + "".join(_row(entry, titles) for entry in entries if entry.claim.part == part)
        + "</tbody></table></div>"
        for part in parts
    )
    return f'<section id="claims-{group.key}"><h3>{group.title}</h3>{summary(entries)}{tables}</section>'


def _typeset(text: str) -> str:
    """A sentence as HTML: indices and exponents set as such, RBP_k, S^(−α), and thousands apart, as in 20 000."""
    text = re.sub(r"(?<=\d)[, ](?=\d{3}(?!\d))", "\N{NARROW NO-BREAK SPACE}", text)
    marked = re.sub(r"\^\(([^()]+)\)|\^(\w)", lambda m: f"<sup>{m[1] or m[2]}</sup>", html.escape(text))
    return re.sub(r"(?<=[A-Zα])_(\d+|[a-zSN])(?![a-z\d])", r"<sub>\1</sub>", marked)


def _folded(finding: str) -> tuple[str, str]:
    """What is seen of a finding, whole sentences of LEAD words or more; and the rest, which is folded."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z−“αμσ])", finding)
    seen = next((i for i in range(1, len(sentences)) if len(" ".join(sentences[:i]).split()) >= LEAD), len(sentences))
    return " ".join(sentences[:seen]), " ".join(sentences[seen:])


def _row(entry: Entry, titles: Mapping[str, str]) -> str:
    claim, number = entry.claim, entry.claim.number
    chapter = claim.evidence.partition("#")[0]
    title = html.escape(titles.get(chapter, chapter))
    core = ' <span class="rbp-core">core</span>' if claim.core else ""
    lead, rest = _folded(entry.finding)
    more = f"<p>{_typeset(rest)}</p>" if rest else ""
    sliders = "".join(_slider(number, name, bar) for name, bar in entry.bars.items())
    others = ", ".join(f'<a href="#claim-{other}">{other}</a>' for other in claim.rests_on)
    moving = '<p class="rbp-rule">This rule is a yes or no: it has no bar to move.</p>'
    if sliders:
        moving = f'<div class="rbp-bars" hidden>{sliders}<button type="button" data-reset>As set</button></div>'
    elif others:
        moving = f'<p class="rbp-rule">It moves with the bars of the claims on which it rests: {others}.</p>'
    return (
        f'<tr id="claim-{claim.name}" data-number="{number}" data-verdict="{entry.verdict}" '
        f'data-weight="{WEIGHTS[claim.core]}">'
        # addresses by number lead on
        f'<td class="no" id="claim-{number}"><a href="#claim-{claim.name}" aria-label="Claim {number}, link to it">'
        f"{number}</a></td>"
        f'<td>{_typeset(claim.text)} <span class="rbp-place">({html.escape(claim.place)})</span>{core}</td>'
        f"<td>{badge(entry.verdict)}</td>"
        f"<td>{_typeset(lead)}<details><summary>{'More, and the rule' if more else 'The rule'}</summary>{more}"
        f'<p class="rbp-rule">Rule: {_typeset(claim.rule)}.</p>{moving}</details>'
        f'<a class="rbp-evidence" href="{_target(claim)}">Evidence: {title}</a></td></tr>'
    )


def _slider(number: int, name: str, bar: Bar) -> str:
    shown = f"{100 * bar.at:g}%" if bar.percent else f"{bar.at:g}"
    key = f"rbp-bar-{number}-{name}"
    return (
        f'<label for="{key}">{html.escape(bar.says)}: <b>{shown}</b></label>'
        f'<input type="range" id="{key}" data-bar="{name}" min="{bar.low:g}" max="{bar.high:g}" step="{bar.step:g}" '
        f'value="{bar.at:g}">'
    )
