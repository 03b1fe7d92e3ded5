"""What a study has to do and how far it is: its jobs, how each stands, and which stores can be believed."""

import fcntl
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rbp.core.errors import DataError, RbpError
from rbp.core.files import lock, parse_json, write_json
from rbp.core.paths import DATA
from rbp.ranks.store import Store
from rbp.ranks.training import TABLE as KNOWN
from rbp.study.config import Cell, Study, dataset_name, short_name
from rbp.study.ends import AGAIN, KILLED, remedy_of, slurm_end, slurm_log

Kind = Literal["fetch", "shard", "merge", "table", "chapter", "book"]
Stand = Literal["done", "running", "failed", "left"]

BEAT = 5.0  # seconds between two signs of life
SILENCE = 60.0  # seconds without one, after which a job is taken for dead


@dataclass(frozen=True)
class Job:
    """A job of a study.

    name: unique, and the path of its state and its log below their folders; output: relative to the study's folder.
    """

    kind: Kind
    name: str
    output: str


@dataclass(frozen=True)
class State:
    """How a job stands.

    reason: why it failed, or was done without what it was to make; seconds: it took, or has been running for; where: on
    which machine; remedy: what to do about the reason, where that is known.
    """

    stand: Stand
    reason: str | None = None
    seconds: float | None = None
    where: str | None = None
    remedy: str | None = None


def shard_job(cell: Cell, number: int, count: int) -> Job:
    """The job of the share `number` of `count` of a cell's packs."""
    return Job("shard", f"shards/{cell.name}/{number}-of-{count}", f"shards/{cell.name}/{number}-of-{count}.json")


def merge_job(cell: Cell) -> Job:
    """The job that finishes a cell's store."""
    return Job("merge", f"stores/{cell.name}", f"stores/{cell.name}.json")


TABLE = Job("table", "table", "measurements.parquet")
BOOK = Job(
    "book", "book", "book/made.json"
)  # beside its pages, which Snakemake then leaves alone until it is made anew


def chapter_job(name: str) -> Job:
    """The job that executes a chapter."""
    return Job("chapter", f"chapters/{name}", f"chapters/{name}/results.json")


def chapters_of(study: Study) -> list[str]:
    """The chapters of a study, in the book's order."""
    return sorted([*study.content.chapters, *study.content.rank_chapters])


def without(study: Study, chapter: str) -> str | None:
    """Why a chapter cannot be made from the study's measurements; None if it was made, or not tried yet."""
    said = read_json(study.out / chapter_job(chapter).output) or {}
    return said.get("without")


def fetch_job(name: str) -> Job:
    """The job that downloads a model (`ModelEntry.called`) or a corpus, on the machine that starts the study."""
    slug = name.replace("/", "--")
    return Job("fetch", f"fetched/{slug}", f"fetched/{slug}.json")


def shards_of(study: Study, cell: Cell) -> list[Job]:
    """A cell's shards: as many as its finished store was made by, or as the file asks for."""
    made = read_json(study.out / merge_job(cell).output) or {}
    count = int(made.get("shards", study.content.shards))
    return [shard_job(cell, number, count) for number in range(1, count + 1)]


def to_fetch(study: Study) -> list[str]:
    """The models and corpora that lie on no path of this machine."""
    from rbp.ranks.corpora import CORPORA

    models = [model.called for model in study.models if model.folder is None]
    return models + [corpus.name for corpus in study.corpora if corpus.name in CORPORA]


def all_jobs(study: Study) -> list[Job]:
    """Every job of a study, in the order of the work."""
    jobs = [fetch_job(name) for name in to_fetch(study)]
    for cell in study.cells:
        jobs += [*shards_of(study, cell), merge_job(cell)]
    return [*jobs, TABLE, *map(chapter_job, chapters_of(study)), BOOK]


def bundles_file(study: Study) -> Path:
    """What `rbp.study.plan.bundles` gave when the study was run last."""
    return study.out / "bundles.json"


