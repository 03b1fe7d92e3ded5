"""What a ranker must give, by one forward pass for each token: nothing is padded, nothing batched."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

Logits = np.ndarray


def token_by_token(
    folder: Path, documents: Sequence[str], length: int, context: int | None, before: int = 0, after: int = 0
) -> Iterator[tuple[tuple[int, int], int, Logits]]:
    """(document, position), token, and the model's logits for it, from what stands before it and nothing else.

    context: of windows of `length` tokens; None: a text is cut to its first `length`. before, after: how many tokens
    the tokenizer puts around a text by itself, which are not asked for; nor are special ones, and what follows them.
    """
    net = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, truncation_side="right")  # a text is cut at its end
    cut = {"truncation": True, "max_length": length} if context is None else {}  # before what ends a text
    for document, text in enumerate(documents):
        ids = tokenizer(text, **cut)["input_ids"]  # alone: nothing is padded
        for position in range(before + 1, len(ids) - after):
            if {ids[position], ids[position - 1]} & set(tokenizer.all_special_ids):
                continue
            first, stop, opening = 0, length, []
            while context is not None and position >= stop:  # every window begins as the text does
                first, stop, opening = stop - context, stop - context + length - before, ids[:before]
            with torch.inference_mode():
                logits = net(torch.tensor([[*opening, *ids[first:position]]])).logits[0, -1].double().numpy()
            yield (document, position), ids[position], logits


def assert_ranked(logits: Logits, token: int, greater: int, equal: int, nll: float) -> None:
    """A token's counts and −ln p are those of its logits, but for rounding."""
    near = 1e-4 * np.abs(logits).max()
    assert (logits > logits[token] + near).sum() <= greater
    assert greater + equal <= (logits >= logits[token] - near).sum()
    assert nll == pytest.approx(np.logaddexp.reduce(logits) - logits[token], abs=1e-4, rel=1e-4)
