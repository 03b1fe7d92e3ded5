"""Faults 18, 19 and 21: another model in the place of the one that was named, files that are no weights, and a dtype
that the model does not compute in. What cannot be ranked is named as what it is."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from draws import rest_slow
from safetensors.torch import load_file, save_file
from tiny import VOCAB, make_tokenizer, save_model, texts, write_texts
from transformers import AutoModelForCausalLM

from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import Settings, extract
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store

CPU = torch.device("cpu")
PROTOCOL = protocol("windows", length=48, context=16)


@pytest.fixture
def copy(model, tmp_path):
    return Path(shutil.copytree(model, tmp_path / "model"))


def configure(folder: Path, **fields: object) -> None:
    """Write fields into config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def change_weights(folder: Path, change) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors", {"format": "pt"})


def load(folder: Path, dtype="float32"):
    files = find_model(str(folder))
    load_tokenizer(files)
    return load_model(files, dtype, CPU)


def refused(folder: Path, message: str) -> str:
    """The remedy, of the error that says `message`."""
    with pytest.raises(DataError, match=message) as caught:
        load(folder)
    assert "\n" not in caught.value.what
    return caught.value.remedy


def test_fewer_layers_than_the_weights_have(copy):
    configure(copy, n_layer=1)
    assert "num_hidden_layers" in refused(copy, r"does not take .*h\.1\.")


def test_a_weight_that_no_model_takes(copy):
    change_weights(copy, lambda state: state.update({"v_head.weight": torch.zeros(1, 32)}))
    refused(copy, r"does not take v_head\.weight of the weights")


def test_masks_that_old_versions_saved_are_no_weights(tmp_path):
    folder = save_model(tmp_path / "neo", "neox")
    mask = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    masks = {"layers.0.attn.attention.bias": mask, "layers.0.attn.attention.masked_bias": torch.tensor(-1e9)}
    change_weights(folder, lambda state: state.update(masks))
    load(folder)
    change_weights(folder, lambda state: state.update({"layers.0.attn.other.bias": torch.ones(32)}))
    refused(folder, r"does not take layers\.0\.attn\.other\.bias")


def test_a_head_of_another_shape(copy):
    configure(copy, vocab_size=VOCAB + 8)
    assert "vocab_size" in refused(copy, rf"has the shape \({VOCAB}, 32\), and \({VOCAB + 8}, 32\) by config.json")


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_quantized_weights_are_named(copy, method):
    configure(copy, quantization_config={"quant_method": method, "bits": 4, "group_size": 128})
    assert "before it was quantized" in refused(copy, rf"quantized \({method}\)")


def test_quantized_weights_of_which_the_configuration_says_nothing(copy):
    def packed(state):
        weight = state.pop("transformer.h.0.mlp.c_fc.weight")
        state["transformer.h.0.mlp.c_fc.qweight"] = weight.to(torch.int32)

    change_weights(copy, packed)
    refused(copy, "GPTQ or AWQ")


@pytest.mark.parametrize("where", ["quantization_config", "text_config"])
def test_an_unknown_quantization(copy, where):
    chosen = {"quant_method": "sorcery"}
    configure(copy, **{where: chosen if where == "quantization_config" else {"quantization_config": chosen}})
    refused(copy, "does not know: sorcery")


def test_gguf(copy, tmp_path):
    (copy / "model-q4.gguf").write_bytes(b"GGUF")
    load(copy)  # beside weights it is not looked at
    for name in ("config.json", "model.safetensors"):
        (copy / name).unlink()
    refused(copy, r"GGUF file")
    with pytest.raises(DataError, match="GGUF file"):
        find_model(str(copy / "model-q4.gguf"))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_pointer_of_git_lfs(copy, name):
    (copy / name).write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * '0'}\nsize 12345\n")
    assert "git lfs pull" in refused(copy, f"{name} is a pointer of git LFS")


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -1])
def test_weights_that_are_cut_short(copy, keep):
    data = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    assert "download it again" in refused(copy, r"model\.safetensors is cut short or damaged")


LORA = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 6, "target_modules": ["c_attn", "lm_head"]}


def save_adapter(folder: Path, base: object, **fields: object) -> dict[str, torch.Tensor]:
    """An adapter of the tiny GPT-2; gives what it adds to each weight, by the weight's name."""
    folder.mkdir(exist_ok=True)
    config = {**LORA, "base_model_name_or_path": str(base), "fan_in_fan_out": True, **fields}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    torch.manual_seed(5)
    state, added = {}, {}
    for layer in range(2):
        name = f"transformer.h.{layer}.attn.c_attn"
        down, up = torch.randn(2, 32) * 0.3, torch.randn(96, 2) * 0.3
        state |= {f"base_model.model.{name}.lora_A.weight": down, f"base_model.model.{name}.lora_B.weight": up}
        added[f"{name}.weight"] = 3 * (up @ down).T  # lora_alpha / r; GPT-2 keeps its matrices transposed
    save_file(state, folder / "adapter_model.safetensors", {"format": "pt"})
    return added


