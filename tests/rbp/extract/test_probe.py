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

CPU = torch.device("cpu")


def rows(*lengths):
    draw = np.random.default_rng(0)
    return [Row(i, 0, draw.integers(3, 300, n), np.arange(1, n)) for i, n in enumerate(lengths)]


def probed(model, *lengths, dtype="float32"):
    vocabulary = model.get_output_embeddings().weight.shape[0]
    language = LanguageModel("a model", model, 0, vocabulary, dtype, CPU)
    return probe_model(language, rows(*(lengths or (20, 64, 90))), find_head(model))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("cohere", "float32"), ("gemma2", "bfloat16")],
)
def test_logits_that_are_scaled_by_what_no_hook_shows_are_no_product_of_one_matrix(kind, dtype):
    model = random_model(kind).to(getattr(torch, dtype))
    assert probed(model, 20, 64, dtype=dtype).head is not None
    own = type(model).forward

    class Scaled(type(model)):
        def forward(self, *given, **named):
            out = own(self, *given, **named)
            out.logits = out.logits * 0.95
            return out

    model.__class__ = Scaled
    assert find_head(model) is not None  # nothing says so but the logits
    assert probed(model, 20, 64, dtype=dtype).head is None


MEMORIES = {
    "buffer": lambda module, length: module.counts.add_(length),
    "attribute": lambda module, length: setattr(module, "table", module.table + length),
    "number": lambda module, length: setattr(module, "longest", max(module.longest, length)),
    "new": lambda module, length: setattr(module, "last", getattr(module, "last", 0) + length),
    "weight": lambda module, length: module.c_attn.weight.mul_(1 + 0.01 * length),
}


@pytest.mark.parametrize("matters", [True, False])
@pytest.mark.parametrize("change", MEMORIES)
def test_every_kind_of_memory_that_matters_is_noticed(change, matters):
    model = random_model("gpt2")
    part = model.transformer.h[1].attn
    part.register_buffer("counts", torch.zeros(1))
    part.table, part.longest = torch.zeros(1), 0

    def reads(module, given, out):
        held = module.counts + module.table + module.longest + getattr(module, "last", 0)
        with torch.no_grad():
            MEMORIES[change](module, given[0].shape[1])
        return (out[0] * (1 + 0.01 * matters * held), *out[1:])

    part.register_forward_hook(reads)
    found = probed(model)
    assert found.steady is (not matters and change != "weight")
    assert bool(found.written) is (change == "weight")


def test_a_copy_that_is_none_is_refused():
    """A module that gives its copies something else, whatever that is, ranks nothing."""

    class Part(torch.nn.Module):
        factor = 1.0

        def forward(self, values):
            return values * self.factor

        def __deepcopy__(self, memo):
            other = Part()
            other.factor = 0.9
            return other

    model = random_model("gpt2")
    model.transformer.drop = Part()
    with pytest.raises(DataError, match="a copy of the model gives other logits"):
        probed(model)


@pytest.mark.parametrize("place", [1, 19])
def test_one_later_token_that_is_seen_is_enough(place):
    model = random_model("gpt2")

    def looks(_, __, out):
        out.last_hidden_state = out[0].clone()
        out.last_hidden_state[:, place - 1] += 0.01 * out[0][:, place]
        return out

    model.transformer.register_forward_hook(looks)
    with pytest.raises(DataError, match="sees the tokens"):
        probed(model, 20)
