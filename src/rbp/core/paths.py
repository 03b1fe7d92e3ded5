"""Where the project's folders are: in the checkout, or, of an installed package, what it carries of one."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rbp.core.errors import DataError

_PACKAGE = Path(__file__).resolve().parents[1]
CARRIED = _PACKAGE / "carried"  # a wheel's alone: setup.py copies it there
ROOT = CARRIED if CARRIED.is_dir() else _PACKAGE.parents[1]
DATA = ROOT / "data"
#: what the extras of pyproject.toml bring, by which they are known
EXTRAS: dict[str, tuple[str, ...]] = {"book": ("papermill", "snakemake", "jupyter_book", "typst")}
EXTRAS["live"] = ("starlette", "uvicorn", *EXTRAS["book"])


def label(path: Path) -> str:
    """The name of a file in messages and records: relative to the project where it lies inside it."""
    path = path.resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


@dataclass(frozen=True)
class Project:
    """A book's checkout, by its root folder; tests make small ones of their own.

    home: below which results go; None: the root.
    """

    root: Path = ROOT
    home: Path | None = None

    def whole(self, extra: str | None = None) -> "Project":
        """Itself, for a command that needs the checkout, and an extra of the package. Raises DataError without them."""
        lacks = next((name for name in EXTRAS[extra] if find_spec(name) is None), None) if extra else None
        if lacks is None and self.root != CARRIED:
            return self
        why = f"{lacks} is not installed" if lacks else "rbp is installed without its checkout"
        what = "this command works in a checkout of the project" + (f", with the extra {extra}" if extra else "")
        with_extra = f"'.[{extra}]'" if extra else "."
        raise DataError(what, why, f"In a clone of the project: pip install -e {with_extra}")

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
    def begun(self) -> Path:
        """What the jobs' inputs were when they began."""
        return self.build / "begun"

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
        """What commands make, unless they are told where."""
        return (self.home or self.root) / "runs"


LADDER = DATA / "ladder"
