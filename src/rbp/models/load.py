"""Load a causal language model and its tokenizer, of safetensors or GGUF; code that a model brings is never run."""

import copy
import inspect
import logging
import re
import weakref
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from rbp import registry
from rbp.choices import Dtype, known_dtype
from rbp.errors import DataError, ParameterError, first_line
from rbp.fingerprint import Marks
from rbp.models import adapters, devices, gguf, tokenizers
from rbp.models.find import ModelFiles
from rbp.models.identity import digest_of, is_shareable
from rbp.models.sizes import must_be_of_size, non_embedding_params
from rbp.models.stated import must_be_as_stated, unused_config_fields
from rbp.names import and_more

log = logging.getLogger(__name__)

_MASK = re.compile(r"\.(masked_)?bias")  # how old versions of transformers saved causal masks


@dataclass(frozen=True)
class LanguageModel:
    """A model ready to run.

    name: as requested; size: S; vocabulary: how many logits it gives; dtype: its name; device: of what it reads;
    places: where its parts lie, if these are several (`rbp.models.devices`); borrowed: it is the caller's, in memory.
    """

    name: str
    model: Any
    size: int
    vocabulary: int
    dtype: Dtype
    device: torch.device
    places: tuple[str, ...] = ()
    borrowed: bool = False

    @property
    def one_at_a_time(self) -> bool:
        """Return whether rows may not be read side by side: parts are fetched, or weights hold more than numbers."""
        return bool(self.places) or not is_shareable(self.model)


@dataclass(frozen=True)
class Loaded:
    """A transformers model in memory, with its tokenizer; `ModelFiles` is the same for a model on disk.

    It is ranked as it is: in its own dtype, on its own device. Raises ParameterError for what is neither.
    """

    name: str
    model: Any
    tokenizer: Any
    revision: None = None
    checkpoint: None = None
    folder: None = None
    quantization: None = None

    def __post_init__(self) -> None:
        from transformers import PreTrainedTokenizerBase

        wanted = ("config", "get_output_embeddings", "dtype", "device")
        if not (isinstance(self.model, nn.Module) and all(hasattr(self.model, name) for name in wanted)):
            fault = f"{type(self.model).__name__} is not a language model of transformers"
            raise ParameterError(fault, "model", "Give such a model, or a name: a hub id or a folder.")
        _must_be_rankable(self.model)
        if self.tokenizer is None:
            fault = "a model in memory comes without its tokenizer"
            raise ParameterError(fault, "tokenizer", "Give it: tokenizer=AutoTokenizer.from_pretrained(…).")
        if not isinstance(self.tokenizer, PreTrainedTokenizerBase):
            fault = f"{type(self.tokenizer).__name__} is not a tokenizer of transformers"
            raise ParameterError(
                fault, "tokenizer", "PreTrainedTokenizerFast(tokenizer_object=…) makes one of another."
            )
        tokenizer = copy.deepcopy(self.tokenizer)  # how it cuts and pads is part of its state
        tokenizer.truncation_side = "right"
        if backend := getattr(tokenizer, "backend_tokenizer", None):
            backend.no_truncation()
            backend.no_padding()
        object.__setattr__(self, "tokenizer", tokenizer)

    @property
    def config(self) -> dict[str, Any]:
        """Return the model's configuration."""
        return dict(self.model.config.to_dict())

    @property
    def dtype(self) -> Dtype:
        """Return the dtype of its weights. Raises ParameterError for one that is not ranked in."""
        return known_dtype(self.model.dtype)

    def fingerprint(self) -> str:
        """Digest its weights and its configuration; what its code and hooks do, its ranks have to show."""
        return digest_of(self.model)

    def tokenizer_fingerprint(self, tokenizer: Any) -> str:
        """Digest the tokenizer's files, as they would be saved."""
        return tokenizers.saved_digest(tokenizer)

    def marks(self) -> dict[Path, Marks]:
        """Return no marks: it is read from no file."""
        return {}


