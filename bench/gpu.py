"""`make gpu`: what only a GPU can tell, without a network and in 6 minutes; parts that take longer are run by name.

Each part asks questions, the most important first, in a process of its own and for so many seconds at most. Every
answer is written the moment it is known: the file of results is made anew, whole or not at all. Whatever ends a part,
its answers stay; the same command again asks what is missing, failed or was left out, and begins anew on another card,
or with other code or versions. The exit code is 1 where answers are missing, and 2 without a GPU. It takes torch,
triton, numpy, transformers and safetensors; what needs more is left out with a word. With --tiny the parts run in
little on the CPU, the kernel by Triton's interpreter: that tests this program, and its results say so.
"""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from rbp.core.errors import RbpError
from rbp.core.files import files_below, write_json
from rbp.core.paths import ROOT
from rbp.paper.appendix.gpu import GPU, Record, aim_of, failure, worked


class Part(NamedTuple):
    """A function of a module of bench that gives questions, and the seconds that they may take together."""

    module: str
    function: str
    limit: float


MACHINE = Part("common", "machine", 40)  # which is asked first, whatever is asked for
PARTS = {  # 6 minutes together, with that
    "kernels": Part("kernels", "part", 35),
    "exactness": Part("exactness", "part", 65),
    "ranking": Part("ranking", "part", 85),
    "extraction Pythia-70M": Part("gpu_models", "pythia_70m", 45),
    "extraction Pythia-1.4B": Part("gpu_models", "pythia_1_4b", 65),
    "several GPUs": Part("gpu_parts", "several", 25),
}
LONGER = {  # run where they are named
    "extraction Pythia-6.9B": Part("gpu_models", "pythia_6_9b", 250),
    "devices": Part("gpu_parts", "devices", 50),
    "memory": Part("gpu_parts", "memory", 50),
    "two processes": Part("gpu_parts", "two", 60),
    "ladder": Part("gpu_parts", "ladder", 120),
    "tests": Part("gpu_parts", "tests", 110),
}
OURS = ("rbp", "bench", "torch", "triton", "numpy", "transformers", "safetensors")  # what must be there
SLOW = 10  # times the seconds of a part, where a CPU that may be busy stands in for a GPU
clock = time.monotonic


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for, print and write what they found; gives the exit code."""
    every = PARTS | LONGER
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("part", nargs="*", help=f"default: {', '.join(PARTS)}; there are also: {', '.join(LONGER)}")
    parser.add_argument("--tiny", action="store_true", help="in little, on the CPU")
    parser.add_argument("--json", type=Path, help="the results; default: bench/results/gpu.json, with --tiny none")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)  # module and function; what is known: standard input
    given = parser.parse_args(arguments)
    if given.work:
        work(*given.work, given.tiny, json.load(sys.stdin))
        return 0
    if unknown := [name for name in given.part if name not in every]:
        parser.error(f"there is no part {unknown[0]!r}: take some of {', '.join(every)}")
    place = given.json or (None if given.tiny else GPU)
    if given.tiny and place and place.resolve() == GPU:
        parser.error(f"{GPU.name} is for a GPU's figures: give --json another file")
    return run({name: every[name] for name in given.part or PARTS}, given.tiny, place)


def run(parts: Mapping[str, Part], tiny: bool, place: Path | None) -> int:
    """Run parts one after the other; gives the exit code."""
    about: Record = {"answers": [], "left": []}
    ask(MACHINE, tiny, about, lambda _: None)
    if not about["answers"] or (reason := failure(about["answers"][0])):
        reason = reason if about["answers"] else about.get("error")
        print(f"error: {reason}\nRun it on a machine with a GPU; --tiny tries it on this one.", file=sys.stderr)
        return 2
    begun = {name: value for name, value in about["answers"][0].items() if name not in ("question", "seconds")}
    results = resumed(place, begun | {"interpreter": tiny, "code": code()})

    def keep(answer: Record | None) -> None:
        if answer:
            print(f"  {described(answer)}", flush=True)
        if place:
            write_json(place, results)

    for name, part in parts.items():
        before = results["parts"].get(name)
        if worked(before) and not any(map(left_out, (before, *before["answers"]))):
            continue
        print(f"— {name}, {part.limit:g} s at most", flush=True)
        results["parts"][name] = now = again(before)
        ask(part, tiny, now, keep)
        for word in ("error", "left_out"):
            if word in now:
                print(f"  {word.replace('_', ' ')}: {now[word]}", flush=True)
    failed = [name for name in parts if not worked(results["parts"][name])]
    print(f"{results['device']}, {results['date']}: " + (f"not whole: {', '.join(failed)}" if failed else "done"))
    if place:
        print(place)
    return int(bool(failed))


def again(before: Record | None) -> Record:
    """What a part begins with: the answers that it has, and the questions to be asked last, as they failed before."""
    answers = before["answers"] if before else []
    good = [answer for answer in answers if not failure(answer) and not left_out(answer)]
    stuck = before.get("stuck", []) if before else []
    last = stuck + [answer["question"] for answer in answers if failure(answer)]
    return {"answers": good, "left": [], "stuck": last, "seconds": before.get("seconds", 0.0) if before else 0.0}


def left_out(known: Record) -> bool:
    """Whether a part or a question was left out as a whole."""
    return isinstance(known.get("left_out"), str)


def ask(part: Part, tiny: bool, now: Record, keep: Callable[[Record | None], None]) -> None:
    """Ask the questions of a part that have no answer in `now`; put each answer there, and give it to `keep`.

    A process that is ended by its question is followed by another, for the questions that are left.
    """
    start = clock()
    limit, before = part.limit * (SLOW if tiny else 1), now.get("seconds", 0.0)
    own = {**os.environ, "HF_HUB_OFFLINE": "1", **({"TRITON_INTERPRET": "1"} if tiny else {})}
    command = [sys.executable, "-m", "bench.gpu", "--work", part.module, part.function, *(["--tiny"] if tiny else [])]
    begun: list[str] = []
    last = now.pop("stuck", [])

    def told(message: Record) -> None:
        now["seconds"] = round(before + clock() - start, 1)
        if "answer" in message:
            begun.clear()
            answer = {"question": message["question"]} | message["answer"]
            now["answers"].append(answer)
            now["left"].remove(message["question"])
            keep(answer)
        elif "begun" in message:
            begun.append(message["begun"])
        else:  # the questions, or why there are none
            now.update(message)
            keep(None)

    while True:
        asked_before = len(now["answers"])
        known = {"known": [answer["question"] for answer in now["answers"]], "last": last}
        begun.clear()
        error = talk(command, own, known, told, start + limit)
        now["seconds"] = round(before + clock() - start, 1)
        if error is None and not now["left"]:
            break
        if clock() >= start + limit:
            now |= {"error": f"not done after {limit:g} s", "stuck": [*last, *begun]}
            break
        if begun:
            told({"question": begun[0], "answer": {"error": error or "its process ended"}})
        if len(now["answers"]) == asked_before:
            now["error"] = error or "its process ended"
            break
    keep(None)


def talk(
    command: Sequence[str], environment: Mapping[str, str], first: Record, told: Callable[[Record], None], until: float
) -> str | None:
    """Run a command, give it `first`, and pass on what it tells, line by line; gives why it did not end well.

    At the time `until` it is ended, and all that it started.
    """
    reading, writing = os.pipe()
    own = {**environment, "BENCH_TELLS": str(writing)}
    process = subprocess.Popen(  # noqa: S603
        command, cwd=ROOT, env=own, stdin=subprocess.PIPE, pass_fds=[writing], start_new_session=True
    )
    os.close(writing)
    rest = b""
    try:
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(first).encode())
        while clock() < until:
            if not select.select([reading], [], [], 0.1)[0]:
                if process.poll() is None:
                    continue
                break  # something that it started holds the other end
            if not (some := os.read(reading, 65536)):
                break
            *lines, rest = (rest + some).split(b"\n")
            for line in lines:
                told(json.loads(line))
        if clock() >= until:
            return "the time is over"
        code = process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(reading)
    if code == 0:
        return None
    return f"its process ended with {code}" if code > 0 else f"its process was ended by signal {-code}"


def work(module: str, function: str, tiny: bool, first: Record) -> None:
    """Ask what is not known, in this process, and tell each answer, up to the first that fails."""
    tells = int(os.environ.pop("BENCH_TELLS"))
    threading.Thread(target=end_with_reader, args=[os.dup(tells)], daemon=True).start()
    with os.fdopen(tells, "w") as stream:

        def tell(**message: Any) -> None:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

        try:
            questions = getattr(import_module(f"bench.{module}"), function)(tiny)
        except Exception as error:
            tell(**reason(error))
            return
        left = [question for question in questions if question.name not in first["known"]]
        left.sort(key=lambda question: question.name in first["last"])  # what did not end well before
        tell(left=[question.name for question in left])
        for question in left:
            tell(begun=question.name)
            start = time.monotonic()
            try:
                answer = question.ask()
            except Exception as error:
                answer = reason(error)
            tell(question=question.name, answer=plain(answer) | {"seconds": round(time.monotonic() - start, 1)})
            if "error" in answer:
                os._exit(0)  # a GPU may be of no use to this process now: the rest is another's


def end_with_reader(pipe: int) -> None:
    """Wait until nobody reads the pipe, and end this process and all that it started: its parent was killed."""
    ended = select.poll()
    ended.register(pipe, 0)
    ended.poll()
    os.killpg(0, signal.SIGKILL)


def plain(value: Any) -> Any:
    """An answer as JSON has it: NaN and infinities, which a wrong kernel may give, as words."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def reason(error: Exception) -> Record:
    """Why there is no answer: a package that a bare machine need not have, or an error."""
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.split(".")[0] not in OURS:
        return {"left_out": f"{error.name.split('.')[0]} is not installed"}
    last = error.what if isinstance(error, RbpError) else f"{type(error).__name__}: {error}"
    return {"error": last.strip() or type(error).__name__, "traceback": traceback.format_exc()}


