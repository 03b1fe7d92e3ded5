"""Ranks that other programs found: a file as vLLM writes it, made of a model's own logits, beside `rbp extract`."""

import json

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from cli.test_cli import here

from rbp.core.errors import DataError, ParameterError
from rbp.evidence import open_source
from rbp.evidence.ranked import Ranked
from rbp.integrations.engines import Said, import_ranks
from rbp.ranks.extraction import extract
from rbp.ranks.protocols import protocol
from rbp.ranks.store import open_store

SAID = Said("mine/tiny", "held", "tiny", 1000, tiny.VOCAB, "float32", "paper")


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
    strict = open_store(import_ranks(path, "vllm", Said(**{**vars(SAID), "tie_rule": "strict"}), tmp_path))
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
    ("change", "said"),
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
def test_files_that_are_not_whole(ranked, tmp_path, change, said):
    path = written(tmp_path / "outputs.jsonl", broken(ranked[0], change))
    with pytest.raises(DataError) as error:
        import_ranks(path, "vllm", SAID, tmp_path / "out")
    assert said in f"{error.value.what}, {error.value.where}"
    assert not (tmp_path / "out").exists()


def test_tables_that_are_not_whole(tmp_path):
    whole = pd.DataFrame({"document": [0, 0], "position": [1, 2], "token": [5, 6], "rank": [1, 2], "nll": [0.1, 1.0]})
    path = tmp_path / "ranks.csv"
    for table, said in (
        (whole.drop(columns="rank"), "no column rank"),
        (whole.assign(logprob=-1), "one of the columns"),
        (whole.assign(position=1), "there twice"),
        (whole.assign(nll=[0.1, None]), "empty"),
        (whole[:0], "no token"),
    ):
        table.to_csv(path, index=False)
        with pytest.raises(DataError, match=said):
            import_ranks(path, "csv", SAID, tmp_path / "out")


@pytest.mark.parametrize(
    "wrong", [{"tie_rule": "expected"}, {"dtype": "int8"}, {"size": 0}, {"vocabulary": 1}], ids=lambda w: next(iter(w))
)
def test_what_the_file_does_not_say_must_be_said(wrong):
    with pytest.raises(ParameterError):
        Said(**{**vars(SAID), **wrong})


def sample(number, asked, found, target):
    """A line as lm-evaluation-harness 0.4.13 writes it with --log_samples, numbers and truth values as text."""
    resps = [[str(ll), str(greedy)] for ll, greedy in found]
    arguments = {f"gen_args_{i}": {"arg_0": context, "arg_1": text} for i, (context, text) in enumerate(asked)}
    line = {"doc_id": number, "doc": {"text": "".join(asked[0])}, "target": str(target), "arguments": arguments}
    line |= {"resps": [[one] for one in resps], "filtered_resps": resps, "filter": "none", "metrics": ["acc"]}
    return line | {"doc_hash": "0", "prompt_hash": "0", "target_hash": "0", "acc": 0.0}


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """The samples of a cloze task, some of whose targets are the likeliest token; and its texts' own store."""
    folder = tmp_path_factory.mktemp("lm-eval")
    saved = tiny.save_model(folder / "model", "neox")
    model, tokenizer = tiny.random_model("neox"), tiny.make_tokenizer()

    def asked(context, target):
        ids, before = tokenizer(context + target)["input_ids"], len(tokenizer(context)["input_ids"])
        with torch.inference_mode():
            scores = model(torch.tensor([ids])).logits[0, before - 1 : -1].log_softmax(1)
        own = torch.tensor(ids[before:])
        return float(scores.gather(1, own[:, None]).sum()), bool((scores.argmax(1) == own).all())

    lines, texts = [], []
    for context in (text[:-1] for text in tiny.texts(60, seed=6, longest=40) if " " in text):
        with torch.inference_mode():
            best = model(torch.tensor([tokenizer(context)["input_ids"]])).logits[0, -1].argmax()
        target = tokenizer.decode([int(best)]) if len(lines) % 2 else " law"
        if len(tokenizer(context + target)["input_ids"]) == len(tokenizer(context)["input_ids"]) + 1:
            lines.append(sample(len(lines), [(context, target)], [asked(context, target)], target))
            texts.append(context + target)
    corpus = tiny.write_texts(folder / "held.jsonl", texts)
    (own,) = extract([str(saved)], [str(corpus)], protocol("windows", length=256), folder / "own")
    last = open_store(own).ranks().groupby("document").last()
    longer = sample(len(lines), [("the rank", " of qx")], [asked("the rank", " of qx")], " of qx")
    return lines, longer, last, asked, str(saved)


