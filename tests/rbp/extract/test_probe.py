"""What is found out of a model before it is ranked: what it keeps and writes, if it sees ahead, its output layer."""

import numpy as np
import pytest
import torch
from by_hand import assert_ranked
from survey import FACTORS, save_tiny, tiny_config
from tiny import CONFIGS, random_model

from rbp.errors import DataError
from rbp.extract.forward import Ranker
from rbp.extract.head import find_head
from rbp.extract.models import LanguageModel, find_model, load_model
from rbp.extract.probe import differ, probe_model
from rbp.extract.protocol import Row

CPU = torch.device("cpu")
LONGROPE = {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, **FACTORS}}
DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}


def rows(*lengths):
    draw = np.random.default_rng(0)
    return [Row(i, 0, draw.integers(3, 300, n), np.arange(1, n)) for i, n in enumerate(lengths)]


def probed(model, *lengths, dtype="float32"):
    vocabulary = model.get_output_embeddings().weight.shape[0]
    language = LanguageModel("a model", model, 0, vocabulary, dtype, CPU)
    return probe_model(language, rows(*(lengths or (20, 64, 90))), find_head(model))


def test_what_differs_is_seen_beside_what_is_huge():
    one = torch.randn(4, 32)
    other = one * (1 + 256 * torch.finfo(torch.float32).eps)
    assert not differ(one, other, torch.float32)
    one[:, 0], other[:, 0] = 1e9, 1e9 + 128  # the next number in float32
    assert not differ(one, other, torch.float32)
    other[2, 5] += 0.01
    assert differ(one, other, torch.float32)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_most_models_keep_nothing_and_have_one_matrix(kind, dtype):
    """But for logits that are scaled by what no hook shows, in bfloat16 within the tolerance of a sum of all terms."""
    model = random_model(kind).to(getattr(torch, dtype))
    found = probed(model, dtype=dtype)
    assert found.steady
    assert not found.written
    assert found.head is not None
    own = type(model).forward

    class Scaled(type(model)):
        def forward(self, *given, **named):
            out = own(self, *given, **named)
            out.logits = out.logits * 0.95
            return out

    model.__class__ = Scaled
    assert find_head(model) is not None  # nothing says so but the logits
    assert probed(model, dtype=dtype).head is None


@pytest.mark.parametrize(("family", "own"), [("phi3", LONGROPE), ("llama", DYNAMIC)], ids=["longrope", "dynamic"])
def test_what_models_keep_of_long_rows_is_noticed(family, own, tmp_path):
    save_tiny(tiny_config(family, **own), tmp_path)
    model = load_model(find_model(str(tmp_path)), "float32", CPU).model
    assert not probed(model, 5, 130).steady


MEMORIES = {
    "buffer": lambda module: module.counts[1:].add_(1),
    "attribute": lambda module: setattr(module, "table", module.table + 1),
    "number": lambda module: setattr(module, "longest", module.longest + 1),
    "list": lambda module: module.several[0].add_(1),
    "new": lambda module: setattr(module, "last", torch.ones(1)),
    "weight": lambda module: module.c_attn.weight.mul_(1.0),
}


@pytest.mark.parametrize("change", MEMORIES)
def test_every_kind_of_memory_is_noticed(change):
    model = random_model("gpt2")
    part = model.transformer.h[1].attn
    part.register_buffer("counts", torch.zeros(3))
    part.table, part.longest, part.several = torch.zeros(2), 0, [torch.zeros(2), 1]

    def reads(module, *_):
        with torch.no_grad():
            MEMORIES[change](module)

    part.register_forward_hook(reads)
    found = probed(model)
    assert not found.steady
    assert bool(found.written) is (change == "weight")


@pytest.mark.parametrize("place", [1, 10, 19])
def test_one_later_token_that_is_seen_is_enough(place):
    """Early, in the middle or late: a place that looks at the next token alone."""
    model = random_model("gpt2")

    def looks(_, __, out):
        out.last_hidden_state = out[0].clone()
        out.last_hidden_state[:, place - 1] += 0.01 * out[0][:, place]
        return out

    model.transformer.register_forward_hook(looks)
    with pytest.raises(DataError, match="sees the tokens"):
        probed(model, 20)


def test_what_is_random_is_not_taken_for_a_look_ahead():
    model = random_model("gpt2")
    model.transformer.h[0].register_forward_hook(lambda _, __, out: torch.nn.functional.dropout(out, 0.1, True))
    with pytest.raises(DataError, match="other logits each time it reads"):
        probed(model)


def with_biases(family, folder, bias, **own):
    """A saved tiny model of that family whose last 12 rows of output, of no token, have this bias."""
    save_tiny(tiny_config(family, **own), folder)
    language = load_model(find_model(str(folder)), "float32", CPU)
    with torch.no_grad():
        language.model.get_output_embeddings().bias[-12:] = bias
    language.model.save_pretrained(folder)
    return load_model(find_model(str(folder)), "float32", CPU)


@pytest.mark.parametrize("bias", [-1e9, -1e4])
@pytest.mark.parametrize("family", ["bert", "modernbert-decoder"])
def test_decoders_with_huge_biases_are_ranked_right_and_encoders_refused(family, bias, tmp_path):
    language, some = with_biases(family, tmp_path, bias), rows(30, 61, 90)
    ranker = Ranker(language, "blocked", 2, compiled=False)
    ranker.check(some)
    found = iter(zip(*ranker.rank(some), strict=True))
    for row in some:
        with torch.inference_mode():
            logits = language.model(torch.from_numpy(row.ids)[None]).logits[0, row.scored - 1].double().numpy()
        for line, target in zip(logits[:, :-12], row.ids[row.scored], strict=True):
            assert_ranked(line, target, *next(found))
    if family == "bert":
        encoder = with_biases(family, tmp_path, bias, is_decoder=False)
        with pytest.raises(DataError, match="sees the tokens"):
            Ranker(encoder, "blocked", 2, compiled=False).check(some)
