"""Ranks that other programs found: a file as vLLM writes it, made of a model's own logits, beside `rbp extract`."""

import json
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from commands import here

from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import extract
from rbp.measurements import open_source
from rbp.measurements.engines import ImportLabels, import_ranks
from rbp.measurements.ranked import Ranked
from rbp.store import open_store, rename
from rbp.texts.protocol import protocol

LABELS = {"model": "mine/tiny", "dataset": "held", "family": "tiny", "size": 1000}
LABELS |= {"vocabulary": tiny.VOCAB, "dtype": "float32", "tie_rule": "paper"}
TABLE = pd.DataFrame({"document": [0, 0], "position": [1, 2], "token": [5, 6], "rank": [1, 2], "nll": [0.1, 1.0]})


def outputs(model, tokenizer, texts, more=0):
    """What vLLM gives for prompts: at each place the token's rank among all logits, and `more` likelier ones."""
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        with torch.inference_mode():
            scores = model(torch.tensor([ids])).logits[0].float().log_softmax(1)
        places = [None]
        for row, token in zip(scores, ids[1:], strict=False):
            chosen = [token, *row.topk(more).indices.tolist()]
            found = {str(i): {"logprob": float(row[i]), "rank": int((row >= row[i]).sum())} for i in chosen}
            places.append(found)
        yield {"prompt_token_ids": ids, "prompt_logprobs": places}


@pytest.fixture(scope="module")
def ranked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vllm")
    texts = [text for text in tiny.texts(5, seed=4) if len(text) > 20]
    saved = tiny.save_model(folder / "model", "neox")
    model, tokenizer = tiny.random_model("neox"), tiny.make_tokenizer()
    corpus = tiny.write_texts(folder / "held.jsonl", texts)
    (own,) = extract([str(saved)], [str(corpus)], protocol("windows", length=256), folder / "own")
    return list(outputs(model, tokenizer, texts)), list(outputs(model, tokenizer, texts, more=3)), open_store(own)


@pytest.fixture
def imported(tmp_path):
    """imported(lines or a table, …): the store of a file of these, in a folder of its own name."""

    def put(content, out="out", **labels):
        if csv := isinstance(content, pd.DataFrame):
            content.to_csv(tmp_path / "ranks.csv", index=False)
        else:
            (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in content))
        path, form = tmp_path / ("ranks.csv" if csv else "lines.jsonl"), "csv" if csv else "vllm"
        return open_store(import_ranks(path, form, ImportLabels(**{**LABELS, **labels}), tmp_path / out))

    return put


def logprobs(lines):
    """The same without the tokens' numbers."""
    return [{"prompt_logprobs": each["prompt_logprobs"]} for each in lines]


def own_place(line, position):
    return next(iter(line["prompt_logprobs"][position].values()))


@pytest.mark.parametrize("form", ["outputs", "more", "answers", "csv"])
def test_the_store_is_that_of_an_extraction(ranked, imported, form):
    plain, more, own = ranked
    there = own.ranks()
    table = there.assign(rank=there.greater + there.equal).drop(columns=["greater", "equal"])
    bare = logprobs(plain)
    answers = [{"choices": bare[:2]}, *({"choices": [each]} for each in bare[2:])]  # several prompts in an answer
    store = imported({"outputs": plain, "more": more, "answers": answers, "csv": table}[form])
    found = store.ranks()
    assert found[["document", "position", "token"]].equals(there[["document", "position", "token"]])
    assert (found.greater + found.equal).equals(there.greater + there.equal)
    np.testing.assert_allclose(found.nll, there.nll, atol=1e-5)
    rows = open_source(store.folder).table
    (one,) = rows[rows.metric.eq("neg_log_rbp") & rows.k.eq(100)].value
    assert one == pytest.approx(-np.log(np.mean(there.greater + there.equal <= 100)))