def resumed(place: Path | None, begun: Record) -> Record:
    """The results in a file, if they are of this machine and code; else new ones without a part."""
    same = ("device", "interpreter", "code", "versions")
    try:
        there: Record = json.loads(place.read_bytes()) if place else {}
        if all(there[name] == begun[name] for name in same):
            _ = [answer["question"] for part in there["parts"].values() for answer in part["answers"]]
            return there
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return begun | {"parts": {}}


def code() -> str:
    """A digest of all that the figures depend on, of this project."""
    files = [path for folder in ("bench", "src") for path in files_below(ROOT / folder) if path.suffix == ".py"]
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def described(answer: Record) -> str:
    """An answer as it is printed: a line, and one for each row, with the aims beside."""
    if what := failure(answer):
        return f"{answer['question']}: FAILED: {what}\n{answer.get('traceback', '')}".rstrip()
    short = {name: value for name, value in answer.items() if name != "question" and not isinstance(value, list | dict)}
    lines = [f"{answer['question']}: " + ", ".join(f"{name} {_short(value)}" for name, value in short.items())]
    for row in answer.get("rows", []):
        lines.append(f"    {row['way']}: {row['seconds']:.4g} s, ratio {row['ratio']:.2f}{_beside(row)}")
    if isinstance(missing := answer.get("left_out"), list):
        lines += [f"    {row['way']}: left out: {row['why']}" for row in missing]
    return "\n  ".join(lines)


def _beside(row: Record) -> str:
    if share := row.get("share_of_peak"):
        share = f", {share:.0%} of the data sheet's rate"
    aim = aim_of(row) if "dtype" in row else None
    return (share or "") + (f", aim {aim}: {'met' if row['ratio'] <= aim else 'missed'}" if aim else "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as a limit of time sends it: no part is left running
    sys.exit(main())