def measured(path, tokenizer, out, **other):
    table = open_source(import_ranks(path, "lm-eval", Said(**{**vars(SAID), **other}), out, tokenizer)).table
    return table.set_index("metric")


def test_what_a_sample_log_tells_is_what_extraction_finds(logged, tmp_path, caplog):
    """RBP_1 and cross-entropy of targets of one token; a longer one is left out, with a word."""
    lines, longer, last, _, tokenizer = logged
    twice = [{**line, "filter": "other"} for line in lines]
    found = measured(written(tmp_path / "samples.jsonl", [*lines, longer, *twice]), tokenizer, tmp_path / "out")
    assert f"{len(lines)} of {len(lines) + 1} targets are one token" in caplog.text
    hits = int((last.greater + last.equal == 1).sum())
    assert 0 < hits < len(lines)
    assert found.loc["neg_log_rbp", ["k", "hits", "tokens"]].tolist() == [1, hits, len(lines)]
    assert found.loc["cross_entropy", "value"] == pytest.approx(float(last.nll.mean()), abs=1e-5)
    assert set(found.index) == {"neg_log_rbp", "cross_entropy"}
    assert "ties: paper" in found.loc["neg_log_rbp", "source"]


@pytest.mark.parametrize("by", ["number", "text"])
def test_of_choices_the_right_one_counts(logged, tmp_path, by):
    lines, _, last, asked, tokenizer = logged
    chosen = []
    for number, line in enumerate(lines):
        context, target = line["arguments"]["gen_args_0"].values()
        choices = [" zq", " rank" if target != " rank" else " of"]
        choices.insert(number % 3, target)
        pairs = [(context, choice) for choice in choices] + [("", choice) for choice in choices]
        found = [asked(*pair) if pair[0] else (-1.5, "False") for pair in pairs]
        gold = number % 3 if by == "number" else target.strip()
        if by == "number" or target == " law":
            chosen.append(sample(number, pairs, found, gold))
    found = measured(written(tmp_path / "samples.jsonl", chosen), tokenizer, tmp_path / "out")
    own = last.iloc[[line["doc_id"] for line in chosen]]
    assert found.loc["cross_entropy", "value"] == pytest.approx(float(own.nll.mean()), abs=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: line.update(filtered_resps=["-232.2"]), "no log-likelihoods"),
        (lambda line: line.update(filtered_resps=[["-1.0", "maybe"]]), "no log-likelihoods"),
        (lambda line: line.update(filtered_resps=[["-1.0", "False"]] * 2), "1 targets, and 2"),
        (lambda line: line.update(doc_id=0), "there twice"),
        (lambda line: line.update(filtered_resps=[["0.5", "True"]]), "no logarithm"),
        (lambda line: line.update(filtered_resps=[["-0.1", "False"]]), "cannot be other than the likeliest"),
        (lambda line: line.update(filtered_resps=[["-9.0", "True"]]), "cannot be the likeliest"),
        (
            lambda line: line.update(sample(1, [("a", " b"), ("c", " b")], [(-1, False)] * 2, "b")),
            "which of the 2 continuations",
        ),
    ],
)
def test_sample_logs_that_tell_nothing(logged, tmp_path, change, said):
    path = written(tmp_path / "samples.jsonl", broken(logged[0], change))
    with pytest.raises(DataError) as error:
        import_ranks(path, "lm-eval", SAID, tmp_path / "out", logged[-1])
    assert said in error.value.what
    assert "line 2" in error.value.where
    assert not (tmp_path / "out").exists()


def test_a_sample_log_needs_the_tokenizer_and_a_target_of_one_token(logged, tmp_path):
    path = written(tmp_path / "samples.jsonl", [logged[1]])
    with pytest.raises(ParameterError, match="does not say how many tokens"):
        import_ranks(path, "lm-eval", SAID, tmp_path / "out")
    with pytest.raises(ParameterError, match="csv needs none"):
        import_ranks(path, "csv", SAID, tmp_path / "out", logged[-1])
    with pytest.raises(DataError, match="cannot read the tokenizer"):
        import_ranks(path, "lm-eval", SAID, tmp_path / "out", str(tmp_path / "away"))
    with pytest.raises(DataError, match="none of the 1 targets is one token"):
        import_ranks(path, "lm-eval", SAID, tmp_path / "out", logged[-1])
    assert not (tmp_path / "out").exists()
