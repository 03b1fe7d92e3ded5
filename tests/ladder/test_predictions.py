"""What was registered before training and measuring: as it was when they began, by its checksum in their records."""

import json
import tomllib
from datetime import datetime

import pytest

from companion.project import DATA, LADDER
from ladder.making import LONGER, PREDICTIONS
from ladder.shipped import FIRST, TRIALS
from rbp.io import sha256

PATHS = PREDICTIONS.with_name("paths.toml")  # of one model made worse


@pytest.mark.parametrize(("longer", "path", "fewest"), [(False, PREDICTIONS, 61), (True, LONGER, 0)])
def test_models_were_trained_after_what_was_predicted_of_them(longer, path, fewest):
    records = [record for record in json.loads((LADDER / "families.json").read_text()) if record["family"] != FIRST]
    own = [
        record for record in records if (record["family"].endswith(TRIALS) and record["budget"] > 8_000_000) == longer
    ]
    assert len(own) >= fewest
    assert {record["predictions"] for record in own} <= {sha256(path)}


@pytest.mark.parametrize(
    ("folder", "path", "runs"),
    [
        (LADDER / "paths", PATHS, 4),
        (DATA / "real" / "paths" / "wikipedia", PREDICTIONS.with_name("real.toml"), 1),
        (DATA / "real" / "paths" / "auslegal", PREDICTIONS.with_name("real_damaged.toml"), 1),
    ],
    ids=["small models", "real model", "judgments"],
)
def test_models_were_made_worse_after_these_predictions(folder, path, runs):
    manifests = [json.loads(file.read_text()) for file in sorted(folder.rglob("manifest.json"))]
    assert len(manifests) == runs
    assert {record["predictions"] for record in manifests} == {sha256(path)}
    begun = min(datetime.fromisoformat(record["begun"]) for record in manifests)
    assert begun.date() >= tomllib.loads(path.read_text())["written"]
