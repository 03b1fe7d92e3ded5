"""The words around a notebook's cells: what a chapter's prose tells, and how to rerun the page.

Prose tells the book's own run, always. It names a value by its key, ``{value}`alpha_min:.3f` `` (of another chapter:
``{value}`k1::alpha_min:.3f` ``), and the accepted value is put in when the page is made. A count in words is
``{value}`models:words` `` ("four"), and a count out of another ``{value}`high:of fits` `` ("29 of 32"). A page that was
run with other parameters opens with the book's values beside its own, and has the book's sentences folded.
"""

import html
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Self

from companion import results
from companion.parameters import Parameter
from companion.project import Project
from companion.results import Recorded, Results
from rbp.names import number_word, times_power_of_ten

VALUE = re.compile(r"\{value\}`(?:(?P<chapter>\w+)::)?(?P<key>[^`:]+)(?::(?P<format>[^`]*))?`")
"""A value in prose: the other chapter, or None; the key; the format, or None."""

NO_VALUE = '<span title="no such value is accepted">–</span>'
HEADING = re.compile(r"^(#+) +(.+)$", re.MULTILINE)
ANSWER = "The answer"
"""The heading above the sentences whose values a rerun's page opens with."""

SOLUTION = {"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
"""What opens a cell that is folded as a whole: the answer to the chapter's exercises."""

Cells = list[dict[str, Any]]


def chapter_numbers(project: Project) -> dict[str, str]:
    """The numbers of the chapters that the contents list (``book/_toc.yml``), by their names, in the contents' order.

    They count from 1; in a part that is called Appendices, from A. No contents: no numbers.
    """
    path = project.book / "_toc.yml"
    if not path.exists():
        return {}
    import yaml  # late: the command line starts without

    contents = yaml.safe_load(path.read_text(encoding="utf-8"))
    numbers: dict[str, str] = {}
    first = {"chapters": [{"file": contents["root"]}]}
    for part in [first, *(contents.get("parts") or [contents])]:
        pages = [entry["file"] for entry in part.get("chapters", [])]
        names = [page.removeprefix("notebooks/") for page in pages if page.startswith("notebooks/")]
        counted = ascii_uppercase if part.get("caption") == "Appendices" else map(str, range(len(numbers) + 1, 100))
        numbers |= dict(zip(names, counted, strict=False))
    return numbers


def numbered(text: str, numbers: Mapping[str, str]) -> str:
    """Markdown ``text`` with the number of the chapter for each ``{number}`name` ``; ValueError for no chapter."""
    try:
        return re.sub(r"\{number\}`(\w+)`", lambda found: numbers[found[1]], text)
    except KeyError as error:
        raise ValueError(f"the contents list no chapter {error}") from None


def first_heading(cells: Cells) -> str | None:
    """The text of the first heading."""
    matches = (HEADING.search("".join(c["source"])) for c in cells if c["cell_type"] == "markdown")
    return next((found[2].strip() for found in matches if found), None)


def fill_in(text: str, chapter: str, values: Results) -> str:
    """Markdown ``text`` of a chapter (or of a page by hand: "") with its values written out; NO_VALUE where unknown.

    Raises ValueError for a format that does not suit its value, or a real number without one.
    """

    def written(found: re.Match[str]) -> str:
        own = values.get(found["chapter"] or chapter, {})
        if not {*keys_of(found)} <= {*own}:
            return NO_VALUE
        return re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", in_words(own, found))

    return VALUE.sub(written, text)


def lacking(project: Project, recorded: Results) -> list[str]:
    """List the values that the prose of chapters and pages names and no chapter has recorded, each with its place."""
    places = []
    for path in sorted(project.notebooks.glob("*.ipynb")):
        cells = json.loads(path.read_bytes())["cells"]
        texts = [("".join(cell["source"]), i) for i, cell in enumerate(cells, 1) if cell["cell_type"] == "markdown"]
        places += [(text, path.stem, f"{project.label(path)}, cell {i}") for text, i in texts]
    for path in sorted(project.book.rglob("*.md")):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        places += [(line, "", f"{project.label(path)}, line {i}") for i, line in lines]
    named = [
        (place["chapter"] or own, key, where)
        for text, own, where in places
        for place in VALUE.finditer(text)
        for key in keys_of(place)
    ]
    return [f"{chapter}::{key} ({where})" for chapter, key, where in named if key not in recorded.get(chapter, {})]


def keys_of(place: re.Match[str]) -> list[str]:
    """The keys that a place in the prose names: of its value, and in ``{value}`part:of whole` `` of its whole."""
    how = place["format"] or ""
    return [place["key"], how.removeprefix("of ")] if how.startswith("of ") else [place["key"]]


def in_words(own: Mapping[str, Recorded], place: re.Match[str], *, digits: bool = False) -> str:
    """A chapter's value as its place in the prose shows it, with a true minus sign; in digits, if so wanted.

    Raises ValueError for a format that does not suit the value.
    """
    value, *whole = (own[key].value for key in keys_of(place))
    how = place["format"] or ""
    if isinstance(value, float) and not how:
        raise ValueError(f"{place[0]}: a real number needs a format, such as :.3f")
    try:
        if how == "words" or whole:
            text = _said(value, *whole)
            return f"{value:,}" if digits and not whole else text
        text = format(value, how)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place[0]}: {error}") from None
    text = re.sub(r"^(-?[\d.]+)e([+-]\d+)$", lambda found: times_power_of_ten(found[1], int(found[2])), text)
    return re.sub(r"^-(?=\d)", "−", text)


