"""Find a causal language model, on the hub or in a folder, and load it: safetensors or GGUF, no code of its own.

A checkpoint saved by pickle can run any code when it is read, so such files are neither downloaded nor opened.
"""

import copy
import inspect
import logging
import re
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from rbp import registry
from rbp.choices import Dtype, known_dtype
from rbp.errors import DataError, ParameterError, first_line
from rbp.fingerprint import Marks, fingerprint, marks_of, must_be_unchanged
from rbp.io import exists, home_expanded, parse_json
from rbp.models import adapters, devices, gguf, tokenizers
from rbp.models.gguf import Contents
from rbp.models.identity import digest_of, is_shareable
from rbp.models.sizes import must_be_of_size
from rbp.models.stated import must_be_as_stated, passed_over
from rbp.models.training import ADAPTER, checkpoints
from rbp.names import and_more


def non_embedding_params(model: nn.Module) -> int:
    """Count S: all parameters but the input, output and learned position embeddings (the paper's section 3.2).

    A weight that is shared (a tied output layer) counts once, and not at all where it is an embedding. Layers
    that bring embeddings to the width of the model, as in OPT-350m, are no embeddings. Adapters count as if they were
    merged, and the weights of a quantized model as before that. Works on the meta device. Gives the authors'
    `non_embedding_params` for their 24 models.
    """
    if getattr(getattr(model, "config", None), "quantization_config", None) is not None:
        model = _before_quantization(model)
    embeddings: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = getattr(model, "get_output_embeddings", lambda: None)()
    if isinstance(output, nn.Module):
        embeddings.append(output)
    left_out = {id(parameter) for module in embeddings for parameter in module.parameters()}
    weights = dict(adapters.weights_as_merged(model))
    return sum(parameter.numel() for parameter in weights.values() if id(parameter) not in left_out)


