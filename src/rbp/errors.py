"""A small hierarchy of errors: each says what was wrong, where, and what to do about it."""

from pathlib import Path

DISTRIBUTION = "rbp-ranks"  # on PyPI, where `rbp` is another project's; imports and commands are called rbp


class RbpError(Exception):
    """An error that a user can mend.

    ``what`` was wrong, ``where`` (a file, a row, a parameter) and the ``remedy``; printed in one or two lines.
    """

    def __init__(self, what: str, where: str | None = None, remedy: str | None = None) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        place = f" ({where})" if where else ""
        super().__init__(f"{what}{place}" + (f"\n{remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[type["RbpError"], tuple[str, str | None, str | None]]:
        return type(self), (self.what, self.where, self.remedy)


class DataError(RbpError):
    """A data file is missing, malformed, or says something impossible."""


class ParameterError(RbpError):
    """A name or a value given by the user does not exist or is not allowed."""


class FitError(RbpError):
    """The points given do not allow the requested fit."""


class ChapterError(RbpError):
    """A chapter cannot be found, declared or executed as it stands."""


class RankError(RbpError):
    """A row of logits carries no order or no probability: ``row`` says which (0 is the first)."""

    def __init__(self, what: str, row: int, remedy: str | None = None) -> None:
        self.row = row
        super().__init__(what, f"row {row}", remedy)

    def __reduce__(self) -> tuple[type["RankError"], tuple[str, int, str | None]]:  # type: ignore[override]
        return type(self), (self.what, self.row, self.remedy)


class ChapterFailed(Exception):  # noqa: N818 (no RbpError: nothing that a user could mend)
    """A cell failed or the kernel died. The partial notebook is kept in ``partial_notebook``."""

    def __init__(self, chapter: str, cell: int | None, error: str) -> None:
        self.chapter, self.cell, self.error = chapter, cell, error
        self.partial_notebook: Path | None = None
        place = f"at cell {cell}" if cell else "before its first cell"
        super().__init__(f"{chapter} failed {place}: {error}")


def install_extra(extra: str) -> str:
    """Return the command that installs what an optional feature needs."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def first_line(error: Exception) -> str:
    """Return a library's error message in one line; with its kind, or its kind alone, where it says little."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = [type(error).__name__] if isinstance(error, LookupError) or not lines else []
    return ": ".join(kind + lines[:1]).rstrip(".")
