"""NaN, infinities, arguments that do not fit, and switches that others have set."""

import pickle
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
import torch

from rbp.errors import ParameterError, RankError
from rbp.kernel import linear_rank
from rbp.kernel.problem import ieee

BACKENDS = ["reference", "blocked"]
INF, NAN = float("inf"), float("nan")


def arguments(rows: int = 5, columns: int = 20, d: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "hidden": torch.randn(rows, d, generator=generator),
        "weight": torch.randn(columns, d, generator=generator),
        "target": torch.arange(rows),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("name", "index", "row", "says"),
    [
        ("hidden", (3, 1), 3, "the hidden state holds NaN"),
        ("weight", (19, 0), 0, "the output embedding holds NaN"),
        ("bias", (7,), 0, "the output embedding holds NaN"),
    ],
)
def test_nan_is_an_error_that_names_the_row(backend: str, name: str, index: tuple[int], row: int, says: str) -> None:
    given = arguments() | {"bias": torch.zeros(20)}
    given[name][index] = NAN
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
def test_infinite_products_that_cancel_are_an_error(backend: str) -> None:
    given = arguments()
    given["hidden"][2, :2] = torch.tensor([INF, -INF])
    with pytest.raises(RankError, match="infinite values or an overflow") as caught:
        linear_rank(**given, backend=backend)
    assert caught.value.row == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_plus_infinity_ties_and_has_no_nll(backend: str) -> None:
    bias = torch.zeros(20)
    bias[[3, 11]] = INF
    got = linear_rank(**arguments(), bias=bias, backend=backend)
    assert got.greater[3] == 0
    assert got.equal[3] == 2
    assert (got.greater[:3] >= 2).all()
    with pytest.raises(RankError, match=r"\+inf") as caught:
        _ = got.nll
    assert caught.value.row == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_minus_infinity_is_last_with_infinite_nll(backend: str) -> None:
    bias = torch.zeros(20)
    bias[[3, 11, 12]] = -INF
    got = linear_rank(**arguments(), bias=bias, backend=backend)
    assert (got.greater[3], got.equal[3], got.nll[3]) == (17, 3, INF)
    assert got.nll[[0, 1, 2, 4]].isfinite().all()
    alone = linear_rank(**arguments(), bias=torch.full((20,), -INF), backend=backend)
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
    expected = torch.tensor([torch.tensor(2.0).log(), 2 * top, 0.0, float(weight[0, 0]) * float(hidden[3, 0])])
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


def switches() -> dict[str, Any]:
    """Everything below torch.backends that has a precision of float32, by its name: found, not listed."""
    found: dict[str, Any] = {"all": torch.backends}
    seen, todo = set(), [("", torch.backends)]
    while todo:
        above, thing = todo.pop()
        seen.add(id(thing))
        for name in {*dir(thing), *dir(type(thing)), *dir(getattr(thing, "m", None))} - {"m"}:  # what it stands for
            with suppress(Exception):  # what only a machine with a GPU has
                inner = getattr(thing, name)
                if hasattr(inner, "fp32_precision") and not isinstance(inner, type):
                    found[above + name] = inner
                if isinstance(inner, ModuleType) and "torch.backends." in inner.__name__ and id(inner) not in seen:
                    todo.append((f"{above}{name}.", inner))
    return found


def readings() -> list[dict[str, str]]:
    """What each switch says, and would say if the general one were set: one that is not set follows it."""
    read = [{name: switch.fp32_precision for name, switch in switches().items()}]
    was = torch.backends.fp32_precision
    for general in ("ieee", "tf32"):
        torch.backends.fp32_precision = general
        read.append({name: switch.fp32_precision for name, switch in switches().items()})
    torch.backends.fp32_precision = was
    return read


@pytest.mark.parametrize(
    ("changed", "value"),
    [(None, ""), ("all", "tf32"), ("all", "bf16"), ("cudnn", "tf32"), ("cuda.matmul", "tf32"), ("mkldnn.rnn", "bf16")],
)
def test_every_switch_that_pytorch_has_says_ieee_within(changed: str | None, value: str) -> None:
    there = switches()
    assert {"cudnn", "cudnn.conv", "cudnn.rnn", "cuda.matmul", "mkldnn.matmul", "mkldnn.rnn"} < there.keys()
    if changed:
        there[changed].fp32_precision = value
    try:
        before = readings()
        with ieee(torch.device("cpu")), ieee(torch.device("cpu")):
            assert {name: switch.fp32_precision for name, switch in there.items()} == dict.fromkeys(there, "ieee")
        assert readings() == before
    finally:
        if changed:
            there[changed].fp32_precision = "none"
