"""The checked equations as HTML for a page: each typeset from the expression that was checked."""

import html
from collections.abc import Iterable

from rbp.derivation.equations import FAILS, FOLLOWS, PART, Checked

#: verdict → (class of its colour, sign), as in the ledger
_BADGES = {FOLLOWS: ("rbp-holds", "✓"), PART: ("rbp-part", "◐"), FAILS: ("rbp-fails", "✗")}


def display(tex: str) -> str:
    """A displayed formula, which scrolls within itself where it is wider than a phone."""
    formula = f'<div class="math notranslate nohighlight">\\[{html.escape(tex)}\\]</div>'
    return f'<div class="rbp-scroll" tabindex="0">{formula}</div>'


def badge(verdict: str) -> str:
    """A verdict as a small label: its sign and its words."""
    kind, sign = _BADGES[verdict]
    return f'<span class="rbp-verdict {kind}"><span aria-hidden="true">{sign}</span> {verdict}</span>'


def rendered(checked: Iterable[Checked]) -> str:
    """One block for each: claim and verdict, the equation, what was found, and the lines of the check."""
    return "".join(_block(one) for one in checked)


def _block(one: Checked) -> str:
    lines = "".join(f"<dt>{html.escape(name)}</dt><dd>{display(tex)}</dd>" for name, tex in one.work)
    name = f"Equation ({one.number})" if one.number[0].isdigit() else one.number[0].upper() + one.number[1:]
    claim = f"<p><b>{html.escape(name)}.</b> {html.escape(one.claim)} {badge(one.verdict)}</p>"
    return (
        f'<section class="rbp-equation">{claim}'
        f"{display(one.equation.tex)}<p>{html.escape(one.finding)}</p>"
        f"<details><summary>How it was checked: {html.escape(one.by)}</summary><dl>{lines}</dl></details></section>"
    )


def listed(formulas: Iterable[tuple[str, str]]) -> str:
    """Named formulas, one below the other: (name, TeX) each."""
    return "<dl>" + "".join(f"<dt>{html.escape(name)}</dt><dd>{display(tex)}</dd>" for name, tex in formulas) + "</dl>"
