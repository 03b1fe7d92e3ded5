"""Ranks against the model's own logits, one pass for each token. All architectures: tests/slow/test_every_model.py."""

import shutil
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pytest
import torch
from by_hand import assert_ranked, token_by_token
from tiny import VOCAB, load, make_tokenizer, texts, write_texts
from torch.utils._python_dispatch import TorchDispatchMode

from rbp.choices import Settings
from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import extract
from rbp.extract.forward import Ranker
from rbp.kernel import equal_rows
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer, looks_at_length
from rbp.store import open_store
from rbp.texts.corpora import Corpus
from rbp.texts.protocol import Row, plan_rows, protocol

CORPUS = Corpus("c", texts(6, longest=50))
WINDOWS = protocol("windows", length=24, context=8)


@pytest.fixture(scope="module")
def make(saved):
    """make(kind): a ranker with that model, and the rows of the corpus."""

    def make(kind, batch=4, **options):
        rows = plan_rows(CORPUS, load_tokenizer(find_model(str(saved(kind)))), WINDOWS).rows
        return Ranker(load(saved(kind)), "reference", batch, **options), rows

    return make


@pytest.mark.long
@pytest.mark.parametrize("kind", ["opt", "gemma2", "mixtral"])
def test_by_hand(kind, make, saved):
    ranker, rows = make(kind)
    ranker.check(rows)
    assert ranker.head is not None  # the output matrix is found in every architecture here
    assert ranker.probe.steady  # none keeps anything
    got = ranker.rank(rows)
    places = [(row.document, row.start + int(p)) for row in rows for p in row.scored]
    before = int(kind in ("opt", "llama"))  # whose tokenizer puts a token before every text
    by_hand = islice(token_by_token(saved(kind), CORPUS.documents, 24, 8, before), 36)  # of two windows
    for i, (place, target, logits) in enumerate(by_hand):
        assert places[i] == place
        assert_ranked(logits, target, got.greater[i], got.equal[i], got.nll[i])


