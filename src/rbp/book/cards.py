"""What others show of a link to a page: a card, 1200 × 630 pixels, with its question, its answer and a figure.

Typst sets them, with its own fonts and Matplotlib's, so that they are the same bytes on every machine.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from rbp.core.files import write_file

SIZE = 1200, 630
"""The pixels of a card."""

COLOURS = 128
"""How many colours a card has at most: a third of the bytes, and no difference to be seen."""

_ON_PAPER = {
    "<svg": '<svg xmlns="http://www.w3.org/2000/svg"',
    "currentColor": "#202124",
    "var(--rbp-grid,#8884)": "#d9dbde",
}
"""How a drawing within a page stands by itself: with INK and FAINT of `figure_style`, which takes long to import."""

EDGE = 6
"""What may stand out of a drawing, on either side, in its own points: a letter's foot."""

_VIEW = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_TEMPLATE = """
#set page(width: 1200pt, height: 630pt, margin: 0pt, fill: white)
#set text(font: ("Libertinus Serif", "DejaVu Sans"), fill: rgb("#202124"), lang: "en", hyphenate: false)
#set par(leading: 0.5em, linebreaks: "optimized")
#let blue = rgb("#2A7FC0")
// A text at the largest of the sizes, in points, at which it keeps within a box.
#let fitted(width, height, sizes, body) = layout(_ => {
  let set-at(size) = block(width: width, spacing: 0pt, body(size * 1pt))
  set-at(sizes.find(size => measure(set-at(size)).height <= height))
})
#for card in json(bytes(sys.inputs.cards)) {
  let wide = if card.pictures.len() > 0 { 500pt } else { 1060pt }
  let (question, answer) = if card.pictures.len() > 0 { (56, 33) } else { (80, 48) }
  page({
    place(rect(width: 14pt, height: 100%, fill: blue))
    place(dx: 62pt, dy: 48pt, text(24pt, fill: rgb("#5a6068"), card.place))
    let (side, down) = if card.pictures.len() > 0 { (top, 100pt) } else { (horizon, 0pt) }
    place(side, dx: 62pt, dy: down, {
      fitted(wide, 200pt, range(question, 0, step: -2), size => text(size, weight: "semibold", card.question))
      v(30pt)
      fitted(wide, 210pt, range(answer, 0, step: -1), size => text(size, card.answer))
    })
    place(bottom, dx: 62pt, dy: -36pt, text(24pt, fill: blue, weight: "semibold", card.book))
    place(right + horizon, dx: -30pt, stack(spacing: 10pt, ..card.pictures.map(((width, drawn)) => {
      align(center, image(bytes(drawn), format: "svg", width: width * 1pt))
    })))
  })
}
"""


@dataclass(frozen=True)
class Card:
    """What stands on a card. place: "Chapter 3", say, above all else; figure: HTML with its drawings, or ""."""

    book: str
    place: str
    question: str
    answer: str
    figure: str

    def as_data(self) -> dict[str, object]:
        """As the template takes it: of the figure its first panel and its legend, each with the points it is wide."""
        drawn = re.findall(r"<svg\b.*?</svg>", self.figure, re.DOTALL)
        drawn[1:] = [each for each in drawn[1:] if 'aria-label="Legend' in each]
        sizes = [[float(side) + 2 * EDGE for side in _VIEW.findall(each)[0]] for each in drawn]
        scale = min(580 / max(wide for wide, _ in sizes), 550 / sum(high for _, high in sizes)) if sizes else 1
        pictures = []
        for (wide, high), each in zip(sizes, drawn, strict=True):
            alone = _VIEW.sub(f'viewBox="{-EDGE} {-EDGE} {wide:g} {high:g}"', each, count=1)
            for within, itself in _ON_PAPER.items():
                alone = alone.replace(within, itself)
            pictures.append((wide * scale, alone))
        question = re.sub(r" (?=\S{1,3}$)", "\N{NO-BREAK SPACE}", self.question)
        return asdict(self) | {"question": question, "figure": None, "pictures": pictures}


def draw(cards: Mapping[str, Card], pages: Path, kept: Path) -> None:
    """Draw the cards of pages, by their names, into ``pages``/cards/NAME.png; those in the folder ``kept`` are taken.

    Afterwards that folder holds these very cards, each by the checksum of what it was made of.
    """
    made_of = {name: json.dumps(card.as_data(), ensure_ascii=False) for name, card in cards.items()}
    maker = f"{_TEMPLATE}{COLOURS}{version('typst')}{version('pillow')}"
    files = {
        name: kept / f"{hashlib.sha256((maker + text).encode()).hexdigest()}.png" for name, text in made_of.items()
    }
    if new := [name for name, file in files.items() if not file.exists()]:
        for name, drawn in zip(new, _drawn(made_of[name] for name in new), strict=True):
            write_file(files[name], drawn)
    for old in set(kept.glob("*.png")) - {*files.values()}:
        old.unlink()
    for name, file in files.items():
        write_file(pages / address(name), file.read_bytes())


def address(page: str) -> str:
    """Where a page's card lies among the pages."""
    return f"cards/{Path(page).name}.png"


def _drawn(made_of: Iterable[str]) -> list[bytes]:
    import typst  # late, as are the next: a card is rarely drawn anew
    from PIL import Image

    from rbp.book import svg

    with svg.fonts() as fonts:
        inputs = {"cards": f"[{','.join(made_of)}]"}
        compiler = typst.Compiler(_TEMPLATE.encode(), font_paths=fonts, ignore_system_fonts=True, sys_inputs=inputs)
        found = compiler.compile(format="png", ppi=72)  # a point is a pixel
    cards = []
    for page in filter(None, found if isinstance(found, list) else [found]):
        small = io.BytesIO()
        few = Image.open(io.BytesIO(page)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(small, "PNG", optimize=True)
        cards.append(small.getvalue())
    return cards
