"""The manifest of a rank store: what determines a measurement, named by a digest, and sealed by a checksum.

The digest covers the key alone, which is the store's name. The checksum covers every other entry too, so that a
damaged label or size is found out and not believed.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

from rbp.errors import DataError
from rbp.files import canonical_json, parse_json

FORMAT = 1
MANIFEST = "manifest.json"
PART = re.compile(r"(\d{5,})-([0-9a-f]{16})\.parquet")
REDO = "Run the command that made it again: it redoes what is damaged, and nothing else."

_ENTRIES = {"format": int, "digest": str, "key": dict, "about": dict, "packs": int, "tokens": int, "complete": bool}
_LABELS = {"model": str, "dataset": str, "family": str, "size": int, "vocabulary": int}


def digest(key: dict[str, Any]) -> str:
    """The name of a measurement: a digest of all that determines its ranks."""
    return hashlib.sha256(canonical_json({"format": FORMAT, **key}).encode()).hexdigest()[:16]


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the checksum of all its other entries."""
    rest = {name: value for name, value in manifest.items() if name != "checksum"}
    return {**rest, "checksum": hashlib.sha256(canonical_json(rest).encode()).hexdigest()}


def read(folder: Path) -> dict[str, Any]:
    """The manifest in a store's folder, every entry of it checked.

    One without a checksum was written before there were any, and is taken. Raises DataError if it is missing, damaged,
    or of another version.
    """
    path = folder / MANIFEST
    try:
        manifest = parse_json(path.read_bytes())
    except FileNotFoundError:
        remedy = "rbp ranks list shows the stores of a folder."
        raise DataError("the folder is no rank store: no manifest.json", str(folder), remedy) from None
    except (OSError, ValueError):
        raise DataError("the manifest cannot be read", str(path), REDO) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        what = "the store was written by another version of rbp"
        raise DataError(what, str(folder), "Extract it again, or read it with the version that wrote it.")
    try:
        whole = _is_whole(manifest)
    except ValueError:  # numbers and characters that no manifest of ours holds
        whole = False
    if not whole:
        raise DataError("the manifest was altered, or is damaged", str(path), REDO)
    return manifest


def _is_whole(manifest: dict[str, Any]) -> bool:
    wanted = {**_ENTRIES, "parts": dict} if manifest.get("complete") is True else _ENTRIES
    if not _typed(manifest, wanted) or manifest.keys() - wanted.keys() - {"checksum"}:
        return False
    checksum = sealed(manifest)["checksum"]
    if digest(manifest["key"]) != manifest["digest"] or manifest.get("checksum", checksum) != checksum:
        return False
    if not manifest["complete"]:
        return True
    parts = manifest["parts"]
    each = all(PART.fullmatch(name) and _typed(part, {"sha256": str, "rows": int}) for name, part in parts.items())
    return (
        each
        and len(parts) == manifest["packs"]
        and sum(part["rows"] for part in parts.values()) == manifest["tokens"]
        and _typed(manifest["about"], _LABELS)
    )


def _typed(value: Any, wanted: dict[str, type]) -> bool:
    return isinstance(value, dict) and all(type(value.get(name)) is kind for name, kind in wanted.items())
