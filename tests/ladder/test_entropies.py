"""Entropies and temperatures beside the ladder's stores: against full logits, and against the stores."""

import numpy as np
import pytest
import torch
from draws import rest_slow
from scipy.interpolate import CubicSpline

from companion.project import LADDER
from ladder import ranking
from ladder.recipe import read_recipe
from rbp.extract.entropies import RESOLUTION, TEMPERATURES, Entropies
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.measurements import open_source

ALL = open_source(["ladder", "ladder:lstm"]).entropies


@pytest.mark.parametrize("model", rest_slow(["neox-10k-at-8m"], ["neox-390k-at-8m", "lstm-390k-at-8m"]))
def test_they_are_those_of_full_logits_in_double_precision(model: str) -> None:
    (found,) = (one for one in ALL if (one.store.model, one.store.dataset) == (model, "humaneval"))
    files = find_model(str(LADDER / "families" / model.split("-")[0] / model))
    tokenizer, network = load_tokenizer(files), load_model(files, "float64", torch.device("cpu")).model
    ranks, sums = found.store.ranks(), found.temperatures
    seen = 0
    for document, text in enumerate(ranking.evaluation_documents("humaneval")[:30]):
        ids = torch.tensor(tokenizer(text.text)["input_ids"])
        if len(ids) > read_recipe().text.context:  # one window
            continue
        with torch.inference_mode():
            logits = network(input_ids=ids[None]).logits[0, :-1]
        chances = logits.softmax(1)
        own = found.entropy[ranks["document"] == document]
        exact = -(chances * chances.log()).sum(1).numpy()
        assert np.abs(own - exact).max() <= 0.5 / RESOLUTION + 1e-4
        for temperature in TEMPERATURES:
            nll = -(logits / temperature).log_softmax(1).gather(1, ids[1:, None]).sum()
            assert sums.loc[document, temperature] == pytest.approx(float(nll), rel=1e-5)
        seen += 1
    assert seen >= 10


@pytest.mark.parametrize("found", ALL, ids=lambda one: f"{one.store.model} {one.store.dataset}")
def test_every_file_agrees_with_its_store_and_the_two_with_each_other(found: Entropies) -> None:
    ranks = found.store.ranks()
    nll = ranks["nll"].astype(float)
    sums = nll.groupby(ranks["document"]).sum()
    np.testing.assert_allclose(found.temperatures[1.0], sums, rtol=3e-5)  # of −ln p that is rounded
    # d CE / d ln T at T = 1 is the mean entropy less CE: the temperatures know the entropies
    total = found.temperatures.sum().to_numpy() / len(nll)
    slope = CubicSpline(np.log(TEMPERATURES), total)(0.0, 1)
    assert slope == pytest.approx(found.entropy.mean() - nll.mean(), abs=0.004)
    # each token that ranks no lower than the true one is as probable, so p · rank ≤ 1
    assert (np.log(ranks["greater"] + ranks["equal"]) <= nll + 1e-4).all()


def test_all_that_is_shipped_with_weights_has_them() -> None:
    weights = {path.parent.name for path in LADDER.glob("families/*/*/model.safetensors")}
    assert len(weights) == 12
    assert {(one.store.model, one.store.dataset) for one in ALL} == {
        (model, domain.name) for model in weights for domain in read_recipe().domains
    }
