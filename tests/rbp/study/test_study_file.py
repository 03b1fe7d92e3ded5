"""A study's file: what it may hold, the message for what it may not, and its plan."""

from pathlib import Path

import pytest
from commands import here, refused
from tiny import save_model, texts, write_texts

from companion.project import LADDER
from rbp.study.config import Study, read_study

MODEL = LADDER / "families" / "neox" / "neox-10k-at-8m"


def read(folder: Path, text: str) -> Study:
    path = folder / "s.toml"
    path.write_text(text)
    return read_study(path, folder / "runs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('models = ["a/b"]\ncorpora = ["wikpedia"]', 'Did you mean "wikipedia"?'),
        ('models = ["a/b"]\ncorpora = ["c4"]\ntoken = 9', 'Did you mean "tokens"?'),
        ('models = ["a/b", "c/b"]\ncorpora = ["c4"]', "b-c4 is there twice"),
        ('models = ["a/b"]\ncorpora = ["c4"]\n[protocol]\nlength = "9"', "length"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text)
    refused(here("study", "plan", str(tmp_path / "s.toml")), message, "s.toml")


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"max_position_embeddings": 64}')
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    study = read(tmp_path, 'models = { Mine = ["model"] }\ncorpora = ["./text.jsonl"]\noutput = "here"')
    (cell,) = study.cells.values()
    assert (cell.model, cell.settings.family, study.out) == (str(tmp_path / "model"), "Mine", tmp_path / "here")
    assert cell.label == "model-text.jsonl"
    assert cell.inputs == [tmp_path / "model" / "config.json", tmp_path / "text.jsonl"]
    assert cell.protocol.length == 64  # own texts in windows that the model can read


def test_a_plan_is_that_of_each_pair(tmp_path):
    for name in ("one", "two"):
        save_model(tmp_path / name)
    corpus = write_texts(tmp_path / "text.jsonl", texts(4))
    (tmp_path / "s.toml").write_text('models = ["one", "two"]\ncorpora = ["text.jsonl"]\n[protocol]\nlength = 64')
    rows = here("study", "plan", str(tmp_path / "s.toml"), root=tmp_path).stdout.splitlines()[1:3]
    for name, row in zip(("one", "two"), rows, strict=True):
        alone = here("extract", "--model", str(tmp_path / name), "--corpus", str(corpus), "--length", "64", "--plan")
        assert row.split() == alone.stdout.splitlines()[1].split()
