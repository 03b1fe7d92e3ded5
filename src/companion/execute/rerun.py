"""A rerun of a chapter: whose data each part shows, whether the law holds in them, and what of the book applies.

The same in `rbp run`, in the live book and in a notebook executed by itself: `companion.execute.page.Page` shows it.
"""

import html
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from companion.execute import prose
from companion.execute.origins import BOOK, YOURS, Origins
from companion.execute.parameters import Parameter
from companion.execute.results import Recorded, Results, agree, read_book, select
from companion.execute.run import Chapter, command, copied_names, file_name, text_of, with_names
from companion.project import CLAIMS, Project
from rbp import provenance
from rbp.errors import RbpError
from rbp.figures.wording import dataset_label, family_label
from rbp.io import sha256
from rbp.measurements import open_source
from rbp.report import law
from rbp.report.display import html_table, written

UNCHANGED = "the book’s, unchanged"
ROWS = 12  # of a table that are seen at once
COLUMNS = 6  # thresholds that fit beside each other
WORDS = {law.HOLDS: "holds", law.RISES: "rises", law.BENT: "bent", law.OPEN: "open", law.NONE: "no line"}
"""The verdicts of `law.verdicts` in a word."""
IN_WORDS = (
    f"The number is α. <b>holds</b>: the measure falls with size, on a line of R² ≥ {law.STRAIGHT}. <b>bent</b>: it "
    "falls, but R² is lower. <b>rises</b>: larger models are worse. <b>open</b>: the interval of α contains 0."
)


# ── Does the law hold?


@dataclass(frozen=True)
class Laws:
    """The fits of a run's measurements (`rbp.report.law.laws`), the rows fitted, and notes on what was left out."""

    fits: pd.DataFrame
    rows: pd.DataFrame
    level: float
    notes: tuple[str, ...]


def fit_laws(chapter: Chapter, values: Mapping[str, Any]) -> Laws | None:
    """Fit the law to a run's measurements, to the reader's own where there are any; None where a chapter takes none.

    values: of all parameters. Raises RbpError for measurements that cannot be read.
    """
    parameter = next((declared for declared in chapter.parameters if declared.name == "measurements"), None)
    if parameter is None:
        return None
    readers_files = parameter.readers_own(values["measurements"])
    with_1 = any(declared.name == "ks" and declared.bounds.get("ge") == 2 for declared in chapter.parameters)
    requested = sorted({*(values.get("ks") or []), *([1] if with_1 else [])})
    table = open_source(readers_files or values["measurements"]).with_thresholds(requested).table
    for column, names in (("dataset", values.get("datasets")), ("family", values.get("families"))):
        table = table[table[column].isin(names or table[column])]
    ranks = table[table["metric"] == "neg_log_rbp"]
    measured = sorted(map(int, ranks["k"].unique()))
    fitted = [k for k in requested if k in measured] or measured
    if ranks.empty:
        return None
    rows = pd.concat([ranks[ranks["k"].isin(fitted)], table[table["metric"] == "cross_entropy"]])
    others = {
        "requested, but not measured": sorted({*requested} - {*measured}),
        "measured, but left out of these fits by the parameter ks": sorted({*measured} - {*fitted}),
    }
    notes = tuple(f"k = {_listed(ks)}: {reason}." for reason, ks in others.items() if ks)
    level = values.get("level", 0.95)
    return Laws(law.laws(rows, level), rows, level, notes)


def _listed(ks: Sequence[int]) -> str:
    """List thresholds, of many the first and the last."""
    texts = [f"{k:,}" for k in ks]
    return ", ".join(texts if len(texts) < 8 else [*texts[:3], "…", texts[-1]])


