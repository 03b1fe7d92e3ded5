"""The words of the book's prose."""

import json
import re
import tomllib

import pytest

from companion.project import CLAIMS, ROOT

NOTEBOOKS, BOOK = ROOT / "notebooks", ROOT / "book"
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
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    if path == CLAIMS:
        claims = tomllib.loads(text).values()
        text = "\n".join(claim.get(part, "") for claim in claims for part in ("says", "rule", "finding"))
    plain = re.sub(r"\{[^}]*\}(`[^`]*`)?|```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    assert [plain[max(0, found.start() - 30) : found.end() + 10] for found in AVOIDED.finditer(plain)] == []
