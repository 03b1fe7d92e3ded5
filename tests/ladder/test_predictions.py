"""What was registered before training and measuring: as it was when they began, by its checksum in their records."""

import json
import tomllib
from datetime import datetime

import pytest

from companion.project import DATA, LADDER
from ladder.making import LONGER, PREDICTIONS
from ladder.shipped import FIRST, TRIALS
from rbp.io import sha256


def test_models_were_trained_after_what_was_predicted_of_them():
    records = [record for record in json.loads((LADDER / "families.json").read_text()) if record["family"] != FIRST]
    for record in records:
        longer = record["family"].endswith(TRIALS) and record["budget"] > 8_000_000
        assert record["predictions"] == sha256(LONGER if longer else PREDICTIONS), record["name"]
    assert len(records) > 60


@pytest.mark.parametrize(
    ("folder", "predictions"),
    [
        (LADDER / "paths", "paths.toml"),
        (DATA / "real" / "paths" / "wikipedia", "real.toml"),
        (DATA / "real" / "paths" / "auslegal", "real_damaged.toml"),
    ],
    ids=["small models", "real model", "judgments"],
)
def test_models_were_made_worse_after_these_predictions(folder, predictions):
    path = PREDICTIONS.with_name(predictions)
    records = [json.loads(file.read_text()) for file in folder.rglob("manifest.json")]
    assert {record["predictions"] for record in records} == {sha256(path)}
    begun = min(datetime.fromisoformat(record["begun"]) for record in records)
    assert begun.date() >= tomllib.loads(path.read_text())["written"]
