"""The recipe “Your checkpoints”, as it stands on its page: checkpoints measured by one file, and their laws."""

import re
from contextlib import chdir
from pathlib import Path

import pytest
from commands import here
from tiny import make_tokenizer, random_model

from companion.project import ROOT
from rbp.io import write_file
from rbp.laws.power import fit_power_law
from rbp.store import open_store
from rbp.study.config import read_study
from rbp.study.run import rank_shard

PAGE = (ROOT / "book" / "recipes.md").read_text(encoding="utf-8").split("## Your checkpoints")[1].split("\n## ")[0]


@pytest.mark.long
def test_the_recipe_runs_as_it_stands(tmp_path, monkeypatch):
    """Of tiny models that are called the checkpoints after 2, 4 and 8 steps."""
    monkeypatch.chdir(tmp_path)
    model, budgets = random_model("neox"), [step * 8 * 256 for step in (2, 4, 8)]
    for step in (2, 4, 8):
        model.get_output_embeddings().weight.data /= step  # so that, more and more, it is sure of nothing
        model.save_pretrained(f"my-run/step{step}")
        make_tokenizer().save_pretrained(f"my-run/step{step}")
    (table,) = re.findall(r"```text\n(model,.*?)```", PAGE, re.DOTALL)
    Path("my-run/checkpoints.csv").write_text(table)
    Path("held-out.txt").write_text((ROOT / "README.md").read_text(encoding="utf-8")[:1500])

    def one_by_one(_):
        """The jobs, in this process; Snakemake does them in test_study.py."""
        study = read_study(Path("checkpoints.toml"), Path("runs"))
        with chdir(study.out):
            for label, cell in study.cells.items():
                write_file(Path("shards", label, "1-of-1"), str(rank_shard(cell, 1, 1)))

    monkeypatch.setattr("snakemake.cli.main", one_by_one)
    monkeypatch.setattr("rbp.extract.extraction.say_on_stderr", lambda: None)
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    Path("checkpoints.toml").write_text(f'output = "runs/studies/checkpoints"\n{toml}')
    study, law = (line.split()[1:] for line in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)[0].strip().split("\n"))
    done, told = here(*study, "--profile", "local"), here(*law, root=tmp_path)
    assert (done.returncode, told.returncode) == (0, 0), done.stderr + told.stderr
    lines = told.stdout.splitlines()
    # by hand, from the ranks
    stores = [open_store(path) for path in Path("runs/studies/checkpoints/ranks").iterdir()]
    stores.sort(key=lambda store: store.training.training_tokens)
    assert [store.training.training_tokens for store in stores] == budgets
    fit = fit_power_law(budgets, [store.ranks()["nll"].mean() for store in stores])
    (line,) = [line for line in lines if line.startswith("cross-entropy")]
    assert f" D^(−{fit.alpha:.4f})," in line
    assert f"{len(budgets)} checkpoints" in line
