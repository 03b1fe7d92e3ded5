"""The page that a module's fixture `address` has written, in a browser."""

import pytest
from tabs import watched


@pytest.fixture(params=[{}])
def tab(request, browser, address):
    """Its tab; the parameter is for the browser's context."""
    with watched(browser, address, "file:", **request.param) as tab:
        yield tab