def log_file(study: Study, job: Job) -> Path:
    """Where all that a job says is kept, of every attempt."""
    return study.out / "logs" / f"{job.name}.log"


def _state_file(study: Study, job: Job) -> Path:
    return study.out / "state" / f"{job.name}.json"


def state(study: Study, job: Job) -> State:
    """How a job stands now."""
    path = _state_file(study, job)
    told = read_json(path) or {}
    if (study.out / job.output).is_file():
        return State("done", told.get("without"), told.get("seconds"), told.get("host"))
    if not told:
        return State("left")
    reason, remedy = told.get("failed"), told.get("remedy")
    if reason is None:
        if "seconds" in told:  # it ended well, and its output was taken away: found damaged, or stale
            return State("left")
        if _alive(path, told):
            return State("running", seconds=time.time() - told["started"], where=told["host"])
        gone = time.strftime("%H:%M:%S", time.localtime(_beaten(path)))
        reason, remedy = f"killed, or its machine went down: no sign of life since {gone}", KILLED
    if "slurm" in told and remedy in (AGAIN, KILLED):  # it did not end by itself, and Slurm may know why
        reason, remedy = slurm_end(slurm_log(study.out, told["slurm"])) or (reason, remedy)
    return State("failed", reason, told.get("seconds"), told.get("host"), remedy)


def _alive(path: Path, told: dict[str, Any]) -> bool:
    if told["host"] == socket.gethostname() and not Path(f"/proc/{told['pid']}").exists() and Path("/proc/1").exists():
        return False
    return time.time() - _beaten(path) < SILENCE


