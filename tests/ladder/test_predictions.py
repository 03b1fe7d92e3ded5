"""What was registered before training and measuring: whole, and older than what it is about."""

import json
import shutil
import subprocess
import tomllib
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from companion.project import LADDER, ROOT
from ladder.making import LONGER, PREDICTIONS
from ladder.recipe import read_ladders
from ladder.shipped import FIRST, TRIALS
from rbp.io import sha256

PATHS = PREDICTIONS.with_name("paths.toml")  # of one model made worse
ANSWER = {"middle", "low", "high", "probability", "naive", "reason"}
#: where the file's sum without a floor is of a minimum that is not the lowest: a later fitter found a lower one
NOT_LOWEST = {("auslegal", 1), ("hotpotqa", 0)}


@pytest.mark.parametrize("path", [PREDICTIONS, PATHS], ids=["families", "paths"])
def test_every_prediction_is_a_number_with_an_interval_a_naive_guess_and_a_reason(path):
    predictions = tomllib.loads(path.read_text())
    ladders, base = read_ladders()
    assert predictions.pop("level") == 0.8
    predictions.pop("written", None)
    names = [*(family.name for family in ladders.families), "mamba2"]  # of which predictions were made, and no models
    questions = []
    for kind, rows in predictions.items():
        for row in rows:
            questions.append((kind, *(f"{name} {row[name]}" for name in sorted(row.keys() - ANSWER))))
            assert row.get("family", names[0]) in names
            assert row.get("dataset", base.domains[0].name) in [domain.name for domain in base.domains]
            if kind == "event":
                assert 0 < row["probability"] < 1
                assert 0 < row["naive"] < 1
            else:
                assert row["low"] < row["middle"] < row["high"], row
                assert row["naive"][0] < row["naive"][1], row
                assert row["reason"].endswith("."), row
    assert len(questions) == len(set(questions)) > 50


def committed(path: Path) -> datetime:
    """When a file was last changed, by the history; the test is skipped where there is none."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists() or (ROOT / ".git" / "shallow").exists():
        pytest.skip("there is no history, or it is cut")
    command = [git, "log", "--follow", "--format=%aI", "--", str(path)]
    dates = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    if not dates:
        pytest.skip("the history is cut")
    return max(map(datetime.fromisoformat, dates))


@pytest.mark.parametrize(("longer", "path", "fewest"), [(False, PREDICTIONS, 61), (True, LONGER, 0)])
def test_models_were_trained_after_what_was_predicted_of_them(longer, path, fewest):
    records = [each for each in json.loads((LADDER / "families.json").read_text()) if each["family"] != FIRST]
    own = [each for each in records if (each["family"].endswith(TRIALS) and each["budget"] > 8_000_000) == longer]
    assert len(own) >= fewest
    assert {each["predictions"] for each in own} <= {sha256(path)}
    if longer:
        written = committed(path)
        assert all(datetime.fromisoformat(each["begun"]) > written for each in own)


def test_models_were_made_worse_after_these_predictions():
    manifests = [json.loads(path.read_text()) for path in sorted((LADDER / "paths").glob("*/manifest.json"))]
    assert len(manifests) == 4
    assert {each["predictions"] for each in manifests} == {sha256(PATHS)}
    begun = min(datetime.fromisoformat(each["begun"]) for each in manifests)
    assert begun.date() >= tomllib.loads(PATHS.read_text())["written"]
    assert committed(PATHS) < begun


def test_what_was_forecast_is_of_every_model_text_and_measure_by_every_law():
    forecasts = tomllib.loads(LONGER.read_text())
    ladders, base = read_ladders()
    trials = [trial for trial in ladders.trials if trial.more]
    models = {(f, rung, tokens) for one in trials for f in one.families for rung in one.rungs for tokens in one.budgets}
    targets = [(row["family"], row["rung"], row["tokens"], row["dataset"], row["k"]) for row in forecasts["target"]]
    texts = [domain.name for domain in base.domains]
    assert len(models) == 16
    assert set(targets) == {(*model, text, k) for model in models for text in texts for k in (0, 1, 10, 100)}
    assert len(targets) == len(set(targets))
    for row in forecasts["target"]:
        for law in forecasts["laws"]:
            low, middle, high = row[law]
            assert 0 < low < middle < high
    assert {law for row in forecasts["spread"] for law in row} >= set(forecasts["laws"])
    assert all(0 < row["sum"]["sigma"] < 1 <= row["sum"]["degrees"] for row in forecasts["spread"])


@pytest.mark.slow
def test_what_was_forecast_comes_out_again_whatever_was_trained_since(tmp_path):
    from companion.chapters import training_forecasts as study

    study.write(tmp_path / "again.toml")
    again, first = (tomllib.loads(path.read_text()) for path in (tmp_path / "again.toml", LONGER))
    assert [again[name] for name in ("level", "known", "laws")] == [first[name] for name in ("level", "known", "laws")]
    for one, other in zip(again["target"], first["target"], strict=True):
        assert {name: one[name] for name in one.keys() - first["laws"].keys()}.items() <= other.items()
        moved = one["family"] == "neox" and (one["dataset"], one["k"]) in NOT_LOWEST
        laws = [law for law in first["laws"] if not (moved and law == "bare_sum")]
        np.testing.assert_allclose([one[law] for law in laws], [other[law] for law in laws], rtol=1e-2)
