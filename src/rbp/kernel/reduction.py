"""One pass over a tile of logits, for counts and sums of exponentials: compiled, and checked before it is trusted.

torch keeps compiled code on disk under a key that does not know the processor. Code for AVX2 gave wrong counts without
a word in a process that uses AVX-512, and a processor that lacks an instruction ends the process. So ours lies apart,
by processor and version, in a folder of its own within torch's cache, and every process compares it with plain
operations before the first rank. It is compiled once for all shapes, without the guards by which torch would compile
it again later, unchecked.
"""

import logging
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import torch

from rbp.kernel.problem import finite

PACK = 4096  # a tile's two counts travel as greater × PACK + equal, exact in float32 for tiles below PACK
ODD = (37, 1101)  # a tile that ends amid a vector, for the check

# Logits from which on compiling pays: finding the code in a warm cache takes 3.3 s of CPU time (14 s, once, where it is
# not there yet), a logit 0.9 ns instead of 3 (one core of a Xeon with AVX-512).
PAYS = 3 * 2**29

Shape: TypeAlias = tuple[int, int]
Reduced: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Reduce: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], Reduced]

CACHE = "TORCHINDUCTOR_CACHE_DIR"

log = logging.getLogger("rbp.kernel")
_lock, _known = Lock(), dict[Any, Reduce]()


def reduction(dtype: torch.dtype, device: torch.device, shapes: Sequence[Shape]) -> Reduce:
    """Return the pass over logits [R, C] in `dtype`; shapes: of the tiles that it will get, the commonest first.

    It takes logits, truth [R], base [R], name [C] and truth_name [R], and gives [R] counts, greater × PACK + equal, [R]
    totals, Σ exp(logits − base), and [R] peaks, the highest logits. Counts are against truth; a column named as the
    row's truth counts as equal, whatever its logit. Compiled, or `reduce_eagerly` where compiling fails or gives wrong
    results. Threads may share it.
    """
    key = dtype, device, torch.get_num_threads()  # what the code is compiled for
    with _lock:
        if key not in _known:
            _known[key] = _checked(dtype, device, shapes) or reduce_eagerly
        return _known[key]


def reduce_eagerly(
    logits: torch.Tensor, truth: torch.Tensor, base: torch.Tensor, name: torch.Tensor, truth_name: torch.Tensor
) -> Reduced:
    """Run the pass without a compiler."""
    mine = name == truth_name[:, None]
    marks = torch.empty_like(logits)  # sums of floats take a seventh of the time of sums of bools
    above = torch.gt(logits, truth[:, None], out=marks).masked_fill_(mine, 0).sum(1)
    same = torch.eq(logits, truth[:, None], out=marks).masked_fill_(mine, 1).sum(1)
    total = torch.sub(logits, base[:, None], out=marks).exp_().sum(1)
    return above.long() * PACK + same.long(), total, logits.amax(1)


def _pass(  # what is compiled
    logits: torch.Tensor,
    truth: torch.Tensor,
    base: torch.Tensor,
    name: torch.Tensor,
    truth_name: torch.Tensor,
    total: torch.dtype,
) -> Reduced:
    # Counts are summed in the dtype of the logits, so that one width of vector serves the whole pass, and packed, as a
    # third sum would not find room in the registers.
    count = torch.where(logits > truth[:, None], float(PACK), torch.where(logits == truth[:, None], 1.0, 0.0))
    count = torch.where(name == truth_name[:, None], 1.0, count).to(logits.dtype)
    return count.sum(1), (logits - base[:, None]).exp().sum(1, dtype=total), logits.amax(1)


