"""`make gpu` without a GPU: parts that end in any way, and its parts in little, by Triton's interpreter."""

import json
import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from torch.overrides import TorchFunctionMode

from bench import common, exactness, gpu, ranking
from bench.gpu import PARTS, Part
from companion.project import ROOT

STUB = """
import os, subprocess, sys, time
from pathlib import Path
from bench.common import Question

def well(name):
    return {"name": name, "twice": 2 * len(name), "errors": [float("nan"), {"x": float("-inf")}, 1.5]}

def ill(name):
    if name == "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(__file__).with_name("child").write_text(str(child.pid))
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

def lacking(tiny):
    import nobody_has_this

def wrong(tiny):
    return 1 / 0
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a part of a module whose questions do all that questions may do; gives the exit code and the part."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "stub.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gpu, "no_gpu", lambda: None)
    monkeypatch.setattr(gpu, "machine", lambda tiny: {"device": "a stub", "versions": {}, "date": "2026-01-02"})
    place = tmp_path / "gpu.json"

    def started(function: str, limit: float = 60) -> tuple[int, dict[str, Any]]:
        code = gpu.run({"kernels": Part("stub", function, limit)}, False, place)
        return code, json.loads(place.read_bytes())["parts"]["kernels"]

    return started


def test_all_ends_within_6_minutes_and_the_kernels_come_first() -> None:
    assert sum(part.limit for part in PARTS.values()) <= 6 * 60
    assert list(PARTS)[:3] == ["kernels", "exactness", "ranking"]
    for part in PARTS.values():
        assert callable(getattr(import_module(f"bench.{part.module}"), part.function))
    first = exactness.questions(tiny=False)[:9]
    assert len({question.shape for question in first}) == 3
    assert {question.dtype for question in first[:3]} == {torch.float32, torch.bfloat16, torch.float16}
    names = {question.name for question in ranking.part(tiny=False)}
    assert len(names) == 27
    assert "4096 × 4096 × 262144 in float32" in names


def test_without_a_gpu_it_says_why_and_what_is_needed_and_exits_with_2(capsys, tmp_path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    place = tmp_path / "gpu.json"
    assert gpu.main(["--json", str(place)]) == 2
    said = capsys.readouterr().err
    assert f"error: PyTorch {torch.__version__} finds no GPU" in said
    assert "compute capability 8.0" in said
    assert "--tiny" in said
    assert not place.exists()


@pytest.mark.parametrize("arguments", [["nothing"], ["--tiny", "--json", str(common.GPU)]])
def test_a_wrong_part_and_a_gpus_place_for_others_figures_are_refused(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        gpu.main(arguments)
    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.builds
def test_answers_are_written_when_they_come_and_a_part_that_hangs_is_ended(run, tmp_path) -> None:
    code, part = run("hangs", limit=20)
    assert code == 1
    answers = {answer["question"]: answer for answer in part["answers"]}
    assert list(answers) == ["one", "raises", "lacks", "two"]
    assert (answers["two"]["name"], answers["two"]["twice"]) == ("two", 6)
    assert answers["two"]["errors"] == ["nan", {"x": "-inf"}, 1.5]  # which JSON does not have
    assert answers["raises"]["error"] == "ValueError: no such thing"
    assert "Traceback" in answers["raises"]["traceback"]
    assert answers["lacks"]["left_out"] == "nobody_has_this is not installed"
    assert part["left"] == ["hangs", "three"]
    assert part["error"] == "not done after 20 s"
    state = Path(f"/proc/{(tmp_path / 'bench' / 'child').read_text()}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail("what a part started goes on")


@pytest.mark.builds
def test_a_process_that_dies_leaves_its_answers(run) -> None:
    code, part = run("dies")
    assert code == 1
    assert [answer["question"] for answer in part["answers"]] == ["one"]
    assert part["left"] == ["dies", "two"]
    assert part["error"] == "its process ended with -9"


@pytest.mark.builds
def test_a_part_that_cannot_be_asked_says_why(run) -> None:
    code, part = run("lacking")
    assert (code, part["left_out"]) == (0, "nobody_has_this is not installed")
    code, part = run("wrong")
    assert (code, part["error"]) == (1, "ZeroDivisionError: division by zero")


def test_a_package_that_must_be_there_is_missed_with_an_error() -> None:
    assert gpu.reason(ModuleNotFoundError(name="pyarrow.parquet")) == {"left_out": "pyarrow is not installed"}
    for name in ("rbp.nothing", "triton", "transformers.models"):
        assert "error" in gpu.reason(ModuleNotFoundError(name, name=name))


def test_a_part_worked_where_all_is_there_and_nothing_failed() -> None:
    assert common.worked({"answers": [{"question": "a"}, {"question": "b", "left_out": "x"}], "left": []})
    for wrong in ({"left": ["c"]}, {"error": "x"}, {"answers": [{"error": "x"}]}, {"answers": [{"failed": ["x"]}]}):
        assert not common.worked({"answers": [], "left": []} | wrong)


class _Draws(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, own = getattr(function, "__name__", ""), kwargs or {}
        if name in ("randn", "randint", "rand", "randperm"):
            self.seen.append((own.get("device"), own["generator"].device.type))
        assert not (name == "to" and any(isinstance(each, str | torch.device) for each in args[1:])), "it is moved"
        return function(*args, **own)


def test_data_are_drawn_on_the_device_by_fixed_seeds() -> None:
    questions = exactness.questions(tiny=True)
    with _Draws() as draws:
        one = [exactness._case(question, "cpu") for question in questions]
        given = ranking.tensors(ranking.Shape(5, 4, 30), "cpu", "float16")
    assert len(draws.seen) >= 3 * len(questions)
    assert set(draws.seen) == {("cpu", "cpu")}
    for question, case in zip(questions, one, strict=True):
        assert torch.equal(case.weight, exactness._case(question, "cpu").weight)
    assert torch.equal(given[1], ranking.tensors(ranking.Shape(5, 4, 30), "cpu", "float16")[1])


BARE = "torch", "triton", "numpy", "transformers", "safetensors"
BLOCK = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *others):
        return None if name.split(".")[0] in {blocked!r} else self.finder.find_spec(name, *others)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


def _needed() -> set[str]:
    """The distributions without which one of BARE does not install."""
    found, left = set[str](), list(BARE)
    while left:
        name = _canonical(left.pop())
        if name not in found:
            found.add(name)
            try:
                lines = [Requirement(line) for line in requires(name) or []]
            except ModuleNotFoundError:  # of the build with CUDA
                lines = []
            left += [line.name for line in lines if line.marker is None or line.marker.evaluate({"extra": ""})]
    return found - {"pydantic", "rich"}  # of the command lines that come with transformers


def _canonical(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """As on a machine that has BARE and what they need, and nothing else: the modules that cannot be imported."""
    pytest.importorskip("triton")
    needed = _needed()
    there, ours = packages_distributions().items(), {"rbp", "ladder", "companion", "bench"}
    blocked = {module for module, names in there if not set(map(_canonical, names)) & needed} - ours
    (tmp_path / "sitecustomize.py").write_text(BLOCK.format(blocked=sorted(blocked)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "src")]))
    return blocked


@pytest.mark.builds
def test_all_parts_in_little_on_a_bare_machine(bare, tmp_path) -> None:
    assert {"pandas", "pyarrow", "pydantic", "rich", "duckdb", "datasets", "zstandard", "hypothesis"} <= bare
    place = tmp_path / "bare.json"
    command = [sys.executable, "-m", "bench.gpu", "--tiny", "--json", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    results = json.loads(place.read_bytes())
    assert results["interpreter"]
    assert "interpreter" in results["device"]
    found = results["parts"]
    assert set(found) == set(PARTS)
    exact = found["exactness"]["answers"]
    assert {answer["wrong"] for answer in exact} == {0}
    assert {"bfloat16", "float16", "float32"} <= {answer["question"].split(", ")[1] for answer in exact}
    assert all(answer["rows"] for answer in found["ranking"]["answers"])
    *ranked, whole = found["extraction Pythia-70M"]["answers"]
    assert all(answer["operations_per_second"] > 0 for answer in ranked)
    assert "is not installed" in whole["left_out"]


def test_a_wrong_kernel_is_found_out(monkeypatch) -> None:
    from rbp.kernel import linear_rank
    from rbp.kernel.problem import TokenRanks

    def off(place: int):
        def rank(*given, **options):
            got = linear_rank(*given, **options | {"backend": "reference"})
            greater, equal = got.greater.clone(), got.equal.clone()
            (greater if place >= 0 else equal)[max(place, 0)] -= place >= 0 or 1
            return TokenRanks(greater, equal, got.nll)

        return rank

    def failed(question: exactness.Question) -> str:
        return "; ".join(exactness.compare(question, "cpu")["failed"])

    small = [question for question in exactness.questions(True) if not question.options]
    assert not any(failed(question._replace(backend="reference")) for question in small)
    monkeypatch.setattr(exactness, "linear_rank", off(-1))  # a tie of the first position is missed
    assert all("wrong" in failed(question) for question in small if question.whole)
    assert all("untied" in failed(question) for question in small if not question.whole)
