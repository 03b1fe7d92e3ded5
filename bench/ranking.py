"""`python -m bench.ranking`: what exact ranks cost beside the matrix product that nobody can avoid.

Each way runs once a round, in turn, and is given as a ratio against the bare product of the same round; peak
extra memory is taken in a process of its own. Shapes: T positions, d wide, V tokens; the widest needs a GPU.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cross_entropy

from bench.common import circumstances, in_turn, spread, title, write
from rbp.ranks.kernel import blocked, linear_rank

Way = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]


class Shape(NamedTuple):
    """Positions, width of the hidden states, tokens."""

    rows: int
    d: int
    vocabulary: int


SHAPES = {
    "cpu": [Shape(2048, 128, 50304), Shape(2048, 768, 50304)],
    "cuda": [Shape(16384, 768, 50304), Shape(16384, 4096, 128256)],
}


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


def plain(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """All logits in float32, their softmax, the 10 000 likeliest tokens, the truth's probability, a count."""
    p = (hidden @ weight.T).float().softmax(1)
    p.topk(10_000, dim=1)
    return (p > p.gather(1, target[:, None])).sum(1)


def loss(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of a model's own loss: all logits, in float32."""
    return cross_entropy((hidden @ weight.T).float(), target)


def ours(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> object:
    """Exact ranks and cross-entropies."""
    return linear_rank(hidden, weight, target)


WAYS: dict[str, dict[str, Way]] = {
    "cpu": {
        "bare product, in our tiles": tiles,
        "bare product, 256 rows at a time": chunks(256),
        "plain route: logits, softmax, top 10 000, count": plain,
        "cross-entropy of the model's own loss": loss,
        "ours: linear_rank": ours,
    },
    "cuda": {
        "bare product, 2048 rows at a time": chunks(2048),
        "plain route: logits, softmax, top 10 000, count": plain,
        "cross-entropy of the model's own loss": loss,
        "ours: linear_rank": ours,
    },
}


def tensors(shape: Shape, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states and an output embedding whose logits have a standard deviation of 3; float32, bfloat16 on a GPU."""
    generator = torch.Generator().manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    hidden = 3 * torch.randn(shape.rows, shape.d, generator=generator)
    weight = torch.randn(shape.vocabulary, shape.d, generator=generator) / shape.d**0.5
    target = torch.randint(0, shape.vocabulary, (shape.rows,), generator=generator)
    return hidden.to(device, dtype), weight.to(device, dtype), target.to(device)


def timed(shape: Shape, device: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of every way in each round."""
    given = tensors(shape, device)
    return in_turn({name: partial(way, *given) for name, way in WAYS[device].items()}, rounds, device)


def extra_memory(way: str, shape: Shape, device: str) -> float:
    """Peak memory, in MB, beyond the inputs, while `way` runs; taken in this process, which should be a fresh one."""
    given = tensors(shape, device)
    with torch.no_grad():
        WAYS[device][way](given[0][:64], given[1], given[2][:64])  # what is compiled or loaded once does not count
        if device == "cuda":
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            WAYS[device][way](*given)
            torch.cuda.synchronize()
            return (torch.cuda.max_memory_allocated() - before) / 1e6
        Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again
        resident = _kilobytes("VmRSS")
        WAYS[device][way](*given)
        return (_kilobytes("VmHWM") - resident) / 1e3


def _kilobytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def in_a_process(way: str, shape: Shape, device: str) -> float:
    """`extra_memory`, in a fresh process."""
    task = json.dumps([way, shape, device])
    command = [sys.executable, "-m", "bench.ranking", "--memory", task]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def measured(device: str, rounds: int) -> dict[str, Any]:
    """Every way at every shape of `device`: what is printed, and written as JSON."""
    rows = []
    for shape in SHAPES[device]:
        seconds = timed(shape, device, rounds)
        bare = next(iter(seconds.values()))
        for name, own in seconds.items():
            memory = in_a_process(name, shape, device)
            rows.append(shape._asdict() | {"way": name} | spread(own, bare) | {"extra_memory_mb": memory})
    return circumstances(device) | {"rounds": rounds, "rows": rows}


def main() -> None:
    """Measure and print the table; with --json, write it too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=sorted(SHAPES), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results there, such as bench/results/ranking-cpu.json")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        way, shape, device = json.loads(options.memory)
        print(extra_memory(way, Shape(*shape), device))
        return
    results = measured(options.device, options.rounds)
    table = Table("T × d × V", "way", "seconds", "ratio (median)", "smallest to largest", "extra MB")
    table.title = title(results)
    for row in results["rows"]:
        span = f"{row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        size = f"{row['rows']} × {row['d']} × {row['vocabulary']}"
        table.add_row(
            size, row["way"], f"{row['seconds']:.3f}", f"{row['ratio']:.2f}", span, f"{row['extra_memory_mb']:.0f}"
        )
    Console(width=130).print(table)
    if options.json:
        write(results, options.json)


if __name__ == "__main__":
    main()
