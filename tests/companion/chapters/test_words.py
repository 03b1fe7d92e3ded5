"""The words of the main chapters: few, with few numbers, and each chapter says what would change its mind."""

import json
import re
import tomllib

import pytest

from companion.execute import results
from companion.execute.prose import VALUE, chapter_numbers, fill_in
from companion.project import ROOT, Project

WRITTEN = [name for name, number in chapter_numbers(Project()).items() if number.isdigit() and name != "ledger"]
MOST_WORDS, MOST_NUMBERS = 1_110, 47  # a count, "29 of 32", is two numbers
ACCEPTED = results.read_book(Project().expected)
NOTEBOOKS, BOOK = ROOT / "notebooks", ROOT / "book"
CLAIMS = ROOT / "src" / "companion" / "ledger" / "claims.toml"


def prose(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def words(text):
    """Words as a reader counts them: no formulas on lines of their own, no code, no marks of the notation."""
    text = re.sub(r"\$\$.*?\$\$|`[^`]*`|<[^>]*>", " ", text, flags=re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


@pytest.mark.parametrize("chapter", WRITTEN)
def test_a_chapter_can_be_read_to_its_end(chapter):
    text = prose(NOTEBOOKS / f"{chapter}.ipynb")
    assert words(fill_in(text, chapter, ACCEPTED)) <= MOST_WORDS
    values = [place for place in VALUE.finditer(text) if place["format"] != "words" and ":of " not in place[0]]
    recorded = [ACCEPTED[place["chapter"] or chapter][place["key"]].value for place in values]
    measured = [place[0] for place, value in zip(values, recorded, strict=True) if not isinstance(value, str)]
    assert len(measured) <= MOST_NUMBERS, measured
    assert text.count("What would change our mind") == 1
    answer = text.partition("## The answer\n")[2].partition("\n## ")[0].split("\n\n")
    statements = [paragraph.startswith("**") for paragraph in map(str.strip, answer) if paragraph]
    assert statements == [True] * 3, "each begins with what it says"


AVOIDED = re.compile(
    r"\b(foretel\w*|foretold|hopeful\w*|surely|beyond doubt|per cent|hangs? together|not without|chapters? \d+)\b"
    r"|\d \d{3}\b",
    re.IGNORECASE,
)
"""Words that have a plainer one, numbers without a comma, and typed numbers of chapters."""


@pytest.mark.parametrize(
    "path",
    [*sorted(NOTEBOOKS.glob("*.ipynb")), *sorted(BOOK.glob("*.md")), BOOK / "report.typ", CLAIMS],
    ids=lambda path: path.name,
)
def test_prose_has_the_words_of_the_style(path):
    text = prose(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    if path == CLAIMS:
        claims = tomllib.loads(text).values()
        text = "\n".join(claim.get(part, "") for claim in claims for part in ("says", "rule", "finding"))
    plain = re.sub(r"\{[^}]*\}(`[^`]*`)?|```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    assert [plain[max(0, found.start() - 30) : found.end() + 10] for found in AVOIDED.finditer(plain)] == []
