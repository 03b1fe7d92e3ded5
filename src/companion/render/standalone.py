"""Render executed chapters as pages that open without the rest of the book, with all that they load put into them."""

import base64
import mimetypes
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from bs4 import BeautifulSoup, Tag

from companion.execute import prose
from companion.execute.run import Chapter, execute
from companion.project import Project
from companion.render.citation import configuration
from companion.render.site import jupyter_book, start_early
from rbp.io import canonical_json, temporary_folder, write_file

# Of the book's scripts, those that a page without navigation can use.
USEFUL: tuple[str, ...] = ("documentation_options.js", "doctools.js", "clipboard.min.js", "copybutton.js")
USEFUL += ("copybutton_funcs.js", "design-tabs.js", "_static/fits.js", "_static/charts.js", "_static/explorer.js")
USEFUL += ("_static/ledger.js", "_static/neox.js", "_static/sentence.js", "_static/page.js")
NAVIGATION = (
    *(".skip-link", ".pst-skip-link", "#pst-skip-link", "#pst-back-to-top", "#pst-scroll-pixel-helper"),
    *(".pst-primary-sidebar-checkbox", ".pst-secondary-sidebar-checkbox", "label.overlay", ".search-button__wrapper"),
    *("dialog", "#pst-search-dialog", ".pst-async-banner-revealer", ".bd-header", ".bd-header-article"),
    *(".bd-sidebar-primary", ".bd-sidebar-secondary", ".prev-next-footer", ".bd-footer", ".bd-footer-content"),
    *("#jb-print-toc", ".sidebar-drawer", "a.headerlink", ".rbp-start"),
)
# The theme's own script, which is left out, would follow the reader's choice of light or dark.
FOLLOW_THEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
follow(); dark.addEventListener("change", follow);
"""


def drop_navigation(soup: BeautifulSoup) -> None:
    """Remove what leads to other pages: header, sidebars, search, previous and next."""
    for selector in NAVIGATION:
        for tag in soup.select(selector):
            tag.decompose()


def drop_dead_links(soup: BeautifulSoup, folder: Path) -> None:
    """Remove links, except to places of this page, outside addresses, and existing files below ``folder``.

    Relative addresses count from it.
    """
    places = {"", *(str(tag["id"]) for tag in soup.find_all(id=True))}
    for link in soup.find_all("a", href=True):
        address = str(link["href"])
        if address.startswith("#"):
            leads = unquote(address[1:]) in places
        elif address.startswith(("http://", "https://", "mailto:", "data:")):
            leads = True
        else:
            file = _local(address, folder)
            leads = file is not None and file.is_relative_to(folder.resolve())
        if not leads:
            for name in ("href", "download", "title"):
                del link[name]


def _data_uri(file: Path) -> str:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"


def _local(address: str, folder: Path) -> Path | None:
    """Find the file that a relative address means, or None if there is none."""
    if re.match(r"[a-z]+:|//|#", address):
        return None
    file = (folder / re.split(r"[?#]", address)[0]).resolve()
    return file if file.is_file() else None


def _stylesheet(file: Path) -> str:
    """Embed into a stylesheet what it imports, its fonts and its pictures."""

    def imported(match: re.Match[str]) -> str:
        target = _local(match[1], file.parent)
        return _stylesheet(target) if target else match[0]

    def within(match: re.Match[str]) -> str:
        target = _local(match[1].strip("\"'"), file.parent)
        return f"url({_data_uri(target)})" if target else match[0]

    text = re.sub(r"url\(([^)]+)\)", within, file.read_text(encoding="utf-8"))
    return re.sub(r"@import\s*[\"']([^\"']+)[\"'];?", imported, text)


def _element(soup: BeautifulSoup, name: str, text: str) -> Tag:
    element = soup.new_tag(name)
    element.string = text
    return element


def inline(soup: BeautifulSoup, folder: Path) -> None:
    """Put stylesheets, scripts and pictures, whose addresses are relative to ``folder``, into the page."""
    for script in soup.select("script[data-cfasync]"):  # the theme's memory of light or dark
        script.decompose()
    for link in soup.find_all("link", href=True):
        file = _local(str(link["href"]), folder)
        if "stylesheet" in link.get_attribute_list("rel") and file:
            link.replace_with(_element(soup, "style", _stylesheet(file)))
        else:
            link.decompose()
    deferred = []
    for script in soup.find_all("script", src=True):
        file = _local(str(script["src"]), folder)
        if file and any(useful in file.as_posix() for useful in USEFUL):
            # Within a page, a script ends at the first "</script", wherever it stands.
            text = file.read_text(encoding="utf-8").replace("</script", "<\\/script")
            element = _element(soup, "script", text)
            if script.has_attr("defer"):
                deferred.append(element)
            else:
                script.insert_before(element)
        script.decompose()
    if soup.head is not None:
        soup.head.insert(0, _element(soup, "script", FOLLOW_THEME))
        soup.head.append(_element(soup, "style", "main { padding-block: 1rem 3rem; }"))
    for element in deferred:
        (soup.body or soup).append(element)
    for picture in soup.find_all("img", src=True):
        if file := _local(str(picture["src"]), folder):
            picture["src"] = _data_uri(file)


ELSEWHERE = re.compile(r"\{numref\}`(?:[^`<]*<)?(?P<name>\w+)::[\w-]+>?`")
"""A reference to a numbered figure or table of a chapter, in full."""

REFERENCES = "## References\n\n```{bibliography}\n:filter: docname in docnames\n```\n"


def _elsewhere(chapter: str, numbers: Mapping[str, str], reference: re.Match[str]) -> str:
    """Put a reference to another chapter's figure in words, since the page is read without it."""
    name = reference["name"]
    return reference[0] if name == chapter else f"the book’s chapter {numbers.get(name, name)}"


