"""Rounding judged logit by logit, what models keep of what they read, and whether they see ahead."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from survey import FACTORS, save_tiny, tiny_config
from tiny import CONFIGS, random_model

from rbp.core.errors import DataError
from rbp.ranks.forward import Ranker
from rbp.ranks.kernel import linear_rank
from rbp.ranks.models import find_model, load_model
from rbp.ranks.protocols import Row
from rbp.ranks.soundness import (
    Head,
    between,
    compared,
    cross_entropy_slack,
    differ,
    fresh,
    kept,
    same,
    sees_ahead,
    slack,
    target_slack,
    units,
)

CPU = torch.device("cpu")
LONGROPE = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, **FACTORS}}
DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}


def read(model, ids):
    return model(input_ids=ids, use_cache=False)


def agrees(logits, target, ranks, hidden, head, dtype="float32"):
    return not compared(logits, target, (ranks.greater, ranks.equal, ranks.nll), dtype, hidden, head).wrong.any()


def changes_itself(model, inputs):
    before, noticed = kept(model), []
    for each in inputs:
        read(model, each)
        noticed.append(not same(before, kept(model)))
    return any(noticed)


def ids(length):
    return torch.arange(3, 3 + length)[None]


def rows(*lengths):
    draw = np.random.default_rng(0)
    return [Row(i, 0, draw.integers(3, 300, n), np.arange(1, n)) for i, n in enumerate(lengths)]


def problem(seed, bias=None, dtype=torch.float32):
    """Hidden states [20, 48], a head of 200 rows, targets, and the logits in float64."""
    draw = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(n, 48, generator=draw).to(dtype) for n in (20, 200))
    given = torch.zeros(200) if bias is None else bias
    target = torch.randint(0, 150, (20,), generator=draw)
    logits = hidden.double() @ weight.double().T + given.double()
    return hidden, Head(weight, given.to(dtype), 1.0, None), target, logits


@given(st.integers(0, 10_000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_two_computations_of_a_logit_lie_within_the_slack(seed, dtype):
    hidden, head, target, exact = problem(seed, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    ours = (hidden @ head.weight.T).double()  # in `dtype`, rounded by it
    near = slack(ours.float(), name, hidden, head)
    assert ((ours - exact).abs() <= near).all()
    own = target_slack(exact.gather(1, target[:, None])[:, 0], target, name, hidden, head)
    torch.testing.assert_close(
        own, near.gather(1, target[:, None])[:, 0].double(), rtol=0.02, atol=0, check_dtype=False
    )
    ranks = linear_rank(hidden, head.weight, target, compiled=False)
    assert agrees(ours.float(), target, ranks, hidden, head, name)


@given(st.integers(0, 10_000), st.sampled_from([-1e9, -1e4, 1e9, -float("inf")]))
def test_a_huge_logit_hides_no_wrong_rank(seed, bias):
    """Whose row belongs to no token: the ranks of all others are judged as if it were not there."""
    hidden, head, target, exact = problem(seed, torch.cat([torch.zeros(150), torch.full((50,), bias)]))
    ranks = linear_rank(hidden, head.weight, target, bias=head.bias, compiled=False)
    near = slack(exact.float(), "float32", hidden, head)
    usual = slack(exact.float()[:, :150], "float32", hidden, Head(head.weight[:150], head.bias[:150], 1.0, None))
    torch.testing.assert_close(near[:, :150], usual, rtol=1e-5, atol=0)  # but for the last bits of a product
    assert between(exact.float(), target, ranks.greater, ranks.equal, near).all()
    assert not between(exact.float(), target, ranks.greater + 2, ranks.equal, near).all()
    others = (target + 1) % 150  # ranks of other tokens
    wrong = linear_rank(hidden, head.weight, others, bias=head.bias, compiled=False)
    assert not agrees(exact.float(), target, wrong, hidden, head)


def test_a_wrong_scale_keeps_the_order_but_not_the_cross_entropy():
    hidden, head, target, exact = problem(0)
    near = slack(exact.float(), "float32", hidden, head)
    assert agrees(exact.float(), target, linear_rank(hidden, head.weight, target, compiled=False), hidden, head)
    scaled = linear_rank(hidden, head.weight, target, scale=1.01, compiled=False)
    assert between(exact.float(), target, scaled.greater, scaled.equal, near).all()
    assert not agrees(exact.float(), target, scaled, hidden, head)


@given(st.integers(0, 10_000))
def test_cross_entropies_lie_within_their_slack(seed):
    """Every logit moved by as much as rounding may move it, either way."""
    hidden, head, target, exact = problem(seed)
    near = slack(exact.float(), "float32", hidden, head)
    signs = torch.randint(0, 2, exact.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    moved = exact + near * signs
    nll, other = (z.logsumexp(1) - z.gather(1, target[:, None])[:, 0] for z in (exact, moved))
    allowed = cross_entropy_slack(exact.float(), target, near)
    assert ((nll - other).abs() <= allowed * 1.01).all()
    assert (allowed < 0.01).all()  # and it is no more than rounding


def test_what_differs_is_seen_beside_what_is_huge():
    one = torch.randn(4, 32)
    other = one * (1 + units("float32"))
    assert not differ(one, other, "float32")
    one[:, 0], other[:, 0] = 1e9, 1e9 + 128  # the next number in float32
    assert not differ(one, other, "float32")
    other[2, 5] += 0.01
    assert differ(one, other, "float32")


@pytest.mark.parametrize("kind", CONFIGS)
def test_most_models_keep_nothing(kind):
    assert not changes_itself(random_model(kind), [ids(5), ids(90), ids(5)])


@pytest.mark.parametrize(("family", "own"), [("phi3", LONGROPE), ("llama", DYNAMIC)])
def test_what_models_keep_is_noticed_and_copies_keep_it_for_themselves(family, own, tmp_path):
    save_tiny(tiny_config(family, **own), tmp_path)
    model = load_model(find_model(str(tmp_path)), "float32", CPU).model
    before, copy = kept(model), fresh(model)
    assert changes_itself(copy, [ids(5), ids(130), ids(5)])
    assert not same(before, kept(copy))
    assert same(before, kept(model))
    assert all(a is b for a, b in zip(model.parameters(), copy.parameters(), strict=True))  # no second set of weights


@pytest.mark.parametrize("change", ["buffer", "attribute", "number", "list", "new", "weight"])
def test_every_kind_of_memory_is_noticed(change):
    model = random_model("gpt2")
    part = model.transformer.h[1].attn
    part.register_buffer("counts", torch.zeros(3))
    part.table, part.longest, part.several = torch.zeros(2), 0, [torch.zeros(2), 1]

    def reads(_, __, ___):
        with torch.no_grad():
            match change:
                case "buffer":
                    part.counts[1] += 1
                case "attribute":
                    part.table = part.table + 1
                case "number":
                    part.longest += 1
                case "list":
                    part.several[0].add_(1)
                case "new":
                    part.last = torch.ones(1)
                case "weight":
                    model.lm_head.weight.mul_(1.0)

    part.register_forward_hook(reads)
    with torch.inference_mode():
        assert changes_itself(model, [ids(5)])


@pytest.mark.parametrize("cut", [1, 20, 39])
def test_one_later_token_that_is_seen_is_enough(cut):
    """Early, in the middle or late: a place that looks at the next token alone."""

    def looks(tokens):
        hidden = torch.nn.functional.one_hot(tokens, 300).float().cumsum(1)
        hidden[:, cut - 1] += 0.001 * hidden[:, cut]
        return [hidden]

    draw = torch.randint(3, 300, (1, 40), generator=torch.Generator().manual_seed(1))
    assert sees_ahead(looks, draw, [cut], 300, "float32")
    assert not sees_ahead(looks, draw, [5], 300, "float32")


def with_biases(family, folder, bias, **own):
    """A saved tiny model of that family whose last 12 rows of output, of no token, have this bias."""
    save_tiny(tiny_config(family, **own), folder)
    language = load_model(find_model(str(folder)), "float32", CPU)
    with torch.no_grad():
        language.model.get_output_embeddings().bias[-12:] = bias
    language.model.save_pretrained(folder)
    return load_model(find_model(str(folder)), "float32", CPU)


@pytest.mark.parametrize("bias", [-1e9, -1e4])
@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert-decoder"])
def test_decoders_with_huge_biases_are_ranked_right(family, bias, tmp_path):
    language, some = with_biases(family, tmp_path, bias), rows(30, 61, 90)
    ranker = Ranker(language, "blocked", 2, compiled=False)
    ranker.check(some)
    found, at = ranker.rank(some), 0
    for row in some:
        with torch.inference_mode():
            logits = language.model(torch.from_numpy(row.ids)[None]).logits[0, row.scored - 1].double().numpy()
        for line, target in zip(logits, row.ids[row.scored], strict=True):
            near = 3e-5 * np.abs(line[:-12]).max()
            assert (line > line[target] + near).sum() <= found.greater[at]
            assert found.greater[at] + found.equal[at] <= (line >= line[target] - near).sum()
            at += 1


@pytest.mark.parametrize("bias", [-1e9, -1e4])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_encoders_with_huge_biases_are_refused(family, bias, tmp_path):
    language = with_biases(family, tmp_path, bias, is_decoder=False)
    with pytest.raises(DataError, match="sees the tokens"):
        Ranker(language, "blocked", 2, compiled=False).check(rows(30, 61, 90))
