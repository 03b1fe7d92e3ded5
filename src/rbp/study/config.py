"""A study's file, in TOML: models, corpora, protocol, budget, shards; read and checked."""

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, validate_call

from rbp.choices import Settings
from rbp.configuration import first_fault, read_configuration
from rbp.errors import ParameterError, RbpError
from rbp.io import home_expanded, parse_json
from rbp.models.training import TABLE, is_checkpoint
from rbp.texts.corpora import check_corpus, is_named
from rbp.texts.protocol import Protocol, default_protocol, protocol

Names = Annotated[list[str], Field(min_length=1)]


class StudyFile(BaseModel):
    """The keys of a study's file.

    models: hub ids (or id@revision) and folders, also as run/checkpoint-*, in a list, or in one for each family;
    corpora; fields, prompt: of corpus files; protocol: the options of `rbp.texts.protocol.protocol`, and of `rbp
    extract` by default; tokens: the budget of each model on each corpus; dtype; vocabulary: the logits that count;
    device: of every job, as ranks of another device are another measurement; shards: jobs that share the work of one
    model on one corpus; threads, memory: cores and megabytes of a job; output: a folder (none: runs/studies/NAME).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    models: Names | dict[str, Names]
    corpora: Names
    fields: list[str] = []
    prompt: str | None = None
    protocol: dict[str, Any] = {}
    tokens: int | None = Field(default=None, ge=1)
    dtype: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    vocabulary: Literal["all", "tokenizer"] | Annotated[int, Field(ge=1)] = "all"
    device: Literal["cpu", "cuda"] = "cpu"
    shards: int = Field(default=1, ge=1, le=10_000)
    threads: int = Field(default=1, ge=1)
    memory: int = Field(default=8000, ge=1)
    output: str | None = None


@dataclass(frozen=True)
class Cell:
    """One model on one corpus, each a name or an absolute path, and how it is measured."""

    model: str
    corpus: str
    protocol: Protocol
    settings: Settings

    @property
    def label(self) -> str:
        """Return the name of its files."""
        folder, names = Path(self.model), [Path(name).name for name in (self.model, self.corpus)]
        run = f"{folder.parent.name}@" if folder.is_absolute() and is_checkpoint(folder) else ""
        return re.sub(r"[^A-Za-z0-9.@]+", "-", run + "-".join(names)).strip("-.")

    @property
    def inputs(self) -> list[Path]:
        """List the local files that its ranks and labels are made from."""
        folder, corpus = Path(self.model), Path(self.corpus)
        files = [folder.parent / TABLE, *sorted(folder.glob("*"))] if folder.is_absolute() else []
        return [path for path in [*files, corpus] if path.is_absolute() and path.is_file()]


@dataclass(frozen=True)
class Study:
    """A checked study: its file, the folder of its results, and every model on every corpus, by label."""

    path: Path
    out: Path
    content: StudyFile
    cells: dict[str, Cell]


def read_study(path: Path, runs: Path) -> Study:
    """Read and check a study's file; its results go into the folder `runs` unless it names another.

    Raises DataError for a file, a key or a value that is not right, ParameterError for a text, an option of the
    protocol, and what is there twice.
    """
    content, home, cells = read_configuration(path, StudyFile), path.resolve().parent, dict[str, Cell]()
    families = content.models.items() if isinstance(content.models, dict) else [(None, content.models)]
    models = [(model, family) for family, names in families for name in names for model in _found(name, home)]
    corpora = [name if is_named(name) else str((home / home_expanded(name)).resolve()) for name in content.corpora]
    fields = tuple(content.fields)
    try:
        for corpus in corpora:
            check_corpus(corpus, fields or ([content.prompt] if content.prompt else []))
        chosen = _protocol(content, [model for model, _ in models], corpora, path)
    except RbpError as error:
        raise type(error)(error.what, f"{path}: {error.where}", error.remedy) from None
    numbers: dict[str, Any] = content.model_dump(include={"dtype", "device", "vocabulary"})
    for (model, family), corpus in product(models, corpora):
        cell = Cell(model, corpus, chosen, Settings(**numbers, fields=fields, prompt=content.prompt, family=family))
        if cells.setdefault(cell.label, cell) is not cell:
            fault = f"{cell.label} is there twice"
            raise ParameterError(fault, str(path), "Leave one of them out, or rename a file.")
    out = (home / home_expanded(content.output)).resolve() if content.output else runs.resolve() / "studies" / path.stem
    return Study(path.resolve(), out, content, cells)


def _found(name: str, home: Path) -> list[str]:
    """Return the folders or the file that a model's name stands for, with their paths; else the name, of the hub."""
    place = home / home_expanded(name)
    return sorted(str(path.resolve()) for path in place.parent.glob(place.name)) or [name]


def _protocol(content: StudyFile, models: list[str], corpora: list[str], path: Path) -> Protocol:
    configs = [file for model in models if (file := Path(model) / "config.json").is_file()]
    options: dict[str, Any] = {"tokens": content.tokens} | content.protocol
    options["name"] = options.get("name") or default_protocol(corpora)
    options["configs"] = [parse_json(file.read_bytes()) for file in configs]
    try:
        return validate_call(protocol, config=ConfigDict(strict=True))(**options)  # type: ignore[call-overload, no-any-return]
    except ValidationError as error:
        raise first_fault(error, path) from None
