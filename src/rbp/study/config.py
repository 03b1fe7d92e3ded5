"""A study's file: models, corpora, protocol, budget, shards, output. Every name is checked before anything runs."""

import csv
import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rbp.book.chapters import find
from rbp.core.errors import ParameterError
from rbp.core.files import canonical_json, home_expanded, parse_json
from rbp.core.names import nearest
from rbp.core.paths import DATA, Project
from rbp.ladder import TEXTS
from rbp.ranks.corpora import CORPORA, split_suffix
from rbp.ranks.protocols import Name, Protocol, own_protocol, window_length
from rbp.ranks.protocols import protocol as make_protocol
from rbp.ranks.training import Training, checkpoints, step_of, training_of

Dtype = Literal["float32", "bfloat16", "float16", "float64"]
Count = Field(default=None, ge=1)
Known = Field(default=None, ge=0)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelEntry(_Table):
    """A model: a hub id or a folder, its family, and which of its checkpoints.

    revision: a branch, tag or commit of the hub, or a sub-folder of a run's folder; revisions: several; every: each
    so-manieth of those that there are, the last among them (of a run's folder, or of Pythia). training_tokens, step,
    seed, compute: of its training, where its files do not say it; tokens_per_step: for D from the revisions' steps.
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
    def called(self) -> str:
        """With its revision: EleutherAI/pythia-70m@step1000."""
        return f"{self.name}@{self.revision}" if self.revision else self.name

    @property
    def folder(self) -> Path | None:
        """The folder of its files, if it is a folder on this machine."""
        return Path(self.name) / (self.revision or "") if Path(self.name).is_absolute() else None

    @property
    def training(self) -> Training | None:
        """What the study's file says of it. Raises ParameterError for what cannot be."""
        tokens, step = self.training_tokens, self.step
        if self.tokens_per_step is not None:
            step = step_of(self.revision or "") if step is None else step
            if step is None or tokens is not None:
                what = "tokens_per_step needs a step, and no training_tokens beside it"
                raise ParameterError(what, self.called, "Give step, or a revision such as step1000.")
            tokens = step * self.tokens_per_step
        found = Training(None, tokens, step, self.seed, self.compute)
        return found if found.known else None


class CorpusEntry(_Table):
    """A corpus: a name of `rbp.ranks.corpora`, or a file, and the fields of it that make a document."""

    name: str = Field(min_length=1)
    fields: list[str] = []


def _table(entry: Any) -> Any:
    """A name alone is short for a table with that name."""
    return {"name": entry} if isinstance(entry, str) else entry


class ProtocolTable(_Table):
    """The options of `rbp.ranks.protocols.protocol`; the budget stands outside, as `tokens`.

    Without a name the paper's corpora are read as the authors read them, and other texts whole, in windows.
    """

    name: Name | None = None
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
    options for Slurm, such as "--partition=gpu"; chapters: executed on the table, named as `rbp run` takes them;
    rank_chapters: executed on the ranks; output: a folder (none: runs/studies/NAME).
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
        return f"{short_name(self.model.name)}{_at(self.model)} on {dataset_name(self.corpus.name)}"


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
    def on_cpu(self) -> bool:
        """Whether its file keeps the shards off GPUs."""
        return self.content.device == "cpu" or (self.content.device == "auto" and self.content.gpus == 0)

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
            "model": model.model_dump(include={"name", "revision", "family"}),
            "corpus": corpus.model_dump(),
            "protocol": self.protocol.as_dict(),
            "dtype": self.content.dtype,
            "vocabulary": self.content.vocabulary,
            "device": self.content.device,
            "backend": self.content.backend,
        }
        code = hashlib.sha256(canonical_json(asked).encode()).hexdigest()[:8]
        words = f"{short_name(model.name)}{_at(model)}-{dataset_name(corpus.name)}"
        return Cell(f"{re.sub(r'[^A-Za-z0-9.]+', '-', words).strip('-.')}-{code}", model, corpus)


