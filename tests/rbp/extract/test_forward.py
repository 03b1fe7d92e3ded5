"""Ranks against a count by hand over the model's own logits, and what they must not depend on."""

import weakref
from itertools import islice

import numpy as np
import pytest
import torch
from by_hand import assert_ranked, token_by_token
from tiny import CONFIGS, VOCAB, texts

from rbp.errors import DataError, ParameterError, RankError
from rbp.extract import forward
from rbp.extract.corpora import Corpus
from rbp.extract.forward import Ranker, rank_logits
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


@pytest.mark.parametrize(
    ("kind", "backend"), [("gpt2", "reference"), ("gemma2", "reference"), ("mixtral", "reference"), ("neox", "blocked")]
)
def test_batch_and_threads_change_no_bit(kind, backend, make):
    ranker, rows = make(kind, batch=4, chosen=protocol("windows", length=200, context=100))
    ranker.backend = backend
    ranker.check(rows)
    first = ranker.rank(rows)
    threads = torch.get_num_threads()
    try:
        for batch, count in ((1, 1), (3, 2), (64, 3)):
            torch.set_num_threads(count)
            ranker.batch = batch
            again = ranker.rank(rows)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True)), (batch, count)
    finally:
        torch.set_num_threads(threads)
    parts = [ranker.rank(rows[i : i + 1]) for i in range(len(rows))]  # nor do a row's neighbours
    for column in range(3):
        assert np.concatenate([part[column] for part in parts]).tobytes() == first[column].tobytes()


def test_documents_do_not_leak(make):
    ranker, rows = make("llama")
    alone = plan_rows(
        Corpus("c", [CORPUS.documents[3]]), load_tokenizer(find_model(ranker.language.model.name_or_path)), WINDOWS
    )
    whole = ranker.rank(rows)
    mine = np.concatenate([np.full(len(row.scored), row.document == 3) for row in rows])
    assert all((a[mine] == b).all() for a, b in zip(whole, ranker.rank(alone.rows), strict=True))


def test_bfloat16(make):
    ranker, rows = make("neox", dtype="bfloat16")
    ranker.check(rows)
    assert ranker.head is not None
    low, (high, _) = ranker.rank(rows), make("neox")
    assert np.corrcoef(low.nll, high.rank(rows).nll)[0, 1] > 0.99
    rounded = make("neox", dtype="bfloat16", rounding="bfloat16")[0].rank(rows)
    assert rounded.equal.sum() > low.equal.sum()  # logits rounded to bfloat16 tie more often
    ranker.head = None  # the logits that the model gives in bfloat16 are rounded: ranks of others are others
    own = ranker.rank(rows)
    assert (rounded.greater == own.greater).mean() > 0.95
    assert (low.greater != own.greater).mean() > 0.1


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


@pytest.mark.parametrize(
    ("kind", "dtype", "name", "said"),
    [("cohere", "float32", "find_head", "own logits"), ("neox", "bfloat16", "linear_rank", "two values: documents 0")],
    ids=["a scale by another name", "arithmetic that fails"],
)
def test_where_the_product_is_not_to_be_had_a_plain_one_is_ranked(make, monkeypatch, caplog, kind, dtype, name, said):
    ranker, rows = make(kind, dtype)
    whole, find = ranker.rank(rows), forward.find_head

    def without_scale(model):
        head = find(model)
        return forward.Head(head.weight, head.bias, 1.0, None)

    def at_odds(*given, **options):
        raise RankError("cpu gave one product two values", 3, 'Take backend="reference".')

    monkeypatch.setattr(forward, name, without_scale if name == "find_head" else at_odds)
    other, _ = make(kind, dtype)
    other.check(rows)
    assert (other.head is None) == (name == "find_head")
    again = other.rank(rows)
    assert said in caplog.text
    assert (again.greater == whole.greater).mean() > 0.99  # but for rounding
    assert again.nll == pytest.approx(whole.nll, abs=1e-4)


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


def test_a_model_that_sees_ahead(make, monkeypatch):
    ranker, rows = make("llama")
    for layer in ranker.language.model.model.layers:
        layer.self_attn.is_causal = False
    monkeypatch.setattr("transformers.models.llama.modeling_llama.create_causal_mask", lambda *a, **k: None)
    with pytest.raises(DataError, match="sees the tokens"):
        ranker.check(rows)


def test_a_row_s_own_logits_are_not_copied_as_a_whole(make):
    """Of a model that ranks by them: no tensor of theirs is made but the model's, and those of 64 places."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.numel() >= 100 * VOCAB:
                large.add(out.untyped_storage().data_ptr())  # a view has its base's
            return out

    ranker, rows = make("neox", chosen=protocol("windows", length=256))
    row = max(rows, key=lambda row: len(row.ids))
    assert len(row.ids) > 100
    ranker.head, large = None, set()
    with Sizes():
        logits, _ = ranker.reader.logits(torch.from_numpy(row.ids)[None])
        made = {*large}
        with torch.inference_mode():
            ranker._by_logits(row, logits)
    assert large == made


@pytest.mark.parametrize(
    "error", [IndexError("index out of range in self"), TypeError("null"), RuntimeError("\nsize\n")]
)
def test_a_model_whose_code_raises(make, error):
    ranker, rows = make("gpt2")

    def raising(*_, **__):
        raise error

    ranker.language.model.transformer.wpe.forward = raising
    for work in (ranker.check, ranker.rank):
        with pytest.raises(DataError, match=r"cannot read a row of \d+ tokens: (IndexError: index|null|size)"):
            work(rows)


def test_float64_logits_are_compared_as_such():
    logits = torch.tensor([[1.0, 1.0 + 1e-12, 0.0]], dtype=torch.float64)
    found = rank_logits(logits, torch.tensor([0]))
    assert (int(found.greater), int(found.equal)) == (1, 1)
