"""Any chapter runs again in one command, and the page that it leaves opens with no network at all."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from rbp.core.paths import ROOT


def _run(*arguments: str, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rbp.cli", "run", *arguments, "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("chapter", ["10_k1", "13_every_k"])
def test_a_chapter_reruns_with_another_level(browser: Browser, book: Path, tmp_path: Path, chapter: str) -> None:
    out = tmp_path / "run"
    done = _run(chapter, "-p", "level=0.8", "-p", "datasets=wikipedia", out=out)
    assert done.returncode == 0, done.stderr
    values = json.loads((out / "results.json").read_text())["values"]
    narrow = {key: each["value"] for key, each in values.items() if key.startswith("alpha_")}
    built = json.loads((ROOT / "_build" / "results.json").read_text())[chapter]
    compared = 0
    for key, value in narrow.items():
        if key.startswith("alpha_low.") and key in built:
            high = key.replace("alpha_low", "alpha_high")
            assert value > built[key]["value"], key
            assert narrow[high] < built[high]["value"], key
            compared += 1
    assert compared >= 4
    files = {path.suffix for path in (out / chapter).iterdir()}
    assert {".svg", ".png", ".csv"} <= files
    nbformat.validate(nbformat.read(out / f"{chapter}.ipynb", as_version=4))

    context = browser.new_context(viewport={"width": 390, "height": 844}, offline=True)
    tab = context.new_page()
    requests: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: pytest.fail(str(error)))
    page = (out / f"{chapter}.html").as_uri()
    tab.goto(page)
    tab.wait_for_timeout(1500)
    assert [url for url in requests if not url.startswith((page, "data:", "blob:"))] == []
    assert tab.locator("figure.rbp-figure svg").count() >= 1
    assert "level = 0.8" in tab.locator("main").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