def _beaten(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


@contextmanager
def told(study: Study, job: Job) -> Iterator[dict[str, Any]]:
    """Tell how `job` stands while the body works: that it runs, and how it ended; what the body adds is told too.

    A second run of the same job waits until the first has ended: it then finds the work done. (Another node sees the
    first one's lock only where the file system passes locks on; elsewhere both do the work, to the same result.)
    """
    path = _state_file(study, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a+") as stream:
        lock(stream, fcntl.LOCK_EX)
        started = time.time()
        about: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "started": started}
        if "SLURM_JOB_ID" in os.environ:
            about["slurm"] = os.environ["SLURM_JOB_ID"]
        write_json(path, about)
        ended = threading.Event()
        beat = threading.Thread(target=_beat, args=(path, ended), daemon=True)
        beat.start()
        try:
            yield about
        except BaseException as error:
            about |= {"failed": reason(error), "remedy": remedy_of(error)}
            raise
        finally:
            ended.set()
            beat.join()
            write_json(path, {**about, "seconds": round(time.time() - started, 3)})


def _beat(path: Path, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        try:
            os.utime(path)
        except OSError:  # the study's folder was removed: the job itself will say so
            return


def reason(error: BaseException) -> str:
    """Why a job ended, in one line."""
    if isinstance(error, SystemExit):
        return "stopped" if error.code == 143 else f"exit {error.code}"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, RbpError):
        return f"{error.what}" + (f" ({error.where})" if error.where else "")
    return " ".join(str(error).split()) or type(error).__name__


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None if there is none, or it is no JSON object."""
    try:
        value = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class CellProgress:
    """How far a cell is: packs that are there, of how many (0: not known), tokens of all, and whether it is whole."""

    done: int = 0
    packs: int = 0
    tokens: int | None = None
    whole: bool = False


def model_label(cell: Cell) -> str:
    """What a rank store calls the cell's model: the hub id, or the name of its folder."""
    return short_name(cell.model.name) if Path(cell.model.name).is_absolute() else cell.model.name


def progress(study: Study, cell: Cell) -> CellProgress:
    """How far a cell is, by the names of the files that are there; `freshen` is what looks into them."""
    folder = _folder(study, cell)
    if folder is None:
        return CellProgress()
    manifest = Store(folder).manifest
    there = {path.name.split("-")[0] for path in (folder / "parts").glob("[0-9]*.parquet")}
    whole = manifest["complete"] and (study.out / merge_job(cell).output).is_file()
    return CellProgress(len(there), manifest["packs"], manifest["tokens"], whole)


def finished_store(study: Study, cell: Cell) -> Store:
    """The store of a cell that is done. Raises DataError if it is not."""
    job = merge_job(cell)
    said = read_json(study.out / job.output)
    if said is None:
        raise DataError(f"{job.name} is not done yet", str(study.out), "Do it first: rbp study run.")
    return Store(study.ranks / said["store"])


def _folder(study: Study, cell: Cell) -> Path | None:
    """The store of a cell: as its jobs say, or, where none has ended yet, by what the manifests say."""
    for job in (merge_job(cell), *shards_of(study, cell)):
        said = read_json(study.out / job.output)
        if said is not None and (study.ranks / said["store"] / "manifest.json").is_file():
            return Path(study.ranks / said["store"])
    of = model_label(cell), cell.model.revision, dataset_name(cell.corpus.name)
    wanted = *of, study.protocol.as_dict(), study.content.dtype
    for path in sorted(study.ranks.glob("*/manifest.json")):
        try:
            manifest = Store(path.parent).manifest
        except DataError:
            continue
        about, key = manifest["about"], manifest["key"]
        if (about["model"], about.get("revision"), about["dataset"], key["protocol"], key["dtype"]) == wanted:
            return path.parent
    return None


def stamp(cell: Cell) -> dict[str, Any]:
    """The sizes and times of the local files that a cell is made from, and what the study says of its training.

    Whether they may have changed.
    """
    model, corpus = cell.model.folder, Path(cell.corpus.name)
    files = [path for path in sorted(model.iterdir()) if path.is_file()] if model else []
    files += [model.parent / KNOWN] if model else []
    files += [corpus if corpus.is_absolute() else DATA / "ladder" / "documents.csv"]
    found = {path.name: path.stat() for path in files if path.is_file()}
    said = cell.model.training
    stated = {"training": said.known} if said else {}
    return {name: [it.st_size, it.st_mtime_ns] for name, it in found.items()} | stated


def freshen(study: Study) -> list[str]:
    """Take away what says that work is done which is not there, or not any more; gives a line for each.

    Every part of every store of the study is read and compared with its checksum.
    """
    lines = []
    for cell in study.cells:
        merged = study.out / merge_job(cell).output
        outputs = [study.out / job.output for job in shards_of(study, cell)]
        said = read_json(merged)
        if said is not None and said.get("stamp") == stamp(cell) and _is_whole(study.ranks / said["store"]):
            continue
        if merged.is_file():
            merged.unlink()
            lines.append(f"{cell.label}: the store is not as it was: what is missing is measured again")
        whole: dict[str, set[int]] = {}
        for path in filter(Path.is_file, outputs):
            said = read_json(path) or {}
            name = str(said.get("store"))
            if name not in whole:
                whole[name] = set(Store(study.ranks / name).parts()[0])
            if said.get("stamp") != stamp(cell) or not set(said["packs"]) <= whole[name]:
                path.unlink()
                lines.append(f"{cell.label}, shard {path.stem}: not as it was, so it is looked at again")
    return lines


def _is_whole(folder: Path) -> bool:
    store = Store(folder)
    try:
        manifest = store.manifest
    except DataError:
        return False
    return bool(manifest["complete"]) and {path.name for path in store.parts()[0].values()} == set(manifest["parts"])


def marker(cell: Cell, folder: Path, packs: list[int], **more: Any) -> dict[str, Any]:
    """What a finished job says: where the ranks are, which packs, and what they were made from."""
    return {"cell": cell.label, "store": folder.name, "packs": packs, "stamp": stamp(cell), **more}
