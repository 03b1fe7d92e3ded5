"""The benchmark of a short run, in small: it measures what it says, by the same pieces as an extraction."""

import json
import sys

import pytest

from bench import start
from bench.extraction import Shape, make


@pytest.mark.slow
def test_both_ways_and_the_parts(tmp_path):
    model, corpus = make(tmp_path, Shape("tiny", 1, 16, 2, 32, 1000, 1), "cpu")
    assert start.process([*start.PLAINLY, str(model), str(corpus)], start.BENCH.parent)[0] > 0
    seconds, used = start.process(start.extraction(tmp_path, model, corpus), tmp_path)
    assert used > 0
    assert seconds > 0.1
    (store,) = (tmp_path / "stores").iterdir()
    assert json.loads((store / "manifest.json").read_text())["about"]["check"]["rows"] == 1
    found = start.parts(str(model), str(corpus))
    assert list(found)[:3] == ["import torch", "import the model's class", "import rbp"]
    assert {"tokenizer", "weights", "text", "checks before", "ranks", "store", "a sample asked again"} < found.keys()


def test_time_to_import_is_added_up_by_package(tmp_path):
    (tmp_path / "slow_one").mkdir()
    (tmp_path / "slow_one" / "__init__.py").write_text("import slow_one.inner, time; time.sleep(0.15)")
    (tmp_path / "slow_one" / "inner.py").write_text("import time; time.sleep(0.15)")
    found = start.packages([sys.executable, "-c", "import slow_one"], tmp_path)
    assert found["slow_one"] >= 0.3
    assert "json" not in found  # less than a tenth of a second
