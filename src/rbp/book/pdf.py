"""The whole book as a PDF: one long page, printed by a headless browser, with page numbers in its contents."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import typer
import yaml
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader

from rbp.book import site, standalone
from rbp.core.errors import RbpError
from rbp.core.files import folder_beside, temporary_folder, write_file
from rbp.core.paths import Project

#: the first is the same without windows: it opens a page with a third of the processor time
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PRINT_STYLE = """
html { font-size: 82%; }
pre { white-space: pre-wrap !important; overflow-wrap: anywhere; }
details.hide, .rbp-downloads, .headerlink, .rbp-more { display: none !important; }
.rbp-ledger-tools, .rbp-ledger-count, .rbp-bars { display: none !important; }
.rbp-ledger details::details-content { content-visibility: visible; }
.rbp-figure .rbp-rest { display: table-row-group !important; }
.rbp-table { font-size: 0.78em; }
.rbp-table :is(td, th) { white-space: normal !important; min-width: 0 !important; padding: 0.15rem 0.35rem; }
/* What scrolls within itself cannot break, and is cut. */
main :not(svg, svg *) { overflow: visible !important; }
main :is(div, pre) { max-height: none !important; }
.rbp-scroll, .pst-scrollable-table-container, div.math { background: none !important; }
.rbp-contents, span[id^="document-"] { display: block; break-before: page; }
h1, h2, h3, h4 { break-after: avoid; break-inside: avoid; }
/* A figure of many panels breaks between them; whole, it would leave the page before it blank. */
main table { break-inside: auto !important; }
svg, tr, figcaption { break-inside: avoid; }
.rbp-ledger tr { break-inside: auto; }
figcaption { break-before: avoid; }
.rbp-figure svg { max-height: 40vh; }
.rbp-contents ol { list-style: none; padding: 0; margin: 0 0 0.4rem; break-inside: avoid; }
.rbp-contents p { font-weight: 600; margin: 0; break-after: avoid; }
.rbp-contents a { display: flex; gap: 0.4rem; color: inherit; text-decoration: none; line-height: 1.25; }
.rbp-contents a::after { content: ""; order: 1; flex: 1; border-bottom: 1px dotted; margin-bottom: 0.4em; }
.rbp-contents b { order: 2; width: 2.2rem; text-align: right; font-weight: normal; font-variant-numeric: tabular-nums; }
@page { @bottom-center { content: counter(page); } }
/* A page breaks only within blocks, and the theme lays its parts out as flexible boxes. */
.bd-container, .bd-container__inner, .bd-main, .bd-content, .bd-article-container { display: block !important; }
"""


def add_pdf(project: Project) -> None:
    """Print the whole book as a PDF and put it into the HTML, unless both are there for these chapters."""
    current = site.pdf_is_current(project)
    if not current:
        print_pdf(project)
    if not current or not (project.html / "book.pdf").exists():
        site.build_html(project)
    typer.echo(f"The PDF: {site.pdf_file(project)}")


def print_pdf(project: Project) -> None:
    """Print the book with a headless browser into ``_build/pdf/book.pdf``. Raises RbpError without one.

    It is printed twice: on which page a chapter begins is known once it is printed.
    """
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise RbpError("no browser to print the PDF with", None, "Install Chromium (apt-get install chromium).")
    site.stage(project, pdf=False)
    with folder_beside(project.build / "singlehtml") as aside:
        pages = site.jupyter_book(project.build / "source", site.configured(project), aside, "singlehtml")
        toc = yaml.safe_load((project.book / "_toc.yml").read_text(encoding="utf-8"))
        soup = _printable(pages / f"{toc['root']}.html", [part.get("caption", "") for part in toc.get("parts", [])])
        # All addresses in it are relative to the site's root, wherever Sphinx puts the page.
        page, target = pages / "print.html", aside / "book.pdf"
        write_file(page, str(soup))
        _print(browser, page, target)
        begins = pages_of(target)
        for number in soup.select(".rbp-contents b"):
            number.string = str(begins[str(number["data-of"])])
        write_file(page, str(soup))
        _print(browser, page, target)
        write_file(site.pdf_file(project), target.read_bytes())
    write_file(site.pdf_stamp(project), site.fingerprint(project))


def _printable(page: Path, parts: list[str]) -> BeautifulSoup:
    """The one long page as it is printed: with contents, without navigation and links to files of this machine."""
    soup = standalone.read_page(page)
    standalone.drop_navigation(soup)
    standalone.keep_links(soup)
    _add_contents(soup, parts)
    style = soup.new_tag("style")
    style.string = PRINT_STYLE
    (soup.head or soup).append(style)
    return soup


def _add_contents(soup: BeautifulSoup, parts: list[str]) -> None:
    """Put the contents before the first chapter: the parts, their chapters' titles, and room for page numbers."""

    def tag(name: str, text: str = "", **attributes: str) -> Tag:
        made = soup.new_tag(name, attrs=attributes)
        made.string = text
        return made

    contents = tag("nav", **{"class": "rbp-contents", "aria-label": "Contents"})
    contents.append(tag("h2", "Contents"))
    listed = soup.select(".toctree-wrapper")
    for part, caption in zip(listed, [*parts, *[""] * len(listed)], strict=False):
        chapters = tag("ol")
        for place in part.select('span[id^="document-"]'):
            title, of = place.find_next(["h1", "h2"]), str(place["id"])
            link, item = tag("a", href=f"#{of}"), tag("li")
            link.extend([tag("span", title.get_text() if title else of), tag("b", **{"data-of": of})])
            item.append(link)
            chapters.append(item)
        contents.extend([tag("p", caption), chapters])
    if listed:
        listed[0].insert_before(contents)


def _print(browser: str, page: Path, target: Path) -> None:
    """Print a page into a PDF with an outline. Raises RbpError."""
    with temporary_folder("rbp-print") as profile:
        command = [browser, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}"]
        command += ["--virtual-time-budget=60000", "--no-pdf-header-footer", "--generate-pdf-document-outline"]
        command += [f"--print-to-pdf={target}"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox refuses root
        done = subprocess.run(  # noqa: S603 (our own command)
            [*command, page.as_uri()], capture_output=True, text=True, check=False, timeout=600
        )
    if done.returncode or not target.exists():
        raise RbpError("the browser printed no PDF", browser, done.stderr.strip()[-500:])


def pages_of(pdf: Path) -> dict[str, int]:
    """The places of a PDF that links within it lead to, by their names, and the numbers of their pages."""
    reader = PdfReader(pdf)
    return {
        unquote(name.removeprefix("/")): (reader.get_destination_page_number(place) or 0) + 1
        for name, place in reader.named_destinations.items()
    }
