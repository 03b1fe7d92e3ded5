"""The main chapters are short, have few numbers, and each says what would change its mind."""

import json
import re

import pytest

from companion import results
from companion.project import Project
from companion.prose import VALUE, chapter_numbers, fill_in

WRITTEN = [name for name, number in chapter_numbers(Project()).items() if number.isdigit() and name != "ledger"]
MOST_WORDS, MOST_NUMBERS = 1_110, 47  # a count, "29 of 32", is two numbers
ACCEPTED = results.read_book(Project().expected)


def words(text):
    """Words as a reader counts them: no formulas on lines of their own, no code, no marks of the notation."""
    text = re.sub(r"\$\$.*?\$\$|`[^`]*`|<[^>]*>", " ", text, flags=re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


@pytest.mark.parametrize("chapter", WRITTEN)
def test_a_chapter_can_be_read_to_its_end(chapter):
    cells = json.loads((Project().notebooks / f"{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert words(fill_in(text, chapter, ACCEPTED)) <= MOST_WORDS
    values = [place for place in VALUE.finditer(text) if place["format"] != "words" and ":of " not in place[0]]
    recorded = [ACCEPTED[place["chapter"] or chapter][place["key"]].value for place in values]
    measured = [place[0] for place, value in zip(values, recorded, strict=True) if not isinstance(value, str)]
    assert len(measured) <= MOST_NUMBERS, measured
    assert text.count("What would change our mind") == 1
    answer = text.partition("## The answer\n")[2].partition("\n## ")[0].split("\n\n")
    statements = [paragraph.startswith("**") for paragraph in map(str.strip, answer) if paragraph]
    assert statements == [True] * 3, "each begins with what it says"
