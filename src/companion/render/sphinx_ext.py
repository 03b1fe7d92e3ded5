"""Adapt Jupyter Book's pages: numbers, a search of sentences, scripts only where they are used."""

import hashlib
import html
import json
import os
import re
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from math_core import LatexError
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

from companion.render import assets, numbered
from companion.typesetting import mathml
from rbp.report.page import STYLE


def _set_address(app: Sphinx, config: Config) -> None:
    """Set the book's address in links; with the repository's address, add buttons to it, and to Binder."""
    config.ogp_site_url, config.ogp_site_name = config.html_baseurl, config.html_title
    options = config.html_theme_options
    address = options.get("repository_url") or ""
    for button in ("use_repository_button", "use_source_button", "use_issues_button"):
        options[button] = bool(address)
    options["launch_buttons"] = {"binderhub_url": "https://mybinder.org"} if address else {}


def _drop_source(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Drop the link to the source of a page that the build has made (``made`` in its front matter)."""
    if "made" in app.env.metadata.get(pagename, {}):
        for group in context.get("header_buttons", []):
            buttons = [button for button in group.get("buttons", []) if button["label"] != "source-file-button"]
            group.update({"buttons": buttons} if buttons else {})


#: scripts, by what stands in the pages that need them
SCRIPTS = {
    'class="rbp-explorer"': ["fits.js", "charts.js", "explorer.js"],
    'class="rbp-ledger"': ["ledger.js"],
    'class="rbp-living"': ["fits.js", "charts.js", "living.js"],
    'class="rbp-sentence"': ["neox.js", "charts.js", "sentence.js"],
}


def _load_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Load a script only on the pages that use it."""
    for mark, scripts in SCRIPTS.items():
        for script in scripts if mark in context.get("body", "") else []:
            app.add_js_file(script)
    for script in (SENTENCES, "excerpts.js") if pagename == "search" else ():
        app.add_js_file(script, priority=900)  # after Sphinx's own


FOLDED = re.compile(r'<summary aria-label="Toggle hidden content">.*?</summary>', re.DOTALL)
"""What opens a cell that is folded as a whole, by myst_nb: two paragraphs, which a summary may not contain."""


def _mend_markup(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Make valid what others write: the role of references, which docutils deprecates, and the fold of a solution."""
    if "body" in context:
        body = context["body"].replace(' role="doc-biblioentry"', ' role="listitem"')
        context["body"] = FOLDED.sub("<summary>Solution</summary>", body)


# ── Formulas


def _formula(node: nodes.Element, displayed: bool) -> str:
    """Render a node's formula; one that cannot be read is a warning, and stays as it is written."""
    try:
        return mathml(node.astext(), displayed)
    except LatexError as error:
        logging.getLogger(__name__).warning("the formula %r: %s", node.astext(), error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def _inline_formula(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(f"{writer.starttag(node, 'span', '', CLASS='math')}{_formula(node, False)}</span>")
    raise nodes.SkipNode


def _displayed_formula(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula that scrolls within itself, with its number."""
    writer.body.append(writer.starttag(node, "div", "", CLASS="math", tabindex="0"))
    if node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(f"{_formula(node, True)}</div>\n")
    raise nodes.SkipNode


# ── Code


SWITCH = '<details class="rbp-code"><summary>Code and parameters</summary></details>'
"""What shows a page's code; without a script too, since the style asks whether it is open."""

START = '<p class="rbp-start"><a href="#rerun">Run with your data</a></p>'
"""What leads from a chapter's title to how it is run again; in the live book it opens the form."""


class OneSwitch(SphinxPostTransform):
    """Puts one switch below a page's title and notice, which shows code and parameters, for a button at each cell."""

    default_priority = 198  # before myst_nb folds each cell by itself
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Add the switch to one page."""
        cells = [node for node in self.document.findall(nodes.container) if node.get("nb_element") == "cell_code"]
        title = self.document.next_node(nodes.title)
        for cell in cells:
            if cell.get("hide_mode") == "input":
                cell["hide_mode"] = ""
        if cells and title is not None:
            noticed = isinstance(title.next_node(descend=False, siblings=True), nodes.block_quote)  # whose run it is
            title.parent.insert(1 + noticed, nodes.raw("", SWITCH + START, format="html"))


# ── Which pages are written again


def _note_outline(app: Sphinx, doctree: nodes.document) -> None:
    """Note the outline of a page that is read: all but the words of its paragraphs, which no other page shows."""
    outlines = vars(app.env).setdefault("rbp_outlines", {})
    text = doctree.deepcopy()
    for paragraph in text.findall(nodes.paragraph):
        for words in list(paragraph.findall(nodes.Text)):
            words.parent.replace(words, nodes.Text("…"))
    outline = hashlib.sha256(text.pformat().encode()).hexdigest()
    if outlines.get(app.env.docname) != outline:
        outlines[app.env.docname] = outline
        vars(app)["rbp_rewrites_all"] = True


def _rewrite_all(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Name all pages where an outline has changed: others may show the title, or numbers that follow its own."""
    return sorted(env.found_docs) if vars(app).get("rbp_rewrites_all") else []


# ── What search reads

#: what holds no sentences
NO_SENTENCES = "script, style, svg, math, .rbp-table, .rbp-downloads, .rbp-rerun, .rbp-code, button, select"


class Builder(StandaloneHTMLBuilder):
    """Sphinx's HTML builder, whose search reads sentences alone: no code, formulas, labels of figures, or tables.

    It shows them too, from a file of their own: a page opened from a file can fetch no other.
    """

    def prepare_writing(self, docnames: set[str]) -> None:
        """Begin with the sentences of the pages that are not written again."""
        super().prepare_writing(docnames)
        self._sentences_file = Path(self.outdir) / "_static" / SENTENCES
        self.sentences: dict[str, str] = {}
        if self._sentences_file.exists():
            text = self._sentences_file.read_text(encoding="utf-8")
            self.sentences = json.loads(text.removeprefix(_OPENING).removesuffix(_END))
            self._sentences_file.unlink()  # else pages would name it with a checksum

    def index_page(self, pagename: str, doctree: nodes.document, title: str) -> None:
        """Index a page's sentences."""
        readable = doctree.deepcopy()
        for node in list(readable.findall(nodes.Element)):
            code = node.get("nb_element") == "cell_code_source"
            if (code or isinstance(node, nodes.math | nodes.math_block)) and node.parent is not None:
                node.parent.remove(node)
        for raw in readable.findall(nodes.raw):
            raw[:] = [nodes.Text(_sentences(raw.astext()))]
        if "made" not in self.env.metadata.get(pagename, {}):  # times and a commit, other ones in each build
            self.sentences[pagename] = " ".join(readable.astext().split())
        super().index_page(pagename, readable, title)

    def dump_search_index(self) -> None:
        """Write the index of words, and the sentences."""
        super().dump_search_index()
        text = json.dumps(self.sentences, ensure_ascii=False, sort_keys=True)
        self._sentences_file.write_text(f"{_OPENING}{text}{_END}", encoding="utf-8")


SENTENCES = "sentences.js"
_OPENING, _END = "var SENTENCES = ", ";\n"


def _sentences(markup: str) -> str:
    """Return the text of a piece of HTML without the elements that hold no sentences."""
    without_figures = re.sub(r"<svg\b.*?</svg>", "<br>", markup, flags=re.DOTALL)  # which take long to parse
    soup = BeautifulSoup(without_figures, "html.parser")
    for element in soup.select(NO_SENTENCES):
        element.decompose()
    return soup.get_text(" ")


def _add_style(app: Sphinx, config: Any) -> None:
    """Copy the library's style of figures and tables to the pages' files; by a path that another checkout has too."""
    config.html_static_path.append(os.path.relpath(STYLE, app.confdir))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    numbered.setup(app)
    assets.setup(app)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_displayed_formula, None))
    app.add_post_transform(OneSwitch)
    app.add_js_file("page.js", priority=400)  # before the theme looks for wide tables
    app.add_builder(Builder, override=True)
    app.connect("config-inited", _set_address)
    app.connect("config-inited", _add_style)
    app.add_css_file(STYLE.name, priority=400)  # before the book's own
    app.connect("doctree-read", _note_outline)
    app.connect("env-get-updated", _rewrite_all)
    app.connect("html-page-context", _drop_source, priority=900)  # after the theme's buttons are there
    app.connect("html-page-context", _load_scripts)
    app.connect("html-page-context", _mend_markup)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