def answer(laws: Laws) -> str:
    """Say whether the law holds, as HTML: in a sentence or two, then for each family, dataset and k.

    A row for each family and dataset comes first; every fit with its interval is folded.
    """
    parts = [f"<p><b>{html.escape(prose.all_or_none(sentence))}</b></p>" for sentence in law.summary(laws.fits)]
    parts += [f"<p>{html.escape(note)}</p>" for note in laws.notes]
    grid, left_out = verdict_grid(laws.fits)
    parts.append(html_table(grid, {}, ROWS))
    more = f" {left_out} thresholds between are in the folded table." if left_out else ""
    parts.append(f'<p class="rbp-small">{IN_WORDS}{more}</p>')
    every = law.verdict_table(laws.fits, level=laws.level)
    summary = f"All {len(laws.fits)} fits: α with its interval, and R²"
    body = html_table(every["table"], every["formats"], ROWS) + f'<p class="rbp-small">{every["caption"]}</p>'
    parts.append(f'<details class="rbp-fold"><summary>{summary}</summary>{body}</details>')
    return "".join(parts)


def verdict_grid(fits: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Arrange the verdicts on `law.laws`: a row for each family and dataset, a column for each k and cross-entropy.

    A cell is a word of WORDS and α. Of more than COLUMNS thresholds some are left out, evenly: how many comes second.
    """
    ks = sorted(map(int, fits["k"].dropna().unique()))
    places = sorted({round(i * (len(ks) - 1) / (COLUMNS - 1)) for i in range(COLUMNS)}) if len(ks) > COLUMNS else None
    chosen = ks if places is None else [ks[place] for place in places]
    words = law.verdicts(fits).map(WORDS)
    cells = fits.assign(cell=[written("{} {:.3f}", pair) for pair in zip(words, fits["alpha"], strict=True)])
    cells["cell"] = cells["cell"].where(fits["alpha"].notna(), words)
    rows = []
    for (family, dataset), row in cells.groupby(["family", "dataset"], sort=False):
        by_k = dict(zip(row["k"].fillna(0), row["cell"], strict=True))
        entropy = {"cross-entropy": by_k.get(0, "–")} if fits["k"].isna().any() else {}
        named = {"Family": family_label(str(family)), "Dataset": dataset_label(str(dataset))}
        rows.append(named | {f"k = {k:,}": by_k.get(k, "–") for k in chosen} | entropy)
    return pd.DataFrame(rows), len(ks) - len(chosen)


# ── One run


class Rerun:
    """A chapter that runs with other parameters than the book's, or on the reader's own data."""

    def __init__(self, chapter: Chapter, values: Mapping[str, Any], shell: Any) -> None:
        self.chapter, self.values, self.changed = chapter, values, chapter.changed(values)
        self.readers_files = chapter.readers_own(values)
        self._folders = [path.resolve() for path in self.readers_files]
        self.files, self.steps = set[Path](), set[str]()
        self._answers: list[str] = []
        self._origins = Origins(shell, {p.name: self._origins_of(p) for p in chapter.parameters}, self._drain)

    def _origins_of(self, parameter: Parameter) -> frozenset[str]:
        value = self.values.get(parameter.name, parameter.default)
        if names := parameter.sources(value):
            readers_files = parameter.readers_own(value)
            return frozenset([YOURS] * bool(readers_files) + [BOOK] * (len(readers_files) < len(names)))
        return frozenset([f"{parameter.name} = {text_of(parameter, value)}"] if parameter.name in self.changed else [])

    def _drain(self) -> frozenset[str]:
        """Return whose files and tables of steps were read since the last call."""
        read = provenance.noted()
        origins = [YOURS if any(map(path.is_relative_to, self._folders)) else BOOK for path in read.files]
        origins += [BOOK] * bool(read.steps)
        self.files |= read.files
        self.steps |= read.steps
        read.files.clear()
        read.steps.clear()
        return frozenset(origins)

    def data(self) -> str:
        """Return "yours", "the book’s" or both, for the output of the statement that runs now."""
        origins = self._origins.current()
        if YOURS in origins:
            return "yours and the book’s" if BOOK in origins else "yours"
        changed = "; ".join(sorted(origins - {YOURS, BOOK}))
        return f"the book’s, with {changed}" if changed else UNCHANGED

    @cached_property
    def _law(self) -> str:
        """Whether the law holds in the run's measurements, as HTML; "" where the chapter takes none."""
        try:
            laws = fit_laws(self.chapter, self.values)
        except RbpError as error:
            return f"<p>It is not known whether the law holds: {html.escape(str(error))}</p>"
        return answer(laws) if laws else ""

    def answer(self, sentences: Sequence[str]) -> None:
        """Add sentences of the chapter's own answer, unless the book's data give them unchanged."""
        data = self.data()
        if sentences and data != UNCHANGED:
            self._answers += [*(f"<p><b>{html.escape(prose.all_or_none(sentence))}</b></p>" for sentence in sentences)]
            self._answers.append(f'<p class="rbp-data">Data: {html.escape(data)}</p>')

    def opening(self, values: Mapping[str, Recorded] | None = None) -> str:
        """Open the page, as HTML: what was given, the answer, and how parts are marked.

        The chapter's own answer (`answer`) stands before the law's. Where there is neither, it is the book's answer
        beside the numbers of the run, `values`, once it has ended.
        """
        whose = "on your data" if self.readers_files else "with other parameters"
        parts = [f"<p><b>This page was run {whose}:</b> {html.escape(self.chapter.in_words(self.changed))}.</p>"]
        files = [f"{file_name(path)} (SHA-256 {sha256(path)[:12]})" for path in self.readers_files if path.is_file()]
        parts += self._answers or [self._law]
        if self._answers and self._law:
            summary = "Does the law hold in these measurements?"
            parts.append(f'<details class="rbp-fold"><summary>{summary}</summary>{self._law}</details>')
        if values is not None and not self._answers and not self._law:
            parts.append(f"<p><b>The book’s answer, and this run’s numbers:</b></p>{self._numbers(values)}")
        marks = "Each figure and table below says whose data it shows: yours, the book’s, or both."
        if "JPY_SESSION_NAME" in os.environ:  # of JupyterLab, in which nothing else writes numbers into sentences
            marks += " Text and headings are the book’s; {value} stands for a number. The last cell lists what differs."
        read = f"Read: {', '.join(files)}. " if files else ""
        parts.append(f'<p class="rbp-small">{html.escape(read)}{marks}</p>')
        return f'<div class="rbp-answer">{"".join(parts)}</div>'

    def _numbers(self, values: Mapping[str, Recorded]) -> str:
        """List the sentences of the book's answer beside the run's numbers, as HTML."""
        cells = prose.answer_of(self.chapter.notebook["cells"])
        table, _, _ = compare_sentences(cells, self.chapter.name, _accepted(), values)
        return html_table(table, {}) if len(table) else "<p>All of its numbers are the same.</p>"

    def closing(self, values: Mapping[str, Recorded], findings: Mapping[str, Recorded]) -> str:
        """Close the page, as HTML: the book's findings, sentences and verdicts that the run leaves or replaces."""
        accepted = _accepted()
        parts = ['<div class="rbp-still"><p><b>What of the book still applies?</b></p>', overturned(findings)]
        parts += [sentences(self.chapter, accepted, values), verdicts(self.chapter.name, accepted, values), "</div>"]
        return "".join(parts)

    def command(self, handed_on: bool) -> tuple[str, str]:
        """Write the command that repeats the run, and say where; a run that is handed on has copies of files."""
        copies = copied_names(self.chapter, self.values) if handed_on else {}
        where = " in the folder of this page" if copies else ""
        return command(self.chapter, with_names(self.chapter, self.changed, copies)), where


# ── What of the book still applies


def _accepted() -> Results:
    expected = Project().expected
    return read_book(expected) if expected.exists() else {}


def overturned(findings: Mapping[str, Recorded]) -> str:
    """List the book's findings that a run does not bear out, with what stands in their place, as HTML."""
    rows = [
        (finding, recorded.value or "not in this run", recorded.data if recorded.value and recorded.data else "–")
        for finding, recorded in findings.items()
    ]
    table = pd.DataFrame(rows, columns=["The book’s finding", "In this run", "Data"])
    return f"<p>Its findings that do not stand in this run ({len(rows)}):</p>{html_table(table, {}, 6)}" if rows else ""


def compare_sentences(
    cells: prose.Cells, chapter: str, accepted: Results, values: Mapping[str, Recorded]
) -> tuple[pd.DataFrame, int, int]:
    """List the sentences whose numbers a run replaces or lacks, beside the run's; count those unchanged, those lacking.

    Columns The book’s sentence, In this run, Data.
    """
    book = accepted.get(chapter, {})
    rows, unchanged, lacking = [], 0, 0
    for sentence in prose.sentences(cells):
        places = [place for place in prose.VALUE.finditer(sentence) if place["chapter"] in (None, chapter)]
        keys = [key for place in places for key in prose.keys_of(place)]
        if not places:
            continue
        if all(agree(book.get(key), values.get(key)) for key in keys):
            unchanged += 1
            continue
        texts = [prose.in_words_or_dash(values, place) for place in places]
        others = [key for key in keys if key in values and not agree(book.get(key), values[key])]
        data = [values[key].data for key in others][:1] if {*texts} != {"–"} else []
        lacking += not data
        run_text = "; ".join(texts) if data else "not in this run"
        rows.append((prose.strip_markup(sentence, chapter, accepted), run_text, *(data or ["–"])))
    return pd.DataFrame(rows, columns=["The book’s sentence", "In this run", "Data"]), unchanged, lacking


def sentences(chapter: Chapter, accepted: Results, values: Mapping[str, Recorded]) -> str:
    """Show `compare_sentences` of a chapter, with the counts, as HTML."""
    table, unchanged, lacking = compare_sentences(chapter.notebook["cells"], chapter.name, accepted, values)
    count = len(table) + unchanged
    text = f"Sentences with numbers of this chapter: {count}. Unchanged, as they rest on the book’s data: {unchanged}. "
    text += f"With other numbers in this run: {len(table) - lacking}. Not in this run: {lacking}."
    return f"<p>{text}</p>" + (html_table(table, {}, 6) if len(table) else "") if count else ""


def _keys_of(claim: Mapping[str, Any], prefix: str) -> list[str]:
    """List the recorded values of a chapter that a claim names, without the chapter's prefix."""
    return [key.removeprefix(prefix) for key in claim.get("numbers", {}).values() if key.startswith(prefix)]


def verdicts(chapter: str, accepted: Results, values: Mapping[str, Recorded]) -> str:
    """List the book's verdicts that rest on numbers which a run replaces or lacks, as HTML."""
    prefix, book, rows = f"{chapter}::", accepted.get(chapter, {}), []
    claims = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))  # as texts: what judges them is made from chapters
    concerned = {name: claim for name, claim in claims.items() if _keys_of(claim, prefix)}
    for name, claim in concerned.items():
        names = _keys_of(claim, prefix)
        keys = {key for name in names for key in select({*book, *values}, name)}
        if not all(agree(book.get(key), values.get(key)) for key in keys):
            verdict = accepted.get("ledger", {}).get(f"verdict.{name}")
            rows.append((claim["says"], "–" if verdict is None else verdict.value))
    table = pd.DataFrame(rows, columns=["Claim", "The book’s verdict"])
    text = f"Verdicts on numbers of this chapter: {len(concerned)}. This run replaces or lacks the numbers of "
    text += f"{len(rows)}. Verdicts are about the book’s models, not about this run."
    return f"<p>{text}</p>" + html_table(table, {}, 4) if rows else ""
