"""The built book, served on loopback."""

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from rbp.core.paths import Project

HTML = Project().html


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built book; what is stale is built first, by one of the processes that run tests."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "book.lock"):
        done = subprocess.run([sys.executable, "-m", "rbp.cli", "book"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return HTML


@pytest.fixture(scope="session")
def pages(book: Path) -> list[str]:
    """The book's pages, relative to its folder, as the table of contents lists them."""
    found = [
        path.relative_to(book).as_posix() for part in ("book", "notebooks") for path in book.glob(f"{part}/*.html")
    ]
    assert len(found) >= 14
    return sorted(found)


@pytest.fixture(scope="session")
def address(book: Path) -> Iterator[str]:
    """The book served on a free port of 127.0.0.1."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(book)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
