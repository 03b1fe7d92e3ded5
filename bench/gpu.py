"""`make gpu`: all that only a GPU can tell, on one machine without a network, in less than 20 minutes.

Each part runs in a process of its own, for so many seconds at most, and the results are written after each, whole or
not at all. A part that fails is recorded with its error, the others go on, and the exit code is 1. The same command
again does what is missing or failed; on another card, or with other code or versions, it begins anew. Without a GPU
the exit code is 2. With --tiny the parts run in little on the CPU, the kernel by Triton's interpreter: that tests this
program, and its results say so.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from rbp.core.errors import RbpError
from rbp.core.files import files_below, write_json
from rbp.core.paths import ROOT
from rbp.paper.gpu import GPU, aim_of, worked


class Part(NamedTuple):
    """A function of a module of bench, and the seconds that it may take."""

    module: str
    function: str
    limit: float


PARTS = {  # less than 20 minutes together
    "machine": Part("common", "machine", 60),
    "exactness": Part("exactness", "part", 120),
    "ranking": Part("ranking", "part", 150),
    "extraction Pythia-14M": Part("gpu_parts", "pythia_14m", 80),
    "extraction Pythia-1.4B": Part("gpu_parts", "pythia_1_4b", 130),
    "extraction Pythia-6.9B": Part("gpu_parts", "pythia_6_9b", 250),
    "devices": Part("gpu_parts", "devices", 50),
    "memory": Part("gpu_parts", "memory", 50),
    "two processes": Part("gpu_parts", "two", 60),
    "ladder": Part("gpu_parts", "ladder", 120),
    "tests": Part("gpu_parts", "tests", 110),
}
Found = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for, print and write what they found; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("part", nargs="*", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="in little, on the CPU")
    parser.add_argument("--json", type=Path, help="the results; default: bench/results/gpu.json, with --tiny none")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)  # one part, its results into this file
    given = parser.parse_args(arguments)
    if given.work:
        write_json(given.work, work(given.part[0], given.tiny))
        return 0
    if unknown := [name for name in given.part if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: take some of {', '.join(PARTS)}")
    if not given.tiny and (reason := no_gpu()):
        print(f"error: {reason}\nRun it on a machine with a GPU; --tiny tries it on this one.", file=sys.stderr)
        return 2
    place = given.json or (None if given.tiny else GPU)
    if given.tiny and place and place.resolve() == GPU:
        parser.error(f"{GPU.name} is for a GPU's figures: give --json another file")
    return run(given.part or list(PARTS), given.tiny, place)


def run(names: Sequence[str], tiny: bool, place: Path | None) -> int:
    """Run parts one after the other; gives 1 if one failed, else 0."""
    console = Console(width=140)
    begun = about("machine", tiny)
    if "error" in begun:
        console.print(f"machine: {begun['error']}")
        return 1
    results = resumed(place, begun | {"interpreter": tiny, "code": code()})
    for name in names:
        if name == "machine" or worked(results["parts"].get(name)):
            continue
        console.rule(f"{name} (at most {PARTS[name].limit} s)")
        results["parts"][name] = about(name, tiny)
        show(console, name, results["parts"][name])
        if place:
            write_json(place, results)
    failed = [name for name in names if name != "machine" and not worked(results["parts"].get(name))]
    console.rule()
    console.print(f"{results['device']}, {results['date']}: " + (f"failed: {', '.join(failed)}" if failed else "done"))
    if place:
        console.print(str(place))
    return int(bool(failed))


def about(name: str, tiny: bool) -> Found:
    """What a part found, by a process of its own."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "part.json"
        command = [sys.executable, "-m", "bench.gpu", name, "--work", str(out), *(["--tiny"] if tiny else [])]
        limit = PARTS[name].limit * (10 if tiny else 1)  # the CPU may be busy with other work
        return apart(command, out, limit, {"TRITON_INTERPRET": "1"} if tiny else {})


def apart(command: Sequence[str], out: Path, limit: float, environment: dict[str, str]) -> Found:
    """What a command writes to `out`, and its seconds; or "error": why there is nothing, as after `limit` seconds."""
    start = time.monotonic()
    own = {**os.environ, "HF_HUB_OFFLINE": "1", **environment}
    with subprocess.Popen(command, cwd=ROOT, env=own, start_new_session=True) as process:  # noqa: S603
        try:
            code = process.wait(limit)
            error = f"its process ended with {code}" if code >= 0 else f"its process was ended by signal {-code}"
        except subprocess.TimeoutExpired:
            error = f"not done after {limit} s"
        finally:  # and all that it started
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    seconds = {"seconds": round(time.monotonic() - start, 1)}
    try:
        found: Found = json.loads(out.read_bytes())
    except (OSError, ValueError):
        return {"error": error} | seconds
    return found | seconds


def work(name: str, tiny: bool) -> Found:
    """What a part finds, in this process; "error" and "traceback" if it raises."""
    try:
        part = PARTS[name]
        module = import_module(f"bench.{part.module}")  # which may fail, as a part may
        found: Found = getattr(module, part.function)(tiny)
    except Exception as error:
        last = error.what if isinstance(error, RbpError) else f"{type(error).__name__}: {error}"
        return {"error": last.strip() or type(error).__name__, "traceback": traceback.format_exc()}
    return found


def no_gpu() -> str | None:
    """Why there is no GPU to run on; None where there is one."""
    import torch

    if torch.cuda.is_available():
        return None
    built = "finds none" if torch.version.cuda else "is built without CUDA"
    return f"no GPU: PyTorch {torch.__version__} {built}"


def resumed(place: Path | None, begun: Found) -> Found:
    """The results in a file, if they are of this machine and code; else new ones without a part."""
    same = ("device", "interpreter", "code", "versions")
    try:
        there: Found = json.loads(place.read_bytes()) if place else {}
        if all(there[name] == begun[name] for name in same) and isinstance(there["parts"], dict):
            return there
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return {name: value for name, value in begun.items() if name != "seconds"} | {"parts": {}}


def code() -> str:
    """A digest of all that the figures depend on, of this project."""
    files = [path for folder in ("bench", "src") for path in files_below(ROOT / folder) if path.suffix == ".py"]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def show(console: Console, name: str, found: Found) -> None:
    """Print what a part found, with the aims beside."""
    for line in [found["error"]] if "error" in found else found.get("failed", []):
        console.print(f"[red]failed:[/] {line}", markup=True)
    if "traceback" in found:
        console.print(found["traceback"], markup=False)
    if "error" in found:
        return
    if name == "ranking":
        from bench.ranking import table_of

        console.print(table_of(found))
        for line in beside_aims(found):
            console.print(line)
    elif name == "exactness":
        table = Table(*found["answers"][0])
        for answer in found["answers"]:
            table.add_row(*(f"{value:.2g}" if isinstance(value, float) else str(value) for value in answer.values()))
        console.print(table)
    elif name.startswith("extraction") and "rows" in found:
        from bench.extraction import table_of as extraction_table

        console.print(extraction_table(found))
    else:
        console.print_json(data={key: value for key, value in found.items() if key != "failed"})
    console.print(f"{found['seconds']:.0f} s")


def beside_aims(found: Found) -> list[str]:
    """Our ratio to the bare product at each shape that has an aim, and the aim."""
    lines = []
    for row in found["rows"]:
        if aim := aim_of(row):
            verdict = "met" if row["ratio"] <= aim else "missed"
            lines.append(f"d = {row['d']}, V = {row['vocabulary']}: {row['ratio']:.2f}, aim {aim}: {verdict}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
