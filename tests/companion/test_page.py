import io
import re
from xml.etree import ElementTree

import pandas as pd
from PIL import Image

from companion.page import Page
from rbp.figures.style import Panels


def test_panels_are_drawn_once_and_the_files_hold_them_in_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    drawn = []

    def draw(ax, key):
        drawn.append(key)
        ax.plot([1, 2], [1, 3], "o-")
        ax.set_title(key)

    panels = Panels(["a", "b", "c"], draw, size=(3.0, 2.0), columns=2)
    Page("metric").figure("figure", panels, caption="", alt="", data=pd.DataFrame({"x": [1]}))
    assert drawn == ["a", "b", "c"]
    files = tmp_path / "metric"
    picture = Image.open(io.BytesIO((files / "figure.png").read_bytes())).convert("L")
    assert picture.size == (2 * 600, 2 * 400)
    *ink, none = (min(picture.crop((x, y, x + 600, y + 400)).tobytes()) for y in (0, 400) for x in (0, 600))
    assert max(ink) < 60 < none == 255  # the place without a panel
    root = ElementTree.fromstring(text := (files / "figure.svg").read_text())  # noqa: S314 (our own)
    places = [(each.get("x"), each.get("y"), each.get("width")) for each in root if each.tag.endswith("svg")]
    assert places == [("0", "0", "216"), ("216", "0", "216"), ("0", "144", "216")]
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) <= set(ids)
