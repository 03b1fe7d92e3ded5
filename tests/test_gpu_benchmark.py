"""`make gpu` without a GPU: parts that end in any way, and its parts in little, by Triton's interpreter."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import torch
from draws import rest_slow
from packaging.requirements import Requirement
from torch.overrides import TorchFunctionMode

from bench import exactness, gpu, ranking
from bench.gpu import LONGER, MACHINE, PARTS, Part, again, ask, resumed, talk
from rbp.core.paths import ROOT
from rbp.paper.appendix.gpu import worked

ABOUT = {"device": "a card", "interpreter": False, "code": "1", "versions": {"torch": "2"}, "date": "2026-01-02"}

STUB = """
import os, time
from pathlib import Path
from bench.common import Question

log = Path(__file__).with_name("asked")
calm = Path(__file__).with_name("calm")

def note(name):
    with log.open("a") as stream:
        stream.write(name + "\\n")

def well(name):
    note(name)
    return {"name": name, "twice": 2 * len(name), "errors": [float("nan"), {"x": float("-inf")}, 1.5]}

def ill(name):
    if calm.exists():
        return well(name)
    note(name)
    if name == "hangs":
        Path(__file__).with_name("hanging").write_text(str(os.getpid()))
        time.sleep(600)
    if name == "dies":
        os.kill(os.getpid(), 9)
    if name == "lacks":
        import nobody_has_this
    raise ValueError("no such thing")

def part(tiny):
    names = ["one", "raises", "two", "dies", "lacks", "three", "hangs", "four"]
    return [Question(n, lambda n=n: (ill if n in ("raises", "dies", "lacks", "hangs") else well)(n)) for n in names]

def machine(tiny):
    return [Question("machine", lambda: {"device": "a stub", "versions": {}, "date": "2026-01-02"})]

def lacking(tiny):
    import nobody_has_this

