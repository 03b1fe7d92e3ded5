"""Write values into the prose of chapters and pages, and lay out the pages of reruns.

Prose tells the book's own run, always. It names a value by its key, ``{value}`alpha_min:.3f` `` (of another chapter:
``{value}`k1::alpha_min:.3f` ``), and the accepted value is put in when the page is made. A count in words is
``{value}`models:words` `` ("four"), and a count out of another ``{value}`high:of fits` `` ("29 of 32", "all 32"). In a
rerun (`companion.execute.rerun`) the run's value follows the book's, and the book's sentences are folded.
"""

import html
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Self

from companion.execute import results, rules
from companion.execute.parameters import Parameter
from companion.execute.results import Recorded, Results
from companion.project import Project
from rbp.io import canonical_json
from rbp.names import number_word, times_power_of_ten

VALUE = re.compile(r"\{value\}`(?:(?P<chapter>\w+)::)?(?P<key>[^`:]+)(?::(?P<format>[^`]*))?`")
"""A value in prose: the other chapter, or None; the key; the format, or None."""

NO_VALUE = '<span title="no such value is accepted">–</span>'
HEADING = re.compile(r"^(#+) +(.+)$", re.MULTILINE)
EXERCISES = re.compile(r"^#+ +Exercises$.*?(?=^#|\Z)", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^## The answer$.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SENTENCE_END = re.compile(
    r"(?<=[.?!])(?:\*\*|[”)])*\s+(?=\W{0,3}[A-ZΑ-Ωα-ω−\x00])|\n\s*\n|^#.*$|^\s*(?:-|\d+\.) ", re.MULTILINE
)
PART = re.compile(r"(?<![\w.,])(?:(?P<all>(?!1 )\d[\d,]*) of (?P=all)|0 of (?P<whole>(?!1\b)\d[\d,]*))(?![\d%]|[.,]\d)")
"""A count that is the whole, or nothing of it; of 1 it is left as it is (but see ONE)."""

ONE = re.compile(r"(?<![\w.,])(?P<count>[01]) of 1 (?P<noun>\w+)s\b")
"""A count of one thing, and the thing: "1 of 1 cases"."""

LINK = re.compile(r"\{ref\}`([^`<]+) <[^`]*>`")
"""A link to a place of the book, with its own words."""

SENTENCE_START = re.compile(r"(?:\A|[.?!]\s+|\n\s*\n|^\s*- )(?:\*\*)?\Z", re.MULTILINE)
RERUN = " (this run)"  # after a finding of a rerun, which stands in place of the book's
OPENING = 'class="rbp-answer"'
"""What stands in the first output of a rerun (`companion.execute.rerun`)."""

Cells = list[dict[str, Any]]


def chapter_numbers(project: Project) -> dict[str, str]:
    """Number the chapters in the order of the contents (``book/_toc.yml``), by their names.

    They count from 1; in a part that is called Appendices, from A. No contents: no numbers.
    """
    path = project.book / "_toc.yml"
    return dict(_numbers_in(path.read_text(encoding="utf-8"))) if path.exists() else {}


@cache
def _numbers_in(text: str) -> dict[str, str]:
    import yaml  # late: the command line starts without

    contents = yaml.safe_load(text)
    numbers: dict[str, str] = {}
    first = {"chapters": [{"file": contents["root"]}]}
    for part in [first, *(contents.get("parts") or [contents])]:
        pages = [entry["file"] for entry in part.get("chapters", [])]
        names = [page.removeprefix("notebooks/") for page in pages if page.startswith("notebooks/")]
        counted = ascii_uppercase if part.get("caption") == "Appendices" else map(str, range(len(numbers) + 1, 100))
        numbers |= dict(zip(names, counted, strict=False))
    return numbers


