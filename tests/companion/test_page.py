import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from matplotlib.axes import Axes
from PIL import Image

from companion.page import Page
from rbp.figures.style import Panels, legend_below
from rbp.report.display import html_table


def test_panels_are_drawn_once_and_the_files_hold_them_in_rows(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    drawn = []

    def draw(ax: Axes, key: str) -> None:
        drawn.append(key)
        ax.plot([1, 2], [1, 3], "o-")
        ax.set_title(key)

    panels = Panels(["a", "b", "c"], draw, size=(3.0, 2.0), columns=2)
    Page("metric").figure("figure", panels, caption="", alt="", data=pd.DataFrame({"x": [1]}))
    assert drawn == ["a", "b", "c"]
    files = tmp_path / "metric"
    picture = Image.open(io.BytesIO((files / "figure.png").read_bytes()))
    assert picture.size == (2 * 600, 2 * 400)
    assert picture.getpixel((900, 600))[:3] == (255, 255, 255)  # the place without a panel
    text = (files / "figure.svg").read_text()
    root = ElementTree.fromstring(text)  # noqa: S314 (our own)
    tiles = [each.attrib for each in root if each.tag.endswith("svg")]
    places = [(each["x"], each["y"], each["width"]) for each in tiles]
    assert places == [("0", "0", "216"), ("216", "0", "216"), ("0", "144", "216")]
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(ids)


@pytest.mark.parametrize(("later", "times"), [("green", 1), ("black", 2)], ids=["alike", "different"])
def test_panels_share_one_legend_unless_a_name_looks_different(
    tmp_path: Path, monkeypatch, capsys, later: str, times: int
) -> None:
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    shown: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))

    def draw(ax: Axes, key: str) -> None:
        for name, colour in [("one", "red"), ("two", "green")] if key == "0" else [("two", later), ("three", "blue")]:
            ax.plot([1, 2], [1, 3], "o-", color=colour, label=name)
        legend_below(ax)

    Page("metric").figure("f", Panels(["0", "1"], draw), caption="", alt="", data=pd.DataFrame({"x": [1]}))
    for text in (shown[0], (tmp_path / "metric" / "f.svg").read_text()):
        assert [text.count(f">{name}</text>") for name in ("one", "two")] == [1, times]
    assert shown[0].count('role="img"') == 2 + (times == 1)
    assert ("Legend: one, two, three" in shown[0]) == (times == 1)


@pytest.mark.parametrize(("rows", "folded"), [(None, 0), (8, 0), (5, 0), (4, 2), (1, 5)])
def test_a_long_table_folds_what_follows_its_first_rows(rows: int | None, folded: int) -> None:
    soup = BeautifulSoup(html_table(pd.DataFrame({"x": range(6), "y": ["–"] * 6}), {}, rows), "html.parser")
    first, *rest = soup.select("tbody")
    assert len(first.select("tr")) == 6 - folded
    assert [len(each.select("tr")) for each in rest] == ([folded] if folded else [])
    assert [each.get_text() for each in soup.select("summary")] == (["All 6 rows"] if folded else [])
    assert [int(each.get_text()) for each in soup.select("td.num")] == list(range(6))
