"""Time the ways to hand many jobs to Slurm, with shards that sleep, on a one-node cluster of 8 slots.

    python tests/slow/slurm_ways.py WAY [--cases short long killed] [--json bench/results/slurm-ways.json]

WAY: submit (studies/profiles/slurm/submit, a job for each shard), bundled (the same, ten shards to a job), plugin
(snakemake-executor-plugin-slurm) or submitit; install the last two beside Python first. Short: 200 shards of 5 s; long:
16 of 2 minutes; killed: one of two is killed, seconds until the driver says so. Each plugin job starts Snakemake twice:
the machine should have nothing else to do.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "study"))

from slurm import cluster  # noqa: E402

CASES = {"short": (200, 5), "long": (16, 120)}
QUEUED = 100  # jobs handed over at once, as by `rbp study run`
PATIENCE = 180  # seconds in which a killed job must be seen
SUBMIT = ROOT / "studies" / "profiles" / "slurm" / "submit"
RULES = """
rule all:
    input: [f"out/{{number}}" for number in range({jobs})]
rule shard:
    output: "out/{{number}}"
    resources: mem_mb=100, runtime=30
    shell: {command!r}
"""
ASKED = "--mem=100M --time=30 --cpus-per-task=1"
PLUGIN = "--executor slurm --slurm-status-command squeue --slurm-no-account --slurm-init-seconds-before-status-checks 1"
SUBMITIT = f"""
import os, subprocess, sys, submitit
def shard(number, seconds):
    open(f"pid-{{number}}", "w").write(str(os.getpid()))
    subprocess.run(["sleep", str(seconds)], check=True)
    open(f"out/{{number}}", "w").close()
shards, seconds = map(int, sys.argv[1:])
executor = submitit.SlurmExecutor(folder="submitit", max_num_timeout=0)
executor.update_parameters(mem="100M", time=30, cpus_per_task=1, ntasks_per_node=1, array_parallelism={QUEUED})
for job in executor.map_array(shard, range(shards), [seconds] * shards):
    job.result()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=["submit", "bundled", "plugin", "submitit"])
    parser.add_argument("--cases", nargs="*", choices=[*CASES, "killed"], default=[*CASES, "killed"])
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    given = parser.parse_args()
    given.json = given.json and given.json.resolve()
    found: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "load": round(os.getloadavg()[0], 1)}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        cluster(Path(folder) / "slurm") as environment,
    ):
        srun = Path(folder) / "bin" / "srun"  # the plugin takes SLURM_* away from its jobs, and they need this one
        srun.parent.mkdir()
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={environment["SLURM_CONF"]} exec /usr/bin/srun "$@"\n')
        srun.chmod(0o755)
        os.environ |= environment | {"PATH": f"{srun.parent}:{os.environ['PATH']}"}
        for case in given.cases:
            work = Path(folder) / case
            (work / "out").mkdir(parents=True)
            os.chdir(work)
            found[case] = killed(given.way) if case == "killed" else timed(given.way, *CASES[case])
            print(given.way, case, found[case], flush=True)  # noqa: T201
    if given.json:
        there = json.loads(given.json.read_text()) if given.json.exists() else {}
        given.json.write_text(json.dumps(there | {given.way: there.get(given.way, {}) | found}, indent=1) + "\n")


def timed(way: str, shards: int, seconds: int) -> float:
    """Seconds until every shard's output is there."""
    start = time.monotonic()
    code = start_driver(way, shards, seconds).wait()
    there = len(list(Path("out").iterdir()))
    if code or there < shards // _each(way):
        sys.exit(f"{way}: exit {code}, {there} of {shards} outputs; {Path('log').read_text()[-2000:]}")
    return round(time.monotonic() - start, 1)


def killed(way: str) -> float | None:
    """Seconds from the kill of the process of one of two jobs until the driver says so; None: not in PATIENCE."""
    driver = start_driver(way, 2, 60)
    while not (pids := list(Path().glob("pid-*"))):
        time.sleep(0.5)
    time.sleep(10)
    os.kill(int(pids[0].read_text()), signal.SIGKILL)
    start = time.monotonic()
    while not (seen := driver.poll() is not None or "Error in rule" in Path("log").read_text()):
        if time.monotonic() - start > PATIENCE:
            break
        time.sleep(0.5)
    driver.kill()
    return round(time.monotonic() - start, 1) if seen else None


def start_driver(way: str, shards: int, seconds: int) -> "subprocess.Popen[bytes]":
    if way == "submitit":
        command = [sys.executable, "-c", SUBMITIT, str(shards), str(seconds)]
    else:
        number = "{wildcards.number}"
        work = f"echo $$ > pid-{number}; for n in $(seq {_each(way)}); do sleep {seconds}; done; touch {{output}}"
        if way != "plugin":
            work = f"{SUBMIT} shard-{number} {{output}} log-{number} {ASKED} -- bash -c {shlex.quote(work)}"
        Path("Snakefile").write_text(RULES.format(jobs=max(1, shards // _each(way)), command=work))
        how = [*PLUGIN.split(), "--jobs"] if way == "plugin" else ["--cores"]
        command = [sys.executable, "-m", "snakemake", "--nolock", "--latency-wait", "60", *how, str(QUEUED)]
    with Path("log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _each(way: str) -> int:
    return 10 if way == "bundled" else 1


if __name__ == "__main__":
    main()
