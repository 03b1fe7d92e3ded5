"""Recorded values: for the prose, for the check against the accepted values, and for the ledger.

A chapter writes ``results.json``: {"chapter", "values": {key: {"value", "unit", "tolerance"}}, "reads": […],
"steps": […]}, and "findings" where its values do not bear one out.
The book merges them into ``_build/results.json``: {chapter: {key: {"value", "unit", "tolerance"}}}. The
accepted values lie in ``data/expected/results.json`` in the same form. "within" and "because" are there where a
value may move by a known amount. A table or a download has a checksum of its contents among the values, under the name
of its file and in the unit CHECKSUM.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rbp.errors import DataError, RbpError
from rbp.io import parse_json, write_json

Value = float | int | str | bool

CHECKSUM = "SHA-256"


@dataclass(frozen=True)
class Recorded:
    """One recorded value, its unit ("" for a pure number), and how far it may move.

    ``tolerance`` is relative to the accepted value; None: the value is not compared (a time, say). ``within`` is
    allowed besides, in the value's own unit, and ``because`` says what it was counted from: the tokens that rounding
    can move across a threshold, say, where a model is run. ``data``: in a rerun, whose it is.
    """

    value: Value
    unit: str = ""
    tolerance: float | None = 1e-9
    within: float = 0.0
    because: str = ""
    data: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name; ``within``, ``because`` and ``data`` only where they are set."""
        fields = asdict(self)
        named = ["value", "unit", "tolerance", *["within", "because"] * bool(self.within), *["data"] * bool(self.data)]
        return {name: fields[name] for name in named}


Results = dict[str, dict[str, Recorded]]
"""chapter -> key -> recorded value"""


def recorded(
    key: str,
    value: Any,
    unit: str = "",
    tolerance: float | None = 1e-9,
    within: float = 0.0,
    because: str = "",
    data: str = "",
) -> Recorded:
    """Check a value and make a `Recorded` of it; a NumPy scalar becomes a plain one.

    Raises RbpError for NaN, an infinite number, a negative tolerance, a ``within`` without its reason, and what is no
    number, string or bool.
    """
    plain, within = value.item() if hasattr(value, "item") else value, float(within)
    if not isinstance(plain, int | float | str):
        raise RbpError(f"a recorded value is a {type(value).__name__}", key, "Record a number, a string or a bool.")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise RbpError(f"a recorded value is {plain}", key, "Record finite numbers, or leave the key out.")
    if tolerance is not None and not 0 <= tolerance < math.inf:
        raise RbpError(f"a tolerance is {tolerance}", key, "A tolerance is relative, finite and not negative.")
    if not 0 <= within < math.inf or (within > 0 and not because):
        fault = f"a value may move by {within}" + ("" if because else ", and nothing says why")
        raise RbpError(fault, key, "Give a finite number that is not negative, and because.")
    return Recorded(plain, unit, tolerance, within, because, data)


@dataclass(frozen=True)
class ChapterResults:
    """The values that a chapter recorded, the files that it read (the project's: relative to its root), and steps.

    findings: those that the values do not bear out, each with what stands in its place; "" where nothing does.
    """

    chapter: str
    values: dict[str, Recorded]
    reads: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    findings: dict[str, Recorded] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the results for JSON."""
        parts = (self.values, self.findings)
        values, findings = ({key: value.as_dict() for key, value in part.items()} for part in parts)
        read = {"reads": sorted(set(self.reads)), "steps": sorted(set(self.steps))}
        return {"chapter": self.chapter, "values": values} | read | ({"findings": findings} if findings else {})


def write_chapter(path: Path, results: ChapterResults) -> None:
    """Write a chapter's ``results.json`` atomically."""
    write_json(path, results.as_dict())


def _read_json(path: Path, remedy: str) -> Any:
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError("there are no results here", str(path), remedy) from None
    except ValueError as error:
        raise DataError(f"the results are not JSON: {error}", str(path), remedy) from None


def _values(where: str, values: Any, remedy: str) -> dict[str, Recorded]:
    try:
        return {key: Recorded(**fields) for key, fields in values.items()}
    except (AttributeError, TypeError) as error:
        raise DataError(f"the results have another form: {error}", where, remedy) from None


def read_chapter(path: Path) -> ChapterResults:
    """Read a chapter's ``results.json``. Raises DataError if it is missing or malformed."""
    remedy = "Execute the chapter again: its last cell, page.close(), writes this file."
    return chapter_results(_read_json(path, remedy), str(path), remedy)


