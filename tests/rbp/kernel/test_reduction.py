"""The compiled pass over a tile: what is wrong with it is found, said, and does not reach a rank."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from ranking_cases import gaussian, has_compiler
from torch._dynamo.utils import counters

from rbp import kernel
from rbp.kernel import blocked, linear_rank
from rbp.kernel import reduction as reduction_module
from rbp.kernel.reduction import PACK, Reduce, Reduced, _compiled, agrees, plainly, reduction

CPU = torch.device("cpu")
SHAPES = [(blocked.ROWS, blocked.TILE)]
compiles = pytest.mark.skipif(not has_compiler(), reason="no C++ compiler: counted plainly")

POISON = """
import sys
from pathlib import Path
import torch
from rbp.kernel import linear_rank, reduction
from rbp.kernel.problem import Tally
generator = torch.Generator().manual_seed(0)
hidden, weight = (torch.randint(-8, 9, (n, 16), generator=generator).float() for n in (300, 4000))
target = torch.randint(0, 4000, (300,), generator=generator)
judge = linear_rank(hidden, weight, target, backend="reference")
def wrong():
    got = linear_rank(hidden, weight, target, backend="blocked")
    return int(((got.greater != judge.greater) | (got.equal != judge.equal)).sum())
reduction._folder = lambda: Path(sys.argv[1])  # one for all processors, as torch's own cache is
checks = reduction.agrees, Tally.impossible
reduction.agrees, Tally.impossible = lambda *_: True, lambda tally, _: torch.zeros_like(tally.total, dtype=torch.bool)
unchecked = wrong()
reduction.agrees, Tally.impossible = checks
reduction._known.clear()
print(unchecked, wrong())
"""


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)


@compiles
@pytest.mark.slow
@pytest.mark.skipif(
    not torch.cpu.get_capabilities().get("avx512_f"), reason="two widths of vector need a processor with AVX-512"
)
def test_code_of_another_processor_in_the_cache_is_found_out_and_compiled_again(tmp_path: Path) -> None:
    for capability, foreign in (("avx2", False), ("avx512", True), ("avx2", True)):
        done = run(POISON, str(tmp_path / "cache"), ATEN_CPU_CAPABILITY=capability, TORCHINDUCTOR_VEC_ISA_OK="1")
        unchecked, checked = map(int, done.stdout.split())
        assert (unchecked > 0) == foreign
        assert checked == 0
        assert done.stderr.count("is discarded and compiled again") == foreign, done.stderr


@compiles
def test_compiled_code_lies_in_the_users_cache_by_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(reduction_module, "_known", {})
    own = reduction_module._folder()
    assert reduction(torch.float32, CPU, SHAPES) is not plainly
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert all(path.is_relative_to(own) for path in files)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    assert reduction_module._folder().parent == own.parent
    assert reduction_module._folder() != own


def broken(change: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Reduced]) -> Reduce:
    def reduce(logits: torch.Tensor, *others: torch.Tensor) -> Reduced:
        return change(logits, *plainly(logits.clone(), *others))

    return reduce


WRONG = {
    "the last column again": broken(lambda z, n, t: (n + PACK * (z[:, -1] > 0), t)),
    "one row": broken(lambda z, n, t: (n + (torch.arange(len(n)) == len(n) - 1), t)),
    "totals": broken(lambda z, n, t: (n, t * (1 + 1e-4))),
    "nan": broken(lambda z, n, t: (n, t.nan_to_num(1.0, float("inf")))),
    "names": lambda z, truth, base, name, own: plainly(z.clone(), truth, base, name, torch.full_like(own, -1)),
}


@compiles
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_check_tells_right_from_wrong(wrong: Reduce, dtype: torch.dtype) -> None:
    shape = (37, 1101)
    assert agrees(broken(lambda _, n, t: (n, t)), shape, dtype, CPU)
    assert agrees(reduction(dtype, CPU, SHAPES), shape, dtype, CPU)
    assert not agrees(wrong, shape, dtype, CPU)


@compiles
def test_it_is_compiled_once_for_all_that_follows() -> None:
    reduce = reduction(torch.float32, CPU, SHAPES)
    before = counters["stats"]["unique_graphs"]
    for shape in ((1, 1), (16, 4032), (1152, 1152)):
        logits = torch.randn(shape)
        given = torch.zeros(shape[0]), torch.zeros(shape[0]), torch.arange(shape[1]).int(), torch.zeros(shape[0]).int()
        with torch.autocast("cpu", torch.bfloat16):
            found = reduce(logits, *given)
        assert torch.equal(found[0].long(), plainly(logits, *given)[0])
    assert counters["stats"]["unique_graphs"] == before


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
    judge = linear_rank(case.hidden, case.weight, case.target, backend="reference")
    monkeypatch.setattr(blocked, "reduction", lambda *_: broken(lambda z, n, t: (n + PACK * len(z[0]), t)))
    kernel._say_once.cache_clear()
    for _ in range(2):
        got = linear_rank(case.hidden, case.weight, case.target, backend="blocked")
        assert torch.equal(got.greater, judge.greater)
        assert torch.equal(got.equal, judge.equal)
    assert caplog.text.count("ranked again by plain tiles") == 1


def test_plain_tiles_count_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    case = gaussian(300, 3000, 32, 8)
    given = case.hidden, case.weight, case.target
    judge = linear_rank(*given, backend="reference")
    monkeypatch.setattr(blocked, "reduction", lambda *_: pytest.fail("it was compiled"))
    got = linear_rank(*given, backend="blocked", compiled=False)
    assert torch.equal(got.greater, judge.greater)
    assert torch.equal(got.equal, judge.equal)
    torch.testing.assert_close(got.nll, judge.nll, rtol=1e-6, atol=1e-6)
