"""Functions that the benchmarks share: ways timed in turn, ratios round by round, the circumstances."""

import argparse
import platform
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from rbp.io import write_json

GPU = Path(__file__).parent / "results" / "gpu.json"

# What ranks should take at most: times the bare product, by d and V in bfloat16, and at any in float32; by question,
# times the backbone alone or, of whole calls, times the plain way.
PRODUCTS, FLOAT32 = {(768, 50304): 1.6, (4096, 128256): 1.15}, 1.15
MODELS = {
    "Pythia-70M, the whole call, bfloat16, 32,704 tokens": 1.0,
    "Pythia-1.4B, the whole call, bfloat16, 32,704 tokens": 1.4,
    "Pythia-1.4B, the whole call, bfloat16, 327,040 tokens": 1.1,
    "Pythia-70M, rows from memory, bfloat16": 1.5,
    "Pythia-70M, rows from memory, float32": 2.05,
    "Pythia-1.4B, rows from memory, bfloat16": 1.07,
    "Pythia-1.4B, rows from memory, float32": 1.09,
}

Results = dict[str, Any]


class Question(NamedTuple):
    """A question of a part of `bench.gpu`: its name, and what gives the answer, as JSON has it.

    An answer's "failed" holds what must not be, in words. What is only slow fails nothing.
    """

    name: str
    ask: Callable[[], Results]


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int, least: float = 0.0) -> dict[str, list[float]]:
    """Time every way in each round, in seconds, after one untimed run each, which also compiles.

    least: seconds for which a way goes on in each round, if once takes less.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for way in ways.values():
            way()
        calls = {name: ceil(least / max(_timed(way, 1), 1e-6)) or 1 for name, way in ways.items() if least}
        for _ in range(rounds):
            for name, way in ways.items():
                seconds[name].append(_timed(way, calls.get(name, 1)))
    return seconds


def _timed(way: Callable[[], object], calls: int) -> float:
    """Return the seconds of one call, averaged over so many in a row."""
    _wait_for_gpu()
    start = time.perf_counter()
    for _ in range(calls):
        way()
    _wait_for_gpu()
    return (time.perf_counter() - start) / calls


def _wait_for_gpu() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_on_gpu(way: Callable[[], object]) -> float:
    """Return the peak memory, in MB, of tensors on the GPU while a way runs."""
    torch.cuda.reset_peak_memory_stats()
    way()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 1e6


def spread(seconds: list[float], reference: list[float]) -> dict[str, float]:
    """Return the median of seconds, and of seconds/reference round by round, with the smallest and the largest."""
    ratios = [one / other for one, other in zip(seconds, reference, strict=True)]
    return {
        "seconds": median(seconds),
        "ratio": median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
    }


def circumstances(device: str) -> Results:
    """Return when and on what the numbers were taken."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    if find_spec("triton"):
        import triton

        versions["triton"] = triton.__version__
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "threads": torch.get_num_threads(),
        "dtype": "bfloat16" if device == "cuda" else "float32",
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def report(measured: Callable[..., Results], about: str, *optional: str) -> None:
    """Measure in as many rounds as the command line says, and print the rows; with --json, write all of it too.

    optional: names of what else `measured` takes, before the rounds, where the command line gives all of it.
    """
    parser = argparse.ArgumentParser(description=about.split("\n\n")[0])
    for name in optional:
        parser.add_argument(name, nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results there, such as bench/results/start-cpu.json")
    given = parser.parse_args()
    results = measured(*(getattr(given, name) for name in optional), given.rounds)
    print(f"{results['device']}, {results['dtype']}, {results['threads']} threads, {results['date']}")
    print(f"{'way':56}{'seconds':>10}{'ratio':>8}  smallest to largest")
    for row in results["rows"]:
        size = f"{row['rows']} × {row['d']} × {row['vocabulary']}, " if "vocabulary" in row else ""
        figures = f"{row['seconds']:10.4f}{row['ratio']:8.2f}  {row['ratio_low']:.2f} to {row['ratio_high']:.2f}"
        more = [f"{name} {row[name]:.4g}" for name in ("ranking", "share", "rbp_1", "moved") if name in row]
        print("  ".join([f"{size + row['way']:56}{figures}", *more]))
    if given.json:
        write_json(given.json, results)


def worked(part: Results) -> bool:
    """Return whether a part of `bench.gpu` has all its answers, and no failure."""
    return not ("error" in part or part.get("left") or any(map(failure, part["answers"])))


def failure(answer: Results) -> str | None:
    """Say why a question has no answer, or which failure it reports; None if all is well."""
    return answer.get("error") or "; ".join(answer.get("failed") or []) or None


def wanted_ratio(question: str, row: Results) -> float | None:
    """Return the most that the ratio of a row of an answer should be; None where nothing is wanted of it."""
    if not row["way"].startswith("ours"):
        return None
    if row.get("dtype") == "float32":
        return FLOAT32
    return PRODUCTS.get((row["d"], row["vocabulary"])) if row.get("dtype") == "bfloat16" else MODELS.get(question)