def _before_quantization(model: Any) -> nn.Module:
    """Build the model as its configuration has it, without weights: a quantizer packs several numbers into one."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(model.config)
    del config.quantization_config
    with torch.device("meta"):
        built: nn.Module = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return built


log = logging.getLogger(__name__)

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_MASK = re.compile(r"\.(masked_)?bias")  # how old versions of transformers saved causal masks
_LFS = b"version https://git-lfs.github.com/spec/"
_SMALL = ("*.json", "*.txt", "*.model", "*.jinja")  # what is downloaded first: no weights among it
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
_SPREAD = "shard-*-model-*-of-*.safetensors"  # how torch.distributed saves: transformers prefers it to all others


@dataclass(frozen=True)
class ModelFiles:
    """A model's files on this machine.

    name: as requested, a hub id, a folder or a GGUF file; folder: where the files lie; revision: the commit on
    the hub, else None; weights: the safetensors files that are read, in order, or the one GGUF file, which holds all;
    base: of an adapter, the model that it adapts; checkpoint: the revision as requested, if one was; by_hand:
    the folder of another tokenizer than the model's own.
    """

    name: str
    folder: Path
    revision: str | None
    weights: tuple[Path, ...]
    base: "ModelFiles | None" = None
    checkpoint: str | None = None
    by_hand: Path | None = None

    @property
    def config(self) -> dict[str, Any]:
        """Read the model's configuration, from its file or its GGUF file. Raises DataError if that cannot be read."""
        if self.gguf:
            return dict(self.contents.config.to_dict())
        return self.base.config if self.base else _json(self.folder / "config.json")

    @property
    def gguf(self) -> Path | None:
        """Return the GGUF file, if it is one."""
        return next((path for path in self.weights if path.suffix == gguf.SUFFIX), None)

    @property
    def quantization(self) -> str | None:
        """Return how most of the numbers in a GGUF file's matrices are stored, as "Q4_0" or "F32"; None for others."""
        return self.contents.quantization if self.gguf else None

    @property
    def contents(self) -> Contents:
        """Read what a GGUF file says, once as long as it stays as it is. Raises DataError if it cannot be read."""
        return _contents(self.weights[0], self.name, marks_of(self.weights)[self.weights[0]])

    @property
    def tokenizer(self) -> Path:
        """Return the tokenizer's folder: an adapter may leave it to its base, a checkpoint to the folder of its run.

        Models of another package may share one.
        """
        if self.by_hand is not None:
            return self.by_hand
        in_folder, run = _has_tokenizer(self.folder), self.folder.parent
        if not in_folder and self.checkpoint and self.revision is None and _has_tokenizer(run):
            return run
        if not in_folder and self.base is None:
            return next(registry.answers("tokenizers", self.folder), self.folder)
        return self.folder if in_folder or self.base is None else self.base.tokenizer

    def fingerprint(self) -> str:
        """Digest the weights and the configuration: the contents of the files, not their places."""
        digest = fingerprint(self._model_files)
        if self.base is None:
            return digest
        # "unmerged": what was measured of merged weights is another measurement
        return sha256(f"{digest}{self.base.fingerprint()}unmerged".encode()).hexdigest()

    def tokenizer_fingerprint(self, loaded: Any = None) -> str:
        """Digest the tokenizer's files; of one in a GGUF file, as they would be saved. loaded: it, where it is so."""
        if self.gguf and self.by_hand is None:
            return _saved_digest(loaded or load_tokenizer(self))
        return fingerprint(tokenizers.files_of(self.tokenizer))

    @property
    def _model_files(self) -> list[Path]:
        """List the files that say which model it is, without those of the base."""
        if self.gguf:
            return [*self.weights]
        return [self.folder / ("config.json" if self.base is None else ADAPTER), *self.weights]

    def marks(self) -> dict[Path, Marks]:
        """Return the marks of all files that are read, the tokenizer's and the base's among them (`marks_of`)."""
        own = self._model_files + ([] if self.gguf and self.by_hand is None else tokenizers.files_of(self.tokenizer))
        return marks_of(own) | (self.base.marks() if self.base else {})

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise DataError on leaving if a file that is read is no longer the one that it was on entering."""
        before = self.marks()
        yield
        must_be_unchanged(before, self.marks())


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

    def __post_init__(self) -> None:
        from transformers import PreTrainedTokenizerBase

        wanted = ("config", "get_output_embeddings", "dtype", "device")
        if not (isinstance(self.model, nn.Module) and all(hasattr(self.model, name) for name in wanted)):
            what = f"{type(self.model).__name__} is not a language model of transformers"
            raise ParameterError(what, "model", "Give such a model, or a name: a hub id or a folder.")
        _must_be_rankable(self.model)
        if self.tokenizer is None:
            what = "a model in memory comes without its tokenizer"
            raise ParameterError(what, "tokenizer", "Give it: tokenizer=AutoTokenizer.from_pretrained(…).")
        if not isinstance(self.tokenizer, PreTrainedTokenizerBase):
            what = f"{type(self.tokenizer).__name__} is not a tokenizer of transformers"
            raise ParameterError(what, "tokenizer", "PreTrainedTokenizerFast(tokenizer_object=…) makes one of another.")
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

    def tokenizer_fingerprint(self, loaded: Any = None) -> str:
        """Digest the tokenizer's files, as they would be saved."""
        return _saved_digest(self.tokenizer)

    def marks(self) -> dict[Path, Marks]:
        """Return no marks: it is read from no file."""
        return {}


@lru_cache(maxsize=8)
def _contents(path: Path, name: str, marks: Marks) -> Contents:
    return gguf.read(path, name)


def _must_be_rankable(model: Any) -> None:
    """Raise ParameterError for a model in memory that has no weights to read, or other weights than numbers."""
    kind = type(model).__name__
    if getattr(model.config, "is_encoder_decoder", False):
        what, remedy = f"{kind} reads by an encoder, and ranks no token of a text by those before it", "Give a causal"
        raise ParameterError(what, "model", f"{remedy} language model, such as a ForCausalLM class of transformers.")
    if any(tensor.is_meta for tensor in model.parameters()) and not devices.places(model):
        remedy = "Load it by from_pretrained, or give the name of its folder."
        raise ParameterError(f"{kind} is on the meta device: it has no weights", "model", remedy)
    if any(inspect.ismethod(getattr(module, "weight", None)) for module in model.modules()):
        what = f"the weights of {kind} are packed in whole numbers, as by quantize_dynamic"
        raise ParameterError(what, "model", "Give the model before it was quantized.")


