import json
import re

import numpy as np
import pytest

from companion.project import LADDER
from ladder.recipe import LADDERS, read_ladders
from rbp.errors import DataError


def test_a_model_of_the_shipped_recipe_is_told_by_the_digest_that_it_always_had():
    ladders, base = read_ladders()
    all_read = json.loads((LADDER / "text.json").read_text())["rows"]["sha256"]
    entries = json.loads((LADDER / "families.json").read_text())
    trained = [entry for entry in entries if entry["family"] in ("neox", "lstm") and entry["seed"] != 2]
    assert len(trained) >= 60
    for entry in trained:  # those of seed 2 read the rows in another order
        course = ladders.course(base, ladders.family(entry["family"]), entry["rung"], entry["seed"], entry["budget"])
        assert entry["digest"] in course.digests(bytes.fromhex(all_read)), entry["name"]


def test_the_rate_of_a_family_rises_holds_and_falls_straight_to_0_at_each_budget():
    ladders, base = read_ladders()
    tokens = 8 * 256
    for budget in ladders.training.budgets:
        course = ladders.course(base, ladders.family("neox"), "10k", 0, budget)
        steps = np.arange(course.steps)
        highest = ladders.family("neox").rate * (64 / 16) ** 0.75
        risen = np.minimum(1, (steps + 1) / (65_536 / tokens))
        left = (course.steps - steps) / round(0.2 * course.steps)
        np.testing.assert_allclose([course.rate(int(s)) for s in steps], highest * np.minimum(risen, left), rtol=1e-12)
        assert 0 <= budget - course.steps * tokens < tokens


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("8_000_000]", "80_000_000]"), "the largest budget is more than the 16,007,168 tokens"),
        (("10k = 16", "10k = 20"), "width 20 does not give a whole number of heads of 8 in family neox"),
        (("held_out = ", "# "), "each source that holds documents out needs one domain"),
        (('name = "humaneval"', 'name = "../humaneval"'), "domains.1.name"),
    ],
)
def test_a_malformed_recipe_is_refused_with_its_place(change, said, tmp_path):
    for path in (LADDERS, LADDER / "ladder.toml"):
        (tmp_path / path.name).write_text(path.read_text().replace(*change, 1))
    with pytest.raises(DataError, match=re.escape(said)):
        read_ladders(tmp_path / "ladders.toml")
