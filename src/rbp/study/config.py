"""A study's file, in TOML: models or families, corpora, protocol, budget, shards; read and checked."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rbp.configuration import read_configuration
from rbp.errors import ParameterError
from rbp.extract.corpora import CORPORA, is_named, split_suffix
from rbp.extract.protocol import Bos, Name, Protocol, Special, default_protocol, window_length
from rbp.extract.protocol import protocol as make_protocol
from rbp.extract.training import TABLE, Training, checkpoints, step_of
from rbp.io import canonical_json, home_expanded, parse_json
from rbp.names import nearest
from rbp.registry import known_models

Count = Field(default=None, ge=1)
Known = Field(default=None, ge=0)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelEntry(_Table):
    """A model: a hub id or a folder, its family, and which of its checkpoints.

    revision: a branch, tag or commit of the hub, or a sub-folder of a run's folder; revisions: several; every: every
    n-th checkpoint, the last included (of a run's folder, or of Pythia). training_tokens, step, seed, compute: of its
    training, where its files do not say it; tokens_per_step: gives training_tokens by the revisions' steps.
    """

    name: str = Field(min_length=1)
    revision: str | None = None
    revisions: list[Annotated[str, Field(min_length=1)]] = []
    every: int | None = Count
    family: str | None = None
    training_tokens: int | None = Known
    step: int | None = Known
    seed: int | None = Known
    compute: float | None = Known
    tokens_per_step: int | None = Count

    @property
    def label(self) -> str:
        """Return the name in tables: the hub id, or the folder's name."""
        return short_name(self.name) if Path(self.name).is_absolute() else self.name

    @property
    def folder(self) -> Path | None:
        """Return the folder of its files, if it is a folder on this machine."""
        return Path(self.name) / (self.revision or "") if Path(self.name).is_absolute() else None

    @property
    def training(self) -> Training | None:
        """Return what the study's file says of its training. Raises ParameterError for contradictions."""
        tokens, step = self.training_tokens, self.step
        if self.tokens_per_step is not None:
            step = step_of(self.revision or "") if step is None else step
            if step is None or tokens is not None:
                what = "tokens_per_step needs a step, and no training_tokens beside it"
                raise ParameterError(what, self.name, "Give step, or a revision such as step1000.")
            tokens = step * self.tokens_per_step
        training = Training(None, tokens, step, self.seed, self.compute)
        return training if training.known else None


class CorpusEntry(_Table):
    """A corpus: a name that `rbp extract` knows, or a file, and the fields of it that make a document."""

    name: str = Field(min_length=1)
    fields: list[str] = []


def _table(entry: Any) -> Any:
    """Read a name alone as a table with that name."""
    return {"name": entry} if isinstance(entry, str) else entry


class ProtocolTable(_Table):
    """The options of `rbp.extract.protocol.protocol`; the budget is outside, as `tokens`.

    Without a name the paper's corpora are read as the authors read them, and other texts whole, in windows.
    """

    name: Name | None = None
    length: int | None = Count
    context: int | None = Count
    documents: int | None = Count
    pack: int = Field(default=64, ge=1)
    bos: Bos = "auto"
    special: Special = "token"


class StudyFile(_Table):
    """The keys of a study's file.

    models; families: of the known table, whole; corpora; protocol; tokens: the budget of each model on each corpus;
    dtype; vocabulary: the logits that count ("all", "tokenizer", or how many); device: of every job, as ranks of
    another device are another measurement; shards: jobs that share the work of one model on one corpus; threads: CPU
    cores of a job; output: a folder (none: runs/studies/NAME).
    """

    models: list[Annotated[ModelEntry, BeforeValidator(_table)]] = []
    families: list[str] = []
    corpora: list[Annotated[CorpusEntry, BeforeValidator(_table)]] = Field(min_length=1)
    protocol: ProtocolTable = ProtocolTable()
    tokens: int | None = Count
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    vocabulary: Literal["all", "tokenizer"] | Annotated[int, Field(ge=1)] = "all"
    device: Literal["cpu", "cuda"] = "cpu"
    shards: int = Field(default=1, ge=1, le=10_000)
    threads: int = Field(default=1, ge=1)
    output: str | None = None


@dataclass(frozen=True)
class Cell:
    """One model on one corpus."""

    model: ModelEntry
    corpus: CorpusEntry

    @property
    def name(self) -> str:
        """Return the name of its files."""
        revision = f"@{self.model.revision}" if self.model.revision else ""
        name = f"{short_name(self.model.name)}{revision}-{short_name(self.corpus.name)}"
        return re.sub(r"[^A-Za-z0-9.@]+", "-", name).strip("-.")

    @property
    def inputs(self) -> list[Path]:
        """List the local files that its ranks and labels are made from."""
        folder, corpus = self.model.folder, Path(self.corpus.name)
        files = [path for path in sorted(folder.iterdir()) if path.is_file()] if folder else []
        beside = [folder.resolve().parent / TABLE] if folder else []
        return files + [path for path in [*beside, corpus] if path.is_absolute() and path.is_file()]


@dataclass(frozen=True)
class Study:
    """A checked study: its file, the folder of its results, and its models and corpora with absolute paths."""

    path: Path
    out: Path
    content: StudyFile
    models: tuple[ModelEntry, ...]
    corpora: tuple[CorpusEntry, ...]
    protocol: Protocol

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """Return every model on every corpus, by name."""
        cells = [Cell(model, corpus) for model, corpus in product(self.models, self.corpora)]
        return {cell.name: cell for cell in cells}

    def settings(self, cell: Cell) -> str:
        """Return all that the file says of a cell's ranks and labels, as JSON: a change of it runs the shards again."""
        content = self.content.model_dump(include={"dtype", "vocabulary", "device"})
        entries = {"model": cell.model.model_dump(), "corpus": cell.corpus.model_dump()}
        return canonical_json({**content, **entries, "protocol": self.protocol.as_dict()})


def read_study(path: Path, runs: Path) -> Study:
    """Read and check a study's file; its results go into the folder `runs` unless it names another.

    Raises DataError for a file, a key or a value that is not right, ParameterError for a name.
    """
    content = read_configuration(path, StudyFile)
    models, corpora = _find_models(content, path), _find_corpora(content, path)
    given = content.protocol
    name, length = given.name or default_protocol([c.name for c in corpora], f"{path}, protocol.name"), given.length
    if name == "windows" and length is None:
        configs = [at / "config.json" for model in models if (at := model.folder)]
        length = window_length([parse_json(config.read_bytes()) for config in configs if config.is_file()])
    rest = given.model_dump(include={"context", "documents", "pack", "bos", "special"})
    try:
        protocol = make_protocol(name, length=length, tokens=content.tokens, **rest)
    except ParameterError as error:
        key = "protocol." + (error.where or "").removeprefix("--")
        raise ParameterError(error.what, f"{path}, {key}", "See rbp extract --help for a protocol's options.") from None
    out = _resolved(content.output, path) if content.output else runs.resolve() / "studies" / path.stem
    names = [Cell(*pair).name for pair in product(models, corpora)]
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{name} is there twice", str(path), "Leave one of them out, or rename a file.")
    return Study(path.resolve(), out, content, models, corpora, protocol)


def _find_models(content: StudyFile, path: Path) -> tuple[ModelEntry, ...]:
    known, models = known_models(), list[ModelEntry]()
    for model in content.models:
        where, local = f"{path}, models: {model.name}", _resolved(model.name, path)
        if local.is_dir():
            models += _spread(model.model_copy(update={"name": str(local)}), local, where)
        elif model.name.startswith((".", "/", "~")) or model.name.count("/") > 1:
            remedy = "Give a folder, relative to the study's file, or a hub id."
            raise ParameterError(f"there is no model in {model.name}", where, remedy)
        elif "/" not in model.name and model.name not in known:
            remedy = nearest(model.name, known, key=lambda name: short_name(name).lower())
            raise ParameterError(f'"{model.name}" is neither a folder nor a hub id with its owner', where, remedy)
        else:
            models += _spread(model, None, where)
    families = {row["family"] for row in known.values()}
    for family in content.families:
        if family not in families:
            remedy = nearest(family, sorted(families))
            raise ParameterError(f'there is no family "{family}"', f"{path}, families", remedy)
        models += [ModelEntry(name=name, family=family) for name, row in known.items() if row["family"] == family]
    if not models:
        raise ParameterError("the study has no model", str(path), "Give models, or families.")
    return tuple(models)


def _spread(model: ModelEntry, folder: Path | None, where: str) -> list[ModelEntry]:
    """Return an entry for each of a model's requested checkpoints; folder: the run's, None for a model of the hub."""
    if sum(given is not None for given in (model.revision, model.revisions or None, model.every)) > 1:
        raise ParameterError("revision, revisions and every are three ways to say one thing", where, "Give one.")
    revisions: list[str | None] = [*model.revisions] or [model.revision]
    if model.every is not None:
        known = checkpoints(model.name, folder)
        if not known:
            remedy = 'List them: revisions = ["step1000", "step2000"].'
            raise ParameterError("which checkpoints this model has is not known here", where, remedy)
        revisions = [*known[::-1][:: model.every][::-1]]
    if len(revisions) > 1 and any(value is not None for value in (model.training_tokens, model.step, model.compute)):
        what = f"one step, or number of training tokens, for {len(revisions)} checkpoints"
        raise ParameterError(what, where, f"Give tokens_per_step, or a table beside the models: {TABLE}.")
    entries = [model.model_copy(update={"revision": each, "revisions": [], "every": None}) for each in revisions]
    try:
        _ = [entry.training for entry in entries]
    except ParameterError as error:
        raise ParameterError(error.what, where, error.remedy) from None
    return entries


def _find_corpora(content: StudyFile, path: Path) -> tuple[CorpusEntry, ...]:
    corpora = []
    for corpus in content.corpora:
        where, local = f"{path}, corpora: {corpus.name}", _resolved(corpus.name, path)
        if is_named(corpus.name):
            if corpus.fields:
                raise ParameterError("a corpus by name has its own fields", where, "Leave them out.")
            corpora.append(corpus)
        elif local.is_file() and split_suffix(local.name)[1]:
            corpora.append(corpus.model_copy(update={"name": str(local)}))
        elif split_suffix(corpus.name)[1]:
            remedy = "Give its path, relative to the study's file."
            raise ParameterError(f"there is no file {corpus.name}", where, remedy)
        else:
            raise ParameterError(f'there is no corpus "{corpus.name}"', where, nearest(corpus.name, CORPORA))
    return tuple(corpora)


def _resolved(name: str, path: Path) -> Path:
    """Resolve a path in a study's file, relative to its folder. Raises ParameterError for what can be no path."""
    try:
        return (path.resolve().parent / home_expanded(name)).resolve()
    except (OSError, ValueError) as error:
        raise ParameterError(f'"{name[:60]}" is no path', str(path), "Correct it in the study's file.") from error


def short_name(name: str) -> str:
    """Return a model's or corpus's name without its owner's or its folder's."""
    return name.rsplit("/", 1)[-1]
