"""Chapters on a reader's own measurements: a page without errors, or a sentence that says what is lacking."""

from pathlib import Path

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from draws import rest_slow
from own_sources import paths, table

from companion.project import Project
from companion.run import execute, find
from companion.standalone import render_chapter
from rbp.errors import RbpError

pytestmark = pytest.mark.usefixtures("without_kernel")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two datasets, two families of five sizes, three thresholds and the cross-entropy; no numbers of tokens."""
    path = tmp_path_factory.mktemp("own") / "mine.csv"
    table(thresholds={1: 0.08, 10: 0.12, 100: 0.2}).to_csv(path, index=False)
    return str(path)


YOURS, BOTH, BOOK = "Data: yours", "Data: yours and the book’s", "Data: the book’s, unchanged"
DATA = {
    "holds": {"law-k1": YOURS, "law-k10": YOURS, "law-k100": YOURS, "figure-6": YOURS, "exponent-by-k": YOURS},
    "forecasts": {"every-cut": YOURS, "forecasts-by-cut": YOURS, "other-curves": YOURS},
    "cross_entropy": {"fingerprint": BOTH, "real-ways": BOOK, "runs": BOOK, "scatter-by-k": YOURS},
}
"""Whose data figures and tables of a chapter show, by what its notebook reads."""


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("holds", {}),
        pytest.param("holds", {"ks": [10, 100]}, marks=pytest.mark.slow),
        ("cross_entropy", {}),
        pytest.param("forecasts", {}, marks=pytest.mark.slow),
    ],
)
def test_a_chapter_shows_what_the_measurements_allow(mine: str, tmp_path: Path, name: str, values: dict) -> None:
    project = Project()
    chapter, out = find(project, name), tmp_path / "out"
    given = {"measurements": mine} | values
    if name == "cross_entropy":
        paths(tmp_path / "worse")
        given["worse"] = str(tmp_path / "worse")
    execute(chapter, given, out, tmp_path, finish=lambda new: render_chapter(project, chapter, new))
    page = BeautifulSoup((out / f"{chapter.name}.html").read_text(), "html.parser")
    opening = page.select_one("article .rbp-answer").get_text()
    assert "This page was run on your data: measurements = mine.csv" in opening
    assert "For −ln RBPₖ the law holds in " in opening
    data = {each["id"]: each.select_one(".rbp-data").get_text() for each in page.select("figure.rbp-figure")}
    assert data.items() >= DATA[name].items()
    assert (out / "inputs" / "mine.csv").read_bytes() == Path(mine).read_bytes()
    prose = " ".join(part.get_text() for part in page.select("article p"))
    assert "{value" not in prose
    assert page.select(".problematic, .system-message") == []


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("data", {}, "none of their families is here"),
        ("holds", {"ks": [20000]}, "no measurement with k 20000"),
        ("holds", {"level": 2.0}, "between 0 and 1"),
        ("holds", {"datasets": ["new"]}, 'Did you mean "news"?'),
    ],
)
def test_or_it_says_what_they_lack(mine: str, tmp_path: Path, name: str, values: dict, said: str) -> None:
    with pytest.raises(RbpError) as caught:
        execute(find(Project(), name), {"measurements": mine} | values, tmp_path / "out", tmp_path)
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", rest_slow(["holds", "forecasts"], ["cross_entropy"]))
def test_one_model_is_no_law(mine: str, tmp_path: Path, name: str) -> None:
    every = pd.read_csv(mine)
    one = tmp_path / "one.csv"
    every[every.model == every.model.iloc[0]].to_csv(one, index=False)
    with pytest.raises(RbpError, match=r"three sizes|four sizes"):
        execute(find(Project(), name), {"measurements": str(one)}, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()