def test_an_adapter_beside_weights_is_not_passed_over(copy):
    save_adapter(copy, "somewhere/else")
    assert "folder of its own" in refused(copy, "weights and an adapter beside them")


def test_without_peft_an_adapter_is_named(model, tmp_path, monkeypatch):
    save_adapter(tmp_path / "adapter", model)
    monkeypatch.setitem(sys.modules, "peft", None)
    assert "merge_and_unload" in refused(tmp_path / "adapter", "this is an adapter")


def test_an_adapter_whose_base_is_not_there(tmp_path, copy):
    save_adapter(tmp_path / "adapter", "/no/such/model")
    refused(tmp_path / "adapter", "of the adapter's base, /no/such/model: there is no such model folder")
    save_adapter(tmp_path / "adapter", tmp_path / "adapter")
    refused(tmp_path / "adapter", "is an adapter itself")
    save_adapter(tmp_path / "adapter", "")
    refused(tmp_path / "adapter", "does not say which model")


def test_an_adapter_is_applied(model, tmp_path):
    added = save_adapter(tmp_path / "adapter", model, target_modules=["c_attn"])
    merged = Path(shutil.copytree(model, tmp_path / "merged"))
    change_weights(merged, lambda state: state.update({name: state[name] + more for name, more in added.items()}))
    corpus = [str(write_texts(tmp_path / "corpus.jsonl", texts(8)))]
    names = [str(each) for each in (model, merged, tmp_path / "adapter")]
    stores = [open_store(path) for path in extract(names, corpus, PROTOCOL, tmp_path / "out", Settings())]
    base, by_hand, adapted = (store.ranks() for store in stores)
    assert (base.greater != by_hand.greater).mean() > 0.5
    assert (adapted.greater == by_hand.greater).mean() > 0.99  # but for rounding
    assert adapted.nll.to_numpy() == pytest.approx(by_hand.nll.to_numpy(), abs=1e-4)
    assert stores[0].size == stores[2].size
    save_adapter(tmp_path / "adapter", model, target_modules=["c_attn"], lora_alpha=7)
    assert find_model(names[2]).fingerprint() != stores[2].manifest["key"]["weights"]


NAMES = {"gpt2": ("wte", "c_attn"), "gemma2": ("embed_tokens", "q_proj"), "llama": ("embed_tokens", "q_proj")}
ON_EMBEDDINGS = {
    "output": ({"target_modules": ["lm_head", "ATTENTION"]}, {}),
    "output, without the model's own weights": ({"target_modules": ["lm_head"]}, {"save_embedding_layers": False}),
    "output, with magnitudes": ({"target_modules": ["lm_head"], "use_dora": True}, {}),
    "input": ({"target_modules": ["INPUT"]}, {}),
    "input and output": ({"target_modules": ["INPUT", "lm_head"]}, {}),
    "neither, but both are saved": ({"target_modules": ["ATTENTION"]}, {"save_embedding_layers": True}),
    "whole output": ({"target_modules": ["ATTENTION"], "modules_to_save": ["lm_head"]}, {}),
    "whole input": ({"target_modules": ["ATTENTION"], "modules_to_save": ["INPUT"]}, {}),
    "some tokens": ({"target_modules": ["ATTENTION"], "trainable_token_indices": [7, 80]}, {}),
}


def trained_adapter(base: Path, folder: Path, config: dict, save: dict):
    """An adapter as peft saves it, all of whose weights have moved; gives peft's own model, nothing merged."""
    import peft  # slow

    kind = base.name
    text = json.dumps(config).replace("INPUT", NAMES[kind][0]).replace("ATTENTION", NAMES[kind][1])
    torch.manual_seed(5)
    net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    lora = peft.LoraConfig(r=2, lora_alpha=6, task_type="CAUSAL_LM", fan_in_fan_out=kind == "gpt2", **json.loads(text))
    model = peft.get_peft_model(net, lora).eval()
    moved = [parameter for parameter in model.parameters() if parameter.requires_grad]
    moved += [model.get_input_embeddings().weight] if save.get("save_embedding_layers") else []
    with torch.no_grad():
        for parameter in moved:
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder, **save)
    return model


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """base(kind): the tiny model of a kind, made once; the embeddings of all but Llama are tied."""
    root = tmp_path_factory.mktemp("bases")
    return lambda kind: root / kind if (root / kind).exists() else save_model(root / kind, kind)


