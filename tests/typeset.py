"""What is wrong with a PDF as a reader sees it: ink in the margins, texts on each other, signs without a glyph.

It reads the file alone, by PDFium and pypdf, and knows nothing of who made it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2 as pdfium
from pypdf import PdfReader
from pypdf.generic import ContentStream, DictionaryObject

WHITE = 250
SCALE = 2  # pixels for each point


def ink_outside(pdf: Path, left: float, right: float, top: float, bottom: float) -> list[str]:
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


def overlapping(pdf: Path) -> list[str]:
    """The texts of which a character covers more than a third of another that is not beside it."""
    found = []
    for number, page in enumerate(pdfium.PdfDocument(pdf), 1):
        text = page.get_textpage()
        kept = [i for i in range(text.count_chars()) if text.get_text_range(i, 1).strip()]
        boxes = np.array([text.get_charbox(i) for i in kept]).reshape(-1, 4)
        left, bottom, right, top = boxes.T
        area = (right - left) * (top - bottom)
        for i, box in enumerate(boxes):
            wide = np.minimum(right, box[2]) - np.maximum(left, box[0])
            high = np.minimum(top, box[3]) - np.maximum(bottom, box[1])
            both = np.clip(wide, 0, None) * np.clip(high, 0, None)
            others = np.flatnonzero((both > np.minimum(area, area[i]) / 3) & (np.abs(np.arange(len(kept)) - i) > 4))
            if others.size:
                first, second = (text.get_text_range(max(0, kept[j] - 9), 20) for j in (i, others[0]))
                found.append(f"page {number}: {first!r} on {second!r}")
    return found


def without_glyph(pdf: Path) -> list[str]:
    """The pages that show glyph 0 of a font, which stands for what the font lacks."""
    reader = PdfReader(pdf)
    return [f"page {i}" for i, page in enumerate(reader.pages, 1) if any(_glyphs_0(page, reader))]


def _glyphs_0(of: Any, reader: PdfReader) -> Iterator[bool]:
    """For each string that is shown, whether one of its glyphs, two bytes each, is number 0; in forms too."""
    content = of.get_contents() if hasattr(of, "get_contents") else of
    for operands, operator in ContentStream(content, reader).operations:
        if operator in (b"Tj", b"TJ"):
            shown = operands[0] if operator == b"TJ" else operands
            for each in shown:
                if isinstance(each, str | bytes):
                    code = each if isinstance(each, bytes) else each.original_bytes
                    yield any(code[i : i + 2] == b"\0\0" for i in range(0, len(code), 2))
    forms = of.get("/Resources", DictionaryObject()).get_object().get("/XObject", DictionaryObject()).get_object()
    for form in (each.get_object() for each in forms.values()):
        if form.get("/Subtype") == "/Form":
            yield from _glyphs_0(form, reader)
