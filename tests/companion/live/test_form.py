"""The form of a chapter in a browser, whose server is played by the test: what it sends, and when."""

import json

import pytest
from playwright.sync_api import expect

from companion.live.server import STATIC

SOURCE = {
    "name": "measurements",
    "kind": "source",
    "type": "str",
    "help": "whose",
    "shown": "published",
    "label": "Whose",
}
FIELD = SOURCE | {"choices": [{"value": "published", "label": "the book's"}]}
PAGE = '<div class="rbp-start"><a href="#">Run</a></div><script src="/live/live.js" defer></script>'
UPLOADED = {"value": "upload-12345678", "label": "mine.csv (uploaded 1 Nov 10:00:00)"}
FILE = {"name": "mine.csv", "mimeType": "text/csv", "buffer": b"a,b\n"}
SLOW = 700  # milliseconds that an upload takes here


@pytest.fixture
def sent(browser):
    """A chapter's page, and the requests that it sends; an upload of bad.csv fails."""
    tab, requests = browser.new_page(), []

    def answer(route):
        request = route.request
        path = request.url.removeprefix("http://book")
        if request.method != "GET":
            requests.append((request.method, path, request.post_data if path == "/api/runs" else None))
        if path == "/api/chapters/one":
            route.fulfill(json={"name": "one", "title": "One", "fields": [FIELD]})
        elif path == "/api/runs":
            state = {"id": "1", "chapter": "one", "state": "failed", "words": "", "name": "", "when": "", "message": ""}
            route.fulfill(json=[] if request.method == "GET" else state)
        elif path.startswith("/api/runs/"):
            route.fulfill(json={"id": "1", "state": "failed", "message": "", "log": ""})
        elif path.endswith("bad.csv"):
            tab.wait_for_timeout(SLOW)
            route.fulfill(status=422, json={"what": "no table", "where": "bad.csv", "remedy": None})
        elif request.method == "PUT":
            tab.wait_for_timeout(SLOW)
            route.fulfill(json=UPLOADED)
        else:
            script = path == "/live/live.js"
            body = (STATIC / "live.js").read_text() if script else PAGE
            route.fulfill(body=body, content_type="text/javascript" if script else "text/html")

    tab.route("**/*", answer)
    tab.on("pageerror", lambda error: pytest.fail(str(error)))
    tab.goto("http://book/notebooks/one.html")
    tab.wait_for_selector(".rbp-ready")
    tab.click(".rbp-start a")
    yield tab, requests
    tab.close()


def test_a_run_waits_for_the_table_that_is_on_its_way(sent):
    tab, requests = sent
    tab.set_input_files("input[type=file]", FILE)
    tab.click("text=Run this chapter")
    expect(tab.locator(".rbp-now")).to_contain_text("failed")
    assert [request[:2] for request in requests] == [("PUT", "/api/uploads/mine.csv"), ("POST", "/api/runs")]
    assert json.loads(requests[1][2])["parameters"] == {"measurements": UPLOADED["value"]}
    tab.set_input_files("input[type=file]", FILE | {"name": "bad.csv"})
    tab.click("text=Run this chapter")
    expect(tab.locator(".rbp-said")).to_contain_text("no table (bad.csv)")
    tab.wait_for_timeout(SLOW)
    assert [request[0] for request in requests[2:]] == ["PUT"], "no run begins where the table is refused"
