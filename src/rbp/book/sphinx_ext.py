"""What the pages need beyond Jupyter Book: numbers, a clean search, descriptions, scripts where they are used."""

import html
import re
from functools import partial
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from math_core import LatexError
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

from rbp.book import assets, cards, numbered
from rbp.book.formulas import mathml
from rbp.book.leaf import STYLE
from rbp.book.numbered import CHAPTER, NUMBER, text_of
from rbp.book.prose import ANSWER

DESCRIPTION, ON_CARD = 210, 260
"""The most characters of a page's description, of which search engines show about 160, and of its card's answer."""


def _set_address(app: Sphinx, config: Config) -> None:
    """Buttons lead to the repository, and chapters to Binder, once the repository's address is set."""
    options = config.html_theme_options
    address = options.get("repository_url") or ""
    for button in ("use_repository_button", "use_source_button", "use_issues_button"):
        options[button] = bool(address)
    options["launch_buttons"] = {"binderhub_url": "https://mybinder.org"} if address else {}


def _drop_source(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """A page that the build itself has made (``made`` in its front matter) has no source to lead to."""
    if "made" in app.env.metadata.get(pagename, {}):
        for group in context.get("header_buttons", []):
            buttons = [each for each in group.get("buttons", []) if each["label"] != "source-file-button"]
            group.update({"buttons": buttons} if buttons else {})


#: scripts, by what stands in the pages that need them
SCRIPTS = {
    'class="rbp-explorer"': ["fits.js", "charts.js", "explorer.js"],
    'class="rbp-ledger"': ["ledger.js"],
    'class="rbp-living"': ["fits.js", "charts.js", "living.js"],
    'class="rbp-sentence"': ["neox.js", "charts.js", "sentence.js"],
}


def _load_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Only the pages that use a script load it."""
    for mark, scripts in SCRIPTS.items():
        for script in scripts if mark in context.get("body", "") else []:
            app.add_js_file(script)
    if pagename == "search":
        app.add_js_file("excerpts.js", priority=900)  # after Sphinx's own


def _list_references(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """References are items of their list: the role that docutils gives them is deprecated, and no list may hold it."""
    if "body" in context:
        context["body"] = context["body"].replace(' role="doc-biblioentry"', ' role="listitem"')


# ── Formulas


def _formula(node: nodes.Element, displayed: bool) -> str:
    """A node's formula; one that cannot be read is a warning, and stays as it is written."""
    try:
        return mathml(node.astext(), displayed)
    except LatexError as error:
        logging.getLogger(__name__).warning("the formula %r: %s", node.astext(), error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def _inline_formula(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(f"{writer.starttag(node, 'span', '', CLASS='math')}{_formula(node, False)}</span>")
    raise nodes.SkipNode


def _displayed_formula(writer: HTML5Translator, node: nodes.math_block) -> None:
    """It scrolls within itself, its number beside it."""
    writer.body.append(writer.starttag(node, "div", "", CLASS="math", tabindex="0"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(f"{_formula(node, True)}</div>\n")
    raise nodes.SkipNode


# ── Code


class CodeBelow(SphinxPostTransform):
    """The button that shows a cell's code stands below what the cell shows."""

    default_priority = 210  # after myst_nb has folded the code
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Do so in one page."""
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code" and len(cell) > 1 and isinstance(cell[0], HideCodeCellNode):
                cell.append(cell.pop(0))


# ── What a page is about


_SIGNS = {"alpha": "α", "mu": "μ", "sigma": "σ", "approx": "≈", "cdot": "·", "times": "×", "le": "≤", "ge": "≥"}


def _in_words(tex: str) -> str:
    """A formula of a few signs as text."""
    tex = re.sub(
        r"\\([a-z]+)\b", lambda found: _SIGNS.get(found[1], found[1] if found[1] in ("ln", "log") else ""), tex
    )
    return re.sub(r"[\\{}]", "", tex.replace("-", "−"))


def _said(paragraph: nodes.Element) -> str:
    texts = [
        _in_words(part.astext()) if isinstance(part.parent, nodes.math) else part.astext()
        for part in paragraph.findall(nodes.Text)
    ]
    return " ".join("".join(texts).split())


def describe(doctree: nodes.document, most: int = DESCRIPTION) -> str:
    """The page's description: the first sentences of its answer, or of the page if it has none."""
    sections = [each for each in doctree.findall(nodes.section) if each[0].astext() == ANSWER]
    paragraphs = (
        _said(each) for each in (sections or [doctree])[0].findall(nodes.paragraph) if len(each.astext()) > 40
    )
    text = next(paragraphs, "")
    if len(text) <= most:
        return text
    sentences = text[:most].rpartition(". ")[0]
    return f"{sentences}." if len(sentences) > DESCRIPTION / 2 else text[: most - 1].rpartition(" ")[0] + " …"


def _describe(
    drawn: dict[str, cards.Card], app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """A description for each page, and what others show of a link to it; the card where the address is known."""
    if doctree is None or not (description := describe(doctree)):
        return
    title, chapter = text_of(context["title"]), bool(CHAPTER.fullmatch(pagename))
    said = {"description": description, "twitter:card": "summary"}
    shared = {"og:title": title, "og:description": description, "og:type": "article"}
    shared["og:site_name"] = app.config.html_title
    if address := context.get("pageurl"):
        shared["og:url"] = address
    # the book's first page and its chapters; one that stands by itself is both
    if app.builder.name == "html" and chapter != (pagename == app.config.root_doc):
        number = NUMBER.match(title)
        place = f"{'Chapter' if number[1].isdigit() else 'Appendix'} {number[1]}" if number else ""
        figures = (each.astext() for each in doctree.findall(nodes.raw) if 'role="img"' in each.astext())
        question, answer = NUMBER.sub("", title, count=1), describe(doctree, ON_CARD)
        drawn[pagename] = cards.Card(app.config.html_title, place, question, answer, next(figures, ""))
        if address:
            said["twitter:card"] = "summary_large_image"
            shared |= {"og:image": f"{app.config.html_baseurl}{cards.address(pagename)}"}
            shared["og:image:alt"] = f"{question} {answer}"
            shared |= dict(zip(("og:image:width", "og:image:height"), map(str, cards.SIZE), strict=True))
    for kind, tags in (("name", said), ("property", shared)):
        for name, content in tags.items():
            context["metatags"] += f'\n<meta {kind}="{name}" content="{html.escape(content, quote=True)}" />'


def _share(drawn: dict[str, cards.Card], app: Sphinx, exception: Exception | None) -> None:
    """Draw the cards; with the book's address, list its pages for search engines."""
    if exception or app.builder.name != "html":
        return
    cards.draw(drawn, Path(app.outdir), Path(app.srcdir).parent / "cards")
    if address := app.config.html_baseurl:
        listed = "".join(
            f"<url><loc>{html.escape(address)}{page}.html</loc></url>\n" for page in sorted(app.env.found_docs)
        )
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{listed}</urlset>\n'
        (Path(app.outdir) / "sitemap.xml").write_text(text, encoding="utf-8")


# ── What search reads

#: what holds no sentences; `excerpts.js` leaves the same out of what search shows
NO_SENTENCES = "script, style, svg, math, .rbp-table, .rbp-downloads, .rbp-rerun, button, select"


class Builder(StandaloneHTMLBuilder):
    """Sphinx's own, but search reads sentences alone: no code of cells, no formulas, no figures' labels, no tables."""

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        """Index a page's sentences."""
        readable = doctree.deepcopy()
        for node in list(readable.findall(nodes.Element)):
            code = node.get("nb_element") == "cell_code_source"
            if (code or isinstance(node, nodes.math | nodes.math_block)) and node.parent is not None:
                node.parent.remove(node)
        for raw in readable.findall(nodes.raw):
            raw[:] = [nodes.Text(_sentences(raw.astext()))]
        super().index_page(pagename, readable, title)


def _sentences(markup: str) -> str:
    """The text of a piece of HTML without what holds no sentences."""
    soup = BeautifulSoup(markup, "html.parser")
    for each in soup.select(NO_SENTENCES):
        each.decompose()
    return soup.get_text(" ")


def _add_style(app: Sphinx, config: Any) -> None:
    """Copy the library's style of figures and tables among the pages' files."""
    config.html_static_path.append(str(STYLE))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    numbered.setup(app)
    assets.setup(app)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_displayed_formula, None))
    app.add_post_transform(CodeBelow)
    app.add_builder(Builder, override=True)
    app.connect("config-inited", _set_address)
    app.connect("config-inited", _add_style)
    app.add_css_file(STYLE.name, priority=400)  # before the book's own
    app.connect("html-page-context", _drop_source, priority=900)  # after the theme's buttons are there
    app.connect("html-page-context", _load_scripts)
    app.connect("html-page-context", _list_references)
    drawn: dict[str, cards.Card] = {}
    app.connect("html-page-context", partial(_describe, drawn))
    app.connect("build-finished", partial(_share, drawn))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
