"""The front page's charts before a browser has them; tests/built moves them."""

import re

from bs4 import BeautifulSoup

from companion.chapters import see

SENTENCE = {
    "tokens": [
        {"text": "It"},
        {"text": " is", "rank": 900, "nll": 9.0, "expected": [[" was", 0.5], [" had", 0.25]]},
        {"text": " <b>so</b>", "rank": 1, "nll": 0.5, "expected": [[" <b>so</b>", 0.6], [" not", 0.2]]},
        {"text": ",", "rank": 2, "nll": 1.0, "expected": [[".", 0.5], [",", 0.37]]},
        {"text": " they", "rank": 7, "nll": 3.0, "expected": [[" he", 0.4], [" it", 0.3]]},
    ]
}


def test_each_token_has_its_rank_and_what_was_expected() -> None:
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
