"""Who is meant by the names in a study's file: models, families, corpora, chapters; a wrong one gets the nearest."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rbp.errors import ParameterError
from rbp.extraction.corpora import CORPORA, LADDER, SUFFIXES
from rbp.files import home_expanded
from rbp.parameters import nearest
from rbp.paths import DATA, Project

if TYPE_CHECKING:
    from rbp.study.file import CorpusEntry, ModelEntry, StudyFile


def dataset_name(corpus: str) -> str:
    """What the rank store calls a corpus: the name without its place and its suffix."""
    name = Path(corpus).name
    if corpus in CORPORA or corpus.startswith(LADDER):
        return name
    return next((name[: -len(s)] for s in sorted(SUFFIXES, key=len, reverse=True) if name.lower().endswith(s)), name)


def published_models() -> dict[str, dict[str, str]]:
    """The rows of the published table of models, by hub id."""
    with (DATA / "published" / "models.csv").open(encoding="utf-8", newline="") as lines:
        return {row["model"]: row for row in csv.DictReader(lines)}


def models(content: "StudyFile", path: Path) -> "tuple[ModelEntry, ...]":
    """The models and families of a study, each once; folders as absolute paths. Raises ParameterError."""
    from rbp.study.file import ModelEntry

    published = published_models()
    families: dict[str, list[str]] = {}
    for name, row in published.items():
        families.setdefault(row["family"], []).append(name)
    found = []
    for model in content.models:
        where = f"{path}, models"
        local = resolved(model.name, path)
        if (local / "config.json").is_file():
            if model.revision is not None:
                raise ParameterError("a folder has no revisions", f"{where}: {model.name}", "Leave revision out.")
            found.append(model.model_copy(update={"name": str(local)}))
            continue
        if local.is_dir() or model.name.startswith((".", "/", "~")) or model.name.count("/") > 1:
            remedy = "Give a folder with config.json, relative to the study's file, or a hub id."
            raise ParameterError(f"there is no model in {model.name}", where, remedy)
        if "/" not in model.name and model.name not in published:
            remedy = nearest(model.name, published, key=lambda name: short(name).lower())
            raise ParameterError(f'"{model.name}" is neither a folder nor a hub id with its owner', where, remedy)
        found.append(model)
    for family in content.families:
        if family not in families:
            raise ParameterError(f'there is no family "{family}"', f"{path}, families", nearest(family, families))
        found += [ModelEntry(name=name, family=family) for name in families[family]]
    if not found:
        raise ParameterError("the study has no model", str(path), "Give models, or families.")
    once([model.name for model in found], f"{path}, models")
    return tuple(found)


def corpora(content: "StudyFile", path: Path) -> "tuple[CorpusEntry, ...]":
    """The corpora of a study, each once; files as absolute paths. Raises ParameterError."""
    domains = _ladder_domains()
    found = []
    for corpus in content.corpora:
        where = f"{path}, corpora"
        local = resolved(corpus.name, path)
        if corpus.name in CORPORA or corpus.name in domains:
            if corpus.fields:
                raise ParameterError(
                    "a corpus by name has its own fields", f"{where}: {corpus.name}", "Leave them out."
                )
            found.append(corpus)
        elif local.is_file() and local.name.lower().endswith(SUFFIXES):
            found.append(corpus.model_copy(update={"name": str(local)}))
        elif corpus.name.lower().endswith(SUFFIXES):
            remedy = "Give its path, relative to the study's file."
            raise ParameterError(f"there is no file {corpus.name}", where, remedy)
        else:
            raise ParameterError(
                f'there is no corpus "{corpus.name}"', where, nearest(corpus.name, [*CORPORA, *domains])
            )
    once([dataset_name(corpus.name) for corpus in found], f"{path}, corpora")
    return tuple(found)


def once(names: Sequence[str], where: str) -> None:
    """Raise ParameterError if a name stands twice."""
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{name} is there twice", where, "Leave one of them out, or rename a file.")


def check_chapter(name: str, project: Project, where: str) -> None:
    """Raise ParameterError if the book has no such chapter."""
    names = sorted(path.stem for path in project.notebooks.glob("[0-9][0-9]_*.ipynb"))
    if name not in names:
        raise ParameterError(f'there is no chapter "{name}"', where, nearest(name, names))


def _ladder_domains() -> list[str]:
    stores = (DATA / "ladder" / "ranks").glob("*-*-*")
    return sorted({LADDER + store.name.rsplit("-", 2)[1] for store in stores})


def resolved(name: str, path: Path) -> Path:
    """A path in the study's file `path`: relative to its folder. Raises ParameterError for what can be no path."""
    try:
        found = (path.resolve().parent / home_expanded(name)).resolve()
        found.exists()  # the system is asked, and may have other objections than that there is none
    except (OSError, ValueError, RuntimeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise ParameterError(f'"{name[:60]}" is no path: {why}', str(path), "Correct it in the study's file.") from None
    return found


def short(name: str) -> str:
    """A model's name without its owner's or its folder's."""
    return name.rsplit("/", 1)[-1]
