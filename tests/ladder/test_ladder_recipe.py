import math
from pathlib import Path

import numpy as np
import pytest
import torch
from made_ladder import RECIPE

from rbp.errors import DataError, ParameterError
from rbp.extraction.sizes import non_embedding_params
from rbp.ladder.recipe import read
from rbp.ladder.train import make_model


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
        sizes = np.array([non_embedding_params(make_model(rung, recipe, 0)) for rung in recipe.rungs])
    steps = np.diff(np.log(sizes))
    assert len(sizes) >= 7
    assert sizes[0] <= 10_000
    assert sizes[-1] >= 2_500_000
    assert steps.sum() / math.log(10) >= 2.4
    assert steps.max() / steps.min() < 1.35
    assert recipe.text.tokens >= 16_000_000
    assert (recipe.text.vocabulary, recipe.text.context) == (4096, 256)
    assert sum(len(rung.seeds) >= 2 for rung in recipe.rungs) >= 3