def _checked(dtype: torch.dtype, device: torch.device, shapes: Sequence[Shape]) -> Reduce | None:
    """Compile the pass and check it; None if that fails. Wrong or damaged code in torch's cache is redone, once."""
    from torch._dynamo.exc import BackendCompilerFailed  # late: slow to import

    folder = _folder()
    for last in (False, True):
        try:
            with _cache_in(folder):
                compiled = _compiled(dtype, device, shapes[0])
                if all(agrees(compiled, shape, dtype, device) for shape in (*shapes, ODD)):
                    return compiled
            reason, damaged = "compiled code gives wrong results", True
        except (
            RuntimeError,
            OSError,
            ImportError,
            TypeError,
        ) as error:  # TypeError: a torch without isolate_recompiles
            inner = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
            reason = f"{type(inner).__name__}: {inner}".splitlines()[0]
            damaged = isinstance(inner, OSError | ImportError)
        if last or not damaged:
            break
        log.warning("%s: what %s holds is discarded and compiled again", reason, folder)
        shutil.rmtree(folder, ignore_errors=True)
    _say_once(reason)
    return None


def _compiled(dtype: torch.dtype, device: torch.device, shape: Shape) -> Reduce:
    """Compile `_pass` for all shapes from one: threads share work by the shape that is seen first."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa  # late: slow to import

    # a sum of a thousand terms needs several lanes, or double precision, to come out as near as torch's own sums
    wide = device.type == "cpu" and pick_vec_isa().bit_width() < 256
    options: Any = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    compiler: Any = torch.compile(dynamic=True, fullgraph=True, isolate_recompiles=True, options=options)  # type: ignore[call-overload]
    reduce = partial(compiler(_pass), total=torch.float64 if wide else dtype)
    reduce(*_example(shape, dtype, device))
    return reduce


def agrees(reduce: Reduce, shape: Shape, dtype: torch.dtype, device: torch.device) -> bool:
    """Return whether `reduce` counts as `reduce_eagerly` does on a random tile with ties, infinities and NaN."""
    example = _example(shape, dtype, device)
    packed, total, peak = reduce(*example)
    counts, expected, highest = reduce_eagerly(*example)
    near = 64 * torch.finfo(dtype).eps
    same = torch.allclose(total.double(), expected.double(), rtol=near, atol=0.0, equal_nan=True)
    same = same and bool(((peak == highest) | highest.isnan()).all())
    return same and torch.equal(packed.long(), counts)


def _example(shape: Shape, dtype: torch.dtype, device: torch.device) -> list[torch.Tensor]:
    """Make an input of the pass, of R rows and C columns."""
    (rows, columns), generator = shape, torch.Generator().manual_seed(0)
    logits = torch.randint(-40, 40, shape, generator=generator).to(dtype) / 8
    logits[torch.rand(shape, generator=generator) < 0.1] = -torch.inf
    logits[0, 1], logits[1, -1] = torch.inf, torch.nan
    name = torch.randint(0, columns, (columns,), generator=generator, dtype=torch.int32)
    target = torch.randint(0, columns, (rows,), generator=generator)
    truth = logits.gather(1, target[:, None])[:, 0]
    return [tensor.to(device) for tensor in (logits, truth, finite(truth), name, name[target])]


def _folder() -> Path:
    """Return where torch is to keep our code: by the processor's instructions, torch's use of them, and the version."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    has = sorted(name for name, value in torch.cpu.get_capabilities().items() if value is True)
    uses = torch.__version__, torch.backends.cpu.get_cpu_capability(), platform.machine(), has
    cache = os.environ.get(CACHE) or default_cache_dir()
    return Path(cache).absolute() / "rbp" / sha256(repr(uses).encode()).hexdigest()[:16]


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Compile with torch's cache in `folder`; other code that is compiled meanwhile lands there too, to no harm."""
    before = os.environ.get(CACHE)
    os.environ[CACHE] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(CACHE) if before is None else os.environ.update({CACHE: before})


@cache
def _say_once(reason: str) -> None:
    fault = "no compiled reduction, so ranking runs on plain tiles: the same counts, slower"
    log.warning("%s (%s). It takes a C++ compiler such as g++, and a cache that can be written.", fault, reason)
