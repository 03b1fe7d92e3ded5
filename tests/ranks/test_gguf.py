"""Models in GGUF files, which these tests write as llama.cpp's converter would."""

import json
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import make_tokenizer, save_model, texts, write_texts

from rbp.core.errors import DataError
from rbp.ranks.extraction import extract
from rbp.ranks.models import find_model, load_model, load_tokenizer
from rbp.ranks.protocols import protocol
from rbp.ranks.store import open_store

CPU = torch.device("cpu")
KINDS = ["F32", "Q8_0", "Q4_0"]


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key matrix in the order that llama.cpp's rotary positions want for Llama."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path, folder: Path, kind: str, settings=(), extra=(), pre="gpt-2") -> Path:
    """The model in `folder` as a GGUF file, its matrices stored as `kind`; `folder` gets the weights that this leaves.

    settings: more of the architecture's fields; extra: names of vectors that no model takes; pre: how llama.cpp
    calls the way in which the tokenizer cuts text into words.
    """
    config = json.loads((folder / "config.json").read_text())
    state = {name: values.numpy() for name, values in load_file(folder / "model.safetensors").items()}
    arch, heads = config["model_type"], (config["num_attention_heads"], config["num_key_value_heads"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config["num_hidden_layers"])
    type_ = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads[0])
    writer.add_head_count_kv(heads[1])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    if arch == "llama":
        writer.add_rope_dimension_count(config["hidden_size"] // heads[0])
    for key, value in settings:
        writer.add_string(f"{arch}.{key}", value)
    raw = json.loads((folder / "tokenizer.json").read_text())["model"]
    words = sorted(raw["vocab"], key=raw["vocab"].get)
    unused = [f"[PAD{i}]" for i in range(len(words), config["vocab_size"])]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words + unused)
    writer.add_token_types([3] + [1] * (len(words) - 1) + [5] * len(unused))  # control, normal, unused
    writer.add_token_merges([" ".join(pair) for pair in raw["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, weight in state.items():
        stored = weight
        if arch == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            stored = permuted(weight, heads["k_proj" in name])
        as_ = type_ if weight.ndim > 1 else gguf.GGMLQuantizationType.F32
        blocks = gguf.quantize(np.ascontiguousarray(stored), as_)
        writer.add_tensor(names.get_name(name, (".weight", ".bias")), blocks, raw_dtype=as_)
        # a row is quantized by itself, so that their order does not matter
        state[name] = gguf.dequantize(gguf.quantize(weight, as_), as_)
    for name in extra:
        writer.add_tensor(name, np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file({name: torch.from_numpy(values.copy()) for name, values in state.items()}, folder / "model.safetensors")
    return path


@pytest.fixture
def whole(tmp_path) -> Path:
    return save_model(tmp_path / "whole", "llama")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_ranks_are_those_of_the_dequantized_model(family, kind, tmp_path):
    whole = save_model(tmp_path / "whole", family)
    config = json.loads((whole / "config.json").read_text())
    unusual = {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0}, "rms_norm_eps": 0.01}
    (whole / "config.json").write_text(json.dumps({**config, **unusual}))
    before = load_file(whole / "model.safetensors")
    file = write_gguf(tmp_path / "model.gguf", whole, kind)
    changed = any(
        not torch.equal(values, before[name]) for name, values in load_file(whole / "model.safetensors").items()
    )
    assert changed == (kind != "F32")
    corpus = str(write_texts(tmp_path / "text.jsonl", texts(6, seed=3)))
    plan = protocol("windows", length=48, context=16)
    ours, theirs = (open_store(extract([str(model)], [corpus], plan, tmp_path / "out")[0]) for model in (file, whole))
    one, other = ours.ranks(), theirs.ranks()
    assert len(one) > 300
    for column in ("document", "position", "token", "greater", "equal"):
        np.testing.assert_array_equal(one[column], other[column])
    np.testing.assert_allclose(one["nll"], other["nll"], rtol=1e-5, atol=1e-6)
    about = ours.manifest["about"]
    assert (about["file"], about["quantization"], about["family"]) == ("model.gguf", kind, family)
    assert about["size"] == theirs.manifest["about"]["size"]
    assert ours.manifest["key"]["dtype"] == "float32"
    assert extract([str(file)], [corpus], plan, tmp_path / "out") == [ours.folder]  # measured already


def test_only_the_file_is_read(whole, tmp_path, monkeypatch):
    text = texts(1)[0] + "\n\t 1 + 1 = 2, <|end|> naïve 東京"
    expected = make_tokenizer()(text)["input_ids"]
    file = write_gguf(tmp_path / "folder.gguf", whole, "Q8_0")
    weight = load_file(whole / "model.safetensors")["lm_head.weight"]
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(file, folder / "a.gguf")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{ no JSON")
    (tmp_path / "a.gguf").write_bytes(b"another")
    monkeypatch.chdir(tmp_path)
    files = find_model(str(folder))
    assert files.fingerprint() == find_model("folder.gguf").fingerprint()
    assert files.tokenizer_fingerprint() == find_model("folder.gguf").tokenizer_fingerprint()
    assert load_tokenizer(files)(text)["input_ids"] == expected
    assert torch.equal(load_model(files, "float32", CPU).model.lm_head.weight, weight)


def test_no_such_file_and_no_revision(whole, tmp_path):
    with pytest.raises(DataError, match="no such model folder or file"):
        find_model("none.gguf")
    with pytest.raises(DataError, match="no revisions"):
        find_model(str(write_gguf(tmp_path / "a.gguf", whole, "F32")), "main")


def test_a_folder_with_two_files(whole, tmp_path):
    for name in ("a.gguf", "b.gguf"):
        write_gguf(tmp_path / name, whole, "F32")
    with pytest.raises(DataError, match="2 GGUF files") as refused:
        find_model(str(tmp_path))
    assert str(tmp_path / "a.gguf") in (refused.value.remedy or "")


def test_without_the_library(whole, tmp_path, monkeypatch):
    file = write_gguf(tmp_path / "a.gguf", whole, "F32")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(DataError, match="gguf is not installed") as refused:
        find_model(str(file))
    assert "pip install 'rbp[gguf]'" in (refused.value.remedy or "")


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -5000])
def test_a_file_that_is_cut_short(whole, tmp_path, keep):
    file = write_gguf(tmp_path / "a.gguf", whole, "F32")
    data = file.read_bytes()
    file.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(DataError, match="cannot read the GGUF file") as refused:
        find_model(str(file))
    assert "\n" not in refused.value.what


def test_an_architecture_that_transformers_does_not_know(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "rwkv7")
    writer.add_tensor("token_embd.weight", np.ones((4, 4), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(DataError, match=r"cannot read the GGUF file: .*rwkv7"):
        find_model(str(tmp_path / "a.gguf"))


@pytest.mark.parametrize(
    ("settings", "extra", "message"),
    [
        ([("rope.scaling.type", "yarn")], [], r"positions are scaled \(llama\.rope\.scaling\.type\)"),
        ([], ["rope_freqs.weight"], r"positions are scaled \(rope_freqs\.weight\)"),
        ([], ["blk.0.attn_q_norm.weight"], r"takes \S+ of the \S+ numbers"),
    ],
)
def test_what_transformers_would_pass_over(whole, tmp_path, settings, extra, message):
    file = write_gguf(tmp_path / "a.gguf", whole, "F32", settings, extra)
    with pytest.raises(DataError, match=message):
        load_model(find_model(str(file)), "float32", CPU)


@pytest.mark.parametrize(("pre", "known"), [("smollm", False), ("qwen2", True)])
def test_the_way_text_is_cut_into_words_is_known(whole, tmp_path, pre, known):
    file = write_gguf(tmp_path / "a.gguf", whole, "F32", pre=pre)
    if known:
        pieces = [len(load_tokenizer(find_model(str(where)))("a 12")["input_ids"]) for where in (file, whole)]
        assert pieces == [4, 4]
    else:
        with pytest.raises(DataError, match=r"cuts text into words \(smollm\)"):
            find_model(str(file))


def test_rope_that_is_not_scaled(whole, tmp_path):
    find_model(str(write_gguf(tmp_path / "a.gguf", whole, "F32", [("rope.scaling.type", "none")])))
