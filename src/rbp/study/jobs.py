"""What a study has to do, and how far it is: a job, its output, its log, and a small file that says how it stands.

A job that runs renews the time of its state file every few seconds, so that whoever asks, on whatever machine, can tell
it from one that was killed. Whether work is done is never taken from there: it is done when its output is there.
"""

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

from rbp.errors import RbpError
from rbp.files import lock, parse_json, write_json
from rbp.study.file import Cell, Study

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
    """How a job stands. reason: why it failed; seconds: it took, or has been running for; where: on which machine."""

    stand: Stand
    reason: str | None = None
    seconds: float | None = None
    where: str | None = None


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


def fetch_job(study: Study, name: str) -> Job:
    """The job that downloads a model or a corpus, on the machine that starts the study."""
    slug = name.replace("/", "--")
    return Job("fetch", f"fetched/{slug}", f"fetched/{slug}.json")


def shards_of(study: Study, cell: Cell) -> list[Job]:
    """A cell's shards: as many as its finished store was made by, or as the file asks for."""
    made = read_json(study.out / merge_job(cell).output) or {}
    count = int(made.get("shards", study.content.shards))
    return [shard_job(cell, number, count) for number in range(1, count + 1)]


def to_fetch(study: Study) -> list[str]:
    """The models and corpora that lie on no path of this machine."""
    from rbp.extraction.corpora import CORPORA

    models = [model.name for model in study.models if not Path(model.name).is_absolute()]
    return models + [corpus.name for corpus in study.corpora if corpus.name in CORPORA]


def all_jobs(study: Study) -> list[Job]:
    """Every job of a study, in the order of the work."""
    jobs = [fetch_job(study, name) for name in to_fetch(study)]
    for cell in study.cells:
        jobs += [*shards_of(study, cell), merge_job(cell)]
    return [*jobs, TABLE, *map(chapter_job, chapters_of(study)), BOOK]


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
        return State("done", seconds=told.get("seconds"), where=told.get("host"))
    if not told:
        return State("left")
    if "failed" in told:
        return State("failed", told["failed"], told.get("seconds"), told.get("host"))
    if "seconds" in told:  # it ended well, and its output was taken away: found damaged, or stale
        return State("left")
    if _alive(path, told):
        return State("running", seconds=time.time() - told["started"], where=told["host"])
    gone = time.strftime("%H:%M:%S", time.localtime(_beaten(path)))
    return State("failed", f"killed, or its machine went down: no sign of life since {gone}", where=told["host"])


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
            about["failed"] = reason(error)
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