def _at(model: ModelEntry) -> str:
    return f"@{model.revision}" if model.revision else ""


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
    models, corpora = find_models(content, path), find_corpora(content, path)
    chosen = content.protocol
    name, length = _own_texts(chosen, models, corpora, path)
    try:
        protocol = make_protocol(
            name,
            length=length,
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
        names = [chapter_name(name, project, f"{path}, {key}") for name in getattr(content, key)]
        content = content.model_copy(update={key: names})
    check_once([*content.chapters, *content.rank_chapters], f"{path}, chapters")
    return Study(
        path=path.resolve(),
        out=resolved_path(content.output, path) if content.output else project.runs / "studies" / path.stem,
        content=content,
        models=models,
        corpora=corpora,
        protocol=protocol,
    )


def _own_texts(
    chosen: ProtocolTable, models: Sequence[ModelEntry], corpora: Sequence[CorpusEntry], path: Path
) -> tuple[str, int | None]:
    """The protocol and the length that a study gets which does not name them: windows as long as its models read."""
    name = chosen.name or own_protocol([corpus.name for corpus in corpora], f"{path}, protocol.name")
    length = chosen.length
    if name == "windows" and length is None:
        length = window_length([parse_json((at / "config.json").read_bytes()) for m in models if (at := m.folder)])
    return name, length


def _ships(project: Project) -> str:
    there = sorted(path.name for path in (project.root / "studies").glob("*.toml"))
    return "These come with the project, in studies/: " + ", ".join(there) + "." if there else "Check the path."


def _named(error: ValidationError, path: Path) -> ParameterError:
    """The first thing that pydantic found, as a user reads it."""
    found = error.errors()  # a key that is misspelt says more than the one that is missing for it
    first = next((each for each in found if each["type"] == "extra_forbidden"), found[0])
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


def dataset_name(corpus: str) -> str:
    """What the rank store calls a corpus: the name without its place and its suffix."""
    name = Path(corpus).name
    if corpus in CORPORA or corpus.startswith(TEXTS):
        return name
    return split_suffix(name)[0]


def published_models() -> dict[str, dict[str, str]]:
    """The rows of the published table of models, by hub id."""
    with (DATA / "published" / "models.csv").open(encoding="utf-8", newline="") as lines:
        return {row["model"]: row for row in csv.DictReader(lines)}


def find_models(content: "StudyFile", path: Path) -> "tuple[ModelEntry, ...]":
    """The models and families of a study, each once; folders as absolute paths. Raises ParameterError."""

    published = published_models()
    families: dict[str, list[str]] = {}
    for name, row in published.items():
        families.setdefault(row["family"], []).append(name)
    found = []
    for model in content.models:
        where = f"{path}, models"
        local = resolved_path(model.name, path)
        if (local / "config.json").is_file() or (local.is_dir() and checkpoints("", local)):
            found += spread(model.model_copy(update={"name": str(local)}), local, where)
            continue
        if local.is_dir() or model.name.startswith((".", "/", "~")) or model.name.count("/") > 1:
            remedy = "Give a folder with config.json, relative to the study's file, or a hub id."
            raise ParameterError(f"there is no model in {model.name}", where, remedy)
        if "/" not in model.name and model.name not in published:
            remedy = nearest(model.name, published, key=lambda name: short_name(name).lower())
            raise ParameterError(f'"{model.name}" is neither a folder nor a hub id with its owner', where, remedy)
        found += spread(model, None, where)
    for family in content.families:
        if family not in families:
            raise ParameterError(f'there is no family "{family}"', f"{path}, families", nearest(family, families))
        found += [ModelEntry(name=name, family=family) for name in families[family]]
    if not found:
        raise ParameterError("the study has no model", str(path), "Give models, or families.")
    check_once([model.called for model in found], f"{path}, models")
    return tuple(found)


def spread(model: ModelEntry, folder: Path | None, where: str) -> list[ModelEntry]:
    """A model as an entry for each of its checkpoints that the study asks for.

    folder: the run's, None for a model of the hub. Raises ParameterError, and DataError where its files say another
    thing of a checkpoint's training.
    """
    place = f"{where}: {model.name}"
    if sum(asked is not None for asked in (model.revision, model.revisions or None, model.every)) > 1:
        raise ParameterError("revision, revisions and every are three ways to say one thing", place, "Give one.")
    there = checkpoints(model.name, folder)
    if model.every is not None:
        if not there:
            remedy = 'List them: revisions = ["step1000", "step2000"].'
            raise ParameterError("which checkpoints this model has is not known here", place, remedy)
        asked: list[str | None] = [*there[::-1][:: model.every][::-1]]
    else:
        asked = [*model.revisions] or [model.revision]
    for revision in asked:
        unknown = revision is not None and there is not None and revision not in there
        if unknown and (folder is not None or re.fullmatch(r"step\d*", str(revision))):
            raise ParameterError(f"there is no revision {revision}", place, nearest(str(revision), there or []))
    if folder is not None and None in asked and not (folder / "config.json").is_file():
        remedy = f"Give revisions, or every = 1. There is: {', '.join(there or [])}."
        raise ParameterError("this is the folder of a run, with checkpoints in it", place, remedy)
    if len(asked) > 1 and any(value is not None for value in (model.training_tokens, model.step, model.compute)):
        what = f"one step, or number of training tokens, for {len(asked)} checkpoints"
        raise ParameterError(what, place, "Give tokens_per_step, or a table beside the models: checkpoints.csv.")
    found = [model.model_copy(update={"revision": each, "revisions": [], "every": None}) for each in asked]
    for each in found:
        try:
            said = each.training
        except ParameterError as error:
            raise ParameterError(error.what, place, error.remedy) from None
        if folder is not None:
            training_of(_Checkpoint(each.name, each.folder, None, each.revision), said)
    return found


class _Checkpoint(NamedTuple):
    """What says of the files of a model on this machine how it was trained: see `rbp.ranks.training`."""

    name: str
    folder: Path | None
    revision: None
    checkpoint: str | None


def find_corpora(content: "StudyFile", path: Path) -> "tuple[CorpusEntry, ...]":
    """The corpora of a study, each once; files as absolute paths. Raises ParameterError."""
    domains = _ladder_domains()
    found = []
    for corpus in content.corpora:
        where = f"{path}, corpora"
        local = resolved_path(corpus.name, path)
        if corpus.name in CORPORA or corpus.name in domains:
            if corpus.fields:
                raise ParameterError(
                    "a corpus by name has its own fields", f"{where}: {corpus.name}", "Leave them out."
                )
            found.append(corpus)
        elif local.is_file() and split_suffix(local.name)[1]:
            found.append(corpus.model_copy(update={"name": str(local)}))
        elif split_suffix(corpus.name)[1]:
            remedy = "Give its path, relative to the study's file."
            raise ParameterError(f"there is no file {corpus.name}", where, remedy)
        else:
            raise ParameterError(
                f'there is no corpus "{corpus.name}"', where, nearest(corpus.name, [*CORPORA, *domains])
            )
    check_once([dataset_name(corpus.name) for corpus in found], f"{path}, corpora")
    return tuple(found)


def check_once(names: Sequence[str], where: str) -> None:
    """Raise ParameterError if a name stands twice."""
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{name} is there twice", where, "Leave one of them out, or rename a file.")


def chapter_name(name: str, project: Project, where: str) -> str:
    """The full name of the chapter that `rbp run` calls so. Raises ParameterError if the book has no such chapter."""
    try:
        return find(project, name).name
    except ParameterError as error:
        raise ParameterError(error.what, where, error.remedy) from None


def _ladder_domains() -> list[str]:
    with (DATA / "ladder" / "documents.csv").open(encoding="utf-8", newline="") as lines:
        return sorted({TEXTS + row["domain"] for row in csv.DictReader(lines)})


def resolved_path(name: str, path: Path) -> Path:
    """A path in the study's file `path`: relative to its folder. Raises ParameterError for what can be no path."""
    try:
        found = (path.resolve().parent / home_expanded(name)).resolve()
        found.exists()  # the system is asked, and may have other objections than that there is none
    except (OSError, ValueError, RuntimeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise ParameterError(f'"{name[:60]}" is no path: {why}', str(path), "Correct it in the study's file.") from None
    return found


def short_name(name: str) -> str:
    """A model's name without its owner's or its folder's."""
    return name.rsplit("/", 1)[-1]