def chapter_results(content: Any, where: str, remedy: str = "Execute the chapter again.") -> ChapterResults:
    """Read back the results of `as_dict`. Raises DataError for another form, naming the place ``where``."""
    try:
        chapter, values = content["chapter"], content["values"]
        reads, steps = tuple(content.get("reads", [])), tuple(content.get("steps", []))
        findings = content.get("findings", {})
    except (KeyError, TypeError, AttributeError):
        raise DataError("the results have another form", where, remedy) from None
    return ChapterResults(chapter, _values(where, values, remedy), reads, steps, _values(where, findings, remedy))


def merge(paths: Iterable[Path]) -> Results:
    """Merge the results of several chapters. Raises DataError if two files are of the same chapter."""
    merged: Results = {}
    for path in paths:
        results = read_chapter(path)
        if results.chapter in merged:
            raise DataError(f"the chapter {results.chapter} has results already", str(path))
        merged[results.chapter] = results.values
    return merged


def write_book(path: Path, results: Mapping[str, Mapping[str, Recorded]]) -> None:
    """Write merged results atomically, sorted by chapter and key."""
    write_json(path, {c: {key: value.as_dict() for key, value in values.items()} for c, values in results.items()})


def read_book(path: Path) -> Results:
    """Read merged results. Raises DataError if the file is missing or malformed."""
    remedy = "Run `rbp book` to build them, `rbp verify --accept` to accept them."
    content = _read_json(path, remedy)
    if not isinstance(content, dict):
        raise DataError("the results have another form", str(path), remedy)
    return {chapter: _values(str(path), values, remedy) for chapter, values in content.items()}


@dataclass(frozen=True)
class Difference:
    """A value that ``moved`` beyond its tolerance, is ``new``, or is ``missing``."""

    chapter: str
    key: str
    kind: str
    expected: Recorded | None
    built: Recorded | None

    def __str__(self) -> str:
        name = f"{self.kind:7} {self.chapter} {self.key}"
        if self.expected is None or self.built is None:
            only = self.expected or self.built
            return f"{name}: {only and only.value}"
        old, new = self.expected, self.built
        if old.unit == new.unit == CHECKSUM:
            return f"{name}: its contents differ"
        text = f"{name}: {old.value} -> {new.value}"
        if not isinstance(old.value, str) and not isinstance(new.value, str) and old.value and not _same(old, new):
            allowed = f"{old.tolerance:g}" + (f", and ±{old.within:g}: {old.because}" if old.within else "")
            text += f" ({(new.value - old.value) / abs(old.value):+.2g} of it; allowed {allowed})"
        if old.unit != new.unit:
            text += f"; unit {old.unit!r} -> {new.unit!r}"
        if old.tolerance != new.tolerance:
            text += f"; tolerance {old.tolerance} -> {new.tolerance}"
        return text


def select(keys: Iterable[str], name: str) -> list[str]:
    """Select the keys that a name means, with or without their chapters: KEY itself, or for KEY.* all that begin so."""
    return [key for key in keys if key == name or (name.endswith(".*") and key.startswith(name[:-1]))]


def agree(expected: Recorded | None, other: Recorded | None) -> bool:
    """Return whether a run has the accepted value, within its tolerance; one that builds do not compare, exactly."""
    if expected is None or other is None:
        return expected is other
    return _same(expected, other) and (expected.tolerance is not None or expected.value == other.value)


def _same(expected: Recorded, built: Recorded) -> bool:
    """Return whether the values agree, by the accepted tolerance, so that a chapter cannot widen its own."""
    old, new = expected.value, built.value
    if expected.tolerance is None:
        return True
    if isinstance(old, bool | str) or isinstance(new, bool | str):
        return type(old) is type(new) and old == new
    return abs(new - old) <= expected.tolerance * abs(old) + expected.within


def compare(
    built: Mapping[str, Mapping[str, Recorded]], expected: Mapping[str, Mapping[str, Recorded]]
) -> list[Difference]:
    """List the differences between two merged results, sorted by chapter and key.

    A value moved if it is off by more than the accepted tolerance and ``within``, or has another unit or tolerance. A
    string, a bool, and an accepted 0 with nothing ``within`` must be met exactly.
    """
    differences = []
    for chapter in sorted({*built, *expected}):
        new, old = built.get(chapter, {}), expected.get(chapter, {})
        for key in sorted({*new, *old}):
            b, e = new.get(key), old.get(key)
            if b is None or e is None:
                differences.append(Difference(chapter, key, "missing" if b is None else "new", e, b))
            elif not _same(e, b) or (e.unit, e.tolerance) != (b.unit, b.tolerance):
                differences.append(Difference(chapter, key, "moved", e, b))
    return differences


def accepted(built: Results, expected: Results) -> Results:
    """Return the built results, with the accepted value wherever the two agree: last digits do not move in the file."""
    moved = {(difference.chapter, difference.key) for difference in compare(built, expected)}
    return {
        chapter: {key: value if (chapter, key) in moved else expected[chapter][key] for key, value in values.items()}
        for chapter, values in built.items()
    }