def find_model(name: str, revision: str | None = None, tokenizer: str | None = None) -> ModelFiles:
    """Find the files of the model `name`: a folder, a GGUF file, or a hub id, whose missing files are downloaded.

    On the hub `revision` is a branch, tag or commit (default: main), resolved to its commit; of a folder it is a
    sub-folder with a checkpoint. A folder that holds an adapter alone is the model that its configuration names,
    adapted. tokenizer: a folder with another tokenizer than the model's own. Raises DataError if there is no such model
    or revision, for a part that is missing (configuration, tokenizer, weights in safetensors), weights beside an
    adapter, and a GGUF file that cannot be read.
    """
    by_hand = None if tokenizer is None else given_tokenizer(tokenizer)
    path = home_expanded(name)
    if exists(path) and path.is_dir():
        if revision is not None and revision not in (checkpoints(name, path) or []):
            raise DataError(f"there is no checkpoint {revision} in the folder", name, _listed_checkpoints(path))
        folder, commit = path / (revision or ""), None
    elif path.suffix == gguf.SUFFIX and path.is_file():
        return _in_one_file(path, name, revision, by_hand=by_hand)
    elif exists(path) or path.suffix == gguf.SUFFIX or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        remedy = "Give a folder with config.json, a GGUF file, or a hub id."
        raise DataError("there is no such model folder or file", name, remedy)
    else:
        folder = _download(name, revision, _SMALL)
        commit = folder.name
    ggufs = sorted(folder.glob(f"*{gguf.SUFFIX}"))
    if adapter := (folder / ADAPTER).is_file():
        wanted: tuple[str, ...] = (_ADAPTER_WEIGHTS,)
    elif commit is None and ggufs and not any((folder / file).is_file() for file in (_SINGLE, _INDEX)):
        if len(ggufs) > 1:
            raise DataError(f"the folder holds {len(ggufs)} GGUF files", name, f"Give one: {folder / ggufs[0].name}.")
        return _in_one_file(ggufs[0], name, None, revision, by_hand)
    elif (folder / "config.json").is_file():
        wanted = _weight_names(folder, name)
    else:
        remedy = "Give the folder of a saved model."
        if commit is None and revision is None and checkpoints(name, folder):
            remedy = f"{_listed_checkpoints(folder)} Give one as --revision."
        raise DataError("the folder holds no model: no config.json", name, remedy)
    if commit is not None:
        folder = _download(name, commit, (*wanted, _SINGLE) if adapter else wanted)
        wanted = wanted if adapter else _weight_names(folder, name)  # of what is here by now
    if adapter and ((folder / _SINGLE).is_file() or (folder / _INDEX).is_file()):
        what = f"the folder holds weights and an adapter beside them ({ADAPTER}): which model is meant is not clear"
        raise DataError(what, name, "Move the adapter to a folder of its own to apply it, or take it away.")
    weights = tuple(folder / file for file in wanted)
    if missing := [file.name for file in weights if not file.is_file()]:
        raise _no_weights(folder, name, missing[0])
    files = ModelFiles(name, folder, commit, weights, _base(folder, name) if adapter else None, revision, by_hand)
    if not _has_tokenizer(files.tokenizer):
        remedy = "Save the tokenizer beside it (save_pretrained), or give its folder: --tokenizer."
        raise DataError("the model has no tokenizer", name, remedy)
    for file in (*weights, *tokenizers.files_of(folder)):
        _must_be_no_pointer(file, name)
    return files


def _must_be_no_pointer(file: Path, name: str) -> None:
    with file.open("rb") as stream:
        if stream.read(len(_LFS)) == _LFS:
            what = f"{file.name} is a pointer of git LFS, not the file itself"
            raise DataError(what, name, "Fetch the files: git lfs install, then git lfs pull.")


