"""Queue the runs of chapters that readers request, on disk, each run in its own process.

A run is a folder with a random name: run.json (the request and its state), log.txt (the output of its process), page/
(the executed chapter, once it is whole). Finished runs outlast the server; runs that it cut off say so.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from companion.project import Project
from rbp.errors import ParameterError, RbpError
from rbp.io import label, lock, parse_json, write_json
from rbp.processes import cores, end_with

State = Literal["waiting", "running", "done", "failed", "cancelled", "cut off"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "cut off")
ID = re.compile(r"[0-9a-f]{12}")
CELL = re.compile(r"^cell (\d+) of (\d+)", re.MULTILINE)
GRACE = 10.0  # seconds that a process has to end by itself
LOG = 20_000  # characters of a log that are shown


@dataclass(frozen=True)
class Run:
    """A requested run of a chapter with some parameters. Times are seconds since 1970, in UTC; None where not reached.

    name: as the reader calls it; words: its parameters, for the reader; key: of all that its outcome depends on.
    """

    id: str
    chapter: str
    parameters: Mapping[str, Any]
    state: State
    requested: float
    started: float | None = None
    ended: float | None = None
    message: str = ""
    name: str = ""
    words: str = ""
    key: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the run for JSON."""
        return {**asdict(self), "when": datetime.fromtimestamp(self.requested, UTC).strftime("%Y-%m-%d %H:%M UTC")}


