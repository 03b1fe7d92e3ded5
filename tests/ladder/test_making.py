from pathlib import Path

import pytest
import torch
from made_ladder import quiet
from safetensors.torch import load_file

from ladder import making as making_module
from ladder.making import Making
from ladder.training import Run
from ladder.workspace import Workspace

pytestmark = pytest.mark.long  # it trains


@pytest.fixture
def made(workshop):
    return workshop[0]


@pytest.mark.parametrize("family", ["neox", "lstm"])
def test_each_budget_is_a_whole_run_of_its_own(family, made, tmp_path):
    run = made.choose([family], ["narrow"], [0])[0]
    for tokens in made.ladders.training.budgets:
        assert made.is_done(run, tokens, made.rows(run))
        alone = Run(made.course(run, tokens), made.rows(run), tmp_path / str(tokens))
        alone.train()
        folders = (alone.folder, made.place / "training" / run.model_name(tokens))
        ours, theirs = (load_file(folder / "state.safetensors") for folder in folders)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        assert alone.steps == tokens // 64
        record = made.about(run, tokens)
        assert (record["tokens"], record["digest"]) == (tokens, alone.digest())
    assert made.jobs([run], "cpu") == []


def test_a_line_goes_on_whatever_is_there(made, tmp_path):
    run = made.choose(["lstm"], ["narrow"], [0])[0]
    for name in ("tokenizer", "rows.npy", "text.json", "evaluation"):
        (tmp_path / name).symlink_to(made.place / name)
    making = Making(made.ladders, made.base, Workspace(tmp_path))
    trunk = Run(making.course(run, None), making.rows(run), tmp_path / "training" / run.name)
    trunk.train(until=13)  # past the first branch, whose state is not there
    making_module.train(quiet, making, run)
    for tokens in made.ladders.training.budgets:
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            name = Path("models") / run.model_name(tokens) / file
            assert (tmp_path / name).read_bytes() == (made.place / name).read_bytes()
