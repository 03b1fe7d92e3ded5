"""Rehearses `make gpu` without a GPU: the clock runs out in the middle of every part, and then the rest follows.

The parts run in little, the kernel by Triton's interpreter. In each, time is over while the question in its middle is
being asked. Then the file of results must hold every answer that was known, and the same command once more must ask
what is left and nothing else. With --json the figures are written, as in bench/results/gpu-rehearsal.json.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rbp.core.paths import ROOT

sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

from bench import gpu
from bench.common import circumstances, write

Found = dict[str, Any]


class Clock:
    """Time as it is, until half of a part's questions are answered: then it has run out."""

    def __init__(self, place: Path, part: str) -> None:
        self.place, self.part, self.over = place, part, False

    def __call__(self) -> float:
        if not self.over and self.place.exists():
            now: Found = json.loads(self.place.read_bytes())["parts"].get(self.part, {"answers": [], "left": []})
            there, left = len(now["answers"]), len(now["left"])
            self.over = left > 0 and there >= (there + left) // 2
        return time.monotonic() + (1e6 if self.over else 0.0)


def rehearsed(name: str, place: Path) -> Found:
    """One part, with the clock running out and again; "wrong": what is not as it must be, in words."""
    part, wrong = (gpu.PARTS | gpu.LONGER)[name], []
    gpu.clock = clock = Clock(place, name)
    first = gpu.run({name: part}, True, place)
    gpu.clock = time.monotonic
    before: Found = json.loads(place.read_bytes())["parts"][name]
    if not clock.over:
        wrong.append("the clock did not run out")
    if not (first == 1 and before["left"] and "not done" in before["error"]):
        wrong.append("it does not say that it is not whole")
    second = gpu.run({name: part}, True, place)
    after: Found = json.loads(place.read_bytes())["parts"][name]
    if second or after["left"] or "error" in after:
        wrong.append(f"again it is not whole: {after.get('error')}, {after['left']}")
    kept = [answer for answer in before["answers"] if not isinstance(answer.get("left_out"), str)]
    lost = [answer["question"] for answer in kept if answer not in after["answers"]]
    names = [answer["question"] for answer in after["answers"]]
    if lost or len(set(names)) < len(names):
        wrong.append(f"lost or asked twice: {lost}, {names}")
    counts = {"questions": len(names), "answered_in_time": len(kept), "lost": len(lost)}
    return {"part": name, **counts, "wrong": wrong}


def main(arguments: Sequence[str] | None = None) -> int:
    """Rehearse parts, print and write what was found; gives 1 if something is wrong."""
    every = [*gpu.PARTS, *gpu.LONGER]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("part", nargs="*", help="default: all")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        found = [rehearsed(name, Path(folder) / "gpu.json") for name in given.part or every]
    for each in found:
        print(each)  # noqa: T201
    if given.json:
        about = circumstances("cpu")
        write({name: about[name] for name in ("date", "device", "versions")} | {"parts": found}, given.json)
    return int(any(each["wrong"] for each in found))


if __name__ == "__main__":
    sys.exit(main())
