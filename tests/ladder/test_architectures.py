from pathlib import Path

import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM

from ladder.architectures import LSTMForCausalLM, make_model
from ladder.recipe import read_ladders
from rbp.extract.models import non_embedding_params
from rbp.registry import entries

SHAPES = {"neox": (2, 16, 2), "lstm": (2, 16, 0)}
KINDS = pytest.mark.parametrize("kind", list(SHAPES))


def small(kind: str) -> torch.nn.Module:
    """A small model whose weights are large enough that every part of it shows."""
    layers, width, heads = SHAPES[kind]
    model = make_model(kind, layers, width, heads, vocabulary=50, context=64, seed=0, rotary=1.0).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "lstm.weight" not in name:
                parameter.mul_(4.0)
    return model


def tokens(count: int) -> torch.Tensor:
    return torch.randint(50, (3, count), generator=torch.Generator().manual_seed(1))


@KINDS
def test_a_model_does_not_see_what_comes_after(kind: str) -> None:
    model, ids = small(kind), tokens(64)
    changed = ids.clone()
    changed[:, 40:] = (changed[:, 40:] + 1) % 50
    with torch.inference_mode():
        before, after = (model(input_ids=each).logits for each in (ids, changed))
    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.allclose(before[:, 40:], after[:, 40:], atol=1e-3)
    with torch.inference_mode():  # and it does see what comes long before
        changed = ids.clone()
        changed[:, 0] = (changed[:, 0] + 1) % 50
        assert not torch.equal(before[:, 33:], model(input_ids=changed).logits[:, 33:])


@KINDS
def test_a_saved_model_gives_the_same_logits(kind: str, tmp_path: Path) -> None:
    model = small(kind)
    model.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".py") == []
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32, trust_remote_code=False).eval()
    ids = tokens(50)
    with torch.inference_mode():
        torch.testing.assert_close(loaded(input_ids=ids).logits, model(input_ids=ids).logits, rtol=2e-5, atol=2e-5)
    assert non_embedding_params(loaded) == non_embedding_params(model)


def test_the_lstm_is_a_loop_over_tokens() -> None:
    model, ids = small("lstm"), tokens(30)
    assert isinstance(model, LSTMForCausalLM)
    assert model.config.model_type in entries("architectures"), "so `load_model` knows it"

    def norm(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias

    states = model.model.embeddings.weight[ids]
    for block in model.model.layers:
        cell, x = block.lstm, norm(block.lstm_norm, states)
        hidden = memory = torch.zeros(len(ids), 16)
        out = []
        for t in range(ids.shape[1]):
            gates = x[:, t] @ cell.weight_ih_l0.T + cell.bias_ih_l0 + hidden @ cell.weight_hh_l0.T + cell.bias_hh_l0
            let_in, keep, new, show = gates.chunk(4, -1)
            memory = keep.sigmoid() * memory + let_in.sigmoid() * new.tanh()
            hidden = show.sigmoid() * memory.tanh()
            out.append(hidden)
        states = states + torch.stack(out, 1)
        first, _, second = block.mlp
        states = states + functional.gelu(norm(block.mlp_norm, states) @ first.weight.T + first.bias) @ second.weight.T
        states = states + second.bias
    wanted = norm(model.model.final_norm, states) @ model.lm_head.weight.T
    torch.testing.assert_close(model(input_ids=ids).logits, wanted, rtol=1e-4, atol=1e-5)


def test_at_a_rung_all_families_have_one_width_and_nearly_one_size() -> None:
    ladders, base = read_ladders()
    sizes: dict[str, list[int]] = {}
    for family in ladders.families:
        for rung in family.rungs:
            model = make_model(**ladders.course(base, family, rung, 0, None).model)
            sizes.setdefault(rung, []).append(non_embedding_params(model))
            assert model.get_output_embeddings().weight.shape == (base.text.vocabulary, ladders.widths[rung])
    for rung, found in sizes.items():
        assert max(found) < 1.08 * min(found), rung
        stated = float(rung.removesuffix("k").removesuffix("m")) * (1e3 if rung.endswith("k") else 1e6)
        assert abs(found[0] / stated - 1) < 0.03, rung
