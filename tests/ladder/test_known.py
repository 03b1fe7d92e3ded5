"""Text drawn from n-grams: drawn as they say, and measured by what they say."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from commands import here, refused
from made_ladder import options_of, quiet, write_ladder
from scipy.stats import chi2, entropy

from ladder import known, ngrams
from ladder.known import EVALUATION, PREDICTIONS, RECORDS, SHIPPED, SOURCE, TABLE, Drawing, open_drawing
from ladder.recipe import read_known
from rbp.errors import DataError, ParameterError
from rbp.io import sha256

KNOWN = """
ladders = "ladders.toml"
family = "neox"
rungs = ["narrow"]
budgets = [640, 1_280]
order = 3
documents = 5
seed = 4
"""


@pytest.fixture(scope="module")
def source() -> ngrams.NGrams:
    """Triples of five tokens, some contexts unseen."""
    rows = np.random.default_rng(0).choice(5, (12, 9), p=[0.5, 0.3, 0.1, 0.07, 0.03]).astype(np.uint16)
    return ngrams.count(rows, 3, 5)


def test_drawn_tokens_follow_the_distributions(source: ngrams.NGrams) -> None:
    drawn = source.sample(60_000, 5, np.random.default_rng(1)).astype(np.int64)
    distance, free = 0.0, 0
    for length in range(4):  # the first tokens have shorter contexts
        for context in product(range(5), repeat=length):
            own = drawn[(drawn[:, :length] == context).all(1), length]
            (p,) = source.distributions(np.array([*context, 0]), np.array([length]))
            if len(own) * p.min() > 5:
                distance += ((np.bincount(own, minlength=5) - len(own) * p) ** 2 / (len(own) * p)).sum()
                free += 4
    assert free > 200
    assert 0.001 < chi2.sf(distance, free) < 0.999


def test_the_floor_and_what_a_model_has_above_it_are_the_sums_over_all_texts(source: ngrams.NGrams) -> None:
    q = torch.tensor(np.random.default_rng(2).normal(size=(5, 5)))  # by the token before
    rows = source.sample(40, 5, np.random.default_rng(3))
    ours = known.measure(source, rows, lambda ids: q[ids[:-1]])
    least = known.measure(source, rows, lambda ids: torch.tensor(np.log(source.distributions(ids, np.arange(1, 5)))))
    for table, drawn in ((ours, False), (least, True)):
        for row, ids in zip(table.itertuples(), rows.astype(int), strict=True):
            terms = []
            for at in range(1, 5):
                (p,) = source.distributions(ids, np.array([at]))
                told = p if drawn else torch.softmax(q[ids[at - 1]], 0).numpy()
                held = [p[np.argsort(-told)[:k]].sum() for k in (1, 2, 3, 5)]
                terms.append([-np.log(told[ids[at]]), entropy(p) + entropy(p, told), *held])
            assert list(row[3:]) == pytest.approx(np.sum(terms, 0))
    assert (ours["cross_entropy"] > least["cross_entropy"]).all()
    assert (ours["mass_1"] <= least["mass_1"] + 1e-12).all()
    assert least["mass_5"].to_numpy() == pytest.approx(4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Drawing:
    """A rung trained and measured at two budgets."""
    folder = tmp_path_factory.mktemp("known")
    _, texts = write_ladder(folder, 100)
    (folder / "known.toml").write_text(KNOWN)
    drawing = open_drawing(folder / "out", folder / "known.toml")
    drawing.prepare(texts)
    jobs = drawing.jobs(drawing.making.choose(["neox"]), "cpu")
    assert [job.name for job in jobs] == ["source", "neox-narrow"]
    for job in jobs:
        job.work(quiet, *job.arguments)
    return drawing


@pytest.mark.builds
def test_models_are_trained_on_the_drawn_text_and_measured_by_its_source(made: Drawing, tmp_path: Path) -> None:
    lines = made.making.choose(["neox"])
    assert made.jobs(lines, "cpu") == []
    names = known.ship(made, tmp_path / "to")
    assert names == [SOURCE, "neox-narrow-at-0.00064m", "neox-narrow-at-0.00128m"]
    content = json.loads((tmp_path / "to" / RECORDS).read_bytes())
    assert [record["name"] for record in content["models"]] == names
    assert content["text"]["order"] == 3
    assert {record["predictions"] for record in content["models"][1:]} == {sha256(PREDICTIONS)}
    table = pd.read_parquet(tmp_path / "to" / TABLE)
    whole = table.groupby("model", sort=False)["cross_entropy"].sum()
    assert whole.index.tolist() == names
    assert whole[names[0]] < whole[names[2]] < whole[names[1]] < 5 * 32 * np.log(280)
    assert (table["tokens"] == 32).all()


@pytest.mark.builds
def test_the_command_goes_on_where_it_was_stopped_and_writes_the_tables(
    made: Drawing, tmp_path: Path, in_this_process
) -> None:
    command = [
        "ladder",
        "known",
        "--device",
        "cpu",
        "--jobs",
        "1",
        *options_of(made.making.place.folder.parent, "known.toml"),
    ]
    refused(here(*command, "--rungs", "wide"), "there is no rung 'wide'")
    done = here(*command, "--to", str(tmp_path / "to"))
    assert (done.returncode, done.stdout.split()) == (0, [str(tmp_path / "to")])
    models, _ = known.shipped(tmp_path / "to")
    assert models["name"].tolist() == [SOURCE, "neox-narrow-at-0.00064m", "neox-narrow-at-0.00128m"]


@pytest.mark.builds
def test_the_text_is_drawn_once_and_again_where_it_was_changed(made: Drawing) -> None:
    place = made.making.place
    before = [(place / name).read_bytes() for name in ("rows.npy", EVALUATION, "text.json")]
    rows = made.making.place.rows(made.making.base)
    assert rows.shape == (1280 // 32, 33)
    np.save(place / "rows.npy", rows[::-1])
    made.prepare(None)
    assert [(place / name).read_bytes() for name in ("rows.npy", EVALUATION, "text.json")] == before
    changed = (place / "rows.npy").stat().st_mtime_ns
    made.prepare(None)
    assert (place / "rows.npy").stat().st_mtime_ns == changed


@pytest.mark.builds
def test_what_is_missing_is_said(made: Drawing, tmp_path: Path) -> None:
    empty = open_drawing(tmp_path / "none")
    with pytest.raises(DataError, match="tokens cannot be read"):
        empty.evaluation()
    with pytest.raises(DataError, match="source is not measured"):
        known.ship(empty, tmp_path / "to")
    assert not (tmp_path / "to").exists()
    write_ladder(tmp_path / "other", 100)
    path = tmp_path / "other" / "known.toml"
    path.write_text(KNOWN.replace('"neox"', '"mlp"'))
    with pytest.raises(ParameterError, match="no family 'mlp'"):
        read_known(path)
    for old, new, what in (('"narrow"', '"huge"', "rung huge .* has no width"), ("640", "2_560", "budgets must grow")):
        path.write_text(KNOWN.replace(old, new))
        with pytest.raises(DataError, match=what):
            read_known(path)


def test_the_models_of_the_known_floor_were_trained_after_its_predictions() -> None:
    models = json.loads((SHIPPED / RECORDS).read_bytes())["models"]
    assert models[0]["name"] == SOURCE
    assert len(models) > 10
    assert {model["predictions"] for model in models[1:]} == {sha256(PREDICTIONS)}
