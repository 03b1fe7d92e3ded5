import json

import numpy as np
import pytest

from companion.evidence.real import EXPECTED, MODEL, SENTENCE, SHIPPED, rank_sentence
from rbp.models.find import find_model


def test_ranks_places_and_probabilities_agree():
    shipped = json.loads((SHIPPED / "sentence.json").read_text())
    assert "".join(token["text"] for token in shipped["tokens"]) == SENTENCE
    for token in shipped["tokens"][1:]:
        texts, shares = zip(*token["expected"], strict=True)
        assert list(shares) == sorted(shares, reverse=True)
        assert (token["text"] in texts) == (token["rank"] <= EXPECTED)
        if token["rank"] <= EXPECTED:
            assert texts[token["rank"] - 1] == token["text"]
            assert shares[token["rank"] - 1] == pytest.approx(np.exp(-token["nll"]), abs=2e-4)


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.exists(), reason="`make smollm2` fetches the model")
def test_the_model_gives_the_shipped_ranks():
    shipped = json.loads((SHIPPED / "sentence.json").read_text())
    again = rank_sentence(find_model(str(MODEL)), SENTENCE)
    assert again["size"] == shipped["size"]
    for before, now in zip(shipped["tokens"][1:], again["tokens"][1:], strict=True):
        assert now["rank"] == pytest.approx(before["rank"], rel=0.01)  # rounding may move a rank among thousands
        assert now["nll"] == pytest.approx(before["nll"], abs=2e-3)
