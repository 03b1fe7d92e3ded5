"""Checkpoints in a study: what its file may say of them. A study of a run, whole: test_your_checkpoints.py."""

import shutil

import pytest
import torch
from cli.test_cli import here, refused
from made_studies import MODEL
from tiny import make_tokenizer, random_model, write_texts
from tiny import texts as some

from rbp.core.errors import ParameterError
from rbp.ranks.training import Training
from rbp.study.config import read_study
from rbp.study.jobs import to_fetch
from rbp.study.report import Summary, lines_of, summary


@pytest.fixture
def write(tmp_path):
    def make(text, corpora='["humaneval"]', **more):
        path = tmp_path / "mine.toml"
        rest = "".join(f"{name} = {value}\n" for name, value in more.items())
        path.write_text(f"corpora = {corpora}\n{rest}models = [{text}]\n")
        return path

    return make


@pytest.fixture
def run(tmp_path):
    """A run's folder with three checkpoints and one tokenizer."""
    for step in (500, 1000, 1500):
        model, folder = random_model("gpt2"), tmp_path / "run" / f"checkpoint-{step}"
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + step / 1000)
        model.save_pretrained(folder)
    make_tokenizer().save_pretrained(tmp_path / "run")
    return tmp_path / "run"


def test_revisions_are_models_of_their_own(write):
    """As it was seen: pythia-70m at two steps was "there twice"."""
    study = read_study(write('{ name = "EleutherAI/pythia-70m", revisions = ["step1000", "step8000"] }'))
    assert [model.called for model in study.models] == [
        "EleutherAI/pythia-70m@step1000",
        "EleutherAI/pythia-70m@step8000",
    ]
    assert len({cell.name for cell in study.cells}) == 2
    assert study.cells[0].label == "pythia-70m@step1000 on humaneval"
    assert to_fetch(study) == [model.called for model in study.models] + ["humaneval"]
    again = '{ name = "EleutherAI/pythia-70m", revision = "step1000" }, '
    with pytest.raises(ParameterError, match="pythia-70m@step1000 is there twice"):
        read_study(write(again + again))


def test_all_of_pythia_is_one_line(write):
    every = read_study(write('{ name = "EleutherAI/pythia-70m", every = 1 }')).models
    assert len(every) == 154
    some_of_them = read_study(write('{ name = "EleutherAI/pythia-70m", every = 8 }')).models
    assert [model.revision for model in some_of_them][-2:] == ["step135000", "step143000"]
    assert len(some_of_them) == 20
    assert {model.revision for model in some_of_them} <= {model.revision for model in every}


def test_a_run_on_this_machine(write, run):
    every = read_study(write(f'{{ name = "{run}", every = 2, tokens_per_step = 64, seed = 3 }}')).models
    assert [model.revision for model in every] == ["checkpoint-500", "checkpoint-1500"]
    assert every[0].training == Training(None, 32_000, 500, 3)
    assert every[1].folder == run / "checkpoint-1500"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ('{ name = "EleutherAI/pythia-70m", revision = "step7" }', ["no revision step7"]),
        ('{ name = "EleutherAI/pythia-70m", revision = "step8", every = 2 }', ["three ways to say one thing"]),
        ('{ name = "a/b", every = 2 }', ["not known here", "revisions ="]),
        ('{ name = "RUN" }', ["the folder of a run", "checkpoint-500, checkpoint-1000"]),
        ('{ name = "RUN", revisions = ["checkpoint-7"] }', ["no revision checkpoint-7", "checkpoint-500"]),
        ('{ name = "RUN", every = 1, step = 4 }', ["one step, or number of training tokens, for 3"]),
        ('{ name = "a/b", step = -4 }', ["step"]),
        ('{ name = "a/b", step = 9, training_tokens = 3 }', ["3 training tokens do not fit 9 steps"]),
        ('{ name = "a/b", tokens_per_step = 9 }', ["tokens_per_step needs a step"]),
        ('{ name = "a/b", revisions = ["step2"], tokens_per_step = 9, training_tokens = 8 }', ["tokens_per_step"]),
        ('{ name = "MODEL", revision = "step1" }', ["no revision step1"]),
        (
            '{ name = "RUN", every = 1, tokens_per_step = 9 }',
            ["13500 by what was asked for", "9000 by trainer_state"],
        ),
    ],
)
def test_what_a_file_says_wrong_of_checkpoints(write, run, tmp_path, model, words):
    (run / "checkpoint-1500" / "trainer_state.json").write_text('{"global_step": 1500, "num_input_tokens_seen": 9000}')
    path = write(model.replace("RUN", str(run)).replace("MODEL", str(MODEL)))
    refused(here("study", "run", str(path), root=tmp_path), *words)
    assert not (tmp_path / "runs").exists()


def test_a_misspelt_key_is_told_before_the_one_that_is_missing(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('models = ["EleutherAI/pythia-70m"]\ncorpus = ["humaneval"]\n')
    with pytest.raises(ParameterError, match='no key "corpus"') as wrong:
        read_study(path)
    assert 'Did you mean "corpora"?' in wrong.value.remedy


def test_own_texts_are_read_whole_and_the_papers_as_the_authors_do(write, tmp_path):
    own = write_texts(tmp_path / "own.jsonl", some(3))
    model = f'"{MODEL}"'
    assert read_study(write(model)).protocol.name == "authors"
    whole = read_study(write(model, f'["{own}"]')).protocol
    assert (whole.name, whole.length, whole.context) == ("windows", 256, 128)  # what the model reads
    with pytest.raises(ParameterError, match="cut as the authors cut them"):
        read_study(write(model, f'["{own}", "humaneval"]'))
    named = read_study(write(model, f'["{own}", "humaneval"]', protocol='{ name = "authors" }'))
    assert named.protocol.name == "authors"


def test_the_bar_does_not_fall_when_another_store_begins(write, tmp_path, monkeypatch):
    study = read_study(write('{ name = "EleutherAI/pythia-70m", every = 40 }'))
    from rbp.study import report
    from rbp.study.jobs import CellProgress

    first = study.cells[0].name
    stands = [
        {first: CellProgress(4, 4, 9, True)},
        {first: CellProgress(4, 4, 9, True), study.cells[1].name: CellProgress(0, 9)},
    ]
    bars = []
    for now in stands:
        monkeypatch.setattr(report, "progress", lambda study, cell, now=now: now.get(cell.name, CellProgress()))
        found = summary(study)
        assert isinstance(found, Summary)
        bars.append(lines_of(study, found)[0].count("█"))
    assert bars == [20 // len(study.cells)] * 2


def test_a_link_to_a_run_is_the_run(write, run, tmp_path):
    shutil.rmtree(run / "checkpoint-1500")
    (tmp_path / "link").symlink_to(run)
    assert len(read_study(write('{ name = "link", every = 1 }')).models) == 2
