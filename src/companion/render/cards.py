"""Cards: a permanent address for each claim and each figure, which leads on to it.

Where a link to one is shared, its sentence is shown (Open Graph): the claim with its verdict, or the figure's finding
with its picture. The addresses, ``claims/NUMBER.html`` and ``figures/CHAPTER-NAME.html``, stay when pages are moved.
"""

import html
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from companion.ledger.claims import Entry
from companion.render import numbered
from companion.render.ledger_page import card_of

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="description" content="{sentence}">
<meta property="og:title" content="{title}"><meta property="og:description" content="{sentence}">
<meta property="og:type" content="article">{picture}
<meta http-equiv="refresh" content="0; url=../{target}"><link rel="icon" href="data:,">
<p>{sentence} <a href="../{target}">Read it in the book</a></p></html>
"""


class Card(NamedTuple):
    """A card: its address, title, sentence, what it leads to, and its picture ("" for none), from the book's folder."""

    address: str
    title: str
    sentence: str
    target: str
    picture: str = ""

    def page(self, site: str) -> str:
        """Write the card as HTML. site: where the book is served; without it no picture can be named."""
        image = f'<meta property="og:image" content="{html.escape(site + self.picture)}">'
        return PAGE.format(
            title=html.escape(self.title),
            sentence=html.escape(self.sentence),
            target=html.escape(self.target),
            picture=image if site and self.picture else "",
        )


def claim_cards(entries: list[Entry]) -> Iterator[Card]:
    """Make a card of each claim: its verdict and its finding."""
    for entry in entries:
        claim = entry.claim
        title = f"Claim {claim.number}, {entry.verdict}: {claim.text}"
        yield Card(card_of(claim), title, entry.finding, f"notebooks/ledger.html#claim-{claim.name}")


def figure_cards(chapter: str, title: str, cells: list[dict[str, Any]], elsewhere: Mapping[str, str]) -> Iterator[Card]:
    """Make a card of each figure and table of an executed chapter: the finding in its caption.

    elsewhere: the pages by hand that show a figure of the chapter which its own page does not, by the figure's name.
    """
    outputs = [(cell, output) for cell in cells for output in cell.get("outputs", [])]
    for cell, output in outputs:
        markup = "".join(output.get("data", {}).get("text/html", "")).strip()
        if match := numbered.SHOWN.fullmatch(markup):
            name, picture = match["name"], "" if match["table"] else f"notebooks/{chapter}/{match['name']}.png"
            finding = numbered.finding_of(match["caption"])
            removed = "remove-cell" in cell["metadata"].get("tags", [])
            page = elsewhere.get(name) if removed else f"notebooks/{chapter}.html"
            if page:
                yield Card(numbered.card_of(chapter, name), title, finding, f"{page}#{name}", picture)


def write_cards(folder: Path, cards: Iterable[Card], site: str) -> None:
    """Write cards into a folder whose files become the book's. site: where the book is served, or ""."""
    for card in cards:
        path = folder / card.address
        path.parent.mkdir(exist_ok=True)
        path.write_text(card.page(site), encoding="utf-8")