def page_of(executed: Path, book: prose.BookValues) -> str:
    """Write the text of a page, with its references, for the executed notebook in a file; the page needs no other."""
    notebook = prose.page_of(executed, book)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = ELSEWHERE.sub(partial(_elsewhere, executed.stem, book.numbers), cell["source"])
    text = "".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    if "{cite" in text and "{bibliography}" not in text:
        notebook["cells"].append({"cell_type": "markdown", "id": "references", "metadata": {}, "source": REFERENCES})
    return canonical_json(notebook, indent=1) + "\n"


def build_pages(project: Project, pages: Mapping[str, str], base: Path) -> Path:
    """Build HTML pages in the empty folder ``base``; returns their folder.

    pages: their texts by their paths with endings, the first one first. Looks and settings are the project's. Raises
    RbpError if they cannot be built.
    """
    source = base / "source"
    shutil.copytree(project.book, source / "book", ignore=shutil.ignore_patterns(".*", "*.md", "*.toml"))
    root, *others = [str(Path(path).with_suffix("")) for path in pages]
    listed = {"chapters": [{"file": page} for page in others]} if others else {}  # an empty list is refused
    write_file(source / "_toc.yml", yaml.safe_dump({"format": "jb-book", "root": root, **listed}))
    for path, text in pages.items():
        write_file(source / path, text)
    (base / "extra").mkdir()  # which the settings name
    config = configuration(project)
    config |= {"repository": {"url": ""}}  # no buttons that lead out
    config["html"]["baseurl"] = ""  # nor are these the book's own pages
    write_file(base / "_config.yml", yaml.safe_dump(config))
    return jupyter_book(source, base / "_config.yml", base / "build", strict=False)


def execute_with_page(
    project: Project,
    chapter: Chapter,
    values: Mapping[str, Any],
    folder: Path,
    cwd: Path,
    on_cell: Callable[[int, int], object],
) -> float:
    """Execute a chapter as `companion.execute.run.execute` does, with its page; returns the seconds it took."""
    start_early(project.root / "_config.yml")  # the page's builder imports while the chapter runs
    return execute(
        chapter, values, folder, cwd, finish=lambda new: render_chapter(project, chapter, new), on_cell=on_cell
    )


def render_chapter(project: Project, chapter: Chapter, folder: Path) -> Path:
    """Write ``NAME.html`` beside the executed ``NAME.ipynb`` in ``folder``; returns its path.

    The notebook gets the page's words. The page loads nothing; it links to the figures' files in ``NAME/`` beside
    it. Raises RbpError if it cannot be built.
    """
    name = chapter.name
    text = page_of(folder / f"{name}.ipynb", prose.BookValues.read(project))
    with temporary_folder("rbp-page") as temporary:
        html = build_pages(project, {f"notebooks/{name}.ipynb": text}, temporary)
        page = html / "notebooks" / f"{name}.html"
        soup = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
        drop_navigation(soup)
        inline(soup, page.parent)
        drop_dead_links(soup, folder)
    write_file(folder / f"{name}.ipynb", text)
    target = folder / f"{name}.html"
    write_file(target, str(soup))
    return target
