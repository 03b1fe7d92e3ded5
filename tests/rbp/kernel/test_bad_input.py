"""NaN, infinities, arguments that do not fit, and switches that others have set."""

import pickle
from typing import Any

import pytest
import torch
from ranking_cases import BACKENDS

from rbp.errors import ParameterError, RankError
from rbp.kernel import linear_rank
from rbp.kernel.problem import ieee

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


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_nan_beyond_the_vocabulary_does_not_count(backend: str) -> None:
    given = arguments()
    given["weight"][19] = NAN
    assert (linear_rank(**given, vocab=19, backend=backend).equal == 1).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_plus_infinity_ties_and_has_no_nll(backend: str) -> None:
    given = arguments()
    given["bias"][[3, 11]] = INF
    got = linear_rank(**given, backend=backend)
    assert (got.greater[3], got.equal[3]) == (0, 2)
    assert (got.greater[:3] >= 2).all()
    with pytest.raises(RankError, match=r"\+inf") as caught:
        _ = got.nll
    assert caught.value.row == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_minus_infinity_is_last_with_infinite_nll(backend: str) -> None:
    given = arguments()
    given["bias"][[3, 11, 12]] = -INF
    got = linear_rank(**given, backend=backend)
    assert (got.greater[3], got.equal[3], got.nll[3]) == (17, 3, INF)
    assert got.nll[[0, 1, 2, 4]].isfinite().all()
    given["bias"][:] = -INF
    alone = linear_rank(**given, backend=backend)
    assert alone.equal.tolist() == [20] * 5
    assert alone.nll.tolist() == [INF] * 5


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_largest_numbers(backend: str, dtype: torch.dtype) -> None:
    weight = torch.tensor([[1e38], [-1e38], [1e-38], [0.0], [1e38]]).to(dtype)
    hidden, target = torch.tensor([[1.0], [1.0], [-1.0], [1e-30]]).to(dtype), torch.tensor([0, 1, 1, 2])
    got = linear_rank(hidden, weight, target, backend=backend)
    assert got.greater.tolist() == [0, 4, 0, 2]
    assert got.equal[:3].tolist() == [2, 1, 1]
    top = float(weight[0, 0])
    expected = torch.tensor([torch.tensor(2.0).log(), 2 * top, 0.0, top * float(hidden[3, 0])])
    assert torch.allclose(got.nll, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"hidden": torch.zeros(5, 3)}, "hidden, weight"),
        ({"hidden": torch.zeros(5)}, "hidden, weight"),
        ({"weight": torch.zeros(0, 4)}, "hidden, weight"),
        ({"target": torch.zeros(4, dtype=torch.int64)}, "target"),
        ({"target": torch.zeros(5)}, "target"),
        ({"target": torch.tensor([0, 1, 20, 3, 4])}, "target, row 2"),
        ({"target": torch.tensor([0, 1, 2, -100, 4])}, "target, row 3"),
        ({"vocab": 4}, "target, row 4"),
        ({"vocab": 0}, "vocab"),
        ({"vocab": 21}, "vocab"),
        ({"bias": torch.zeros(19)}, "bias"),
        ({"hidden": torch.zeros(5, 4, dtype=torch.int64)}, "hidden, weight, bias"),
        ({"weight": torch.zeros(20, 4, device="meta")}, "device"),
        ({"scale": 0.0}, "scale, softcap"),
        ({"scale": NAN}, "scale, softcap"),
        ({"softcap": -1.0}, "scale, softcap"),
        ({"round_logits": "float16"}, "round_logits"),
        ({"backend": "cuda"}, "backend"),
        ({"backend": "triton"}, "backend"),
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


TORCH: Any = torch.backends
SWITCHES: list[Any] = [
    *(TORCH, TORCH.cudnn, TORCH.cudnn.conv, TORCH.cudnn.rnn, TORCH.cuda.matmul),
    *(TORCH.mkldnn.matmul, TORCH.mkldnn.conv, TORCH.mkldnn.rnn),
]


@pytest.mark.parametrize("changed", [None, *SWITCHES[:2], TORCH.cuda.matmul])
def test_every_switch_says_ieee_within_and_what_it_said_after(changed: Any) -> None:
    if changed:
        changed.fp32_precision = "tf32"
    try:
        before = [switch.fp32_precision for switch in SWITCHES]
        with ieee(torch.device("cpu")), ieee(torch.device("cpu")):
            assert {switch.fp32_precision for switch in SWITCHES} == {"ieee"}
        assert [switch.fp32_precision for switch in SWITCHES] == before
    finally:
        if changed:
            changed.fp32_precision = "none"
