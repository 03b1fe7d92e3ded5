"""Write a standalone page from a command instead of a notebook: one HTML file that loads nothing."""

import html
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from rbp.figures import style as figure_style
from rbp.figures import svg
from rbp.io import write_file
from rbp.report.display import Format, html_table

#: the style of figures and tables, which the book has too
STYLE = Path(__file__).with_name("figures.css")
LOOKS = """
:root { --ink: #202124; --pst-color-background: #fff; color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--pst-color-background);
  max-width: 50rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6e9; --pst-color-background: #14181e; --rbp-grid: #3a3f46 !important; }
  html { --rbp-grid: #3a3f46; --rbp-shade: rgb(255 255 255 / 0.35); }
}
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0.6rem; border: 1px solid var(--rbp-grid); }
"""


class Leaf:
    """Collects what stands on the page; `write` makes the file. All texts but captions are plain, and escaped."""

    def __init__(self, title: str) -> None:
        self._style = LOOKS + STYLE.read_text(encoding="utf-8")
        self._title, self._parts = title, [f"<h1>{html.escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """Add a section's heading."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs."""
        self._parts += [f"<p>{html.escape(each)}</p>" for each in paragraphs]

    def code(self, text: str) -> None:
        """Add a command."""
        self._parts.append(f"<pre>{html.escape(text)}</pre>")

    def markup(self, markup: str) -> None:
        """Add HTML that a function of the package made."""
        self._parts.append(markup)

    def figure(self, figure: Figure | figure_style.Panels, *, caption: str, alt: str) -> None:
        """Add a figure, its panels one below the other on a phone; `caption` is HTML."""
        if isinstance(figure, Figure):
            panels, alts = [figure], [alt]
        else:
            panels, alts = [figure.single(key) for key in figure.keys], [f"{alt} ({key})" for key in figure.keys]
        prefixes = [f"f{len(self._parts)}-{i}-" for i in range(len(panels))]
        self._framed(svg.beside_each_other(list(map(svg.render, panels)), alts, prefixes, len(panels)), caption)

    def table(self, table: pd.DataFrame, *, caption: str, formats: dict[str, Format] | None = None) -> None:
        """Add a table, as `html_table` shows it; there is nothing to download."""
        self._framed(html_table(table, formats or {}), caption)

    def _framed(self, body: str, caption: str) -> None:
        self._parts.append(f'<figure class="rbp-figure">{body}<figcaption>{caption}</figcaption></figure>')

    def write(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        body = "\n".join(self._parts)
        write_file(
            path,
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self._title)}</title>\n<style>{self._style}</style></head>\n"
            f"<body><main>\n{body}\n</main></body></html>\n",
        )
