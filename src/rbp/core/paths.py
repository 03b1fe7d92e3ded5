"""Where the project's folders are: the package is installed from its checkout, beside data and notebooks."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "data"


def label(path: Path) -> str:
    """The name of a file in messages and records: relative to the project where it lies inside it."""
    path = path.resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


@dataclass(frozen=True)
class Project:
    """A book's checkout, by its root folder; tests make small ones of their own."""

    root: Path = ROOT

    @property
    def notebooks(self) -> Path:
        """The chapters, without outputs."""
        return self.root / "notebooks"

    @property
    def book(self) -> Path:
        """The pages written by hand."""
        return self.root / "book"

    @property
    def build(self) -> Path:
        """Everything that `rbp book` makes."""
        return self.root / "_build"

    @property
    def chapters(self) -> Path:
        """The executed chapters of the book, a folder each."""
        return self.build / "chapters"

    @property
    def steps(self) -> Path:
        """The tables of the workflow's steps."""
        return self.build / "steps"

    @property
    def times(self) -> Path:
        """How long each step and each chapter took: no part of their outputs, which are the same every time."""
        return self.build / "times"

    @property
    def html(self) -> Path:
        """The built book."""
        return self.build / "html"

    @property
    def results(self) -> Path:
        """The merged results of the built book."""
        return self.build / "results.json"

    @property
    def expected(self) -> Path:
        """The accepted results."""
        return self.root / "data" / "expected" / "results.json"

    @property
    def runs(self) -> Path:
        """The chapters executed by `rbp run`."""
        return self.root / "runs"


LADDER = DATA / "ladder"