class Runs:
    """The runs in a folder. Executes as many at a time as there are pairs of cores, in the order of the requests.

    limit: seconds after which a run stops; most: how many may wait; command: what is started, with three arguments
    more: the limit, this process's id and the run's folder (see `execute`).
    """

    def __init__(
        self,
        project: Project,
        *,
        limit: float = 900.0,
        most: int = 20,
        at_once: int | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.project, self.folder = project, project.runs / "live"
        self.limit, self.most = limit, most
        self.command = command or (sys.executable, "-m", "rbp.cli", "--root", str(project.root), "_live")
        self._known: dict[str, Run] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._cancelled: set[str] = set()
        self._changed = threading.Condition()
        self._closing = False
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".lock").open("a")  # another server would take our runs for those of a dead one
        if lock(self._lock) is False:
            self._lock.close()
            raise RbpError(
                "another `rbp serve` uses this project's runs", label(self.folder), "Use it, or stop it first."
            )
        self._find()
        self._workers = [
            threading.Thread(target=self._work, daemon=True) for _ in range(at_once or max(1, cores() // 2))
        ]
        for worker in self._workers:
            worker.start()

    def _find(self) -> None:
        """Load the runs in the folder: waiting ones stay in the queue, running ones were cut off."""
        for path in sorted(self.folder.glob("*/run.json")):
            try:
                run = Run(**parse_json(path.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # another version's, or damaged: it stays on disk, and is not shown
            if run.id != path.parent.name or not ID.fullmatch(run.id):
                continue
            self._known[run.id] = run
            if run.state == "running":
                self._keep(self._cut_off(run))

    def _cut_off(self, run: Run) -> Run:
        """Decide the state of a run whose server ended: its page may exist, or its process have reported an error."""
        if (self.folder / run.id / "page").is_dir():
            return replace(run, state="done")
        if error := _last_error(self.log(run.id)):
            return replace(run, state="failed", message=error)
        return replace(run, state="cut off", message="The server ended while this ran. Run it again.")

    def all(self) -> list[Run]:
        """List all runs, the latest first."""
        with self._changed:
            return sorted(self._known.values(), key=lambda run: -run.requested)

    def get(self, name: str) -> Run:
        """Return the run of this name, which is no path. Raises ParameterError if there is none."""
        with self._changed:
            if name not in self._known:
                raise ParameterError("there is no such run", None, "It may have been deleted.")
            return self._known[name]

    def ask(
        self, chapter: str, parameters: Mapping[str, Any], *, name: str = "", words: str = "", key: str = ""
    ) -> Run:
        """Put a run into the queue, or return the run with this key. Raises ParameterError if too many wait already."""
        with self._changed:
            for run in self._known.values():
                if run.key and run.key == key and run.state in ("waiting", "running", "done"):
                    return run
            if sum(run.state == "waiting" for run in self._known.values()) >= self.most:
                raise ParameterError(f"{self.most} runs are waiting already", None, "Wait for them, or cancel some.")
            run = Run(secrets.token_hex(6), chapter, dict(parameters), "waiting", time.time())
            run = replace(run, name=name, words=words, key=key)
            write_json(self.folder / run.id / "run.json", asdict(run))  # what its process reads: without it, no run
            self._known[run.id] = run
            self._changed.notify()
            return run

    def cancel(self, name: str) -> Run:
        """Take a run out of the queue, or stop it; one that has ended stays as it is."""
        with self._changed:
            run = self.get(name)
            if run.state == "waiting":
                self._keep(replace(run, state="cancelled", ended=time.time()))
            elif run.state == "running":
                self._cancelled.add(name)
                if process := self._processes.get(name):
                    process.terminate()
            return self._known[name]

    def delete(self, name: str) -> None:
        """Remove a run that has ended, and all that it wrote. Raises ParameterError for another."""
        with self._changed:
            if self.get(name).state not in ENDED:
                raise ParameterError("this run has not ended", None, "Cancel it first.")
            del self._known[name]
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def path(self, name: str) -> Path:
        """Return the folder of a run. Raises ParameterError if there is none."""
        return self.folder / self.get(name).id

    def page(self, name: str) -> Path:
        """Return the folder of a finished run's page. Raises ParameterError if it has none."""
        if self.get(name).state != "done":
            raise ParameterError("this run has no page", None, "Only a run that is done has one.")
        return self.path(name) / "page"

    def log(self, name: str) -> str:
        """Read the end of what a run's process has printed."""
        path = self.path(name) / "log.txt"
        if not path.is_file():
            return ""
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - LOG))
            return stream.read(LOG).decode("utf-8", "replace")

    def progress(self, name: str) -> tuple[int, int] | None:
        """Return the number of the cell that is executed now, and how many there are; None before the first."""
        cells = CELL.findall(self.log(name))
        return (int(cells[-1][0]), int(cells[-1][1])) if cells else None

    def close(self) -> None:
        """Stop the runs in progress; waiting ones wait until the next start."""
        with self._changed:
            self._closing = True
            for process in self._processes.values():
                process.terminate()
            self._changed.notify_all()
        for worker in self._workers:
            worker.join(GRACE + 5)
        self._lock.close()

    def _keep(self, run: Run) -> None:
        """Record a run's state, in memory before on disk: a full disk must not end the thread that executes."""
        self._known[run.id] = run
        with suppress(OSError):
            write_json(self.folder / run.id / "run.json", asdict(run))

    def _work(self) -> None:
        """Execute the waiting runs, one after the other."""
        while (run := self._next()) is not None:
            try:
                ended = self._execute(run)
            except OSError as error:  # a full disk, say
                ended = replace(run, state="failed", message=str(error))
            with self._changed:
                self._processes.pop(run.id, None)
                self._cancelled.discard(run.id)
                self._keep(replace(ended, ended=time.time()))

    def _next(self) -> Run | None:
        with self._changed:
            while not self._closing:
                waiting = [run for run in self._known.values() if run.state == "waiting"]
                if waiting:
                    first = min(waiting, key=lambda run: run.requested)
                    self._keep(replace(first, state="running", started=time.time()))
                    return self._known[first.id]
                self._changed.wait()
            return None

    def _execute(self, run: Run) -> Run:
        folder = self.folder / run.id
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                [*self.command, str(self.limit), str(os.getpid()), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.project.root,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
            with self._changed:
                self._processes[run.id] = process
                if self._closing or run.id in self._cancelled:  # cancelled before the process existed
                    process.terminate()
            code = process.wait()  # it knows its limit
            with suppress(ProcessLookupError):  # of what it has left in its session; its kernel ends with it
                os.killpg(process.pid, signal.SIGKILL)
        if code == 0:
            return replace(run, state="done")
        if run.id in self._cancelled:
            return replace(run, state="cancelled")
        if self._closing:
            return self._cut_off(run)
        why = _last_error(self.log(run.id)) or f"The process ended with status {code}."
        return replace(run, state="failed", message=why)


def _last_error(log: str) -> str:
    """Return the last error that a process printed; "" if there is none."""
    return log.rpartition("error: ")[2].strip() if "error: " in log else ""


def limit_process(limit: float, server: int) -> None:
    """End this process after `limit` seconds, and with the process `server`, its parent, however that ends.

    It exits, so that nothing is left half-written. Should that take longer than GRACE, the system ends it.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        if number == signal.SIGALRM:
            os.write(2, f"error: Stopped after {limit / 60:g} minutes.\n".encode())
        sys.exit(128 + number)

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    end_with(server)


def compare_runs(project: Project, folders: Sequence[Path], page: Path) -> None:
    """Write the page that compares the runs in `folders`. Raises what `companion.execute.comparison.compare` raises."""
    from companion.execute import run as chapters
    from companion.execute.comparison import compare

    end_with(os.getppid())
    every = [json.loads((folder / "run.json").read_bytes()) for folder in folders]
    if len({request["chapter"] for request in every}) > 1:
        raise ParameterError("these are runs of several chapters", None, "Choose runs of one.")
    compare(chapters.find(project, every[0]["chapter"]), [request["parameters"] for request in every], page)


def execute(project: Project, limit: float, server: int, folder: Path) -> None:
    """Execute the run in `folder` (a process of `Runs`): prints each cell as it begins, writes page/ in the end.

    limit, server: as `limit_process` takes them. Raises what `companion.execute.run.execute` raises.
    """
    limit_process(limit, server)
    from companion.execute import parameters
    from companion.execute import run as chapters
    from companion.execute.needs import check_sources
    from companion.render.standalone import execute_with_page

    request = json.loads((folder / "run.json").read_bytes())
    chapter = chapters.find(project, request["chapter"])
    values = parameters.check(chapter.parameters, request["parameters"], chapter.name)
    check_sources(chapter, values)

    def report_cell(cell: int, of: int) -> None:
        print(f"cell {cell} of {of}", flush=True)  # noqa: T201

    execute_with_page(project, chapter, values, folder / "page", project.root, report_cell)
    print("the page is made", flush=True)  # noqa: T201
