"""Kill an extraction at random moments, again and again: after every rerun the store is the same.

    python tests/slow/kills.py [KILLS]

Takes about half a minute a kill on two cores, most of it for starting Python. Exits 1 at the first difference.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "extraction"
sys.path.insert(0, str(TESTS))

SCRIPT = """
import sys
from pathlib import Path
from rbp.extraction.run import extract, Settings
from rbp.extraction.protocols import protocol
model, corpus, out = sys.argv[1:]
extract([model], [corpus], protocol("windows", length=64, context=32, pack=1), Path(out), Settings(backend="reference"))
"""


def make_input(root: Path) -> list[str]:
    """A tiny model and a corpus, as the tests have them."""
    import json

    import conftest

    tokenizer = conftest.tokenizer.__wrapped__()
    conftest.random_model("gpt2").save_pretrained(root / "model")
    tokenizer.save_pretrained(root / "model")
    lines = (json.dumps({"text": text}) + "\n" for text in conftest.texts(400))
    (root / "corpus.jsonl").write_text("".join(lines))
    return [str(root / "model"), str(root / "corpus.jsonl")]


def start(given: list[str], out: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", SCRIPT, *given, str(out)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def content(out: Path) -> dict[str, bytes]:
    """The parts by name; the manifest's times differ from run to run."""
    return {path.name: path.read_bytes() for path in out.glob("*/parts/*")}


def main(kills: int) -> None:
    rng = random.Random(0)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        given = make_input(root)
        if start(given, root / "whole").wait():
            sys.exit("the extraction fails without a kill too")
        whole = content(root / "whole")
        for number in range(1, kills + 1):
            out = root / f"killed-{number}"
            process = start(given, out)
            while not list(out.glob("*/lock")) and process.poll() is None:  # from the first file on
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 3))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            there = len(content(out))
            if start(given, out).wait() or content(out) != whole:
                sys.exit(f"kill {number}, with {there} of {len(whole)} parts there: the store differs")
            print(f"kill {number}: {there} of {len(whole)} parts were there; the same after the rerun", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
