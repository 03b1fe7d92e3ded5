"""A study's file, in TOML: models or families, corpora, protocol, budget, shards; read and checked."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product, starmap
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rbp.configuration import read_configuration
from rbp.errors import ParameterError, RbpError
from rbp.io import canonical_json, home_expanded, parse_json
from rbp.models.training import TABLE, checkpoints
from rbp.names import nearest
from rbp.registry import known_models
from rbp.texts.corpora import check_corpus, is_named
from rbp.texts.protocol import Bos, Name, Protocol, Special, default_protocol, window_length
from rbp.texts.protocol import protocol as make_protocol

Count = Field(default=None, ge=1)
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Named(_Table):
    name: str = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, entry: Any) -> Any:
        return {"name": entry} if isinstance(entry, str) else entry


class ModelEntry(_Named):
    """A model: a hub id or a folder, its family, and which of its checkpoints.

    revision: a branch, tag or commit of the hub, or a sub-folder of a run's folder; revisions: several; every: every
    n-th checkpoint, the last included (of a run's folder, or of Pythia).
    """

    revision: str | None = None
    revisions: list[Annotated[str, Field(min_length=1)]] = []
    every: int | None = Count
    family: str | None = None

    @property
    def label(self) -> str:
        """Return the name in tables: the hub id, or the folder's name."""
        return short_name(self.name) if Path(self.name).is_absolute() else self.name

    @property
    def folder(self) -> Path | None:
        """Return the folder of its files, if it is a folder on this machine."""
        return Path(self.name) / (self.revision or "") if Path(self.name).is_absolute() else None


class CorpusEntry(_Named):
    """A corpus: a name that `rbp extract` knows, or a file, and the fields of it that make a document."""

    fields: list[str] = []


class ProtocolTable(_Table):
    """The options of `rbp.texts.protocol.protocol`; the budget is outside, as `tokens`.

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

    models: list[ModelEntry] = []
    families: list[str] = []
    corpora: list[CorpusEntry] = Field(min_length=1)
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
    """A checked study: its file, the folder of its results, and its models and corpora with absolute paths.

    cells: every model on every corpus, by name.
    """

    path: Path
    out: Path
    content: StudyFile
    models: tuple[ModelEntry, ...]
    corpora: tuple[CorpusEntry, ...]
    protocol: Protocol
    cells: dict[str, Cell]

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
    with _located(f"{path}, protocol"):
        protocol = _protocol(content, models, corpora)
    out = _resolved(content.output, path) if content.output else runs.resolve() / "studies" / path.stem
    cells = dict[str, Cell]()
    for cell in starmap(Cell, product(models, corpora)):
        if cell.name in cells:
            raise ParameterError(f"{cell.name} is there twice", str(path), "Leave one of them out, or rename a file.")
        cells[cell.name] = cell
    return Study(path.resolve(), out, content, models, corpora, protocol, cells)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Say of an error at which place of the study's file it is."""
    try:
        yield
    except RbpError as error:
        raise type(error)(error.what, where, error.remedy) from None


def _protocol(content: StudyFile, models: tuple[ModelEntry, ...], corpora: tuple[CorpusEntry, ...]) -> Protocol:
    options = content.protocol.model_dump()
    options["name"] = options["name"] or default_protocol([corpus.name for corpus in corpora])
    if options["name"] == "windows" and options["length"] is None:
        configs = [at / "config.json" for model in models if (at := model.folder)]
        options["length"] = window_length([parse_json(config.read_bytes()) for config in configs if config.is_file()])
    return make_protocol(**options, tokens=content.tokens)


def _find_models(content: StudyFile, path: Path) -> tuple[ModelEntry, ...]:
    known, models = known_models(), list[ModelEntry]()
    for model in content.models:
        local = _resolved(model.name, path)
        if local.is_dir():
            model = model.model_copy(update={"name": str(local)})
        elif model.name not in known and not HUB_ID.fullmatch(model.name):
            what = f'"{model.name}" is neither a folder beside the study\'s file nor a hub id with its owner'
            remedy = nearest(model.name, known, key=lambda name: short_name(name).lower())
            raise ParameterError(what, f"{path}, models", remedy)
        with _located(f"{path}, models: {model.name}"):
            models += _checkpoints(model)
    families = {row["family"] for row in known.values()}
    for family in content.families:
        if family not in families:
            remedy = nearest(family, sorted(families))
            raise ParameterError(f'there is no family "{family}"', f"{path}, families", remedy)
        models += [ModelEntry(name=name, family=family) for name, row in known.items() if row["family"] == family]
    if not models:
        raise ParameterError("the study has no model", str(path), "Give models, or families.")
    return tuple(models)


def _checkpoints(model: ModelEntry) -> list[ModelEntry]:
    """Return an entry for each of the checkpoints that are requested of a model."""
    if sum(given is not None for given in (model.revision, model.revisions or None, model.every)) > 1:
        raise ParameterError("only one of revision, revisions and every can be given", None, "Give one.")
    revisions: list[str | None] = [*model.revisions] or [model.revision]
    if model.every is not None:
        known = checkpoints(model.name, model.folder)
        if not known:
            remedy = 'List them: revisions = ["step1000", "step2000"].'
            raise ParameterError("which checkpoints this model has is not known here", None, remedy)
        revisions = [*known[::-1][:: model.every][::-1]]
    return [model.model_copy(update={"revision": each, "revisions": [], "every": None}) for each in revisions]


def _find_corpora(content: StudyFile, path: Path) -> tuple[CorpusEntry, ...]:
    corpora = []
    for corpus in content.corpora:
        name = corpus.name if is_named(corpus.name) else str(_resolved(corpus.name, path))
        with _located(f"{path}, corpora: {corpus.name}"):
            check_corpus(name, corpus.fields)
        corpora.append(corpus.model_copy(update={"name": name}))
    return tuple(corpora)


def _resolved(name: str, path: Path) -> Path:
    """Resolve a path in a study's file, relative to its folder. Raises ParameterError for what can be no path."""
    try:
        return (path.resolve().parent / home_expanded(name)).resolve()
    except (OSError, ValueError) as error:
        raise ParameterError(f'"{name[:60]}" is not a path', str(path), "Correct it in the study's file.") from error


def short_name(name: str) -> str:
    """Return a model's or corpus's name without its owner's or its folder's."""
    return name.rsplit("/", 1)[-1]
