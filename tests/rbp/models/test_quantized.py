"""Models whose weights are packed: ranked as they are, and left able to; and their size."""

import pytest
import torch
from tiny import make_tokenizer, random_model, texts
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

import rbp
from rbp.models.sizes import non_embedding_params

WIDE = LlamaConfig(
    vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=256, bos_token_id=0, eos_token_id=0, tie_word_embeddings=False,
)  # fmt: skip


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
    """Its modules move scales from the weights to themselves when they first read: a copy must not take them away."""
    tokenizer, (text,) = make_tokenizer(), texts(1, seed=3, longest=40)
    random_model(WIDE).save_pretrained(tmp_path / "whole")
    how = BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    model, alike = (AutoModelForCausalLM.from_pretrained(tmp_path / "whole", quantization_config=how) for _ in range(2))
    model.save_pretrained(tmp_path / "packed")
    tokenizer.save_pretrained(tmp_path / "packed")
    ids = torch.tensor(tokenizer(text)["input_ids"])
    with torch.no_grad():
        expected = alike(ids[None], use_cache=False).logits[0]
    wanted = expected.log_softmax(-1)[:-1].gather(1, ids[1:, None]).mean().item()
    in_memory = rbp.rank(model, [text], tokenizer=tokenizer, length=64)
    results = [in_memory, rbp.rank(tmp_path / "packed", [text], length=64)]
    assert [result.cross_entropy for result in results] == pytest.approx([-wanted] * 2, abs=1e-5)
    with torch.no_grad():
        assert torch.equal(model(ids[None], use_cache=False).logits[0], expected)
    assert {result.store.size for result in results} == {non_embedding_params(random_model(WIDE))}
