"""The ledger's page: filters, a line for each claim that unfolds, sliders. book/_static/ledger.js moves them."""

import html
import re
from collections import Counter
from collections.abc import Mapping

from companion.ledger.claims import GROUPS, VERDICTS, WEIGHTS, Claim, Entry, Group, of_group
from companion.ledger.rules import Bar
from companion.page import data_within


def render(entries: list[Entry], titles: Mapping[str, str]) -> str:
    """Write the ledger as HTML: filters, then a line for each claim, by group and subject, which unfolds.

    `titles` maps a chapter's name to its title, for the links to the evidence. Without its script the page shows all
    claims with the verdicts of the rules as they are; filters and sliders are for the script to show.
    """
    data = {
        "verdicts": VERDICTS,
        "rules": {entry.claim.number: entry.rule.as_data() for entry in entries if entry.rule and entry.rule.bars},
    }
    sections = "".join(_section(group, members, titles) for group in GROUPS if (members := of_group(entries, group)))
    status = '<p class="rbp-ledger-count" role="status" hidden></p>'
    return f'<div class="rbp-ledger">{_tools(entries)}{sections}{status}{data_within(data)}</div>'


def _target(claim: Claim) -> str:
    """Return the address of the figure, table or chapter that decides a claim."""
    chapter, _, anchor = claim.evidence.partition("#")
    return f"{chapter}.html#{anchor}" if anchor else f"{chapter}.html"


def summary(entries: list[Entry]) -> str:
    """Count the claims of each verdict, as a line of badges."""
    counts = Counter(entry.verdict for entry in entries)
    items = "".join(f"<li>{badge(verdict)} <b>{counts[verdict]}</b></li>" for verdict in VERDICTS if counts[verdict])
    return f'<ul class="rbp-counts" aria-label="Verdicts">{items}</ul>'


def badge(verdict: str) -> str:
    """Label a verdict with its sign and its words, so that colour is never alone."""
    key, sign = VERDICTS[verdict]
    return f'<span class="rbp-verdict rbp-{key}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def _tools(entries: list[Entry]) -> str:
    groups = {group.key: group.title for group in GROUPS if of_group(entries, group)}
    verdicts = {verdict: verdict for verdict in VERDICTS}
    buttons = (("easy", "All bars a fifth easier"), ("at", "Reset"), ("hard", "All bars a fifth harder"))
    return (
        '<div class="rbp-ledger-tools" hidden><div class="rbp-ledger-row">'
        + _choice("group", "Source", "all", groups)
        + _choice("weight", "Weight", "all", {each: each for each in WEIGHTS.values()})
        + _choice("verdict", "Verdict", "all", verdicts)
        + _field("text", "Search", '<input type="search" id="rbp-ledger-text">')
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
    lists = "".join(
        f'<div class="rbp-ledger-part"><h4>{html.escape(part)}</h4>'
        + "".join(_claim(entry, titles) for entry in entries if entry.claim.part == part)
        + "</div>"
        for part in parts
    )
    return f'<section id="claims-{group.key}"><h3>{group.title}</h3>{summary(entries)}{lists}</section>'


def _typeset(text: str) -> str:
    """Set a sentence as HTML: indices and exponents, RBP_k, S^(−α), and thousands apart, as in 20 000."""
    text = re.sub(r"(?<=\d)[, ](?=\d{3}(?!\d))", "\N{NARROW NO-BREAK SPACE}", text)
    marked = re.sub(r"\^\(([^()]+)\)|\^(\w)", lambda m: f"<sup>{m[1] or m[2]}</sup>", html.escape(text))
    return re.sub(r"(?<=[A-Zα])_(\d+|[a-zSN])(?![a-z\d])", r"<sub>\1</sub>", marked)


def _claim(entry: Entry, titles: Mapping[str, str]) -> str:
    claim, number = entry.claim, entry.claim.number
    chapter = claim.evidence.partition("#")[0]
    title = html.escape(titles.get(chapter, chapter))
    core = '<span class="rbp-core">core</span>' if claim.core else ""
    sliders = "".join(_slider(number, name, bar) for name, bar in entry.bars.items())
    others = ", ".join(f'<a href="#claim-{other}">{other}</a>' for other in claim.rests_on)
    moving = '<p class="rbp-rule">This rule is a yes or no: it has no bar to move.</p>'
    if sliders:
        moving = f'<div class="rbp-bars" hidden>{sliders}<button type="button" data-reset>Reset</button></div>'
    elif others:
        moving = f'<p class="rbp-rule">It moves with the bars of the claims on which it rests: {others}.</p>'
    return (
        f'<details class="rbp-claim" id="claim-{claim.name}" data-number="{number}" data-verdict="{entry.verdict}" '
        f'data-weight="{WEIGHTS[claim.core]}">'
        # addresses by number lead on
        f'<summary><span class="rbp-number" id="claim-{number}">{number}</span>{badge(entry.verdict)}'
        f'<span class="rbp-says">{_typeset(claim.text)}</span>{core}</summary>'
        f'<div class="rbp-finding"><p>{_typeset(entry.finding)}</p>'
        f'<p class="rbp-rule">Rule: {_typeset(claim.rule)}.</p>{moving}'
        f'<p class="rbp-evidence"><a href="{_target(claim)}">Evidence: {title}</a> · Source: '
        f'{html.escape(claim.place)} · <a href="#claim-{claim.name}">Link to this claim</a></p></div></details>'
    )


def _slider(number: int, name: str, bar: Bar) -> str:
    shown = f"{100 * bar.at:g}%" if bar.percent else f"{bar.at:g}"
    key = f"rbp-bar-{number}-{name}"
    return (
        f'<label for="{key}">{html.escape(bar.says)}: <b>{shown}</b></label>'
        f'<input type="range" id="{key}" data-bar="{name}" min="{bar.low:g}" max="{bar.high:g}" step="{bar.step:g}" '
        f'value="{bar.at:g}">'
    )
