"""A study's file: models, corpora, protocol, budget, shards, output. Every name is checked before anything runs.

Paths in the file are relative to the folder that it lies in.
"""

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rbp.errors import ParameterError
from rbp.extraction.protocols import Name, Protocol
from rbp.extraction.protocols import protocol as make_protocol
from rbp.files import canonical_json
from rbp.parameters import nearest
from rbp.paths import Project
from rbp.study import names
from rbp.study.names import check_chapter, dataset_name, resolved, short

Dtype = Literal["float32", "bfloat16", "float16", "float64"]
Count = Field(default=None, ge=1)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelEntry(_Table):
    """A model: a hub id with its revision (a branch, tag or commit), or a folder; and its family."""

    name: str = Field(min_length=1)
    revision: str | None = None
    family: str | None = None


class CorpusEntry(_Table):
    """A corpus: a name of `rbp.extraction.corpora`, or a file, and the fields of it that make a document."""

    name: str = Field(min_length=1)
    fields: list[str] = []


def _table(entry: Any) -> Any:
    """A name alone is short for a table with that name."""
    return {"name": entry} if isinstance(entry, str) else entry


class ProtocolTable(_Table):
    """The options of `rbp.extraction.protocols.protocol`; the budget stands outside, as `tokens`."""

    name: Name = "authors"
    length: int | None = Count
    context: int | None = Count
    documents: int | None = Count
    pack: int = Field(default=64, ge=1)


class GpuTable(_Table):
    """The GPU that a plan reckons with.

    name: for people; memory: GB (10⁹ bytes); flops: a second, by the data sheet (None: as the dtype has it);
    share: of them that the work is assumed to reach.
    """

    name: str = "NVIDIA A100 80 GB"
    memory: float = Field(default=80.0, gt=0)
    flops: float | None = Field(default=None, gt=0)
    share: float = Field(default=0.4, gt=0, le=1)


class StudyFile(_Table):
    """What may stand in a study's file.

    title; models; families (whole families of the published table); corpora; protocol; tokens: the budget of each model
    on each corpus; dtype; vocabulary: the logits that count ("all", "tokenizer", or how many); shards: jobs that share
    the packs of a model on a corpus; threads: CPU cores of a job; device, backend: as `rbp extract` has them; gpus: how
    many a shard asks for ("auto": one where there are GPUs); gpu: the one that a plan reckons with; sbatch: more
    options for Slurm, such as "--partition=gpu"; chapters: executed on the table; rank_chapters: executed on the ranks;
    output: a folder (none: runs/studies/NAME).
    """

    title: str = ""
    models: list[Annotated[ModelEntry, BeforeValidator(_table)]] = []
    families: list[str] = []
    corpora: list[Annotated[CorpusEntry, BeforeValidator(_table)]] = Field(min_length=1)
    protocol: ProtocolTable = ProtocolTable()
    tokens: int | None = Count
    dtype: Dtype = "float32"
    vocabulary: Annotated[int, Field(ge=1)] | Literal["all", "tokenizer"] = "all"
    shards: int = Field(default=1, ge=1, le=10_000)
    threads: int = Field(default=1, ge=1)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    backend: Literal["auto", "reference", "blocked", "triton"] = "auto"
    gpus: Literal["auto", 0, 1] = "auto"
    gpu: GpuTable = GpuTable()
    thresholds: list[int] = []
    sbatch: list[str] = []
    chapters: list[str] = []
    rank_chapters: list[str] = []
    output: str | None = None


@dataclass(frozen=True)
class Cell:
    """One model on one corpus. name: of its files, with a digest of all that was asked for."""

    name: str
    model: ModelEntry
    corpus: CorpusEntry

    @property
    def label(self) -> str:
        """As people read it."""
        return f"{short(self.model.name)} on {dataset_name(self.corpus.name)}"


