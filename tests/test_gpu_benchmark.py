"""`make gpu` without a GPU: its parts in little, by Triton's interpreter, and a wrong kernel, which it finds."""

import json
import os
import subprocess
import sys

import pytest

from bench import exactness
from bench.gpu import PARTS
from companion.project import ROOT
from rbp.kernel import linear_rank
from rbp.kernel.problem import TokenRanks


@pytest.mark.slow
def test_the_parts_in_little(tmp_path):
    pytest.importorskip("triton")
    place = tmp_path / "bare.json"
    command = [sys.executable, "-m", "bench.gpu", "--tiny", "--json", str(place)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    found = json.loads(place.read_bytes())["parts"]
    assert set(found) == set(PARTS)
    assert {answer["wrong"] for answer in found["exactness"]["answers"]} == {0}
    assert all(answer["rows"] for answer in found["ranking"]["answers"])
    assert all("left_out" in answer or answer["tokens"] for answer in found["extraction"]["answers"])


def test_a_wrong_kernel_is_found_out(monkeypatch):
    def missing_a_tie(*given, **options):
        got = linear_rank(*given, **options | {"backend": "reference"})
        equal = got.equal.clone()
        equal[0] -= 1
        return TokenRanks(got.greater, equal, got.nll, got.top)

    def failed(question):
        return "; ".join(exactness.compare(question, "cpu")["failed"])

    small = [question for question in exactness.questions(True) if not question.options]
    assert not any(failed(question._replace(backend="reference")) for question in small)
    monkeypatch.setattr(exactness, "linear_rank", missing_a_tie)
    assert all(("wrong" if question.whole else "untied") in failed(question) for question in small)
