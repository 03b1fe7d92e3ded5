import io
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from companion.execute.page import Page, checksum_contents
from companion.execute.results import CHECKSUM, merge
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


ALPHAS = pd.DataFrame({"family": ["Pythia", "OPT"], "one": [0.0561, 0.1], "hundred": [0.1262, 0.2], "models": [10, 7]})


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ALPHAS.assign(one=ALPHAS["one"] * (1 + 1e-13)), True),  # another processor's last digits
        (ALPHAS.rename(columns={"one": "hundred", "hundred": "one"}), False),
        (ALPHAS[::-1], False),
        (ALPHAS.assign(models=[10, 8]), False),
        (ALPHAS.assign(family=["Pythia", "Opt"]), False),
        (ALPHAS.assign(one=[0.0561, 0.1001]), False),
        (ALPHAS.assign(one=[0.0561, None]), False),
        (ALPHAS.assign(more=1), False),
    ],
)
def test_a_checksum_of_contents_is_of_names_words_and_numbers(other, same):
    assert (checksum_contents(other) == checksum_contents(ALPHAS)) is same


def test_what_is_no_more_than_rounding_is_nothing():
    residuals = pd.DataFrame({"residual": [0.5, 3e-17, -1e-17]})
    assert checksum_contents(residuals) == checksum_contents(residuals.assign(residual=[0.5, 0.0, 2e-17]))
    assert checksum_contents(residuals) != checksum_contents(residuals.assign(residual=[0.5, 0.0, 2e-5]))
    words = pd.DataFrame({"parameters": ['{"s": 1.2969522919827121}']})
    assert checksum_contents(words) == checksum_contents(words.replace("21}", "19}", regex=True))
    assert checksum_contents(words) != checksum_contents(words.replace("1.29", "1.28", regex=True))
    none = pd.DataFrame({"x": [np.nan, np.nan], "y": ["a", None]})
    assert checksum_contents(none) == checksum_contents(none.copy())
    assert checksum_contents(none[:0]) != checksum_contents(none)


def test_each_file_of_data_and_the_text_of_each_table_have_a_checksum(tmp_path, monkeypatch, capsys):
    """Also where the download is another table than the page's."""
    monkeypatch.setenv("RBP_OUT", str(tmp_path))

    def checksums(**arguments):
        page = Page("holds")
        page.table("alphas", **{"table": ALPHAS, "caption": "", "data": ALPHAS[["models"]], **arguments})
        page.download("all", ALPHAS, "All")
        page.figure("law", Panels(["a"], lambda ax, key: None), caption="", alt="", data=ALPHAS)
        page.close()
        recorded = merge([tmp_path / "results.json"])["holds"]
        assert {each.unit for each in recorded.values()} == {CHECKSUM}
        return {key: each.value for key, each in recorded.items()}

    plain = checksums()
    page = Page("holds")
    page.download("sampled", ALPHAS, "Sampled", compared=False)
    page.close()
    assert merge([tmp_path / "results.json"])["holds"]["sampled.csv"].tolerance is None
    (tmp_path / "holds" / "sampled.csv").unlink()
    assert plain.keys() == {path.name for path in tmp_path.rglob("*.csv")} == {"alphas.csv", "all.csv", "law.csv"}
    assert plain["all.csv"] == plain["law.csv"]
    assert checksums() == checksums(rows=1) == plain
    moved = [
        checksums(table=ALPHAS.rename(columns={"one": "hundred", "hundred": "one"})),
        checksums(formats={"one": "{:.1f}"}),
        checksums(data=ALPHAS[["one"]]),
    ]
    for each in moved:
        assert {key for key in plain if each[key] != plain[key]} == {"alphas.csv"}
