"""A study: what its file may hold; killed, repeated and damaged, a run gives the bytes of one in one go."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from commands import here, refused
from tiny import save_model, texts, write_texts

from companion.project import LADDER
from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.measurements import open_source
from rbp.store import Store
from rbp.study.config import Study, read_study
from rbp.study.run import rank_shard, run_study, write_table
from rbp.texts.protocol import protocol

MODEL = LADDER / "families" / "neox" / "neox-10k-at-8m"
FILE = f"""
models = {{ neox = ["{MODEL}"] }}
corpora = ["ladder/humaneval"]
tokens = 1500
shards = 2
output = "out"
[protocol]
name = "authors"
length = 64
pack = 2
"""


def read(folder: Path, text: str) -> Study:
    path = folder / "s.toml"
    path.write_text(text)
    return read_study(path, folder / "runs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('models = ["a/b"]\ncorpora = ["wikpedia"]', 'Did you mean "wikipedia"?'),
        ('models = ["a/b"]\ncorpora = ["c4"]\ntoken = 9', 'Did you mean "tokens"?'),
        ('models = ["a/b", "c/b"]\ncorpora = ["c4"]', "b-c4 is there twice"),
        ('models = ["a/b"]\ncorpora = ["c4"]\n[protocol]\nlength = "9"', "length"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    refused(here("study", "plan", str(tmp_path / "s.toml")), message, "s.toml")


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"max_position_embeddings": 64}')
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    study = read(tmp_path, 'models = { Mine = ["model"] }\ncorpora = ["./text.jsonl"]\noutput = "here"')
    (cell,) = study.cells.values()
    assert (cell.model, cell.settings.family, study.out) == (str(tmp_path / "model"), "Mine", tmp_path / "here")
    assert cell.label == "model-text.jsonl"
    assert cell.inputs == [tmp_path / "model" / "config.json", tmp_path / "text.jsonl"]
    assert cell.protocol.length == 64  # own texts in windows that the model can read


def test_a_plan_is_that_of_each_pair(tmp_path):
    for name in ("one", "two"):
        save_model(tmp_path / name)
    corpus = write_texts(tmp_path / "text.jsonl", texts(4))
    (tmp_path / "s.toml").write_text('models = ["one", "two"]\ncorpora = ["text.jsonl"]\n[protocol]\nlength = 64')
    rows = here("study", "plan", str(tmp_path / "s.toml"), root=tmp_path).stdout.splitlines()[1:3]
    for name, row in zip(("one", "two"), rows, strict=True):
        alone = here("extract", "--model", str(tmp_path / name), "--corpus", str(corpus), "--length", "64", "--plan")
        assert row.split() == alone.stdout.splitlines()[1].split()


def unsharded(folder: Path) -> Store:
    """The store of the same measurement, made in one go without a study."""
    chosen, settings = protocol("authors", length=64, tokens=1500, pack=2), Settings(device="cpu", family="neox")
    return Store(extract([str(MODEL)], ["ladder/humaneval"], chosen, folder, settings)[0])


def parts(ranks: Path) -> dict[str, bytes]:
    """Every file of ranks below a folder of stores, by its name, without what a kill left half-written."""
    return {path.name: path.read_bytes() for path in ranks.glob("*/parts/[!.]*")}


def kill_first_shard(ranks: Path, driver: "subprocess.Popen[bytes]") -> None:
    """Kill with SIGKILL the process of a shard once a part is written."""
    while not list(ranks.glob("*/parts/[0-9]*")):
        assert driver.poll() is None
        time.sleep(0.02)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0") if path.exists() else []
        if b"_shard" in words and str(ranks.parent.parent).encode() in b" ".join(words):
            os.kill(int(path.parent.name), signal.SIGKILL)
            return
    raise AssertionError("no shard is running")


def test_of_two_runs_at_once_the_second_is_told(tmp_path):
    study = read(tmp_path, FILE)
    study.out.mkdir(parents=True)
    with (study.out / "lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another run of this study is at work"):
            run_study(study, Path("no such profile"))


@pytest.mark.long
def test_a_killed_shard_is_repeated_and_the_store_is_the_same(tmp_path):
    study, in_one_go = read(tmp_path, FILE), unsharded(tmp_path / "whole")
    command = [sys.executable, "-m", "rbp.cli", "study", "run", str(study.path), "--profile", "local"]
    with (tmp_path / "log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log)
    kill_first_shard(study.out / "ranks", driver)
    assert driver.wait(600) == 0, (tmp_path / "log").read_text()
    assert "Killed" in (tmp_path / "log").read_text()
    assert parts(study.out / "ranks") == parts(tmp_path / "whole")
    (merged,) = [Store(folder) for folder in (study.out / "ranks").iterdir()]
    same = ("key", "digest", "packs", "tokens", "complete", "parts")
    assert [merged.manifest[name] for name in same] == [in_one_go.manifest[name] for name in same]
    table = pd.read_csv(study.out / "measurements.csv")
    assert table["value"].tolist() == pytest.approx(open_source(in_one_go.folder).table["value"].tolist())

    # a damaged part is named, and then ranked again by the shards that run again, and nothing else
    before = {path: path.stat().st_mtime_ns for path in merged.folder.glob("parts/[!.]*")}
    (damaged := next(iter(before))).write_bytes(b"")
    with pytest.raises(DataError, match=damaged.name):
        write_table(study)
    (cell,) = study.cells.values()
    with contextlib.chdir(study.out):
        assert {rank_shard(cell, number, 2) for number in (1, 2)} == {merged.folder.relative_to(study.out)}
    assert parts(study.out / "ranks") == parts(tmp_path / "whole")
    assert {path for path in before if path.stat().st_mtime_ns != before[path]} == {damaged}
