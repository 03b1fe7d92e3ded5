"""Models in GGUF files, which these tests write as llama.cpp's converter would."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from draws import rest_slow
from ggufs import own_logits, save_case, survey_file, write_case
from safetensors.torch import load_file
from tiny import load, make_tokenizer, texts
from transformers import AutoModelForCausalLM, LlamaConfig

from rbp.errors import DataError
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer


@pytest.fixture(scope="module")
def llama_folder(tmp_path_factory) -> Path:
    """The folder of the case "llama"; `file`: the same as a GGUF file."""
    return save_case("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def file(llama_folder, tmp_path_factory) -> Path:
    return write_case("llama", llama_folder, tmp_path_factory.mktemp("file") / "a.gguf")


#: architectures whose fields or tensors need what no other's do; all: tests/slow/test_every_model.py
SHOWN = ("llama, biases", "llama, linear", "qwen2moe", "gemma3", "falcon", "lfm2", "gpt2", "mamba")


@pytest.mark.long
@pytest.mark.parametrize("name", SHOWN)
def test_a_file_gives_the_logits_of_the_folder(name, tmp_path):
    found = survey_file(name, tmp_path)
    assert found.outcome == "exact", found


QUANTIZATIONS = ("Q4_1", "Q6_K")
OTHERS = "F16 BF16 Q8_0 Q4_0 Q4_K IQ4_XS Q5_0 Q5_1 Q2_K Q3_K Q5_K TQ1_0 TQ2_0 MXFP4 NVFP4 IQ2_XXS IQ2_XS IQ2_S IQ3_XXS"
OTHERS += " IQ3_S IQ1_S IQ1_M IQ4_NL"


@pytest.mark.long
@pytest.mark.parametrize("kind", rest_slow(QUANTIZATIONS, OTHERS.split()))
def test_every_quantization_gives_its_dequantized_weights(kind, tmp_path):
    folder = save_case("llama, 256", tmp_path / "whole")
    file = write_case("llama, 256", folder, tmp_path / "a.gguf", kind)
    assert torch.equal(own_logits(file), own_logits(folder))
    assert find_model(str(file)).quantization == kind


def test_positions_scaled_as_llama_3_scales_them(file, tmp_path):
    """Of such a model the file has a table of what frequencies are divided by, and no field."""
    llama_folder = save_case("llama", tmp_path / "whole")
    rope = {"rope_type": "llama3", "rope_theta": 700.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32}  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(llama_folder)
    scaled = LlamaConfig(**{**model.config.to_dict(), "rope_parameters": rope})
    scaled.save_pretrained(llama_folder)
    plain, other = (type(model)(config).model.rotary_emb.inv_freq for config in (model.config, scaled))
    table = {"rope_freqs.weight": (plain / other).numpy()}
    written = write_case("llama", llama_folder, tmp_path / "a.gguf", extra=table)
    expected = own_logits(llama_folder)
    assert (own_logits(written) - expected).abs().max() < 1e-4 < 1e-2 < (own_logits(file) - expected).abs().max()


REFUSED = [
    ("llama", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, r"llama\.rope\.scaling\.factor and 1 more"),
    ("llama", {"attention.head_count_kv": [2, 4, 2]}, r"head_count_kv differs by layer"),
    ("llama", {"block_count": 10**8}, r"block_count is 100000000, and the tensors are of \d+ blocks"),
    ("llama", {"attention.causal": False}, r"attention\.causal is False"),
    ("qwen2", {"attention.key_length": 24, "attention.value_length": 24}, r"key_length is 24, .*cannot set"),
    ("qwen3moe", {"expert_weights_scale": 2.0}, r"qwen3moe\.expert_weights_scale"),
]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        *((name, {"more": fields}, message) for name, fields, message in REFUSED),
        ("llama", {"without": ("attention.head_count",)}, r"lacks the field llama\.attention\.head_count"),
        (
            "llama",
            {"extra": {"blk.0.odd.weight": np.ones((4, 4), np.int16)}},
            r"not dequantize blk\.0\.odd\.weight \(I16\)",
        ),
        ("llama", {"extra": {"blk.0.attn_q_norm.weight": np.ones(4, np.float32)}}, r"takes \S+ of the \S+ numbers"),
    ],
)
def test_what_would_not_reach_the_model_is_refused(name, options, message, llama_folder, tmp_path):
    folder = llama_folder if name == "llama" else save_case(name, tmp_path / "whole")
    file = write_case(name, folder, tmp_path / "a.gguf", **options)
    with pytest.raises(DataError, match=message):
        load(file)


def test_only_the_file_is_read(llama_folder, file, tmp_path):
    text = texts(1)[0] + "\n\t 1 + 1 = 2, <|end|> naïve 東京"
    shutil.copy(file, tmp_path / "a.gguf")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{ no JSON")
    files = find_model(str(tmp_path))
    assert files.fingerprint() == find_model(str(file)).fingerprint()
    again = find_model(str(file))
    assert files.tokenizer_fingerprint(load_tokenizer(files)) == again.tokenizer_fingerprint(load_tokenizer(again))
    assert load_tokenizer(files)(text)["input_ids"] == make_tokenizer()(text)["input_ids"]
    weight = load_file(llama_folder / "model.safetensors")["lm_head.weight"]
    assert torch.equal(load(tmp_path).model.lm_head.weight, weight)
    shutil.copy(file, shutil.copytree(llama_folder, tmp_path / "both"))  # beside safetensors it is passed over
    assert find_model(str(tmp_path / "both")).gguf is None


@pytest.mark.parametrize(
    ("keep", "where"),
    [(0, "empty"), (4, "its first four bytes"), (100, "what follows [a-zA-Z_.]+"), (-5000, "values of its tensors")],
)
def test_a_file_that_is_cut_short(file, tmp_path, keep, where):
    short = tmp_path / "a.gguf"
    short.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match=f"cannot read the GGUF file.*{where}"):
        find_model(str(short))


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


PLAIN = string("general.x") + struct.pack("<IB", 0, 1)
HURTFUL = {  # by hand, in the format's own bytes: numbers of tensors and fields; a key, its type's number, its value
    "an array of 2^40 bytes": (0, 1, string("general.x") + struct.pack("<IIQ", 9, 0, 2**40)),
    "an array of arrays": (0, 1, string("general.x") + struct.pack("<IIQIQ", 9, 9, 2**62, 9, 2**62)),
    "a long text": (0, 1, string("general.x") + struct.pack("<IQ", 8, 2**60)),
    "a long name": (0, 1, struct.pack("<Q", 2**63)),
    "tensors": (2**60, 1, PLAIN),
}


@pytest.mark.parametrize("kind", HURTFUL)
def test_a_file_that_says_more_than_it_holds_ends_at_once(kind, tmp_path):
    *counts, content = HURTFUL[kind]
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, *counts) + content)
    with pytest.raises(DataError, match=r"cut short: it ends in what follows (GGUF\.kv_count|general\.x)"):
        find_model(str(tmp_path / "a.gguf"))
