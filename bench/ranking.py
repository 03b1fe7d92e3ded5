"""`python -m bench.ranking`: what exact ranks cost on this CPU beside the matrix product that nobody can avoid.

Each way runs once a round, in turn, and is given as a ratio against the bare product of the same round, in the
fastest way of those tried. Peak extra memory on a CPU is taken in a process of its own. Shapes: T positions, d wide,
V tokens. `make gpu` measures the ways of a GPU, in float32, bfloat16 and float16.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy

from bench.common import PRODUCTS, Question, Results, circumstances, in_turn, peak_on_gpu, report, spread
from rbp.choices import Backend
from rbp.kernel import blocked, equal_rows, linear_rank

Way = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]
LEAST = 0.02  # seconds of a way in a round on a GPU


class Shape(NamedTuple):
    """Positions, width of the hidden states, tokens."""

    rows: int
    d: int
    vocabulary: int


CPU_SHAPES = [Shape(2048, 128, 50304), Shape(2048, 768, 50304)]
WIDTHS = [(d, vocabulary) for vocabulary in (50304, 128256, 262144) for d in (768, 2048, 4096)]
GPU_SHAPES = [Shape(4096, *width) for width in dict.fromkeys([*PRODUCTS, *WIDTHS])]
DTYPES = "float32", "bfloat16", "float16"


def product(rows: int, columns: int) -> Way:
    """Make the way that multiplies so many rows by so many columns at a time, into one buffer."""

    def run(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
        buffer = torch.empty(rows * min(columns, len(weight)), dtype=hidden.dtype)
        for states in hidden.split(rows):
            for tokens in weight.split(columns):
                out = buffer[: len(states) * len(tokens)].view(len(states), len(tokens))
                torch.mm(states, tokens.T, out=out)

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


BARE = "bare product"  # how names begin
CPU_WAYS: dict[str, Way] = {
    "bare product, in our tiles": product(blocked.ROWS, blocked.TILE),  # the fastest way that was found
    "bare product, 256 rows at a time": product(256, 2**20),
    "plain route: logits, softmax, top 10 000, count": plain,
    "cross-entropy of the model's own loss": loss,
    "ours: linear_rank": linear_rank,
}


def gpu_ways(weight: torch.Tensor) -> dict[str, Way]:
    """List the ways of a GPU, with what is known of the weight; on a CPU triton's interpreter runs ours."""
    equal = equal_rows(weight)

    def ours(backend: Backend) -> Way:
        return partial(linear_rank, backend=backend, equal=equal)

    ways = {"bare product: torch.mm": at_once, "plain route: logits, softmax, top 10 000, count": plain}
    if weight.dtype == torch.float32:
        return ways | {"ours: linear_rank": ours("tiles")}
    return ways | {"ours: linear_rank": ours("triton"), "tiles in float32: linear_rank": ours("tiles")}


def tensors(shape: Shape, device: str, dtype: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw hidden states and an output embedding on the device, whose logits have a standard deviation of 3."""
    on_device: dict[str, Any] = {"generator": torch.Generator(device).manual_seed(0), "device": device}
    hidden = 3 * torch.randn(shape.rows, shape.d, **on_device)
    weight = torch.randn(shape.vocabulary, shape.d, **on_device) / shape.d**0.5
    target = torch.randint(0, shape.vocabulary, (shape.rows,), **on_device)
    return hidden.to(getattr(torch, dtype)), weight.to(getattr(torch, dtype)), target


def measured(shape: Shape, device: str, dtype: str, rounds: int, ways: Mapping[str, Way] | None = None) -> Results:
    """Time every way at one shape, in one dtype (None: those of a GPU); extra_memory_mb: beyond the inputs."""
    given = tensors(shape, device, dtype)
    ways = ways or gpu_ways(given[1])
    able = {name: partial(way, *given) for name, way in ways.items()}
    seconds = in_turn(able, rounds, LEAST if device == "cuda" else 0.0)
    bare = min((times for name, times in seconds.items() if name.startswith(BARE)), key=median)
    rows = []
    for name, times in seconds.items():
        rate = 2 * shape.rows * shape.d * shape.vocabulary / median(times)
        rest = {"operations_per_second": rate, "extra_memory_mb": extra_memory(ways, name, shape, given)}
        rows.append(shape._asdict() | {"dtype": dtype, "way": name} | spread(times, bare) | rest)
    return {"rows": rows}


def extra_memory(ways: Mapping[str, Way], name: str, shape: Shape, given: Sequence[torch.Tensor]) -> float:
    """Measure peak memory, in MB, beyond the inputs, while a way runs; of a CPU's in a fresh process."""
    if given[0].is_cuda:
        before = torch.cuda.memory_allocated() / 1e6
        return peak_on_gpu(partial(ways[name], *given)) - before
    if ways is not CPU_WAYS:
        return 0.0
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(_extra_memory_here, name, shape).result()


def _extra_memory_here(name: str, shape: Shape) -> float:
    hidden, weight, target = tensors(shape, "cpu", "float32")
    with torch.no_grad():
        CPU_WAYS[name](hidden[:64], weight, target[:64])  # what is compiled or loaded once does not count
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again
        resident = _kilobytes("VmRSS")
        CPU_WAYS[name](hidden, weight, target)
    return (_kilobytes("VmHWM") - resident) / 1e3


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def on_this_cpu(rounds: int) -> Results:
    """Time every way at every shape; return what is printed, and written as JSON."""
    rows = [row for shape in CPU_SHAPES for row in measured(shape, "cpu", "float32", rounds, CPU_WAYS)["rows"]]
    return circumstances("cpu") | {"rounds": rounds, "rows": rows}


def part(tiny: bool) -> list[Question]:
    """List the ways of a GPU, as a part of `bench.gpu`; tiny: on the CPU."""
    device, shapes, rounds = ("cpu", [Shape(64, 16, 300)], 1) if tiny else ("cuda", GPU_SHAPES, 5)
    return [
        Question(f"{' × '.join(map(str, shape))} in {dtype}", partial(measured, shape, device, dtype, rounds))
        for shape in shapes
        for dtype in DTYPES
    ]


if __name__ == "__main__":
    report(on_this_cpu, __doc__ or "")
