"""Models in memory: each has stores of its own, and ranks are those of its own logits."""

import copy
from dataclasses import replace

import pytest
import torch
from by_hand import assert_ranked
from tiny import make_tokenizer, random_model, texts
from transformers import LlamaForCausalLM

import rbp
from rbp.extract.extraction import extract
from rbp.measurements.checkpoints import drop_repeated_measurements
from rbp.measurements.ranked import Ranked
from rbp.models.load import Loaded
from rbp.store import open_store
from rbp.texts.corpora import given_corpus
from rbp.texts.protocol import protocol

TEXTS, TOKENIZER = texts(3, seed=3, longest=40), make_tokenizer()


def digest(model):
    return Loaded("a model", model, TOKENIZER).fingerprint()


def extracted(model, out):
    corpus = given_corpus(TEXTS, "texts", "text")
    windows = protocol("windows", length=64, pack=1)
    (folder,) = extract([Loaded("a model", model, TOKENIZER)], [corpus], windows, out)
    return open_store(folder)


def ranked(model):
    return rbp.rank(model, TEXTS, tokenizer=TOKENIZER, length=64)


def assert_by_hand(result, logits_of):
    """Each rank against the logits [n, V] that are given for the tokens of its document."""
    for document, own in result.to_pandas().groupby("document"):
        ids = TOKENIZER(TEXTS[document])["input_ids"]
        with torch.inference_mode():
            logits = logits_of(torch.tensor(ids)[None])
        for row in own.itertuples():
            assert_ranked(logits[row.position - 1].double().numpy(), row.token, row.greater, row.equal, row.nll)


class Halving(LlamaForCausalLM):
    """A model whose weights and configuration are another's: only its ranks tell the two apart."""

    def forward(self, *inputs, **named):
        out = super().forward(*inputs, **named)
        out.logits = out.logits / 2
        return out


def two_alike():
    first, second = random_model("llama"), random_model("llama")
    second.__class__ = Halving
    assert digest(first) == digest(second)
    return first, second


@pytest.mark.long
def test_a_model_that_answers_otherwise_gets_a_store_of_its_own_and_goes_on_with_no_other_s(tmp_path, caplog):
    first, second = two_alike()
    a, b = extracted(first, tmp_path), extracted(second, tmp_path)
    assert b.folder.name == f"{a.folder.name}-2"
    assert "not the given model's" in caplog.text
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/parts/*")}
    for model, store in ((first, a), (second, b)):  # each finds its own again, and nothing is ranked anew
        again = extracted(model, tmp_path)
        assert again.folder == store.folder
        assert_by_hand(Ranked(again), lambda ids, model=model: model(ids, use_cache=False).logits[0])
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/parts/*")}
    assert len(drop_repeated_measurements([a, replace(b, model="another")])) == 2
    part = a.parts[1]
    part.unlink()
    assert extracted(second, tmp_path).folder == b.folder
    assert not part.exists()
    assert extracted(first, tmp_path).folder == a.folder
    assert part.exists()


def test_a_store_that_is_saved_replaces_no_other_models(tmp_path):
    results = [ranked(model) for model in two_alike()]
    places = [result.save(tmp_path) for result in results * 2]
    assert places == [places[0], places[0].with_name(f"{places[0].name}-2")] * 2
    saved = [Ranked(open_store(place)) for place in places[:2]]
    assert [result.cross_entropy for result in saved] == [result.cross_entropy for result in results]


def test_a_digest_is_of_weights_buffers_and_configuration_alone():
    model = random_model("llama")
    first = digest(model)
    assert first == digest(copy.deepcopy(model)) == digest(random_model("llama")) != digest(random_model("gpt2"))
    model.train()
    model.config._name_or_path = "elsewhere"
    digests = [digest(model)]
    assert digests == [first]
    for change in (
        lambda: model.model.rotary_emb.inv_freq.mul_(1.01),
        lambda: setattr(model.config, "rms_norm_eps", 0.1),
        lambda: model.model.norm.weight.data.mul_(1.01),
    ):
        change()
        digests.append(digest(model))
    assert len({*digests}) == 4


def test_a_rank_has_one_meaning_in_bfloat16():
    """In float32, by the product; where logits are the model's own, the store says their dtype."""
    model, hidden = random_model("llama").to(torch.bfloat16), []
    found = ranked(model)
    assert found.store.logits == "float32"
    model.lm_head.register_forward_pre_hook(lambda _, inputs: hidden.append(inputs[0][0]))

    def product(ids):
        model(input_ids=ids, use_cache=False)
        return hidden.pop().float() @ model.lm_head.weight.float().T

    assert_by_hand(found, product)
    model.lm_head.register_forward_hook(lambda _, __, out: out * 0.95)
    assert ranked(model).store.logits == "bfloat16"
