"""What a measurement would cost: its tokens are those that are ranked, its operations are counted by hand."""

import pytest
from commands import here
from tiny import VOCAB, texts, write_texts

from rbp.choices import Settings
from rbp.extract.extraction import planned
from rbp.store import open_store
from rbp.texts.protocol import protocol


@pytest.mark.parametrize("more", [("--protocol", "authors", "--length", "32"), ("--tokens", "300")])
def test_a_plan_counts_what_extraction_ranks_and_writes_nothing(saved, tmp_path, more):
    text = write_texts(tmp_path / "mine.jsonl", texts(9))
    asked = ("extract", "--model", str(saved("gpt2")), "--corpus", str(text), *more)
    plan = here(*asked, "--plan", root=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert not (tmp_path / "runs").exists()
    done = here(*asked, root=tmp_path)
    assert f"in all: {open_store(done.stdout.strip()).tokens:,} tokens ranked" in plan.stdout


def test_operations_by_hand(saved, tmp_path):
    """GPT-2 of two layers, d = 32: 12·d² + 13·d in each, and the last norm."""
    text, how = write_texts(tmp_path / "mine.jsonl", ["the rank of a token"] * 3), protocol("windows", length=64)
    (found,), (half,) = (
        planned([str(saved("gpt2"))], [str(text)], how, tmp_path, Settings(device="cpu", vocabulary=vocabulary))
        for vocabulary in ("all", VOCAB // 2)
    )
    body = 2 * (12 * 32**2 + 13 * 32) + 2 * 32
    assert found.size.non_embedding == body
    assert found.read - found.ranked == 3  # the first token of each is read alone
    assert found.flops == 2 * (found.read * body + found.ranked * VOCAB * 32)
    assert found.flops - half.flops == found.ranked * VOCAB * 32
