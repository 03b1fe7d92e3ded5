"""Find a causal language model, on the hub or in a folder, and load it: safetensors only, no code of its own.

A checkpoint saved by pickle can run any code when it is read, so such files are neither downloaded nor opened.
"""

import logging
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from rbp.errors import DataError, ParameterError
from rbp.extraction.sizes import non_embedding_params
from rbp.files import exists, home_expanded, parse_json
from rbp.files import sha256 as checksum

log = logging.getLogger(__name__)

Dtype = Literal["float32", "bfloat16", "float16", "float64"]

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_REGISTERED_BY = {"rbp_lstm": "rbp.ladder.architectures"}  # architectures that are this project's own
_TOKENIZER = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt")
_SMALL = ("*.json", "*.txt", "*.model", "*.jinja")  # what is downloaded first: no weights among it
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")


@dataclass(frozen=True)
class ModelFiles:
    """A model's files on this machine.

    name: as it was asked for, a hub id or a folder; folder: where the files lie; revision: the commit on the
    hub, None for a folder; weights: the safetensors files, in order.
    """

    name: str
    folder: Path
    revision: str | None
    weights: tuple[Path, ...]

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration file. Raises DataError if it is no JSON object."""
        return _json(self.folder / "config.json")

    def fingerprint(self) -> str:
        """A digest of the weights and the configuration: the contents of the files, not their places."""
        files = [self.folder / "config.json", *self.weights]
        return _digest(files)

    def tokenizer_fingerprint(self) -> str:
        """A digest of the tokenizer's files."""
        names = (*_TOKENIZER, "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
        return _digest([path for name in names if (path := self.folder / name).is_file()])


@dataclass(frozen=True)
class LanguageModel:
    """A model ready to run. size: S; vocabulary: how many logits it gives; dtype: its name."""

    model: Any
    size: int
    vocabulary: int
    dtype: Dtype
    device: torch.device


def find_model(name: str, revision: str | None = None) -> ModelFiles:
    """The files of the model `name`: a folder, or a hub id, whose files are downloaded where they are missing.

    On the hub `revision` is a branch, tag or commit (default: main), resolved to its commit. Raises DataError
    if there is no such model, no configuration, no tokenizer, or no weights in safetensors files;
    ParameterError for a revision of a folder.
    """
    path = home_expanded(name)
    if exists(path) and path.is_dir():
        if revision is not None:
            raise ParameterError("a folder has no revisions", f"{name}, --revision", "Leave --revision out.")
        folder, commit = path, None
    elif exists(path) or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise DataError("there is no such model folder", name, "Give a folder with config.json, or a hub id.")
    else:
        folder = _download(name, revision, _SMALL)
        commit = folder.name
    if not (folder / "config.json").is_file():
        raise DataError("the folder holds no model: no config.json", name, "Give the folder of a saved model.")
    wanted = _weight_names(folder, name)
    if commit is not None:
        folder = _download(name, commit, wanted)
    weights = tuple(folder / file for file in wanted)
    if missing := [file.name for file in weights if not file.is_file()]:
        raise _no_weights(folder, name, missing[0])
    if not any((folder / file).is_file() for file in _TOKENIZER):
        raise DataError("the model has no tokenizer", name, "Save the tokenizer beside it: save_pretrained.")
    return ModelFiles(name, folder, commit, weights)


def load_tokenizer(files: ModelFiles) -> Any:
    """The model's own tokenizer. Raises DataError if it cannot be read."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(files.folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many kinds for a broken file
        raise DataError(f"cannot read the tokenizer: {_line(error)}", files.name, "Save it again.") from None


def load_model(files: ModelFiles, dtype: Dtype, device: torch.device) -> LanguageModel:
    """The model in `dtype` on `device`, ready for inference.

    Raises DataError if the architecture is unknown to transformers (code shipped with a model is never run)
    or the weights do not fit it; ParameterError for an unknown dtype.
    """
    from transformers import AutoModelForCausalLM

    if dtype not in get_args(Dtype):
        raise ParameterError(f"unknown dtype {dtype!r}", "--dtype", f"There is: {', '.join(get_args(Dtype))}.")
    if module := _REGISTERED_BY.get(str(files.config.get("model_type"))):
        import_module(module)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            files.folder,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # transformers raises many kinds: unknown type, no causal model, broken file
        remedy = "It must be a causal language model that transformers itself knows."
        raise DataError(f"cannot load the model: {_line(error)}", files.name, remedy) from None
    model, report = loaded
    if lacking := sorted(report["missing_keys"]):
        what = f"the weights lack {lacking[0]}" + (f" and {len(lacking) - 1} more" if lacking[1:] else "")
        raise DataError(what, files.name, "Ranks of a partly random model mean nothing: check the folder.")
    model = model.eval().to(device)
    vocabulary = int(model.config.get_text_config().vocab_size)
    head = model.get_output_embeddings()
    if head is not None and getattr(head, "weight", None) is not None:
        vocabulary = head.weight.shape[0]
    return LanguageModel(model, non_embedding_params(model), vocabulary, dtype, device)


def longest_input(config: dict[str, Any]) -> int | None:
    """How many tokens the model can read at once, where its configuration says so."""
    text = config.get("text_config") or config
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        if isinstance(text.get(name), int):
            return int(text[name])
    return None


def _weight_names(folder: Path, name: str) -> tuple[str, ...]:
    if (folder / _INDEX).is_file():
        table = _json(folder / _INDEX).get("weight_map")
        files = sorted(set(table.values())) if isinstance(table, dict) else []
        # a name that leads out of the folder would read a file that is none of the model's
        if not files or any(not isinstance(f, str) or Path(f).name != f for f in files):
            raise DataError("the index of the weights is malformed", f"{name}, {_INDEX}", "Save the model again.")
        return tuple(files)
    return (_SINGLE,)


def _no_weights(folder: Path, name: str, file: str) -> DataError:
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        what = f"the weights are there only as {pickled[0]}, which can run code when it is read"
        remedy = "Convert them on a machine you trust: model.save_pretrained(folder) writes safetensors."
        return DataError(what, name, remedy)
    return DataError(f"the model's weights are missing: no {file}", name, "Give a model saved as safetensors.")


def _download(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    """The folder of a snapshot of the hub repository `name` that holds the files `patterns`."""
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except errors.RevisionNotFoundError:
        raise DataError(f"the model has no revision {revision}", name, "Look it up on its page.") from None
    except errors.GatedRepoError:
        raise DataError("the model asks for your agreement first", name, "Agree on its page, then log in.") from None
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
        raise DataError(f"{path.name} is no JSON object", str(path.parent), "Save the model again.")
    return value


def _digest(files: list[Path]) -> str:
    return sha256("".join(f"{file.name} {checksum(file)}\n" for file in files).encode()).hexdigest()


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")
