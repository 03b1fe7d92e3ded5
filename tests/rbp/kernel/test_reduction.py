"""The compiled pass over a tile: what is wrong with it is found, said, and does not reach a rank."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ranking_cases import has_compiler

from rbp.kernel import blocked
from rbp.kernel import reduction as reduction_module
from rbp.kernel.reduction import PACK, Reduce, Reduced, agrees, plainly, reduction

CPU = torch.device("cpu")
SHAPES = [(blocked.ROWS, blocked.TILE)]
compiles = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler: counted plainly")


def changed(change: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Reduced]) -> Reduce:
    """The pass with its counts and totals changed."""

    def reduce(logits: torch.Tensor, *others: torch.Tensor) -> Reduced:
        return change(logits, *plainly(logits.clone(), *others))

    return reduce


RIGHT = changed(lambda _, n, t: (n, t))
WRONG = {
    "the last column again": changed(lambda z, n, t: (n + PACK * (z[:, -1] > 0), t)),
    "one row": changed(lambda z, n, t: (n + (torch.arange(len(n)) == len(n) - 1), t)),
    "totals": changed(lambda z, n, t: (n, t * (1 + 1e-4))),
    "nan": changed(lambda z, n, t: (n, t.nan_to_num(1.0, float("inf")))),
    "names": lambda z, truth, base, name, own: plainly(z.clone(), truth, base, name, torch.full_like(own, -1)),
}


@compiles
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_check_tells_right_from_wrong(wrong: Reduce, dtype: torch.dtype) -> None:
    shape = (37, 1101)
    assert agrees(RIGHT, shape, dtype, CPU)
    assert agrees(reduction(dtype, CPU, SHAPES), shape, dtype, CPU)
    assert not agrees(wrong, shape, dtype, CPU)


@pytest.mark.parametrize(
    ("outcomes", "discarded", "compiled"),
    [
        ([WRONG["one row"], RIGHT], 1, True),  # as code of another processor in the cache
        ([OSError("no such file"), RIGHT], 1, True),
        ([WRONG["one row"], WRONG["one row"]], 1, False),
        ([RuntimeError("no compiler")], 0, False),
    ],
    ids=["wrong once", "damaged once", "wrong", "no compiler"],
)
def test_wrong_code_is_compiled_again_once_and_then_not_used(
    outcomes: list[Reduce | Exception],
    discarded: int,
    compiled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = list(outcomes)

    def compile_(*_: object) -> Reduce:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reduction_module, "_known", {})
    monkeypatch.setattr(reduction_module, "_compiled", compile_)
    reduction_module._say_once.cache_clear()
    kept = reduction_module._folder() / "kept"
    kept.mkdir(parents=True)
    for _ in range(2):
        assert (reduction(torch.float32, CPU, SHAPES) is RIGHT) is compiled
    assert not left
    assert caplog.text.count("is discarded and compiled again") == discarded
    assert caplog.text.count("ranking runs on plain tiles") == (not compiled)
    assert kept.exists() is not bool(discarded)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path)
