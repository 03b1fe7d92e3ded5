"""Run tasks in several processes at once; one that fails or dies is reported, and the others go on."""

import math
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from rbp.errors import RbpError

Tell = Callable[[str], None]
DONE = "done"


class Task(NamedTuple):
    """work: a function of a module, called as work(tell, *arguments) in a process of its own; tell takes a line."""

    name: str
    work: Callable[..., None]
    arguments: tuple[Any, ...]


def run_tasks(jobs: Sequence[Task], at_once: int, show: Callable[[str, str], None]) -> dict[str, RbpError | str]:
    """Run all jobs, the first ones first; gives what went wrong by the job's name.

    show: called with a job's name and each line that it tells. Leaving by an exception ends all processes.
    """
    context = get_context("spawn")
    waiting, failed = deque(jobs), dict[str, RbpError | str]()
    running: dict[Connection, tuple[Task, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.popleft()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(os.getpid(), sender, job), daemon=True)
                process.start()
                sender.close()  # so that the end of the process is the end of what it tells
                running[receiver] = job, process
            ready: list[Any] = wait(list(running))
            for receiver in ready:
                job, process = running[receiver]
                try:
                    messages = receiver.recv()
                except (EOFError, OSError):
                    del running[receiver]
                    process.join()
                    if process.exitcode and job.name not in failed:
                        failed[job.name] = _ended(process.exitcode)
                    continue
                if isinstance(messages, RbpError):
                    failed[job.name] = messages
                else:
                    show(job.name, messages)
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.join()
    return failed


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ended(code: int) -> str:
    return f"its process was ended by signal {-code}" if code < 0 else f"its process failed: exit {code}"


def _work(parent: int, messages: Connection, job: Task) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    try:
        job.work(_sparing(messages.send), *job.arguments)
    except RbpError as error:
        messages.send(error)
        sys.exit(2)


def _sparing(send: Tell) -> Tell:
    """Limit `send` to two lines a second, but for the last one."""
    last = -math.inf

    def messages(line: str) -> None:
        nonlocal last
        if line == DONE or time.monotonic() - last >= 0.5:
            last = time.monotonic()
            send(line)

    return messages


def end_with(parent: int, number: int = signal.SIGTERM) -> None:
    """Send this process a signal when its parent, the process of this id, has ended, however it ended.

    A parent that is killed cannot end its processes: they would go on, and hold their locks. So a thread here looks for
    it. Linux has a signal of its own (PR_SET_PDEATHSIG), which comes as soon as the thread ends that started a process.
    """

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os.kill(os.getpid(), number)

    threading.Thread(target=look, daemon=True).start()


@contextmanager
def board() -> Iterator[Callable[[str, str], None]]:
    """Show the last line of each job: lines that renew themselves on a terminal; elsewhere one each half minute.

    The last line of all stays on a terminal, and is written elsewhere.
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        lines: dict[str, str] = {}
        with Live(console=Console(stderr=True), auto_refresh=False) as live:

            def renew(name: str, line: str) -> None:
                lines[name] = f"{name}  {line}"
                live.update(Text("\n".join(lines.values())), refresh=True)

            yield renew
        return
    last: dict[str, float] = {}
    waiting: dict[str, str] = {}

    def print_(name: str, line: str) -> None:
        now, waiting[name] = time.monotonic(), f"{name}  {line}"
        if line == DONE or now - last.get(name, -30.0) >= 30:
            last[name] = now
            print(waiting.pop(name), file=sys.stderr, flush=True)  # noqa: T201

    yield print_
    for line in waiting.values():
        print(line, file=sys.stderr, flush=True)  # noqa: T201
