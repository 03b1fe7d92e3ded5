import torch
from torch.nn import functional

from ladder.architectures import LSTMForCausalLM, make_model
from rbp.registry import entries


def test_the_lstm_is_a_loop_over_tokens():
    model = make_model("lstm", 2, 16, 0, vocabulary=50, context=64, seed=0, rotary=1.0).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and "lstm.weight" not in name:
                parameter.mul_(4.0)  # so that every part shows
    ids = torch.randint(50, (3, 30), generator=torch.Generator().manual_seed(1))
    assert isinstance(model, LSTMForCausalLM)
    assert model.config.model_type in entries("architectures"), "so `load_model` knows it"

    def norm(layer, x):
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
