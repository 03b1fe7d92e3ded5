"""A study on a real Slurm, and everything that dies on the way."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_studies import parts
from slurm import cluster, lacking

from rbp.evidence import open_source
from rbp.study.config import read_study
from rbp.study.jobs import bundles_file, read_json

pytestmark = pytest.mark.skipif(bool(lacking()), reason=str(lacking()))

# Python runs this in every job before anything else: one job of shards exits 1, the first time
ONCE = """
import os, sys
if "_job" in sys.orig_argv and any(word.startswith("bundles/") for word in sys.orig_argv):
    try:
        os.close(os.open({flag!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass
    else:
        os._exit(1)
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with cluster(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def wait_for(what: Callable[[], Any], seconds: float = 1800) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


@pytest.mark.slow
@pytest.mark.parametrize("shards", [2, 24])
def test_whatever_dies_the_store_is_the_same(
    tmp_path: Path, write_study: Callable[..., Path], whole_store: dict[str, bytes], slurm: dict[str, str], shards: int
) -> None:
    """A job of two shards is killed. Of more, one is killed, one cancelled, one fails; and the driver is killed."""
    file = write_study(shards=shards, more="gpus = 1")
    study = read_study(file)
    (cell,), numbers = study.cells, range(1, shards + 1)
    hook, flag = tmp_path / "hook", tmp_path / "failed-once"
    hook.mkdir()
    if shards > 2:
        (hook / "sitecustomize.py").write_text(ONCE.format(flag=str(flag)))
    paths = os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | slurm | {"PYTHONPATH": paths}
    command = [sys.executable, "-m", "rbp.cli", "study", "run", str(file), "--profile", "slurm"]

    def shard(number: int) -> Path:
        return study.out / "state" / "shards" / cell.name / f"{number}-of-{shards}.json"

    def running(number: int) -> dict[str, Any] | None:
        told = read_json(shard(number))
        return told if told and "seconds" not in told else None

    def any_running(*but: int) -> dict[str, Any] | None:
        return next(filter(None, (running(number) for number in numbers if number not in but)), None)

    def end(how: Callable[[dict[str, Any]], Any], *but: int) -> int:
        """End a shard that runs, whichever Slurm has started, and give its number."""
        told = wait_for(lambda: any_running(*but))
        how(told)
        return next(number for number in numbers if (read_json(shard(number)) or {}).get("pid") == told["pid"])

    def drive() -> "subprocess.Popen[bytes]":
        with (tmp_path / "driver.log").open("w") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    driver = drive()
    try:
        killed = end(lambda told: os.kill(told["pid"], 9))
        if shards > 2:
            end(lambda told: subprocess.run(["scancel", told["slurm"]], env=environment, check=True), killed)
            wait_for(flag.exists)
            wait_for(lambda: any_running(killed))
            driver.kill()  # while jobs are at work, and others in the queue
            driver.wait()
            driver = drive()
        assert driver.wait(3600) == 0, (tmp_path / "driver.log").read_text()
    finally:
        driver.kill()
        driver.wait()
    assert parts(study.ranks) == whole_store  # names and bytes: nothing is missing, different or double
    manifest = json.loads(next(study.ranks.glob("*/manifest.json")).read_text())
    assert manifest["complete"]
    assert set(manifest["parts"]) == set(whole_store)
    table = open_source(study.out / "measurements.parquet").table
    assert not table.duplicated(["dataset", "model", "metric", "k"]).any()
    assert set(table["tokens"].dropna()) == {manifest["tokens"]}
    gpus = {(read_json(shard(number)) or {}).get("gpu") for number in numbers}
    assert gpus <= {"0", "1", "2", "3"}  # each job asked for one, and got it
    bundles = (read_json(bundles_file(study)) or {}).values()
    assert len(bundles) < sum(len(bundle["shards"]) for bundle in bundles)  # short ones share a job
    status = subprocess.run(
        [sys.executable, "-m", "rbp.cli", "study", "status", str(file)], capture_output=True, text=True, check=True
    )
    assert "0 running, 0 failed, 0 left" in status.stdout
    queue = subprocess.run(["squeue", "-h"], env=environment, capture_output=True, text=True, check=True)
    assert not queue.stdout.strip()
