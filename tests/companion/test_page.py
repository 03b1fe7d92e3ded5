import io
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
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
    assert [(each["x"], each["y"], each["width"]) for each in tiles] == [(x, y, "216") for x, y in PLACES]
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(ids)


PLACES = [("0", "0"), ("216", "0"), ("0", "144")]


@pytest.mark.parametrize(("count", "later", "times"), [(2, "green", 1), (3, "green", 1), (2, "black", 2)])
def test_panels_share_one_legend_unless_a_name_looks_different(
    tmp_path: Path, monkeypatch, capsys, count: int, later: str, times: int
) -> None:
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    shown: list[str] = []
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))
    names = {"0": ["one", "two"], "1": ["two", "three"], "2": ["three"]}

    def draw(ax: Axes, key: str) -> None:
        colours = {"one": "red", "two": "green" if key == "0" else later, "three": "blue"}
        for name in names[key]:
            ax.plot([1, 2], [1, 3], "o-", color=colours[name], label=name)
        legend_below(ax)

    panels = Panels(list(names)[:count], draw, size=(3.0, 2.0))
    Page("metric").figure("f", panels, caption="", alt="", data=pd.DataFrame({"x": [1]}))
    files = tmp_path / "metric"
    for text in (shown[0], (files / "f.svg").read_text()):
        assert [text.count(f">{name}</text>") for name in ("one", "two")] == [1, times]
    assert shown[0].count('role="img"') == count + (times == 1)
    assert ("Legend: one, two, three" in shown[0]) == (times == 1)
    picture = np.asarray(Image.open(io.BytesIO((files / "f.png").read_bytes())))[..., :3]
    rows = -(-count // 2)
    assert (len(picture) > 400 * rows) == (times == 1 and count == 2)  # below all, if there is no empty place
    if count == 3:
        assert picture[400:, 600:].min() < 100


@pytest.mark.parametrize("kind", ["bar", "vlines"])
def test_bars_and_groups_of_lines_have_looks_too(kind: str) -> None:
    def draw(colours: list[str]) -> Panels:
        def one(ax: Axes, key: int) -> None:
            rest = ([1, 2],) if kind == "bar" else ([0, 0], [1, 2])
            getattr(ax, kind)([1, 2], *rest, color=colours[key], label="one")
            legend_below(ax)

        return Panels([0, 1], one)

    assert draw(["red", "red"]).figures()[1] is not None
    assert draw(["red", "blue"]).figures()[1] is None


def test_numbers_of_a_shared_legend_stand_in_order() -> None:
    def draw(ax: Axes, key: int) -> None:
        for k in [["k = 1", "100"], ["k = 1", "20", "100"]][key]:
            ax.plot([1, 2], color={"k = 1": "red", "20": "blue", "100": "green"}[k], label=k)
        legend_below(ax)

    legend = Panels([0, 1], draw).figures()[1]
    assert legend is not None
    assert [text.get_text() for text in legend.legends[0].get_texts()] == ["k = 1", "20", "100"]


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]])
def test_a_phone_shows_panels_below_each_other(tmp_path: Path, monkeypatch, capsys, keys: list[str]) -> None:
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))
    Page("metric").figure("f", Panels(keys, lambda ax, _: None), caption="", alt="A", data=pd.DataFrame({"x": [1]}))
    assert shown[0].count('role="img"') == len(keys)
    assert bool(re.search(r"minmax\(min\(100%,\d+px\),1fr\)", shown[0])) == (len(keys) > 1)
    assert ('aria-label="A (b)"' in shown[0]) == (len(keys) > 1)


@pytest.mark.parametrize(("rows", "folded"), [(None, 0), (8, 0), (5, 0), (4, 2), (1, 5)])
def test_a_long_table_folds_what_follows_its_first_rows(rows: int | None, folded: int) -> None:
    soup = BeautifulSoup(html_table(pd.DataFrame({"x": range(6), "y": ["–"] * 6}), {}, rows), "html.parser")
    first, *rest = soup.select("tbody")
    assert len(first.select("tr")) == 6 - folded
    assert [len(each.select("tr")) for each in rest] == ([folded] if folded else [])
    assert [each.get_text() for each in soup.select("summary")] == (["All 6 rows"] if folded else [])
    assert [int(each.get_text()) for each in soup.select("td.num")] == list(range(6))
