"""Every query of the book's page of recipes runs on the ladder's stores, and two of them say what ranks say."""

import gzip
import json
import math
import re
import shutil
from copy import deepcopy
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


def test_the_view_has_all_ranks(query):
    names = ["model", "dataset", "family", "size"]
    sums = "count(*) AS tokens, sum(rank) AS ranks, sum(position) AS positions"
    labels = ", ".join(names)
    found = query(f"SELECT store, {labels}, {sums} FROM ranks GROUP BY ALL").set_index("store")  # noqa: S608
    assert {*found.index} == {store.folder.name for store in STORES}
    for store in STORES[:3]:
        ranks, row = store.ranks(), found.loc[store.folder.name]
        assert row[names].tolist() == [getattr(store, name) for name in names]
        assert row["ranks"] == (ranks["greater"].astype("int64") + ranks["equal"]).sum()
        assert (row["tokens"], row["positions"]) == (len(ranks), ranks["position"].astype("int64").sum())


@pytest.mark.long
def test_a_query_answers(query):
    for number in range(4, 11):
        found = query(QUERIES[number])
        assert len(found), number
        assert not found.isna().to_numpy().any(), number


def test_the_law_is_that_of_the_fit(query):
    shares = query(QUERIES[1])
    laws = query(QUERIES[2]).set_index("dataset")
    assert set(laws.index) == {"wikipedia", "humaneval"}
    for dataset, some in shares.groupby("dataset"):
        fitted = fit_power_law(some["size"].to_numpy(), -np.log(some["rbp_1"].to_numpy()))
        assert math.isclose(laws.loc[dataset, "alpha"], fitted.alpha, rel_tol=1e-9)
        assert math.isclose(laws.loc[dataset, "prefactor"], fitted.prefactor, rel_tol=1e-9)
        assert laws.loc[dataset, "models"] == fitted.n


def test_the_rank_surprisal_ratio_is_that_of_its_definition(query):
    found = query(QUERIES[3])
    for store in STORES[:3]:
        tokens = store.ranks()
        mine = found[(found["model"] == store.model) & (found["dataset"] == store.dataset)]
        assert mine["rank_surprisal_ratio"].is_monotonic_increasing
        long = [(number, some) for number, some in tokens.groupby("document") if len(some) >= 50]
        ratios = {number: (some["greater"] + 1).clip(upper=100).sum() / math.fsum(some["nll"]) for number, some in long}
        assert dict(zip(mine["document"], mine["rank_surprisal_ratio"], strict=True)) == pytest.approx(ratios, rel=1e-6)


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
    weights_before, *others = (load(path).model.state_dict() for path in (original, *made))
    for weights, most in zip(others, (1 / 220, 1 / 7), strict=True):  # a step is 1/127 or 1/8
        moved = {
            name: ((weights[name] - own).abs().max() / own.abs().max()).item() for name, own in weights_before.items()
        }
        assert {name for name, share in moved.items() if share} == {name for name in weights_before if "proj" in name}
        assert max(moved.values()) < most
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


(CONVERTED,) = re.findall(
    r"^## Ranks from an engine.*?```python\n(import json\n.*?)```", PAGE, re.MULTILINE | re.DOTALL
)


def engine_outputs(model, tokenizer, texts, more):
    """What vLLM gives for prompts: at each place the token's rank among all logits, and `more` likelier ones."""
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        with torch.inference_mode():
            scores = model(torch.tensor([ids])).logits[0].float().log_softmax(1)
        places = [None]
        for row, token in zip(scores, ids[1:], strict=False):
            chosen = [token, *row.topk(more).indices.tolist()]
            places.append({str(i): {"logprob": float(row[i]), "rank": int((row >= row[i]).sum())} for i in chosen})
        yield {"prompt_token_ids": ids, "prompt_logprobs": places}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """Outputs with the prompts' tokens alone, with three others at each place, and the ranks of an extraction."""
    folder = tmp_path_factory.mktemp("vllm")
    prompts = [text for text in texts(5, seed=4) if len(text) > 20]
    model, corpus = save_model(folder / "model", "neox"), write_texts(folder / "held.jsonl", prompts)
    (own,) = extract([str(model)], [str(corpus)], protocol("windows", length=256), folder / "own")
    plain, more = (list(engine_outputs(random_model("neox"), make_tokenizer(), prompts, n)) for n in (0, 3))
    return plain, more, open_store(own).ranks()


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """converted(lines): the ranks that the recipe's program and `rbp ranks import` make of an engine's lines."""
    monkeypatch.chdir(tmp_path)

    def convert(lines):
        Path("outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        exec(CONVERTED.replace("NOISE = 0.5", "NOISE = 0.01"), {})  # noqa: S102  # our own, for float32
        labels = ImportLabels("m", "held", "tiny", 1000, VOCAB, "float32", "paper")
        return open_store(import_ranks("ranks.csv", labels, tmp_path / "out")).ranks()

    return convert


def without_ids(lines):
    return [{"prompt_logprobs": line["prompt_logprobs"]} for line in lines]


@pytest.mark.parametrize("form", ["more", "answers", "copies", "choices without numbers"])
def test_an_engine_s_lines_become_the_ranks_of_an_extraction(engine, converted, form):
    plain, more, own = engine
    bare = without_ids(plain)
    found = converted(
        {
            "more": more,
            "answers": [{"choices": bare[:2]}, *({"choices": [line]} for line in bare[2:])],
            "copies": [*plain, *plain],
            "choices without numbers": [{"choices": [*bare, *bare]}],
        }[form]
    )
    assert found[["document", "position", "token"]].equals(own[["document", "position", "token"]])
    assert (found.greater + found.equal).equals(own.greater + own.equal)
    np.testing.assert_allclose(found.nll, own.nll, atol=1e-5)


@pytest.mark.parametrize(("rest", "numbers"), [({}, {"logprob": -9.0}), ({"prompt_token_ids": None}, {"rank": 300})])
def test_an_engine_s_prompts_that_begin_alike_have_the_same_numbers(engine, converted, numbers, rest):
    prompt = engine[0][0] | rest
    other = deepcopy({name: values[: None if rest else 9] for name, values in engine[0][0].items()}) | rest
    (own,) = other["prompt_logprobs"][5].values()
    own["logprob"] -= 1e-4  # as another batch gives it
    assert len(converted([prompt, other]))
    own.update(numbers)
    with pytest.raises(SystemExit, match="line 2, position 5: after the same tokens"):
        converted([prompt, other])


def test_an_engine_s_ranks_out_of_order_and_prompts_cut_short_are_refused(engine, converted):
    lines, short = deepcopy(engine[0]), deepcopy(engine[0])
    place = lines[1]["prompt_logprobs"][3]
    place["7" if "7" not in place else "8"] = {"rank": 1, "logprob": -40.0}
    with pytest.raises(SystemExit, match="line 2, position 3: ranks and log-probabilities"):
        converted(lines)
    short[1]["prompt_logprobs"].pop()
    with pytest.raises(SystemExit, match="line 2"):
        converted(short)
