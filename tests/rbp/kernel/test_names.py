"""Which rows of weight are equal: found once, and anew whenever weight or bias is no longer what it was."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import BACKENDS, DTYPES, Case, gaussian, uneven

from rbp.kernel import linear_rank, names


def small() -> tuple[Case, torch.Tensor]:
    """Every fifth target is one of three equal rows, one of which has another bias."""
    case, bias = gaussian(60, 400, 16, 5), torch.zeros(400)
    bias[200] = 1.0
    return case, bias


def assert_right(case: Case, bias: torch.Tensor | None, **options: Any) -> None:
    """Ranks are those of an output layer that nobody has seen before."""
    got = linear_rank(case.hidden, case.weight, case.target, bias=bias, **options)
    other = None if bias is None else bias.clone()
    judge = linear_rank(case.hidden, case.weight.clone(), case.target, bias=other, backend="reference")
    assert torch.equal(got.greater, judge.greater)
    assert torch.equal(got.equal, judge.equal)


@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([*DTYPES, torch.float64]),
    d=st.sampled_from([1, 3, 16, 17, 40]),
    width=st.integers(1, 200),
    spread=st.integers(0, 2),
    biased=st.booleans(),
    poor=st.booleans(),
)
def test_columns_of_one_name_have_the_same_weights_and_bias(
    seed: int, dtype: torch.dtype, d: int, width: int, spread: int, biased: bool, poor: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randint(-spread, spread + 1, (width, d), generator=generator).to(dtype)
    weight = weight[torch.randint(0, width, (width,), generator=generator)]
    bias = torch.randint(0, 2, (width,), generator=generator).to(dtype) if biased else None
    whole = weight if bias is None else torch.cat([weight, bias[:, None]], 1)
    expected = [next(j for j in range(i + 1) if torch.equal(whole[j], whole[i])) for i in range(width)]
    with pytest.MonkeyPatch.context() as patch:
        if poor:  # digests only save work
            patch.setattr(names, "_digests", lambda _, __, columns, ___: torch.zeros_like(torch.arange(width)[columns]))
        got = names.find_names(weight, bias)
    assert got.of.tolist() == expected
    assert got.later.tolist() == [i for i in range(width) if expected[i] != i]
    assert got.first.tolist() == [j for i, j in enumerate(expected) if j != i]
    assert not names.changed(got, weight, bias)


def _in_inference_mode(case: Case, bias: torch.Tensor) -> None:
    with torch.inference_mode():
        case.weight[399] = -case.weight[399]


CHANGES = {
    "in place": lambda case, bias: case.weight[0].add_(1),
    "in inference mode": _in_inference_mode,
    "other values": lambda case, bias: setattr(case.weight, "data", case.weight.flip(0).contiguous()),
    "through data": lambda case, bias: case.weight.data[399].add_(1),
    "through numpy": lambda case, bias: case.weight.numpy()[0].fill(0),
    "bias": lambda case, bias: bias[200].zero_(),
    "bias through data": lambda case, bias: bias.data[0].fill_(2.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rounded_by_place", [False, True])
def test_a_change_of_weight_or_bias_is_noticed(
    change: Callable[[Case, torch.Tensor], Any], backend: str, rounded_by_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rounded_by_place:  # so that only the names tell which logits tie
        monkeypatch.setattr(torch, "mm", uneven(torch.mm))
    case, bias = small()
    assert_right(case, bias, backend=backend)
    change(case, bias)
    assert_right(case, bias, backend=backend)
    assert_right(case, None, backend=backend)  # without it, another output layer
