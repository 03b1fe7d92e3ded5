"""NaN, infinities, arguments that do not fit, and switches that others have set."""

import pickle
from typing import Any

import pytest
import torch
from ranking_cases import BACKENDS

from rbp.errors import ParameterError, RankError
from rbp.kernel import linear_rank

INF, NAN = float("inf"), float("nan")


def arguments(rows: int = 5, columns: int = 20, d: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "hidden": torch.randn(rows, d, generator=generator),
        "weight": torch.randn(columns, d, generator=generator),
        "target": torch.arange(rows),
        "bias": torch.zeros(columns),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "index", "value", "row", "says"),
    [
        ("hidden", (3, 1), NAN, 3, "the hidden state holds NaN"),
        ("weight", (19, 0), NAN, 0, "the output embedding holds NaN"),
        ("bias", (7,), NAN, 0, "the output embedding holds NaN"),
        ("hidden", (2, slice(2)), torch.tensor([INF, -INF]), 2, "infinite values or an overflow"),
    ],
)
def test_nan_is_an_error_that_names_the_row(
    backend: str, name: str, index: tuple[Any], value: Any, row: int, says: str
) -> None:
    given = arguments()
    given[name][index] = value
    with pytest.raises(RankError, match=says) as caught:
        linear_rank(**given, backend=backend)
    assert caught.value.row == row
    assert f"row {row}" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).row == row  # noqa: S301


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"hidden": torch.zeros(5, 3)}, "hidden, weight"),
        ({"target": torch.zeros(4, dtype=torch.int64)}, "target"),
        ({"target": torch.tensor([0, 1, 20, 3, 4])}, "target, row 2"),
        ({"target": torch.tensor([0, 1, 2, -100, 4])}, "target, row 3"),
        ({"vocab": 4}, "target, row 4"),
        ({"bias": torch.zeros(19)}, "bias"),
        ({"hidden": torch.zeros(5, 4, dtype=torch.int64)}, "hidden, weight, bias"),
        ({"scale": NAN}, "scale, softcap"),
        ({"softcap": -1.0}, "scale, softcap"),
        ({"backend": "cuda"}, "backend"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, Any], where: str) -> None:
    with pytest.raises(ParameterError) as caught:
        linear_rank(**(arguments() | change))
    assert caught.value.where == where


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_switches_of_precision_are_off_within_and_back_after(backend: str) -> None:
    given = arguments(200, 3000, 300)
    before = linear_rank(**given, backend=backend)
    was = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16):
            after = linear_rank(**given, backend=backend)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(was)
    assert torch.equal(before.greater, after.greater)
    assert torch.equal(before.nll, after.nll)
