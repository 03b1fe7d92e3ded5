import json
import tomllib

from rbp.core.files import sha256
from rbp.core.paths import LADDER
from rbp.evidence.shipped import FIRST
from rbp.ladder.making import PREDICTIONS
from rbp.ladder.recipe import read_ladders


def test_every_prediction_is_a_number_with_an_interval_a_naive_guess_and_a_reason() -> None:
    predictions = tomllib.loads(PREDICTIONS.read_text())
    ladders, base = read_ladders()
    assert predictions.pop("level") == 0.8
    names = [family.name for family in ladders.families]
    asked = set()
    for kind, rows in predictions.items():
        for row in rows:
            key = (
                kind,
                *(str(row[name]) for name in sorted(row.keys() - {"middle", "low", "high", "naive", "reason"})),
            )
            assert key not in asked, f"{key} is there twice"
            asked.add(key)
            assert row.get("family", names[0]) in names
            assert row.get("dataset", base.domains[0].name) in [domain.name for domain in base.domains]
            if kind == "event":
                assert 0 < row["probability"] < 1
                assert 0 < row["naive"] < 1
                continue
            assert row["low"] < row["middle"] < row["high"], key
            assert row["naive"][0] < row["naive"][1], key
            assert row["reason"].endswith("."), key
    assert len(asked) > 50


def test_the_models_were_trained_after_these_predictions() -> None:
    entries = [each for each in json.loads((LADDER / "families.json").read_text()) if each["family"] != FIRST]
    assert len(entries) > 60
    assert {entry["predictions"] for entry in entries} == {sha256(PREDICTIONS)}
