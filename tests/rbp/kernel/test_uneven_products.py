"""Products that round one sum in two ways at two places, as some libraries do at the edges of a block."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import DTYPES, Case, gaussian, uneven

from rbp.kernel import linear_rank, names

BACKENDS = ["reference", "blocked"]


@pytest.fixture
def _uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "mm", uneven(torch.mm))


def ranks(case: Case, backend: str) -> Any:
    return linear_rank(case.hidden, case.weight, case.target, backend=backend, **case.options)


@pytest.mark.usefixtures("_uneven")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("options", [{}, {"scale": 0.7}, {"softcap": 20.0}, {"round_logits": "bfloat16"}], ids=str)
def test_a_target_ties_with_itself_and_its_equals(backend: str, dtype: torch.dtype, options: dict[str, Any]) -> None:
    case = gaussian(200, 3001, 64, 9, dtype)
    bias = torch.randn(3001, generator=torch.Generator().manual_seed(1))
    bias[-1] = bias[0]  # of the three equal rows of weight, one has another bias
    case.options = {"bias": bias.to(dtype)} | options
    got, z = ranks(case, backend), case.logits()
    truth = z.gather(1, case.target[:, None])
    slack = 64 * 2.0**-23 * z.abs().max() + (2**-8 * truth.abs() if "round_logits" in options else 0)
    assert ((z > truth + slack).sum(1) <= got.greater).all()
    assert (got.greater + got.equal <= (z >= truth - slack).sum(1)).all()
    assert (got.equal >= 1).all()
    assert (got.equal[::5] >= 2).all()


@pytest.mark.usefixtures("_uneven")
@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_weight_that_are_all_the_same_all_tie(backend: str) -> None:
    hidden = torch.randn(150, 40, generator=torch.Generator().manual_seed(3))
    got = linear_rank(hidden, hidden[:1].expand(2500, 40), torch.arange(150) * 16, backend=backend)
    assert got.equal.tolist() == [2500] * 150
    assert got.greater.tolist() == [0] * 150
    assert torch.allclose(got.nll, torch.tensor(2500.0).log())


@pytest.mark.usefixtures("_uneven")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_certain_token_has_no_cross_entropy_below_zero(backend: str) -> None:
    hidden = torch.full((50, 1), 200.3)
    weight = torch.cat([torch.ones(1, 1), -torch.ones(99, 1)])
    got = linear_rank(hidden, weight, torch.zeros(50, dtype=torch.int64), backend=backend)
    assert ((got.nll >= 0) & (got.nll < 1e-4)).all()


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
        found = names.find_names(weight, bias)
    assert found.of.tolist() == expected
    assert found.later.tolist() == [i for i in range(width) if expected[i] != i]
    assert found.first.tolist() == [j for i, j in enumerate(expected) if j != i]
    assert not names.changed(found, weight, bias)
