"""Models whose modules keep state of their own on a weight, as quantizers do: ranked as they are, and left able to."""

import copy

import pytest
import torch
from by_hand import assert_ranked
from tiny import make_tokenizer, random_model, texts
from transformers import LlamaConfig

import rbp
from rbp.models.sizes import non_embedding_params

TEXTS, TOKENIZER = texts(3, seed=3, longest=40), make_tokenizer()
WIDE = LlamaConfig(
    vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=256, bos_token_id=0, eos_token_id=0, tie_word_embeddings=False,
)  # fmt: skip


class Packed(torch.nn.Parameter):
    """A weight in whole numbers, with their scales beside it, as bitsandbytes' Int8Params."""

    def __deepcopy__(self, memo):
        other = type(self)(self.data.clone(), requires_grad=False)
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other


class Moving(torch.nn.Module):
    """Its first pass moves the scales from the weight to itself; without them, it takes the numbers for a weight."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.data.abs().amax(1, keepdim=True) / 127
        self.weight = Packed((linear.weight.data / scale).round().to(torch.int8), requires_grad=False)
        self.weight.scale, self.scale = scale, None

    def forward(self, values):
        if getattr(self.weight, "scale", None) is not None:
            self.scale, self.weight.scale = self.weight.scale, None
        numbers = self.weight.float()
        return values @ (numbers if self.scale is None else numbers * self.scale).T


def quantized():
    model = random_model("llama")
    for layer in model.model.layers:
        for part, name in ((layer.mlp, "up_proj"), (layer.mlp, "down_proj"), (layer.self_attn, "q_proj")):
            setattr(part, name, Moving(getattr(part, name)))
    return model


def logits(model, ids):
    with torch.no_grad():
        return model.eval()(torch.tensor([ids]), use_cache=False).logits[0]


@pytest.mark.parametrize("warm", [False, True])
def test_ranks_are_those_of_a_model_alike_and_the_model_stays_as_it_is(warm):
    """Once every rank was wrong, and none was left to the caller, as the first copy had taken the scales."""
    model, alike = quantized(), quantized()
    ids = [TOKENIZER(text)["input_ids"] for text in TEXTS]
    if warm:
        logits(model, ids[0])
    modes = [module.training for module in model.train().modules()]
    found = rbp.rank(model, TEXTS, tokenizer=TOKENIZER, length=64)
    assert modes == [module.training for module in model.modules()]
    expected = [logits(alike, tokens) for tokens in ids]
    for row in found.to_pandas().itertuples():
        values = expected[row.document][row.position - 1].double().numpy()
        assert_ranked(values, row.token, row.greater, row.equal, row.nll)
    assert all(torch.allclose(logits(model, tokens), wanted) for tokens, wanted in zip(ids, expected, strict=True))
    assert found.store.size == non_embedding_params(random_model("llama"))


def test_the_size_of_a_quantized_model_is_that_before():
    """Two numbers lie in a byte, scales are none, and some packages keep weights as buffers."""
    model = random_model("llama")
    size, part = non_embedding_params(model), model.model.layers[0].mlp
    part.up_proj.weight = torch.nn.Parameter(torch.zeros(64, 16, dtype=torch.uint8), requires_grad=False)
    part.down_proj.scales = torch.nn.Parameter(torch.zeros(64))
    del part.gate_proj.weight
    part.gate_proj.register_buffer("qweight", torch.zeros(8, 64, dtype=torch.int32))
    assert non_embedding_params(model) == size


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_bitsandbytes(bits, tmp_path):
    pytest.importorskip("bitsandbytes")
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    random_model(WIDE).save_pretrained(tmp_path / "whole")
    how = BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    model, alike = (AutoModelForCausalLM.from_pretrained(tmp_path / "whole", quantization_config=how) for _ in range(2))
    model.save_pretrained(tmp_path / "packed")
    TOKENIZER.save_pretrained(tmp_path / "packed")
    ids = TOKENIZER(TEXTS[0])["input_ids"]
    wanted = logits(alike, ids).log_softmax(-1)[:-1].gather(1, torch.tensor(ids)[1:, None]).mean().item()
    in_memory = rbp.rank(model, TEXTS[:1], tokenizer=TOKENIZER, length=64)
    from_folder = rbp.rank(tmp_path / "packed", TEXTS[:1], length=64)
    assert [in_memory.cross_entropy, from_folder.cross_entropy] == pytest.approx([-wanted] * 2, abs=1e-5)
    assert torch.equal(logits(model, ids), logits(alike, ids))
    size = non_embedding_params(random_model(WIDE))
    assert [in_memory.store.size, from_folder.store.size] == [size, size]
