"""Formulas as MathML, which browsers set without a script; Typst, which sets the report and makes PNGs of figures."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typst
from math_core import LatexToMathML
from matplotlib import get_data_path

from rbp.io import temporary_folder

_CONVERTER = LatexToMathML()


def mathml(tex: str, displayed: bool = False) -> str:
    """Convert a formula in TeX to MathML. Raises math_core.LatexError for what it cannot read."""
    return _CONVERTER.convert_with_local_state(tex.strip(), displaystyle=displayed)


@contextmanager
def fonts() -> Iterator[typst.Fonts]:
    """Give Typst's own fonts and the figures', without Matplotlib's font that has a box for every sign."""
    with temporary_folder("rbp-fonts") as folder:
        for font in (Path(get_data_path()) / "fonts" / "ttf").glob("DejaVuSans*.ttf"):
            shutil.copyfile(font, folder / font.name)
        yield typst.Fonts(include_system_fonts=False, font_paths=[str(folder)])


def to_png(svg: str) -> bytes:
    """Convert a drawn figure to PNG on white, 200 pixels to the inch."""
    page = '#set page(width: auto, height: auto, margin: 0pt, fill: white)\n#image("figure.svg")'
    with fonts() as of_figures, temporary_folder("rbp-figure") as folder:
        (folder / "figure.svg").write_text(svg, encoding="utf-8")
        (folder / "page.typ").write_text(page, encoding="utf-8")
        return typst.compile(folder / "page.typ", format="png", ppi=200, font_paths=of_figures)