@dataclass(frozen=True)
class Study:
    """A study that can be run: names are checked, families are spelt out, paths are absolute.

    path: of its file; out: the folder for all that it makes; content: the file; models, corpora: each once, in order.
    """

    path: Path
    out: Path
    content: StudyFile
    models: tuple[ModelEntry, ...]
    corpora: tuple[CorpusEntry, ...]
    protocol: Protocol

    @property
    def title(self) -> str:
        """For people: as the file has it, or the file's name."""
        return self.content.title or self.path.stem

    @property
    def ranks(self) -> Path:
        """The folder of the rank stores."""
        return self.out / "ranks"

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every model on every corpus."""
        return tuple(self._cell(model, corpus) for model in self.models for corpus in self.corpora)

    def _cell(self, model: ModelEntry, corpus: CorpusEntry) -> Cell:
        asked = {
            "model": model.model_dump(),
            "corpus": corpus.model_dump(),
            "protocol": self.protocol.as_dict(),
            "dtype": self.content.dtype,
            "vocabulary": self.content.vocabulary,
            "device": self.content.device,
            "backend": self.content.backend,
        }
        code = hashlib.sha256(canonical_json(asked).encode()).hexdigest()[:8]
        words = f"{short(model.name)}-{dataset_name(corpus.name)}"
        return Cell(f"{re.sub(r'[^A-Za-z0-9.]+', '-', words).strip('-.')}-{code}", model, corpus)


def read_study(path: Path, project: Project | None = None) -> Study:
    """The study in a TOML file. Raises ParameterError for a file, a key, a value or a name that is not right."""
    project = project or Project()
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "the text is not UTF-8"
        raise ParameterError(f"cannot read the study: {what.lower()}", str(path), _ships(project)) from None
    except (ValueError, RecursionError) as error:  # a number too long, or lists too deep, is no TOML either
        raise ParameterError(f"this is not TOML: {error}", str(path), "See studies/small.toml.") from None
    try:
        content = StudyFile.model_validate(raw)
    except ValidationError as error:
        raise _named(error, path) from None
    chosen = content.protocol
    try:
        protocol = make_protocol(
            chosen.name,
            length=chosen.length,
            context=chosen.context,
            documents=chosen.documents,
            tokens=content.tokens,
            pack=chosen.pack,
        )
    except ParameterError as error:
        key = "protocol." + (error.where or "").removeprefix("--")
        raise ParameterError(
            error.what, f"{path}, {key}", "See rbp extract --help for what a protocol takes."
        ) from None
    for key in ("chapters", "rank_chapters"):
        for name in getattr(content, key):
            check_chapter(name, project, f"{path}, {key}")
    names.once([*content.chapters, *content.rank_chapters], f"{path}, chapters")
    return Study(
        path=path.resolve(),
        out=resolved(content.output, path) if content.output else project.runs / "studies" / path.stem,
        content=content,
        models=names.models(content, path),
        corpora=names.corpora(content, path),
        protocol=protocol,
    )


def _ships(project: Project) -> str:
    there = sorted(path.name for path in (project.root / "studies").glob("*.toml"))
    return "These come with the project, in studies/: " + ", ".join(there) + "." if there else "Check the path."


def _named(error: ValidationError, path: Path) -> ParameterError:
    """The first thing that pydantic found, as a user reads it."""
    first = error.errors()[0]
    if first["loc"][0] == "vocabulary":  # a choice or a number, and pydantic speaks of one of them
        what = f"vocabulary cannot be {first['input']!r}"
        return ParameterError(what, str(path), 'It should be "all", "tokenizer", or a number of at least 1.')
    place = [str(part) for part in first["loc"]]
    key, where = ".".join(place), str(path)
    if first["type"] == "extra_forbidden":
        kinds: dict[str, type[BaseModel]] = {
            "protocol": ProtocolTable,
            "gpu": GpuTable,
            "models": ModelEntry,
            "corpora": CorpusEntry,
        }
        kind = kinds.get(place[0], StudyFile) if len(place) > 1 else StudyFile
        return ParameterError(f'there is no key "{key}"', where, nearest(place[-1], kind.model_fields))
    if first["type"] == "missing":
        return ParameterError(f'the key "{key}" is missing', where, "See studies/small.toml.")
    given = first["input"]
    if first["type"] == "literal_error" and isinstance(given, str):
        choices = {"dtype": get_args(Dtype), "protocol.name": get_args(Name), "device": ("auto", "cpu", "cuda")}
        if key in choices:
            return ParameterError(f'{key} cannot be "{given}"', where, nearest(given, choices[key]))
    message = first["msg"].removeprefix("Input ").split(" or instance of ")[0]
    return ParameterError(f"{key} cannot be {given!r}"[:120], where, f"It {message[:1].lower()}{message[1:]}.")
