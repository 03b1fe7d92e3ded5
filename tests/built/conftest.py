"""The built book, served on loopback. What needs it is tested last; it is built meanwhile."""

import functools
import http.server
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from companion.execute.run import chapter_names
from companion.project import Project

HTML = Project().html
ALONE = """
import subprocess, sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    sys.exit(subprocess.call(sys.argv[2:]))
"""
#: a process that begins a file of two tests or fewer is given the next file too: a short one follows test_live
LONGEST = (
    "test_study",
    "test_harness",
    "test_readme",
    "test_triton",
    "test_build",
    "test_live",
    "test_linear_rank",
    "test_pages",
    "test_html",
)
BUILDING = pytest.StashKey["Future[subprocess.CompletedProcess[str]]"]()


def _needs_book(item):
    return "book" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items):
    # what takes long comes first, so that no process is left idle at the end; the book is built meanwhile
    longest = {name: i for i, name in enumerate(LONGEST)}
    beside = longest["test_live"]  # what follows it in the list runs beside it, whether it needs the book or not

    def place(item):
        at = longest.get(item.path.stem, len(longest))
        return _needs_book(item) or beside <= at < len(longest), at

    items.sort(key=place)
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("long")


def pytest_collection_finish(session):
    if not session.config.option.collectonly and any(map(_needs_book, session.items)):
        session.config.stash[BUILDING] = ThreadPoolExecutor(1).submit(_build)


def _build():
    """Build what is stale: one of the processes that run tests does, and the others wait for it."""
    Project().build.mkdir(exist_ok=True)
    # the lock is another process's: tests run here meanwhile, and some take locks away
    one_at_a_time = [sys.executable, "-c", ALONE, str(Project().build / ".tests.lock")]
    command = [*one_at_a_time, sys.executable, "-m", "rbp.cli", "book"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def book(request):
    """The folder of the built book."""
    done = request.config.stash[BUILDING].result()
    assert done.returncode == 0, done.stdout + done.stderr
    return HTML


@pytest.fixture(scope="session")
def pages(book):
    """The book's pages, relative to its folder, without those that lead on from an old address."""
    chapters = [book / "notebooks" / f"{name}.html" for name in chapter_names(Project())]
    found = [path.relative_to(book).as_posix() for path in (*book.glob("book/*.html"), *chapters)]
    assert len(found) >= 14
    return sorted(found)


@pytest.fixture(scope="session")
def soups(book, pages):
    """Every page, parsed."""
    return {page: BeautifulSoup((book / page).read_text(encoding="utf-8"), "lxml") for page in pages}


@pytest.fixture(scope="session")
def address(book):
    """The book served on a free port of 127.0.0.1."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(book)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
