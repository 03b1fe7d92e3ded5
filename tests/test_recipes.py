"""Every query of the book's page of recipes runs on the ladder's stores, and two of them say what ranks say."""

import gzip
import json
import re
import shutil
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch
from commands import here
from ggufs import save_case, write_case
from tiny import VOCAB, load, make_tokenizer, random_model, save_model, texts, write_texts

from companion.project import LADDER, ROOT
from rbp.extract.extraction import extract
from rbp.laws.power import fit_power_law
from rbp.measurements.engines import ImportLabels, import_ranks
from rbp.store import open_store, store_folders
from rbp.texts.protocol import protocol

PAGE = (ROOT / "book" / "recipes.md").read_text(encoding="utf-8")
STORES = [
    store
    for store in map(open_store, store_folders([LADDER / "families-ranks" / "neox"]))
    if store.dataset in ("wikipedia", "humaneval")
]
QUERIES = {int(n): sql for n, sql in re.findall(r"^## (\d+)\..*?```sql\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)}


(VIEW,) = re.findall(r"```python\n(import duckdb\n.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def query(tmp_path_factory):
    """query(SQL): its answer by the page's view of the ladder's transformers on two of the four texts."""
    folder = tmp_path_factory.mktemp("stores")
    for store in STORES:
        (folder / store.folder.name).symlink_to(store.folder)
    unfinished = shutil.copytree(STORES[0].folder, folder / "unfinished")
    manifest = json.loads((unfinished / "manifest.json").read_text()) | {"complete": False}
    (unfinished / "manifest.json").write_text(json.dumps(manifest))
    exec(VIEW.replace("data/ladder/families-ranks/neox", str(folder)), {})  # noqa: S102  # our own
    return lambda sql: duckdb.sql(sql).df()


@pytest.mark.long
def test_each_query_answers_and_the_first_have_all_ranks_and_the_law_of_the_fit(query):
    sums = "SELECT store, count(*) AS tokens, sum(rank) AS ranks FROM ranks GROUP BY ALL"
    found = query(sums).set_index("store")
    assert {*found.index} == {store.folder.name for store in STORES}
    for store in STORES[:3]:
        ranks, row = store.ranks(), found.loc[store.folder.name]
        assert row["ranks"] == (ranks["greater"].astype("int64") + ranks["equal"]).sum()
        assert row["tokens"] == len(ranks)
    answers = {number: query(sql) for number, sql in QUERIES.items()}
    assert all(len(answer) and not answer.isna().to_numpy().any() for answer in answers.values())
    laws = answers[2].set_index("dataset")
    assert set(laws.index) == {"wikipedia", "humaneval"}
    for dataset, some in answers[1].groupby("dataset"):
        fitted = fit_power_law(some["size"].to_numpy(), -np.log(some["rbp_1"].to_numpy()))
        assert laws.loc[dataset, "alpha"] == pytest.approx(fitted.alpha, rel=1e-9)


@pytest.mark.long
def test_the_quantized_files_of_a_model_are_written_and_compared(tmp_path, monkeypatch):
    """The recipe's program and commands, on a tiny model in the place of the real one."""
    (recipe,) = re.findall(r"^## Is my 4-bit.*?^## ", PAGE, re.MULTILINE | re.DOTALL)
    program, block = (re.search(rf"```{kind}\n(.*?)```", recipe, re.DOTALL)[1] for kind in ("python", "bash"))
    names = re.search(r"for model in (.*?);", block)[1].split()
    original, *made = (tmp_path / "runs/models" / f"{name}.gguf" for name in names)
    original.parent.mkdir(parents=True)
    write_case("llama", save_case("llama", tmp_path / "whole"), original, "Q4_1")
    monkeypatch.chdir(tmp_path)
    exec(program, {})  # noqa: S102  # our own
    before, *others = (load(path).model.state_dict() for path in (original, *made))
    for weights, most in zip(others, (1 / 220, 1 / 7), strict=True):  # a step is 1/127 or 1/8
        assert max(((weights[name] - own).abs().max() / own.abs().max()).item() for name, own in before.items()) < most
    rows = [{"prompt": text, "canonical_solution": text[::-1]} for text in texts(9)]
    with gzip.open("humaneval.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    extract, *compare = re.findall(r"rbp (.*)", block.replace("\\\n", " ").replace("--length 512", "--length 128"))
    for name in names:
        assert here(*extract.replace("$model", name).split()).returncode == 0
    for command in compare:
        words = [[*map(str, tmp_path.glob(word))] if "*" in word else [word] for word in command.split()]
        assert here(*chain(*words)).returncode == 0
    assert (tmp_path / "runs/q4_0.html").is_file()


def engine_outputs(model, tokenizer, texts):
    """What vLLM gives for prompts: at each place the token's rank among all logits, and three likelier ones."""
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        with torch.inference_mode():
            scores = model(torch.tensor([ids])).logits[0].float().log_softmax(1)
        places = [None]
        for row, token in zip(scores, ids[1:], strict=False):
            chosen = [token, *row.topk(3).indices.tolist()]
            places.append({str(i): {"logprob": float(row[i]), "rank": int((row >= row[i]).sum())} for i in chosen})
        yield {"prompt_token_ids": ids, "prompt_logprobs": places}


def test_an_engine_s_lines_become_the_ranks_of_an_extraction(tmp_path, monkeypatch):
    """By the recipe's program and `rbp ranks import`."""
    monkeypatch.chdir(tmp_path)
    prompts = [text for text in texts(5, seed=4) if len(text) > 20]
    model, corpus = save_model(tmp_path / "model", "neox"), write_texts(tmp_path / "held.jsonl", prompts)
    (own,) = extract([str(model)], [str(corpus)], protocol("windows", length=256), tmp_path / "own")
    lines = engine_outputs(random_model("neox"), make_tokenizer(), prompts)
    Path("outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (program,) = re.findall(
        r"^## Ranks from an engine.*?```python\n(import json\n.*?)```", PAGE, re.MULTILINE | re.DOTALL
    )
    exec(program.replace("NOISE = 0.5", "NOISE = 0.01"), {})  # noqa: S102  # our own, for float32
    labels = ImportLabels("m", "held", "tiny", 1000, VOCAB, "float32", "paper")
    found, own = (open_store(folder).ranks() for folder in (import_ranks("ranks.csv", labels, tmp_path / "out"), own))
    assert found[["document", "position", "token"]].equals(own[["document", "position", "token"]])
    assert (found.greater + found.equal).equals(own.greater + own.equal)
    np.testing.assert_allclose(found.nll, own.nll, atol=1e-5)
