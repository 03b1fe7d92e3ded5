"""`python -m bench.ranking`: what exact ranks cost beside the matrix product that nobody can avoid.

Each way runs once a round, in turn, and is given as a ratio against the bare product of the same round, in the
fastest way that was found. Peak extra memory on a CPU is taken in a process of its own. Shapes: T positions, d wide,
V tokens; on a GPU, in float32, bfloat16 and float16. A way that is not installed, or that memory does not allow, is
left out and named.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.functional import cross_entropy

from bench.common import Question, circumstances, in_turn, peak_of, spread, title, write
from bench.kernels import Variant
from rbp.paper.appendix.gpu import AIMS
from rbp.ranks.kernel import blocked, linear_rank

if TYPE_CHECKING:
    from rich.table import Table

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
DTYPES = {"cpu": ["float32"], "cuda": ["float32", "bfloat16", "float16"]}


def tiles(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    """The bare product in tiles of our size: on a CPU the fastest way that was found."""
    buffer = torch.empty(blocked.ROWS * blocked.TILE, dtype=hidden.dtype)
    for rows in hidden.split(blocked.ROWS):
        for columns in weight.split(blocked.TILE):
            out = buffer[: len(rows) * len(columns)].view(len(rows), len(columns))
            torch.mm(rows, columns.T, out=out)


def chunks(rows: int) -> Way:
    """The bare product, some rows at a time by the whole vocabulary, into one buffer."""

    def run(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
        buffer = torch.empty(rows, len(weight), dtype=hidden.dtype, device=hidden.device)
        for part in hidden.split(rows):
            torch.mm(part, weight.T, out=buffer[: len(part)])

    return run


def at_once(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    """The bare product, all rows at once."""
    torch.mm(hidden, weight.T)


def plain(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """All logits in float32, their softmax, the 10 000 likeliest tokens, the truth's probability, a count."""
    p = (hidden @ weight.T).float().softmax(1)
    p.topk(min(10_000, len(weight)), dim=1)
    return (p > p.gather(1, target[:, None])).sum(1)


