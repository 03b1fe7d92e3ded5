"""Which rows of weight are equal: found once, and anew whenever weight or bias is no longer what it was."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import BACKENDS, DTYPES, Case, gaussian, uneven

from rbp import kernel
from rbp.errors import ParameterError
from rbp.kernel import linear_rank, names


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each time that names were looked for."""
    times: list[int] = []
    find = names.find_names

    def noted(*given: Any) -> names.Names:
        times.append(len(given[0]))
        return find(*given)

    monkeypatch.setattr(names, "find_names", noted)
    return times


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


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_are_found_once_for_one_output_layer(found: list[int], backend: str) -> None:
    case, bias = small()
    for _ in range(3):
        linear_rank(case.hidden, case.weight, case.target, bias=bias, backend=backend)
    with torch.inference_mode():
        linear_rank(case.hidden, case.weight, case.target, bias=bias, backend=backend)
    assert len(found) == 1


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
    assert_right(case, bias, backend=backend)


def test_another_bias_or_vocabulary_is_another_output_layer(found: list[int]) -> None:
    case, bias = small()
    for other in (bias, None, torch.zeros(400), torch.zeros(400)):
        assert_right(case, other)
    case.target %= 300
    before = len(found)
    got = linear_rank(case.hidden, case.weight, case.target, vocab=300)
    assert len(found) == before + 1
    assert (got.equal[::5] == 2).all()  # of the three equal rows one is left out


def test_weights_made_in_inference_mode_are_looked_at_each_time(found: list[int]) -> None:
    with torch.inference_mode():
        case = gaussian(60, 400, 16, 5)
        assert_right(case, None)
        case.weight[0] += 1
        assert_right(case, None)
    assert len(found) == 4  # two of them for the judge


def test_without_triton_its_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case, _ = small()
    monkeypatch.delattr(kernel, "triton_kernel", raising=False)
    monkeypatch.setitem(sys.modules, "rbp.kernel.triton_kernel", None)
    with pytest.raises(ParameterError, match="triton is not installed"):
        linear_rank(case.hidden, case.weight, case.target, backend="triton")


@pytest.mark.parametrize(("capability", "backend"), [((7, 5), "blocked"), ((8, 0), "triton"), ((9, 0), "triton")])
def test_the_kernel_is_for_gpus_that_multiply_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], backend: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(kernel, "find_spec", lambda _: True)
    assert kernel.backend_for(torch.device("cuda"), torch.float32) == backend
    assert kernel.backend_for(torch.device("cuda"), torch.float64) == "blocked"