def numbered(text: str, numbers: Mapping[str, str]) -> str:
    """Replace each ``{number}`name` `` in Markdown by the chapter's number; ValueError for no such chapter."""
    try:
        return re.sub(r"\{number\}`(\w+)`", lambda match: numbers[match[1]], text)
    except KeyError as error:
        raise ValueError(f"the contents list no chapter {error}") from None


def first_heading(cells: Cells) -> str | None:
    """Return the text of the first heading, or None."""
    matches = (HEADING.search("".join(c["source"])) for c in cells if c["cell_type"] == "markdown")
    return next((match[2].strip() for match in matches if match), None)


def fill_in(text: str, chapter: str, values: Results, rerun: Mapping[str, Recorded] | None = None) -> str:
    """Write the values into a chapter's Markdown, or (chapter: "") a page's written by hand; NO_VALUE where unknown.

    rerun: the values of a rerun of the chapter, each of which follows where it differs. Raises ValueError for a format
    that does not suit its value, or a real number without one.
    """

    def write(place: re.Match[str]) -> str:
        recorded, keys = values.get(place["chapter"] or chapter, {}), {*keys_of(place)}
        text, again = in_words(recorded, place) if keys <= {*recorded} else NO_VALUE, ""
        if rerun is not None and place["chapter"] in (None, chapter):
            value = in_words_or_dash(rerun, place)
            again = "" if value == text else " (not in this run)" if value == "–" else f" (this run: {value})"
        if place["format"] and SENTENCE_START.search(place.string[: place.start()]):
            text = text[0].upper() + text[1:]
        text += again
        return text if NO_VALUE in text else re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", text)

    return of_one(VALUE.sub(write, text))


def in_words_or_dash(values: Mapping[str, Recorded], place: re.Match[str]) -> str:
    """Print a value as `in_words` does; a dash where a rerun has none, none of it, or one that does not suit."""
    try:
        return in_words(values, place)
    except (KeyError, ValueError):
        return "–"


def fill_sentence(sentence: str, values: Mapping[str, Recorded]) -> str:
    """Write a chapter's values into a sentence; "" where one is missing, or a whole of which parts are counted is 0."""

    def write(place: re.Match[str]) -> str:
        text = in_words(values, place)
        return text[0].upper() + text[1:] if SENTENCE_START.search(sentence[: place.start()]) else text

    try:
        return of_one(VALUE.sub(write, sentence))
    except (KeyError, ValueError):
        return ""


def answer_of(cells: Cells) -> Cells:
    """Return the section "The answer" of a notebook as a cell, or no cell."""
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return [{"cell_type": "markdown", "source": match[0]} for text in texts if (match := ANSWER.search(text))]


def sentences(cells: Cells) -> list[str]:
    """List the sentences of a notebook that name values, without the exercises'."""
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    with_values = []
    for text in texts:
        places: list[str] = []

        def hidden(place: re.Match[str], places: list[str] = places) -> str:
            places.append(place[0])
            return f"\x00{len(places) - 1}\x00"

        for part in SENTENCE_END.split(VALUE.sub(hidden, EXERCISES.sub("", text))):
            if "\x00" in part:
                with_values.append(re.sub(r"\x00(\d+)\x00", lambda number: places[int(number[1])], part))  # noqa: B023
    return with_values


