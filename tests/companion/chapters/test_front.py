"""The front page's charts before a browser has them; tests/built moves them."""

import re

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from companion.chapters import front, see
from companion.chapters.cross_entropy import paths
from rbp.laws.power import fit_power_law
from rbp.measurements import open_source

TEXT = "It is <b>so</b>,\nand it is not so."


@pytest.fixture(scope="module")
def read() -> see.Read:
    return see.read(TEXT, see.find_rungs()[:1])[0]


def test_each_token_has_its_rank_and_what_was_expected(read: see.Read) -> None:
    shown = BeautifulSoup(see.ranked_words(read), "html.parser")
    truths, logits = read.ids[1:].numpy(), read.logits[:-1].double().numpy()
    ranks = [int((row >= row[truth]).sum()) for row, truth in zip(logits, truths, strict=True)]
    labels = shown.select("label")
    assert [int(re.sub(r"\D", "", label.small.get_text())) for label in labels] == ranks
    for row, rank, table in zip(logits, ranks, shown.select("table"), strict=True):
        heads = [int(each.td.get_text().replace(",", "")) for each in table.select("tr")]
        assert heads == [1, 2, 3, 4, 5, *[rank] * (rank > 5)]
        best = np.sort(np.exp(row - np.logaddexp.reduce(row)))[::-1]
        bars = [float(each["style"].removeprefix("--p:").rstrip("%")) for each in table.select("tr")]
        np.testing.assert_allclose(bars[:5], 100 * best[:5], atol=0.006)
        assert [each.select("td")[1].get_text().endswith("the text") for each in table.select("tr")].count(True) == 1
    assert [label.input.has_attr("checked") for label in labels].index(True) == ranks.index(max(ranks))
    assert len(shown.select("[checked]")) == 1
    assert shown.select("fieldset b") == [], "what is in the text is text"


def test_the_pictures_tell_the_models_and_their_lines() -> None:
    table = open_source("published").table
    line, hide = front.line_shown(table), front.hide_shown(table)
    assert "24 models" in line["caption"]
    own = line["data"][line["data"]["family"] == "Pythia"]
    fit = fit_power_law(own["size"], own["value"])
    assert line["figure"].axes[0].get_title("left") == f"Pythia: α = {fit.alpha:.3f}, R² = {fit.r_squared:.3f}"
    slope, start = np.polyfit(np.log(own["size"].iloc[:-2].astype(float)), np.log(own["value"].iloc[:-2]), 1)
    error = np.expm1(start + slope * np.log(own["size"].iloc[-1]) - np.log(own["value"].iloc[-1]))
    assert f"{100 * error:+.1f}%".replace("-", "−") in hide["figure"].axes[0].get_title("left")
    assert len(hide["living"]["points"]) == 3 * 24


@pytest.mark.parametrize(
    ("there", "cell", "lines"),
    [
        ({"neox": ["replaced", "context", "depth", "bits"]}, "auslegal", ["replaced", "context", "depth"]),
        ({"a/model": ["bits", "weights"]}, "mine", ["bits", "weights"]),
    ],
)
def test_the_curves_of_one_loss_are_of_one_model(there: dict[str, list[str]], cell: str, lines: list[str]) -> None:
    rows = [
        {"family": family, "dataset": text, "nats": 3.8, "path": path, "k": k, "offset": 1.0, "low": 0.0, "high": 2.0}
        for family, own in there.items()
        for text in ("mine", "auslegal")[: 1 + (cell == "auslegal")]
        for path in [*own, "parameters"]
        for k in (1, 10)
    ]
    shown = paths.front_shown(pd.DataFrame(rows), 0.95)
    assert shown["data"]["dataset"].unique().tolist() == [cell]
    assert shown["data"]["path"].unique().tolist() == lines
    shown["figure"].single("")
