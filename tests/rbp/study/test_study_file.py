"""A study's file: what it may hold, the message for what it may not, and what it will cost."""

from pathlib import Path

import pytest
from commands import here, refused
from tiny import random_model

from companion.project import LADDER, ROOT
from rbp.errors import RbpError
from rbp.registry import known_models
from rbp.study.config import Study, read_study
from rbp.study.plan import job_memory, make_plan

MODEL = LADDER / "families" / "neox" / "neox-10k-at-8m"


def read(folder: Path, text: str) -> Study:
    path = folder / "s.toml"
    path.write_text(text)
    return read_study(path, folder / "runs")


def test_the_papers_study_is_all_models_on_all_datasets(tmp_path):
    paper = read_study(ROOT / "studies" / "paper.toml", tmp_path)
    assert [model.name for model in paper.models] == list(known_models())
    assert len(paper.cells) == 24 * 6
    assert (paper.protocol.name, paper.protocol.documents, paper.protocol.seed) == ("authors", 1000, 42)
    assert paper.out == tmp_path / "studies" / "paper"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('families = ["Pythia"]\ncorpora = ["wikpedia"]', 'Did you mean "wikipedia"?'),
        ('models = [{ name = "a/b", revison = "x" }]\ncorpora = ["c4"]', 'Did you mean "revision"?'),
        ('models = ["a/b", "c/b"]\ncorpora = ["c4"]', "b-c4 is there twice"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(tmp_path, text, message):
    with pytest.raises(RbpError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert "s.toml" in str(error.value)
    assert str(error.value).count("\n") == 1
    refused(here("study", "plan", str(tmp_path / "s.toml")), message)


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"max_position_embeddings": 64}')
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    study = read(tmp_path, 'models = ["model"]\ncorpora = ["./text.jsonl"]\noutput = "here"')
    assert (study.models[0].name, study.out) == (str(tmp_path / "model"), tmp_path / "here")
    (cell,) = study.cells.values()
    assert cell.name == "model-text.jsonl"
    assert cell.inputs == [tmp_path / "model" / "config.json", tmp_path / "text.jsonl"]
    assert study.protocol.length == 64  # own texts in windows that the model can read


def test_the_checkpoints_of_a_run(tmp_path):
    for step in (500, 1000, 1500):
        random_model("gpt2").save_pretrained(tmp_path / "run" / f"checkpoint-{step}")
    entry = '{ name = "run", every = 2 }'
    models = read(tmp_path, f'corpora = ["c4"]\nmodels = [{entry}]').models
    assert [model.revision for model in models] == ["checkpoint-500", "checkpoint-1500"]
    assert models[1].folder == tmp_path / "run" / "checkpoint-1500"


# Pythia-14M: its S, vocabulary and width
S, V, D = 1_189_888, 50_304, 128


def test_operations_and_memory_of_a_plan_by_hand(tmp_path):
    file = 'models = ["EleutherAI/pythia-14m"]\ncorpora = ["wikipedia"]\ntokens = 1000\n'
    (cost,) = make_plan(read(tmp_path, file)).itertuples()
    assert (cost.tokens, cost.operations) == (1000, 1000 * 2 * (S + V * D))
    # half of a window is context: the body reads each token twice, the head ranks it once
    (cost,) = make_plan(read(tmp_path, file + '[protocol]\nname = "windows"\nlength = 256\n')).itertuples()
    assert cost.operations == 1000 * 2 * (2 * S + V * D)
    (cost,) = make_plan(read(tmp_path, file + 'device = "cuda"\ndtype = "bfloat16"')).itertuples()
    assert cost.memory == 2 * (S + 2 * V * D) + 2 * 32 * 512 * 12 * D + 4 * 512 * V + 1e9
    study = read(tmp_path, file)
    (cell,) = study.cells.values()
    assert job_memory(study, cell) == -int(-(4 * (S + 2 * V * D) + 4 * 512 * 12 * D + 4 * 512 * V + 1.2e9) // 1e6)
