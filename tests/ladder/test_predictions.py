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

FORETOLD = PREDICTIONS.with_name("paths.toml")  # of one model made worse
SAID = {"middle", "low", "high", "probability", "naive", "reason"}


@pytest.mark.parametrize("path", [PREDICTIONS, FORETOLD], ids=["families", "paths"])
def test_every_prediction_is_a_number_with_an_interval_a_naive_guess_and_a_reason(path: Path) -> None:
    predictions = tomllib.loads(path.read_text())
    ladders, base = read_ladders()
    assert predictions.pop("level") == 0.8
    predictions.pop("written", None)
    names = [*(family.name for family in ladders.families), "mamba2"]  # of which predictions were made, and no models
    asked = set()
    for kind, rows in predictions.items():
        for row in rows:
            key = (kind, *(f"{name} {row[name]}" for name in sorted(row.keys() - SAID)))
            assert key not in asked, f"{key} is there twice"
            asked.add(key)
            assert row.get("family", names[0]) in names
            assert row.get("dataset", base.domains[0].name) in [domain.name for domain in base.domains]
            assert_said(kind, row, key)
    assert len(asked) > 50


def assert_said(kind: str, row: dict, key: tuple) -> None:
    """A probability for an event; else an interval, with a naive one beside it and a reason."""
    if kind == "event":
        assert 0 < row["probability"] < 1
        assert 0 < row["naive"] < 1
        return
    assert row["low"] < row["middle"] < row["high"], key
    assert row["naive"][0] < row["naive"][1], key
    assert row["reason"].endswith("."), key


def test_the_models_were_trained_after_these_predictions() -> None:
    entries = [each for each in records() if each["family"] != FIRST and not longer(each)]
    assert len(entries) > 60
    assert {entry["predictions"] for entry in entries} == {sha256(PREDICTIONS)}


def records() -> list[dict]:
    return json.loads((LADDER / "families.json").read_text())


def longer(entry: dict) -> bool:
    return entry["family"].endswith(TRIALS) and entry["budget"] > 8_000_000


def committed(path: Path) -> datetime:
    """When a file was last changed, by the history; the test is skipped where there is none."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("there is no history")
    asked = [git, "log", "--follow", "--format=%aI", "--", str(path)]
    dates = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    if not dates or (ROOT / ".git" / "shallow").exists():
        pytest.skip("the history is cut")
    return max(map(datetime.fromisoformat, dates))


def test_the_longer_runs_began_after_what_was_foretold_of_them() -> None:
    found = [entry for entry in records() if longer(entry)]
    assert {entry["predictions"] for entry in found} <= {sha256(LONGER)}
    written = committed(LONGER)
    assert all(datetime.fromisoformat(entry["begun"]) > written for entry in found)


def test_what_was_foretold_is_of_every_model_text_and_measure_by_every_law() -> None:
    told = tomllib.loads(LONGER.read_text())
    ladders, base = read_ladders()
    trials = [trial for trial in ladders.trials if trial.more]
    models = {(f, rung, tokens) for one in trials for f in one.families for rung in one.rungs for tokens in one.budgets}
    asked = {(row["family"], row["rung"], row["tokens"], row["dataset"], row["k"]) for row in told["target"]}
    texts = [domain.name for domain in base.domains]
    assert len(models) == 16
    assert asked == {(*model, text, k) for model in models for text in texts for k in (0, 1, 10, 100)}
    assert len(told["target"]) == len(asked)
    for row in told["target"]:
        for law in told["laws"]:
            low, middle, high = row[law]
            assert 0 < low < middle < high
    assert {law for row in told["spread"] for law in row} >= set(told["laws"])
    assert all(0 < row["sum"]["sigma"] < 1 <= row["sum"]["degrees"] for row in told["spread"])
    assert [(row["rungs"], row["of"]) for row in told["apart"]] == [(r, o) for r in (3, 6) for o in ("sum", "product")]


#: where the file's sum without a floor is of a minimum that is not the lowest: a later fitter found a lower one
NOT_LOWEST = {("auslegal", 1), ("hotpotqa", 0)}


@pytest.mark.slow
def test_what_was_foretold_comes_out_again_whatever_was_trained_since(tmp_path: Path) -> None:
    from companion.chapters import training_forecasts as study

    study.write(tmp_path / "again.toml")
    again, told = (tomllib.loads(path.read_text()) for path in (tmp_path / "again.toml", LONGER))
    assert [again[name] for name in ("level", "known", "laws")] == [told[name] for name in ("level", "known", "laws")]
    for one, other in zip(again["target"], told["target"], strict=True):
        assert {name: one[name] for name in one.keys() - told["laws"].keys()}.items() <= other.items()
        moved = one["family"] == "neox" and (one["dataset"], one["k"]) in NOT_LOWEST
        laws = [law for law in told["laws"] if not (moved and law == "bare_sum")]
        np.testing.assert_allclose([one[law] for law in laws], [other[law] for law in laws], rtol=1e-2)


def test_models_were_made_worse_after_these_predictions() -> None:
    manifests = [json.loads(path.read_text()) for path in sorted((LADDER / "paths").glob("*/manifest.json"))]
    assert len(manifests) == 4
    assert {each["predictions"] for each in manifests} == {sha256(FORETOLD)}
    written = tomllib.loads(FORETOLD.read_text())["written"]
    assert written.isoformat() == "2026-11-23"
    begun = [datetime.fromisoformat(each["begun"]) for each in manifests]
    assert min(begun).date() >= written
    assert committed(FORETOLD) < min(begun)