def strip_markup(sentence: str, chapter: str, values: Results) -> str:
    """Return a sentence of a chapter without markup, its values written out."""
    text = VALUE.sub(lambda place: in_words_or_dash(values.get(place["chapter"] or chapter, {}), place), sentence)
    text = of_one(text[:1].upper() + text[1:] if sentence.startswith("{value}") else text)
    text = re.sub(r"\{number\}`(\w+)`", r"\1", LINK.sub(r"\1", text))
    text = re.sub(r"\s?\(?\{\w+\}`[^`]*`\)?", "", text)  # of figures and references
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)|[*$`]", r"\1", text).split())


def list_unrecorded(project: Project, recorded: Results) -> list[str]:
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
        (place["chapter"] or chapter, key, where)
        for text, chapter, where in places
        for place in VALUE.finditer(text)
        for key in keys_of(place)
    ]
    return [f"{chapter}::{key} ({where})" for chapter, key, where in named if key not in recorded.get(chapter, {})]


def keys_of(place: re.Match[str]) -> list[str]:
    """List the keys that a place in the prose names: its value's, and in ``{value}`part:of whole` `` the whole's."""
    how = place["format"] or ""
    return [place["key"], how.removeprefix("of ")] if how.startswith("of ") else [place["key"]]


def in_words(values: Mapping[str, Recorded], place: re.Match[str]) -> str:
    """Print a chapter's value as its place in the prose asks, with a true minus sign.

    Raises ValueError for a format that does not suit the value.
    """
    value, *total = (values[key].value for key in keys_of(place))
    how = place["format"] or ""
    if isinstance(value, float) and not how:
        raise ValueError(f"{place[0]}: a real number needs a format, such as :.3f")
    try:
        if how == "words" or total:
            return _count_in_words(value, *total)
        text = format(value, how)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place[0]}: {error}") from None
    text = re.sub(r"^(-?[\d.]+)e([+-]\d+)$", lambda match: times_power_of_ten(match[1], int(match[2])), text)
    return re.sub(r"^-(?=\d)", "−", text)


def _count_in_words(value: results.Value, total: results.Value | None = None) -> str:
    """Print a count in words, or out of so many ("29 of 32"). Raises ValueError for any other value."""
    if type(value) is not int or (total is not None and type(total) is not int):
        raise ValueError("words are for counts")
    if total is not None and (total == 0 or not 0 <= value <= int(total)):
        raise ValueError(f"{value} is not part of {total}")
    return number_word(value) if total is None else all_or_none(f"{value:,} of {total:,}").lower()


def all_or_none(text: str) -> str:
    """Write "all 64", "both" and "none of 14" for "64 of 64", "2 of 2" and "0 of 14"; capitals begin sentences."""

    def write(place: re.Match[str]) -> str:
        words = {"2": "both", None: f"none of {place['whole']}"}.get(place["all"], f"all {place['all']}")
        return words.capitalize() if SENTENCE_START.search(text[: place.start()]) else words

    return of_one(PART.sub(write, text))


def of_one(text: str) -> str:
    """Write "the only case" and "no case" for "1 of 1 cases" and "0 of 1 cases"."""

    def write(place: re.Match[str]) -> str:
        words = f"{'the only' if place['count'] == '1' else 'no'} {re.sub('ie$', 'y', place['noun'])}"
        return words.capitalize() if SENTENCE_START.search(text[: place.start()]) else words

    return ONE.sub(write, text)


@dataclass(frozen=True)
class BookValues:
    """The values that prose can name: the accepted values of all chapters, if any, and the built book's.

    numbers: of the chapters, by their names (`chapter_numbers`).
    """

    accepted: Results
    built: Results
    numbers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, project: Project) -> Self:
        """Read the values of a project. Raises DataError for results that cannot be read."""
        accepted = results.read_book(project.expected) if project.expected.exists() else {}
        return cls(accepted, results.merge(sorted(project.chapters.glob("*/results.json"))), chapter_numbers(project))

    def known(self, run_values: Results | None = None) -> Results:
        """Return the accepted values; where there is none, the run's (`run_values`), or else the built book's."""
        every = [self.built, run_values or {}, self.accepted]
        names = dict.fromkeys(name for values in every for name in values)
        return {name: {k: v for values in every for k, v in values.get(name, {}).items()} for name in names}


def without_prose(executed: bytes) -> str:
    """Return the JSON of an executed notebook without its prose, which `with_prose` takes from where it is written."""
    notebook = json.loads(executed)
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return canonical_json(notebook, indent=1) + "\n"


def with_prose(written: Cells, executed: Cells) -> Cells:
    """Return a chapter's cells as they are written now, with the outputs of the executed ones.

    papermill's cell with other parameters stays where it was added.
    """
    ran = (cell for cell in executed if cell["cell_type"] == "code")
    cells: Cells = []
    for cell in written:
        if cell["cell_type"] == "code":
            done = next(ran)
            if "injected-parameters" in done["metadata"].get("tags", []):
                cells.append(done)
                done = next(ran)
            cell = {**done, **cell, "outputs": done["outputs"], "execution_count": done["execution_count"]}
        cells.append(cell)
    return cells


def page_of(executed: Path, book: BookValues, written: Cells | None = None) -> dict[str, Any]:
    """Make the notebook of a page from an executed chapter and the results in its folder.

    written: the chapter's cells, where the executed ones have no prose (`with_prose`).
    Values are the accepted ones, of other chapters too; where a value has none yet, that of this run, or of the built
    book. Where this run differs from what is accepted, the page says so; with other parameters, it is a rerun's page.
    Raises ValueError as `fill_in`, and DataError for results that cannot be read.
    """
    notebook: dict[str, Any] = json.loads(executed.read_text(encoding="utf-8"))
    name, run = executed.stem, results.read_chapter(executed.with_name("results.json"))
    recorded = run.values
    accepted = book.accepted.get(name, {})
    changed = notebook["metadata"].get("rbp", {}).get("changed")  # what `chapters.execute` has noted
    every = with_prose(written, notebook["cells"]) if written else notebook["cells"]
    cells: Cells = [{**cell, "source": "".join(cell["source"])} for cell in every]
    if changed:
        cells = _rerun(cells)
    elif book.accepted and (note := _differing(name, recorded, accepted)):
        cells = _below_title(cells, note)
    values = book.accepted if changed else book.known({name: recorded})
    for cell in cells:
        if cell["cell_type"] == "markdown":
            text = rules.replace_findings(cell["source"], run.findings, RERUN if changed else "")
            text = fill_in(text, name, values, recorded if changed else None)
            cell["source"] = numbered(text, book.numbers)
    if cells and (number := book.numbers.get(name)):
        cells[0]["source"] = re.sub(r"\A# +", f"# {number}. ", cells[0]["source"])
    return {**notebook, "cells": cells}


def fill_notebook(cells: Any) -> None:
    """Write values into the sentences of a notebook executed outside the build, if it ran to its end.

    Its last output has what it recorded (`Page.close`). References to figures become their names.
    """
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    recorded = [output["metadata"]["rbp"] for output in outputs if "rbp" in output.get("metadata", {})]
    if not recorded:
        return
    run, book = results.chapter_results(recorded[-1], "the executed notebook"), BookValues.read(Project())
    rerun = run.values if any(OPENING in str(output.get("data", {})) for output in outputs) else None
    values = book.accepted if rerun else book.known({run.chapter: run.values})
    for cell in cells:
        if cell["cell_type"] == "markdown":
            text = rules.replace_findings("".join(cell["source"]), run.findings, RERUN if rerun else "")
            text = fill_in(text, run.chapter, values, rerun)
            if rerun and cell is cells[0]:
                title, _, rest = text.partition("\n")
                text = f"{title}\n\n> **A rerun.** Sentences have the book’s numbers, then this run’s.\n{rest}"
            text = numbered(LINK.sub(r"\1", text), book.numbers)
            cell["source"] = re.sub(r"\{(?:numref|cite)\}`(?:\w+::)?([^`]*)`", r"(\1)", text)


def _below_title(cells: Cells, note: str) -> Cells:
    """Insert ``note`` below the title, or before all cells if there is no title."""
    first = cells[0]["source"] if cells and cells[0]["cell_type"] == "markdown" else ""
    title, _, rest = first.partition("\n")
    if not title.startswith("# "):
        return [_markdown("note", note), *cells]
    return [{**cells[0], "source": f"{title}\n\n{note}\n{rest}"}, *cells[1:]]


def _markdown(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def _differing(name: str, recorded: Mapping[str, Recorded], accepted: Mapping[str, Recorded]) -> str:
    """Say on a page that its values differ from the accepted ones, as Markdown; "" where they agree."""
    moved = results.compare({name: recorded}, {name: accepted})
    if not moved:
        return ""
    first = "; ".join(f"`{difference.key}` is {difference.kind}" for difference in moved[:3])
    first += " …" if len(moved) > 3 else ""
    return (
        f"> **This build differs from the accepted results** in {len(moved)} of this chapter's values: {first}. "
        "The sentences below tell the accepted ones; `rbp verify` lists the differences.\n"
    )


# ── A rerun's page


def _rerun(cells: Cells) -> Cells:
    """Arrange a rerun's cells: its answer below the title, then its figures; the book's text folds, exercises go."""
    page: Cells = []
    rest = ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            source = EXERCISES.sub("", cell["source"]).strip()
            if not page and source.startswith("# "):
                source, _, rest = source.partition("\n")
            else:
                # the last heading is of the figures that follow; those before it go with their sentences
                last = max((match.start() for match in HEADING.finditer(source)), default=len(source))
                heading, _, below = source[last:].partition("\n")
                source = "\n\n".join(filter(None, (_folded(source[:last]), heading, _folded(below))))
            page.append({**cell, "source": source})
        elif "hide-cell" not in cell["metadata"].get("tags", []):  # a solution
            page.append(cell)
    shown = [i for i, cell in enumerate(page) if OPENING in json.dumps(cell.get("outputs", "")).replace('\\"', '"')]
    page.insert(shown[0] + 1 if shown else 1, _markdown("book", _folded(rest)))
    return page


def _folded(text: str) -> str:
    """Fold sentences of the book, to open on demand; headings within become bold lines."""
    if not text.strip():
        return ""
    bold = HEADING.sub(r"**\2**", text.strip())
    return f'<details class="rbp-fold"><summary>The book’s text</summary>\n\n{bold}\n\n</details>'


# ── How to rerun a notebook


def example(parameters: list[Parameter]) -> str:
    """Write one parameter with another value than its default, as `-p` takes it; "" if there is none."""
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


def rerun_box(chapter: str, parameters: list[Parameter], command: str = "", where: str = "") -> str:
    """Build the section "Rerun this chapter" as HTML: a command, and name, type, default and meaning of parameters.

    command: of the rerun that shows it, and where it must be typed; in the book it is an example.
    """
    text = (
        f"This command repeats the run{where}:"
        if command
        else (
            "One command executes this chapter again, with other values of its parameters or on your data, "
            "and writes its figures, their data and a page that opens offline into <code>runs/</code>:"
        )
    )
    command = html.escape(command or f".venv/bin/rbp run {chapter} {example(parameters)}".strip())
    parts = ['<div class="rbp-rerun" id="rerun">', f"<p>{text}</p>", f"<pre>{command}</pre>"]
    if parameters:
        head = "".join(f'<th class="txt">{name}</th>' for name in ABOUT)
        rows = "".join(f"<tr>{_row(parameter)}</tr>" for parameter in parameters)
        table = f'<table class="rbp-table rbp-cards"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        parts.append(f'<div class="rbp-scroll" tabindex="0">{table}</div>')
    return "".join([*parts, "</div>"])


def _row(parameter: Parameter) -> str:
    kind = parameter.type
    if parameter.choices is not None:
        kind = ("list of " if kind.startswith("list") else "") + " | ".join(map(_shown, parameter.choices))
    cells = [f"<code>{html.escape(cell)}</code>" for cell in (parameter.name, kind, _shown(parameter.default))]
    cells.append(html.escape(parameter.help))
    classes = ("txt", "txt", "txt", "long")
    return "".join(f'<td class="{c}" data-label="{n}">{t}</td>' for c, n, t in zip(classes, ABOUT, cells, strict=True))
