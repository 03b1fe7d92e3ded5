"""Rungs of the first ladder with one thing changed: trained as it is, ranked and shipped as families are."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_ladder import quiet, write_grid
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

from rbp.core.errors import DataError, ParameterError
from rbp.core.files import sha256
from rbp.evidence import grid as shipped
from rbp.ladder import ablation, runs, training
from rbp.ladder.grid import PREDICTIONS, Grid
from rbp.ladder.grid_shipping import ship
from rbp.ladder.measuring import measure
from rbp.ladder.ranking import read_corpus, windows
from rbp.ladder.recipe import Rung
from rbp.ranks.models import find_model, load_model, load_tokenizer
from rbp.ranks.protocols import plan_rows

pytestmark = pytest.mark.builds  # it trains

NAME = "ladder-small-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    grid = write_grid(tmp_path_factory.mktemp("ablation"))
    (run,) = ablation.choose(grid)
    assert ablation.about(grid, run) == {}
    assert ablation.ranking_jobs(grid, [run]) == []
    (job,) = ablation.jobs(grid, [run], "cpu", 20.0)
    job.work(quiet, *job.arguments)
    (job,) = ablation.ranking_jobs(grid, [run])
    job.work(quiet, *job.arguments)
    return grid


def test_it_is_the_other_recipe_with_other_rungs(made: Grid) -> None:
    chosen = ablation.choose(made)
    folder = made.place / "models" / NAME
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert (model.config.num_hidden_layers, model.config.num_attention_heads) == (2, 1)
    assert ablation.jobs(made, chosen, "cpu", 20.0) == []
    assert ablation.ranking_jobs(made, chosen) == []
    # the same rung, trained as one of the first ladder's
    rung = Rung(name="again", layers=2, width=8, heads=1, seeds=(0,))
    recipe = replace(made.base, rungs=(rung,))
    (job,) = training.training_tasks(runs.choose_runs(recipe), made.place, recipe, "cpu", None, 20.0)
    job.work(quiet, *job.arguments)
    one, other = (load_file(made.place / "models" / name / "model.safetensors") for name in (NAME, "ladder-again"))
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)


def test_it_is_shipped_and_there_only_by_its_name(made: Grid, tmp_path: Path) -> None:
    ship(made, [shipped.ABLATION], tmp_path)
    (record,) = json.loads((tmp_path / "families.json").read_text())
    assert (record["name"], record["heads"], record["predictions"]) == (NAME, 1, sha256(PREDICTIONS))
    assert record["budget"] == record["tokens"] > 0
    with pytest.raises(DataError, match="no family is shipped"):
        shipped.counted([1], folder=tmp_path)
    files = find_model(str(made.place / "models" / NAME))
    model = load_model(files, "float32", torch.device("cpu")).model
    tokenizer = load_tokenizer(files)
    found = shipped.counted([1, 10], families=[shipped.ABLATION], folder=tmp_path)
    assert [one.dataset for one in found] == ["questions", "tales"]
    for one in found:
        rows = plan_rows(read_corpus(made.place, one.dataset), tokenizer, windows(made.base)).rows
        by_logits = measure(model, rows)
        for i, k in enumerate(one.thresholds):
            assert one.hits[:, 0, i].sum() == (by_logits.greater + by_logits.equal <= k).sum()
        np.testing.assert_allclose(one.cross_entropy, by_logits.nll.mean(), rtol=1e-6)


def test_what_is_not_there_is_named(made: Grid) -> None:
    with pytest.raises(ParameterError, match="no rung 'large'"):
        ablation.choose(made, ["large"])
    with pytest.raises(ParameterError, match="has no ablations"):
        ablation.choose(replace(made, ladders=replace(made.ladders, ablations=())))
