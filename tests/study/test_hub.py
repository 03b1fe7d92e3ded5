"""A study that needs the hub, and does not reach it: said once, in two lines, before anything starts."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rbp.core.errors import DataError
from rbp.core.files import write_json
from rbp.core.paths import Project
from rbp.study import workflow
from rbp.study.config import Study, read_study
from rbp.study.jobs import fetch_job
from rbp.study.workflow import Place

FILE = 'models = ["openai-community/gpt2", "EleutherAI/pythia-14m"]\ncorpora = ["humaneval"]\noutput = "out"'


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study of two models and a corpus of the hub, none of which is here; and the hub does not answer."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(workflow, "_answers", lambda name: False)
    path = tmp_path / "s.toml"
    path.write_text(FILE)
    return read_study(path)


def test_what_cannot_be_downloaded_is_counted(far: Study) -> None:
    with pytest.raises(DataError, match="openai-community/gpt2 and 2 more must be downloaded") as error:
        workflow.run(far, Project(), Place("local", "cpu", (), False))
    assert "HF_HUB_OFFLINE" in str(error.value.remedy)
    assert not far.out.exists()


def test_what_is_here_is_not_asked_for(far: Study, tmp_path: Path) -> None:
    for name in ("models--openai-community--gpt2", "datasets--openai--openai_humaneval"):
        (tmp_path / "cache" / name / "snapshots" / "0123").mkdir(parents=True)
    with pytest.raises(DataError, match="EleutherAI/pythia-14m must be downloaded"):
        workflow.must_reach(far)
    write_json(far.out / fetch_job("EleutherAI/pythia-14m").output, {"revision": "0123"})
    workflow.must_reach(far)


def test_a_hub_that_answers_stops_nothing(far: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "_answers", lambda name: True)
    workflow.must_reach(far)


@pytest.mark.builds
@pytest.mark.parametrize("environment", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_without_a_network_the_command_ends_at_once(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "s.toml").write_text(FILE)
    rest = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    command = [sys.executable, "-m", "rbp.cli", "study", "run", str(tmp_path / "s.toml"), "--profile", "local"]
    start = time.monotonic()
    ended = subprocess.run(
        command, env={**rest, "HF_HOME": str(tmp_path / "hub"), **environment}, capture_output=True, text=True
    )
    assert time.monotonic() - start < 60
    assert ended.returncode == 2
    assert "the hub cannot be reached" in ended.stderr
    assert "Traceback" not in ended.stderr
