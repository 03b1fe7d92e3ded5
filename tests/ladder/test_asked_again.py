"""The shipped ranks, asked again by the shipped weights on the texts that are rebuilt from the ranks."""

import pytest
from draws import rest_slow

from companion.project import LADDER
from rbp.extract.extraction import verify_store
from rbp.extract.store import open_store

MODELS = sorted(path.parent for path in (LADDER / "families").glob("*/*/model.safetensors"))
FIRST = [path for path in MODELS if path.name in ("neox-10k-at-8m", "lstm-10k-at-8m")]
DOMAINS = ("humaneval", "wikipedia", "hotpotqa", "auslegal")
EVERY = [(path, domain) for path in MODELS for domain in DOMAINS]


@pytest.mark.parametrize(
    ("model", "domain"),
    rest_slow(
        [(path, "humaneval") for path in FIRST],
        [each for each in EVERY if each not in [(p, "humaneval") for p in FIRST]],
    ),
    ids=str,
)
def test_shipped_ranks_are_those_of_the_shipped_weights(model, domain):
    (folder,) = (LADDER / "families-ranks" / model.parent.name).glob(f"{model.name}-{domain}-*")
    store = open_store(folder)
    asked, rows = verify_store(store, str(model), [f"ladder/{domain}"])
    assert asked.tokens >= 0.02 * store.tokens
    assert asked.rows < rows
    assert asked.differ < 0.01 * asked.tokens  # by rounding
