"""What is found out of a model before it is ranked: what it keeps and writes, if it sees ahead, its output layer."""

import numpy as np
import pytest
import torch
from tiny import random_model

from rbp.errors import DataError
from rbp.extract.probe import probe_model
from rbp.models.head import find_head
from rbp.models.load import LanguageModel
from rbp.texts.protocol import Row


def rows(*lengths):
    draw = np.random.default_rng(0)
    return [Row(i, 0, draw.integers(3, 300, n), np.arange(1, n)) for i, n in enumerate(lengths)]


def probed(model):
    vocabulary = model.get_output_embeddings().weight.shape[0]
    language = LanguageModel("a model", model, 0, vocabulary, "float32", torch.device("cpu"))
    return probe_model(language, rows(20, 64, 90), find_head(model))


def test_logits_that_are_scaled_by_what_no_hook_shows_are_no_product_of_one_matrix():
    model = random_model("cohere")
    assert probed(model).head is not None
    own = type(model).forward

    class Scaled(type(model)):
        def forward(self, *given, **named):
            out = own(self, *given, **named)
            out.logits = out.logits * 0.95
            return out

    model.__class__ = Scaled
    assert find_head(model) is not None  # nothing says so but the logits
    assert probed(model).head is None


@pytest.mark.parametrize("matters", [True, False])
@pytest.mark.parametrize("place", ["buffer", "weight"])
def test_what_a_model_keeps_of_what_it_reads_is_noticed_where_it_matters(place, matters):
    model = random_model("gpt2")
    part = model.transformer.h[1].attn
    part.register_buffer("counts", torch.zeros(1))

    @torch.no_grad()
    def reads(module, given, out):
        held, length = module.counts.clone(), given[0].shape[1]
        if place == "buffer":
            module.counts.add_(length)
        else:
            module.c_attn.weight.mul_(1 + 0.01 * length)
        return (out[0] * (1 + 0.01 * matters * held), *out[1:])

    part.register_forward_hook(reads)
    found = probed(model)
    assert found.steady is (not matters and place != "weight")
    assert bool(found.written) is (place == "weight")


@pytest.mark.parametrize("place", [1, 19])
def test_one_later_token_that_is_seen_is_enough(place):
    model = random_model("gpt2")

    def looks(_, __, out):
        out.last_hidden_state = out[0].clone()
        out.last_hidden_state[:, place - 1] += 0.01 * out[0][:, place]
        return out

    model.transformer.register_forward_hook(looks)
    with pytest.raises(DataError, match="sees the tokens"):
        probed(model)
