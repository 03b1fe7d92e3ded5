"""A book's checkout: where its folders are."""

from dataclasses import dataclass
from pathlib import Path

from ladder import DATA as DATA
from ladder import LADDER as LADDER
from ladder import ROOT as ROOT
from rbp.place import Place

CLAIMS = ROOT / "src" / "companion" / "ledger" / "claims.toml"


@dataclass(frozen=True)
class Project:
    """A checkout of a book, by its root folder; tests make small ones.

    home: below which results go; None: the root.
    """

    root: Path = ROOT
    home: Path | None = None

    @classmethod
    def of(cls, place: Place) -> "Project":
        """Return the checkout that a command works in."""
        return cls(place.root or ROOT, place.home or (None if place.root else Path.cwd()))

    def label(self, path: Path) -> str:
        """Name a file in records: relative to the root where it lies inside it, else by its whole path."""
        path, root = path.resolve(), self.root.resolve()
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

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
        """The seconds that each step and chapter took; kept apart from outputs, which are the same every time."""
        return self.build / "times"

    @property
    def inputs(self) -> Path:
        """The checksums of what each built chapter was made from."""
        return self.build / "inputs"

    @property
    def where(self) -> Path:
        """The notes on which statement of each built chapter records what."""
        return self.build / "where"

    @property
    def doctrees(self) -> Path:
        """What Sphinx has read of the pages, in a folder by the code and settings that read it."""
        return self.build / "doctrees"

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
        """The folder of what commands make, unless another is given."""
        return (self.home or self.root) / "runs"
