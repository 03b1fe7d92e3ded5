"""The kernels by Triton: on the CPU by triton's interpreter, run by test_triton.py; on a GPU by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from drawn_cases import cases
from hypothesis import given
from ranking_cases import Case, gaussian, ulp, uneven

from rbp.errors import RankError
from rbp.kernel import tiles, triton_kernel
from rbp.kernel.problem import Tally, TokenRanks, finish_ranks, ieee, problem
from rbp.kernel.triton_kernel import Shape

DEVICE = "cpu" if triton_kernel.INTERPRETED else "cuda"


def on_device(case: Case) -> list[torch.Tensor]:
    return [tensor.to(DEVICE) for tensor in (case.hidden, case.weight, case.target)]


def on_cpu(got: TokenRanks) -> TokenRanks:
    return TokenRanks(*(field.cpu() for field in (got.greater, got.equal, got._nll, got.top)))


def ranks(case: Case, tally: Callable[[Any], Tally] = triton_kernel.tally, **others: Any) -> TokenRanks:
    options = {
        name: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for name, value in (case.options | others).items()
    }
    options = {"bias": None, "scale": 1.0, "softcap": None, "vocab": None, "round_logits": None} | options
    with ieee(torch.device(DEVICE)):
        given = problem(*on_device(case), *options.values())
        return on_cpu(finish_ranks(given, tally(given)))


def by_tiles(given: Any) -> Tally:
    """As the vendor's products are counted, in smaller tiles."""
    return tiles.tally(given, 64)


WAYS = pytest.mark.parametrize("tally", [triton_kernel.tally, by_tiles], ids=["fused", "tiles"])


def exactly(case: Case) -> Case:
    """The case in few bits, so that no product is rounded: the interpreter's depends on the place, by the processor."""
    hidden, weight = (case.hidden.float() * 4).round() / 4, (case.weight.float() * 64).round() / 64
    return Case(hidden, weight, case.target)


@WAYS
@given(case=cases(rows=70, columns=300))
def test_counts_and_nll_are_those_of_the_sorted_logits(tally: Any, case: Case) -> None:
    got, (greater, equal) = ranks(case, tally), case.by_sorting()
    if case.options["softcap"] is None:
        assert got.greater.tolist() == greater.tolist()
        assert got.equal.tolist() == equal.tolist()
        assert got.top.tolist() == case.logits().numpy().argmax(1).tolist()  # the first of several
    z = case.logits()
    lse, truth = z.logsumexp(1), z.gather(1, case.target[:, None])[:, 0]
    if case.options["round_logits"] is None or case.options["softcap"] is None:
        allowed = 8 * ulp(torch.maximum(lse.abs(), (lse - truth).abs()))
        assert ((got.nll.double() - (lse - truth)).abs() <= allowed).all()
    assert (got.greater + got.equal <= z.shape[1]).all()


@pytest.mark.skipif(DEVICE != "cpu", reason="numpy does not multiply for a GPU")
@WAYS
def test_a_target_ties_with_its_equals_whatever_the_place_in_a_tile(tally: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(np, "matmul", uneven(np.matmul))  # which multiplies for the interpreter
    monkeypatch.setattr(torch, "mm", uneven(torch.mm))
    case = gaussian(150, 300, 75, 3)
    got = ranks(case, tally)
    assert (got.equal >= 1).all()
    assert (got.equal[::5] == 3).all()
    assert ((got.greater > 0) | (got.top <= case.target)).all()
    assert ((got.greater > 0) | (got.equal > 1) | (got.top == case.target)).all()


def test_tiles_and_launches_change_no_count(monkeypatch: Any) -> None:
    case = exactly(gaussian(150, 300, 40, 5))
    case.target[1] = 299
    one = ranks(case)
    monkeypatch.setattr(triton_kernel, "LAUNCH", 128)
    other = ranks(case, lambda given: triton_kernel.tally(given, Shape(128, 128, 64, warps=1, stages=1)))
    assert torch.equal(one.greater, other.greater)
    assert torch.equal(one.equal, other.equal)
    assert torch.equal(one.top, other.top)
    assert ((one.nll - other.nll).abs().double() <= 4 * ulp(one.nll)).all()


@WAYS
def test_a_truth_far_below_the_highest_logit(tally: Any) -> None:
    case = gaussian(150, 300, 16, 4)
    before = ranks(case, tally)
    case.hidden[70] *= 500
    case.target[70] = case.logits()[70].argmin()
    got, z = ranks(case, tally), case.logits()[70]
    others = torch.arange(150) != 70
    assert torch.equal(got.nll[others], before.nll[others])
    assert (got.greater[70], got.top[70]) == (299, z.argmax())
    assert torch.isclose(got.nll[70].double(), z.logsumexp(0) - z.min(), rtol=1e-6)


@WAYS
def test_infinities_and_nan(tally: Any) -> None:
    inf = float("inf")
    case = gaussian(20, 300, 8, 1)
    case.target[:] = torch.arange(20)
    bias = torch.zeros(300)
    bias[[3, 200]] = -inf
    got = ranks(case, tally, bias=bias)
    assert (got.greater[3], got.equal[3], got.nll[3]) == (298, 2, inf)
    assert got.top.tolist() == (case.logits() + bias).numpy().argmax(1).tolist()
    bias[[5, 250]] = inf
    got = ranks(case, tally, bias=bias)
    assert (got.greater[5], got.equal[5]) == (0, 2)
    assert got.top.tolist() == [5] * 20
    with pytest.raises(RankError, match=r"\+inf"):
        _ = got.nll
    case.hidden[7, 2] = float("nan")
    with pytest.raises(RankError, match="NaN") as caught:
        ranks(case, tally)
    assert caught.value.row == 7
