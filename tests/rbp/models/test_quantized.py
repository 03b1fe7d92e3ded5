"""Models whose modules keep state of their own on a weight, as quantizers do: ranked as they are, and left able to."""

import copy
from collections import UserDict

import numpy as np
import pytest
import torch
from by_hand import assert_ranked
from tiny import make_tokenizer, random_model, texts
from transformers import LlamaConfig

import rbp
from rbp.errors import DataError
from rbp.extract.forward import Ranker
from rbp.extract.verify import Stored, plain_logits, verify_sample
from rbp.models.load import LanguageModel
from rbp.models.sizes import non_embedding_params
from rbp.texts.protocol import Row

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


def packed(weight, kind=Packed):
    scale = weight.abs().amax(1, keepdim=True) / 127
    held = kind((weight / scale).round().to(torch.int8), requires_grad=False)
    held.scale = scale
    return held


class Moving(torch.nn.Module):
    """Its first pass moves the scales from the weight to itself; without them, it takes the numbers for a weight."""

    def __init__(self, linear, kind=Packed):
        super().__init__()
        self.weight, self.scale = packed(linear.weight.data, kind), None

    def forward(self, values):
        if getattr(self.weight, "scale", None) is not None:
            self.scale, self.weight.scale = self.weight.scale, None
        numbers = self.weight.float()
        return values @ (numbers if self.scale is None else numbers * self.scale).T


class Inside(Moving):
    """Moves them to an object that it holds, as bitsandbytes does, and forgets the weight's attribute altogether."""

    def __init__(self, linear):
        super().__init__(linear)
        self.state = {}

    def forward(self, values):
        if "scale" in vars(self.weight):
            self.state["scale"] = vars(self.weight).pop("scale")
        return values @ (self.weight.float() * self.state["scale"]).T if self.state else values @ self.weight.float().T


class Plain(Moving):
    """The same with a weight of torch's own class: only what hangs on it says so."""

    def __init__(self, linear):
        super().__init__(linear, torch.nn.Parameter)


class Repacking(Moving):
    """Its first pass turns the numbers over, in an object beside them and in the weight, as 4 bits on a CPU."""

    def forward(self, values):
        if not hasattr(self.weight, "turned"):
            self.weight.data, self.weight.turned = self.weight.data.flip(0).contiguous(), {"turned": True}
        return values @ (self.weight.float().flip(0) * self.weight.scale).T


class Container(UserDict):
    """A container of weights that no copy takes along, as compressed-tensors keeps them once they are unpacked."""

    def __deepcopy__(self, memo):
        return {}


class Unpacked(torch.nn.Module):
    """Plain bytes, which a hook of the whole model unpacks at its first pass: of the model itself, not of a copy."""

    def __init__(self, linear):
        super().__init__()
        self.weight = packed(linear.weight.data, torch.nn.Parameter)
        self.register_buffer("scale", vars(self.weight).pop("scale"))

    def forward(self, values):
        return values @ self.weight.T


def unpack_at_first_pass(model):
    def hook(*_):
        for module in model.modules():
            if isinstance(module, Unpacked):
                module.weight = torch.nn.Parameter(module.weight * module.scale, requires_grad=False)
        handle.remove()

    handle = model.register_forward_pre_hook(hook)


class Nested(torch.Tensor):
    """A tensor made of tensors, as torchao's and quanto's: it has no storage of its own."""

    @staticmethod
    def __new__(cls, numbers, scale):
        return torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype, requires_grad=False)

    def __init__(self, numbers, scale):
        self.numbers, self.scale = numbers, scale

    def __tensor_flatten__(self):
        return ["numbers", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["numbers"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, kinds, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].numbers, args[0].scale)
        full = [value.numbers.float() * value.scale if isinstance(value, Nested) else value for value in args]
        if function not in (torch.ops.aten.mm.default, torch.ops.aten.t.default, torch.ops.aten.addmm.default):
            raise NotImplementedError(function)
        return function(*full, **(kwargs or {}))


def make_nested(layer, kind=Nested):
    held = packed(layer.weight.data)
    layer.weight = torch.nn.Parameter(kind(held.data.detach(), held.scale), requires_grad=False)


KINDS = {"moving": Moving, "inside": Inside, "plain": Plain, "repacking": Repacking, "unpacked": Unpacked}
OTHERS = ("container", "nested layer", "nested head")


def quantized(kind, *, plainly=False):
    """A model of a kind; plainly: of the same numbers, without tensors made of tensors."""
    model = random_model("llama")
    if kind == "container":
        for module in model.modules():
            vars(module)["_parameters"] = Container(module._parameters)
    elif kind.startswith("nested"):
        layer = model.lm_head if kind == "nested head" else model.model.layers[1].mlp.up_proj
        make_nested(layer, (lambda numbers, scale: numbers.float() * scale) if plainly else Nested)
    else:
        for layer in model.model.layers:
            for part, name in ((layer.mlp, "up_proj"), (layer.mlp, "down_proj"), (layer.self_attn, "q_proj")):
                setattr(part, name, KINDS[kind](getattr(part, name)))
        if kind == "unpacked":
            unpack_at_first_pass(model)
    return model


def logits(model, ids):
    with torch.no_grad():
        return model.eval()(torch.tensor([ids]), use_cache=False).logits[0]


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, *OTHERS])
def test_ranks_are_those_of_a_model_alike_and_the_model_stays_as_it_is(kind, warm):
    """Once every rank was wrong, and none was left to the caller, as the first copy had taken the scales.

    A Linear of compressed-tensors has no attribute weight, and a tensor of torchao no digest: both once failed.
    """
    model, alike = quantized(kind), quantized(kind, plainly=True)
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


def test_one_that_cannot_be_shared_and_remembers_is_refused():
    model = quantized("moving")
    model.model.register_buffer("read", torch.zeros(1))

    def remembers(module, _, out):
        out.last_hidden_state = out.last_hidden_state * (1 + module.read)
        module.read = module.read + 0.1
        return out

    model.model.register_forward_hook(remembers)
    with pytest.raises(DataError, match=r"gives other logits each time|keeps something of what it reads"):
        rbp.rank(model, TEXTS, tokenizer=TOKENIZER, length=64)


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


def test_the_size_of_a_quantized_model_is_that_before():
    """Two numbers lie in a byte, scales are none, and some packages keep weights as buffers."""
    model = random_model("llama")
    size = non_embedding_params(model)
    part = model.model.layers[0].mlp
    half = torch.nn.Parameter(torch.zeros(64, 16, dtype=torch.uint8), requires_grad=False)
    part.up_proj.weight = half
    part.down_proj.scales = torch.nn.Parameter(torch.zeros(64))
    del part.gate_proj.weight
    part.gate_proj.register_buffer("qweight", torch.zeros(8, 64, dtype=torch.int32))
    assert non_embedding_params(model) == size  # packed by hand: its configuration says nothing
    part.up_proj.weight = torch.nn.Parameter(torch.zeros(64, 16))
    model.config.quantization_config = {"quant_method": "some"}
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
