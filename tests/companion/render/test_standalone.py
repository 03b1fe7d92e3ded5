import json
import shutil

import in_process
import pytest
from bs4 import BeautifulSoup
from commands import here
from mini import FIGURE, write_book, write_chapter
from tabs import watched

from companion.execute import run
from companion.execute.results import Recorded
from companion.execute.results import write_book as write_results
from companion.project import Project

pytestmark = pytest.mark.long  # a chapter

BOOK = "https://somebody.example/companion/"
LINKS = """
from IPython.display import HTML, display
display(HTML('<a href="01_a/data.csv">data</a> <a href="../elsewhere.html">elsewhere</a>'))
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A chapter with mathematics, a citation and ties to other pages, run by a command and moved away."""
    project = Project(tmp_path_factory.mktemp("project"))
    write_book(project)
    with (project.root / "CITATION.cff").open("a") as citation:
        citation.write(f"url: {BOOK}\n")
    prose = """%%md
With $x^2$: {value}`v:.2f`, of another {value}`02_b::w:.1f`, [more](../book/more.md),
[gone](gone.md), {ref}`nowhere <nowhere>`, {value}`absent:.3f`, {cite}`yue2025relative`, <https://example.org/>,
{numref}`one`, {numref}`02_b::other`.
"""
    value = "value = k + len(open('mine.csv').read())\nalso = {'v': float(k)}"
    write_chapter(project, "01_a", prose, value, LINKS, FIGURE, parameters="k: int = 1  # a number")
    write_results(project.expected, {"02_b": {"w": Recorded(2.25)}, "01_a": {"v": Recorded(1.0)}})
    caller = tmp_path_factory.mktemp("caller")
    (caller / "mine.csv").write_text("1234567")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_run", in_process.run)  # as the fixture `without_kernel` does
        done = here("run", "01_a", "-p", "k=3", cwd=caller, root=project.root)
    assert done.returncode == 0, done.stderr
    (out,) = project.runs.iterdir()
    assert done.stdout == f"{out / '01_a.html'}\n"
    assert json.loads((out / "results.json").read_text())["values"]["value"]["value"] == 3 + 7
    away = tmp_path_factory.mktemp("away") / "out"
    shutil.move(out, away)
    shutil.rmtree(project.root)
    return away / "01_a.html"


def test_the_page_holds_everything_and_leads_nowhere_else(page):
    names = ["01_a", "01_a.html", "01_a.ipynb", "results.json", "run.json"]
    assert sorted(path.name for path in page.parent.iterdir()) == names
    soup = BeautifulSoup(page.read_text(), "html.parser")
    assert soup.select("script[src], link[href], img:not([src^=data])") == []
    links = {a["href"] for a in soup.select("a[href]") if not a["href"].startswith("#")}
    papers = {link for link in links if "arxiv" in link.lower()}
    assert links - papers == {"01_a/data.csv", "https://example.org/"}
    assert BOOK not in page.read_text(), "a page of one's own is not the book's"
    text = soup.select_one("article").get_text()
    for words in ("1.00", "of another 2.2", "gone", "elsewhere", "2025", "Figure 1.1", "chapter 2"):
        assert words in text


def test_the_page_works_without_a_network(page, browser):
    phone = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}
    with watched(browser, page.as_uri(), page.as_uri(), **phone) as tab:
        for fold in tab.query_selector_all("details.rbp-fold summary"):
            fold.click()
        assert tab.locator(".math math msup").bounding_box()["height"] > 10
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
