"""Time a study of many small shards on a one-node Slurm, and write what it took.

    python tests/slow/slurm_shards.py [--shards 32] [--json bench/results/study-slurm.json]

It may take 1.5 times the sum of the shards' own seconds, divided by the slots, and a minute; exits 1 if it takes more,
or if the store differs from one that was measured in one go.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "study"
sys.path.insert(0, str(TESTS))

from made_studies import MODEL, parts  # noqa: E402
from slurm import cluster  # noqa: E402

from rbp.ranks.extraction import (  # noqa: E402
    Settings,
    extract,
)
from rbp.ranks.protocols import protocol  # noqa: E402
from rbp.study.config import read_study  # noqa: E402
from rbp.study.jobs import (  # noqa: E402
    all_jobs,
    log_file,
    state,
)

SLOTS = 4  # the cluster's pretended GPUs: each shard asks for one
FACTOR, GRACE = 1.5, 60.0
STUDY = """
models = [{{ name = "{model}", family = "neox" }}]
corpora = ["ladder/humaneval"]
device = "cpu"
backend = "reference"
gpus = 1
shards = {shards}
output = "{out}"
[protocol]
name = "authors"
length = 128
pack = 4
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), given.shards)
    print(json.dumps(results, indent=1))  # noqa: T201
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")
    if not results["same_store"] or results["seconds"] > results["allowed"]:
        sys.exit("it took too long, or the store differs")


def measure(root: Path, shards: int) -> dict[str, Any]:
    file = root / "many.toml"
    file.write_text(STUDY.format(model=MODEL, shards=shards, out=root / "many"))
    command = [sys.executable, "-m", "rbp.cli", "study", "run", str(file), "--profile", "slurm"]
    with cluster(root / "slurm") as environment:
        start = time.monotonic()
        subprocess.run(command, env=os.environ | environment, check=True, timeout=3600)
        seconds = time.monotonic() - start
    study = read_study(file)
    jobs = [job for job in all_jobs(study) if job.kind == "shard"]
    own = [state(study, job).seconds or 0.0 for job in jobs]
    attempts = sum(log_file(study, job).read_text().count("--- ") for job in jobs)
    chosen = protocol("authors", length=128, pack=4)
    extract([str(MODEL)], ["ladder/humaneval"], chosen, root / "whole", Settings(device="cpu", backend="reference"))
    ranks = parts(study.ranks)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[2],
        "slots": SLOTS,
        "shards": len(jobs),
        "attempts": attempts,
        "parts": len(ranks),
        "same_store": ranks == parts(root / "whole"),
        "sum_of_shards": sum(own),
        "seconds": seconds,
        "allowed": FACTOR * sum(own) / SLOTS + GRACE,
    }


if __name__ == "__main__":
    main()
