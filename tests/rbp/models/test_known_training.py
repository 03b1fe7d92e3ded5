"""What is known of a model's training: who says it, and that they agree."""

import json
from pathlib import Path

import pytest

from rbp.errors import DataError
from rbp.models.find import ModelFiles
from rbp.models.training import PYTHIA_STEP, Training, training_of


def run(root, state, table):
    """A run's folder with a checkpoint as transformers' Trainer leaves it, and a table beside."""
    folder = root / "run" / "checkpoint-500"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps(state))
    (folder.parent / "checkpoints.csv").write_text(table)
    return ModelFiles(str(folder), folder, None, (), None, "checkpoint-500")


def test_every_source_is_heard(tmp_path):
    table = "model,seed,compute,tokens\ncheckpoint-500,3,1e12,1\nother,4,,1\n"
    state = {"global_step": 500, "num_input_tokens_seen": 64_000}
    assert training_of(run(tmp_path, state, table)) == Training("checkpoint-500", 64_000, 500, 3, 1e12)


def test_pythias_recipe_is_known():
    for name, revision, step in (("pythia-70m", None, 143_000), ("pythia-1.4b-deduped", "step1000", 1000)):
        found = training_of(ModelFiles(f"EleutherAI/{name}", Path("/none"), "0" * 40, (), None, revision))
        assert (found.step, found.training_tokens, found.revision) == (step, step * PYTHIA_STEP, revision)
    assert 143_000 * PYTHIA_STEP == 299_892_736_000  # Biderman et al., section 2.2


@pytest.mark.parametrize(
    ("step", "tokens", "words"),
    [
        (400, 64_000, "step is 500 by the revision's name, and 400 by trainer_state.json"),
        (500, 499, "499 training tokens do not fit 500 steps"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, step, tokens, words):
    table = f"model,training_tokens\ncheckpoint-500,{tokens}\n"
    with pytest.raises(DataError, match=words):
        training_of(run(tmp_path, {"global_step": step}, table))
