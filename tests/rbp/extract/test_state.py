"""Identity of models in memory, and that nothing that is done with one changes it."""

import copy

import pytest
import torch
from by_hand import assert_ranked
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from tiny import make_tokenizer, random_model, texts
from transformers import RwkvConfig
from transformers.models.llama.modeling_llama import LlamaMLP

import rbp
from rbp.extract.models import Loaded

TEXTS, TOKENIZER = texts(3, seed=3, longest=40), make_tokenizer()


def digest(model):
    return Loaded("a model", model, TOKENIZER).fingerprint()


LORA = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)


def lora():
    return get_peft_model(random_model("llama"), LORA)


def held(model):
    """A copy of all that is a model's."""
    tensors = {n: t.detach().clone() for n, t in (*model.named_parameters(), *model.named_buffers())}
    return tensors, copy.deepcopy(model.config.to_dict()), [each.training for each in model.modules()]


def assert_as_before(model, before):
    tensors, config, modes = held(model)
    assert all(torch.equal(tensors[name], values) for name, values in before[0].items())
    assert (config, modes) == before[1:]


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


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.lm_head.register_forward_hook(scaled_by(0.9)),
        lambda model: model.model.layers[0].register_forward_pre_hook(lambda *_: None),
        lambda model: model.model.rotary_emb.inv_freq.mul_(1.01),
        lambda model: setattr(model.model.layers[1].self_attn, "scaling", 0.3),
        lambda model: setattr(model.config, "rms_norm_eps", 0.1),
        lambda model: setattr(model.model.layers[0].mlp, "act_fn", torch.nn.ReLU()),
        lambda model: model.model.norm.weight.data.mul_(1.01),
    ],
)
def test_whatever_determines_logits_determines_the_digest(change):
    model = random_model("llama")
    before = digest(model)
    change(model)
    assert digest(model) != before


def test_the_same_code_of_another_factor_has_another_digest():
    one, other = (random_model("llama") for _ in range(2))
    one.lm_head.register_forward_hook(scaled_by(0.9))
    other.lm_head.register_forward_hook(scaled_by(0.95))
    assert digest(one) != digest(other)


def test_a_digest_is_of_contents_alone(monkeypatch):
    model = random_model("llama")
    first = digest(model)
    assert first == digest(copy.deepcopy(model)) == digest(random_model("llama")) != digest(random_model("gpt2"))
    model.train()
    model.config._name_or_path = "elsewhere"
    assert digest(model) == first
    seen, own = {first}, LlamaMLP.forward
    for factor in (0.5, 0.6):  # a forward pass that a package replaces, of the class: no module says anything of it
        monkeypatch.setattr(LlamaMLP, "forward", lambda self, x, factor=factor: own(self, x) * factor)
        seen.add(digest(model))
    monkeypatch.setattr(LlamaMLP, "forward", own)
    model.set_attn_implementation("eager")
    assert len({*seen, digest(model)}) == 4


def test_an_adapter_that_is_on_off_or_another_has_another_digest(tmp_path):
    model = lora()
    model.add_adapter("other", LORA)
    model.set_adapter("default")
    on, store = digest(model), ranked(model).save(tmp_path)
    with model.disable_adapter():
        off = digest(model)
        assert ranked(model).save(tmp_path) != store
    model.set_adapter("other")
    assert len({on, off, digest(model)}) == 3


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
    model.get_output_embeddings().register_forward_pre_hook(lambda _, given: hidden.append(given[0][0]))
    with torch.inference_mode():

        def product(ids):
            model.eval()(input_ids=ids, use_cache=False)
            return hidden.pop().float() @ model.get_output_embeddings().weight.float().T

        assert_by_hand(found, product)
    model.get_output_embeddings().register_forward_hook(scaled_by(0.95))
    assert ranked(model).store.logits == "bfloat16"