def _listed_checkpoints(folder: Path) -> str:
    names = ", ".join(checkpoints("", folder) or [])
    return f"There is: {names}." if names else "It has no sub-folders with models."


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
        return replace(_language(files.name, files.model, files.dtype, device), borrowed=True)
    known_dtype(dtype)
    if files.base is not None:
        language, shapes = load_model(files.base, dtype, device), _shapes(files)
        model = adapters.adapt(language.model, files.folder, shapes, files.name, files.base.name).eval()
        log.info("%s: the adapter runs beside the weights of %s", files.name, files.base.name)
        return _language(files.name, model, dtype, device)
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
        what, remedy = "cannot load the model", "It must be a causal language model that transformers itself knows."
        if quantized:
            what = f"cannot load the model, whose weights are quantized ({quantized})"
            remedy = "Give the model before it was quantized, or install what reads it."
        raise DataError(f"{what}: {first_line(error)}", files.name, remedy) from None
    model, report = loaded
    _fits(report, shapes, files)
    if not files.gguf:
        must_be_as_stated(files.config, model.config, files.name)
    code = inspect.getsource(inspect.getmodule(type(model)) or type(model))
    if not files.gguf and (left := ", ".join(passed_over(files.config, model.config, code))):
        what = "%s: transformers' %s does not use what config.json says by %s: ranks are of the model without it"
        log.warning(what, files.name, type(model).__name__, left)
    if files.gguf:
        gguf.finish(model, files.contents, files.gguf, files.name)
    if most is None:
        return _language(files.name, model.eval().to(device), dtype, device)
    weakref.finalize(model, aside.cleanup)
    devices.hold_head(model.eval(), device)
    return _language(files.name, model, dtype, device)


def _language(name: str, model: Any, dtype: Dtype, device: torch.device) -> LanguageModel:
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


def _base(folder: Path, name: str) -> ModelFiles:
    """Find the model that the adapter in `folder` adapts."""
    config = _json(folder / ADAPTER)
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    where = f"{name}, base_model_name_or_path in {ADAPTER}"
    if not isinstance(base, str) or not base:
        raise DataError("the adapter does not say which model it adapts", where, "Write its hub id or folder there.")
    if exists(home_expanded(base)):
        revision = None
        if (home_expanded(base) / ADAPTER).is_file():
            raise DataError("the adapter's base is an adapter itself", where, "Merge that one into its model first.")
    try:
        base_files = find_model(base, revision)
    except DataError as error:
        raise DataError(f"of the adapter's base, {base}: {error.what}", where, error.remedy) from None
    if base_files.gguf:
        raise DataError("the adapter's base is a GGUF file", where, "Write the folder or hub id of the model there.")
    return base_files


