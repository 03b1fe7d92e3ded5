"""The report of the built book: eight pages on which every value stands, and nothing runs out of its place."""

import re
from pathlib import Path

import pandas as pd
import pypdfium2 as pdfium
import pytest
from pypdf import PdfReader
from typeset import ink_outside, overlapping, without_glyph

from companion import prose, report, results
from companion.project import Project

CM = 72 / 2.54
SOURCE = (Project().book / report.SOURCE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pdf(book: Path) -> Path:
    del book  # only that it is there
    return report.make(Project())


@pytest.fixture(scope="module")
def text(pdf: Path) -> str:
    return _plain("".join(page.get_textpage().get_text_bounded() for page in pdfium.PdfDocument(pdf)))


def _plain(text: str) -> str:
    """Without what a line's end may put in."""
    return re.sub(r"[\s\x02\u00ad\u2010\ufffe-]", "", text)


def test_it_has_eight_pages(pdf: Path) -> None:
    assert 7 <= len(PdfReader(pdf).pages) <= 8


def test_nothing_runs_out_of_its_place_or_lacks_its_glyph(pdf: Path) -> None:
    # numbers of lines and pages stand in the margins; a full stop may hang over
    assert ink_outside(pdf, left=1.2 * CM, right=2.4 * CM - 4, top=2 * CM, bottom=1.2 * CM) == []
    assert overlapping(pdf) == []
    assert without_glyph(pdf) == []


def test_fonts_are_in_it_and_none_stands_in_for_another(pdf: Path) -> None:
    found = {}
    for page in PdfReader(pdf).pages:
        for font in (each.get_object() for each in page["/Resources"]["/Font"].values()):
            (kind,) = font["/DescendantFonts"]
            about = kind.get_object()["/FontDescriptor"]
            found[font["/BaseFont"].split("+")[1]] = bool({"/FontFile2", "/FontFile3"} & about.keys())
    families = {re.match("[A-Za-z]+", name)[0] for name in found}
    assert families == {"LibertinusSerif", "NewCMMath", "DejaVuSans", "DejaVuSansMono"}
    assert all(found.values()), found


def test_every_value_stands_there_as_in_the_run(text: str) -> None:
    built = results.read_book(Project().results)
    places = list(prose.VALUE.finditer(SOURCE))
    assert len(places) > 100
    assert [place[0] for place in places if _plain(prose.in_words(built[place["chapter"]], place)) not in text] == []
    assert report.faults(Project(), built) == []


def test_every_claim_of_the_paper_stands_there_with_its_verdict(text: str) -> None:
    ledger = pd.read_csv(Project().chapters / "ledger" / "ledger" / "ledger.csv").query("group == 'paper'")
    assert len(ledger) > 25
    # what is set as a formula is extracted in another order
    plain = ledger[~ledger["text"].str.contains(r"[_^]")].replace("'", "’", regex=True)
    said = [f"{row.claim}{row.text}{row.verdict}" for row in plain.itertuples()]
    assert len(said) > 15
    assert [row for row in said if _plain(row) not in text] == []
