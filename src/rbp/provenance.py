"""Note what is read while a chapter or a step runs, to compare it with what the chapter declares.

Every reader notes its files. Each kernel runs one chapter, so what a process notes is that chapter's; what stands
inside `recording` is noted apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Reads:
    """The files that were read, the steps whose tables were read, and the folders that were written (outputs)."""

    files: set[Path] = field(default_factory=set)
    steps: set[str] = field(default_factory=set)
    outputs: set[Path] = field(default_factory=set)


_OF_THE_PROCESS = Reads()
_reads: ContextVar[Reads] = ContextVar("reads", default=_OF_THE_PROCESS)


def note(*paths: Path) -> None:
    """Note that these files were read, but for files that this process made itself."""
    reads = _reads.get()
    absolute = [path.resolve() for path in paths]
    reads.files.update(path for path in absolute if not any(map(path.is_relative_to, reads.outputs)))


def note_output(folder: Path) -> None:
    """Note that this process writes a folder: its files are no inputs when they are read again."""
    noted().outputs.add(folder.resolve())


def note_step(name: str) -> None:
    """Note that the table of a step was read."""
    noted().steps.add(name)


def noted() -> Reads:
    """Return what has been read so far: in the innermost `recording`, else in this process."""
    return _reads.get()


@contextmanager
def recording() -> Iterator[Reads]:
    """Record what is read inside, and nothing else; it is not noted outside."""
    reads = Reads()
    token = _reads.set(reads)
    try:
        yield reads
    finally:
        _reads.reset(token)
