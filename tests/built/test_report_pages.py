"""The report of the built book: eight pages, and nothing runs out of its place."""

import pypdfium2 as pdfium

from companion import report
from companion.project import Project

CM, WHITE = 72 / 2.54, 250
SCALE = 2  # pixels for each point


def ink_outside(pdf, left, right, top, bottom):
    """The pages with ink in the margins, all four in points, and on which side."""
    found = []
    for number, page in enumerate(pdfium.PdfDocument(pdf), 1):
        grey = page.render(scale=SCALE).to_numpy().min(axis=2)
        height, width = grey.shape
        x, right_x, y, bottom_y = (round(SCALE * each) for each in (left, right, top, bottom))
        sides = {"left": grey[:, :x], "right": grey[:, width - right_x :]}
        sides |= {"top": grey[:y], "bottom": grey[height - bottom_y :]}
        found += [f"page {number}: {side}" for side, strip in sides.items() if (strip < WHITE).any()]
    return found


def test_it_has_eight_pages_and_nothing_runs_into_the_margins(book):
    del book  # only that it is there
    pdf = report.make(Project())
    assert 7 <= len(pdfium.PdfDocument(pdf)) <= 8
    # numbers of lines and pages stand in the margins; a full stop may hang over
    assert ink_outside(pdf, left=1.2 * CM, right=2.4 * CM - 4, top=2 * CM, bottom=1.2 * CM) == []
