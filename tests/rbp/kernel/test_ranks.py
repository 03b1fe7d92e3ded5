"""Counts and cross-entropies against sorting, against float64, and against the plain route."""

from typing import Any

import pytest
import torch
from drawn_cases import cases
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import BACKENDS, DTYPES, Case, gaussian, ranks, ulp, uneven

from rbp.kernel.problem import TokenRanks


def assert_within(got: TokenRanks, logits: torch.Tensor, target: torch.Tensor, slack: Any) -> None:
    """The counts are those of the logits, but for what lies nearer than `slack`."""
    truth = logits.gather(1, target[:, None])
    assert ((logits > truth + slack).sum(1) <= got.greater).all()
    assert (got.greater + got.equal <= (logits >= truth - slack).sum(1)).all()
    assert (got.equal >= 1).all()


@given(case=cases(), backend=st.sampled_from(BACKENDS))
def test_counts_and_nll_are_those_of_the_sorted_logits(case: Case, backend: str) -> None:
    got, (greater, equal) = ranks(case, backend), case.by_sorting()
    assert got.greater.tolist() == greater.tolist()
    assert got.equal.tolist() == equal.tolist()
    z = case.logits()
    lse, truth = z.logsumexp(1), z.gather(1, case.target[:, None])[:, 0]
    allowed = 4 * ulp(torch.maximum(lse.abs(), (lse - truth).abs()))
    assert ((got.nll.double() - (lse - truth)).abs() <= allowed).all()


@given(seed=st.integers(0, 2**32), dtype=st.sampled_from(DTYPES), d=st.integers(1, 200), width=st.integers(2, 3000))
def test_ranks_lie_where_float64_says_they_can(seed: int, dtype: torch.dtype, d: int, width: int) -> None:
    case = gaussian(70, width, d, seed, dtype)
    slack = d * 2.0**-23 * (case.hidden.double().norm(dim=1, keepdim=True) * case.weight.double().norm(dim=1).max())
    for backend in BACKENDS:
        got = ranks(case, backend)
        assert_within(got, case.logits(), case.target, slack)
        assert (got.equal[::5] >= min(3, width)).all()  # the target's row of weight stands there three times


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("rows", "columns"), [(0, 17), (1, 17), (1, 1), (0, 1)])
def test_the_smallest_shapes(backend: str, rows: int, columns: int) -> None:
    case = Case(torch.ones(rows, 3), torch.ones(columns, 3), torch.zeros(rows, dtype=torch.int64))
    got = ranks(case, backend)
    assert got.greater.tolist() == [0] * rows
    assert got.equal.tolist() == [columns] * rows
    assert torch.allclose(got.nll, torch.tensor(float(columns)).log().expand(rows))
    assert (got.greater.dtype, got.equal.dtype, got.nll.dtype) == (torch.int64, torch.int64, torch.float32)


@pytest.mark.parametrize("far", [0, 1500, 2499])
def test_a_truth_far_below_the_highest_logit_changes_no_other_row(far: int) -> None:
    case = gaussian(2500, 700, 16, 4)  # three blocks of rows
    before = ranks(case)
    case.hidden[far] *= 500
    case.target[far] = case.logits()[far].argmin()
    got, z = ranks(case), case.logits()
    others = torch.arange(2500) != far
    assert torch.equal(got.nll[others], before.nll[others])
    assert torch.equal(got.greater[others], before.greater[others])
    assert got.greater[far] == 699
    exact = z[far].logsumexp(0) - z[far].min()
    assert exact > 100  # whose exponential is beyond float32
    assert torch.isclose(got.nll[far].double(), exact, rtol=1e-6)


@pytest.fixture
def _uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products round one sum in two ways at two places, as some libraries do at the edges of a block."""
    monkeypatch.setattr(torch, "mm", uneven(torch.mm))


@pytest.mark.usefixtures("_uneven")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("options", [{}, {"scale": 0.7}, {"softcap": 20.0}, {"round_logits": "bfloat16"}], ids=str)
def test_a_target_ties_with_itself_and_its_equals(backend: str, dtype: torch.dtype, options: dict[str, Any]) -> None:
    case = gaussian(200, 3001, 64, 9, dtype)
    bias = torch.randn(3001, generator=torch.Generator().manual_seed(1))
    bias[-1] = bias[0]  # of the three equal rows of weight, one has another bias
    case.options = {"bias": bias.to(dtype)} | options
    got, z = ranks(case, backend), case.logits()
    rounding = 2**-8 * z.gather(1, case.target[:, None]).abs() if "round_logits" in options else 0
    assert_within(got, z, case.target, 64 * 2.0**-23 * z.abs().max() + rounding)
    assert (got.equal[::5] >= 2).all()
