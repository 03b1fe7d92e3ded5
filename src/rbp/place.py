"""The folders that a command works in."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """The folder of results, and the checkout that commands of other packages work in.

    root: another checkout than their own; home: below which results go, by default the root, else the working folder.
    """

    root: Path | None = None
    home: Path | None = None

    @property
    def runs(self) -> Path:
        """Return the folder of results, unless commands are given another."""
        return (self.home or self.root or Path.cwd()) / "runs"
