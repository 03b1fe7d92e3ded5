"""The page that a module's fixture `address` has written, in a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from tabs import watched


@pytest.fixture(params=[{}])
def tab(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """Its tab; the parameter is for the browser's context."""
    with watched(browser, address, "file:", **request.param) as tab:
        yield tab
