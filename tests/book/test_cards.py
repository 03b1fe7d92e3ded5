"""The cards that others show of a link: their size, their bytes, what is on them, and when they are drawn anew."""

import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from rbp.book import cards, figure_style, svg

INK, ANSWER = "#ff00ff", "It does, up to k = 100; beyond that, nobody knows. " * 5


def _figure(panels: int, legend: str = "") -> str:
    """What `Page` shows of a figure of several panels, the first of them in a colour that nothing else has."""
    drawn = []
    for number in range(panels + bool(legend)):
        figure = Figure((4.6, 3.7))
        figure.gca().fill_between(
            [0, 1], 1, color="#00ff00" if legend and number == panels else "#ffff00" if number else INK
        )
        drawn.append(svg.drawn(figure))
    alts = [f"panel {number}" for number in range(panels)] + [f"Legend: {legend}"] * bool(legend)
    return svg.beside_each_other(drawn, alts, [f"p{number}-" for number in range(len(drawn))], 2)


CARD = cards.Card("A book", "Chapter 3", "Does it hold?", ANSWER, _figure(3))


def _pixels(drawn: bytes) -> "np.ndarray":
    return np.asarray(Image.open(io.BytesIO(drawn)).convert("RGB")).astype(int)


def _draw(folder: Path, *some: cards.Card) -> list[bytes]:
    named = {f"notebooks/{number}": card for number, card in enumerate(some)}
    (folder / "kept").mkdir(exist_ok=True, parents=True)
    cards.draw(named, folder, folder / "kept")
    assert sorted(path.name for path in (folder / "cards").iterdir()) == sorted(f"{i}.png" for i in range(len(some)))
    return [(folder / cards.address(name)).read_bytes() for name in named]


def _near(pixels: "np.ndarray", *colour: int) -> "np.ndarray":
    """Where pixels have about this colour."""
    return np.abs(pixels - colour).max(axis=-1) < 40


def test_a_card_has_its_size_few_bytes_and_the_same_ones_again(tmp_path: Path) -> None:
    others = replace(CARD, place="Appendix A"), replace(CARD, figure="")
    first = _draw(tmp_path / "one", CARD, *others)
    assert first == _draw(tmp_path / "another", CARD, *others)
    assert len(set(first)) == 3
    for drawn in first:
        assert Image.open(io.BytesIO(drawn)).size == cards.SIZE
        assert len(drawn) < 60_000
    assert _draw(tmp_path / "alone", others[1]) == first[2:], "whatever is drawn beside it"


def test_words_stand_left_and_the_first_panel_right_and_neither_is_cut(tmp_path: Path) -> None:
    longest = replace(CARD, question="What would be the longest question of all, at every k? " * 3)
    for drawn in _draw(tmp_path, CARD, longest):
        pixels = _pixels(drawn)
        blank = (pixels > 250).all(axis=-1)
        assert blank[:, 20:55].all(), "the left margin"
        assert blank[525:560, 20:590].all(), "between the words and the book's title"
        assert blank[:, 572:590].all(), "between the words and the figure"
        assert blank[:20, 20:].all()
        assert blank[-20:, 20:].all()
        assert blank[:, -20:].all()
        rows, columns = np.nonzero(_near(pixels, 255, 0, 255))
        assert columns.min() > 590
        assert rows.max() - rows.min() > 250, "large enough to be seen"
        assert not _near(pixels, 255, 255, 0).any(), "the other panels are left out"


def test_the_legend_of_all_panels_stands_below_the_first(tmp_path: Path) -> None:
    pixels = _pixels(_draw(tmp_path, replace(CARD, figure=_figure(2, "one, two")))[0])
    assert np.nonzero(_near(pixels, 255, 0, 255))[0].max() < np.nonzero(_near(pixels, 0, 255, 0))[0].min()
    assert not _near(pixels, 255, 255, 0).any()


def test_only_what_changed_is_drawn_and_nothing_else_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    own = cards._drawn

    def counted(made_of: "object") -> list[bytes]:
        texts = list(made_of)
        drawn.append(len(texts))
        return own(texts)

    monkeypatch.setattr(cards, "_drawn", counted)
    other = replace(CARD, place="Chapter 4")
    before = _draw(tmp_path, CARD, other)
    assert _draw(tmp_path, CARD, other) == before
    changed = _draw(tmp_path, CARD, replace(other, answer="No."))
    assert changed[0] == before[0]
    assert changed[1] != before[1]
    assert drawn == [2, 1]
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_drawing_has_the_ink_of_figures_and_nothing_of_a_page() -> None:
    figure = Figure((4.6, 3.7))
    figure.gca().axhline(0.5, color=figure_style.INK)
    figure.gca().axhline(0.7, color=figure_style.FAINT)
    within = svg.inline(svg.drawn(figure), "alt", "p-")
    ((_, alone),) = replace(CARD, figure=within).as_data()["pictures"]
    assert "var(" not in alone
    assert "currentColor" not in alone
    for ink in (figure_style.INK, figure_style.FAINT):
        assert f"stroke: {ink}" in alone or f"stroke:{ink}" in alone
    ElementTree.fromstring(alone)  # noqa: S314  # our own: a whole file


def test_pages_are_made_without_what_draws_figures() -> None:
    """What Sphinx loads at every build imports neither Matplotlib nor Typst."""
    code = "import sys, rbp.book.sphinx_ext; print([name for name in ('matplotlib', 'typst') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
