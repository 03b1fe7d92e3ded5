"""Ranks against a count by hand over the model's own logits, and a sample of the survey of architectures.

All of them take minutes: tests/slow/test_every_model.py.
"""

import weakref
from itertools import islice

import pytest
import torch
from by_hand import assert_ranked, token_by_token
from survey import survey
from tiny import CONFIGS, VOCAB, texts

from rbp.errors import DataError, ParameterError
from rbp.extract.corpora import Corpus
from rbp.extract.forward import Ranker
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.extract.protocol import plan_rows, protocol

CORPUS = Corpus("c", texts(12))
WINDOWS = protocol("windows", length=48, context=16)


@pytest.fixture(scope="module")
def make(saved):
    """make(kind): a ranker with that model, and the rows of the corpus."""

    def make(kind, dtype="float32", batch=4, chosen=WINDOWS, **options):
        files = find_model(str(saved(kind)))
        rows = plan_rows(CORPUS, load_tokenizer(files), chosen).rows
        language = load_model(files, dtype, torch.device("cpu"))
        return Ranker(language, "reference", batch, **options), rows

    return make


@pytest.mark.parametrize("kind", CONFIGS)
def test_by_hand(kind, make, saved):
    ranker, rows = make(kind)
    ranker.check(rows)
    assert ranker.head is not None  # the output matrix is found in every architecture here
    got = ranker.rank(rows)
    places = [(row.document, row.start + int(p)) for row in rows for p in row.scored]
    exact = 0
    before = int(kind in ("opt", "llama"))  # whose tokenizer puts a token before every text
    by_hand = islice(token_by_token(saved(kind), CORPUS.documents, 48, 16, before), 150)
    for i, (place, target, logits) in enumerate(by_hand):
        assert places[i] == place
        assert_ranked(logits, target, got.greater[i], got.equal[i], got.nll[i])
        exact += got.greater[i] == (logits > logits[target]).sum()
    assert exact >= 149


def test_vocabulary_limit(make, tokenizer):
    whole, rows = make("gpt2")
    limited, _ = make("gpt2", vocabulary=len(tokenizer))
    assert len(tokenizer) < VOCAB
    every, some = whole.rank(rows), limited.rank(rows)
    assert (some.greater <= every.greater).all()
    assert (some.greater < every.greater).any()
    assert (some.greater + some.equal).max() <= len(tokenizer)
    for limit in (0, VOCAB + 1):
        with pytest.raises(ParameterError, match="vocabulary"):
            make("gpt2", vocabulary=limit)


@pytest.mark.parametrize("said", ["CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory"])
def test_out_of_memory_halves_the_batch_and_lets_go_of_what_it_held(make, monkeypatch, caplog, said):
    ranker, rows = make("gpt2", batch=8)
    whole = ranker.rank(rows)
    ranks, asked, held = Ranker._ranks, [], []

    def short_of_memory(self, some):
        assert all(tensor() is None for tensor in held)
        asked.append(len(some))
        if len(some) > 2 and len(asked) > 1:  # the first batch passes, so that there is something to compare
            activations = torch.zeros(3)
            held.append(weakref.ref(activations))
            raise RuntimeError(said)
        return ranks(self, some)

    monkeypatch.setattr(Ranker, "_ranks", short_of_memory)
    again = ranker.rank(rows)
    assert all((a == b).all() for a, b in zip(whole, again, strict=True))
    assert ranker.batch == 2
    assert (2, 0.0) in ranker.halvings
    assert "out of memory: going on with 2 rows at a time; 0.0000% of the ranks of the last batch" in caplog.text
    monkeypatch.setattr(Ranker, "_ranks", lambda self, some: short_of_memory(self, [*some, *some, *some]))
    with pytest.raises(DataError, match="single row"):
        ranker.rank(rows)


def test_nan_names_document_and_position(make, monkeypatch):
    ranker, rows = make("gpt2", batch=1)
    own, bad = Ranker._hidden, rows[4]

    def with_nan(self, some):
        hidden = own(self, some)
        if some[0] is bad:
            hidden[2, 7] = float("nan")
        return hidden

    monkeypatch.setattr(Ranker, "_hidden", with_nan)
    with pytest.raises(DataError, match=f"NaN .document {bad.document}, position {bad.start + bad.scored[2]}"):
        ranker.rank(rows)


@pytest.mark.parametrize("family", ["gemma2", "roberta"])
def test_every_rank_is_that_of_the_logits(family, tmp_path):
    found = survey(family, tmp_path)
    assert found.outcome == "exact", found
    assert found.tokens > 200
    assert found.near < 0.1 * found.tokens  # the others are decided
