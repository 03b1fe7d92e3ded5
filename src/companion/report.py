"""The report for referees: a PDF, set by Typst from `book/report.typ` and the values, figures and tables of the run.

Its prose names values as a chapter's does (`companion.execute.prose`); it tells what the built book recorded.
"""

import re
from pathlib import Path
from typing import NamedTuple

from companion.execute import prose, results
from companion.execute.results import Results
from companion.project import Project
from companion.render import site
from rbp.errors import DataError
from rbp.io import write_file

SOURCE = "report.typ"
TYPST_CALLS_IT = "__typst_py_bytes__.typ"
SHOWN = re.compile(r'"(?P<chapter>\w+)::(?P<name>[\w-]+)"')
"""A figure or table in the source; a chapter keeps the data of both as CSV (`companion.execute.page`)."""


class FilledReport(NamedTuple):
    """The report's source with its values written out, what it shows, and what is missing.

    values: also the checksums of the figures and tables shown. lacking: values, figures and tables that no chapter has
    recorded, with the line that names them.
    """

    text: str
    values: Results
    lacking: list[str]


def fill_report(project: Project, built: Results) -> FilledReport:
    """Write the ``built`` values into the report. Raises DataError for a format that does not suit its value."""
    lacking: list[str] = []
    values: Results = {}
    lines = (project.book / SOURCE).read_text(encoding="utf-8").splitlines(keepends=True)
    for i, line in enumerate(lines):
        where = f"book/{SOURCE}, line {i + 1}"
        named = [(place["chapter"] or "", key) for place in prose.VALUE.finditer(line) for key in prose.keys_of(place)]
        for chapter, key in named + [(chapter, f"{name}.csv") for chapter, name in SHOWN.findall(line)]:
            if key in (recorded := built.get(chapter, {})):
                values.setdefault(chapter, {})[key] = recorded[key]
            else:
                lacking.append(f"{chapter}::{key} ({where})")
        if not lacking:
            try:
                lines[i] = prose.VALUE.sub(lambda place: _text(prose.in_words(values[place["chapter"]], place)), line)
            except ValueError as error:
                raise DataError(str(error), where, "Give a format that suits the value, such as :.3f.") from None
    return FilledReport("".join(lines), values, lacking)


def _text(words: str) -> str:
    """Write words as a Typst string, which is shown as it is: in its markup, "1." would begin a list."""
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'#"{escaped}";'


def make(project: Project) -> Path:
    """Typeset the report from the built book, into ``_build/pdf``; the next build of the site offers it.

    Raises DataError for a value, figure or table that the run lacks, and for what Typst cannot set, or doubts.
    """
    import typst  # late: only this needs them

    from companion.typesetting import fonts

    if not (project.book / SOURCE).exists():
        raise DataError("there is no report to set", f"book/{SOURCE}")
    report = fill_report(project, results.read_book(project.results))
    if report.lacking:
        fault = f"the report names what no chapter has recorded: {'; '.join(report.lacking)}"
        remedy = "Build the book anew (rbp book), record it there (page.record), or take it out of the report."
        raise DataError(fault, str(project.results), remedy)
    with fonts() as of_figures:
        compiler = typst.Compiler(
            report.text.encode(),
            root=str(project.root),
            font_paths=of_figures,  # no others: the same bytes on every machine
        )
        try:  # as for archives: every font is in the file, and no sign without its glyph
            pdf, warnings = compiler.compile_with_warnings(pdf_standards="a-2u")
        except typst.TypstError as error:
            raise _refused(error.message, error.diagnostic) from None
    if warnings:
        raise _refused(warnings[0].message, warnings[0].diagnostic)
    assert isinstance(pdf, bytes)  # noqa: S101 (one file)
    target = site.report_file(project)
    write_file(target, pdf)
    results.write_book(_values_file(project), report.values)
    write_file(site.report_stamp(project), site.fingerprint(project))
    return target


def _refused(message: str, diagnostic: str) -> DataError:
    """Make an error of what Typst says first, with the place in the report's source: values are put in line by line."""
    first = diagnostic.replace(TYPST_CALLS_IT, f"book/{SOURCE}").partition("\n\n")[0]
    remedy = f"{first}\nCorrect the report's source; if a figure or table is missing, build the book anew (rbp book)."
    return DataError(f"Typst cannot set the report: {message}", f"book/{SOURCE}", remedy)


def _values_file(project: Project) -> Path:
    """Return the file of the values in the last report, as `results.write_book` writes them."""
    return site.report_file(project).with_suffix(".json")


def faults(project: Project, built: Results) -> list[str]:
    """List why the report is not of this run, a line each: values, figures or tables that are missing or differ.

    Differences are those of the last report that was made: of its values, and of the data of its figures and tables.
    """
    if not (project.book / SOURCE).exists():
        return []
    current = fill_report(project, built)
    lines = [f"not recorded: {name}" for name in current.lacking]
    if _values_file(project).exists():
        before = results.read_book(_values_file(project))
        moved = _moved(current.values, before)
        lines += [f"the report was made of another run (rbp report): {difference}" for difference in moved]
    return lines


def _moved(now: Results, before: Results) -> list[results.Difference]:
    """List the values in both that differ. Others are named, or not, since the report's source was changed."""
    both = {chapter: values.keys() & before.get(chapter, {}).keys() for chapter, values in now.items()}
    of_both = [{c: {key: run[c][key] for key in keys} for c, keys in both.items()} for run in (now, before)]
    return results.compare(*of_both)