DOCUMENTS = [" ".join(texts(2, seed=4, longest=40)), "", "the", " ", *texts(2, seed=4, longest=9), "a", ""]
TOKENIZERS = {
    "padding and cutting on the left": (
        {"padding_side": "left", "pad_token": "<|end|>", "truncation_side": "left"},
        ("authors", 24, None),
    ),
    "a token before and after": (
        {"template": "<|end|> $A <|end|>", "padding_side": "left", "pad_token": "<|end|>"},
        ("windows", 12, 6),
    ),
    "letters before and after that are not declared": (
        {"template": "t a $A .", "padding_side": "left"},
        ("authors", 24, None),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("which", TOKENIZERS)
def test_nothing_is_off_by_one(saved, which, tmp_path):
    """Long and empty documents, of one token, and tokenizers that pad or cut on the left, or add tokens."""
    options, (name, length, context) = TOKENIZERS[which]
    model = shutil.copytree(saved("gpt2"), tmp_path / "model", ignore=shutil.ignore_patterns("*token*"))
    make_tokenizer(**options).save_pretrained(model)
    corpus, chosen = write_texts(tmp_path / "corpus.jsonl", DOCUMENTS), protocol(name, length=length, context=context)
    (folder,) = extract([str(model)], [str(corpus)], chosen, tmp_path / "out", Settings(backend="reference"))
    tokens, key = open_store(folder).ranks(), open_store(folder).manifest["key"]
    assert ("added" in key) == ("letter" in which), "other tokens are ranked than before: another store"
    around = [len(words.split()) for words in options.get("template", "$A").split("$A")]
    by_hand = token_by_token(model, DOCUMENTS, length, context, *around)
    expected = {place: (token, logits) for place, token, logits in by_hand}
    assert list(zip(tokens["document"], tokens["position"], strict=True)) == sorted(expected)
    for row in tokens.itertuples():
        token, logits = expected[row.document, row.position]
        assert row.token == token
        assert_ranked(logits, token, row.greater, row.equal, row.nll)


def test_vocabulary_limit(make, tokenizer):
    whole, rows = make("gpt2")
    limited, _ = make("gpt2", vocabulary=len(tokenizer))
    assert len(tokenizer) < VOCAB
    every, some = whole.rank(rows), limited.rank(rows)
    assert (some.greater <= every.greater).all()
    assert (some.greater < every.greater).any()
    assert (some.greater + some.equal).max() <= len(tokenizer)
    with pytest.raises(ParameterError, match="vocabulary"):
        make("gpt2", vocabulary=VOCAB + 1)


FREE = {"empty", "empty_like", "new_empty", "detach", "promote_types"}
WAITS = {"_local_scalar_dense", "nonzero", "_unique2", "masked_select", "equal"}


class Launches(TorchDispatchMode):
    """Notes the operations that would be launched on a GPU, and those that would wait for it."""

    def __init__(self):
        super().__init__()
        self.launched, self.waited = [], []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = str(operation).split(".")[1]
        if name in WAITS:
            self.waited.append(name)
        if not operation.is_view and name not in FREE:
            self.launched += [name] * (1 + (name == "constant_pad_nd"))  # it fills, then copies
        return operation(*args, **(kwargs or {}))


class Recorded:
    """Stands for a kernel by Triton, or for a product: it notes its launches."""

    def __init__(self):
        self.launches = 0

    def __getitem__(self, grid):
        return self

    def __call__(self, *given, **options):
        self.launches += 1


@pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")
@pytest.mark.parametrize("backend", ["tiles", "triton"])
def test_a_batch_takes_at_most_8_launches_beside_products_and_counts_and_no_wait(make, backend, monkeypatch):
    from rbp.kernel import tiles, triton_kernel

    count, merge, multiply = Recorded(), Recorded(), Recorded()
    monkeypatch.setattr(triton_kernel, "check_runs", lambda problem: None)
    monkeypatch.setattr(tiles, "check_runs", lambda problem: None)
    for module, name, kernel in (
        (tiles, "_count", count),
        (tiles, "multiply", multiply),
        (triton_kernel, "_kernel", count),
        (triton_kernel, "_merge", merge),
    ):
        monkeypatch.setattr(module, name, kernel)
    ranker, _ = make("gpt2")
    ranker.backend, tokens, head = backend, 32 * 511, replace(ranker.head, weight=torch.zeros(5000, 64))
    hidden = torch.zeros(1, tokens + 1, 64)
    monkeypatch.setattr(ranker.reader, "hidden", lambda ids: hidden)
    row = Row(0, 0, np.zeros(tokens + 1, dtype=np.int64), np.arange(1, tokens + 1))
    equal = equal_rows(head.weight)
    with Launches() as seen:
        tally = ranker._tally([row], head, equal)
    assert len(tally.total) == tokens
    assert not seen.waited
    assert len(seen.launched) + merge.launches <= 8, seen.launched
    if backend == "tiles":  # 8 blocks of rows, with the target's tile and three others
        assert (multiply.launches, count.launches) == (8 * 4, 8 * 4)
    else:
        assert count.launches == 1 + 4


def test_out_of_memory_halves_the_batch(make, monkeypatch):
    ranker, rows = make("gpt2", batch=8)
    whole, going, batches, most = ranker.rank(rows), Ranker._going, [], 2
    errors = iter(["CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory", "CUDA out of memory"])

    def short_of_memory(self, some, equal):
        batches.append(len(some))
        if len(some) > most and len(batches) > 1:  # the first batch passes, so that there is something to compare
            raise RuntimeError(next(errors))
        return going(self, some, equal)

    monkeypatch.setattr(Ranker, "_going", short_of_memory)
    again = ranker.rank([*rows, *rows])
    assert all((np.tile(a, 2) == b).all() for a, b in zip(whole, again, strict=True))
    assert (batches[:4], ranker.batch, ranker.halvings[-1]) == ([8, 8, 4, 2], 2, (2, 0.0))
    most = 0
    with pytest.raises(DataError, match="single row"):
        ranker.rank(rows)


def test_the_configurations_that_say_that_a_model_looks_at_the_length_of_its_input():
    for kind, looks in {"dynamic": True, "longrope": True, "linear": False}.items():
        assert looks_at_length({"rope_parameters": {"rope_type": kind}}) is looks
        assert looks_at_length({"text_config": {"rope_scaling": {"type": kind}, "activation": "dynamic"}}) is looks


def test_a_look_at_the_length_that_no_configuration_says_is_found_out(saved, caplog):
    """Rows are padded, as on a GPU, where the model does not see it: else ranks are those of each row alone."""
    language = load(saved("gpt2"))
    rows = [Row(i, 0, torch.arange(3, 3 + n).numpy(), torch.arange(1, n).numpy()) for i, n in enumerate((20, 64, 90))]
    assert not Ranker(language, "reference", 1).padded, "on a CPU"
    plain = Ranker(language, "reference", 2, padded=True)
    plain.check(rows)
    assert plain.padded
    language.model.base_model.ln_f.register_forward_hook(
        lambda _, __, out: out * torch.linspace(1, out.shape[1], out.shape[2])
    )
    ranker, alone = Ranker(language, "reference", 2, padded=True), Ranker(language, "reference", 2)
    wrong = plain.rank(rows)
    ranker.check(rows)
    assert not ranker.padded
    assert "looks at the length of its input" in caplog.text
    right = alone.rank(rows)
    assert (ranker.rank(rows).greater == right.greater).all()
    assert (wrong.nll != right.nll).mean() > 0.5  # had it not been found out