def _quantization(files: ModelFiles) -> str | None:
    """Return how the weights are quantized, if they are. Raises DataError for a way that transformers would ignore."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING

    config = files.config
    chosen = config.get("quantization_config") or (config.get("text_config") or {}).get("quantization_config")
    if not isinstance(chosen, dict):
        return None
    method = str(chosen.get("quant_method") or "bitsandbytes")
    if method not in (*AUTO_QUANTIZATION_CONFIG_MAPPING, "bitsandbytes"):
        what = f"the weights are quantized in a way that transformers does not know: {method}"
        raise DataError(what, f"{files.name}, quant_method in config.json", "Give the model before it was quantized.")
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
            what = f"{path.name} is cut short or damaged: {first_line(error)}"
            raise DataError(what, files.name, "Copy or download it again, and compare its size.") from None
    return shapes


def _fits(report: dict[str, Any], shapes: dict[str, list[int]], files: ModelFiles) -> None:
    """Raise DataError unless the model takes every weight of the files, and lacks none."""
    name, stated = files.name, "the fields of the GGUF file" if files.gguf else "config.json"
    if packed := sorted(key for key in report["unexpected_keys"] if key.endswith((".qweight", ".qzeros"))):
        what = f"the weights are quantized (GPTQ or AWQ: {packed[0]}), and config.json does not say so"
        raise DataError(what, name, "Give the model before it was quantized.")
    if lacking := sorted(report["missing_keys"]):
        what = f"the weights lack {and_more(lacking)}"
        raise DataError(what, name, "Ranks of a partly random model mean nothing: check the weights.")
    if other := sorted(report["mismatched_keys"]):
        key, shape, wanted = other[0]
        what = f"{key} has the shape {tuple(shape)}, and {tuple(wanted)} by {stated}"
        remedy = "One of the two files is another model's, or was edited: compare vocab_size."
        raise DataError(what, name, gguf.INSTEAD if files.gguf else remedy)
    extra = [key for key in sorted(report["unexpected_keys"]) if not _is_mask(key, shapes.get(key))]
    if extra:
        what = f"the model that {stated} describes does not take {and_more(extra)} of the weights"
        remedy = "Check config.json (num_hidden_layers). If it is meant so, load and save it with transformers first."
        raise DataError(what, name, gguf.INSTEAD if files.gguf else remedy)


def _is_mask(key: str, shape: list[int] | None) -> bool:
    masks = shape is not None and (not shape or (len(shape) == 4 and shape[:2] == [1, 1] and shape[2] == shape[3]))
    return masks and _MASK.search(key) is not None


def _in_one_file(
    path: Path, name: str, revision: str | None, checkpoint: str | None = None, by_hand: Path | None = None
) -> ModelFiles:
    """Find the model in a GGUF file. Raises DataError if it cannot be read."""
    if revision is not None:
        raise DataError("a GGUF file has no revisions", name, "Leave --revision out.")
    files = ModelFiles(name, path.parent, None, (path,), None, checkpoint, by_hand)
    files.contents  # noqa: B018  # which refuses what cannot be read
    return files


def given_tokenizer(name: str) -> Path:
    """Return the folder of a tokenizer given by hand. Raises DataError if it holds none."""
    folder = home_expanded(name)
    if not (exists(folder) and _has_tokenizer(folder)):
        raise DataError("the folder holds no tokenizer", f"{name}, --tokenizer", "Give one that save_pretrained wrote.")
    return folder


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in tokenizers.FILES)


def _folder(folder: Path) -> AbstractContextManager[dict[str, Any]]:
    """Give the arguments for a folder, as `gguf.alone` does for a file."""
    return nullcontext({"pretrained_model_name_or_path": folder})


def _weight_names(folder: Path, name: str) -> tuple[str, ...]:
    """Return the weight files that transformers reads: those that config.json names, else one file, else shards."""
    _must_be_no_pointer(folder / "config.json", name)
    config = _json(folder / "config.json")
    if "configuration_files" in config:
        what = "config.json names other configurations for other versions of transformers (configuration_files)"
        raise DataError(what, name, "Remove that field, and keep what is meant in config.json.")
    if any(folder.glob(_SPREAD)):
        what = "the weights are saved as torch.distributed saves them (shard-…-model-….safetensors)"
        raise DataError(what, name, "Load and save the model with transformers first, or move these files away.")
    named = config.get("transformers_weights") or (_INDEX if not (folder / _SINGLE).is_file() else _SINGLE)
    # a name that leads out of the folder would read a file that is none of the model's
    if not isinstance(named, str) or Path(named).name != named or not named.endswith((".safetensors", ".index.json")):
        raise DataError(f"config.json names no file of weights: {named}", name, "Correct transformers_weights.")
    if not named.endswith(".index.json"):
        return (named,)
    if not (folder / named).is_file():
        return (_SINGLE if named == _INDEX else named,)
    table = _json(folder / named).get("weight_map")
    files = sorted(set(table.values())) if isinstance(table, dict) else []
    if not files or any(not isinstance(f, str) or Path(f).name != f for f in files):
        raise DataError("the index of the weights is malformed", f"{name}, {named}", "Save the model again.")
    return tuple(files)


def _no_weights(folder: Path, name: str, file: str) -> DataError:
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        what = f"the weights are there only as {pickled[0]}, which can run code when it is read"
        remedy = "Convert them on a machine you trust: model.save_pretrained(folder) writes safetensors."
        return DataError(what, name, remedy)
    return DataError(f"the model's weights are missing: no {file}", name, "Give a model saved as safetensors.")


def _download(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    """Download the files `patterns` of the hub repository `name`; return the snapshot's folder."""
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except errors.RevisionNotFoundError:
        raise DataError(f"the model has no revision {revision}", name, "Look it up on its page.") from None
    except errors.GatedRepoError:
        raise DataError(
            "the model's owner asks you to agree to terms first", name, "Agree on its page, then log in."
        ) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise DataError("there is no such model", name, "Give a hub id (owner/name) or a folder.") from None
    except Exception as error:  # of the hub, or of whatever HTTP client it has where there is no connection
        if getattr(error, "errno", None) == 28:
            raise DataError("the disk is full", name, "Free some space, or set HF_HOME to another disk.") from None
        remedy = "Check the name and the connection, or give the folder of a model."
        raise DataError("the model is not on this machine, and the hub cannot be reached", name, remedy) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(path.read_bytes())
    except (OSError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise DataError(f"{path.name} is not a JSON object", str(path.parent), "Save the model again.")
    return value


def _saved_digest(tokenizer: Any) -> str:
    """Digest the files of a tokenizer; what the code of a class of the caller's own does, its tokens have to show."""
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return fingerprint(tokenizers.files_of(Path(folder)))
