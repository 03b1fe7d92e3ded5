"""Models in GGUF files, which these tests write as llama.cpp's converter would."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from draws import rest_slow
from ggufs import CASES, own_logits, save_case, write_case
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


#: architectures whose fields or tensors need what others' do not
SHOWN = ["llama, biases", "qwen2moe", "gemma3", "gpt2"]


@pytest.mark.long
@pytest.mark.parametrize("name", rest_slow(SHOWN, sorted(CASES.keys() - {*SHOWN})))
def test_a_file_gives_the_logits_of_the_folder(name, tmp_path):
    folder = save_case(name, tmp_path / "whole")
    found, expected = own_logits(write_case(name, folder, tmp_path / "a.gguf")), own_logits(folder)
    near = 5e-5 if name == "mamba" else 1e-5  # of Mamba the file has exp(A), and of some norms 1 + w
    assert (found - expected).abs().max() <= near * expected.abs().max()


@pytest.mark.long
def test_a_quantized_file_gives_its_dequantized_weights(tmp_path):
    folder = save_case("llama", tmp_path / "whole")
    file = write_case("llama", folder, tmp_path / "a.gguf", "Q4_1")
    assert torch.equal(own_logits(file), own_logits(folder))
    assert find_model(str(file)).quantization == "Q4_1"


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"more": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}}, r"llama\.rope\.scaling\.factor and 1"),
        ({"more": {"attention.head_count_kv": [2, 4, 2]}}, r"head_count_kv differs by layer"),
        ({"more": {"block_count": 10**8}}, r"block_count is 100000000, and the tensors are of \d+ blocks"),
        ({"more": {"attention.causal": False}}, r"attention\.causal is False"),
        ({"without": ("attention.head_count",)}, r"lacks the field llama\.attention\.head_count"),
        ({"extra": {"blk.0.odd.weight": np.ones((4, 4), np.int16)}}, r"not dequantize blk\.0\.odd\.weight \(I16\)"),
        ({"extra": {"blk.0.attn_q_norm.weight": np.ones(4, np.float32)}}, r"takes \S+ of the \S+ numbers"),
    ],
)
def test_what_would_not_reach_the_model_is_refused(options, message, llama_folder, tmp_path):
    with pytest.raises(DataError, match=message):
        load(write_case("llama", llama_folder, tmp_path / "a.gguf", **options))


def test_only_the_file_is_read(llama_folder, file, tmp_path):
    text = texts(1)[0] + "\n\t 1 + 1 = 2, <|end|> naïve 東京"
    shutil.copy(file, tmp_path / "a.gguf")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_text("{ no JSON")
    files = find_model(str(tmp_path))
    assert files.fingerprint() == find_model(str(file)).fingerprint()
    assert load_tokenizer(files)(text)["input_ids"] == make_tokenizer()(text)["input_ids"]
    weight = load_file(llama_folder / "model.safetensors")["lm_head.weight"]
    assert torch.equal(load(tmp_path).model.lm_head.weight, weight)
    shutil.copy(file, shutil.copytree(llama_folder, tmp_path / "both"))  # beside safetensors it is passed over
    assert find_model(str(tmp_path / "both")).gguf is None


KEY = struct.pack("<Q", len("general.x")) + b"general.x"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda data: b"", "empty"),
        (lambda data: data[:100], "what follows [a-zA-Z_.]+"),
        (lambda data: data[:-5000], "values of its tensors"),
        # numbers of tensors and fields; a key, its type's number, its value: more than there is
        (lambda data: b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + KEY + struct.pack("<IIQ", 9, 0, 2**40), "kv_count"),
        (lambda data: b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1) + KEY + struct.pack("<IB", 0, 1), "general.x"),
    ],
    ids=["empty", "fields", "tensors", "an array of 2^40 bytes", "2^60 tensors"],
)
def test_a_file_that_is_cut_short_or_says_more_than_it_holds(file, tmp_path, change, where):
    short = tmp_path / "a.gguf"
    short.write_bytes(change(file.read_bytes()))
    with pytest.raises(DataError, match=f"cannot read the GGUF file.*{where}"):
        find_model(str(short))
