"""A second build, in another folder with every chapter executed anew: the same bytes, and a PDF of the whole.

The steps' tables, which take minutes, are not made again: `rbp verify` holds what follows from them to the accepted
values.
"""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser
from pypdf import PdfReader

from rbp.book import report
from rbp.book.chapters import all_chapters
from rbp.book.prose import chapter_numbers
from rbp.core.paths import ROOT, Project

pytestmark = pytest.mark.slow

#: what may differ: the page that holds times and the commit, and the PDF, which holds its date
MADE = {"book/made.html", "_sources/book/made.md", "book.pdf"}

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build_again(book: Path, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build the book in a copy of the working tree; returns the copy."""
    del book  # only that it is there, for its steps
    other = tmp_path_factory.mktemp("second") / "another folder"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (other / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, other / name)
    shutil.copytree(Project().steps, other / "_build" / "steps")

    def build(*arguments: str) -> Path:
        command = [sys.executable, "-m", "rbp.cli", "book", *arguments]
        environment = os.environ | {"PYTHONPATH": str(other / "src")}
        done = subprocess.run(command, cwd=other, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return other

    return build


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_two_builds_give_the_same_bytes(book: Path, build_again: Build) -> None:
    other = build_again(*(["--pdf"] if (book / "book.pdf").exists() else []))
    again = other / "_build" / "html"
    assert again.is_dir(), "the copy has built into another folder than its own"
    assert _files(again) == _files(book) - {"report.pdf"}  # that is set when it is asked for
    changed = [name for name in sorted(_files(again)) if not filecmp.cmp(book / name, again / name, shallow=False)]
    assert set(changed) <= MADE
    assert (other / "_build" / "results.json").read_bytes() == (ROOT / "_build" / "results.json").read_bytes()
    assert report.make(Project(other)).read_bytes() == report.make(Project()).read_bytes()


def test_the_pdf_holds_every_chapter_and_is_offered(browser: Browser, build_again: Build) -> None:
    del browser  # without one the PDF cannot be printed, and this test is skipped
    html = build_again("--pdf") / "_build" / "html"
    reader = PdfReader(html / "book.pdf")
    as_typed = str.maketrans({"’": "'", "ﬁ": "fi", "ﬂ": "fl"})  # Sphinx and the font set these as printers do
    pages = [" ".join(page.extract_text().split()).translate(as_typed) for page in reader.pages]
    text = " ".join(pages)
    assert 80 <= len(pages) <= 300
    contents = text[text.index("Contents") :]
    numbers = chapter_numbers(Project())
    for chapter in all_chapters(Project()):
        title = f"{numbers[chapter.name]}. {' '.join(chapter.title.split()[:3])}".translate(as_typed)
        found = re.search(rf"{re.escape(title)}[^.]*?(\d+) (?=[A-Z\d])", contents)
        assert found, f"{title} is not among the contents"
        assert pages[int(found[1]) - 1].find(title) in range(12), title  # after the page's own number
    assert "\\mathrm" not in text
    assert "\\frac" not in text
    welcome = BeautifulSoup((html / "book" / "welcome.html").read_text(encoding="utf-8"), "html.parser")
    link = welcome.select_one("a[href$='book.pdf']")
    assert link is not None
    assert (html / "book" / str(link["href"])).resolve() == (html / "book.pdf").resolve()
    alpha = json.loads(Project().results.read_text())["holds"]["alpha_max"]["value"]
    assert f"{alpha:.3f}" in text
