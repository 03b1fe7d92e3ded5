"""Models whose weights are packed: ranked as they are, and left able to; and their size."""

import numpy as np
import pytest
import torch
from tiny import make_tokenizer, random_model, texts
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

import rbp
from rbp.extract.forward import Ranker
from rbp.extract.verify import Stored, plain_logits, verify_sample
from rbp.models.identity import is_shareable
from rbp.models.load import LanguageModel
from rbp.models.sizes import non_embedding_params
from rbp.texts.protocol import Row

WIDE = LlamaConfig(
    vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=256, bos_token_id=0, eos_token_id=0, tie_word_embeddings=False,
)  # fmt: skip


def test_a_sample_is_verified_by_the_model_itself_not_by_the_copy_that_ranked():
    model = random_model("llama")
    rows = [Row(i, 0, np.random.default_rng(i).integers(3, 300, n), np.arange(1, n)) for i, n in enumerate((20, 40))]
    ranker = Ranker(LanguageModel("a model", model, 0, 320, "float32", torch.device("cpu")), "reference", 2)
    ranker.check(rows)
    ranker.rank(rows)
    ranker.reader._copy.model.layers[1].mlp.act_fn = torch.nn.ReLU()  # as if something had gone wrong with the copy
    ranks = ranker.rank(rows)
    columns = {
        "document": np.repeat([0, 1], [19, 39]),
        "position": np.concatenate([row.scored for row in rows]),
        "token": np.concatenate([row.ids[row.scored] for row in rows]),
        **ranks._asdict(),
    }
    answers = verify_sample(plain_logits(ranker, apart=False), rows, Stored(columns, "here"))
    assert all(wrong for _, wrong in answers)


def test_a_weight_that_is_more_than_its_numbers_is_not_shared_with_a_copy():
    """What a module moves from there to itself when it first reads, a copy would take away."""
    model = random_model("llama")
    assert is_shareable(model)
    model.lm_head.weight.note = "a word"
    assert is_shareable(model)
    model.lm_head.weight.scale = torch.ones(1)
    assert not is_shareable(model)


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
