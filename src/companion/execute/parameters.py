"""A chapter's parameters: read from the source of its cell tagged ``parameters``, never by running it.

papermill checks neither names nor types, and reads a default as text, so the syntax tree is read here; pydantic then
holds values against the declared types.
"""

import ast
import importlib
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, FiniteFloat, TypeAdapter, ValidationError

from rbp.errors import ChapterError, ParameterError
from rbp.io import exists
from rbp.names import nearest, split_names

SOURCES = ("measurements", "others", "ranks", "explored")  # the parameters that name sources of measurements
SCALARS: dict[str, Any] = {"str": str, "int": int, "float": FiniteFloat, "bool": bool}
# A range stands in the comment, for readers too: papermill's inspection understands no annotation with arguments, and
# leaves out a line with two equals signs.
BOUNDS = {"<": "lt", "≤": "le", ">": "gt", "≥": "ge"}  # of what stands before the sign; the names are pydantic's
_NUMBER = r"-?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"(?:({_NUMBER}) ([<≤]) (?=\w+ [<≤]))?(\w+) ([<≤>≥]) ({_NUMBER})")
_OUT_OF_RANGE = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}  # pydantic's kinds of errors


@dataclass(frozen=True)
class Parameter:
    """A chapter's parameter, as its cell declares it.

    ``type`` is str, int, float, bool, or a list of one of them ("list[int]"); ``choices`` are the values
    (of a list: the items) that it is limited to, or None; ``bounds``: the ends of its range, by pydantic's names ("ge",
    "gt", "le", "lt"), which ``help`` tells in words.
    """

    name: str
    type: str
    default: Any
    help: str
    choices: tuple[Any, ...] | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the parameter for JSON and for tables."""
        return asdict(self)

    @property
    def kind(self) -> str:
        """The field of a form: source (of measurements), choice, path (of the project), flag, number or text."""
        if self.name in SOURCES and self.type == "str":
            return "source"
        if self.choices is not None and not self.type.startswith("list"):
            return "choice"
        if self.type == "str" and "/" in self.default:
            return "path"
        if self.type == "bool":
            return "flag"
        return "number" if self.type in ("int", "float") else "text"

    def sources(self, value: Any) -> list[str]:
        """List the sources or the path that a value names; none where the parameter names no data."""
        if self.kind not in ("source", "path") or not value:
            return []
        return [value] if self.kind == "path" or exists(value) else split_names(value)

    def readers_own(self, value: Any) -> list[Path]:
        """Select the `sources` that are the reader's: files and folders that do not come with the project."""
        if not (names := self.sources(value)):
            return []
        # by name: chapters that read no measurements are not made from the modules that bring them
        words = importlib.import_module("rbp.measurements.sources").named_sources()
        shipped = [self.default] if self.kind == "path" else words
        return [Path(name) for name in names if name not in shipped]


def _type(annotation: ast.expr) -> tuple[str, tuple[Any, ...] | None]:
    """Return the name and the choices of an annotated type; ValueError for another kind of annotation."""
    if isinstance(annotation, ast.Name) and annotation.id in SCALARS:
        return annotation.id, None
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name):
        if annotation.value.id == "list":
            item, choices = _type(annotation.slice)
            if not item.startswith("list"):
                return f"list[{item}]", choices
        if annotation.value.id == "Literal":
            value = ast.literal_eval(annotation.slice)
            choices = value if isinstance(value, tuple) else (value,)
            names = {type(choice).__name__ for choice in choices}
            if len(names) == 1 and names <= SCALARS.keys():
                return names.pop(), choices
    raise ValueError(ast.unparse(annotation))


def _bounds(name: str, kind: str, comment: str) -> dict[str, float]:
    """Read the range that ends a comment, as in "a level; 0 < level < 1"; ValueError for a sign that makes none."""
    if not any(sign in comment for sign in BOUNDS):
        return {}
    match = _RANGE.fullmatch(comment.rpartition(";")[2].strip())
    if match is None or match[3] != name or _item(kind) not in ("int", "float"):
        raise ValueError(comment)
    low, above, _, sign, bound = match.groups()
    bounds = {BOUNDS[sign]: json.loads(bound)}
    return bounds if low is None else {"gt" if above == "<" else "ge": json.loads(low)} | bounds


def _item(kind: str) -> str:
    """Return the type of a value, or of a list's items."""
    return kind.removeprefix("list[").removesuffix("]")


