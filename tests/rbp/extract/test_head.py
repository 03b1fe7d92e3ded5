"""The output layer: where it is one matrix, and how far two computations of a logit may lie apart."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from tiny import random_model

from rbp.extract.head import Head, find_head, head_logits, tolerance


def problem(seed, bias=None, dtype=torch.float32, **options):
    """Hidden states [20, 48], a head of 200 rows, targets, and the logits in float64."""
    draw = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(n, 48, generator=draw).to(dtype) for n in (20, 200))
    given = torch.zeros(200) if bias is None else bias
    target = torch.randint(0, 150, (20,), generator=draw)
    head = Head(weight, given.to(dtype), options.get("scale", 1.0), options.get("softcap"))
    logits = (hidden.double() @ weight.double().T + given.double()) * head.scale
    exact = logits if head.softcap is None else head.softcap * torch.tanh(logits / head.softcap)
    return hidden, head, target, exact


@given(
    st.integers(0, 10_000),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    st.sampled_from([{}, {"scale": 0.3}, {"softcap": 30.0}, {"scale": 0.3, "softcap": 5.0}]),
)
def test_a_model_s_logits_lie_within_the_tolerance_of_the_product(seed, dtype, options):
    """Computed as a model does, each step rounded to its dtype; beside the product in float32, and in float64."""
    hidden, head, _, exact = problem(seed, dtype=dtype, **options)
    ours = (hidden @ head.weight.T + head.bias) * head.scale
    ours = ours if head.softcap is None else torch.tanh(ours / head.softcap) * head.softcap
    product = head_logits(head, hidden, dtype)
    near = tolerance(product, dtype, hidden, head)
    assert ((ours.float() - product).abs() <= near).all()
    assert ((ours.double() - exact).abs() <= near).all()
    large = product.abs() > product.abs().median()
    assert ((0.95 * ours.float() - product).abs() > near)[large].all()  # 0.95 times that is seen
    torch.testing.assert_close(head_logits(head, hidden).double(), exact, rtol=1e-4, atol=1e-4)


@given(st.integers(0, 10_000), st.sampled_from([-1e9, -1e4, 1e9, -float("inf")]))
def test_a_huge_logit_makes_no_other_uncertain(seed, bias):
    """Whose row belongs to no token: all others are judged as if it were not there."""
    hidden, head, _, exact = problem(seed, torch.cat([torch.zeros(150), torch.full((50,), bias)]))
    near = tolerance(exact.float(), torch.float32, hidden, head)
    usual = Head(head.weight[:150], head.bias[:150], 1.0, None)
    wanted = tolerance(exact.float()[:, :150], torch.float32, hidden, usual)
    torch.testing.assert_close(near[:, :150], wanted, rtol=1e-5, atol=0)  # but for the last bits of a product
    assert not near.isnan().any()


def test_what_may_do_anything_to_logits_is_no_matrix():
    model = random_model("llama")
    assert find_head(model) is not None
    for module in (model, model.lm_head):
        hook = module.register_forward_hook(lambda *_: None)
        assert find_head(model) is None
        hook.remove()
    hook = model.lm_head.register_forward_pre_hook(lambda *_: None)
    assert find_head(model) is None
    hook.remove()
    model.model.layers[0].register_forward_hook(lambda *_: None)  # what it does is in the hidden states
    assert find_head(model) is not None
    own = model.forward
    model.forward = lambda *given, **named: own(*given, **named)
    assert find_head(model) is None


@pytest.mark.parametrize(
    ("options", "matrix"),
    [
        ({"target_modules": ["q_proj"]}, True),
        ({"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}, True),
        ({"target_modules": ["q_proj", "lm_head"]}, False),
    ],
)
def test_the_head_is_found_through_an_adapter(options, matrix):
    model = get_peft_model(random_model("llama"), LoraConfig(r=2, init_lora_weights=False, **options))
    assert (find_head(model) is not None) is matrix


@pytest.mark.parametrize(
    ("name", "value"), [("logits_scaling", 0), ("logit_scale", -1), ("final_logit_softcapping", 0)]
)
def test_a_scale_that_is_none_leaves_the_model_s_own_logits(name, value):
    model = random_model("llama")
    setattr(model.config, name, value)
    assert find_head(model) is None
