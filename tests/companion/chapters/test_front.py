"""The front page's charts before a browser has them; tests/built moves them."""

import re

import numpy as np
from bs4 import BeautifulSoup

from companion.chapters import front, see
from rbp.laws.power import fit_power_law
from rbp.measurements import open_source

SENTENCE = {
    "tokens": [
        {"text": "It"},
        {"text": " is", "rank": 900, "nll": 9.0, "expected": [[" was", 0.5], [" had", 0.25]]},
        {"text": " <b>so</b>", "rank": 1, "nll": 0.5, "expected": [[" <b>so</b>", 0.6], [" not", 0.2]]},
        {"text": ",", "rank": 2, "nll": 1.0, "expected": [[".", 0.5], [",", 0.37]]},
        {"text": " they", "rank": 7, "nll": 3.0, "expected": [[" he", 0.4], [" it", 0.3]]},
    ]
}


def test_each_token_has_its_rank_and_what_was_expected():
    shown = BeautifulSoup(see.ranked_words(SENTENCE), "html.parser")
    labels = shown.select("label")
    assert [int(re.sub(r"\D", "", label.small.get_text())) for label in labels] == [900, 1, 2, 7]
    heads = [[int(row.td.get_text()) for row in table.select("tr")] for table in shown.select("table")]
    assert heads == [[1, 2, 900], [1, 2], [1, 2], [1, 2, 7]]
    marked = [[row.td.get_text() for row in table.select("tr.rbp-sentence-truth")] for table in shown.select("table")]
    assert marked == [["900"], ["1"], ["2"], ["7"]]
    assert "5.0%" in shown.select("table")[3].select("tr")[2].get_text(), "exp(-3)"
    checked = [label.input.has_attr("checked") for label in labels]
    assert checked == [False, False, False, True], "none of the first three"
    assert shown.select("fieldset b") == [], "what is in the text is text"


def test_the_pictures_tell_the_models_and_their_lines():
    table = open_source("published").table
    line, hide = front.line_figure(table), front.hide_figure(table)
    assert "24 models" in line["caption"]
    own = line["data"][line["data"]["family"] == "Pythia"]
    fit = fit_power_law(own["size"], own["value"])
    assert line["figure"].axes[0].get_title("left") == f"Pythia: α = {fit.alpha:.3f}, R² = {fit.r_squared:.3f}"
    slope, start = np.polyfit(np.log(own["size"].iloc[:-2].astype(float)), np.log(own["value"].iloc[:-2]), 1)
    error = np.expm1(start + slope * np.log(own["size"].iloc[-1]) - np.log(own["value"].iloc[-1]))
    assert f"{100 * error:+.1f}%".replace("-", "−") in hide["figure"].axes[0].get_title("left")
    assert len(hide["living"]["points"]) == 3 * 24
