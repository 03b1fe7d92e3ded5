"""What rounding can do to ranks, against logits that are really moved."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.chapters.appendix import ranking
from companion.chapters.near_ties import near_ties, possible_counts
from rbp.choices import Settings
from rbp.extract.extraction import extract
from rbp.metric import rank
from rbp.store import open_store
from rbp.texts.protocol import protocol


def counts(scores, target):
    """How many scores are greater than the target's, and how many equal."""
    truth = scores.gather(1, target[:, None])
    return (scores > truth).sum(1).numpy(), (scores == truth).sum(1).numpy()


@given(st.integers(0, 10**6), st.sampled_from([None, "bfloat16"]), st.sampled_from(["paper", "strict", "expected"]))
def test_moved_logits_give_counts_within_the_possible_ones(seed, rounding, rule):
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(rng.normal(size=(20, 30)).round(1).astype(np.float32)) * 4
    target, bound = torch.from_numpy(rng.integers(0, 30, 20)), torch.full((20,), 0.06)
    found = possible_counts(logits, target, bound, rounding)
    for _ in range(5):
        moved = logits + torch.from_numpy(rng.choice([-0.0599, 0, 0.0599], size=(20, 30)).astype(np.float32))
        stored = moved if rounding is None else moved.to(torch.bfloat16).float()
        low, high = found.ranks(rule).T
        ranks = rank(*counts(stored, target), rule)
        assert (low <= ranks).all()
        assert (ranks <= high).all()
        own = rank(*counts(logits if rounding is None else logits.to(torch.bfloat16).float(), target), rule)
        for k in (1, 3, 10):
            assert abs(int((ranks <= k).sum()) - int((own <= k).sum())) <= found.across(k, rule)
        assert int((ranks != own).sum()) <= found.changing()


def test_by_hand():
    logits = torch.tensor([[1.0, 2.0, 2.05, 5.0], [1.0, 2.0, 3.0, 1.0]])
    found = possible_counts(logits, torch.tensor([1, 3]), torch.tensor([0.03, 0.0]), None)
    assert found.greater.tolist() == [[1, 2], [2, 2]]
    assert found.at_least.tolist() == [[2, 3], [4, 4]]
    assert found.computed.tolist() == [[2, 3], [2, 4]]
    assert [found.across(k, "paper") for k in (1, 2, 3)] == [0, 1, 0]
    assert (found.changing(), found.tied()) == (1, 1)
    assert found.share_within(1, 100.0)["within"] == 50  # one of two tokens
    # −ln p: off by the truth's logit, and by all others'
    assert found.entropy_within()["within"] == pytest.approx(0.03)


def test_a_model_that_is_extracted_lies_within_its_bounds(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The rank of a token counts all logits that are not below its own.\n" * 6)
    asked = (
        ranking.project_path("data/ladder/families/neox/neox-10k-at-8m"),
        str(text),
        protocol("windows", length=64),
    )
    plain, ties = near_ties(*asked, Settings(device="cpu"), (None, "bfloat16"))
    assert plain.bound == pytest.approx(np.full(plain.bound.size, 5e-5), rel=1)
    assert plain.changing() < 0.05 * plain.bound.size
    rounded = Settings(device="cpu", round_logits="bfloat16")
    (folder,) = extract([asked[0]], [asked[1]], asked[2], tmp_path / "ranks", rounded)
    tokens = open_store(folder).ranks()
    assert (ties.greater[:, 0] <= tokens.greater).all()
    assert (tokens.greater <= ties.greater[:, 1]).all()
    assert (ties.at_least[:, 0] <= tokens.greater + tokens.equal).all()
    assert (tokens.greater + tokens.equal <= ties.at_least[:, 1]).all()
