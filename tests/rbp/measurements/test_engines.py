"""Ranks that other programs found: a file as vLLM writes it, made of a model's own logits, beside `rbp extract`."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from commands import here

from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store, rename
from rbp.measurements import open_source
from rbp.measurements.engines import ImportLabels, import_ranks
from rbp.measurements.ranked import Ranked

SAID = ImportLabels("mine/tiny", "held", "tiny", 1000, tiny.VOCAB, "float32", "paper")


def outputs(model, tokenizer, texts, more=0):
    """What vLLM gives for prompts: at each place the token's rank among all logits, and `more` likelier ones."""
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        with torch.inference_mode():
            scores = model(torch.tensor([ids])).logits[0].float().log_softmax(1)
        places = [None]
        for position, token in enumerate(ids[1:]):
            row = scores[position]
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


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("form", ["outputs", "more", "answers", "csv"])
def test_the_store_is_that_of_an_extraction(ranked, tmp_path, form):
    plain, more, own = ranked
    if form == "csv":
        path = tmp_path / "ranks.csv"
        tokens = own.ranks()
        tokens.assign(rank=tokens.greater + tokens.equal).drop(columns=["greater", "equal"]).to_csv(path, index=False)
    elif form == "answers":  # several prompts in an answer, without the tokens' numbers
        choices = [{"prompt_logprobs": each["prompt_logprobs"]} for each in plain]
        path = written(tmp_path / "answers.jsonl", [{"choices": choices[:2]}, *({"choices": [c]} for c in choices[2:])])
    else:
        path = written(tmp_path / "outputs.jsonl", more if form == "more" else plain)
    folder = import_ranks(path, "csv" if form == "csv" else "vllm", SAID, tmp_path / "out")
    found, there = open_store(folder).ranks(), own.ranks()
    assert found[["document", "position", "token"]].equals(there[["document", "position", "token"]])
    assert (found.greater + found.equal).equals(there.greater + there.equal)
    np.testing.assert_allclose(found.nll, there.nll, atol=1e-5)
    assert import_ranks(path, "csv" if form == "csv" else "vllm", SAID, tmp_path / "out") == folder
    table = open_source(folder).table
    (one,) = table[table.metric.eq("neg_log_rbp") & table.k.eq(100)].value
    assert one == pytest.approx(-np.log(np.mean(there.greater + there.equal <= 100)))


def test_no_other_tie_rule_is_read(ranked, tmp_path):
    path = written(tmp_path / "outputs.jsonl", ranked[0])
    strict = open_store(import_ranks(path, "vllm", ImportLabels(**{**vars(SAID), "tie_rule": "strict"}), tmp_path))
    assert Ranked(strict, "strict").rbp(tiny.VOCAB) == 1
    with pytest.raises(ParameterError, match="under the tie rule strict, and are asked for under paper") as refused:
        Ranked(strict)
    table = tmp_path / "table.csv"
    advised = refused.value.remedy.partition(": rbp ")[2].replace("table.csv", str(table)).split()
    assert here(*advised, root=tmp_path).returncode == 0
    assert set(open_source(table).table["source"]) == {f"ranks {strict.folder.name}"}


def broken(lines, change):
    lines = json.loads(json.dumps(lines))
    change(lines[1])
    return lines


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        (lambda line: line.pop("prompt_logprobs"), "no prompt_logprobs"),
        (lambda line: line["prompt_logprobs"].pop(), "places of prompt_logprobs"),
        (lambda line: line["prompt_logprobs"].__setitem__(2, None), "line 2, position 2"),
        (lambda line: next(iter(line["prompt_logprobs"][1].values())).update(rank=0), "0 is no rank"),
        (lambda line: next(iter(line["prompt_logprobs"][1].values())).update(rank=10**6), "is no rank among 320"),
        (lambda line: next(iter(line["prompt_logprobs"][1].values())).update(logprob=0.5), "no logarithm"),
        (lambda line: next(iter(line["prompt_logprobs"][1].values())).update(rank=3, logprob=-0.1), "cannot have"),
        (lambda line: next(iter(line["prompt_logprobs"][1].values())).update(logprob="x"), "no number"),
    ],
)
def test_files_that_are_not_whole(ranked, tmp_path, change, labels):
    path = written(tmp_path / "outputs.jsonl", broken(ranked[0], change))
    with pytest.raises(DataError) as error:
        import_ranks(path, "vllm", SAID, tmp_path / "out")
    assert labels in f"{error.value.what}, {error.value.where}"
    assert not (tmp_path / "out").exists()


def test_tables_that_are_not_whole(tmp_path):
    whole = pd.DataFrame({"document": [0, 0], "position": [1, 2], "token": [5, 6], "rank": [1, 2], "nll": [0.1, 1.0]})
    path = tmp_path / "ranks.csv"
    for table, labels in (
        (whole.drop(columns="rank"), "no column rank"),
        (whole.assign(logprob=-1), "one of the columns"),
        (whole.assign(position=1), "there twice"),
        (whole.assign(nll=[0.1, None]), "empty"),
        (whole[:0], "no token"),
    ):
        table.to_csv(path, index=False)
        with pytest.raises(DataError, match=labels):
            import_ranks(path, "csv", SAID, tmp_path / "out")