def _said(value: results.Value, whole: results.Value | None = None) -> str:
    """Print a count in words, or out of so many ("29 of 32"). Raises ValueError for any other value."""
    if type(value) is not int or (whole is not None and type(whole) is not int):
        raise ValueError("words are for counts")
    if whole is not None and not 0 <= value <= int(whole):
        raise ValueError(f"{value} is no part of {whole}")
    return number_word(value) if whole is None else f"{value:,} of {whole:,}"


@dataclass(frozen=True)
class BookValues:
    """What prose can tell: the accepted values of all chapters, if there are any yet, and those of the built book.

    numbers: of the chapters, by their names (`chapter_numbers`).
    """

    accepted: Results
    built: Results
    numbers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, project: Project) -> Self:
        """Those of a project. Raises DataError for results that cannot be read."""
        accepted = results.read_book(project.expected) if project.expected.exists() else {}
        return cls(accepted, results.merge(sorted(project.chapters.glob("*/results.json"))), chapter_numbers(project))

    def known(self, own: Results | None = None) -> Results:
        """The accepted values; where there is none, that of a run's ``own``, or of the built book."""
        every = [self.built, own or {}, self.accepted]
        return {
            name: {k: v for each in every for k, v in each.get(name, {}).items()} for each in every for name in each
        }


def page_of(executed: Path, book: BookValues) -> dict[str, Any]:
    """An executed chapter, with its results beside it, as the notebook of a page.

    Values are the accepted ones, of other chapters too; where a value has none yet, that of this run, or of the built
    book. Where this run differs from what is accepted, the page says so; with other parameters, it is a rerun's page.
    Raises ValueError as `fill_in`, and DataError for results that cannot be read.
    """
    notebook: dict[str, Any] = json.loads(executed.read_text(encoding="utf-8"))
    name, own = executed.stem, results.read_chapter(executed.with_name("results.json")).values
    accepted = book.accepted.get(name, {})
    changed = notebook["metadata"].get("rbp", {}).get("changed")  # what `chapters.execute` has noted
    cells: Cells = [{**cell, "source": "".join(cell["source"])} for cell in notebook["cells"]]
    if changed:
        cells = _rerun(cells, _beside(cells, name, own, accepted), changed)
    elif book.accepted and (note := _differing(name, own, accepted)):
        cells = _below_title(cells, note)
    values = book.accepted if changed else book.known({name: own})
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = fill_in(cell["source"], name, values)
        if "hide-cell" in cell["metadata"].get("tags", []):
            cell["metadata"] = cell["metadata"] | {"mystnb": SOLUTION}
    if cells and (number := book.numbers.get(name)):
        cells[0]["source"] = re.sub(r"\A# +", f"# {number}. ", cells[0]["source"])
    return {**notebook, "cells": cells}


