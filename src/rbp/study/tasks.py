"""The work of a study's jobs, each whole or not at all, and each without effect where it is done already."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rbp.core.errors import DataError, FitError, ParameterError, RbpError
from rbp.core.files import folder_beside, lock, swap_in, write_file, write_json
from rbp.core.paths import Project
from rbp.ranks.store import Store
from rbp.study.config import Cell, Study
from rbp.study.jobs import (
    TABLE,
    Job,
    all_jobs,
    bundles_file,
    fetch_job,
    finished_store,
    log_file,
    marker,
    merge_job,
    model_label,
    read_json,
    reason,
    shards_of,
    stamp,
    state,
    told,
)


def folder() -> Path:
    """Where this machine keeps the locks of this user."""
    return Path(tempfile.gettempdir()) / f"rbp-gpus-{os.getuid()}"


@contextmanager
def one_of(gpus: Sequence[str], place: Path | None = None) -> Iterator[str]:
    """Wait until one of `gpus` (as `CUDA_VISIBLE_DEVICES` names them) is free, and hold it.

    The system lets go of it when the process ends, however it ends. place: of the locks, `folder` by default.
    """
    place = place or folder()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        for gpu in gpus:
            with (place / f"gpu-{gpu}.lock").open("a+") as stream:
                if lock(stream) is False:
                    continue
                yield gpu
                return
        time.sleep(0.2)


def run(study: Study, project: Project, name: str, device: str, gpus: Sequence[str] = ()) -> None:
    """Do the job `name` of a study, or the shards of a bundle. What it says goes to its log, and why it failed.

    device: for shards; gpus: those that they share without a scheduler. Raises ParameterError for an unknown name.
    """
    jobs = {job.name: job for job in all_jobs(study)}
    bundle = (read_json(bundles_file(study)) or {}).get(name)
    if name not in jobs and bundle is None:
        raise ParameterError(f'the study has no job "{name}"', str(study.path), "See rbp study status.")
    errors = os.dup(2)

    def work(job: Job) -> None:
        _logged(study, job, errors, lambda about: _work(study, project, job, device, gpus, about))

    if bundle is None:
        work(jobs[name])
        return
    failed: RbpError | None = None
    stands = [(job, state(study, job).stand) for job in map(jobs.__getitem__, bundle["shards"])]
    # one that failed before comes last: should it end the process, or leave a GPU unusable, the others are done
    for job, stand in sorted(stands, key=lambda one: one[1] != "left"):
        try:
            if stand != "done":
                work(job)
        except RbpError as error:  # the others can do without it
            failed = error
    if failed:
        raise failed
    write_json(study.out / f"{name}.json", {"shards": bundle["shards"]})


def _logged(study: Study, job: Job, errors: int, work: Callable[[dict[str, Any]], None]) -> None:
    """Do a job, with all that it says in its log; the reason if it fails goes to the descriptor `errors` too."""
    log = log_file(study, job)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    node = os.uname().nodename + (f", Slurm job {os.environ['SLURM_JOB_ID']}" if "SLURM_JOB_ID" in os.environ else "")
    _say(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} on {node}, process {os.getpid()}")
    try:
        with told(study, job) as about:
            work(about)
    except BaseException as error:
        _say(f"error: {error if isinstance(error, RbpError) else reason(error)}")  # with the remedy
        os.write(errors, f"{job.name}: {reason(error)} (log: {log})\n".encode())
        raise


def _work(study: Study, project: Project, job: Job, device: str, gpus: Sequence[str], about: dict[str, Any]) -> None:
    if job.kind == "fetch":
        _fetch(study, job)
    elif job.kind == "shard":
        cell = next(cell for cell in study.cells if job in shards_of(study, cell))
        with one_of(gpus) if gpus else nullcontext("") as gpu:
            if gpu:
                os.environ["CUDA_VISIBLE_DEVICES"] = gpu
            if "CUDA_VISIBLE_DEVICES" in os.environ:  # given by us, or by Slurm
                about["gpu"] = os.environ["CUDA_VISIBLE_DEVICES"]
                _say(f"GPU {about['gpu']}")
            _shard(study, cell, job, device)
    elif job.kind == "merge":
        _merge(study, next(cell for cell in study.cells if job == merge_job(cell)))
    elif job.kind == "table":
        _table(study)
    elif job.kind == "chapter":
        _chapter(study, project, Path(job.name).name, about)
    else:
        from rbp.study.report import make_book

        make_book(study, project)


def _fetch(study: Study, job: Job) -> None:
    """Download a model, or a corpus, and note the commit: all shards take that one."""
    from rbp.ranks.corpora import open_corpus
    from rbp.ranks.models import find_model

    model = next((model for model in study.models if fetch_job(model.called) == job), None)
    if model is not None:
        commit = find_model(model.name, model.revision).revision
    else:
        corpus = next(corpus for corpus in study.corpora if fetch_job(corpus.name) == job)
        commit = open_corpus(corpus.name).fingerprint["revision"]
    write_json(study.out / job.output, {"revision": commit})


def _shard(study: Study, cell: Cell, job: Job, device: str) -> None:
    """Measure a share of a cell's packs into the cell's store."""
    os.environ["OMP_NUM_THREADS"] = str(study.content.threads)  # before PyTorch is imported
    import torch

    from rbp.ranks.extraction import Settings, extract, quiet
    from rbp.ranks.models import find_model

    torch.set_num_threads(study.content.threads)  # in a warm process it is there already

    _log_lines()
    number, count = (int(word) for word in Path(job.name).name.split("-of-"))
    made_from, start = stamp(cell), time.monotonic()
    fetched = read_json(study.out / fetch_job(cell.model.called).output) or {}
    settings = Settings(
        dtype=study.content.dtype,
        device=device,
        backend=study.content.backend,
        vocabulary=study.content.vocabulary,
        fields=tuple(cell.corpus.fields),
        family=cell.model.family,
        training=cell.model.training,
    )
    with quiet():
        found = find_model(cell.model.name, fetched.get("revision", cell.model.revision))
    files = replace(found, name=model_label(cell), checkpoint=cell.model.revision)
    (folder,) = extract([files], [cell.corpus.name], study.protocol, study.ranks, settings, (number, count))
    packs = list(range(number - 1, Store(folder).manifest["packs"], count))
    seconds = round(time.monotonic() - start, 3)
    write_json(
        study.out / job.output,
        marker(cell, folder, packs, seconds=seconds) | {"stamp": made_from},
    )


def _merge(study: Study, cell: Cell) -> None:
    """Finish a cell's store, once every pack is there and whole. Raises DataError if one is not."""
    shards = shards_of(study, cell)
    said = [read_json(study.out / job.output) or {} for job in shards]
    if undone := [job.name for job, one in zip(shards, said, strict=True) if not one]:
        raise DataError(f"{undone[0]} is not done yet", str(study.out), "Do the shards first: rbp study run.")
    stores = sorted({str(one["store"]) for one in said})
    again = "Run the study again: what is missing is measured, and nothing else."
    try:
        if len(stores) > 1:
            what = f"the shards measured different things: {stores[0]} and {stores[1]}"
            raise DataError(what, str(study.ranks), f"Their manifests say what differs. {again}")
        store = Store(study.ranks / stores[0])
        whole, _ = store.parts()
        packs = store.manifest["packs"]
        if missing := sorted(set(range(packs)) - whole.keys()):
            what = f"pack {missing[0]} is missing or damaged" + (
                f", and {len(missing) - 1} more" if missing[1:] else ""
            )
            raise DataError(what, str(store.folder), again)
        if store.checked() is None:
            raise DataError("no row of some packs was ranked again to prove them", str(store.folder), again)
    except DataError:
        for job in shards:
            (study.out / job.output).unlink(missing_ok=True)
        raise
    try:
        with store.lock():  # no run is left that writes: what a killed one left half-written can go
            store.clear()
            for path in store.parts()[1]:
                _say(f"removed: {path.name} is damaged, or a second time there")
                path.unlink()
            store.finish({})
    except DataError as error:
        if "another run" not in error.what:
            raise
        store.finish({})
    done = marker(cell, store.folder, list(range(packs)), shards=len(shards), tokens=store.manifest["tokens"])
    write_json(study.out / merge_job(cell).output, done | {"stamp": said[0]["stamp"]})


