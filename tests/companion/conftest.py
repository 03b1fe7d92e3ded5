"""The page that a module's fixture `address` has written, in a browser."""

import pytest
from tabs import watched


@pytest.fixture
def tab(browser, address):
    with watched(browser, address, "file:") as tab:
        yield tab
