"""A figure as SVG: as Matplotlib draws it, several in one file, and within a page, where it is text, small and in ink.

Within a page the same drawing takes a third of the bytes: what Matplotlib says of each tick and marker is said once for
all of them, numbers have the decimals that a screen can show, and names are short.
"""

import io
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rbp.figures import style as figure_style
from rbp.figures.style import Panels, legend_columns

#: Bitstream Vera and its kin, and Verdana, are as wide as what the figure was laid out with; others are narrower
FONTS = "'DejaVu Sans',Verdana,'Bitstream Vera Sans',sans-serif"

READABLE = 11
"""The height of a page's smallest text in a figure, in CSS pixels."""

PHONE = 350
"""The width of a phone's page, in CSS pixels; what is wider takes the keyboard's focus, so that keys can scroll it."""

_NUMBER = re.compile(r"-?\d+\.\d+")
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


def panel_figures(figure: Panels) -> tuple[list[Figure], Figure | None]:
    """Draw every panel as a figure of its own, and one legend for all that have theirs below (`legend_below`).

    Where a name looks different in two panels, or a panel has no such legend, each keeps its own: then None.
    """
    panels = [figure.single(key) for key in figure.keys]
    handles: dict[str, Any] = {}
    for legend in (legend for panel in panels for legend in panel.legends):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            first_handle = handles.setdefault(text.get_text(), handle)
            if _look(first_handle) != _look(handle):
                return panels, None
    if len(panels) == 1 or not all(panel.legends for panel in panels):
        return panels, None
    for panel in panels:
        panel.legends[0].remove()
    names = list(handles)
    numbers = {name: name.rpartition("= ")[2].replace(",", "") for name in names}  # "k = 1", 5, 10,000
    if all(map(str.isdecimal, numbers.values())):  # one that only a later panel has stands among the others
        names.sort(key=lambda name: int(numbers[name]))
    for name, handle in handles.items():
        handle.set_label(name)
    return panels, _legend([handles[name] for name in names], figure.size[0])