def wrong(tiny):
    return 1 / 0
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a module of bench whose questions do all that questions may do."""
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "stub.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gpu, "MACHINE", MACHINE._replace(module="stub"))
    return tmp_path / "bench"


class Clock:
    """Runs out as soon as a file of results shows that a question of this name is the next."""

    def __init__(self, place: Path, part: str, question: str) -> None:
        self.place, self.part, self.question, self.over = place, part, question, 0.0

    def __call__(self) -> float:
        if not self.over and self.place.exists():
            part = json.loads(self.place.read_bytes())["parts"].get(self.part, {"left": []})
            self.over = 1e6 if part["left"][:1] == [self.question] else 0.0
        return time.monotonic() + self.over


def python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(lines)]


def told(*lines: str, seconds: float = 60.0) -> tuple[str | None, list[Any]]:
    """How a command ended, and what it told through its descriptor `out`."""
    heard: list[Any] = []
    command = python("import os, sys, json", "out = int(os.environ['BENCH_TELLS'])", *lines)
    return talk(command, os.environ, {"x": [1]}, heard.append, gpu.clock() + seconds), heard


def test_what_runs_by_default_ends_within_6_minutes_and_the_first_answers_come_in_one() -> None:
    assert MACHINE.limit + sum(part.limit for part in PARTS.values()) <= 6 * 60
    assert list(PARTS)[:3] == ["kernels", "exactness", "ranking"]
    assert not PARTS.keys() & LONGER.keys()
    for part in (PARTS | LONGER).values():
        assert callable(getattr(import_module(f"bench.{part.module}"), part.function))
    first = exactness.questions(tiny=False)[:9]
    assert len({question.shape for question in first}) == 3
    assert {question.dtype for question in first[:3]} == {torch.float32, torch.bfloat16, torch.float16}
    asked = {question.name for question in ranking.part(tiny=False)}
    assert len(asked) == 27
    assert "4096 × 4096 × 262144 in float32" in asked


@pytest.mark.builds
def test_without_a_gpu_it_says_why_and_what_is_needed_and_exits_with_2(capfd, tmp_path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    place = tmp_path / "gpu.json"
    assert gpu.main(["--json", str(place)]) == 2
    said = capfd.readouterr().err
    assert f"error: no GPU: PyTorch {torch.__version__}" in said
    assert "driver" in said
    assert "compute capability 8.0" in said
    assert "--tiny" in said
    assert "Traceback" not in said
    assert not place.exists()


@pytest.mark.parametrize("arguments", [["nothing"], ["--tiny", "--json", str(gpu.GPU)]])
def test_a_wrong_part_and_a_gpus_place_for_others_figures_are_refused(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        gpu.main(arguments)
    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err


def ends(noted: Path) -> bool:
    """Whether the process whose number is noted in a file ends within ten seconds."""
    state = Path(f"/proc/{noted.read_text()}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().split()[2] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_a_process_that_ends_in_any_way_is_told_from_one_that_is_done() -> None:
    assert told("sys.exit(3)")[0] == "its process ended with 3"
    assert "signal 9" in str(told("os.kill(os.getpid(), 9)")[0])
    assert told("sys.stdin.read()") == (None, [])
    lines = (
        'given = json.load(sys.stdin)\nos.write(out, b\'{"a": 1}\\n{"b":\')\nos.write(out, b" %d}\\n{" % given["x"][0])'
    )
    assert told(lines) == (None, [{"a": 1}, {"b": 1}])  # the last line is not whole
    child = "import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], pass_fds=[out])"
    assert told(child) == (None, [])  # which still holds the descriptor


def test_a_process_that_hangs_is_ended_with_all_that_it_started(tmp_path) -> None:
    child = tmp_path / "child"
    ended, heard = told(
        "import subprocess, time",
        "process = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
        f"open({str(child)!r}, 'w').write(str(process.pid))",
        "os.write(out, b'{}\\n')",
        "time.sleep(600)",
        seconds=3,
    )
    assert (ended, heard) == ("the time is over", [{}])
    assert ends(child)


@pytest.mark.builds
def test_every_answer_is_written_at_once_and_only_what_is_missing_is_asked_again(stub, tmp_path, monkeypatch) -> None:
    place, parts = tmp_path / "gpu.json", {"all": Part("stub", "part", 60)}
    seen = []
    monkeypatch.setattr(gpu, "write_json", lambda path, value: seen.append(json.dumps(value)) or write(path, value))
    write = gpu.files_below.__globals__["write_json"]
    monkeypatch.setattr(gpu, "clock", Clock(place, "all", "hangs"))
    assert gpu.run(parts, False, place) == 1
    found = json.loads(place.read_bytes())["parts"]["all"]
    answers = {answer["question"]: answer for answer in found["answers"]}
    assert list(answers) == ["one", "raises", "two", "dies", "lacks", "three"]
    assert (answers["two"]["name"], answers["two"]["twice"]) == ("two", 6)
    assert answers["two"]["errors"] == ["nan", {"x": "-inf"}, 1.5]  # which JSON does not have
    assert answers["raises"]["error"] == "ValueError: no such thing"
    assert "Traceback" in answers["raises"]["traceback"]
    assert answers["dies"]["error"] == "its process was ended by signal 9"
    assert answers["lacks"]["left_out"] == "nobody_has_this is not installed"
    assert found["left"] == ["hangs", "four"]
    assert found["stuck"] == ["hangs"]
    assert "not done after 60 s" in found["error"]
    counts = [len(json.loads(text)["parts"]["all"]["answers"]) for text in seen]
    assert sorted(set(counts)) == [0, 1, 2, 3, 4, 5, 6]  # a file for each
    assert (stub / "asked").read_text().split() == ["one", "raises", "two", "dies", "lacks", "three", "hangs"]

    (stub / "asked").unlink()
    (stub / "calm").touch()
    monkeypatch.setattr(gpu, "clock", time.monotonic)
    assert gpu.run(parts, False, place) == 0
    assert (stub / "asked").read_text().split() == ["lacks", "four", "raises", "dies", "hangs"]  # the last ended ill
    whole = json.loads(place.read_bytes())["parts"]["all"]
    assert worked(whole)
    assert [a for a in whole["answers"] if a["question"] in ("one", "two", "three")] == [
        answers[name] for name in ("one", "two", "three")
    ]
    assert "error" not in whole
    (stub / "asked").unlink()
    assert gpu.run(parts, False, place) == 0
    assert not (stub / "asked").exists()


@pytest.mark.builds
@pytest.mark.parametrize("how", rest_slow([signal.SIGTERM], [signal.SIGKILL]))
def test_whatever_ends_the_program_its_answers_stay(stub, tmp_path, how) -> None:
    place, script = tmp_path / "gpu.json", tmp_path / "run.py"
    script.write_text(
        "import signal, sys\nfrom pathlib import Path\nfrom bench import gpu\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "gpu.MACHINE = gpu.MACHINE._replace(module='stub')\n"
        f"sys.exit(gpu.run({{'all': gpu.Part('stub', 'part', 60)}}, False, Path({str(place)!r})))\n"
    )
    command, own = [sys.executable, str(script)], os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
    with subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL) as process:
        clock = Clock(place, "all", "hangs")
        for _ in range(2400):
            if clock() and clock.over:
                break
            time.sleep(0.05)
        process.send_signal(how)
    assert ends(stub / "hanging")
    before = json.loads(place.read_bytes())["parts"]["all"]
    assert [answer["question"] for answer in before["answers"]][-1] == "three"
    (stub / "calm").touch()
    subprocess.run(command, env=own, stdout=subprocess.DEVNULL, check=True)
    after = json.loads(place.read_bytes())["parts"]["all"]
    assert worked(after)
    assert [answer for answer in before["answers"] if "twice" in answer] == after["answers"][:3]


@pytest.mark.builds
def test_a_part_that_cannot_be_asked_says_why(stub) -> None:
    for function, says in (("lacking", ("left_out", "nobody_has_this is not installed")), ("wrong", ("error", "Zero"))):
        now: dict[str, Any] = {"answers": [], "left": []}
        ask(Part("stub", function, 60), False, now, lambda _: None)
        assert says[1] in now[says[0]]
        assert worked(now) == (says[0] == "left_out")


def test_a_package_that_must_be_there_is_missed_with_an_error() -> None:
    assert gpu.reason(ModuleNotFoundError(name="pyarrow.parquet")) == {"left_out": "pyarrow is not installed"}
    for name in ("rbp.nothing", "triton", "transformers.models"):
        assert "error" in gpu.reason(ModuleNotFoundError(name, name=name))


def test_what_was_left_out_or_failed_is_asked_again() -> None:
    known = [{"question": "a"}, {"question": "b", "left_out": "x is not installed"}, {"question": "c", "failed": ["x"]}]
    known += [{"question": "d", "error": "x"}, {"question": "e", "left_out": [{"way": "x"}]}]
    begun = again({"answers": known, "left": ["f"], "error": "not done", "seconds": 2.0, "stuck": ["f"]})
    assert [answer["question"] for answer in begun["answers"]] == ["a", "e"]
    assert begun == {"answers": [known[0], known[4]], "left": [], "stuck": ["f", "c", "d"], "seconds": 2.0}


@pytest.mark.parametrize("other", [{"device": "b"}, {"code": "2"}, {"versions": {}}, {"interpreter": True}])
def test_what_another_card_code_or_version_gave_is_not_gone_on_with(tmp_path, other) -> None:
    place, part = tmp_path / "gpu.json", {"memory": {"answers": [{"question": "memory"}]}}
    place.write_text(json.dumps(ABOUT | {"parts": part}))
    assert resumed(place, ABOUT)["parts"] == part
    assert resumed(place, ABOUT | other)["parts"] == {}
    for text in ("{", "[]", "{}", json.dumps(ABOUT | {"parts": {"memory": {}}}), json.dumps(ABOUT | {"parts": []})):
        place.write_text(text)
        assert resumed(place, ABOUT)["parts"] == {}


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
    there = packages_distributions().items()
    blocked = {module for module, names in there if not set(map(_canonical, names)) & needed} - {"rbp", "bench"}
    (tmp_path / "sitecustomize.py").write_text(BLOCK.format(blocked=sorted(blocked)))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT / "src")]))
    return blocked


@pytest.mark.builds
def test_it_starts_on_a_bare_machine_and_leaves_out_what_needs_more(bare, tmp_path) -> None:
    assert {"pandas", "pyarrow", "pydantic", "rich", "duckdb", "datasets", "zstandard", "hypothesis"} <= bare
    place = tmp_path / "bare.json"
    parts = ["exactness", "ranking", "extraction Pythia-70M", "ladder", "tests", "devices"]
    command = [sys.executable, "-m", "bench.gpu", "--tiny", "--json", str(place), *parts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    found = in_little(place, parts)["parts"]
    for name in ("exactness", "ranking"):
        assert found[name]["answers"]
        assert not any(isinstance(answer.get("left_out"), str) for answer in found[name]["answers"])
    *ranked, whole = found["extraction Pythia-70M"]["answers"]
    assert all(answer["operations_per_second"] > 0 for answer in ranked)
    for left_out in (whole, found["ladder"], found["tests"], found["devices"]):
        assert "is not installed" in left_out["left_out"]


def in_little(place: Path, parts: list[str]) -> dict[str, Any]:
    """The results of these parts with --tiny: exact, by the interpreter."""
    results = json.loads(place.read_bytes())
    assert results["interpreter"]
    assert "interpreter" in results["device"]
    assert set(results["parts"]) == set(parts)
    exact = results["parts"]["exactness"]["answers"]
    assert {answer["wrong"] for answer in exact} == {0}
    assert {"bfloat16", "float16", "float32"} <= {answer["question"].split(", ")[1] for answer in exact}
    return dict(results)


@pytest.mark.slow
def test_all_parts_in_little_by_the_interpreter(tmp_path) -> None:
    pytest.importorskip("triton")
    place, parts = tmp_path / "tiny.json", [*PARTS, *LONGER]
    command = [sys.executable, "-m", "bench.gpu", "--tiny", "--json", str(place), *parts]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    answers = {name: part["answers"] for name, part in in_little(place, parts)["parts"].items()}
    assert answers["memory"][0]["halvings"]
    assert answers["two processes"][0]["differ"] == 0
    assert {row["why"] for answer in answers["ranking"] for row in answer["left_out"]} <= {"not installed"}


def test_a_wrong_kernel_is_found_out(monkeypatch) -> None:
    from rbp.ranks.kernel import linear_rank
    from rbp.ranks.kernel.problem import TokenRanks

    def off(place: int):
        def rank(*given, **options):
            got = linear_rank(*given, **options | {"backend": "reference"})
            greater, equal = got.greater.clone(), got.equal.clone()
            (greater if place >= 0 else equal)[max(place, 0)] -= place >= 0 or 1
            return TokenRanks(greater, equal, got.nll)

        return rank

    def failed(question: exactness.Question) -> str:
        return "; ".join(exactness.asked(question, "cpu")["failed"])

    small = [question for question in exactness.questions(True) if not question.options]
    assert not any(failed(question._replace(backend="reference")) for question in small)
    monkeypatch.setattr(exactness, "linear_rank", off(-1))  # a tie of the first position is missed
    assert all("wrong" in failed(question) for question in small if question.whole)
    assert all("untied" in failed(question) for question in small if not question.whole)
