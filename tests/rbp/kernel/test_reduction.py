"""The compiled pass over a tile: what is wrong with it is found, said, and does not reach a rank."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ranking_cases import gaussian, has_compiler, ranks

from rbp import kernel
from rbp.kernel import blocked, linear_rank
from rbp.kernel import reduction as reduction_module
from rbp.kernel.reduction import PACK, Reduce, Reduced, _compiled, agrees, plainly, reduction

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


@compiles
def test_compiled_code_lies_in_the_users_cache_by_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reduction_module, "_known", {})
    own = reduction_module._folder()
    assert reduction(torch.float32, CPU, SHAPES) is not plainly
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all(path.is_relative_to(own) for path in files)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    assert reduction_module._folder().parent == own.parent
    assert reduction_module._folder() != own


@compiles
def test_sums_are_as_near_on_a_processor_without_vectors() -> None:
    with torch._inductor.config.patch({"cpp.simdlen": 1}):
        reduce = _compiled(torch.float32, CPU, SHAPES[0])
    logits = torch.randn(128, 4032, generator=torch.Generator().manual_seed(0))
    zero = torch.zeros(128)
    total = reduce(logits, zero, zero, torch.zeros(4032).int(), zero.int())[1].double()
    exact = logits.double().exp().sum(1)
    assert ((total - exact).abs() <= 2 * 2.0**-24 * exact).all()


def test_counts_that_cannot_be_are_counted_again_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = gaussian(300, 3000, 32, 8)
    judge = ranks(case, "reference")
    monkeypatch.setattr(blocked, "reduction", lambda *_: changed(lambda z, n, t: (n + PACK * len(z[0]), t)))
    kernel._say_once.cache_clear()
    for _ in range(2):
        got = ranks(case)
        assert torch.equal(got.greater, judge.greater)
        assert torch.equal(got.equal, judge.equal)
    assert caplog.text.count("ranked again by plain tiles") == 1


def test_plain_tiles_count_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    case = gaussian(300, 3000, 32, 8)
    judge = ranks(case, "reference")
    monkeypatch.setattr(blocked, "reduction", lambda *_: pytest.fail("it was compiled"))
    got = linear_rank(case.hidden, case.weight, case.target, backend="blocked", compiled=False)
    assert torch.equal(got.greater, judge.greater)
    assert torch.equal(got.equal, judge.equal)
    torch.testing.assert_close(got.nll, judge.nll, rtol=1e-6, atol=1e-6)


NO_COMPILER = """
import torch
from rbp.kernel import linear_rank
ranks = linear_rank(torch.eye(3), torch.eye(3), torch.arange(3), backend="blocked")
print(ranks.greater.tolist(), ranks.equal.tolist())
"""


@pytest.mark.builds
def test_a_machine_without_a_compiler_ranks_with_one_message(tmp_path: Path) -> None:
    environment = os.environ | {"CXX": "/nonexistent/c++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", NO_COMPILER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[0, 0, 0] [1, 1, 1]\n"
    assert done.stderr.count("ranking runs on plain tiles: the same counts, slower") == 1
