"""`python -m bench.start`: what a short run costs, as whole processes.

One page (512 tokens) is ranked by a model of Pythia-14M's shape with random weights, on the CPU: by `rbp extract`, its
checks included, and by a script that does it the plain way (`bench/plain.py`).
"""

import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.common import Results, circumstances, report, spread
from bench.extraction import SHAPES, make

BENCH = Path(__file__).parent
RBP = [sys.executable, "-m", "rbp.cli"]
PLAINLY = [sys.executable, "-m", "bench.plain"]
PLAIN, OURS = "plain script", "rbp extract"


def process(command: list[str], folder: Path) -> tuple[float, float]:
    """Return the seconds that a process takes, and its processor's. Raises CalledProcessError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)  # noqa: S603  # our own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, used


def extraction(folder: Path, model: Path, texts: Path) -> list[str]:
    """Return the command that ranks the page into a folder of its own."""
    shutil.rmtree(folder / "stores", ignore_errors=True)
    return [*RBP, "extract", "--model", str(model), "--corpus", str(texts), "--protocol", "authors", "--out", "stores"]


def measured(rounds: int) -> Results:
    """Time both ways in turn, once to warm up: wall-clock seconds, and the processor's."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        shape = SHAPES["cpu"]._replace(documents=1)
        model, texts = make(folder, shape, "cpu")
        plain = [*PLAINLY, str(model), str(texts), "511"]
        seconds: dict[str, list[tuple[float, float]]] = {PLAIN: [], OURS: []}
        for _ in range(rounds + 1):
            seconds[PLAIN].append(process(plain, BENCH.parent))
            seconds[OURS].append(process(extraction(folder, model, texts), folder))
    wall, used = ({name: [each[i] for each in seconds[name][1:]] for name in seconds} for i in range(2))
    rows = [
        {"way": name} | spread(wall[name], wall[PLAIN]) | {"processor": spread(used[name], used[PLAIN])}
        for name in seconds
    ]
    return circumstances("cpu") | {"name": shape.name, "tokens": 511, "rounds": rounds, "rows": rows}


if __name__ == "__main__":
    report(measured, __doc__ or "")