def test_no_other_tie_rule_is_read(ranked, imported, tmp_path):
    strict = imported(ranked[0], tie_rule="strict")
    assert Ranked(strict, "strict").rbp(tiny.VOCAB) == 1
    with pytest.raises(ParameterError, match="under the tie rule strict, and are asked for under paper") as refused:
        Ranked(strict)
    table = tmp_path / "table.csv"
    advised = refused.value.remedy.partition(": rbp ")[2].replace("table.csv", str(table)).split()
    assert here(*advised, root=tmp_path).returncode == 0
    assert set(open_source(table).table["source"]) == {f"ranks {strict.folder.name}"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda line: line.pop("prompt_logprobs"), "no prompt_logprobs"),
        (lambda line: line["prompt_logprobs"].pop(), "places of prompt_logprobs"),
        (lambda line: own_place(line, 1).update(rank=0), "0 is no rank"),
        (lambda line: own_place(line, 1).update(rank=10**6), "is no rank among 320"),
        (lambda line: own_place(line, 1).update(logprob=0.5), "no logarithm"),
        (lambda line: own_place(line, 1).update(rank=3, logprob=-0.1), "cannot have"),
        (lambda line: own_place(line, 1).update(logprob="x"), "no number"),
        (lambda line: line["prompt_logprobs"][3].update({"7": {"rank": 320, "logprob": -0.01}}), "token 7 rank 320"),
    ],
)
def test_files_that_are_not_whole(ranked, imported, tmp_path, change, says):
    lines = deepcopy(ranked[0])
    change(lines[1])
    with pytest.raises(DataError) as error:
        imported(lines)
    assert says in f"{error.value.what}, {error.value.where}"
    assert "line 2" in error.value.where
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (TABLE.drop(columns="rank"), "no column rank"),
        (TABLE.assign(position=1), "there twice"),
        (TABLE.assign(nll=[0.1, None]), "empty"),
        (TABLE.assign(position=[1, 2**31]), r"position 2147483648 is not from 0 to 2147483647 .*line 3"),
    ],
)
def test_tables_that_are_not_whole(imported, table, says):
    with pytest.raises(DataError, match=says):
        imported(table)


@pytest.mark.parametrize(
    "wrong", [{"tie_rule": "expected"}, {"dtype": "int8"}, {"size": 0}, {"vocabulary": 1}], ids=lambda w: next(iter(w))
)
def test_what_the_file_does_not_say_must_be_said(wrong):
    with pytest.raises(ParameterError):
        ImportLabels(**{**LABELS, **wrong})


def test_choices_of_one_prompt_count_once(ranked, imported, caplog):
    """In one answer, with and without the tokens' numbers, and from a log that was appended to twice."""
    plain, bare = ranked[0], logprobs(ranked[0])
    once = imported(plain).ranks()
    logs = [*plain, *plain], [{"choices": [each, each]} for each in plain], [{"choices": [*bare, *bare]}]
    for number, lines in enumerate(logs):
        caplog.clear()
        assert imported(lines, str(number)).ranks().equals(once)
        assert f"{len(plain)} prompts are copies" in caplog.text


@pytest.mark.parametrize("rest", [{}, {"prompt_token_ids": None}], ids=["prefix", "whole, without numbers"])
@pytest.mark.parametrize("numbers", [{"logprob": -9.0}, {"rank": 300}])
def test_a_prefix_has_the_same_numbers_wherever_it_stands(ranked, imported, numbers, rest):
    whole = ranked[0][0] | rest
    rounded = deepcopy({name: values[: None if rest else 9] for name, values in ranked[0][0].items()}) | rest
    own_place(rounded, 5)["logprob"] -= 1e-4  # as another batch gives it
    assert imported([whole, rounded]).tokens
    own_place(rounded, 5).update(numbers)
    with pytest.raises(DataError, match="after the same tokens") as error:
        imported([whole, rounded])
    assert "line 2, position 5" in error.value.where


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"rank": 1}, r"all .* ranks are 1|the likeliest of 320 tokens cannot"),
        ({"rank": 1, "logprob": -2.0}, r"all .* ranks are 1, with a cross-entropy of 2.00 nats"),
    ],
)
def test_ranks_that_nobody_counted(ranked, imported, numbers, says):
    lines = deepcopy(ranked[0])
    for line in lines:
        for position in range(1, len(line["prompt_logprobs"])):
            own_place(line, position).update(numbers)
    with pytest.raises(DataError, match=says):
        imported(lines)


def test_one_file_under_two_names_is_two_stores(ranked, imported):
    lines = ranked[0]
    one = imported(lines, engine_version="0.11.0")
    other = imported(lines, engine_version="0.11.0", model="mine/other")
    assert one.folder == imported(lines, engine_version="0.11.0").folder != other.folder
    assert open_store(one.folder).model == "mine/tiny"
    assert open_store(one.folder).manifest["about"]["engine_version"] == "0.11.0"
    new = rename(one.folder, {"model": "mine/renamed"})
    with pytest.raises(DataError, match="the model mine/renamed, not mine/tiny"):
        imported(lines, engine_version="0.11.0")
    assert open_store(new).model == "mine/renamed"
