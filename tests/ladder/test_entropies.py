"""Entropies and temperatures beside the ladder's stores: against full logits, against the stores, made again."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from draws import rest_slow
from scipy.interpolate import CubicSpline
from typer.testing import CliRunner

from rbp.cli.app import app
from rbp.core.errors import ParameterError
from rbp.core.paths import LADDER
from rbp.evidence import open_source
from rbp.ladder import ranking, shipping
from rbp.ladder.recipe import Recipe, read
from rbp.ladder.workspace import Workspace, model_name
from rbp.ranks.entropies import RESOLUTION, TEMPERATURES, Entropies, has_entropies
from rbp.ranks.models import find_model, load_model, load_tokenizer
from rbp.ranks.store import store_folders

ALL = open_source("ladder:v1").entropies


@pytest.mark.parametrize("model", rest_slow(["ladder-10k"], ["ladder-389k"]))
def test_they_are_those_of_full_logits_in_double_precision(model: str) -> None:
    (found,) = (one for one in ALL if (one.store.model, one.store.dataset) == (model, "humaneval"))
    files = find_model(str(LADDER / "models" / model))
    tokenizer, network = load_tokenizer(files), load_model(files, "float64", torch.device("cpu")).model
    ranks, sums = found.store.ranks(), found.temperatures
    seen = 0
    for document, text in enumerate(ranking.evaluation_documents("humaneval")[:30]):
        ids = torch.tensor(tokenizer(text.text)["input_ids"])
        if len(ids) > read().text.context:  # one window
            continue
        with torch.inference_mode():
            logits = network(input_ids=ids[None]).logits[0, :-1]
        chances = logits.softmax(1)
        own = found.entropy[ranks["document"] == document]
        exact = -(chances * chances.log()).sum(1).numpy()
        assert np.abs(own - exact).max() <= 0.5 / RESOLUTION + 1e-4
        for temperature in TEMPERATURES:
            nll = -(logits / temperature).log_softmax(1).gather(1, ids[1:, None]).sum()
            assert sums.loc[document, temperature] == pytest.approx(float(nll), rel=1e-5)
        seen += 1
    assert seen >= 10


@pytest.mark.parametrize("found", ALL, ids=lambda one: f"{one.store.model} {one.store.dataset}")
def test_every_file_agrees_with_its_store_and_the_two_with_each_other(found: Entropies) -> None:
    ranks = found.store.ranks()
    nll = ranks["nll"].astype(float)
    np.testing.assert_allclose(found.temperatures[1.0], nll.groupby(ranks["document"]).sum(), rtol=1e-5)
    # d CE / d ln T at T = 1 is the mean entropy less CE: the temperatures know the entropies
    total = found.temperatures.sum().to_numpy() / len(nll)
    slope = CubicSpline(np.log(TEMPERATURES), total)(0.0, 1)
    assert slope == pytest.approx(found.entropy.mean() - nll.mean(), abs=0.004)
    # each token that ranks no lower than the true one is as probable, so p · rank ≤ 1
    assert (np.log(ranks["greater"] + ranks["equal"]) <= nll + 1e-4).all()


def test_all_that_is_shipped_with_weights_has_them() -> None:
    first = {model_name(rung, rung.seeds[0]) for rung in read().rungs}
    assert {path.parent.name for path in (LADDER / "models").glob("*/model.safetensors")} == first - {"ladder-2.7m"}
    assert {(one.store.model, one.store.dataset) for one in ALL} == {
        (model, domain.name) for model in first for domain in read().domains
    }


@pytest.fixture(scope="module")
def shipped(workshop: tuple[Workspace, Recipe], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recipe, Path]:
    """The very small ladder as it is shipped; its recipe, and the file of that."""
    place, recipe = workshop
    folder = tmp_path_factory.mktemp("ladder") / "shipped"
    shipping.ship(place, recipe, folder)
    return folder, recipe, place.folder.parent / "small.toml"


def test_ranking_writes_them_for_first_seeds_and_they_are_shipped(shipped: tuple[Path, Recipe, Path]) -> None:
    folder, *_ = shipped
    assert all(has_entropies(path) for path in store_folders([folder / "ranks"]))
    assert not any(has_entropies(path) for path in store_folders([folder / "seeds"]))
    assert len(open_source(folder / "ranks").entropies) == 4


@pytest.mark.builds
def test_the_command_makes_them_again_from_what_is_shipped(
    shipped: tuple[Path, Recipe, Path], tmp_path: Path, in_this_process: None
) -> None:
    folder, _, config = shipped
    copy = tmp_path / "ladder"
    shutil.copytree(folder, copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    for path in copy.glob("ranks/*/*.parquet"):
        path.unlink()
    given = ["ladder", "rank", "--shipped", "--config", str(config), "--out", str(copy), "--jobs", "1"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--family", "neox"], "Leave out --family"),
        (["--rungs", "unknown"], "There is: 10k"),
        (["--domains", "unknown"], "There is: "),
        (["--out", "nowhere"], "no weights of these rungs"),
    ],
)
def test_what_cannot_be_made_again_is_said(more: list[str], said: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["ladder", "rank", "--shipped", *more])
    assert isinstance(result.exception, ParameterError)  # which the command line says, with exit 2
    assert said in str(result.exception)
