"""A sample of the survey of architectures: every rank against the model's own logits.

All of them take minutes: tests/slow/models.py.
"""

import re

import pytest
from survey import VARIANTS, survey


@pytest.mark.parametrize("family", ["gpt2", "opt", "gemma2", "roberta", "mixtral"])
def test_every_rank_is_that_of_the_logits(family, tmp_path):
    found = survey(family, tmp_path)
    assert found.outcome == "exact", found
    assert found.tokens > 200
    assert found.near < 0.1 * found.tokens  # the others are decided


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("an encoder", "sees the tokens that it is asked to predict"),
        ("no padding token", "cannot read a row of"),
        ("no language", "cannot read a row of .*set_default_language"),
    ],
)
def test_what_cannot_be_ranked_is_refused(name, reason, tmp_path):
    family, _, own = next(variant for variant in VARIANTS if variant[1] == name)
    found = survey(family, tmp_path, name, **own)
    assert found.outcome == "refused"
    assert re.search(reason, found.reason)