@pytest.mark.filterwarnings("ignore::UserWarning:peft")
@pytest.mark.parametrize("kind", rest_slow(["gpt2", "llama"], ["gemma2"]))
@pytest.mark.parametrize("which", ON_EMBEDDINGS)
def test_an_adapter_of_the_embeddings_gives_what_peft_gives(base, kind, which, tmp_path):
    """Where input and output share one matrix, what is added to one of them must not get into the other."""
    own = trained_adapter(base(kind), tmp_path / "adapter", *ON_EMBEDDINGS[which])
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        expected = own(input_ids=ids).logits
        ours, before = (load(folder).model(input_ids=ids).logits for folder in (tmp_path / "adapter", base(kind)))
    assert (before - expected).abs().max() > 0.1
    assert (ours - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.filterwarnings("ignore::UserWarning:peft")
def test_ranks_of_an_adapter_of_a_tied_output_are_those_of_peft(base, tmp_path):
    own = trained_adapter(base("gpt2"), tmp_path / "adapter", *ON_EMBEDDINGS["output"])
    documents = texts(4, longest=60)  # of one window each
    corpus = [str(write_texts(tmp_path / "corpus.jsonl", documents))]
    (folder,) = extract(
        [str(tmp_path / "adapter")], corpus, protocol("windows", length=256), tmp_path / "out", Settings()
    )
    tokenizer, tokens = make_tokenizer(), open_store(folder).ranks()
    greater = []
    for text in documents:
        ids = torch.tensor(tokenizer(text)["input_ids"])
        with torch.inference_mode():
            logits = own(input_ids=ids[None]).logits[0, :-1]
        greater += (logits > logits.gather(1, ids[1:, None])).sum(1).tolist()
    assert (tokens["greater"].to_numpy() == greater).mean() > 0.99  # but for rounding


@pytest.mark.filterwarnings("ignore::UserWarning:peft")
def test_an_adapter_of_more_tokens_than_the_model_has(base, tmp_path):
    larger = save_model(tmp_path / "gpt2", "gpt2")
    net = AutoModelForCausalLM.from_pretrained(larger, dtype=torch.float32)
    net.resize_token_embeddings(VOCAB + 3)
    net.save_pretrained(larger)
    trained_adapter(larger, tmp_path / "adapter", *ON_EMBEDDINGS["neither, but both are saved"])
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": str(base("gpt2"))}))
    said = r"lm_head.weight and 1 more has the shape \(323, 32\) in the adapter, and \(320, 32\)"
    assert "vocabulary was changed" in refused(tmp_path / "adapter", said)


def test_an_adapter_of_another_kind_is_named(model, tmp_path):
    save_adapter(tmp_path / "adapter", model, target_modules=["no_such_layer"])
    refused(tmp_path / "adapter", "cannot apply the adapter")


@pytest.mark.parametrize("change", ["one more", "one less"])
def test_an_adapter_of_another_model_is_not_applied_in_part(model, tmp_path, change):
    save_adapter(tmp_path / "adapter", model, target_modules=["c_attn"])
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    state = load_file(path)
    if change == "one more":
        state |= {name.replace(".h.1.", ".h.7."): values.clone() for name, values in state.items()}
    else:
        state = {name: values for name, values in state.items() if ".h.1." not in name}
    save_file(state, path, {"format": "pt"})
    refused(tmp_path / "adapter", r"do not fit together in .*\.h\.[17]\.")


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_float64_is_float64_or_is_refused(kind, tmp_path):
    """GPT-2 computes in the dtype of its weights; Llama normalizes in float32 whatever that is."""
    folder = save_model(tmp_path / kind, kind, make_tokenizer())
    corpus = [str(write_texts(tmp_path / "corpus.jsonl", texts(4)))]
    settings = Settings(dtype="float64", backend="reference")
    if kind == "llama":
        with pytest.raises(ParameterError, match="llama computes parts in float32"):
            extract([str(folder)], corpus, PROTOCOL, tmp_path / "out", settings)
        return
    (store,) = extract([str(folder)], corpus, PROTOCOL, tmp_path / "out", settings)
    tokens, model = open_store(store).ranks(), load(folder, "float64").model
    tokenizer, document = load_tokenizer(find_model(str(folder))), tokens[tokens["document"] == 0]
    ids = torch.tensor([tokenizer(texts(4)[0])["input_ids"][:48]])
    with torch.inference_mode():
        logits = model(ids).logits[0]
    assert logits.dtype == torch.float64
    for row in document[document["position"] < 48].itertuples():
        own = logits[row.position - 1]
        assert row.greater == int((own > own[row.token] + 1e-12).sum())  # far below what float32 could tell
