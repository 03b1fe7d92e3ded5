"""The live book as a reader has it: `rbp serve` as it is started, in a real browser."""

import re
import shutil
import subprocess
import sys

import pytest
from playwright.sync_api import expect

from companion.project import Project

PAGE = "notebooks/holds.html"
ADDRESS = re.compile(r"http://\S+")
LONG = 120_000  # milliseconds that a chapter may take on a busy machine


@pytest.fixture(scope="module")
def served(book):
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
def context(browser, served):
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(served)
    tab.wait_for_url("**/book/welcome.html")
    tab.close()
    yield context
    context.close()


def opened(context, served):
    """A chapter whose form is open, and empty."""
    tab = context.new_page()
    tab.on("pageerror", lambda error: pytest.fail(str(error)))
    tab.on("dialog", lambda dialog: dialog.accept())  # it asks before it deletes
    tab.goto(f"{served.partition('/enter')[0]}/{PAGE}")
    tab.wait_for_selector(".rbp-ready")
    if not tab.locator(".rbp-studio[open]").count():
        tab.click(".rbp-start a")
    return tab


def run(tab):
    """Run what the form says, and return the page of the run, which opens beside the form."""
    tab.dblclick("text=Run this chapter")  # a second click starts no second run
    tab.wait_for_selector(".rbp-shown iframe", timeout=LONG)
    page = tab.frame_locator(".rbp-shown iframe")
    page.locator(".rbp-answer").wait_for(timeout=LONG)
    return page


def rising(path):
    """A table in which everything gets worse with size."""
    models = ((i, k) for i in range(4, 9) for k in (1, 5))
    rows = [f"<b>mine</b>,model {i},Mine,{10**i},neg_log_rbp,{k},{0.1 * 1.2**i:.6f}" for i, k in models]
    path.write_text("\n".join(["dataset,model,family,size,metric,k,value", *rows]) + "\n")
    return path


def test_a_level_is_changed_a_table_is_uploaded_and_both_runs_are_compared(context, served, tmp_path):
    tab = opened(context, served)
    rows = tab.locator(".rbp-earlier tbody tr")
    before = rows.count()
    tab.fill("[name=level]", "0.8")
    tab.fill("#rbp-name", "eighty per cent")
    page = run(tab)
    expect(page.locator(".rbp-answer")).to_contain_text("This page was run with other parameters: level = 0.8.")
    expect(rows).to_have_count(before + 1)
    expect(rows.first).to_contain_text("eighty per cent: level = 0.8")
    tab.reload()  # what was filled in is kept, and so is the form
    tab.wait_for_selector(".rbp-studio[open]")
    assert tab.input_value("[name=level]") == "0.8"
    tab.click("text=Run this chapter")
    expect(tab.locator(".rbp-said")).to_have_text("This run was made before, and is shown again.", timeout=LONG)
    with tab.expect_download() as download:
        tab.click(".rbp-earlier >> text=Download")
    assert download.value.suggested_filename == "eighty-per-cent.zip"
    tab.get_by_role("button", name="The book’s values").click()

    tab.set_input_files("input[type=file]", rising(tmp_path / "mine.csv"))
    mine = tab.locator(".rbp-sources label", has_text="mine.csv (uploaded")
    expect(mine.locator("input")).to_be_checked(timeout=LONG)
    published = tab.locator(".rbp-sources label", has_text="the authors' published numbers").locator("input")
    expect(published).not_to_be_checked()
    page = run(tab)
    expect(page.locator(".rbp-answer")).to_contain_text(
        "For −ln RBPₖ the law holds in none of 2 cases of family, dataset and k. "
        "In 2 it fails: larger models are worse.",
        timeout=LONG,
    )
    expect(page.locator(".rbp-answer td", has_text="<b>mine</b>")).to_have_count(3)  # a row, and two that are folded
    assert set(page.locator("figure .rbp-data").all_inner_texts()) == {"Data: yours"}

    expect(rows).to_have_count(before + 2, timeout=LONG)
    for each in ("measurements = mine.csv", "eighty per cent"):
        rows.filter(has_text=each).locator("input").check()
    tab.click("text=Compare the ticked runs")
    tab.wait_for_selector("iframe[title='Runs compared']", timeout=LONG)
    expect(page.locator("body")).to_contain_text("cases of family, dataset and measure have a fit in every run")
    rows.filter(has_text="eighty per cent").get_by_text("Delete").click()
    expect(rows).to_have_count(before + 1)
