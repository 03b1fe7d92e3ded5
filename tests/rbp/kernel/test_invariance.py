"""What must not depend on how the work is cut: bit for bit."""

from collections.abc import Iterator

import pytest
import torch
from draws import rest_slow
from hypothesis import given
from hypothesis import strategies as st
from ranking_cases import DTYPES, Case, gaussian

from rbp.kernel import blocked
from rbp.kernel.problem import TokenRanks, concluded, problem

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


def cut(case: Case, rows: int = blocked.ROWS) -> TokenRanks:
    options = {"bias": None, "scale": 1.0, "softcap": None, "vocab": None, "rounding": None} | case.options
    with torch.no_grad():
        given = problem(case.hidden, case.weight, case.target, **options)
        return concluded(given, blocked.tally(given, rows))


def same(one: TokenRanks, other: TokenRanks) -> bool:
    return all(torch.equal(getattr(one, f), getattr(other, f)) for f in ("greater", "equal", "nll"))


@pytest.mark.parametrize("rows", rest_slow([48, 1152], [16, 128, 256]))
@pytest.mark.usefixtures("threads")
def test_row_blocks_and_threads_change_nothing(case: Case, rows: int) -> None:
    before = cut(case)
    assert same(before, cut(case, rows=rows))
    torch.set_num_threads(3)
    assert same(before, cut(case))
    assert same(before, cut(case, rows=rows))


@given(seed=st.integers(0, 2**32), rows=st.integers(1, ROWS))
def test_order_and_company_of_rows_change_nothing(seed: int, rows: int) -> None:
    case = gaussian(ROWS, COLUMNS, 64, 12)
    whole = cut(case)
    some = torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed))[:rows]
    part = cut(Case(case.hidden[some], case.weight, case.target[some]))
    assert same(part, TokenRanks(whole.greater[some], whole.equal[some], whole.nll[some]))
