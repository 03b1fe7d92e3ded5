"""The recipe “Your checkpoints”, as it stands on its page: a model trained, measured by one file, and its laws."""

import re
from contextlib import chdir
from pathlib import Path

import pytest
import torch
from commands import here
from tiny import make_tokenizer, random_model

from companion.project import ROOT
from rbp.io import write_file
from rbp.laws.power import fit_power_law
from rbp.store import open_store
from rbp.study.config import read_study
from rbp.study.run import rank_shard

PAGE = (ROOT / "book" / "recipes.md").read_text(encoding="utf-8").split("## Your checkpoints")[1].split("\n## ")[0]
TOKENS = 8 * 256  # that a step reads
(TABLE_OF_CHECKPOINTS,) = re.findall(r"```text\n(model,.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def run(tmp_path):
    """A folder with `my-run`, checkpoints of a tiny model after 2, 4 and 8 steps, and a text."""
    text, model, tokenizer = (ROOT / "README.md").read_text(encoding="utf-8"), random_model("neox"), make_tokenizer()
    ids = torch.tensor(tokenizer(text)["input_ids"][-TOKENS:]).view(8, 256)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(1, 9):
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        if step in (2, 4, 8):
            model.save_pretrained(tmp_path / "my-run" / f"step{step}")
            tokenizer.save_pretrained(tmp_path / "my-run" / f"step{step}")
    (tmp_path / "my-run" / "checkpoints.csv").write_text(TABLE_OF_CHECKPOINTS)
    (tmp_path / "held-out.txt").write_text(text[:1500])
    return tmp_path, [step * TOKENS for step in (2, 4, 8)]


@pytest.mark.long
def test_the_recipe_runs_as_it_stands(run, monkeypatch):
    home, budgets = run
    monkeypatch.chdir(home)

    def one_by_one(_):
        """The jobs, in this process; Snakemake does them in test_study_run.py."""
        study = read_study(Path("checkpoints.toml"), Path("runs"))
        with chdir(study.out):
            for label, cell in study.cells.items():
                write_file(Path("shards", label, "1-of-1"), str(rank_shard(cell, 1, 1)))

    monkeypatch.setattr("snakemake.cli.main", one_by_one)
    monkeypatch.setattr("rbp.extract.extraction.say_on_stderr", lambda: None)
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (home / "checkpoints.toml").write_text(f'output = "runs/studies/checkpoints"\n{toml}')
    study, law = (line.split()[1:] for line in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)[0].strip().split("\n"))
    done, told = here(*study, "--profile", "local"), here(*law, root=home)
    assert (done.returncode, told.returncode) == (0, 0), done.stderr + told.stderr
    lines = told.stdout.splitlines()
    # by hand, from the ranks
    stores = [open_store(path) for path in (home / "runs/studies/checkpoints/ranks").iterdir()]
    stores.sort(key=lambda store: store.training.training_tokens)
    assert [store.training.training_tokens for store in stores] == budgets
    fit = fit_power_law(budgets, [store.ranks()["nll"].mean() for store in stores])
    (line,) = [line for line in lines if line.startswith("cross-entropy")]
    assert f" D^(−{fit.alpha:.4f})," in line
    assert f"{len(budgets)} checkpoints" in line
