"""Run a study: Snakemake over its jobs, on this machine or through Slurm."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from rbp.errors import DataError, ParameterError, install_extra
from rbp.io import lock
from rbp.models.training import training_of
from rbp.store import Store
from rbp.study.config import Cell, Study
from rbp.texts.corpora import open_corpus

HERE = Path(__file__).parent
TABLE = "measurements.parquet"
#: An interrupted run goes on, and code is no reason to rank again; what a user gives after -- overrides these.
ALWAYS = (
    *("--nolock", "--rerun-incomplete", "--rerun-triggers", "mtime", "input", "params"),
    *("--keep-going", "--retries", "2", "--show-failed-logs", "--scheduler", "greedy", "--quiet", "rules", "host"),
)


def find_profile(name: str | None) -> Path:
    """Find the folder of a Snakemake profile: slurm or local, by whether there is `sbatch`, or a folder of the user's.

    Raises ParameterError for a profile that is not there, DataError if a package that it needs is not installed.
    """
    name = name or ("slurm" if shutil.which("sbatch") else "local")
    folder = HERE / "profiles" / name if name in ("slurm", "local") else Path(name)
    if not (folder / "config.yaml").is_file():
        remedy = "Give local, slurm, or a folder with Snakemake's config.yaml."
        raise ParameterError(f"there is no profile {name}", "--profile", remedy)
    if name == "slurm" and shutil.which("sbatch") is None:
        raise ParameterError("this machine has no sbatch", "--profile slurm", "Take --profile local.")
    packages = ("snakemake", *(["snakemake_executor_plugin_slurm"] if name == "slurm" else []))
    if missing := [package for package in packages if find_spec(package) is None]:
        raise DataError(f"{missing[0]} is not installed", "rbp study run", install_extra("study"))
    return folder.resolve()


def run_study(study: Study, profile: Path, extra: Sequence[str] = ()) -> Path | None:
    """Do what is left of a study with Snakemake; gives the measurement table, None if a job failed.

    extra: arguments for Snakemake. Raises DataError if a model or a corpus is neither here nor within reach, and while
    another run of the study is at work.
    """
    with _alone(study.out):
        return _run(study, profile, extra)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other runs away from a study's folder, until this one ends. Raises DataError if there is another."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as stream:
        if lock(stream) is False:
            what = "another run of this study is at work"
            raise DataError(what, str(folder), "Wait for it, or stop it and start again: nothing is lost.")
        yield


def _run(study: Study, profile: Path, extra: Sequence[str]) -> Path | None:
    shards = study.out / "shards"
    for cell in study.cells.values():
        forget_damaged(study, cell)
        if not (shards / cell.name / "all").is_file():
            _fetch(cell)
    arguments = ["--snakefile", HERE / "Snakefile", "--directory", study.out, "--profile", profile, *ALWAYS]
    if profile == HERE / "profiles" / "local":
        arguments += ["--resources", f"mem_mb={_memory()}", "gpu=1"]
    arguments += [*extra, "--config", f"study={study.path}"]
    from snakemake.cli import main

    try:
        main(list(map(str, arguments)))
    except SystemExit as end:
        if end.code:
            return None
    return study.out / TABLE


def forget_damaged(study: Study, cell: Cell) -> None:
    """Remove the records of a cell's finished shards if its store is not whole, so that they run again.

    A shard that runs again ranks only what is missing.
    """
    folder = study.out / "shards" / cell.name
    outputs = [folder / f"{number}-of-{study.content.shards}" for number in range(1, study.content.shards + 1)]
    merged = folder / "all"
    if merged.is_file() and _is_whole(study.out / merged.read_text().strip()):
        return
    if merged.is_file() or all(path.is_file() for path in outputs):  # a merge that failed
        shutil.rmtree(folder)


def _is_whole(folder: Path) -> bool:
    try:
        manifest = Store(folder).manifest
    except DataError:
        return False
    whole, rest = Store(folder).parts()
    return manifest["complete"] and {path.name for path in whole.values()} == set(manifest["parts"]) and not rest


def _fetch(cell: Cell) -> None:
    """Look for the model and the corpus of a cell, and download what is missing.

    A mistake in a name shows before any work, and the machines of a cluster need no network.
    """
    from rbp.models.find import find_model

    model, corpus = cell.model, cell.corpus
    training_of(replace(find_model(model.name, model.revision), name=model.label))
    open_corpus(corpus.name, corpus.fields)


def _memory() -> int:
    """Return the megabytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000
