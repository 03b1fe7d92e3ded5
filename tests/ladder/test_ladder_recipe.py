import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from made_ladder import RECIPE

from rbp.core.errors import DataError, ParameterError
from rbp.core.paths import LADDER
from rbp.ladder.architectures import make_model
from rbp.ladder.recipe import LADDERS, read, read_ladders
from rbp.ranks.models import non_embedding_params


def _read(tmp_path: Path, text: str):
    path = tmp_path / "ladder.toml"
    path.write_text(text.format(tokens=5120))
    return read(path)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("batch = 4\n", "", "text|training.*batch"),
        ("batch = 4\n", "batch = 4\nbatches = 4\n", "batches"),
        ("batch = 4\n", "batch = 0\n", "greater than or equal to 1"),
        ("batch = 4\n", 'batch = "4"\n', "integer"),
        ("rate = 0.01", "rate = -1.0", "greater than 0"),
        ('name = "large"', 'name = "small"', "there twice"),
        ('name = "sums"', 'name = "tales"', "there twice"),
        ("width = 8\n", "width = 12\n", "rung small must be 1 times a multiple of 8"),
        ("heads = 2", "heads = 3", "rung large must be 3 times"),
        ("held_out = 3\n", "", "each source that holds documents out needs one domain"),
        ('source = "tales"\n', "", "domain tales needs a file"),
        ("seeds = [0]", "seeds = []", "at least 1 item"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "a seed of rung small is there twice"),
        ("seeds = [0, 1]", "seeds = [9223372036854775808]", "less than"),
        ('name = "large"', 'name = "../large"', "rungs.1.name"),
        ('name = "large"', 'name = ""', "rungs.1.name"),
        ('file = "sums.jsonl.gz"\n', "", "source sums needs a file, or packages"),
        ('fields = ["question", "answer"]', "fields = []", "at least 1 item"),
        ("vocabulary = 280", "vocabulary = 65537", "less than or equal to 65536"),
        ("rate = 0.01", "rate = inf", "finite"),
        ("betas = [0.9, 0.95]", "betas = [0.9, 1.0]", "less than 1"),
        ("batch = 4\n", "batch = 400\n", r"^the tokens are too few for one step"),
        ("[text]", "[text", "no TOML"),
    ],
)
def test_a_wrong_recipe_is_refused_with_its_place(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in RECIPE
    with pytest.raises(DataError, match=said):
        _read(tmp_path, RECIPE.replace(before, after))


def test_no_recipe_no_rung_no_domain(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "none.toml")
    with pytest.raises(DataError, match=r"cannot read the file: Is a directory"):
        read(tmp_path)
    recipe = _read(tmp_path, RECIPE)
    with pytest.raises(ParameterError, match="There is: small, large"):
        recipe.rung("middle")
    with pytest.raises(ParameterError, match="There is: questions, tales"):
        recipe.domain("code")


def test_the_learning_rate_warms_up_falls_as_a_cosine_and_with_the_root_of_the_width(tmp_path: Path) -> None:
    recipe, steps = _read(tmp_path, RECIPE), 200
    wide, narrow = recipe.rung("large"), recipe.rung("small")
    rates = np.array([recipe.rate(wide, step, steps) for step in range(steps)])
    assert recipe.steps == 40
    np.testing.assert_allclose(rates[:20], 0.01 * np.arange(1, 21) / 20)
    assert rates[20] == pytest.approx(0.01)
    assert (np.diff(rates[20:]) < 0).all()
    assert rates[110] == pytest.approx(0.01 * (0.1 + 0.9 / 2))  # half way down
    assert recipe.rate(wide, steps, steps) == pytest.approx(0.001)
    assert recipe.rate(narrow, 50, steps) / rates[50] == pytest.approx(math.sqrt(2))


def test_the_rungs_are_evenly_spaced_in_ln_s_over_two_decades_and_more() -> None:
    recipe = read()
    with torch.device("meta"):
        sizes = np.array([non_embedding_params(make_model(**recipe.course(rung, 0).model)) for rung in recipe.rungs])
    steps = np.diff(np.log(sizes))
    assert len(sizes) >= 7
    assert sizes[0] <= 10_000
    assert sizes[-1] >= 2_500_000
    assert steps.sum() / math.log(10) >= 2.4
    assert steps.max() / steps.min() < 1.35
    assert recipe.text.tokens >= 16_000_000
    assert (recipe.text.vocabulary, recipe.text.context) == (4096, 256)
    assert sum(len(rung.seeds) >= 2 for rung in recipe.rungs) >= 3


def test_a_run_of_the_shipped_recipe_is_told_by_the_digest_that_it_always_had() -> None:
    recipe = read()
    rows = bytes.fromhex(json.loads((LADDER / "text.json").read_text())["rows"]["sha256"])
    entries = json.loads((LADDER / "runs.json").read_text())
    assert len(entries) == 11
    for entry in entries:
        course = recipe.course(recipe.rung(entry["rung"]), entry["seed"])
        assert course.digest(entry["device"], rows) == entry["digest"], entry["name"]


def test_the_rate_of_a_family_rises_holds_and_falls_straight_to_0_at_each_budget() -> None:
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
        first = ladders.branch(base, budget)
        assert first / course.steps == pytest.approx(0.8, abs=2e-3)
        trunk = ladders.course(base, ladders.family("neox"), "10k", 0, None)
        assert [trunk.rate(s) for s in range(first)] == [course.rate(s) for s in range(first)]
        assert trunk.rate(first) == course.rate(first) > course.rate(first + 1)
    assert trunk.steps == first


def test_families_share_rungs_and_seeds_of_the_smallest() -> None:
    ladders, _ = read_ladders()
    assert [len(family.rungs) for family in ladders.families] == [7, 5, 5]
    assert [ladders.seeds(ladders.family("neox"), rung) for rung in ("10k", "59k", "150k")] == [
        [0, 1, 2],
        [0, 1, 2],
        [0],
    ]
    assert ladders.seeds(ladders.family("lstm"), "150k") == [0, 1, 2]
    assert ladders.budgets(0) == tuple(500_000 * 2**i for i in range(5))
    assert ladders.budgets(1) == (8_000_000,)
    with pytest.raises(ParameterError, match="There is: neox, lstm, mamba2"):
        ladders.family("gru")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("8_000_000]", "80_000_000]"), "the largest budget is more than the 16,007,168 tokens"),
        (("1_000_000, 2", "9_000_000, 2"), "the budgets must grow"),
        (('rungs = ["10k", "59k", "150k", "390k", "1m"]', 'rungs = ["11k"]'), "rung 11k of family lstm has no width"),
        (("10k = 16", "10k = 20"), "width 20 gives no whole number of heads of 8 in family neox"),
        (("batch = 8", "batch = 0"), "training.batch"),
    ],
)
def test_a_malformed_recipe_of_families_is_refused(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    (tmp_path / "ladder.toml").write_text((LADDER / "ladder.toml").read_text())
    (tmp_path / "ladders.toml").write_text(LADDERS.read_text().replace(*change, 1))
    with pytest.raises(DataError, match=re.escape(said)):
        read_ladders(tmp_path / "ladders.toml")
