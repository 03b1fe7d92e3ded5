"""`make gpu` without a GPU: what it does with parts that fail, and its parts in little, by Triton's interpreter."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from draws import loop_and_slow

from bench import gpu
from bench.gpu import PARTS, apart, beside_aims, resumed
from rbp.core.paths import ROOT
from rbp.paper.gpu import gpu_shown, worked

MACHINE = {"device": "a card", "interpreter": False, "code": "1", "versions": {"torch": "2"}, "date": "2026-01-02"}


def python(*lines: str) -> list[str]:
    return [sys.executable, "-c", "\n".join(lines)]


def test_all_parts_end_within_20_minutes() -> None:
    assert sum(part.limit for part in PARTS.values()) < 20 * 60


def test_without_a_gpu_it_says_so_and_exits_with_2(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    place = tmp_path / "gpu.json"
    assert gpu.main(["--json", str(place)]) == 2
    assert "no GPU" in (said := capsys.readouterr().err)
    assert "--tiny" in said
    assert "Traceback" not in said
    assert not place.exists()


@pytest.mark.parametrize("arguments", [["nothing"], ["--tiny", "--json", str(gpu.GPU)]])
def test_a_wrong_part_and_a_gpus_place_for_others_figures_are_refused(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as left:
        gpu.main(arguments)
    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_part_that_ends_in_any_way_is_told_from_one_that_is_done(tmp_path) -> None:
    out = tmp_path / "out.json"
    write = f"open({str(out)!r}, 'w').write"
    assert apart(python("import sys; sys.exit(3)"), out, 60, {})["error"] == "its process ended with 3"
    assert "signal 9" in apart(python("import os; os.kill(os.getpid(), 9)"), out, 60, {})["error"]
    assert "error" in apart(python(f"{write}('{{')"), out, 60, {})
    found = apart(python("import json, os", f"{write}(json.dumps({{'x': os.environ['X']}}))"), out, 60, {"X": "1"})
    assert found.pop("seconds") >= 0
    assert found == {"x": "1"}


def test_a_part_that_hangs_is_ended_with_all_that_it_started(tmp_path) -> None:
    child = tmp_path / "child"
    hanging = python(
        "import subprocess, sys, time",
        "process = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])",
        f"open({str(child)!r}, 'w').write(str(process.pid))",
        "time.sleep(600)",
    )
    assert apart(hanging, tmp_path / "out.json", 3, {})["error"] == "not done after 3 s"
    state = Path(f"/proc/{child.read_text()}/stat")
    for _ in range(100):
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("it lives on")


def test_a_part_that_raises_gives_its_error(monkeypatch) -> None:
    monkeypatch.setattr("bench.ranking.part", lambda tiny: 1 / 0)
    found = gpu.work("ranking", True)
    assert found["error"] == "ZeroDivisionError: division by zero"
    assert "Traceback" in found["traceback"]


def test_after_a_failure_the_others_run_and_again_only_what_failed(monkeypatch, tmp_path) -> None:
    place, asked, broken = tmp_path / "gpu.json", [], {"memory"}

    def about(name: str, tiny: bool) -> dict:
        asked.append(name)
        if name == "machine":
            return MACHINE | {"seconds": 1.0}
        if name != "exactness":
            assert json.loads(place.read_bytes())["parts"].keys() == {"exactness", "memory", "ladder"} & set(asked[:-1])
        return ({"error": "no memory"} if name in broken else {"failed": []}) | {"seconds": 1.0}

    monkeypatch.setattr(gpu, "about", about)
    monkeypatch.setattr(gpu, "code", lambda: "1")
    monkeypatch.setattr(gpu, "show", lambda *_: None)
    names = ["exactness", "memory", "ladder"]
    assert gpu.run(names, False, place) == 1
    results = json.loads(place.read_bytes())
    assert results["parts"]["memory"]["error"] == "no memory"
    assert worked(results["parts"]["ladder"])
    assert (results["device"], results["date"]) == ("a card", "2026-01-02")
    broken.clear()
    asked[:] = ["exactness", "memory", "ladder"]
    assert gpu.run(names, False, place) == 0
    assert asked[3:] == ["machine", "memory"]


@pytest.mark.parametrize("other", [{"device": "b"}, {"code": "2"}, {"versions": {}}, {"interpreter": True}])
def test_what_another_card_code_or_version_gave_is_not_gone_on_with(tmp_path, other) -> None:
    place = tmp_path / "gpu.json"
    place.write_text(json.dumps(MACHINE | {"parts": {"memory": {}}}))
    assert resumed(place, MACHINE)["parts"] == {"memory": {}}
    assert resumed(place, MACHINE | other)["parts"] == {}
    for text in ("{", "[]", "{}"):
        place.write_text(text)
        assert resumed(place, MACHINE)["parts"] == {}


def test_aims_stand_beside_our_figures() -> None:
    rows = [
        {"d": d, "vocabulary": v, "way": way, "ratio": ratio}
        for d, v, way, ratio in [
            (4096, 128256, "ours: linear_rank", 1.06),
            (768, 50304, "ours: linear_rank", 1.3),
            (768, 50304, "plain route", 9.0),
            (16, 300, "ours: linear_rank", 9.0),
        ]
    ]
    assert [line.rsplit(": ", 1)[1] for line in beside_aims({"rows": rows})] == ["missed", "met"]


@pytest.mark.builds
@pytest.mark.parametrize("parts", loop_and_slow(["exactness"], []))
def test_the_parts_in_little_by_the_interpreter(tmp_path, parts) -> None:
    pytest.importorskip("triton")
    place = tmp_path / "tiny.json"
    command = [sys.executable, "-m", "bench.gpu", "--tiny", "--json", str(place), *parts]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    results = json.loads(place.read_bytes())
    assert results["interpreter"]
    assert "interpreter" in results["device"]
    assert list(results["parts"]) == sorted(parts or set(PARTS) - {"machine"})
    exact = results["parts"]["exactness"]["answers"]
    assert {answer["wrong"] for answer in exact} == {0}
    assert {"bfloat16", "float16", "float32"} <= {answer["question"].split(", ")[1] for answer in exact}
    assert gpu_shown(results)["table"].part.nunique() == len(results["parts"])  # the book can show all of them
    if not parts:
        assert results["parts"]["memory"]["halvings"]
        assert results["parts"]["two processes"]["differ"] == 0
        left_out = {row["why"] for row in results["parts"]["ranking"]["left_out"]}
        assert left_out <= {"not installed"}


def test_a_wrong_kernel_is_found_out(monkeypatch) -> None:
    from bench import exactness
    from rbp.ranks.kernel import linear_rank
    from rbp.ranks.kernel.problem import TokenRanks

    def off(place: int):
        def rank(*given, **options):
            got = linear_rank(*given, **options | {"backend": "reference"})
            greater, equal = got.greater.clone(), got.equal.clone()
            (greater if place >= 0 else equal)[max(place, 0)] -= place >= 0 or 1
            return TokenRanks(greater, equal, got.nll)

        return rank

    small = [question for question in exactness.questions(True) if not question.options]
    assert not any(exactness.asked(question._replace(backend="reference"), "cpu")["failed"] for question in small)
    monkeypatch.setattr(exactness, "linear_rank", off(-1))  # a tie of the first position is missed
    assert all("wrong" in exactness.asked(question, "cpu")["failed"] for question in small if question.whole)
    assert all("untied" in exactness.asked(question, "cpu")["failed"] for question in small if not question.whole)
