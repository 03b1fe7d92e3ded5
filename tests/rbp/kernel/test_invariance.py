"""What must not depend on how the work is cut: bit for bit."""

from collections.abc import Iterator

import pytest
import torch
from draws import rest_slow
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import DTYPES, Case, gaussian, ulp

from rbp.kernel import blocked, linear_rank
from rbp.kernel.problem import TokenRanks, concluded, problem
from rbp.kernel.reduction import Reduce

ROWS, COLUMNS = 700, 5003


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=rest_slow(DTYPES[:2], DTYPES[2:]), ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    case = gaussian(ROWS, COLUMNS, 96, 11, request.param)
    case.options = {"bias": torch.randn(COLUMNS, generator=torch.Generator().manual_seed(1)), "softcap": 20.0}
    return case


def cut(case: Case, rows: int = blocked.ROWS, tile: int = blocked.TILE, reduce: Reduce | None = None) -> TokenRanks:
    options = {"bias": None, "scale": 1.0, "softcap": None, "vocab": None, "rounding": None} | case.options
    with torch.no_grad():
        given = problem(case.hidden, case.weight, case.target, **options)
        return concluded(given, blocked.tally(given, rows, tile, reduce))


def same(one: TokenRanks, other: TokenRanks) -> bool:
    return all(torch.equal(getattr(one, f), getattr(other, f)) for f in ("greater", "equal", "nll"))


def assert_same_counts(one: TokenRanks, other: TokenRanks, allowed: torch.Tensor) -> None:
    assert torch.equal(one.greater, other.greater)
    assert torch.equal(one.equal, other.equal)
    assert ((one.nll.double() - other.nll.double()).abs() <= allowed).all()


@pytest.mark.parametrize("rows", rest_slow([48, 1152], [16, 128, 256]))
@pytest.mark.usefixtures("threads")
def test_row_blocks_and_threads_change_nothing(case: Case, rows: int) -> None:
    before = cut(case)
    assert same(before, cut(case, rows=rows))
    torch.set_num_threads(3)
    assert same(before, cut(case))
    assert same(before, cut(case, rows=rows))


@pytest.mark.parametrize("tile", rest_slow([1056], [2112, 4032]))
def test_tiles_change_no_count_and_the_nll_by_four_units_at_most(case: Case, tile: int) -> None:
    assert_same_counts(cut(case), cut(case, tile=tile), 4 * ulp(case.logits().logsumexp(1)))


@given(seed=st.integers(0, 2**32), rows=st.integers(1, ROWS))
def test_order_and_company_of_rows_change_nothing(seed: int, rows: int) -> None:
    case = gaussian(ROWS, COLUMNS, 64, 12)
    whole = cut(case)
    some = torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed))[:rows]
    part = cut(Case(case.hidden[some], case.weight, case.target[some]))
    assert same(part, TokenRanks(whole.greater[some], whole.equal[some], whole.nll[some]))


def test_order_of_the_vocabulary_changes_no_count(case: Case) -> None:
    order = torch.randperm(COLUMNS, generator=torch.Generator().manual_seed(2))
    options = case.options | {"bias": case.options["bias"][order]}
    other = Case(case.hidden, case.weight[order], torch.argsort(order)[case.target], options)
    assert_same_counts(cut(case), cut(other), torch.tensor(torch.inf))


def test_strides_and_inference_mode_change_nothing() -> None:
    case = gaussian(150, 2000, 48, 4)
    before = linear_rank(case.hidden, case.weight, case.target)
    assert same(before, linear_rank(case.hidden.T.contiguous().T, case.weight.T.contiguous().T, case.target))
    with torch.inference_mode():
        case = gaussian(150, 2000, 48, 4)
        assert same(before, linear_rank(case.hidden, case.weight, case.target.int()))
