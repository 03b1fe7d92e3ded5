"""Write a standalone page from a command instead of a notebook: one HTML file that loads nothing."""

import base64
import io
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rbp.figures.style import Panels
from rbp.io import write_file
from rbp.report.display import html_table

HERE = Path(__file__).parent
STYLE = HERE / "figures.css"  # of figures and tables, which the book has too


def write_page(path: Path, template: Path, **content: Any) -> None:
    """Write a page from a Jinja2 template that extends page.html, whole or not at all.

    content: what the template names; all but `Markup` is escaped. parts.html has its figures and tables.
    """
    loader = FileSystemLoader([template.parent, HERE])
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"images": images, "html_table": lambda rows, formats: Markup(html_table(rows, formats))}  # noqa: S704
    write_file(path, environment.get_template(template.name).render(content))


def images(panels: Panels) -> list[tuple[Any, str]]:
    """Draw each panel as SVG; return its key and the image's address, which holds it."""
    images = []
    for key in panels.keys:
        buffer = io.BytesIO()
        panels.single(key).savefig(buffer, format="svg", metadata={"Date": None})
        images.append((key, f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"))
    return images
