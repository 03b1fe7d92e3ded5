"""The six names of `import rbp`: their examples, models and texts in memory, and what they refuse."""

import copy
import doctest

import pytest
import torch
from datasets import Dataset
from tiny import random_model, save_model, texts, write_texts

import rbp
from companion.project import ROOT
from rbp.choices import Settings
from rbp.errors import RbpError
from rbp.extract.extraction import extract
from rbp.kernel.reduction import reduce_eagerly
from rbp.store import open_store
from rbp.texts.protocol import protocol

TEXTS = texts(5)


@pytest.fixture
def model():
    return random_model("gpt2")


@pytest.mark.parametrize("name", rbp.__all__)
def test_the_example_of_each_name(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("rbp.kernel.blocked.reduction", lambda *_: reduce_eagerly)  # compiling takes seconds
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(rbp, name), name, module=False, globs={})
    assert len(example.examples) >= 2
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.long
def test_a_model_in_memory_is_ranked_as_the_one_saved_of_it_whatever_holds_the_texts(tmp_path, model, tokenizer):
    """By `rbp extract`, which tests/rbp/extract judges token by token."""
    saved, some = str(save_model(tmp_path / "m")), ["the cat <|end|> the dog and the cat", *TEXTS]
    corpus, how = write_texts(tmp_path / "mine.jsonl", some), {"length": 64}
    (folder,) = extract([saved], [str(corpus)], protocol("windows", **how), tmp_path / "ranks", Settings())
    store, ranked = open_store(folder), rbp.rank(model, some, tokenizer=tokenizer, name="m", **how)
    table = ranked.to_pandas()
    assert table.drop(columns="rank").equals(store.ranks())
    assert table["rank"].tolist() == (table["greater"] + table["equal"]).tolist()
    assert ranked.rbp([1, 20]).tolist() == [(table["rank"] <= k).mean() for k in (1, 20)]
    assert ranked.cross_entropy == pytest.approx(table["nll"].astype(float).mean(), rel=1e-6)
    assert (ranked.store.model, ranked.store.size, ranked.store.family) == ("m", store.size, "gpt2")
    for name in ("protocol", "tokenizer"):
        assert ranked.store.manifest["key"][name] == store.manifest["key"][name]
    for some_texts, field in ((Dataset.from_dict({"body": some}), "body"), (iter(some), "text")):
        again = rbp.rank(model, some_texts, tokenizer=tokenizer, field=field, name="m", **how)
        assert again.to_pandas().equals(table)
    assert open_store(ranked.save(tmp_path / "saved")).ranks().equals(store.ranks())
    place = ranked.store.folder
    del ranked
    assert not place.exists()
    low = rbp.rank(model.to(torch.bfloat16), some, tokenizer=tokenizer, **how)
    assert low.store.manifest["key"]["dtype"] == "bfloat16"
    assert not low.to_pandas().equals(table)


def test_model_and_tokenizer_stay_as_they_were(model, tokenizer):
    model.train()
    model.transformer.h[1].eval()  # as where a part is frozen
    own = copy.deepcopy(tokenizer)
    own.truncation_side = "left"
    own(TEXTS, truncation=True, max_length=4)
    before = own.backend_tokenizer.to_str()
    ranked = rbp.rank(model, TEXTS, tokenizer=own)
    assert ranked.store.tokens == sum(len(tokenizer(text)["input_ids"]) - 1 for text in TEXTS)
    assert (own.truncation_side, own.backend_tokenizer.to_str()) == ("left", before)
    modules = model, model.transformer.h[0], model.transformer.h[1]
    assert [module.training for module in modules] == [True, True, False]
    ids = torch.tensor([tokenizer(TEXTS[0])["input_ids"]])
    model(ids, labels=ids).loss.backward()  # what it keeps is no tensor of inference
    assert model.lm_head.weight.grad is not None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokenizer": None}, "comes without its tokenizer"),
        ({"texts": []}, "there is no text"),
        ({"texts": "a text by itself"}, "unknown corpus 'a text by itself' .texts.\nA text itself goes into a list"),
        ({"length": 1000}, "reads 256 tokens at most"),
    ],
)
def test_bad_input_is_named(model, tokenizer, change, words):
    arguments = {"model": model, "texts": TEXTS, "tokenizer": tokenizer} | change
    with pytest.raises(RbpError, match=words):
        rbp.rank(arguments.pop("model"), arguments.pop("texts"), **arguments)
