"""`make gpu` without a GPU: its parts in little, by Triton's interpreter."""

import json
import os
import subprocess
import sys

import pytest

from bench.gpu import PARTS
from companion.project import ROOT


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