def _below_title(cells: Cells, note: str) -> Cells:
    """The cells with ``note`` below the title, or before all if there is none."""
    first = cells[0]["source"] if cells and cells[0]["cell_type"] == "markdown" else ""
    title, _, rest = first.partition("\n")
    if not title.startswith("# "):
        return [_markdown("note", note), *cells]
    return [{**cells[0], "source": f"{title}\n\n{note}\n{rest}"}, *cells[1:]]


def _markdown(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def _differing(name: str, own: Mapping[str, Recorded], accepted: Mapping[str, Recorded]) -> str:
    """What a page says whose values are not those that are accepted, as Markdown; "" where they agree."""
    found = results.compare({name: own}, {name: accepted})
    if not found:
        return ""
    first = "; ".join(f"`{each.key}` is {each.kind}" for each in found[:3]) + (" …" if len(found) > 3 else "")
    return (
        f"> **This build differs from the accepted results** in {len(found)} of this chapter's values: {first}. "
        "The sentences below tell the accepted ones; `rbp verify` lists the differences.\n"
    )


# ── A rerun's page


def _beside(cells: Cells, name: str, own: Mapping[str, Recorded], accepted: Mapping[str, Recorded]) -> str:
    """The table of the chapter's key numbers, the book's beside this run's, as HTML; "" if its prose shows none."""
    text = "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    answer = re.search(rf"^#+ +{ANSWER}.*?\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    places = {place["key"]: place for place in VALUE.finditer(text) if place["chapter"] in (None, name)}
    if answer and (inside := {p["key"]: p for p in VALUE.finditer(answer[1]) if p["chapter"] in (None, name)}):
        places = inside
    rows = ""
    for key, place in places.items():
        there = [run[key] for run in (accepted, own) if key in run]
        kind = "txt" if any(isinstance(each.value, str) for each in there) else "num"
        unit = next((f" ({each.unit})" for each in there if each.unit), "")
        # in one line: a blank one would end the HTML
        texts = [
            " ".join(in_words(run, place, digits=True).split()) if {*keys_of(place)} <= {*run} else "–"
            for run in (accepted, own)
        ]
        both = "".join(f'<td class="{kind}">{html.escape(text)}</td>' for text in texts)
        rows += f'<tr><td class="txt">{html.escape(spoken(key) + unit)}</td>{both}</tr>'
    head = '<th class="txt">Value</th><th class="num">the book</th><th class="num">this run</th>'
    table = f'<table class="rbp-table rbp-beside"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="rbp-scroll" tabindex="0">{table}</div>' if rows else ""


def spoken(key: str) -> str:
    """The key of a value as a reader sees it: "r_squared_min" is "R² min"."""
    words = re.sub(r"[._]", " ", key)
    for plain, sign in (("r squared", "R²"), ("alpha", "α"), ("rbp", "RBP")):
        words = re.sub(rf"\b{plain}\b", sign, words)
    return words


def _rerun(cells: Cells, table: str, changed: Mapping[str, object]) -> Cells:
    """A rerun's cells: what was changed, the table, then its figures; the book's sentences are folded."""
    told: Cells = []
    for cell in cells:
        if cell["cell_type"] != "markdown":
            told.append(cell)
            continue
        source = cell["source"]
        title = re.match(r"# +.+\n?", source) if not told else None
        parts = [title[0]] if title else []
        source = source[title.end() :] if title else source
        # the last heading is of the figures that follow; those before it go with their sentences
        last = max((found.start() for found in HEADING.finditer(source)), default=len(source))
        heading, _, rest = source[last:].partition("\n")
        parts += [_folded(source[:last]), heading, _folded(rest)]
        told.append({**cell, "source": "\n\n".join(filter(None, parts))})
    given = ", ".join(f"`{name} = {_in_code(value)}`" for name, value in changed.items())
    note = f"> **This page was run with {given}.** Figures, tables and captions are of this run."
    return _below_title(told, f"{note}\n\n{table}\n")


def _folded(text: str) -> str:
    """Sentences of the book that open on demand; headings within become bold lines."""
    if not text.strip():
        return ""
    bold = HEADING.sub(r"**\2**", text.strip())
    return f'<details class="rbp-told"><summary>What the book found</summary>\n\n{bold}\n\n</details>'


# ── What a notebook is, and how to rerun it


def is_notebook(content: Any) -> bool:
    """Whether what is read of a notebook here is there, and of the right kind."""
    if not (isinstance(content, dict) and isinstance(content.get("cells"), list)):
        return False
    about = content.get("metadata", {})
    return (
        isinstance(about, dict)
        and isinstance(about.get("rbp", {}), dict)
        and all(
            isinstance(cell, dict)
            and cell.get("cell_type") in ("markdown", "code", "raw")
            and isinstance(cell.get("metadata", {}), dict)
            and are_texts(cell.get("metadata", {}).get("tags", []))
            and (isinstance(cell.get("source"), str) or are_texts(cell.get("source")))
            for cell in content["cells"]
        )
    )


def are_texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def example(parameters: list[Parameter]) -> str:
    """One parameter with another value than its default, as `-p` takes it; "" if there is none."""
    for parameter in parameters:
        others = [choice for choice in parameter.choices or () if choice != parameter.default]
        if parameter.name == "level":
            return "-p level=0.9"
        if others and not parameter.type.startswith("list"):
            return shlex.join(["-p", f"{parameter.name}={others[0]}"])
    return shlex.join(["-p", f"{parameters[0].name}={_shown(parameters[0].default)}"]) if parameters else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


ABOUT = ("Parameter", "Type", "Default", "Meaning")


def rerun_box(chapter: str, parameters: list[Parameter]) -> str:
    """The section "Rerun this chapter" as HTML: the exact command, then name, type, default and meaning."""
    command = html.escape(f".venv/bin/rbp run {chapter} {example(parameters)}".strip())
    parts = [
        '<div class="rbp-rerun">',
        "<p>One command executes this chapter again, with other values of its parameters if you like, "
        "and writes its figures, their data and a page that opens offline into <code>runs/</code>:</p>",
        f"<pre>{command}</pre>",
    ]
    if parameters:
        head = "".join(f'<th class="txt">{name}</th>' for name in ABOUT)
        rows = "".join(f"<tr>{_row(parameter)}</tr>" for parameter in parameters)
        table = f'<table class="rbp-table rbp-cards"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        parts.append(f'<div class="rbp-scroll" tabindex="0">{table}</div>')
    return "".join([*parts, "</div>"])


def _in_code(value: object) -> str:
    """A value within backquotes: whatever it holds, it stays one word of the sentence."""
    return " ".join(_shown(value).replace("`", "'").split()) or '""'


def _row(parameter: Parameter) -> str:
    kind = parameter.type
    if parameter.choices is not None:
        kind = ("list of " if kind.startswith("list") else "") + " | ".join(map(_shown, parameter.choices))
    cells = [f"<code>{html.escape(cell)}</code>" for cell in (parameter.name, kind, _shown(parameter.default))]
    cells.append(html.escape(parameter.help))
    classes = ("txt", "txt", "txt", "long")
    return "".join(f'<td class="{c}" data-label="{n}">{t}</td>' for c, n, t in zip(classes, ABOUT, cells, strict=True))
