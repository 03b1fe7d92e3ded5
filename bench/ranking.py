"""`python -m bench.ranking`: what exact ranks cost on this CPU beside the matrix product that nobody can avoid.

Each way runs once a round, in turn, and is given as a ratio against the bare product of the same round, in the
fastest way of those tried. Peak extra memory on a CPU is taken in a process of its own. Shapes: T positions, d wide,
V tokens. `make gpu` measures the ways of a GPU, in float32, bfloat16 and float16.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy

from bench.common import AIMS, Question, Results, circumstances, in_turn, report, spread
from bench.kernels import Variant
from rbp.kernel import blocked, linear_rank

Way = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


class Shape(NamedTuple):
    """Positions, width of the hidden states, tokens."""

    rows: int
    d: int
    vocabulary: int


SHAPES = {
    "cpu": [Shape(2048, 128, 50304), Shape(2048, 768, 50304)],
    "cuda": [Shape(4096, d, v) for d, v in AIMS]
    + [Shape(4096, d, v) for v in (50304, 128256, 262144) for d in (768, 2048, 4096) if (d, v) not in AIMS],
}
DTYPES = "float32", "bfloat16", "float16"


def tiles(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    """Multiply in tiles of our size: on a CPU the fastest way that was found."""
    buffer = torch.empty(blocked.ROWS * blocked.TILE, dtype=hidden.dtype)
    for rows in hidden.split(blocked.ROWS):
        for columns in weight.split(blocked.TILE):
            out = buffer[: len(rows) * len(columns)].view(len(rows), len(columns))
            torch.mm(rows, columns.T, out=out)


def chunks(rows: int) -> Way:
    """Make the way that multiplies some rows at a time by the whole vocabulary, into one buffer."""

    def run(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
        buffer = torch.empty(rows, len(weight), dtype=hidden.dtype, device=hidden.device)
        for part in hidden.split(rows):
            torch.mm(part, weight.T, out=buffer[: len(part)])

    return run


def at_once(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    """Multiply all rows at once."""
    torch.mm(hidden, weight.T)


def plain(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Rank the plain way: logits in float32, softmax, the 10 000 likeliest tokens, the truth's probability, a count."""
    p = (hidden @ weight.T).float().softmax(1)
    p.topk(min(10_000, len(weight)), dim=1)
    return (p > p.gather(1, target[:, None])).sum(1)


def loss(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Compute the cross-entropy of a model's own loss: all logits, in float32."""
    return cross_entropy((hidden @ weight.T).float(), target)


def ours(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """Compute exact ranks and cross-entropies."""
    return linear_rank(hidden, weight, target)


def ours_by_triton(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """Compute the same by the GPU's kernel, which its interpreter also runs on a CPU."""
    return linear_rank(hidden, weight, target, backend="triton")


BARE = "bare product"  # how names begin
WAYS: dict[str, dict[str, Way]] = {
    "cpu": {
        "bare product, in our tiles": tiles,
        "bare product, 256 rows at a time": chunks(256),
        "plain route: logits, softmax, top 10 000, count": plain,
        "cross-entropy of the model's own loss": loss,
        "ours: linear_rank": ours,
    },
    "cuda": {
        "bare product: torch.mm": at_once,
        "plain route: logits, softmax, top 10 000, count": plain,
        "ours: linear_rank": ours_by_triton,
    },
}


def tensors(shape: Shape, device: str, dtype: str = "float32") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw hidden states and an output embedding on the device, whose logits have a standard deviation of 3."""
    on_device: dict[str, Any] = {"generator": torch.Generator(device).manual_seed(0), "device": device}
    hidden = 3 * torch.randn(shape.rows, shape.d, **on_device)
    weight = torch.randn(shape.vocabulary, shape.d, **on_device) / shape.d**0.5
    target = torch.randint(0, shape.vocabulary, (shape.rows,), **on_device)
    return hidden.to(getattr(torch, dtype)), weight.to(getattr(torch, dtype)), target


def extra_memory(way: Way, given: Sequence[torch.Tensor]) -> float:
    """Measure peak memory, in MB, beyond the inputs, while `way` runs; on a CPU this should be a fresh process."""
    hidden, weight, target = given
    with torch.no_grad():
        way(hidden[:64], weight, target[:64])  # what is compiled or loaded once does not count
        if hidden.is_cuda:
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            way(*given)
            torch.cuda.synchronize()
            return (torch.cuda.max_memory_allocated() - before) / 1e6
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again
        resident = _kilobytes("VmRSS")
        way(*given)
        return (_kilobytes("VmHWM") - resident) / 1e3


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def in_a_process(name: str, shape: Shape) -> float:
    """Measure `extra_memory` on a CPU, in a fresh process."""
    command = [sys.executable, "-m", "bench.ranking", "--memory", json.dumps([name, shape])]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


LEAST, MOST = 0.02, 2.0  # seconds of a way in a round on a GPU, and for which rounds go on


def measured(device: str, shape: Shape, dtype: str, ways: Mapping[str, Way], rounds: int) -> Results:
    """Time every way at one shape, in one dtype; extra_memory_mb: beyond the inputs."""
    given, gpu, about = tensors(shape, device, dtype), device == "cuda", shape._asdict() | {"dtype": dtype}
    able = {name: partial(way, *given) for name, way in ways.items()}
    seconds = in_turn(able, rounds, device, LEAST if gpu else 0.0, MOST if gpu else inf)
    bare = min((times for name, times in seconds.items() if name.startswith(BARE)), key=median)
    rows = []
    for name, times in seconds.items():
        alone = device == "cpu" and ways is WAYS[device]
        memory = in_a_process(name, shape) if alone else extra_memory(ways[name], given)
        rate = 2 * shape.rows * shape.d * shape.vocabulary / median(times)
        rest = {"operations_per_second": rate, "extra_memory_mb": memory}
        rows.append(about | {"way": name} | spread(times, bare) | rest)
    if gpu:
        torch.cuda.empty_cache()
    return {"rows": rows}


def on_this_cpu(rounds: int) -> Results:
    """Time every way at every shape; return what is printed, and written as JSON."""
    results = [measured("cpu", shape, "float32", WAYS["cpu"], rounds) for shape in SHAPES["cpu"]]
    return circumstances("cpu") | {"rounds": rounds, "rows": [row for each in results for row in each["rows"]]}


def part(tiny: bool) -> list[Question]:
    """List the ways of a GPU, as a part of `bench.gpu`; tiny: on the CPU."""
    device, shapes, rounds = ("cpu", [Shape(64, 16, 300)], 1) if tiny else ("cuda", SHAPES["cuda"], 5)
    return [
        Question(
            f"{' × '.join(map(str, shape))} in {dtype}", partial(measured, device, shape, dtype, WAYS["cuda"], rounds)
        )
        for shape in shapes
        for dtype in DTYPES
    ]


def variants() -> list[Variant]:
    """List what the kernel must be compiled for to take part."""
    return [Variant(dtype, d) for dtype in DTYPES for d in sorted({shape.d for shape in SHAPES["cuda"]})]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        name, shape = json.loads(sys.argv[2])
        print(extra_memory(WAYS["cpu"][name], tensors(Shape(*shape), "cpu")))
    else:
        report(on_this_cpu, __doc__ or "")
