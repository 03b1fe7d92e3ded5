"""The recipe “Your checkpoints”, as it stands on its page: a rung trained, measured by one file, and its laws."""

import re
import shutil

import numpy as np
import pytest
from commands import here, rbp

from companion.project import LADDER, ROOT
from rbp.extract.store import open_store
from rbp.laws.power import fit_power_law

PAGE = (ROOT / "book" / "recipes.md").read_text(encoding="utf-8").split("## Your checkpoints")[1].split("\n## ")[0]
STEP = 8 * 256  # tokens that a step of the ladder's reads


@pytest.fixture
def run(tmp_path):
    """A folder with `my-run`, three checkpoints of the smallest rung, and a text."""
    home, budgets = tmp_path, [steps * STEP for steps in (16, 32, 64)]
    recipe = (LADDER / "ladders.toml").read_text(encoding="utf-8")
    recipe = re.sub(r"budgets = \[.*?\]", f"budgets = {budgets}", recipe, count=1)
    recipe = re.sub(r"warmup = [\d_]+", f"warmup = {STEP}", recipe)[: recipe.index("# Trials,")]
    (home / "ladders.toml").write_text(recipe)
    shutil.copy(LADDER / "ladder.toml", home)
    (home / "texts").mkdir()
    for number, file in enumerate((ROOT / "src").rglob("*.py")):
        if file.stat().st_size > 2000:
            shutil.copy(file, home / "texts" / f"{number}.txt")
    trained = here(
        *("ladder", "train", "--config", str(home / "ladders.toml"), "--texts", str(home / "texts")),
        *("--tokens", str(budgets[-1]), "--rungs", "10k", "--seeds", "0", "--out", str(home / "ladder")),
        root=home,
    )
    assert trained.returncode == 0, trained.stderr
    for folder, tokens in zip(trained.stdout.split(), budgets, strict=True):
        shutil.copytree(folder, home / "my-run" / f"step{tokens // STEP}")
    (home / "held-out.txt").write_text((ROOT / "README.md").read_text(encoding="utf-8")[:3000])
    return home, budgets


@pytest.mark.builds
def test_the_recipe_runs_as_it_stands(run, monkeypatch):
    home, budgets = run
    monkeypatch.chdir(home)
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (home / "checkpoints.toml").write_text(f'output = "runs/studies/checkpoints"\n{toml}')
    study, law = (line.split()[1:] for line in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)[0].strip().split("\n"))
    done = rbp(*study, "--profile", "local")
    assert done.returncode == 0, done.stderr
    told = here(*law, root=home)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    # by hand, from the ranks
    stores = [open_store(path) for path in sorted((home / "runs/studies/checkpoints/ranks").iterdir())]
    assert sorted(store.training.training_tokens for store in stores) == budgets
    assert len({store.manifest["key"]["weights"] for store in stores}) == len(budgets)
    for k in (1, 10):
        rows = [(s.training.training_tokens, ((s.ranks()["greater"] + s.ranks()["equal"]) <= k).mean()) for s in stores]
        tokens, share = np.array(sorted(row for row in rows if row[1])).T  # without a hit there is no point
        fit = fit_power_law(tokens, -np.log(share))
        (line,) = [line for line in lines if line.startswith(f"−ln RBP_{k} ")]
        assert (f" D^(−{fit.alpha:.4f})," if fit.alpha > 0 else f" D^{-fit.alpha:.4f},") in line
        assert f"α {fit.alpha_low:.4f} to {fit.alpha_high:.4f}" in line
        assert f"{len(tokens)} checkpoints" in line
    entropy = [line for line in lines if line.startswith("cross-entropy")]
    assert "D^(−" in entropy[0], "it learns"
