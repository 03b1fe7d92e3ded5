"""`python -m bench.memory`: the peak memory of whole processes that rank one row of 32,768 tokens on the CPU.

`rbp extract`, checks included, and the plain script `bench/plain.py`, by one layer of Pythia-14M's shape with random
weights, in float32: what fills the memory is the logits, whose number follows from the vocabulary (50,304) alone.
`peak` is the largest resident set of the process, in MB.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.common import Results, circumstances
from bench.extraction import LENGTH, LONG, PYTHIA_14M, random_model, write_model_and_text
from companion.project import ROOT
from rbp.extract.extraction import quiet
from rbp.io import write_json

SHAPE = PYTHIA_14M._replace(name="one layer of Pythia-14M", layers=1, documents=LONG // LENGTH)


def measured() -> Results:
    """Rank one row by each way, in a process of its own."""
    with TemporaryDirectory() as place, quiet():
        folder = Path(place)
        model, text = write_model_and_text(folder, SHAPE, "cpu")
        random_model(SHAPE, "cpu", "float32", positions=LONG).save_pretrained(model)
        one_document(text)
        reading = f"--protocol windows --length {LONG} --context 1 --tokens {LONG - 1}".split()
        given = ["--model", str(model), "--corpus", str(text), "--out", str(folder / "ranks")]
        ways = {
            "rbp extract": ["-m", "rbp.cli", "extract", *given, *reading],
            "plain script": ["-m", "bench.plain", str(model), str(text), str(LONG - 1), str(LONG)],
        }
        rows = [{"way": name, "peak": peak([sys.executable, *command])} for name, command in ways.items()]
    return circumstances("cpu") | {"name": SHAPE.name, "tokens": LONG, "rows": rows}


def one_document(text: Path) -> None:
    """Join the documents of a file of JSON lines."""
    text.write_text(text.read_text(encoding="utf-8").replace('"}\n{"text": "', " "), encoding="utf-8")


def peak(command: list[str]) -> float:
    """Return the largest resident set of a process, in MB; never less than ours, which the system counts in.

    Raises CalledProcessError if it fails.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603  # our own
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_maxrss / 1e3


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--json", type=Path, help="write the results there, such as bench/results/memory-cpu.json")
    given = parser.parse_args()
    results = measured()
    for row in results["rows"]:
        print(f"{row['way']:20}{row['peak']:10,.0f} MB")
    if given.json:
        write_json(given.json, results)
