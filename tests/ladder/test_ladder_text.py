"""The text of a ladder: what is held out and left out, rows that predict each token once, what is said of it."""

import numpy as np
import pytest
from made_ladder import tale, write_ladder

from ladder.recipe import read_recipe
from ladder.text import WORD, gather_texts, make_rows, make_tokenizer, streams


@pytest.fixture
def ladder(tmp_path):
    return write_ladder(tmp_path)


def stretches(text, length):
    words = WORD.findall(text.lower())
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def test_no_text_for_evaluation_shares_a_passage_with_training_text(ladder):
    texts = gather_texts(read_recipe(ladder[0]), ladder[1])
    trained = set().union(*(stretches(d.text, 12) for part in texts.training.values() for d in part))
    kept = set().union(*(stretches(d.text, 12) for part in texts.evaluation.values() for d in part))
    assert not trained & kept
    assert texts.left_out == {"tales": [], "sums": ["sums/3"]}
    assert {name: len(part) for name, part in texts.training.items()} == {"tales": 9, "sums": 11}
    assert {name: len(part) for name, part in texts.evaluation.items()} == {"questions": 40, "tales": 3}
    assert texts.evaluation["questions"][0].text == f"{tale(1000, 40)}\n{tale(2000, 3)}"


def test_every_row_is_text_every_token_is_predicted_once_and_the_sources_have_equal_shares(ladder):
    recipe = read_recipe(ladder[0])
    texts = gather_texts(recipe, ladder[1])
    tokenizer = make_tokenizer(texts, recipe)
    sources = streams(texts, tokenizer)
    rows = make_rows(sources, recipe, more=20 * 4 * 32)
    np.testing.assert_array_equal(rows[: 40 * 4], make_rows(sources, recipe))  # more text leaves the first as it is
    assert rows.shape == (60 * 4, 33)
    assert rows.dtype == np.uint16
    for name, stream in sources.items():
        joined = "".join(tokenizer.eos_token + document.text for document in texts.training[name])
        assert tokenizer.decode(stream, clean_up_tokenization_spaces=False) == joined
    once = {row.tobytes() for row in rows}
    assert len(once) == len(rows)
    for stream in sources.values():  # pieces that overlap by one token
        pieces = {stream[start : start + 33].tobytes() for start in range(0, len(stream) - 32, 32)}
        assert len(pieces & once) == 120
