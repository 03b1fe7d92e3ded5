"""Every query of the book's page of recipes runs on the ladder's stores, and two of them say what ranks say."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import make_tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

import rbp
from companion.project import LADDER, ROOT
from rbp.laws.power import fit_power_law
from rbp.measurements.query import query
from rbp.store import open_store, store_folders

PAGE = (ROOT / "book" / "recipes.md").read_text(encoding="utf-8")
QUERIES = {int(n): sql for n, sql in re.findall(r"^## (\d+)\..*?```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)}


@pytest.fixture(scope="module")
def stores():
    """The ranks of the ladder's transformers on two of the four texts."""
    every = [open_store(folder) for folder in store_folders([LADDER / "families-ranks" / "neox"])]
    return [store for store in every if store.dataset in ("wikipedia", "humaneval")]


@pytest.mark.long
@pytest.mark.parametrize("number", range(4, 11))
def test_a_query_answers(stores, number):
    found = query(stores, QUERIES[number])
    assert len(found)
    assert not found.isna().to_numpy().any()


def test_the_law_is_that_of_the_fit(stores):
    shares = query(stores, QUERIES[1])
    laws = query(stores, QUERIES[2]).set_index("dataset")
    assert set(laws.index) == {"wikipedia", "humaneval"}
    for dataset, some in shares.groupby("dataset"):
        fitted = fit_power_law(some["size"].to_numpy(), -np.log(some["rbp_1"].to_numpy()))
        assert math.isclose(laws.loc[dataset, "alpha"], fitted.alpha, rel_tol=1e-9)
        assert math.isclose(laws.loc[dataset, "prefactor"], fitted.prefactor, rel_tol=1e-9)
        assert laws.loc[dataset, "models"] == fitted.n


def test_the_rank_surprisal_ratio_is_that_of_its_definition(stores):
    found = query(stores, QUERIES[3])
    for store in stores[:3]:
        tokens = store.ranks()
        mine = found[(found["model"] == store.model) & (found["dataset"] == store.dataset)]
        assert mine["rank_surprisal_ratio"].is_monotonic_increasing
        long = [(number, some) for number, some in tokens.groupby("document") if len(some) >= 50]
        ratios = {number: (some["greater"] + 1).clip(upper=100).sum() / math.fsum(some["nll"]) for number, some in long}
        assert dict(zip(mine["document"], mine["rank_surprisal_ratio"], strict=True)) == pytest.approx(ratios, rel=1e-6)


def test_the_rounded_variants_of_a_model_are_written_and_compared(tmp_path, monkeypatch):
    """The program of the recipe, on a tiny model of four layers in the place of the real one."""
    (program,) = re.findall(r"^## Is my 4-bit.*?```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
    shipped = tmp_path / "shipped"
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=320, **shape)).save_pretrained(shipped)
    make_tokenizer().save_pretrained(shipped)
    monkeypatch.chdir(tmp_path)
    exec(program.replace("runs/models/SmolLM2-135M-Instruct.Q4_1.gguf", str(shipped)), {})  # noqa: S102  # our own
    weights = {name: load_file(Path("runs/models") / name / "model.safetensors") for name in ("8-bit", "3-bit-quarter")}
    whole = load_file(shipped / "model.safetensors")
    changed = {name: {key for key in whole if not torch.equal(own[key], whole[key])} for name, own in weights.items()}
    assert {int(key.split(".")[2]) for key in changed["3-bit-quarter"]} == {0, 4}
    assert {int(key.split(".")[2]) for key in changed["8-bit"]} == set(range(5))
    assert all("proj" in key for names in changed.values() for key in names)
    text = " ".join(["the rank of a token among all scores falls as models grow"] * 9)
    ranked = [rbp.rank(str(folder), [text]) for folder in (shipped, "runs/models/8-bit")]
    assert abs(rbp.compare(*ranked, k=[1]).table["difference"][0]) < 0.05
