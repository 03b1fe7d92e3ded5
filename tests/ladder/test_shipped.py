"""What is shipped: ranks by the shipped weights, trained after what was predicted of them (by checksums in records)."""

import json
import tomllib
from datetime import datetime

import pytest
from draws import rest_slow

from companion.project import DATA, LADDER
from ladder.making import LONGER, PREDICTIONS
from ladder.shipped import FIRST, TRIALS
from rbp.extract.extraction import verify_store
from rbp.io import sha256
from rbp.store import open_store

MODELS = sorted(path.parent for path in (LADDER / "families").glob("*/*/model.safetensors"))
SOME = [(path, "humaneval") for path in MODELS if path.name in ("neox-10k-at-8m", "lstm-10k-at-8m")]
EVERY = [(path, domain) for path in MODELS for domain in ("humaneval", "wikipedia", "hotpotqa", "auslegal")]


@pytest.mark.parametrize(("model", "domain"), rest_slow(SOME, [pair for pair in EVERY if pair not in SOME]), ids=str)
def test_shipped_ranks_are_those_of_the_shipped_weights(model, domain):
    (folder,) = (LADDER / "families-ranks" / model.parent.name).glob(f"{model.name}-{domain}-*")
    store = open_store(folder)
    verified, rows = verify_store(store, str(model), [f"ladder/{domain}"])
    assert verified.tokens >= 0.02 * store.tokens
    assert verified.rows < rows
    assert verified.differ < 0.01 * verified.tokens  # by rounding


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
