"""The live book as a reader has it: `rbp serve` as it is started, in a real browser."""

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from companion.project import Project

PAGE = "notebooks/holds.html"
ADDRESS = re.compile(r"http://\S+")
LONG = 120_000  # milliseconds that a chapter may take on a busy machine


@pytest.fixture(scope="module")
def served(book: Path) -> Iterator[str]:
    """The address for the first browser. What the tests run is removed in the end."""
    runs = Project().runs / "live"
    before = set(runs.glob("*")) | set(runs.glob("uploads/*"))
    command = [sys.executable, "-m", "rbp.cli", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = ADDRESS.search(process.stdout.readline())
        assert found is not None
        yield found[0]
        process.terminate()
        process.wait(60)
    for path in (*runs.glob("uploads/*"), *runs.glob("*")):
        if path not in before and path.name != "uploads":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def context(browser: Browser, served: str) -> Iterator[BrowserContext]:
    """A browser that is in."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(served)
    tab.wait_for_url("**/book/welcome.html")
    tab.close()
    yield context
    context.close()


def opened(context: BrowserContext, served: str) -> Page:
    tab = context.new_page()
    tab.on("pageerror", lambda error: pytest.fail(str(error)))
    tab.goto(f"{served.partition('/enter')[0]}/{PAGE}")
    tab.wait_for_selector(".rbp-form button")
    return tab


def width_in(tab: Page) -> list[str]:
    """The row of the run's table that tells how wide intervals are: the book's and this run's."""
    row = tab.frame_locator(".rbp-shown iframe").locator(".rbp-beside tr", has_text="width few")
    return row.locator("td.num").all_inner_texts()


def test_a_level_is_changed_and_the_interval_moves(context: BrowserContext, served: str) -> None:
    tab = opened(context, served)
    tab.fill("[name=level]", "0.8")
    tab.click("text=Run this chapter")
    tab.wait_for_selector(".rbp-now progress", timeout=LONG)
    tab.wait_for_selector(".rbp-shown iframe", timeout=LONG)
    tab.frame_locator(".rbp-shown iframe").locator(".rbp-beside").wait_for()
    book, run = width_in(tab)
    assert float(run) < float(book)
    assert tab.locator(".rbp-earlier tbody tr").first.inner_text().split("\t")[1] == "level = 0.8"
    with tab.expect_download() as download:
        tab.click(".rbp-earlier >> text=Download")
    assert download.value.suggested_filename.startswith("holds-")
    rows = tab.locator(".rbp-earlier tbody tr")
    before = rows.count()
    tab.click(".rbp-earlier >> text=Delete")
    expect(rows).to_have_count(before - 1)


def test_a_table_is_uploaded_and_read(context: BrowserContext, served: str, tmp_path: Path) -> None:
    rows = [f"<b>mine</b>,model {i},Mine,{10**i},neg_log_rbp,1,{2 * 0.8**i:.4f}" for i in range(4, 9)]
    table = tmp_path / "mine.csv"
    table.write_text("\n".join(["dataset,model,family,size,metric,k,value", *rows]) + "\n")
    tab = opened(context, served)
    tab.set_input_files("input[type=file]", table)
    expect(tab.get_by_label("mine.csv (uploaded)")).to_be_checked(timeout=LONG)
    expect(tab.get_by_label("the authors' published numbers")).not_to_be_checked()
    tab.click("text=Run this chapter")
    tab.wait_for_selector(".rbp-shown iframe", timeout=LONG)
    page = tab.frame_locator(".rbp-shown iframe")
    expect(page.locator("body")).to_contain_text("<b>mine</b>")
    expect(tab.locator(".rbp-earlier")).to_contain_text("measurements = mine.csv")
    tab.get_by_role("button", name="The book's values").click()
    expect(tab.get_by_label("mine.csv (uploaded)")).not_to_be_checked()
    expect(tab.get_by_label("the authors' published numbers")).to_be_checked()
    tab.set_input_files("input[type=file]", {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    expect(tab.locator(".rbp-said")).to_contain_text("bad.csv", timeout=LONG)


def test_a_run_is_cancelled_and_two_tabs_see_the_same(context: BrowserContext, served: str) -> None:
    tab, other = opened(context, served), opened(context, served)
    tab.fill("[name=level]", "0.7")
    tab.click("text=Run this chapter")
    tab.wait_for_selector(".rbp-now >> text=Cancel")
    other.reload()
    other.wait_for_selector(".rbp-now >> text=Cancel")
    other.click(".rbp-now >> text=Cancel")
    for each in (tab, other):
        expect(each.locator(".rbp-now")).to_contain_text("cancelled", timeout=LONG)
    before = tab.locator(".rbp-earlier tbody tr").count()
    tab.fill("[name=level]", "7")
    assert tab.evaluate("document.querySelector('[name=level]').validity.rangeOverflow")
    tab.fill("[name=level]", "1")  # which the browser takes for inside
    tab.click("text=Run this chapter")
    expect(tab.locator(".rbp-said")).to_have_text(
        "1 is out of range (parameter level)\nIts range is 0 < level < 1, its default 0.95."
    )
    assert tab.locator(".rbp-earlier tbody tr").count() == before


def test_it_is_served_on_this_machine_alone_and_to_whom_it_let_in(context: BrowserContext, served: str) -> None:
    port = int(served.partition("/enter")[0].rpartition(":")[2])
    said = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout
    for address in (each for each in said.split() if "." in each and not each.startswith("127.")):
        with socket.socket() as knock:
            knock.settimeout(2)
            assert knock.connect_ex((address, port)) != 0, f"it listens on {address} too"
    assert context.browser is not None
    stranger = context.browser.new_context().new_page()
    answer = stranger.goto(f"http://127.0.0.1:{port}/{PAGE}")
    assert answer is not None
    assert answer.status == 401
