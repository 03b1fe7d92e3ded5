"""The Triton kernel: on the CPU by triton's interpreter, run by test_triton.py; on a GPU, run by `make gpu`."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import DTYPES, Case, cases, gaussian, ulp, uneven

from rbp.errors import ParameterError, RankError
from rbp.kernel import linear_rank, triton_kernel
from rbp.kernel.problem import TokenRanks, concluded, problem
from rbp.kernel.triton_kernel import Shape

SMALL = Shape(16, 32, 16, warps=1, stages=1)
DEVICE = "cpu" if triton_kernel.INTERPRETED else "cuda"


def on_device(case: Case) -> list[torch.Tensor]:
    return [tensor.to(DEVICE) for tensor in (case.hidden, case.weight, case.target)]


def on_cpu(got: TokenRanks) -> TokenRanks:
    return TokenRanks(*(field.cpu() for field in (got.greater, got.equal, got._nll)))


def ranks(case: Case, **others: Any) -> TokenRanks:
    options = {
        name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for name, value in (case.options | others).items()
    }
    return on_cpu(linear_rank(*on_device(case), **{"backend": "triton", **options}))


def same(one: TokenRanks, other: TokenRanks) -> bool:
    return all(torch.equal(getattr(one, f), getattr(other, f)) for f in ("greater", "equal", "nll"))


def exactly(case: Case) -> Case:
    """The case in few bits, so that no product is rounded: the interpreter's depends on the place, by the processor."""
    return Case((case.hidden * 4).round() / 4, (case.weight * 64).round() / 64, case.target)


@given(case=cases(rows=70, columns=300))
def test_counts_and_nll_are_those_of_the_sorted_logits(case: Case) -> None:
    got, (greater, equal) = ranks(case), case.by_sorting()
    if case.options["softcap"] is None:
        assert got.greater.tolist() == greater.tolist()
        assert got.equal.tolist() == equal.tolist()
    z = case.logits()
    lse, truth = z.logsumexp(1), z.gather(1, case.target[:, None])[:, 0]
    if case.options["round_logits"] is None or case.options["softcap"] is None:
        allowed = 8 * ulp(torch.maximum(lse.abs(), (lse - truth).abs()))
        assert ((got.nll.double() - (lse - truth)).abs() <= allowed).all()
    assert (got.greater + got.equal <= z.shape[1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_lie_where_float64_says_they_can(dtype: torch.dtype) -> None:
    case = gaussian(150, 700, 75, 3, dtype)
    z, got = case.logits(), ranks(case)
    truth = z.gather(1, case.target[:, None])
    slack = 75 * 2.0**-23 * (case.hidden.double().norm(dim=1, keepdim=True) * case.weight.double().norm(dim=1).max())
    assert ((z > truth + slack).sum(1) <= got.greater).all()
    assert (got.greater + got.equal <= (z >= truth - slack).sum(1)).all()
    assert (got.equal[::5] == 3).all()


@pytest.mark.skipif(DEVICE != "cpu", reason="numpy does not multiply for a GPU")
def test_a_target_ties_with_its_equals_whatever_the_place_in_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "matmul", uneven(np.matmul))  # which multiplies for the interpreter
    case = gaussian(150, 700, 75, 3)
    got = ranks(case)
    assert (got.equal >= 1).all()
    assert (got.equal[::5] == 3).all()
    alike = ranks(Case(case.hidden, case.weight[:1].expand(700, 75), case.target))
    assert alike.equal.tolist() == [700] * 150


@given(shape=st.sampled_from([SMALL, Shape(16, 64, 32, 1, 1), Shape(64, 64, 16, 1, 1), Shape(128, 128, 64, 1, 1)]))
def test_tiles_and_launches_change_no_count(shape: Shape) -> None:
    case = exactly(gaussian(150, 700, 40, 5))
    case.target[1] = 699
    one = ranks(case)
    launch = triton_kernel.LAUNCH
    try:
        triton_kernel.LAUNCH = 128
        given = problem(*on_device(case), None, 1.0, None, None, None)
        other = on_cpu(concluded(given, triton_kernel.tally(given, shape)))
    finally:
        triton_kernel.LAUNCH = launch
    assert torch.equal(one.greater, other.greater)
    assert torch.equal(one.equal, other.equal)
    assert ((one.nll - other.nll).abs().double() <= 4 * ulp(one.nll)).all()


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 150))
def test_order_and_company_of_rows_change_nothing(seed: int, rows: int) -> None:
    case = exactly(gaussian(150, 300, 40, 12))
    whole = ranks(case)
    some = torch.randperm(150, generator=torch.Generator().manual_seed(seed))[:rows]
    part = ranks(Case(case.hidden[some], case.weight, case.target[some]))
    assert same(part, TokenRanks(whole.greater[some], whole.equal[some], whole.nll[some]))


def test_weights_that_do_not_lie_together_are_the_same_weights() -> None:
    case, apart = exactly(gaussian(40, 300, 64, 9)), torch.full((300, 128), 7.0, device=DEVICE)
    apart[:, ::2] = case.weight.to(DEVICE)
    hidden, _, target = on_device(case)
    assert same(ranks(case), on_cpu(linear_rank(hidden, apart[:, ::2], target, backend="triton")))


def test_a_soft_cap_close_to_its_bound_and_close_to_zero() -> None:
    hidden = torch.tensor([[1e-6], [1e-3], [0.149], [0.151], [1.0], [9.0], [100.0]])
    weight = torch.tensor([[1.0], [-1.0], [0.5]])
    got = ranks(Case(hidden, weight, torch.ones(7, dtype=torch.int64)), softcap=1.0)
    z = (hidden.double() @ weight.double().T).tanh()
    assert torch.allclose(got.nll.double(), z.logsumexp(1) - z[:, 1], rtol=2e-6)
    assert got.greater.tolist() == [2] * 7


@pytest.mark.parametrize("far", [3, 200, 299])
def test_a_truth_far_below_the_highest_logit_changes_no_other_row(far: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_kernel, "LAUNCH", 128)
    case = exactly(gaussian(300, 300, 16, 4))
    before = ranks(case)
    case.hidden[far] *= 500
    case.target[far] = case.logits()[far].argmin()
    got, z = ranks(case), case.logits()
    others = torch.arange(300) != far
    assert torch.equal(got.nll[others], before.nll[others])
    assert got.greater[far] == 299
    assert torch.isclose(got.nll[far].double(), z[far].logsumexp(0) - z[far].min(), rtol=1e-6)


def test_infinities_nan_and_the_largest_numbers() -> None:
    inf = float("inf")
    case = gaussian(20, 300, 8, 1)
    case.target[:] = torch.arange(20)
    bias = torch.zeros(300)
    bias[[3, 200]] = -inf
    got = ranks(case, bias=bias)
    assert (got.greater[3], got.equal[3], got.nll[3]) == (298, 2, inf)
    bias[[5, 250]] = inf
    got = ranks(case, bias=bias)
    assert (got.greater[5], got.equal[5]) == (0, 2)
    with pytest.raises(RankError, match=r"\+inf"):
        _ = got.nll
    wide = Case(case.hidden * 1e3, case.weight, case.target)
    far, judge = ranks(wide), ranks(wide, backend="reference")
    assert torch.allclose(far.nll, judge.nll)
    case.hidden[7, 2] = float("nan")
    with pytest.raises(RankError, match="NaN") as caught:
        ranks(case)
    assert caught.value.row == 7


def test_float64_is_refused() -> None:
    with pytest.raises(ParameterError, match="float32"):
        ranks(gaussian(5, 30, 8, 1, torch.float64))
