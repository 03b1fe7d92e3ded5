"""Which rows of weight are equal: found once, and anew whenever weight or bias is no longer what it was."""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from looks import looks
from ranking_cases import Case, gaussian, uneven

from rbp import kernel
from rbp.errors import ParameterError
from rbp.kernel import linear_rank, names

BACKENDS = ["reference", "blocked"]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each time that names were looked for."""
    times: list[int] = []
    find = names.find_names

    def noted(*given: Any) -> names.Names:
        times.append(len(given[0]))
        return find(*given)

    monkeypatch.setattr(names, "find_names", noted)
    return times


def small() -> tuple[Case, torch.Tensor]:
    """Every fifth target is one of three equal rows, one of which has another bias."""
    case, bias = gaussian(60, 400, 16, 5), torch.zeros(400)
    bias[200] = 1.0
    return case, bias


def right(case: Case, bias: torch.Tensor | None, **options: Any) -> None:
    """Ranks are those of an output layer that nobody has seen before."""
    got = linear_rank(case.hidden, case.weight, case.target, bias=bias, **options)
    other = None if bias is None else bias.clone()
    judge = linear_rank(case.hidden, case.weight.clone(), case.target, bias=other, backend="reference")
    assert torch.equal(got.greater, judge.greater)
    assert torch.equal(got.equal, judge.equal)


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_are_found_once_for_one_output_layer(found: list[int], backend: str) -> None:
    case, bias = small()
    for _ in range(3):
        linear_rank(case.hidden, case.weight, case.target, bias=bias, backend=backend)
    with torch.inference_mode():
        linear_rank(case.hidden, case.weight, case.target, bias=bias, backend=backend)
    assert len(found) == 1


def _in_place(case: Case, bias: torch.Tensor) -> None:
    with torch.no_grad():
        case.weight[0] += 1


def _in_inference_mode(case: Case, bias: torch.Tensor) -> None:
    with torch.inference_mode():
        case.weight[399] = -case.weight[399]


def _other_values(case: Case, bias: torch.Tensor) -> None:
    case.weight.data = case.weight.flip(0).contiguous()


def _through_data(case: Case, bias: torch.Tensor) -> None:
    case.weight.data[399] += 1


def _through_numpy(case: Case, bias: torch.Tensor) -> None:
    case.weight.numpy()[0] = 0


def _bias(case: Case, bias: torch.Tensor) -> None:
    bias[200] = 0.0


def _bias_through_data(case: Case, bias: torch.Tensor) -> None:
    bias.data[0] = 2.0


CHANGES = [_in_place, _in_inference_mode, _other_values, _through_data, _through_numpy, _bias, _bias_through_data]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rounded_by_place", [False, True])
def test_a_change_of_weight_or_bias_is_noticed(
    change: Callable[[Case, torch.Tensor], None], backend: str, rounded_by_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rounded_by_place:  # so that only the names tell which logits tie
        monkeypatch.setattr(torch, "mm", uneven(torch.mm))
    case, bias = small()
    right(case, bias, backend=backend)
    change(case, bias)
    right(case, bias, backend=backend)
    right(case, bias, backend=backend)


def test_another_bias_or_vocabulary_is_another_output_layer(found: list[int]) -> None:
    case, bias = small()
    for other in (bias, None, torch.zeros(400), torch.zeros(400)):
        right(case, other)
    case.target %= 300
    before = len(found)
    got = linear_rank(case.hidden, case.weight, case.target, vocab=300)
    assert len(found) == before + 1
    assert (got.equal[::5] == 2).all()  # of the three equal rows one is left out


def test_weights_made_in_inference_mode_are_looked_at_each_time(found: list[int]) -> None:
    with torch.inference_mode():
        case = gaussian(60, 400, 16, 5)
        right(case, None)
        case.weight[0] += 1
        right(case, None)
    assert len(found) == 4  # two of them for the judge


def test_what_is_kept_goes_with_the_weight() -> None:
    case, _ = small()
    gc.collect()
    before = len(names._cache)
    linear_rank(case.hidden, case.weight, case.target)
    assert len(names._cache) == before + 1
    del case
    gc.collect()
    assert len(names._cache) == before


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [10, 5000])
def test_how_often_a_gpu_would_be_waited_for_does_not_depend_on_the_rows(backend: str, rows: int) -> None:
    case = gaussian(rows, 300, 16, 5)
    linear_rank(case.hidden, case.weight, case.target, backend=backend)
    with looks() as (seen, _):
        got = linear_rank(case.hidden, case.weight, case.target, backend=backend, compiled=False)
        _ = got.nll
    assert 1 <= seen.total() <= 3, seen


def test_looks_are_counted() -> None:
    some = torch.arange(6.0)
    with looks() as (seen, _):
        _ = bool((some > 2).any()), float(some[0]), some.tolist(), some.nonzero(), some[some > 2], some.unique()
        some[some > 3] = 0.0
        _ = torch.equal(some, some)
    assert seen.total() == 8


def test_without_triton_its_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case, _ = small()
    monkeypatch.delattr(kernel, "triton_kernel", raising=False)
    monkeypatch.setitem(sys.modules, "rbp.kernel.triton_kernel", None)
    with pytest.raises(ParameterError, match="triton is not installed"):
        linear_rank(case.hidden, case.weight, case.target, backend="triton")


@pytest.mark.parametrize(("capability", "backend"), [((7, 5), "blocked"), ((8, 0), "triton"), ((9, 0), "triton")])
def test_the_kernel_is_for_gpus_that_multiply_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], backend: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(kernel, "find_spec", lambda _: True)
    assert kernel.backend_for(torch.device("cuda"), torch.float32) == backend
    assert kernel.backend_for(torch.device("cuda"), torch.float64) == "blocked"
