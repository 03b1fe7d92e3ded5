"""Counts and cross-entropies against sorting, against float64, and against the plain route."""

import pytest
import torch
from drawn_cases import cases
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import DTYPES, Case, gaussian, ulp
from torch.nn.functional import cross_entropy

from rbp.kernel import linear_rank
from rbp.kernel.problem import TokenRanks
from rbp.metric import greater_equal


def ranks(case: Case, backend: str) -> TokenRanks:
    return linear_rank(case.hidden, case.weight, case.target, backend=backend, **case.options)


@given(case=cases(), backend=st.sampled_from(["blocked", "reference"]))
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
    z = case.logits()
    truth = z.gather(1, case.target[:, None])
    slack = d * 2.0**-23 * (case.hidden.double().norm(dim=1, keepdim=True) * case.weight.double().norm(dim=1).max())
    got, judge = ranks(case, "blocked"), ranks(case, "reference")
    for one in (got, judge):
        assert ((z > truth + slack).sum(1) <= one.greater).all()
        assert (one.greater + one.equal <= (z >= truth - slack).sum(1)).all()
        assert (one.equal >= 1).all()
        assert (one.equal[::5] >= min(3, width)).all()  # the target's row of weight stands there three times


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [128, 768])
def test_our_errors_are_no_larger_than_those_of_the_plain_route(dtype: torch.dtype, d: int) -> None:
    case = gaussian(512, 8000, d, 7, dtype)
    exact = case.logits()
    greater, equal = greater_equal(exact.numpy(), case.target.numpy())
    nll = exact.logsumexp(1) - exact.gather(1, case.target[:, None])[:, 0]
    plain = case.hidden.float() @ case.weight.float().T
    plain_greater, plain_equal = greater_equal(plain.numpy(), case.target.numpy())
    ours = ranks(case, "blocked")
    wrong = ((ours.greater.numpy() != greater) | (ours.equal.numpy() != equal)).sum()
    plainly_wrong = ((plain_greater != greater) | (plain_equal != equal)).sum()
    assert wrong <= plainly_wrong + 2
    error = (ours.nll.double() - nll).abs()
    plain_error = (cross_entropy(plain, case.target, reduction="none").double() - nll).abs()
    assert error.max() <= 1.5 * plain_error.max()
    assert error.mean() <= 1.1 * plain_error.mean()


def test_low_precision_inputs_are_not_ranked_by_rounded_logits() -> None:
    case = gaussian(256, 5000, 64, 3, torch.bfloat16)
    greater, equal = greater_equal(case.logits().numpy(), case.target.numpy())
    exact, rounded = (
        ranks(case, "blocked"),
        linear_rank(case.hidden, case.weight, case.target, backend="blocked", round_logits="bfloat16"),
    )
    assert (exact.greater.numpy() != greater).sum() <= 2
    assert (exact.equal.numpy() != equal).sum() <= 2
    assert rounded.equal.double().mean() > 2 * exact.equal.double().mean()


@pytest.mark.parametrize("backend", ["reference", "blocked"])
def test_float64_is_summed_in_float64(backend: str) -> None:
    case = gaussian(150, 2000, 33, 5, torch.float64)
    got, z = ranks(case, backend), case.logits()
    truth = z.gather(1, case.target[:, None])[:, 0]
    assert got.nll.dtype == torch.float64
    assert torch.allclose(got.nll, z.logsumexp(1) - truth, rtol=1e-13, atol=1e-13)
    assert (got.equal[::5] == 3).all()


@pytest.mark.parametrize("backend", ["reference", "blocked"])
@pytest.mark.parametrize(("rows", "columns"), [(0, 17), (1, 17), (1, 1), (0, 1)])
def test_the_smallest_shapes(backend: str, rows: int, columns: int) -> None:
    case = Case(torch.ones(rows, 3), torch.ones(columns, 3), torch.zeros(rows, dtype=torch.int64))
    got = ranks(case, backend)
    assert got.greater.tolist() == [0] * rows
    assert got.equal.tolist() == [columns] * rows
    assert got.nll.shape == (rows,)
    assert torch.allclose(got.nll, torch.tensor(float(columns)).log().expand(rows))
    assert (got.greater.dtype, got.equal.dtype, got.nll.dtype) == (torch.int64, torch.int64, torch.float32)


def test_a_certain_token_has_an_nll_of_zero_and_an_unlikely_one_a_large_one() -> None:
    weight = torch.zeros(3000, 2)
    weight[7, 0], weight[9, 0] = 1.0, -1.0
    hidden = torch.tensor([[200.0, 0.0], [200.0, 0.0]])
    got = linear_rank(hidden, weight, torch.tensor([7, 9]), backend="blocked")
    assert got.nll.tolist() == [0.0, 400.0]  # exp(400) is beyond float32: the highest logit is the base then
    assert got.greater.tolist() == [0, 2999]


@pytest.mark.parametrize("far", [0, 1500, 2499])
def test_a_truth_far_below_the_highest_logit_changes_no_other_row(far: int) -> None:
    case = gaussian(2500, 700, 16, 4)  # three blocks of rows
    before = ranks(case, "blocked")
    case.hidden[far] *= 500
    case.target[far] = case.logits()[far].argmin()
    got, z = ranks(case, "blocked"), case.logits()
    others = torch.arange(2500) != far
    assert torch.equal(got.nll[others], before.nll[others])
    assert torch.equal(got.greater[others], before.greater[others])
    assert got.greater[far] == 699
    exact = z[far].logsumexp(0) - z[far].min()
    assert exact > 100  # whose exponential is beyond float32
    assert torch.isclose(got.nll[far].double(), exact, rtol=1e-6)
