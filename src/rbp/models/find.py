"""Find a causal language model's files: of the hub, a folder, a checkpoint in a run's folder, an adapter, a GGUF file.

A checkpoint saved by pickle can run any code when it is read, so such files are neither downloaded nor opened.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from rbp import registry
from rbp.errors import DataError
from rbp.fingerprint import Marks, fingerprint, marks_of, must_be_unchanged
from rbp.io import exists, home_expanded, parse_json
from rbp.models import gguf, tokenizers
from rbp.models.gguf import Contents
from rbp.models.training import ADAPTER, checkpoints, is_checkpoint

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
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
    def label(self) -> str:
        """Return the name, with the checkpoint after it: "run@checkpoint-500"."""
        return f"{self.name}@{self.checkpoint}" if self.checkpoint else self.name

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

    def tokenizer_fingerprint(self, tokenizer: Any) -> str:
        """Digest the tokenizer's files; of one in a GGUF file, `tokenizer` as it would be saved."""
        if self.gguf and self.by_hand is None:
            return tokenizers.saved_digest(tokenizer)
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


@lru_cache(maxsize=8)
def _contents(path: Path, name: str, marks: Marks) -> Contents:
    return gguf.read_contents(path, name)


def find_model(name: str, revision: str | None = None, tokenizer: str | None = None) -> ModelFiles:
    """Find the files of the model `name`: a folder, a GGUF file, or a hub id, whose missing files are downloaded.

    On the hub `revision`, or what follows an @, is a branch, tag or commit (default: main), resolved to its commit; of
    a folder it is a sub-folder with a checkpoint. A folder that is called as one, such as run/checkpoint-500, is this
    checkpoint of the folder above. A folder that holds an adapter alone is the model that its configuration names,
    adapted. tokenizer: a folder with another tokenizer than the model's own. Raises DataError if there is no such model
    or revision, for a part that is missing (configuration, tokenizer, weights in safetensors), weights beside an
    adapter, and a GGUF file that cannot be read.
    """
    by_hand = None if tokenizer is None else given_tokenizer(tokenizer)
    path = home_expanded(name)
    repository, _, hub_revision = name.partition("@")
    if exists(path) and path.is_dir():
        if is_checkpoint(path) and revision in (None, path.name):
            path, revision = path.parent, path.name
            name = str(path if path.name not in ("", "..") else path.resolve())
        files = _find_in_folder(path, name, revision)
    elif path.suffix == gguf.SUFFIX and path.is_file():
        if revision is not None:
            raise DataError("a GGUF file has no revisions", name, "Leave the revision away.")
        files = _find_gguf(path, name)
    elif exists(path) or path.suffix == gguf.SUFFIX or name.startswith(("/", ".", "~")) or repository.count("/") > 1:
        remedy = "Give a folder with config.json, a GGUF file, or a hub id."
        raise DataError("there is no such model folder or file", name, remedy)
    else:
        revision = revision or hub_revision or None
        files = _find_on_hub(repository, revision)
    files = replace(files, checkpoint=revision, by_hand=by_hand)
    return files if files.gguf else _verified(files)


def _find_in_folder(path: Path, name: str, revision: str | None) -> ModelFiles:
    """Find the model in a folder, or the checkpoint `revision` in a run's folder."""
    if revision is not None and revision not in checkpoints(path):
        raise DataError(f"there is no checkpoint {revision} in the folder", name, _listed_checkpoints(path))
    folder = path / (revision or "")
    if (folder / ADAPTER).is_file():
        return _find_adapter(folder, name, None)
    ggufs = sorted(folder.glob(f"*{gguf.SUFFIX}"))
    if ggufs and not _has_weights(folder):
        if len(ggufs) > 1:
            raise DataError(f"the folder holds {len(ggufs)} GGUF files", name, f"Give one: {folder / ggufs[0].name}.")
        return _find_gguf(ggufs[0], name)
    if not (folder / "config.json").is_file():
        remedy = "Give the folder of a saved model."
        if revision is None and checkpoints(folder):
            remedy = f"{_listed_checkpoints(folder)} Give one of these folders."
        raise _no_config(name, remedy)
    return _find_safetensors(folder, name, None)


