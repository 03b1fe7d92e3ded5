"""What a measurement would cost: its tokens are those that are ranked, its operations are counted by hand."""

import pytest
import torch
from commands import here, refused
from tiny import VOCAB, make_tokenizer, texts, write_texts

from rbp.extract import cost
from rbp.extract.corpora import open_corpus
from rbp.extract.extraction import Settings, planned
from rbp.extract.protocol import plan_rows, protocol
from rbp.extract.store import open_store


@pytest.fixture
def text(tmp_path):
    return write_texts(tmp_path / "mine.jsonl", texts(20))


@pytest.mark.parametrize("more", [(), ("--protocol", "authors", "--length", "32"), ("--tokens", "300")])
def test_a_plan_counts_what_extraction_ranks_and_writes_nothing(saved, text, tmp_path, more):
    asked = ("extract", "--model", str(saved("gpt2")), "--corpus", str(text), *more)
    plan = here(*asked, "--plan", root=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert not (tmp_path / "runs").exists()
    done = here(*asked, root=tmp_path)
    assert f"in all: {open_store(done.stdout.strip()).tokens:,} tokens ranked" in plan.stdout


def test_law_plans_all_its_models(saved, text, tmp_path):
    models = str(saved("gpt2")), str(saved("neox"))
    plan = here("law", *models, "--corpus", str(text), "--tokens", "200", "--plan", root=tmp_path)
    assert "in all: 400 tokens ranked" in plan.stdout, plan.stderr
    refused(here("law", "ladder", "--plan"), "nothing to plan", "--plan")  # of what is measured


def test_seconds_grow_with_the_rows(saved, tmp_path):
    """By hand, but for the look at the model before: twice the rows in twice the time."""
    one, two = (str(write_texts(tmp_path / f"{n}.jsonl", ["the rank of a token"] * n)) for n in (400, 800))
    how = protocol("windows", length=64)
    short, long = planned([str(saved("gpt2"))], [one, two], how, Settings(device="cpu"))
    rate = cost.Rate(read=1e-3, product=1e-3, ranked=3e-3, again=5e-3, threads=2)
    rows = [plan_rows(open_corpus(each), make_tokenizer(), how).rows for each in (one, two)]
    before, after = (cost.ranking_seconds(each, short.size, rate, VOCAB) for each in rows)
    share = 0.02 * (short.read * 1e-3 + short.ranked * 5e-3)
    assert after - before == pytest.approx((short.read * 1e-3 + short.ranked * 3e-3 + share) / 2)
    assert long.read == 2 * short.read


def test_operations_by_hand(saved, tmp_path):
    """GPT-2 of two layers, d = 32: 12·d² + 13·d in each, and the last norm."""
    text, how = write_texts(tmp_path / "mine.jsonl", ["the rank of a token"] * 3), protocol("windows", length=64)
    (found,), (half,) = (
        planned([str(saved("gpt2"))], [str(text)], how, Settings(device="cpu", vocabulary=vocabulary))
        for vocabulary in ("all", VOCAB // 2)
    )
    body = 2 * (12 * 32**2 + 13 * 32) + 2 * 32
    assert found.size.non_embedding == body
    assert found.read - found.ranked == 3  # the first token of each is read alone
    assert found.flops == 2 * (found.read * body + found.ranked * VOCAB * 32)
    assert found.flops - half.flops == found.ranked * VOCAB * 32
    text = write_texts(tmp_path / "long.jsonl", ["the rank of a token " * 20])
    how = protocol("windows", length=16, context=8)
    (found,) = planned([str(saved("gpt2"))], [str(text)], how, Settings())  # contexts are read again
    assert found.read == found.ranked + 1 + 8 * -(-(found.ranked + 1 - 16) // 8)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--length", "512"), "--length 256"),
        (("--dtype", "int8"), "--dtype"),
        (("--backend", "none"), "backend"),
        (("--revision", "step1"), "no checkpoint step1"),
        (("--field", "story"), "no field story"),
    ],
)
def test_a_plan_refuses_what_extraction_refuses(saved, text, more, word):
    refused(here("extract", "--model", str(saved("gpt2")), "--corpus", str(text), "--plan", *more), word)


@pytest.mark.parametrize("kind", ["gpt2", "gemma2", "mixtral"])
def test_layers_are_timed_of_each_architecture(saved, kind):
    config = cost.read_config(saved(kind))
    assert cost._reading_seconds(config, torch.float32, torch.device("cpu"), 1, 16) > 0