def _table(study: Study) -> None:
    """Write the measurement table of all stores, as Parquet and as CSV, and the folder `finished` of links to them."""
    from rbp.evidence import open_source

    folders = [finished_store(study, cell).folder for cell in study.cells]
    table = open_source(folders).checkpoints
    links = study.out / "finished"
    links.mkdir(exist_ok=True)
    for link in links.iterdir():
        link.unlink()
    for folder in folders:
        (links / folder.name).symlink_to(Path("..") / study.ranks.name / folder.name)
    write_file((study.out / TABLE.output).with_suffix(".csv"), table.to_csv(index=False))
    write_file(study.out / TABLE.output, table.to_parquet(index=False))


def _chapter(study: Study, project: Project, name: str, about: dict[str, Any]) -> None:
    """Execute a chapter of the book on what the study measured.

    Where these measurements cannot carry it, the job is done without the chapter, and says why: the others, and the
    book, do not wait for it.
    """
    from rbp.book.chapters import execute, find
    from rbp.book.standalone import render_chapter

    of_ranks = name in study.content.rank_chapters
    source = study.out / ("finished" if of_ranks else TABLE.output)
    found = find(project, name)
    values = found.parse([f"measurements={source}"])
    folder = study.out / "chapters" / name
    try:
        execute(found, values, folder, project.root, finish=lambda new: render_chapter(project, found, new))
    except (DataError, FitError, ParameterError) as error:
        about["without"] = reason(error)
        _say(f"done without the chapter: {error}")
        with folder_beside(folder) as new:
            write_json(new / "results.json", {"chapter": name, "without": about["without"]})
            swap_in(new, folder)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _log_lines() -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("rbp").setLevel(logging.INFO)
