"""A Sphinx extension: number the chapters' figures, tables and equations, and resolve references to them.

A chapter's output is HTML, in which Sphinx sees neither figure nor table. Here each becomes a node of its own, labelled
`chapter::name`, so that Sphinx's own numbering (numfig) and its roles work:
`` {numref}`holds::forest` `` anywhere, `` {numref}`forest` `` within the chapter. Numbers begin with the chapter's.
"""

import html
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as Collector

CHAPTER = re.compile(r"notebooks/(?P<name>\w+)")
"""The name of a page that is a chapter's."""

NUMBER = re.compile(r"(\d+|[A-Z])\. ")
"""What the title of a chapter's page begins with, if the contents list it."""

SHOWN = re.compile(
    r'(?P<opening><figure class="rbp-figure(?P<table> rbp-tabled)?" id="(?P<name>[^"]+)">)(?P<body>.*)'
    r'<figcaption>(?P<caption>.*?)(?P<downloads> <span class="rbp-downloads">.*)?</figcaption></figure>',
    re.DOTALL,
)
"""What `companion.execute.page.Page` shows."""


class Shown(nodes.General, nodes.Element):  # type: ignore[misc]
    """A chapter's figure: its opening tag and its downloads; its children are the body and the caption, as HTML."""


class ShownTable(Shown):
    """A chapter's table, which Sphinx counts by itself."""


class FindShown(SphinxTransform):
    """Turns the figures and tables in a chapter's outputs into nodes, and labels them."""

    default_priority = 500  # before labels are collected

    def apply(self, **_: Any) -> None:
        """Convert the figures and tables of one page."""
        chapter = CHAPTER.fullmatch(self.env.docname)
        if chapter is None:
            return
        for raw in list(self.document.findall(nodes.raw)):
            if match := SHOWN.fullmatch(raw.astext().strip()):
                kind = ShownTable if match["table"] else Shown
                parts = [nodes.raw("", match[part], format="html") for part in ("body", "caption")]
                label = f"{chapter['name']}::{match['name']}".lower()  # as roles write it
                shown = kind("", *parts, ids=[match["name"]], names=[label])
                shown["opening"], shown["downloads"] = match["opening"], match["downloads"] or ""
                raw.replace_self(shown)
                self.document.note_explicit_target(shown)
        for reference in self.document.findall(addnodes.pending_xref):
            full_name = f"{chapter['name']}::{reference['reftarget']}".lower()
            if reference["reftype"] in ("numref", "ref") and full_name in self.document.nameids:
                reference["reftarget"] = full_name


def text_of(markup: str) -> str:
    """Return the text of a piece of HTML."""
    return html.unescape(" ".join(re.sub(r"<[^<>]+>", "", markup).split()))


def finding_of(caption: str) -> str:
    """Return the first sentence of a caption, which is bold."""
    bold = re.match(r"\s*<b>(.*?)</b>", caption, re.DOTALL)
    return text_of(bold[1] if bold else caption)


def card_of(chapter: str, name: str) -> str:
    """Return the permanent address of a figure or table (`companion.render.cards`), from the book's folder."""
    return f"figures/{chapter}-{name}.html"


def _title(shown: nodes.Element) -> str:
    return finding_of(shown[1].astext()).rstrip(".")


def _write(writer: Any, shown: nodes.Element) -> None:
    """Write the figure, with its number before the caption."""
    body, caption = (part.astext() for part in shown)
    writer.body.append(f"{shown['opening']}{body}<figcaption>")
    writer.add_fignumber(shown)
    writer.body.append(f'<span class="caption-text">{caption}</span>')
    chapter = shown["names"][0].partition("::")[0]
    writer.body.append(
        f'<a class="headerlink" href="../{card_of(chapter, shown["ids"][0])}" title="Permanent link">#</a>'
    )
    writer.body.append(f"{shown['downloads']}</figcaption></figure>\n")
    raise nodes.SkipNode


def _written(writer: Any, shown: nodes.Element) -> None:
    """Do nothing: all is written already."""


def _number_chapters(collector: Collector, env: BuildEnvironment) -> list[str]:
    """Give each page the number in its title, by which Sphinx numbers figures, tables and equations."""
    titles = {page: env.titles[page].astext() for page in env.all_docs if CHAPTER.fullmatch(page)}
    env.toc_secnumbers = {page: {"": (match[1],)} for page, title in titles.items() if (match := NUMBER.match(title))}  # type: ignore[dict-item]
    return []


def _forget_numbers(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Let no number be put before titles, which have their own."""
    env.toc_secnumbers = {}
    return []


def setup(app: Sphinx) -> None:
    """Register with Sphinx."""
    for kind, figtype in ((Shown, "figure"), (ShownTable, "table")):
        app.add_enumerable_node(kind, figtype, _title, html=(_write, _written))
    app.add_transform(FindShown)
    Collector.assign_section_numbers = _number_chapters  # type: ignore[method-assign]
    app.connect("env-get-updated", _forget_numbers, priority=900)
