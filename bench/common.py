"""What the benchmarks share: ways timed in turn, ratios round by round, and where it was measured."""

import json
import platform
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds of every way in each round; a first round, which also compiles, is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with torch.no_grad():
        for _ in range(rounds + 1):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                if device == "cuda":
                    torch.cuda.synchronize()
                seconds[name].append(time.perf_counter() - start)
    return {name: values[1:] for name, values in seconds.items()}


def spread(own: list[float], reference: list[float]) -> dict[str, float]:
    """The median of own, and of own/reference round by round, with the smallest and the largest."""
    ratios = [one / other for one, other in zip(own, reference, strict=True)]
    return {
        "seconds": median(own),
        "ratio": median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
    }


def circumstances(device: str) -> dict[str, Any]:
    """When and on what the numbers were taken."""
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


def machine(tiny: bool) -> dict[str, Any]:
    """`circumstances` of `bench.gpu`: the card, its memory (GB) and capability; tiny: what stands in for it."""
    found = circumstances("cpu" if tiny else "cuda")
    if tiny:
        return found | {"device": f"triton's interpreter on {found['device']}"}
    card = torch.cuda.get_device_properties(0)
    return found | {"memory_gb": round(card.total_memory / 1e9, 1), "capability": f"{card.major}.{card.minor}"}


def title(results: dict[str, Any]) -> str:
    """The circumstances in one line."""
    return f"{results['device']}, {results['dtype']}, {results['threads']} threads, {results['date']}"


def write(results: dict[str, Any], path: Path) -> None:
    """Write the results as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
