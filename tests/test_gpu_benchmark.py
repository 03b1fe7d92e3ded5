"""`make gpu` without a GPU: its parts in little, by Triton's interpreter, and a wrong kernel, which it finds."""

import json
import os
import subprocess
import sys
import time

import pytest

from bench import exactness
from bench.extraction import LENGTH, parts_of
from bench.gpu import PARTS
from companion.project import ROOT
from rbp.extract import extraction
from rbp.kernel import linear_rank
from rbp.kernel.problem import TokenRanks

#: what a machine with torch, triton, numpy, transformers and safetensors need not have
LACKING = "pandas pandera pyarrow pydantic rich duckdb datasets zstandard hypothesis scipy matplotlib peft gguf"
#: `bench.gpu` on such a machine; but one part in a process of its own, since each would import torch anew
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({LACKING.split()}))
from bench import gpu
apart = gpu.in_a_process
gpu.in_a_process = lambda name, *given: apart(name, *given) if name == "ranking" else gpu.ask(name, *given[:2])
sys.exit(gpu.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_the_parts_in_little_on_a_bare_machine(tmp_path):
    pytest.importorskip("triton")
    place = tmp_path / "bare.json"
    command = [sys.executable, "-c", PROGRAM, "--tiny", "--json", str(place)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TRITON_INTERPRET": "1", "CXX": "no compiler"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    results = json.loads(place.read_bytes())
    assert results["interpreter"]
    found = results["parts"]
    assert set(found) == set(PARTS)
    exact = found["exactness"]["answers"]
    assert {answer["wrong"] for answer in exact} == {0}
    assert {"bfloat16", "float16", "float32"} <= {answer["question"].split(", ")[1] for answer in exact}
    assert all(answer["rows"] for answer in found["ranking"]["answers"])
    *ranked, long = [answer for answer in found["extraction"]["answers"] if "left_out" not in answer]
    assert all(answer["operations_per_second"] > 0 for answer in (*ranked, long))
    assert long["tokens"] == 4 * LENGTH - 1
    left_out = [answer["left_out"] for answer in found["extraction"]["answers"] if "left_out" in answer]
    assert len(left_out) == 2, "whole calls, of which one reads more"
    assert all("is not installed" in each for each in left_out)


def test_the_parts_of_a_call_are_what_the_extraction_spends_in_other_modules(monkeypatch):
    monkeypatch.setattr(extraction, "quiet", lambda: time.sleep(0.2))
    code = compile("def work():\n    quiet()\n", extraction.__file__, "exec")
    exec(code, vars(extraction))  # noqa: S102  # a function of that module
    parts = parts_of(vars(extraction).pop("work"))
    assert list(parts) == ["test_gpu_benchmark.<lambda>", "the rest"]
    assert 0.2 <= parts["test_gpu_benchmark.<lambda>"] < 2
    assert parts["the rest"] < 0.1


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
