"""What all tests share: how they are spread over processes, and a headless browser."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from rbp.paths import ROOT
from rbp.site import BROWSERS

FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay in one process, and all that read or build the book in one: there is one book."""
    for item in items:
        file = item.path.relative_to(ROOT / "tests")
        item.add_marker(pytest.mark.xdist_group("book" if file.parts[0] == "book" else str(file)))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium. Without one the tests are skipped, but never in CI."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        message = "no Chromium on the PATH (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()
