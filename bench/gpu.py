"""`make gpu`: what only a GPU can measure, without a network and in 5 minutes.

Each part asks questions, the most important first, in a process of its own and for so many seconds at most. Every
answer is written when it comes: whatever ends a part, its answers stay. The exit code is 1 where an answer is missing
or not what it must be, and 2 without a GPU. It takes torch, triton, numpy, transformers and safetensors; what needs
more is left out with a word. With --tiny the parts run in little on the CPU, the kernel by Triton's interpreter: that
tests this program, and its results say so.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.common import GPU, Results, aim_of, failure, machine, no_gpu, worked
from companion.project import ROOT
from rbp.io import write_json


class Part(NamedTuple):
    """A function of a module of bench that gives questions, and the seconds that they may take together."""

    module: str
    function: str
    limit: float


PARTS = {
    "kernels": Part("kernels", "part", 35),
    "exactness": Part("exactness", "part", 65),
    "ranking": Part("ranking", "part", 85),
    "extraction Pythia-70M": Part("gpu_models", "pythia_70m", 45),
    "extraction Pythia-1.4B": Part("gpu_models", "pythia_1_4b", 65),
}
OURS = ("rbp", "bench", "torch", "triton", "numpy", "transformers", "safetensors")  # what must be there
SLOW = 10  # times the seconds of a part, where a CPU that may be busy stands in for a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print and write their answers; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("part", nargs="*", help=f"default: all, which are {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="in little, on the CPU")
    parser.add_argument("--json", type=Path, help="the results; default: bench/results/gpu.json, with --tiny none")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)  # module and function
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.part if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: take some of {', '.join(PARTS)}")
    if given.tiny and given.json and given.json.resolve() == GPU:
        parser.error(f"{GPU.name} is for a GPU's figures: give --json another file")
    if given.work:
        work(*given.work, given.tiny, given.part[0], given.json)
        return 0
    with TemporaryDirectory() as scratch:
        place = given.json or (Path(scratch) / "tiny.json" if given.tiny else GPU)
        return run({name: PARTS[name] for name in given.part or PARTS}, given.tiny, place)


def run(parts: Mapping[str, Part], tiny: bool, place: Path) -> int:
    """Run parts one after the other, and write the results to `place`; gives the exit code."""
    if not tiny and (reason := no_gpu()):
        print(f"error: {reason}\nRun it on a machine with a GPU; --tiny tries it on this one.", file=sys.stderr)
        return 2
    write_json(place, machine(tiny) | {"interpreter": tiny, "parts": {}})
    for name, part in parts.items():
        print(f"— {name}, {part.limit:g} s at most", flush=True)
        start = time.monotonic()
        ended = in_a_process(part, tiny, name, place)
        results = json.loads(place.read_bytes())
        now = results["parts"].setdefault(name, {"answers": [], "left": []})
        now["seconds"] = round(time.monotonic() - start, 1)
        if ended:
            now["error"] = ended
        for word in ("error", "left_out"):
            if word in now:
                print(f"  {word.replace('_', ' ')}: {now[word]}", flush=True)
        write_json(place, results)
    failed = [name for name in parts if not worked(results["parts"][name])]
    print(f"{results['device']}, {results['date']}: " + (f"not whole: {', '.join(failed)}" if failed else "done"))
    return int(bool(failed))


def in_a_process(part: Part, tiny: bool, name: str, place: Path) -> str | None:
    """Ask a part's questions in a process, whose answers are in the results; gives why it did not end well."""
    limit = part.limit * (SLOW if tiny else 1)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **({"TRITON_INTERPRET": "1"} if tiny else {})}
    command = [sys.executable, "-m", "bench.gpu", name, "--json", str(place), "--work", part.module, part.function]
    process = subprocess.Popen(  # noqa: S603
        [*command, *(["--tiny"] if tiny else [])], cwd=ROOT, env=environment, start_new_session=True
    )
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"not done after {limit:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and all that it started
        process.wait()
    return None if code == 0 else f"its process ended with {code}"


def work(module: str, function: str, tiny: bool, name: str, place: Path) -> None:
    """Ask a part's questions, and write each answer to the results when it comes."""
    results = json.loads(place.read_bytes())
    now = results["parts"][name] = {"answers": [], "left": []}
    try:
        questions = getattr(import_module(f"bench.{module}"), function)(tiny)
    except Exception as error:
        now |= reason(error)
        questions = []
    now["left"] = [question.name for question in questions]
    write_json(place, results)
    for question in questions:
        start = time.monotonic()
        try:
            result = question.ask()
        except Exception as error:
            result = reason(error)
        answer = {"question": question.name} | plain(result) | {"seconds": round(time.monotonic() - start, 1)}
        now["left"].remove(question.name)
        now["answers"].append(answer)
        write_json(place, results)
        print(f"  {described(answer)}", flush=True)


def plain(value: Any) -> Any:
    """Convert an answer to what JSON has: NaN and infinities, which a wrong kernel may give, become words."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def reason(error: Exception) -> Results:
    """Say why there is no answer: a package that a bare machine need not have, or an error."""
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] not in OURS:
        return {"left_out": f"{error.name.split('.')[0]} is not installed"}
    last = f"{type(error).__name__}: {error}"
    return {"error": last.strip(), "traceback": "".join(traceback.format_exception(error))}


def described(answer: Results) -> str:
    """Format an answer for printing: a line, and one for each row, with the aims beside."""
    if what := failure(answer):
        return f"{answer['question']}: FAILED: {what}\n{answer.get('traceback', '')}".rstrip()
    short = [f"{name} {value}" for name, value in answer.items() if isinstance(value, int | float | str)]
    lines = [", ".join(short)]
    for row in answer.get("rows", []):
        aim = aim_of(row) if "dtype" in row else None
        beside = f", aim {aim}: {'met' if row['ratio'] <= aim else 'missed'}" if aim else ""
        lines.append(f"    {row['way']}: {row['seconds']:.4g} s, ratio {row['ratio']:.2f}{beside}")
    return "\n".join(lines)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as a limit of time sends it: no part is left running
    sys.exit(main())
