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
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from bench.common import GPU, Results, circumstances, failure, wanted_ratio, worked
from rbp.io import write_json
from rbp.kernel import CAPABILITY

PARTS = {"exactness": 70, "extraction": 150, "ranking": 70}  # modules of bench, and the seconds that each may take
OURS = ("rbp", "bench", "torch", "triton", "numpy", "transformers", "safetensors")  # what must be there
SLOW = 10  # times the seconds of a part, where a CPU that may be busy stands in for a GPU


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print and write their answers; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("part", nargs="*", help=f"default: all, which are {', '.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="in little, on the CPU")
    parser.add_argument("--json", type=Path, help="the results; default: bench/results/gpu.json, needed with --tiny")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.part if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: take some of {', '.join(PARTS)}")
    place = given.json or GPU
    if given.tiny and place.resolve() == GPU:
        parser.error(f"{GPU.name} is for a GPU's figures: give --json another file")
    return run(given.part or list(PARTS), given.tiny, place)


def run(parts: Sequence[str], tiny: bool, place: Path) -> int:
    """Run parts one after the other, and write the results to `place`; gives the exit code."""
    if not tiny and (reason := no_gpu()):
        remedy = "Run it on a machine with a GPU; --tiny --json FILE tries it on this one."
        print(f"error: {reason}\n{remedy}", file=sys.stderr)
        return 2
    os.environ["HF_HUB_OFFLINE"] = "1"
    about = circumstances("cpu" if tiny else "cuda")
    if tiny:
        os.environ["TRITON_INTERPRET"] = "1"
        about["device"] = f"triton's interpreter on {about['device']}"
    write_json(place, about | {"interpreter": tiny, "parts": {}})
    for name in parts:
        limit = PARTS[name] * (SLOW if tiny else 1)
        print(f"— {name}, {limit:g} s at most", flush=True)
        start = time.monotonic()
        ended = in_a_process(name, tiny, place, limit)
        results = json.loads(place.read_bytes())
        part = results["parts"].setdefault(name, {"answers": [], "left": []})
        part["seconds"] = round(time.monotonic() - start, 1)
        if ended:
            part["error"] = ended
        for word in ("error", "left_out"):
            if word in part:
                print(f"  {word.replace('_', ' ')}: {part[word]}", flush=True)
        write_json(place, results)
    failed = [name for name in parts if not worked(results["parts"][name])]
    print(f"{results['device']}, {results['date']}: " + (f"not whole: {', '.join(failed)}" if failed else "done"))
    return int(bool(failed))


def no_gpu() -> str | None:
    """Say why no GPU can be measured here, and what is needed; None where one can."""
    least = ".".join(map(str, CAPABILITY))
    needed = f"Needed: one of compute capability {least} or above, its driver, and a PyTorch with CUDA."
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no GPU. {needed}"
    capability = torch.cuda.get_device_capability()
    if capability < CAPABILITY:
        return f"{torch.cuda.get_device_name()} has compute capability {'.'.join(map(str, capability))}. {needed}"
    return None


def in_a_process(name: str, tiny: bool, place: Path, limit: float) -> str | None:
    """Ask a part's questions in a process, whose answers are in the results; gives why it did not end well."""
    process = get_context("spawn").Process(target=ask, args=(name, tiny, place))
    process.start()
    try:
        process.join(limit)
        if process.is_alive():
            return f"not done after {limit:g} s"
    finally:
        process.kill()
        process.join()
    return None if process.exitcode == 0 else f"its process ended with {process.exitcode}"


def ask(name: str, tiny: bool, place: Path) -> None:
    """Ask a part's questions, and write each answer to the results when it comes."""
    results = json.loads(place.read_bytes())
    part: Results = {"answers": [], "left": []}
    results["parts"][name] = part
    try:
        questions = import_module(f"bench.{name}").part(tiny)
    except Exception as error:
        part |= reason(error)
        questions = []
    part["left"] = [question.name for question in questions]
    write_json(place, results)
    for question in questions:
        start = time.monotonic()
        try:
            result = question.ask()
        except Exception as error:
            result = reason(error)
        answer = {"question": question.name} | plain(result) | {"seconds": round(time.monotonic() - start, 1)}
        part["left"].remove(question.name)
        part["answers"].append(answer)
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
    """Format an answer for printing: a line, and one for each row, with what is wanted beside, and for each part."""
    if what := failure(answer):
        return f"{answer['question']}: FAILED: {what}\n{answer.get('traceback', '')}".rstrip()
    short = [f"{name} {value}" for name, value in answer.items() if isinstance(value, int | float | str)]
    lines = [", ".join(short)]
    for row in answer.get("rows", []):
        wanted = wanted_ratio(answer["question"], row)
        beside = f", wanted {wanted:g}: {'met' if row['ratio'] <= wanted else 'missed'}" if wanted else ""
        memory = f", {row['peak_mb']:,.0f} MB at most" if "peak_mb" in row else ""
        lines.append(f"    {row['way']}: {row['seconds']:.4g} s, ratio {row['ratio']:.3g}{beside}{memory}")
    lines += [f"        {seconds:.3f} s: {name}" for name, seconds in answer.get("parts", {}).items()]
    return "\n".join(lines)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as a limit of time sends it: no part is left running
    sys.exit(main())
