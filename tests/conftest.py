"""A headless browser, one for all tests that need it."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from rbp.book.site import BROWSERS

FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]


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