def _must_be_rankable(model: Any) -> None:
    """Raise ParameterError for a model in memory that has no weights to read, or other weights than numbers."""
    kind = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        fault, remedy = f"{kind} reads by an encoder, and ranks no token of a text by those before it", "Give a causal"
        raise ParameterError(fault, "model", f"{remedy} language model, such as a ForCausalLM class of transformers.")
    if any(tensor.is_meta for tensor in model.parameters()) and not devices.places(model):
        remedy = "Load it by from_pretrained, or give the name of its folder."
        raise ParameterError(f"{kind} is on the meta device: it has no weights", "model", remedy)
    if any(inspect.ismethod(getattr(module, "weight", None)) for module in model.modules()):
        fault = f"the weights of {kind} are packed in whole numbers, as by quantize_dynamic"
        raise ParameterError(fault, "model", "Give the model before it was quantized.")


def load_tokenizer(files: ModelFiles | Loaded) -> Any:
    """Load the model's tokenizer, as its file has it; texts that are too long are cut at their end.

    Raises DataError if it cannot be read.
    """
    from transformers import AutoTokenizer

    if isinstance(files, Loaded):
        return files.tokenizer
    stated, origin = files.gguf is not None and files.by_hand is None, files.base or files
    if origin.weights and not origin.gguf:  # transformers reads the configuration with the tokenizer
        must_be_of_size(origin.config, {} if _quantization(origin) else _shapes(origin), origin.name)
    try:
        with (
            tokenizers.panic_as_error(),
            gguf.alone(files.weights[0]) if stated else _folder(files.tokenizer) as source,
        ):
            loaded = AutoTokenizer.from_pretrained(**source, trust_remote_code=False, truncation_side="right")
    except Exception as error:  # transformers raises many kinds for a broken file
        raise DataError(f"cannot read the tokenizer: {first_line(error)}", files.name, "Save it again.") from None
    if stated:
        return tokenizers.cut_as_stated(loaded, files.contents.tokenizer, files.name)
    return tokenizers.verify_tokens(loaded, files.tokenizer, files.name)


def load_model(
    files: ModelFiles | Loaded, dtype: Dtype, device: torch.device, most: devices.Limits | None = None
) -> LanguageModel:
    """Load the model in `dtype` on `device`, ready for inference; one in memory is taken as it is.

    most: bytes that it may take of each device and of memory, among which it is then spread; the rest stays on disk.

    Raises DataError if the architecture is unknown to transformers (code shipped with a model is never run)
    or the weights do not fit it, each of them; ParameterError for an unknown dtype.
    """
    from transformers import AutoModelForCausalLM

    if isinstance(files, Loaded):
        return replace(_wrap_model(files.name, files.model, files.dtype, device), borrowed=True)
    known_dtype(dtype)
    if files.base is not None:
        language, shapes = load_model(files.base, dtype, device), _shapes(files)
        model = adapters.adapt(language.model, files.folder, shapes, files.name, files.base.name).eval()
        log.info("%s: the adapter runs beside the weights of %s", files.name, files.base.name)
        return _wrap_model(files.name, model, dtype, device)
    if entry := registry.entries("architectures").get(str(files.config.get("model_type"))):
        entry.load()()
    quantized = _quantization(files)
    shapes = {} if files.gguf else _shapes(files)
    how: dict[str, Any] = {"use_safetensors": True}
    if files.gguf:
        from transformers import GgufConfig

        how = {"quantization_config": GgufConfig(dequantize=True), "config": files.contents.config}
    if most is not None:  # what is no copy of a part of the files, such as experts that are put together, is written
        how |= {"device_map": "auto", "max_memory": most, "offload_folder": (aside := TemporaryDirectory()).name}
    try:
        with gguf.alone(files.gguf) if files.gguf else _folder(files.folder) as source:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                **source,
                **how,
                dtype=getattr(torch, dtype),
                trust_remote_code=False,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are in the report
            )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # transformers raises many kinds: unknown type, no causal model, broken file
        fault, remedy = "cannot load the model", "It must be a causal language model that transformers itself knows."
        if quantized:
            fault = f"cannot load the model, whose weights are quantized ({quantized})"
            remedy = "Give the model before it was quantized, or install what reads it."
        raise DataError(f"{fault}: {first_line(error)}", files.name, remedy) from None
    model, report = loaded
    _check_weights_complete(report, shapes, files)
    if not files.gguf:
        must_be_as_stated(files.config, model.config, files.name)
    code = inspect.getsource(inspect.getmodule(type(model)) or type(model))
    if not files.gguf and (left := ", ".join(unused_config_fields(files.config, model.config, code))):
        fault = "%s: transformers' %s does not use what config.json says by %s: ranks are of the model without it"
        log.warning(fault, files.name, type(model).__name__, left)
    if files.gguf:
        gguf.finish(model, files.contents, files.gguf, files.name)
    if most is None:
        return _wrap_model(files.name, model.eval().to(device), dtype, device)
    weakref.finalize(model, aside.cleanup)
    devices.hold_head(model.eval(), device)
    return _wrap_model(files.name, model, dtype, device)


