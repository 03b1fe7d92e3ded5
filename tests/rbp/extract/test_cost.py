"""What a measurement would cost: its tokens are those that are ranked, its operations are counted by hand."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import torch
from commands import here, refused
from tiny import VOCAB, texts, write_texts

from rbp.extract import cost
from rbp.extract.extraction import Settings, planned
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Where rates are kept: not in the user's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rbp" / "rates.json"


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


def test_operations_by_hand(saved, tmp_path):
    """GPT-2 of two layers, d = 32: 12·d² + 13·d in each, and the last norm."""
    text = write_texts(tmp_path / "mine.jsonl", ["the rank of a token"] * 3)
    (found,) = planned([str(saved("gpt2"))], [str(text)], protocol("windows", length=64), Settings(device="cpu"))
    body = 2 * (12 * 32**2 + 13 * 32) + 2 * 32
    assert found.size.non_embedding == body
    assert found.read - found.ranked == 3  # the first token of each is read alone
    assert found.flops == 2 * (found.read * body + found.ranked * VOCAB * 32)
    (half,) = planned(
        [str(saved("gpt2"))], [str(text)], protocol("windows", length=64), Settings(device="cpu", vocabulary=VOCAB // 2)
    )
    assert found.flops - half.flops == found.ranked * VOCAB * 32


def test_contexts_are_read_again(saved, tmp_path):
    text = write_texts(tmp_path / "mine.jsonl", ["the rank of a token " * 20])
    (found,) = planned([str(saved("gpt2"))], [str(text)], protocol("windows", length=16, context=8), Settings())
    tokens = found.ranked + 1
    rows = -(-(tokens - 16) // 8) + 1
    assert found.read == tokens + 8 * (rows - 1)


def test_law_plans_all_its_models(saved, text, tmp_path):
    models = str(saved("gpt2")), str(saved("neox"))
    plan = here("law", *models, "--corpus", str(text), "--tokens", "200", "--plan", root=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert "in all: 400 tokens ranked" in plan.stdout
    assert not (tmp_path / "runs").exists()


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
def test_a_plan_refuses_what_extraction_refuses(saved, text, tmp_path, more, word):
    refused(here("extract", "--model", str(saved("gpt2")), "--corpus", str(text), "--plan", *more), word)


def test_a_law_of_what_is_measured_has_no_plan():
    refused(here("law", "ladder", "--plan"), "nothing to plan", "--plan")


def test_a_rate_is_kept_for_some_days(kept, monkeypatch):
    size, cpu = cost.Size(1000, 2000, 64 * 16, 64, "test"), torch.device("cpu")
    first = cost.measured_rate(size, "float32", cpu)
    assert first.measured == datetime.now(UTC).date().isoformat()
    monkeypatch.setattr(cost, "product_rate", lambda *of: 1.0)
    assert cost.measured_rate(size, "float32", cpu) == first
    assert cost.measured_rate(size, "float32", cpu, first.threads + 1).product == 1
    rows = json.loads(kept.read_text())
    rows[0]["measured"] = (datetime.now(UTC).date() - timedelta(days=cost.DAYS)).isoformat()
    kept.write_text(json.dumps(rows))
    assert cost.measured_rate(size, "float32", cpu).product == 1
    kept.write_text("[{}]")
    assert cost.measured_rate(size, "float32", cpu).product == 1
