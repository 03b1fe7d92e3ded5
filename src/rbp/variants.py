"""Companion pages: a chapter with other parameters beside its own page, as ``book/variants.toml`` (optional) says.

A table ``[03_k1.ladder]`` holds a ``label`` for titles, "the ladder", and the values of the chapter's parameters; the
page is then the chapter ``03_k1-ladder``.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rbp.errors import ParameterError
from rbp.parameters import nearest


@dataclass(frozen=True)
class Variant:
    """One companion page: its name, its label in titles, and the values of parameters, not yet checked."""

    name: str
    label: str
    values: Mapping[str, Any]

    def title(self, title: str) -> str:
        """The title of the page, from the chapter's."""
        return f"{title} {self.heading}" if title.endswith(("?", "!", ".")) else f"{title}: {self.label}"

    @property
    def heading(self) -> str:
        """The label as it stands alone: in the contents, below the chapter."""
        return self.label[:1].upper() + self.label[1:]


def read_toml(path: Path, chapters: Collection[str]) -> dict[str, dict[str, Any]]:
    """The tables of a file in ``book/``, one for each of some chapters; {} if there is no such file.

    Raises ParameterError if it is not TOML, or holds what is no table of a chapter.
    """
    if not path.exists():
        return {}
    where = f"{path.parent.name}/{path.name}"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"this is not TOML: {error}", where) from None
    for name, table in tables.items():
        if name not in chapters or not isinstance(table, dict):
            raise ParameterError(f'"{name}" is no table of a chapter', where, nearest(name, chapters))
    return tables


def variants(path: Path, chapters: Collection[str]) -> dict[str, list[Variant]]:
    """chapter -> its companion pages in the file's order. Raises ParameterError for whatever else is written there."""
    return {
        chapter: [_variant(chapter, name, content) for name, content in table.items()]
        for chapter, table in read_toml(path, chapters).items()
    }


def _variant(chapter: str, name: str, content: Any) -> Variant:
    where = f"book/variants.toml, [{chapter}.{name}]"
    form = f'Write a table [{chapter}.name] with label = "…" and the values of parameters.'
    if not isinstance(content, dict) or not re.fullmatch(r"\w+", name, re.ASCII):
        raise ParameterError("this is no companion page", where, form)
    values = dict(content)
    label = values.pop("label", None)
    if not isinstance(label, str) or not label.strip():
        raise ParameterError("a companion page has no label", where, form)
    if not values:
        raise ParameterError("a companion page sets no parameter", where, form)
    return Variant(name, label.strip(), values)


def contents(toc: str, companions: Iterable[tuple[str, str, str]]) -> str:
    """The table of contents ``toc`` (YAML) with each companion page below the page of its chapter.

    ``companions`` are (the chapter's page, the companion page, its heading).
    """
    tree = yaml.safe_load(toc)
    for page, companion, heading in companions:
        for entry in _entries(tree):
            if entry.get("file") == page:
                entry.setdefault("sections", []).append({"file": companion, "title": heading})
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def _entries(tree: Any) -> list[dict[str, Any]]:
    """All mappings within the tree."""
    below = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    return [*([tree] if isinstance(tree, dict) else []), *(entry for each in below for entry in _entries(each))]