def _find_on_hub(name: str, revision: str | None) -> ModelFiles:
    """Find the model of a hub repository; downloads its small files first, and then the weights that these name."""
    folder = _download(name, revision, _SMALL)
    commit = folder.name
    if (folder / ADAPTER).is_file():
        # the model's own weights too: an adapter beside them is refused
        folder = _download(name, commit, (_ADAPTER_WEIGHTS, _SINGLE))
        return _find_adapter(folder, name, commit)
    if not (folder / "config.json").is_file():
        raise _no_config(name, "Give the folder of a saved model.")
    folder = _download(name, commit, _weight_names(folder, name))
    return _find_safetensors(folder, name, commit)


def _find_gguf(path: Path, name: str) -> ModelFiles:
    """Find the model in a GGUF file. Raises DataError if it cannot be read."""
    files = ModelFiles(name, path.parent, None, (path,))
    files.contents  # noqa: B018  # which refuses what cannot be read
    return files


def _find_adapter(folder: Path, name: str, commit: str | None) -> ModelFiles:
    """Find an adapter in a folder, and the model that it adapts."""
    if _has_weights(folder):
        fault = f"the folder holds weights and an adapter beside them ({ADAPTER}): which model is meant is not clear"
        raise DataError(fault, name, "Move the adapter to a folder of its own to apply it, or take it away.")
    weights = _present(folder, name, (_ADAPTER_WEIGHTS,))
    return ModelFiles(name, folder, commit, weights, _base(folder, name))


def _find_safetensors(folder: Path, name: str, commit: str | None) -> ModelFiles:
    """Find the model whose configuration and weights lie in a folder."""
    weights = _present(folder, name, _weight_names(folder, name))
    return ModelFiles(name, folder, commit, weights)


def _has_weights(folder: Path) -> bool:
    return any((folder / file).is_file() for file in (_SINGLE, _INDEX))


def _no_config(name: str, remedy: str) -> DataError:
    return DataError("the folder holds no model: no config.json", name, remedy)


def _present(folder: Path, name: str, files: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the paths of files of weights. Raises DataError if one is not there."""
    weights = tuple(folder / file for file in files)
    if missing := [file.name for file in weights if not file.is_file()]:
        raise _no_weights(folder, name, missing[0])
    return weights


def _verified(files: ModelFiles) -> ModelFiles:
    """Return the files. Raises DataError unless there is a tokenizer, and none is a pointer of git LFS."""
    if not _has_tokenizer(files.tokenizer):
        remedy = "Save the tokenizer beside it (save_pretrained), or give its folder: --tokenizer."
        raise DataError("the model has no tokenizer", files.name, remedy)
    for file in (*files.weights, *tokenizers.files_of(files.folder)):
        _must_be_no_pointer(file, files.name)
    return files


def _must_be_no_pointer(file: Path, name: str) -> None:
    with file.open("rb") as stream:
        if stream.read(len(_LFS)) == _LFS:
            fault = f"{file.name} is a pointer of git LFS, not the file itself"
            raise DataError(fault, name, "Fetch the files: git lfs install, then git lfs pull.")


def _listed_checkpoints(folder: Path) -> str:
    names = ", ".join(checkpoints(folder))
    return f"There is: {names}." if names else "It has no sub-folders with models."


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


def given_tokenizer(name: str) -> Path:
    """Return the folder of a tokenizer given by hand. Raises DataError if it holds none."""
    folder = home_expanded(name)
    if not (exists(folder) and _has_tokenizer(folder)):
        raise DataError("the folder holds no tokenizer", f"{name}, --tokenizer", "Give one that save_pretrained wrote.")
    return folder


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in tokenizers.FILES)


def _weight_names(folder: Path, name: str) -> tuple[str, ...]:
    """Return the weight files that transformers reads: those that config.json names, else one file, else shards."""
    _must_be_no_pointer(folder / "config.json", name)
    config = _json(folder / "config.json")
    if "configuration_files" in config:
        fault = "config.json names other configurations for other versions of transformers (configuration_files)"
        raise DataError(fault, name, "Remove that field, and keep what is meant in config.json.")
    if any(folder.glob(_SPREAD)):
        fault = "the weights are saved as torch.distributed saves them (shard-…-model-….safetensors)"
        raise DataError(fault, name, "Load and save the model with transformers first, or move these files away.")
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
        fault = f"the weights are there only as {pickled[0]}, which can run code when it is read"
        remedy = "Convert them on a machine you trust: model.save_pretrained(folder) writes safetensors."
        return DataError(fault, name, remedy)
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