def _comments(source: str) -> dict[int, str]:
    """Return the comment that ends a line, by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ").rstrip() for token in tokens if token.type == tokenize.COMMENT}


def declared(source: str, where: str) -> list[Parameter]:
    """List the parameters that the cell ``source`` declares, in its order.

    Raises ChapterError, naming ``where``, for anything but lines like ``name: type = literal  # help; 0 < name ≤ 1``.
    """
    form = "Write each as `name: type = value  # what it means`, with a type among str, int, float, bool, "
    form += 'list[…] of these, or Literal["a", "b"], and a range, if it has one, as `; name ≥ 1` or `; 0 < name < 1`.'
    try:
        statements, comments = ast.parse(source).body, _comments(source)
    except (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError) as error:
        raise ChapterError(f"the parameters cell is not Python: {error}", where, form) from None
    parameters = []
    for node in statements:
        line = ast.unparse(node)
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            raise ChapterError(f"a line of the parameters cell declares no parameter: {line}", where, form)
        name = node.target.id
        try:
            kind, choices = _type(node.annotation)
            default = ast.literal_eval(node.value)
        except ValueError:
            raise ChapterError(f"a parameter's type or default cannot be read: {line}", where, form) from None
        if not (comment := comments.get(node.end_lineno or 0, "")):
            raise ChapterError(f"the parameter {name} has no comment that says what it means", where, form)
        try:
            parameter = Parameter(name, kind, default, comment, choices, _bounds(name, kind, comment))
        except ValueError:
            raise ChapterError(f"a parameter's range cannot be read: {comment}", where, form) from None
        try:
            parameters.append(replace(parameter, default=_checked(parameter, default)))
        except ParameterError as error:
            raise ChapterError(f"a default does not fit its type: {line}", where, error.remedy) from None
    return parameters


def unread(parameters: Sequence[Parameter], sources: Iterable[str]) -> list[str]:
    """Name the parameters that none of the cells ``sources`` reads: setting one would change nothing."""
    read: set[str] = set()
    for source in sources:
        try:
            nodes = ast.walk(ast.parse(source))
            read.update(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # a magic of IPython: whatever it names
            read.update(re.findall(r"\w+", source))
    return [parameter.name for parameter in parameters if parameter.name not in read]


def _read(parameter: Parameter, value: Any, read: Callable[[Any], Any]) -> Any:
    """Apply `read` to a value or a text, given the type that an item of it must have. Raises ParameterError."""
    where = f"parameter {parameter.name}"

    def allowed(item: Any) -> Any:
        if isinstance(item, str) and not _writable(item):
            raise ParameterError(f"{item!a} is not text", where, "Give characters of Unicode, in UTF-8.")
        if parameter.choices is not None and item not in parameter.choices:
            raise ParameterError(f"{item!r} is not a choice", where, nearest(str(item), map(str, parameter.choices)))
        return item

    bounds: dict[str, Any] = {**parameter.bounds}
    try:
        return read(Annotated[SCALARS[_item(parameter.type)], Field(**bounds), AfterValidator(allowed)])
    except ValidationError as error:
        default = json.dumps(parameter.default)
        outside = [fault["input"] for fault in error.errors() if fault["type"] in _OUT_OF_RANGE]
        if len(outside) == error.error_count():
            remedy = f"Its range is {parameter.help.rpartition(';')[2].strip()}, its default {default}."
            raise ParameterError(f"{outside[0]} is out of range", where, remedy) from None
        remedy = f"Its type is {parameter.type}, its default {default}."
        raise ParameterError(f"{value!r} is not of type {parameter.type}", where, remedy) from None


def _writable(text: str) -> bool:
    """Return whether text files and names can hold a text: no NUL, and no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _checked(parameter: Parameter, value: Any) -> Any:
    """Check a typed ``value`` against ``parameter``; an int is a float too. Raises ParameterError."""

    def read(item: Any) -> Any:
        return TypeAdapter(list[item] if _is_list(parameter) else item).validate_python(value, strict=True)

    return _read(parameter, value, read)


def _parsed(parameter: Parameter, text: str) -> Any:
    """Parse the value that ``text`` spells. Raises ParameterError."""

    def read(item: Any) -> Any:
        if not _is_list(parameter):
            return TypeAdapter(item).validate_strings(text)
        if text.lstrip().startswith("["):
            return TypeAdapter(list[item]).validate_json(text, strict=True)
        return [TypeAdapter(item).validate_strings(name) for name in split_names(text)]

    return _read(parameter, text, read)


def _is_list(parameter: Parameter) -> bool:
    return parameter.type.startswith("list[")


def check(parameters: Sequence[Parameter], values: Mapping[str, Any], chapter: str) -> dict[str, Any]:
    """Check the given ``values``: names, types, choices and ranges. Raises ParameterError."""
    return {name: _checked(_find(parameters, name, chapter), value) for name, value in values.items()}


def parse(parameters: Sequence[Parameter], assignments: Sequence[str], chapter: str) -> dict[str, Any]:
    """Read ``name=value`` strings by the declared types.

    A str is taken as it is; a bool is true or false; a list is JSON, or items between commas. Nothing is
    ever evaluated. Raises ParameterError for an unknown or repeated name, a wrong type, or a value out of its
    choices or its range.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            raise ParameterError(f'"{assignment}" sets nothing', chapter, "Write -p name=value.")
        if name in values:
            raise ParameterError(f'the parameter "{name}" is given twice', chapter)
        values[name] = _parsed(_find(parameters, name, chapter), text)
    return values


def sweeps(parameters: Sequence[Parameter], assignments: Sequence[str], chapter: str) -> list[dict[str, Any]]:
    """Return the values of every run that ``name=value`` strings describe, each as `parse` reads them.

    A name that is given again makes another run, and so does each further value of a number or choice between commas.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    assignments_of: dict[str, list[str]] = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        name = name.strip()
        several = name in by_name and by_name[name].kind in ("number", "choice", "flag")
        apart = [f"{name}={value}" for value in split_names(text)] if several and "," in text else [assignment]
        assignments_of.setdefault(name, []).extend(apart)
    return [parse(parameters, combination, chapter) for combination in product(*assignments_of.values())]


def _find(parameters: Sequence[Parameter], name: str, chapter: str) -> Parameter:
    by_name = {parameter.name: parameter for parameter in parameters}
    if name not in by_name:
        raise ParameterError(f'there is no parameter "{name}"', chapter, nearest(name, by_name))
    return by_name[name]
