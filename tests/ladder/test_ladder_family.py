"""A family and its ranks: one made up on the spot, and those that are shipped."""

import pytest
from draws import rest_slow

from companion.project import LADDER
from rbp.extract.extraction import verify_store
from rbp.store import open_store

MODELS = sorted(path.parent for path in (LADDER / "families").glob("*/*/model.safetensors"))
FIRST = [(path, "humaneval") for path in MODELS if path.name in ("neox-10k-at-8m", "lstm-10k-at-8m")]
EVERY = [(path, domain) for path in MODELS for domain in ("humaneval", "wikipedia", "hotpotqa", "auslegal")]


@pytest.mark.parametrize(("model", "domain"), rest_slow(FIRST, [pair for pair in EVERY if pair not in FIRST]), ids=str)
def test_shipped_ranks_are_those_of_the_shipped_weights(model, domain):
    (folder,) = (LADDER / "families-ranks" / model.parent.name).glob(f"{model.name}-{domain}-*")
    store = open_store(folder)
    verified, rows = verify_store(store, str(model), [f"ladder/{domain}"])
    assert verified.tokens >= 0.02 * store.tokens
    assert verified.rows < rows
    assert verified.differ < 0.01 * verified.tokens  # by rounding
