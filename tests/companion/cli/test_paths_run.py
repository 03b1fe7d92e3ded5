"""`rbp paths run`, from a folder of a model to tables; and what it refuses, before anything is written."""

import pandas as pd
import pytest
from commands import here, refused
from tiny import make_tokenizer, save_model, texts, write_texts

from companion.damage import measure
from companion.damage.compare import CELL, open_paths


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two models of one tokenizer, and a text."""
    root, tokenizer = tmp_path_factory.mktemp("paths"), make_tokenizer()
    for kind in ("gpt2", "neox"):
        save_model(root / kind, kind, tokenizer)
    write_texts(root / "mine.jsonl", texts(6, seed=3, longest=400))
    return root


@pytest.mark.long
def test_a_model_is_made_worse_and_compared_and_a_run_goes_on_where_it_was_stopped(place, monkeypatch):
    command = ["paths", "run", "--model", "gpt2", "--corpus", "mine.jsonl", "--paths", "depth,bits"]
    command += ["--smaller", "neox"]
    done = []

    def measured(ranker, read, step=measure.WHOLE_STEP):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(step.path)
        return measure_step(ranker, read, step)

    measure_step = measure.measured
    monkeypatch.setattr(measure, "measured", measured)
    assert here(*command, cwd=place).returncode == 130
    done.append("stopped")
    folder = place / here(*command, cwd=place).stdout.strip()
    assert done == ["whole", "depth", "depth", "stopped", *["bits"] * 5, "parameters"]
    kept = (folder / "sums.parquet").read_bytes()
    assert here(*command, cwd=place).returncode == 0
    assert (folder / "sums.parquet").read_bytes() == kept
    assert len(done) == 10, "nothing is measured twice"
    assert not open_paths(folder).sums.duplicated([*CELL, "document"]).any()
    steps = pd.read_csv(folder / "steps.csv")
    assert steps["path"].value_counts().to_dict() == {"whole": 1, "depth": 2, "bits": 5, "parameters": 1}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (["--paths", "luck"], ["there is no path 'luck'", "context, depth"]),
        (["--length", "90"], ["windows of 90 tokens", "128"]),
    ],
)
def test_bad_input_is_refused(place, changed, words):
    given = {"--model": "gpt2", "--corpus": "mine.jsonl", "--paths": "bits", "--length": "128", "--out": "refused"}
    given |= dict(zip(changed[::2], changed[1::2], strict=True))
    refused(here("paths", "run", *(part for pair in given.items() for part in pair), cwd=place), *words)
    assert not (place / "refused").exists()
