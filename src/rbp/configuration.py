"""Read a configuration file into a type of pydantic's: what is wrong with it is named, with its place and a remedy."""

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from rbp.errors import DataError
from rbp.io import parse_json

Kind = TypeVar("Kind")


def read_configuration(path: Path, kind: type[Kind]) -> Kind:
    """Read a TOML file, or a JSON file by its suffix, as a `kind`. Raises DataError with the first fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "the text is not UTF-8"
        raise DataError(f"cannot read the file: {reason}", str(path), "Check the path.") from None
    form = "JSON" if path.suffix == ".json" else "TOML"
    try:
        content = parse_json(text) if form == "JSON" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long, or lists too deep, is no TOML either
        raise DataError(f"this is not {form}: {error}", str(path), "Correct the file.") from None
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        raise first_fault(error, path, adapter) from None


def first_fault(error: ValidationError, path: Path, adapter: TypeAdapter[Kind] | None = None) -> DataError:
    """Describe the first fault that pydantic reports; a misspelt key before the one that is missing for it."""
    faults = error.errors(include_url=False)
    unknown = [fault for fault in faults if fault["type"] in ("extra_forbidden", "unexpected_keyword_argument")]
    fault = (unknown or faults)[0]
    key = ".".join(str(part) for part in fault["loc"] if "[" not in str(part))
    where, remedy = f"{path}, {key}" if key else str(path), "Correct it."
    message = fault["msg"].removeprefix("Value error, ")
    if unknown and adapter is not None:
        schema = adapter.json_schema()
        keys = {name for table in (schema, *schema.get("$defs", {}).values()) for name in table.get("properties", ())}
        close = get_close_matches(str(fault["loc"][-1]), keys, n=1)
        message, remedy = "there is no such key", f'Did you mean "{close[0]}"?' if close else "Leave it out."
    return DataError(message, where, remedy)