@pytest.mark.parametrize(
    "wrong", [{"tie_rule": "expected"}, {"dtype": "int8"}, {"size": 0}, {"vocabulary": 1}], ids=lambda w: next(iter(w))
)
def test_what_the_file_does_not_say_must_be_said(wrong):
    with pytest.raises(ParameterError):
        ImportLabels(**{**vars(SAID), **wrong})


def imported(tmp_path, lines, **labels):
    tmp_path.mkdir(exist_ok=True)
    path = written(tmp_path / "outputs.jsonl", lines)
    return open_store(import_ranks(path, "vllm", ImportLabels(**{**vars(SAID), **labels}), tmp_path / "out"))


def test_choices_of_one_prompt_count_once(ranked, tmp_path, caplog):
    """In one answer, with and without the tokens' numbers, and from a log that was appended to twice."""
    plain = ranked[0]
    once = imported(tmp_path, plain).ranks()
    bare = [{"prompt_logprobs": each["prompt_logprobs"]} for each in plain]
    logs = [*plain, *plain], [{"choices": [each, each]} for each in plain], [{"choices": [*bare, *bare]}]
    for number, lines in enumerate(logs):
        caplog.clear()
        found = imported(tmp_path / str(number), lines).ranks()
        assert found.equals(once)
        assert f"{len(plain)} prompts are copies" in caplog.text


def changed(line, length, place, **numbers):
    """The first tokens of a prompt, one of them with other numbers."""
    line = json.loads(json.dumps({name: values[:length] for name, values in line.items()}))
    next(iter(line["prompt_logprobs"][place].values())).update(numbers)
    return line


@pytest.mark.parametrize("rest", [{}, {"prompt_token_ids": None}], ids=["prefix", "whole, without numbers"])
@pytest.mark.parametrize("numbers", [{"logprob": -9.0}, {"rank": 300}])
def test_a_prefix_has_the_same_numbers_wherever_it_stands(ranked, tmp_path, numbers, rest):
    length = None if rest else 9
    other = changed(ranked[0][0], length, 5, **numbers) | rest
    with pytest.raises(DataError, match="after the same tokens") as error:
        imported(tmp_path, [ranked[0][0] | rest, other])
    assert "line 2, position 5" in error.value.where
    rounded = changed(ranked[0][0], length, 5) | rest
    found = next(iter(rounded["prompt_logprobs"][5].values()))
    found["logprob"] -= 1e-4  # as another batch gives it
    assert imported(tmp_path / "rounded", [ranked[0][0] | rest, rounded]).tokens


def test_ranks_that_nobody_counted(ranked, tmp_path):
    ones = [json.loads(json.dumps(line)) for line in ranked[0]]
    for line in ones:
        for place in line["prompt_logprobs"][1:]:
            next(iter(place.values())).update(rank=1)
    with pytest.raises(DataError, match=r"all .* ranks are 1|the likeliest of 320 tokens cannot"):
        imported(tmp_path, ones)
    for line in ones:
        for place in line["prompt_logprobs"][1:]:
            next(iter(place.values())).update(logprob=-2.0)
    with pytest.raises(DataError, match=r"all .* ranks are 1, with a cross-entropy of 2.00 nats"):
        imported(tmp_path, ones)
    odd = {"7": {"rank": 320, "logprob": -0.01}}
    alternatives = broken(ranked[1], lambda line: line["prompt_logprobs"][3].update(odd))
    with pytest.raises(DataError, match="and token 7 rank 320") as error:
        imported(tmp_path, alternatives)
    assert "line 2, position 3" in error.value.where


def test_one_file_under_two_names_is_two_stores(ranked, tmp_path):
    one = imported(tmp_path, ranked[0], engine_version="0.11.0")
    other = imported(tmp_path, ranked[0], engine_version="0.11.0", model="mine/other")
    assert one.folder != other.folder
    assert open_store(one.folder).model == "mine/tiny"
    assert open_store(one.folder).manifest["about"]["engine_version"] == "0.11.0"
    new = rename(one.folder, {"model": "mine/renamed"})
    with pytest.raises(DataError, match="the model mine/renamed, not mine/tiny"):
        imported(tmp_path, ranked[0], engine_version="0.11.0")
    assert open_store(new).model == "mine/renamed"


def test_places_that_no_store_has(tmp_path, caplog):
    whole = pd.DataFrame({"document": [0, 0], "position": [1, 2], "token": [5, 6], "rank": [1, 2], "nll": [0.1, 1.0]})
    path = tmp_path / "ranks.csv"
    for name in ("document", "position"):
        whole.assign(**{name: [1, 2**31]}).to_csv(path, index=False)
        with pytest.raises(DataError, match=f"{name} 2147483648 is not from 0 to 2147483647") as error:
            import_ranks(path, "csv", SAID, tmp_path / "out")
        assert "line 3" in error.value.where
    whole.assign(text="x").to_csv(path, index=False)
    assert open_store(import_ranks(path, "csv", SAID, tmp_path / "out")).tokens == 2
    assert "columns are ignored: text" in caplog.text