def _wrap_model(name: str, model: Any, dtype: Dtype, device: torch.device) -> LanguageModel:
    vocabulary = int(model.config.get_text_config().vocab_size)
    head = model.get_output_embeddings()
    if head is not None and getattr(head, "weight", None) is not None:
        vocabulary = head.weight.shape[0]
    return LanguageModel(name, model, non_embedding_params(model), vocabulary, dtype, device, devices.places(model))


def looks_at_length(config: dict[str, Any]) -> bool:
    """Return whether positions depend on the length of the whole input: rotary scaling "dynamic" (NTK) or "longrope".

    One configuration may hold several, by kind of layer or of modality.
    """
    kind = str(config.get("rope_type", config.get("type", "")))
    inner = [value for value in config.values() if isinstance(value, dict)]
    return "dynamic" in kind or kind in ("longrope", "su") or any(map(looks_at_length, inner))


def _quantization(files: ModelFiles) -> str | None:
    """Return how the weights are quantized, if they are. Raises DataError for a way that transformers would ignore."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    config = files.config
    chosen = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config")
    if not isinstance(chosen, dict):
        return None
    method = str(chosen.get("quant_method") or "bitsandbytes")
    if method not in (*AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"):
        fault = f"the weights are quantized in a way that transformers does not know: {method}"
        raise DataError(fault, f"{files.name}, quant_method in config.json", "Give the model before it was quantized.")
    return method


def _shapes(files: ModelFiles) -> dict[str, list[int]]:
    """Return the shapes of all weights, by name. Raises DataError for a file that is not whole."""
    from safetensors import safe_open

    shapes: dict[str, list[int]] = {}
    for path in files.weights:
        try:
            with safe_open(path, "pt") as content:
                shapes |= {name: content.get_slice(name).get_shape() for name in content.keys()}  # noqa: SIM118
        except Exception as error:  # it has one kind of its own, and OSError
            fault = f"{path.name} is cut short or damaged: {first_line(error)}"
            raise DataError(fault, files.name, "Copy or download it again, and compare its size.") from None
    return shapes


def _check_weights_complete(report: dict[str, Any], shapes: dict[str, list[int]], files: ModelFiles) -> None:
    """Raise DataError unless the model takes every weight of the files, and lacks none."""
    name, stated = files.name, "the fields of the GGUF file" if files.gguf else "config.json"
    if packed := sorted(key for key in report["unexpected_keys"] if key.endswith((".qweight", ".qzeros"))):
        fault = f"the weights are quantized (GPTQ or AWQ: {packed[0]}), and config.json does not say so"
        raise DataError(fault, name, "Give the model before it was quantized.")
    if lacking := sorted(report["missing_keys"]):
        fault = f"the weights lack {and_more(lacking)}"
        raise DataError(fault, name, "Ranks of a partly random model mean nothing: check the weights.")
    if other := sorted(report["mismatched_keys"]):
        key, shape, wanted = other[0]
        fault = f"{key} has the shape {tuple(shape)}, and {tuple(wanted)} by {stated}"
        remedy = "One of the two files is another model's, or was edited: compare vocab_size."
        raise DataError(fault, name, gguf.INSTEAD if files.gguf else remedy)
    extra = [key for key in sorted(report["unexpected_keys"]) if not _is_mask(key, shapes.get(key))]
    if extra:
        fault = f"the model that {stated} describes does not take {and_more(extra)} of the weights"
        remedy = "Check config.json (num_hidden_layers). If it is meant so, load and save it with transformers first."
        raise DataError(fault, name, gguf.INSTEAD if files.gguf else remedy)


def _is_mask(key: str, shape: list[int] | None) -> bool:
    masks = shape is not None and (not shape or (len(shape) == 4 and shape[:2] == [1, 1] and shape[2] == shape[3]))
    return masks and _MASK.search(key) is not None


def _folder(folder: Path) -> AbstractContextManager[dict[str, Any]]:
    """Give the arguments for a folder, as `gguf.alone` does for a file."""
    return nullcontext({"pretrained_model_name_or_path": folder})
