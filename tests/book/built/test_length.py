"""How long the book is, and how dense its answers are: a table, printed, and the limits of an answer."""

import re
from pathlib import Path

import pandas as pd
import pytest
from bs4 import BeautifulSoup, Tag

WORDS, NUMBERS = 120, 10
"""The most that an answer may hold."""

NO_PROSE = {"pre", "code", "script", "style", "table", "math", "above-input"}
NO_PROSE |= {"rbp-rerun", "rbp-downloads", "headerlink"}
"""Elements and classes that hold no words to read; "above-input" is a folded cell of code, with its button's words."""

DRAWING = re.compile(r"<svg\b.*?</svg>", re.DOTALL)
NUMBER = re.compile(r"(?<![\w./-])\d+(?:[.,]\d+)*")
"""A number by itself, such as 0.98 and 30,000; not that of a name, such as GPT-2."""


def _words(part: Tag) -> list[str]:
    """The words of a part of a page: its prose and captions, folded or not, without code, tables and formulas."""
    texts = [text for text in part.find_all(string=True) if text.find_parent(_is_no_prose) is None]
    return [word for word in "".join(texts).split() if re.search(r"\w", word)]


def _is_no_prose(tag: Tag) -> bool:
    return tag.name in NO_PROSE or bool(NO_PROSE & set(tag.get("class", ())))


@pytest.fixture(scope="module")
def lengths(book: Path, pages: list[str]) -> pd.DataFrame:
    """A row for each page: words in all, figures and tables, and of its answer words, numbers and figures."""
    rows = []
    for page in pages:
        html = DRAWING.sub("", (book / page).read_text(encoding="utf-8"))
        soup = BeautifulSoup(html, "html.parser")
        article = soup.select_one("article")
        answer = article.select_one("section#the-answer") or soup.new_tag("section")
        words = _words(answer)[2:]  # without the heading's
        row = {"page": page.removesuffix(".html"), "words": len(_words(article))}
        row |= {"figures": len(article.select(".rbp-figure:not(.rbp-tabled)"))}
        row |= {"tables": len(article.select(".rbp-tabled")), "answer": len(words)}
        row |= {"numbers": len(NUMBER.findall(" ".join(words))), "shown": len(answer.select(".rbp-figure"))}
        rows.append(row)
    return pd.DataFrame(rows).set_index("page")


def test_answers_are_short(lengths: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    total = lengths.sum().to_frame("all").T
    with capsys.disabled():
        print("\n" + pd.concat([lengths, total]).to_string())  # noqa: T201
    assert (lengths.answer > 0).sum() >= 20
    long = lengths[(lengths.answer > WORDS) | (lengths.numbers > NUMBERS)]
    assert long.empty, long.to_string()
