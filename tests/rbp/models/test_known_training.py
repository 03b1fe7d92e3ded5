"""What is known of a model's training: who says it, and that they agree."""

import json
from pathlib import Path

import pytest

from companion.project import LADDER
from rbp.errors import DataError
from rbp.models.find import ModelFiles, find_model
from rbp.models.training import PYTHIA_STEP, Training, training_of


def files(folder, checkpoint=None, name=None, commit=None):
    return ModelFiles(name or str(folder), folder, commit, (), None, checkpoint)


def run(root, state=None, table=None):
    """A run's folder with a checkpoint as transformers' Trainer leaves it."""
    folder = root / "run" / "checkpoint-500"
    folder.mkdir(parents=True, exist_ok=True)
    if state is not None:
        (folder / "trainer_state.json").write_text(json.dumps(state))
    if table is not None:
        (folder.parent / "checkpoints.csv").write_text(table)
    return files(folder, "checkpoint-500")


def test_every_source_is_heard(tmp_path, caplog):
    assert training_of(run(tmp_path)) == Training("checkpoint-500", None, 500)
    assert training_of(run(tmp_path, {"global_step": 500, "num_input_tokens_seen": 0})).training_tokens is None
    table = "model,seed,compute,tokens\ncheckpoint-500,3,1e12,1\nother,4,,1\n"
    state = {"global_step": 500, "num_input_tokens_seen": 64_000}
    found = training_of(run(tmp_path, state, table))
    assert found == Training("checkpoint-500", 64_000, 500, 3, 1e12)
    assert "columns are ignored: tokens" in caplog.text
    assert training_of(files(Path("/none"), None)) == Training()
    ladders = training_of(find_model(str(LADDER / "families" / "neox" / "neox-10k-at-8m")))
    assert ladders == Training(None, 8_000_000, 3906, 0)


def test_pythias_recipe_is_known():
    for name, revision, step in (("pythia-70m", None, 143_000), ("pythia-1.4b-deduped", "step1000", 1000)):
        found = training_of(files(Path("/none"), revision, f"EleutherAI/{name}", "0" * 40))
        assert (found.step, found.training_tokens, found.revision) == (step, step * PYTHIA_STEP, revision)
    assert training_of(files(Path("/none"), None, "EleutherAI/pythia-70m-v0", "0" * 40)).training_tokens is None
    assert 143_000 * PYTHIA_STEP == 299_892_736_000  # Biderman et al., section 2.2


@pytest.mark.parametrize(
    ("state", "table", "words"),
    [
        ({"global_step": 400}, None, "step is 500 by the revision's name, and 400 by trainer_state.json"),
        (None, "model,training_tokens\ncheckpoint-500,499\n", "499 training tokens do not fit 500 steps"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, state, table, words):
    with pytest.raises(DataError, match=words):
        training_of(run(tmp_path, state, table))
