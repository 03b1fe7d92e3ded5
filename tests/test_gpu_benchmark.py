"""`make gpu` without a GPU: parts that end in any way, and its parts in little, by Triton's interpreter."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from bench import common, exactness, gpu
from bench.gpu import PARTS, Part
from companion.project import ROOT
from rbp.kernel import linear_rank
from rbp.kernel.problem import TokenRanks

STUB = """
import os, subprocess, sys, time
from pathlib import Path
from bench.common import Question

def well(name):
    return {"name": name, "twice": 2 * len(name), "errors": [float("nan"), {"x": float("-inf")}, 1.5]}

def ill(name):
    if name == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(__file__).with_name("child.new").write_text(str(child.pid))
        Path(__file__).with_name("child.new").rename(Path(__file__).with_name("child"))
        time.sleep(600)
    if name == "dies":
        os.kill(os.getpid(), 9)
    if name == "lacks":
        import nobody_has_this
    raise ValueError("no such thing")

def questions(*names):
    return [Question(n, lambda n=n: (ill if n in ("raises", "dies", "lacks", "hangs") else well)(n)) for n in names]

def hangs(tiny):
    return questions("one", "raises", "lacks", "two", "hangs", "three")

def dies(tiny):
    return questions("one", "dies", "two")
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a part of a module whose questions do all that questions may do; gives the exit code and the part."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "stub.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gpu, "no_gpu", lambda: None)
    monkeypatch.setattr(gpu, "machine", lambda tiny: {"device": "a stub", "versions": {}, "date": "2026-01-02"})

    def started(function: str) -> tuple[int, dict[str, Any]]:
        place = tmp_path / "gpu.json"
        code = gpu.run({"kernels": Part("stub", function, 60)}, False, place)
        return code, json.loads(place.read_bytes())["parts"]["kernels"]

    return started


def test_without_a_gpu_it_says_why_and_what_is_needed_and_exits_with_2(capsys, tmp_path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert sum(part.limit for part in PARTS.values()) <= 6 * 60
    place = tmp_path / "gpu.json"
    assert gpu.main(["--json", str(place)]) == 2
    said = capsys.readouterr().err
    assert f"error: PyTorch {torch.__version__} finds no GPU" in said
    assert "--tiny" in said
    assert not place.exists()


@pytest.mark.parametrize("arguments", [["nothing"], ["--tiny", "--json", str(common.GPU)]])
def test_a_wrong_part_and_a_gpus_place_for_others_figures_are_refused(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        gpu.main(arguments)
    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.builds
def test_answers_are_written_when_they_come_and_a_part_that_hangs_is_ended(run, tmp_path, monkeypatch) -> None:
    child = tmp_path / "bench" / "child"

    class Hanging(subprocess.Popen):
        def wait(self, timeout: float | None = None) -> int:
            while timeout and not child.exists():
                time.sleep(0.05)
            if timeout:  # the part's limit, which is not waited for
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().wait()

    monkeypatch.setattr(gpu.subprocess, "Popen", Hanging)
    code, part = run("hangs")
    assert code == 1
    answers = {answer["question"]: answer for answer in part["answers"]}
    assert list(answers) == ["one", "raises", "lacks", "two"]
    assert (answers["two"]["name"], answers["two"]["twice"]) == ("two", 6)
    assert answers["two"]["errors"] == ["nan", {"x": "-inf"}, 1.5]  # which JSON does not have
    assert answers["raises"]["error"] == "ValueError: no such thing"
    assert "Traceback" in answers["raises"]["traceback"]
    assert answers["lacks"]["left_out"] == "nobody_has_this is not installed"
    assert (part["left"], part["error"]) == (["hangs", "three"], "not done after 60 s")
    for _ in range(100):
        number = int(child.read_text())
        if not psutil.pid_exists(number) or psutil.Process(number).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    pytest.fail("what a part started goes on")


@pytest.mark.builds
def test_a_process_that_dies_leaves_its_answers(run) -> None:
    code, part = run("dies")
    assert (code, part["left"], part["error"]) == (1, ["dies", "two"], "its process ended with -9")
    assert [answer["question"] for answer in part["answers"]] == ["one"]


def test_a_part_worked_where_all_is_there_and_nothing_failed() -> None:
    assert common.worked({"answers": [{"question": "a"}, {"question": "b", "left_out": "x"}], "left": []})
    for wrong in ({"left": ["c"]}, {"error": "x"}, {"answers": [{"error": "x"}]}, {"answers": [{"failed": ["x"]}]}):
        assert not common.worked({"answers": [], "left": []} | wrong)
    for name in ("rbp.nothing", "triton", "transformers.models"):  # what must be there
        assert "error" in gpu.reason(ModuleNotFoundError(name, name=name))


#: what a machine with torch, triton, numpy, transformers and safetensors need not have
LACKING = "pandas pandera pyarrow pydantic rich duckdb datasets zstandard hypothesis scipy matplotlib peft gguf"
BLOCK = f"""
import sys
sys.modules.update(dict.fromkeys({LACKING.split()}))
"""


@pytest.mark.builds
def test_the_parts_in_little_on_a_bare_machine(tmp_path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    place = tmp_path / "bare.json"
    parts = [name for name in PARTS if name != "extraction Pythia-1.4B"]  # in little it is Pythia-70M's
    command = [sys.executable, "-m", "bench.gpu", *parts, "--tiny", "--json", str(place)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    results = json.loads(place.read_bytes())
    assert results["interpreter"]
    found = results["parts"]
    assert set(found) == set(parts)
    exact = found["exactness"]["answers"]
    assert {answer["wrong"] for answer in exact} == {0}
    assert {"bfloat16", "float16", "float32"} <= {answer["question"].split(", ")[1] for answer in exact}
    assert all(answer["rows"] for answer in found["ranking"]["answers"])
    *ranked, whole = found["extraction Pythia-70M"]["answers"]
    assert all(answer["operations_per_second"] > 0 for answer in ranked)
    assert "is not installed" in whole["left_out"]


def test_a_wrong_kernel_is_found_out(monkeypatch) -> None:
    def missing_a_tie(*given, **options):
        got = linear_rank(*given, **options | {"backend": "reference"})
        equal = got.equal.clone()
        equal[0] -= 1
        return TokenRanks(got.greater, equal, got.nll)

    def failed(question: exactness.Question) -> str:
        return "; ".join(exactness.compare(question, "cpu")["failed"])

    small = [question for question in exactness.questions(True) if not question.options]
    assert not any(failed(question._replace(backend="reference")) for question in small)
    monkeypatch.setattr(exactness, "linear_rank", missing_a_tie)
    assert all(("wrong" if question.whole else "untied") in failed(question) for question in small)
