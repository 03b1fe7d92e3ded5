"""The split of the gap between rank entropy and cross-entropy, on made-up models whose parts are known."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import entropy

from rbp.core.errors import DataError
from rbp.evidence import open_source
from rbp.paper import premise


def _draw(rng: np.random.Generator, logits: np.ndarray) -> np.ndarray:
    return np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def test_the_parts_add_up_and_are_what_they_are_called() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 2, (4000, 50)).astype(np.float32)
    target = _draw(rng, logits)
    found = premise.split_gap([(logits[:1500], target[:1500]), (logits[1500:], target[1500:])])
    assert found.gap == pytest.approx(found.mixing + found.profile - found.confidence, abs=1e-12)
    log_q = logits.astype(float) - logsumexp(logits.astype(float), axis=1, keepdims=True)
    assert found.cross_entropy == pytest.approx(-log_q[np.arange(4000), target].mean(), rel=1e-9)
    assert found.mean_entropy == pytest.approx(entropy(np.exp(log_q), axis=1).mean(), rel=1e-9)
    assert found.mixing > 0
    assert abs(found.confidence) < 0.05  # its truths are its own draws
    assert abs(found.profile) < 0.05


def test_one_profile_and_calibration_make_the_premise_true() -> None:
    rng = np.random.default_rng(2)
    profile = np.sort(rng.normal(0, 2, 40))
    logits = np.stack([rng.permutation(profile) for _ in range(20_000)]).astype(np.float32)
    found = premise.split_gap([(logits, _draw(rng, logits))])
    assert found.mixing == pytest.approx(0, abs=1e-6)
    assert found.gap == pytest.approx(0, abs=0.02)


def test_overconfidence_shows_and_does_not_move_ranks() -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1.5, (6000, 30)).astype(np.float32)
    target = _draw(rng, logits)
    calm, sure = (premise.split_gap([(factor * logits, target)]) for factor in (1, 3))
    assert sure.rank_entropy == pytest.approx(calm.rank_entropy)
    assert sure.confidence > calm.confidence + 0.3
    assert sure.gap < 0 < calm.gap


def test_ties_count_against_the_token() -> None:
    found = premise.split_gap([(np.zeros((3, 4)), np.zeros(3, dtype=int))])
    assert found.rank_entropy == 0  # every rank is 4
    assert found.cross_entropy == pytest.approx(np.log(4))


def test_no_token_is_an_error() -> None:
    with pytest.raises(DataError, match="no token"):
        premise.split_gap([])


def test_the_published_entropies_are_what_the_chapter_says() -> None:
    table = premise.entropies(open_source("published").histograms).set_index("model")
    assert (table["gap"] > 0).all()
    assert table["at_limit"].all()
    assert table["bin_width"].between(0, 0.03, inclusive="neither").all()
    steps = table["gap"] + table["shape_authors"] + table["approximation"]
    np.testing.assert_allclose(steps, table["formula_excess"], rtol=1e-12)
    # the closest fit of an exponential family has more entropy than the data, by its divergence
    assert (table["shape"] > 0).all()
    assert table.loc["EleutherAI/pythia-12b", "formula"] == pytest.approx(3.16255, abs=1e-4)


def test_judgements_of_the_split() -> None:
    split = pd.DataFrame(
        {
            "dataset": ["c4", "c4", "humaneval", "humaneval"],
            "model": ["small", "large", "large", "small"],
            "size": [1, 2, 2, 1],
            "mixing": [0.1, 0.2, 0.1, 0.3],  # grows on c4 alone
            "profile": [0.1, -0.1, 0.2, 0.0],
            "confidence": [0.2, 0.1, 0.4, -0.3],
        }
    )
    found = premise.judged(split)
    assert (found["mixing_grows"], found["mixing_datasets"]) == (1, 2)
    assert (found["split_cancel"], found["split_cells"]) == (2, 4)