def loss(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of a model's own loss: all logits, in float32."""
    return cross_entropy((hidden @ weight.T).float(), target)


def liger(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """Liger's cross-entropy from hidden states, some rows' logits at a time."""
    from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

    return LigerFusedLinearCrossEntropyFunction.apply(hidden, weight, target)


def cut(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """Cut-cross-entropy's, without logits."""
    from cut_cross_entropy import linear_cross_entropy

    return linear_cross_entropy(hidden, weight, target)


def ours(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """Exact ranks and cross-entropies."""
    return linear_rank(hidden, weight, target)


def ours_by_triton(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """The same by the GPU's kernel, which its interpreter also runs on a CPU."""
    return linear_rank(hidden, weight, target, backend="triton")


BARE, OURS = "bare product", "ours"  # how names begin
NEEDS: dict[Way, str] = {liger: "liger_kernel", cut: "cut_cross_entropy"}  # and is no dependency of ours
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
        "cross-entropy without logits: Liger": liger,
        "cross-entropy without logits: cut-cross-entropy": cut,
        "ours: linear_rank": ours_by_triton,
    },
}


def tensors(shape: Shape, device: str, dtype: str = "float32") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states and an output embedding, drawn on the device, whose logits have a standard deviation of 3."""
    own: dict[str, Any] = {"generator": torch.Generator(device).manual_seed(0), "device": device}
    hidden = 3 * torch.randn(shape.rows, shape.d, **own)
    weight = torch.randn(shape.vocabulary, shape.d, **own) / shape.d**0.5
    target = torch.randint(0, shape.vocabulary, (shape.rows,), **own)
    return hidden.to(getattr(torch, dtype)), weight.to(getattr(torch, dtype)), target


def extra_memory(way: Way, given: Sequence[torch.Tensor]) -> float:
    """Peak memory, in MB, beyond the inputs, while `way` runs; on a CPU this should be a fresh process."""
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
    """`extra_memory` on a CPU, in a fresh process."""
    command = [sys.executable, "-m", "bench.ranking", "--memory", json.dumps([name, shape])]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def why_not(way: Way, given: Sequence[torch.Tensor]) -> str | None:
    """Why a way that is not ours cannot run here; None if it can."""
    if way in NEEDS and not find_spec(NEEDS[way]):
        return "not installed"
    try:
        with torch.no_grad():
            way(*given)
    except Exception as error:  # of another's program: of any kind
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


LEAST, MOST = 0.02, 2.0  # seconds of a way in a round on a GPU, and for which rounds go on


def measured(device: str, shape: Shape, dtype: str, ways: Mapping[str, Way], rounds: int) -> dict[str, Any]:
    """Every way at one shape, in one dtype. left_out: the ways that could not run.

    extra_memory_mb: beyond the inputs; share_of_peak: of what a GPU's data sheet promises in the dtype, or None.
    """
    given, gpu, about = tensors(shape, device, dtype), device == "cuda", shape._asdict() | {"dtype": dtype}
    missing = {name: why_not(way, given) for name, way in ways.items() if not name.startswith((BARE, OURS))}
    left_out = [about | {"way": name, "why": why} for name, why in missing.items() if why]
    able = {name: partial(way, *given) for name, way in ways.items() if not missing.get(name)}
    seconds = in_turn(able, rounds, device, LEAST if gpu else 0.0, MOST if gpu else inf)
    bare = min((own for name, own in seconds.items() if name.startswith(BARE)), key=median)
    peak, rows = peak_of(torch.cuda.get_device_name(), dtype) if gpu else None, []
    for name, own in seconds.items():
        alone = device == "cpu" and ways is WAYS[device]
        memory = in_a_process(name, shape) if alone else extra_memory(ways[name], given)
        rate = 2 * shape.rows * shape.d * shape.vocabulary / median(own)
        share = {"operations_per_second": rate, "share_of_peak": rate / peak if peak else None}
        rows.append(about | {"way": name} | spread(own, bare) | share | {"extra_memory_mb": memory})
    if gpu:
        torch.cuda.empty_cache()
    return {"rows": rows, "left_out": left_out}


def results_on(device: str, rounds: int) -> dict[str, Any]:
    """Every way at every shape: what is printed, and written as JSON."""
    asked = [(shape, dtype) for shape in SHAPES[device] for dtype in DTYPES[device]]
    found = [measured(device, shape, dtype, WAYS[device], rounds) for shape, dtype in asked]
    lists = {name: [row for each in found for row in each[name]] for name in ("rows", "left_out")}
    return circumstances(device) | {"rounds": rounds} | lists


def part(tiny: bool) -> list[Question]:
    """The ways of a GPU, as a part of `bench.gpu`; tiny: on the CPU."""
    device, shapes, rounds = ("cpu", [Shape(64, 16, 300)], 1) if tiny else ("cuda", SHAPES["cuda"], 5)
    return [
        Question(f"{_size(shape._asdict())} in {dtype}", partial(measured, device, shape, dtype, WAYS["cuda"], rounds))
        for shape in shapes
        for dtype in DTYPES["cuda"]
    ]


def variants() -> list[Variant]:
    """What the kernel must be compiled for to take part."""
    return [Variant(dtype, d) for dtype in DTYPES["cuda"] for d in sorted({shape.d for shape in SHAPES["cuda"]})]


def table_of(results: dict[str, Any]) -> "Table":
    """The results as they are printed."""
    from rich.table import Table  # late: `bench.gpu` does without

    table = Table("T × d × V", "way", "seconds", "ratio (median)", "smallest to largest", "extra MB")
    for row in results["rows"]:
        span = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        figures = f"{row['seconds']:.4f}", f"{row['ratio']:.2f}", span, f"{row['extra_memory_mb']:.0f}"
        table.add_row(f"{_size(row)}, {row['dtype']}", row["way"], *figures)
    for row in results["left_out"]:
        table.add_row(_size(row), row["way"], row["why"])
    return table


def _size(row: dict[str, Any]) -> str:
    return f"{row['rows']} × {row['d']} × {row['vocabulary']}"


def main() -> None:
    """Measure and print the table; with --json, write it too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=sorted(SHAPES), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results there, such as bench/results/ranking-cpu.json")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        name, shape = json.loads(options.memory)
        print(extra_memory(WAYS["cpu"][name], tensors(Shape(*shape), "cpu")))
        return
    from rich.console import Console

    results = results_on(options.device, options.rounds)
    table = table_of(results)
    table.title = title(results)
    Console(width=130).print(table)
    if options.json:
        write(results, options.json)


if __name__ == "__main__":
    main()
