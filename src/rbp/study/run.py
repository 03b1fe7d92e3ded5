"""Run a study: Snakemake over its shards, on this machine or through Slurm, and a table of what they measured."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from rbp.errors import DataError, ParameterError, install_extra
from rbp.io import locked, write_file
from rbp.study.config import Cell, Study

HERE = Path(__file__).parent
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
    for package in ("snakemake", "snakemake_executor_plugin_slurm"):
        if find_spec(package) is None:
            raise DataError(f"{package} is not installed", "rbp study run", install_extra("study"))
    return folder.resolve()


def run_study(study: Study, profile: Path, extra: Sequence[str] = ()) -> Path | None:
    """Do what is left of a study with Snakemake; gives the measurement table, None if a job failed.

    extra: arguments for Snakemake. Raises DataError if a model or a corpus is neither here nor within reach, while
    another run of the study is at work, and for a store that is damaged: the next run ranks what is missing of it.
    """
    from snakemake.cli import main

    from rbp.models.find import find_model
    from rbp.texts.corpora import open_corpus

    with locked(study.out, "another run of this study is at work"):
        for cell in study.cells.values():  # mistakes show before any work, and a cluster's machines need no network
            find_model(cell.model)
            open_corpus(cell.corpus, cell.settings.fields, prompt=cell.settings.prompt)
        arguments = ["--snakefile", HERE / "Snakefile", "--directory", study.out, "--profile", profile, *ALWAYS]
        if profile == HERE / "profiles" / "local":
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000
            arguments += ["--resources", f"mem_mb={memory}", "gpu=1"]
        try:
            main([*map(str, arguments), *extra, "--config", f"study={study.path}"])
        except SystemExit as end:
            if end.code:
                return None
        return write_table(study)


def rank_shard(cell: Cell, number: int, shards: int) -> Path:
    """Rank one share of a cell's packs, the `number`-th from 1, in the study's folder; gives the store's folder."""
    from rbp.extract.extraction import extract, extract_on_gpus, gpus, quiet, say_on_stderr
    from rbp.models.find import find_model

    os.environ["HF_HUB_OFFLINE"] = "1"  # all is downloaded
    say_on_stderr()
    with quiet():
        files = find_model(cell.model)
    name = Path(files.name).name if Path(files.name).is_absolute() else files.name
    work = [replace(files, name=name)], [cell.corpus], cell.protocol, Path("ranks"), cell.settings
    if shards == 1 and cell.settings.device == "cuda" and len(visible := gpus()) > 1:
        extract_on_gpus(*work, visible)
    return extract(*work, (number, shards) if shards > 1 else None)[0]


def write_table(study: Study) -> Path:
    """Write the measurements of a study's stores as Parquet, and as CSV beside it; gives the Parquet file.

    Raises DataError for a store that is damaged; its shards are no longer recorded, so that they run again.
    """
    from rbp.measurements import open_source
    from rbp.store import open_store

    stores = []
    for records in (study.out / "shards" / label for label in study.cells):
        for name in {record.read_text(encoding="utf-8").strip() for record in records.iterdir()}:
            stores.append(study.out / name)
            try:
                problems = open_store(stores[-1]).problems()
            except DataError as error:
                problems = [error.what]
            if problems:
                shutil.rmtree(records)
                raise DataError(problems[0], str(stores[-1]), "Run the study again: it ranks what is missing.")
    table, path = open_source(stores).checkpoints, study.out / "measurements.parquet"
    write_file(path.with_suffix(".csv"), table.to_csv(index=False))
    write_file(path, table.to_parquet(index=False))
    return path