def _legend(handles: Sequence[Line2D], inches: float) -> Figure:
    """Draw a legend of this width as a figure of its own."""
    columns = legend_columns(handles, inches)
    figure = Figure(figsize=(inches, 0.1 + 0.24 * -(-len(handles) // columns)))
    figure.legend(handles=handles, loc="center", ncols=columns, columnspacing=1, handlelength=1.8, borderpad=0)
    return figure


def _look(handle: Any) -> list[str]:
    """Return all that distinguishes a line, a bar or a group of lines of a legend; of a group, arrays."""
    names = ("color", "facecolor", "marker", "markerfacecolor", "linestyle")
    return [str(getattr(handle, f"get_{name}", str)()) for name in names]


def render(figure: Figure) -> str:
    """Render the figure as SVG by Matplotlib's canvas, which draws once; `savefig` lays a figure out twice."""
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def tiled(
    svgs: Sequence[str], first: Figure, columns: int, prefixes: Sequence[str], *, legend: Figure | None = None
) -> str:
    """Join several SVGs as large as the first figure, in rows of so many; each one's ids begin with its prefix.

    legend: of all of them, the last of `svgs`. It stands in the last row's empty place, or below all.
    """
    if len(svgs) == 1:
        return svgs[0]
    panels = len(svgs) - bool(legend)
    width, height = 72 * first.get_size_inches()
    across, down = columns * width, -(-panels // columns) * height
    places = [(i % columns * width, i // columns * height, width, height) for i in range(panels)]
    if legend:
        wide, high = 72 * legend.get_size_inches()
        left, top, room = (panels % columns * width, down - height, height) if panels % columns else (0.0, down, high)
        free = width if panels % columns else across
        places.append((left + (free - wide) / 2, top + (room - high) / 2, wide, high))
        down = max(down, top + room)
    tiles = ""
    for svg, prefix, (x, y, wide, high) in zip(svgs, prefixes, places, strict=True):
        place = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
        tile = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", svg[svg.index("<svg") :])
        tiles += re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', place, tile, count=1)
    size = f'width="{across:g}pt" height="{down:g}pt" viewBox="0 0 {across:g} {down:g}"'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{tiles}</svg>\n'


def least_width(svg: str) -> int:
    """Return the CSS pixels that a figure must be wide so that its smallest text can be read; 0 without text."""
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)
    sizes = [float(size) for size in re.findall(r"\bfont(?:-size)?:[^;\"']*?([\d.]+)px", svg)]
    return math.ceil(float(width[1]) * READABLE / min(sizes)) if width and sizes else 0


def inline(svg: str, alt: str, prefix: str) -> str:
    """Convert a drawn figure for use within the page, in the page's own ink, so that it reads in the dark as well.

    `prefix` begins its ids, which must be unique in a page.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 (Matplotlib's)
    width = float(root.attrib.pop("width").removesuffix("pt"))
    del root.attrib["height"], root.attrib["version"]
    size = f"width:100%;height:auto;min-width:{least_width(svg)}px;max-width:{width * 4 / 3 * 1.15:.0f}px"
    root.attrib |= {"role": "img", "aria-label": alt}
    root.set("style", f"{size};font-family:{FONTS};stroke-linejoin:round;stroke-linecap:butt")
    _compact(root, prefix)
    ElementTree.register_namespace("", _SVG[1:-1])
    text = ElementTree.tostring(root, encoding="unicode").replace(f' xmlns="{_SVG[1:-1]}"', "", 1)  # as HTML has it
    return text.replace(figure_style.INK, "currentColor").replace(figure_style.FAINT, "var(--rbp-grid,#8884)")


def beside_each_other(
    svgs: Sequence[str], alts: Sequence[str], prefixes: Sequence[str], columns: int, *, legend: bool = False
) -> str:
    """Set drawn figures within a page: side by side where there is room, else below each other.

    legend: the last is a legend of all others, placed as by `tiled`. What a phone cannot show with readable text
    scrolls within itself.
    """
    least = max(map(least_width, svgs))
    width = f"{least}px" if columns > 1 else "100%"
    grid = f"display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,{width}),1fr));gap:0.5rem"
    focus = ' tabindex="0"' if least > PHONE else ""
    shown = list(map(inline, svgs, alts, prefixes))
    if legend:
        below = f"grid-column:1/-1;width:min(100%,{PHONE}px);margin:auto"  # its text is as large as the panels'
        place = "align-self:center" if (len(svgs) - 1) % columns else below
        shown[-1] = f'<div style="{place}">{shown[-1]}</div>'
    return f'<div class="rbp-scroll"{focus}><div style="{grid}">{"".join(shown)}</div></div>'


def _compact(root: ElementTree.Element, prefix: str) -> None:
    """Make the drawing smaller, in place; its ids begin with ``prefix``."""
    linked = set(re.findall(r"url\(#([^)]+)\)", " ".join(v for node in root.iter() for v in node.attrib.values())))
    linked |= {node.attrib[_LINK][1:] for node in root.iter() if _LINK in node.attrib}
    names = {name: f"{prefix}{number}" for number, name in enumerate(sorted(linked))}
    for element in root.iter():
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
        _shorten(element, names)
    _regroup(root)


def _shorten(element: ElementTree.Element, names: dict[str, str]) -> None:
    """Write an element's attributes in fewer bytes."""
    attributes = element.attrib
    if "id" in attributes and (name := names.get(attributes.pop("id"))):
        attributes["id"] = name
    if _LINK in attributes:
        attributes["href"] = f"#{names[attributes.pop(_LINK)[1:]]}"
    decimals = 1 if element.tag == f"{_SVG}use" else 2
    for key in {"d", "x", "y"} & attributes.keys():
        value = attributes[key]
        attributes[key] = _NUMBER.sub(lambda match: f"{float(match[0]):.{decimals}f}".rstrip("0").rstrip("."), value)
    if "d" in attributes:
        attributes["d"] = re.sub(r" *([A-Za-z]) *", r"\1", " ".join(attributes["d"].split()))
    if "clip-path" in attributes:
        attributes["clip-path"] = f"url(#{names[attributes['clip-path'][5:-1]]})"
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    if "style" in attributes and element.tag != f"{_SVG}svg":
        style = attributes["style"]
        style = re.sub(r"font-family: [^;]+;?|(?<=\d)px (?='DejaVu)|'DejaVu Sans', sans-serif", _font, style)
        attributes["style"] = re.sub(r"\s*([:;])\s*", r"\1", style).strip("; ")


def _font(match: re.Match[str]) -> str:
    """Return what is left of a font's name, which the drawing says once."""
    return "" if match[0].startswith("font-family") else "px " if match[0].startswith("px") else FONTS


def _regroup(group: ElementTree.Element) -> None:
    """Take away groups that say nothing, and say once what markers beside each other have in common."""
    children = [child for child_group in group for child in _opened(child_group)]
    group[:] = []
    for key, run in itertools.groupby(children, _alike):
        same = list(run)
        if key is None or (len(same) == 1 and "clip-path" not in same[0].attrib):  # which would move with the marker
            group.extend(same)
            continue
        together = ElementTree.Element(f"{_SVG}g", dict(key))
        unique = {(use.get("x"), use.get("y"), use.get("href")): use for use in same}  # a screen shows one of them
        for use in unique.values():
            for name, _ in key:
                del use.attrib[name]
        together.extend(unique.values())
        group.append(together)


def _opened(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield an element; in place of an empty group its children, and of one marker's group the marker."""
    if element.tag == f"{_SVG}defs":
        element[:] = [child for child in element if child.tag != f"{_SVG}style"]
        if not len(element):
            return
    elif element.tag.endswith("metadata"):
        return
    elif element.tag == f"{_SVG}g":
        _regroup(element)
        if not element.attrib:
            yield from element
            return
        if len(element) == 1 and element[0].tag == f"{_SVG}use" and element.attrib.keys() == {"clip-path"}:
            element[0].attrib |= element.attrib
            yield element[0]
            return
    yield element


def _alike(element: ElementTree.Element) -> tuple[tuple[str, str], ...] | None:
    """Return the attributes that a marker may share with others; None for what is no marker."""
    if element.tag != f"{_SVG}use":
        return None
    return tuple((name, element.attrib[name]) for name in ("clip-path", "style") if name in element.attrib)
