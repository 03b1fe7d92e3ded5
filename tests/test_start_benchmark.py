"""The benchmark of a short run, in small: it measures what it says, by the same pieces as an extraction."""

import json
import subprocess
import sys

import pytest
from toy_stores import make_store

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


@pytest.mark.parametrize("question", start.QUESTIONS)
def test_a_question_on_stores_imports_nothing_that_takes_long_and_that_it_does_not_need(tmp_path, question):
    """Three models, so that a law is fitted; each of the packages takes a tenth of a second or more."""
    for size in (1000, 2000, 4000):
        greater = [0] * (40 + size // 100) + [5] * 20 + [30] * 10
        make_store(tmp_path / "stores" / str(size), greater, [len(greater)], model=f"toy/{size}", size=size)
    place = {"store": tmp_path / "stores", "folder": tmp_path}
    words = [word.format(**place).replace("1000", "10") for word in start.QUESTIONS[question]]
    code = "import atexit, sys, rbp.cli; atexit.register(lambda: print('imported:', *sys.modules)); rbp.cli.main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    said, imported = done.stdout.split("imported:")
    assert "α" in said or question not in ("rbp fit", "rbp law")
    heavy = {"torch", "transformers", "sympy", "datasets", "nbformat", "papermill"}
    assert heavy & set(imported.split()) == set()
