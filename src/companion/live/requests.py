"""Check what readers request over HTTP: listed sources, numbers within bounds, names, never a path.

On the command line a person names any file of theirs. Here a request may come from a page that they did not mean to
open, so that it chooses among what is at hand, by names that are made here.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from companion.execute.parameters import Parameter
from companion.execute.run import Chapter
from companion.project import Project
from rbp.errors import DataError, ParameterError
from rbp.io import label
from rbp.measurements.sources import available_sources
from rbp.names import split_names
from rbp.processes import end_with
from rbp.store import is_store

UPLOAD = 20_000_000  # bytes
UPLOADS = 50  # that are kept
ENDINGS = (".csv", ".parquet")
CHECK = 60.0  # seconds that looking into an upload may take
NAME = re.compile(r"[\w .,+()-]{0,80}")  # of data sets, families, devices: nothing that leads to a file
ITEMS = 30  # of a list


@dataclass(frozen=True)
class Source:
    """A listed source of measurements. name: in requests; label: what a reader sees; text: for `open_source`."""

    name: str
    label: str
    text: str


def sources(project: Project) -> list[Source]:
    """List the shipped sources, then rank stores and studies in runs/, then uploads, the latest first."""
    listed = [Source(name, label, name) for name, label in available_sources().items()]
    runs = project.runs
    for folder in sorted([*runs.glob("ranks"), *runs.glob("*/ranks"), *runs.glob("studies/*/ranks")]):
        if folder.is_dir() and any(is_store(store) for store in folder.iterdir()):
            place = folder.relative_to(project.root).as_posix()
            listed.append(_local_source(folder, f"rank stores in {place}", project))
    for table in sorted(runs.glob("studies/*/measurements.parquet")):
        listed.append(_local_source(table, f"the study {table.parent.name}", project))
    for file in sorted((runs / "live" / "uploads").glob("*"), key=lambda file: -file.stat().st_mtime):
        code, _, name = file.name.partition("-")
        if re.fullmatch(r"[0-9a-f]{8}", code) and file.suffix in ENDINGS:
            when = datetime.fromtimestamp(file.stat().st_mtime).astimezone().strftime("%d %b %H:%M:%S")
            listed.append(
                Source(f"upload-{code}", f"{name} (uploaded {when})", file.relative_to(project.root).as_posix())
            )
    # a comma would part the name into several
    return [source for source in listed if "," not in source.text]


def _local_source(path: Path, label: str, project: Project) -> Source:
    text = path.relative_to(project.root).as_posix()
    return Source(text.replace("/", ":"), label, f"./{text}")


LABELS = {
    "measurements": "Measurements",
    "explored": "Numbers of the explorer",
    "ranks": "Ranks",
    "worse": "Models made worse",
    "ks": "Thresholds k",
    "k": "Threshold k",
    "k_max": "Largest threshold k",
    "min_thresholds": "Fewest thresholds of a model",
    "shares": "Large thresholds, as shares",
    "level": "Confidence level",
    "models": "Which models",
    "holdout": "Hidden models",
    "holdout_few": "Hidden models of small families",
    "beyond": "Largest size of the path",
    "rate": "Share of missed tokens",
    "resamples": "Simulations",
    "seed": "Seed of the simulation",
    "likely": "Nearly certain probability",
    "corpus": "Text",
    "length": "Context length",
    "tokens": "Tokens at most",
    "dtype": "Data type",
    "document": "Document shown",
    "positions": "Simulated tokens",
    "temperature": "Hottest temperature",
    "bits": "Bits of a score",
    "per_parameter": "Tokens per parameter",
    "snapshots": "Training that is followed",
    "early": "Early step",
    "late": "Late step",
    "between": "Steps between",
}
"""What a form calls a parameter, where its name alone does not say it."""


def describe_form(project: Project, chapter: Chapter) -> list[dict[str, Any]]:
    """Describe the chapter's parameters for a form: `label`, `kind` (source, choice, path, flag, number or text)."""
    listed = [{"value": source.name, "label": source.label} for source in sources(project)]
    fields = []
    for parameter in chapter.parameters:
        field = parameter.as_dict() | {"kind": parameter.kind, "shown": _shown(parameter.default)}
        field["label"] = LABELS.get(parameter.name, parameter.name.replace("_", " ").capitalize())
        if field["kind"] == "source":
            field["choices"] = listed
        elif field["kind"] == "path":
            field["choices"] = [{"value": path, "label": path} for path in _siblings(project, parameter)]
        elif parameter.choices is not None:
            field["choices"] = [{"value": _shown(choice), "label": _shown(choice)} for choice in parameter.choices]
        fields.append(field)
    return fields


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _siblings(project: Project, parameter: Parameter) -> list[str]:
    """List the path of the project that the notebook gives, and the paths beside it of the same kind."""
    path = project.root / parameter.default
    if not path.exists():
        return [parameter.default]
    beside = [p for p in path.parent.iterdir() if p.is_dir() == path.is_dir() and p.suffix == path.suffix]
    return sorted({parameter.default, *(p.relative_to(project.root).as_posix() for p in beside)})


