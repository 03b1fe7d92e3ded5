"""Identity of models in memory, and that nothing that is done with one changes it."""

import copy
from dataclasses import replace

import pytest
import torch
from by_hand import assert_ranked
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from tiny import make_tokenizer, random_model, texts
from transformers import LlamaForCausalLM, RwkvConfig

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


LORA = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)


def lora():
    return get_peft_model(random_model("llama"), LORA)


def held(model):
    """A copy of all that is a model's."""
    tensors = {n: t.detach().clone() for n, t in (*model.named_parameters(), *model.named_buffers())}
    return tensors, copy.deepcopy(model.config.to_dict()), [module.training for module in model.modules()]


def assert_as_before(model, before):
    tensors, config, modes = held(model)
    assert all(torch.equal(tensors[name], values) for name, values in before[0].items())
    assert (config, modes) == before[1:]


def extracted(model, out):
    corpus = given_corpus(TEXTS, "texts", "text")
    windows = protocol("windows", length=64, pack=1)
    (folder,) = extract([Loaded("a model", model, TOKENIZER)], [corpus], windows, out)
    return open_store(folder)


def assert_ranks_are(store, model):
    with torch.inference_mode():
        assert_by_hand(Ranked(store), lambda ids: model(ids, use_cache=False).logits[0])


def ranked(model, some=TEXTS, **options):
    return rbp.rank(model, some, tokenizer=TOKENIZER, length=64, **options)


def assert_by_hand(result, logits_of):
    """Each rank against the logits [n, V] that are given for the tokens of its document."""
    for document, own in result.to_pandas().groupby("document"):
        ids = TOKENIZER(TEXTS[document])["input_ids"]
        logits = logits_of(torch.tensor(ids)[None])
        for row in own.itertuples():
            assert_ranked(logits[row.position - 1].double().numpy(), row.token, row.greater, row.equal, row.nll)


def scaled_by(factor):
    return lambda _, __, out: out * factor


class Halving(LlamaForCausalLM):
    def forward(self, *inputs, **named):
        out = super().forward(*inputs, **named)
        out.logits = out.logits / 2
        return out


CHANGES = {
    "class": lambda model: setattr(model, "__class__", Halving),
    "number": lambda model: setattr(model.model.layers[1].self_attn, "scaling", 0.9),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", CHANGES)
def test_a_model_that_answers_otherwise_gets_a_store_of_its_own(kind, tmp_path, caplog):
    """Its weights and its configuration are those of the first: only the ranks tell the two apart."""
    first, second = random_model("llama"), random_model("llama")
    CHANGES[kind](second)
    assert digest(first) == digest(second)
    a, b = extracted(first, tmp_path), extracted(second, tmp_path)
    assert b.folder.name == f"{a.folder.name}-2"
    assert "not the given model's" in caplog.text
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/parts/*")}
    for model, store in ((first, a), (second, b)):  # each finds its own again, and nothing is ranked anew
        again = extracted(model, tmp_path)
        assert again.folder == store.folder
        assert_ranks_are(again, model)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/parts/*")}
    assert len(drop_repeated_measurements([a, replace(b, model="another")])) == 2


def test_a_store_that_is_saved_replaces_no_other_models(tmp_path):
    first, second = random_model("llama"), random_model("llama")
    second.__class__ = Halving
    first_result, second_result = ranked(first), ranked(second)
    places = [result.save(tmp_path) for result in (first_result, second_result) * 2]
    assert places == [places[0], places[0].with_name(f"{places[0].name}-2")] * 2
    saved = [Ranked(open_store(place)) for place in places[:2]]
    assert [result.cross_entropy for result in saved] == [first_result.cross_entropy, second_result.cross_entropy]
    assert saved[1].save(tmp_path / "elsewhere").name == places[1].name


def test_a_store_that_was_interrupted_goes_on_by_its_own_model_alone(tmp_path):
    store = extracted(random_model("llama"), tmp_path)
    part = store.parts[1]
    part.unlink()
    other = random_model("llama")
    other.lm_head.register_forward_hook(scaled_by(0.9))
    assert extracted(other, tmp_path).folder.name == f"{store.folder.name}-2"
    assert not part.exists()
    assert extracted(random_model("llama"), tmp_path).folder == store.folder
    assert part.exists()


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


@pytest.mark.long
def test_a_model_that_scales_its_own_weights_is_ranked_right_and_stays_as_it_is():
    """RWKV rescales layers in place when it first reads in eval mode: all ranks of a second call were wrong."""
    model = random_model(RwkvConfig(vocab_size=320, hidden_size=32, num_hidden_layers=3, rescale_every=2))
    before = held(model)
    for _ in range(2):
        found = ranked(model, TEXTS[:1])
        assert_as_before(model, before)
        with torch.inference_mode():
            assert_by_hand(found, lambda ids: copy.deepcopy(model).eval()(ids, use_cache=False).logits[0])


def test_virtual_tokens_before_a_text_are_not_scored():
    """Prompt tuning gives logits for them too: these shifted all others by as many places."""
    config = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    model = get_peft_model(random_model("llama"), config)
    found = ranked(model)
    with torch.inference_mode():
        assert_by_hand(found, lambda ids: model.eval()(input_ids=ids, use_cache=False).logits[0, -ids.shape[1] :])


def test_a_rank_has_one_meaning_in_bfloat16():
    """In float32, by the product, for an adapter too; where logits are the model's own, the store says their dtype."""
    model = lora().to(torch.bfloat16)
    found = ranked(model)
    assert found.store.logits == "float32"
    hidden = []
    model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: hidden.append(inputs[0][0]))
    with torch.inference_mode():

        def product(ids):
            model.eval()(input_ids=ids, use_cache=False)
            return hidden.pop().float() @ model.get_output_embeddings().weight.float().T

        assert_by_hand(found, product)
    model.get_output_embeddings().register_forward_hook(scaled_by(0.95))
    assert ranked(model).store.logits == "bfloat16"
