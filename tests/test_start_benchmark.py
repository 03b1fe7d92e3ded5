"""The benchmark of a short run, in small; and what questions on stores import."""

import json
import subprocess
import sys

import pytest
from toy_stores import make_store

from bench import start
from bench.extraction import Shape, make

QUESTIONS = {
    "rbp ranks summary": ["ranks", "summary", "{store}", "--k", "1,10"],
    "rbp ranks query": ["ranks", "query", "SELECT count(*) FROM ranks", "--stores", "{store}"],
    "rbp compare": ["compare", "{store}/1000", "{store}/1000"],
    "rbp fit": ["fit", "--measurements", "published", "--dataset", "wikipedia", "--family", "Pythia", "--k", "1"],
    "rbp law": ["law", "{store}", "-k", "10", "--out", "{folder}/law.html"],
}


@pytest.mark.slow
def test_both_ways_are_processes(tmp_path):
    model, corpus = make(tmp_path, Shape("tiny", 1, 16, 2, 32, 1000, 1), "cpu")
    assert start.process([*start.PLAINLY, str(model), str(corpus), "31"], start.BENCH.parent)[0] > 0
    seconds, used = start.process(start.extraction(tmp_path, model, corpus), tmp_path)
    assert used > 0
    assert seconds > 0.1
    (store,) = (tmp_path / "stores").iterdir()
    assert json.loads((store / "manifest.json").read_text())["about"]["check"]["rows"] == 1


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_on_stores_imports_nothing_that_takes_long_and_that_it_does_not_need(tmp_path, question):
    """Three models, so that a law is fitted; each of the packages takes a tenth of a second or more."""
    for size in (1000, 2000, 4000):
        greater = [0] * (40 + size // 100) + [5] * 20 + [30] * 10
        make_store(tmp_path / "stores" / str(size), greater, [len(greater)], model=f"toy/{size}", size=size)
    place = {"store": tmp_path / "stores", "folder": tmp_path}
    words = [word.format(**place) for word in QUESTIONS[question]]
    code = "import atexit, sys, rbp.cli; atexit.register(lambda: print('imported:', *sys.modules)); rbp.cli.main()"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    said, imported = done.stdout.split("imported:")
    assert "α" in said or question not in ("rbp fit", "rbp law")
    heavy = {"torch", "transformers", "sympy", "datasets", "nbformat", "papermill"}
    assert heavy & set(imported.split()) == set()