def read_parameters(project: Project, chapter: Chapter, texts: Mapping[str, str]) -> dict[str, Any]:
    """Check the parameters that a request gives as texts; returns the values that differ from the defaults.

    Raises ParameterError for an unknown name, a wrong type, a source that is not listed, a path, and a number out of
    bounds: above ten times its default, or 10 000 if that is more (a seed: any).
    """
    by_name = {parameter.name: parameter for parameter in chapter.parameters}
    listed = {source.name: source.text for source in sources(project)}
    assignments = []
    for name, text in texts.items():
        if name in by_name and by_name[name].kind == "source":
            text = ",".join(listed[listed_name] for listed_name in _split_sources(text, listed, f"parameter {name}"))
        assignments.append(f"{name}={text}")
    values = chapter.parse(assignments)
    for name, value in values.items():
        _bound(project, by_name[name], value)
    return chapter.changed(values)


def _split_sources(text: str, listed: Mapping[str, str], where: str) -> list[str]:
    """List the sources that a text names; each may be named once."""
    names = [name for name in split_names(text) if name]
    remedy = f"Choose among: {', '.join(listed)}."
    if not names:
        raise ParameterError("no source is given", where, remedy)
    for number, source in enumerate(names):
        if source not in listed:
            raise ParameterError(f"{source[:80]!r} is not an available source", where, remedy)
        if source in names[:number]:
            raise ParameterError(f"the source {source} is named twice", where, "Name each once.")
    return names


def _bound(project: Project, parameter: Parameter, value: Any) -> None:
    where, kind = f"parameter {parameter.name}", parameter.kind
    if kind == "source":
        return
    if kind == "path":
        if value not in ("", *(siblings := _siblings(project, parameter))):
            raise ParameterError("this is not available", where, f"Choose among: {', '.join(siblings)}.")
        return
    items = value if isinstance(value, list) else [value]
    if len(items) > ITEMS:
        raise ParameterError(f"a list of {len(items)} items is too long", where, f"Give {ITEMS} at most.")
    defaults = parameter.default if isinstance(parameter.default, list) else [parameter.default]
    for item in items:
        if isinstance(item, str) and not NAME.fullmatch(item):
            raise ParameterError(f"{item[:80]!r} is not a name", where, "Use letters, digits, spaces and . , + - ( ).")
        if isinstance(item, int | float) and parameter.name != "seed":
            most = max(10_000, *(10 * abs(default) for default in defaults if isinstance(default, int | float)), 0)
            if abs(item) > most:
                remedy = f"Here it may be {most:,.0f} at most; on the command line, rbp run takes any."
                raise ParameterError(f"{item:,} is too much for the live book", where, remedy)


def upload_path(project: Project, name: str, data: bytes) -> Path:
    """Choose the path of an uploaded file: its own name, made safe, after eight digits of a checksum.

    So the same file has one entry, however often it comes. Raises DataError for a file of another kind, and where there
    are UPLOADS already.
    """
    folder = project.runs / "live" / "uploads"
    stem, dot, ending = name.rpartition(".")
    if f"{dot}{ending.lower()}" not in ENDINGS:
        raise DataError("only CSV and Parquet files are accepted", name[:80], "Save the table as one of them.")
    tame = re.sub(r"[^\w.+-]+", "-", stem).strip("-.")[:60] or "table"
    path = folder / f"{hashlib.sha256(tame.encode() + data).hexdigest()[:8]}-{tame}.{ending.lower()}"
    if not path.exists() and len(list(folder.glob("*"))) >= UPLOADS:
        raise DataError(f"there are {UPLOADS} uploads already", label(folder), "Remove some of these files.")
    return path


def work_apart(root: Path, *command: str) -> None:
    """Run a hidden command of `rbp` in its own process, within bounds. Raises DataError with what it printed."""
    arguments = [sys.executable, "-m", "rbp.cli", "--root", str(root), *command]
    try:
        done = subprocess.run(  # noqa: S603
            arguments, capture_output=True, text=True, timeout=CHECK, cwd=root, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"it took more than {CHECK:.0f} s") from None
    if done.returncode:
        raise DataError(without_codes(done.stderr.strip()[-1000:].rpartition("error: ")[2]) or "it cannot be read")


def without_codes(text: str) -> str:
    """Remove the folder and the code of uploads from a text: files have the names that the reader gave them."""
    return re.sub(r"[^\s'\"(]*runs/live/uploads/[0-9a-f]{8}-", "", text)


def delete_upload(project: Project, name: str) -> None:
    """Remove an uploaded table. Raises ParameterError if there is none of this name."""
    for source in sources(project):
        if source.name == name and name.startswith("upload-"):
            (project.root / source.text).unlink()
            return
    raise ParameterError("there is no such upload", None, "It may have been deleted.")


def check_upload(path: Path) -> None:
    """Open a table as a source, in a process of at most 4 GB, which ends with its parent.

    Raises what `open_source` raises.
    """
    import resource

    from rbp.measurements import open_source

    end_with(os.getppid())
    most = 4_000_000_000
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        _ = open_source(path).table
    except MemoryError:
        raise DataError("the table does not fit into memory", path.name, "Give fewer rows.") from None
