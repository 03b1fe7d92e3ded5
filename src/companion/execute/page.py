"""The page of a chapter while it runs: record numbers, show figures and tables, close with how to rerun it.

Everything shown is also a file in the folder that the environment variable RBP_OUT names: figures as SVG, PNG and CSV,
tables as CSV, numbers in `results.json`. A notebook that is executed by itself writes no files. A rerun says whose data
each part shows (`companion.execute.rerun`).
"""

import html
import importlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from companion import svg
from companion.execute import results, rules, where
from companion.execute.prose import fill_sentence, rerun_box
from companion.execute.run import find
from companion.project import Project
from companion.typesetting import to_png
from rbp import provenance
from rbp.errors import ChapterError
from rbp.figures import style as figure_style
from rbp.io import write_file, write_json
from rbp.report.display import Format, html_table


class Page:
    """One chapter while it runs.

    `name` is the notebook's name without its ending, such as "k1". Raises ChapterError where a name is used twice.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._alone = None if "RBP_OUT" in os.environ else TemporaryDirectory(prefix="rbp-page-")
        self.out = Path(self._alone.name if self._alone else os.environ["RBP_OUT"])
        self.files = self.out / self.name
        self._namespace = sys._getframe(1).f_globals
        self.rerun = _rerun_in(name, self._namespace)
        self.values: dict[str, results.Recorded] = {}
        self._recordings: dict[str, where.Recording] = {}
        self._findings: dict[str, results.Recorded] = {}
        self._shown: set[str] = set()
        self._downloads: list[str] = []  # items of the list at the end
        self._top: Any = self._display(self.rerun.opening(), display_id=True) if self.rerun else None

    def record(
        self,
        values: Mapping[str, results.Value],
        *,
        unit: str = "",
        tolerance: float | None = 1e-9,
        within: float = 0.0,
        because: str = "",
    ) -> None:
        """Record numbers (or words) by their keys, each once: for the prose, for CI, and for the ledger.

        A number that is not finite is left out: of a reader's own measurements some things cannot be told, and what
        the book's own run lacks, `rbp verify` finds. `tolerance` is relative; None says that the values are not
        compared between builds. They may move by `within` besides, in their own unit, and `because` says what that
        was counted from (see `results.Recorded`).
        """
        data = self.rerun.data() if self.rerun else ""
        for key, value in values.items():
            if key in self.values and not self._alone:  # a cell by itself may be run again
                raise ChapterError(f"'{key}' is recorded twice", self.name, "Give each recorded value its own key.")
            if isinstance(value, float) and not math.isfinite(value):
                continue
            self.values[key] = results.recorded(key, value, unit, tolerance, within, because, data)
        self._note(values)

    def finding(self, text: str, *, when: str, otherwise: str, **numbers: results.Value) -> str:
        """Return what a caption says: `text` where a rule is met, else `otherwise`, and "" where neither can be told.

        when: a rule over values recorded so far (`rules.is_met`), and over `numbers` given here. otherwise names
        values as prose does. Neither text has a full stop. Where prose or a heading has `text`, the other stands too.
        """
        values = self.values | {key: results.recorded(key, number) for key, number in numbers.items()}
        met = rules.judge(when, values)
        stands = text if met else "" if met is None else fill_sentence(otherwise, values)
        if stands != text:
            read = [self.values[key].data for key in re.findall(r"[^\W\d][\w.]*", when) if key in self.values]
            data = read or [self.rerun.data() if self.rerun else ""]
            self._findings[text] = results.recorded(text, stands, data=data[0])
        return f"<b>{html.escape(stands)}.</b> " if stands else ""

    def figure(
        self,
        name: str,
        figure: Figure | figure_style.Panels,
        *,
        caption: str,
        alt: str,
        data: pd.DataFrame,
        living: Mapping[str, Any] | None = None,
        compared: bool = True,
    ) -> None:
        """Show a figure with its caption, and keep it as SVG and PNG, with the data it shows as CSV.

        `caption` is HTML: what to see in the figure; `alt` says the same to readers who cannot see it. `living`: what
        book/_static/living.js needs to put a chart that moves in the picture's place, by the figure's name. `compared`:
        see `download`.
        """
        self._once(name)
        legend = None
        if isinstance(figure, Figure):
            panels, columns, alts = [figure], 1, [alt]
        else:
            (panels, legend), columns = svg.panel_figures(figure), min(figure.columns, len(figure.keys))
            alts = [f"{alt} ({key})" if len(panels) > 1 else alt for key in figure.keys]
        prefixes = [f"{name}-{i}-" for i in range(len(panels))]
        svgs = list(map(svg.render, panels))
        if legend:
            alts.append(f"Legend: {', '.join(text.get_text() for text in legend.legends[0].get_texts())}")
            prefixes.append(f"{name}-legend-")
            svgs.append(svg.render(legend))
        figure_svg = svg.tiled(svgs, panels[0], columns, prefixes, legend=legend)
        write_file(self.files / f"{name}.svg", figure_svg)
        write_file(self.files / f"{name}.png", to_png(figure_svg))
        self._save_csv(name, data, compared)
        body = svg.beside_each_other(svgs, alts, prefixes, columns, legend=bool(legend))
        if living is not None:
            body = f'<div class="rbp-living" data-chart="{name}">{body}{data_within(living)}</div>'
        self._show(name, body, caption, ("svg", "png", "csv"))

    def table(
        self,
        name: str,
        table: pd.DataFrame,
        *,
        caption: str,
        formats: Mapping[str, Format] | None = None,
        data: pd.DataFrame | None = None,
        rows: int | None = None,
        compared: bool = True,
    ) -> None:
        """Show a table (it scrolls within itself on a phone), and keep it, or `data` in its stead, as CSV.

        `formats` maps a column to a format string or a function. A missing value is shown as a dash. Of a long table
        only the first `rows` are seen at once (None: all); a click shows the others. `compared`: see `download`.
        """
        self._once(name)
        body = html_table(table, formats or {}, rows)
        self._save_csv(name, table if data is None else data, compared, re.sub("<[^>]*>", "|", body))
        self._show(name, body, caption, ("csv",), "rbp-figure rbp-tabled")

    def show(self, markup: str) -> None:
        """Show a piece of HTML."""
        self._display(self._data() + markup)

    def download(self, name: str, data: pd.DataFrame, title: str, *, compared: bool = True) -> None:
        """Save a table as CSV, to be linked at the end: for data that the page shows in another form.

        An empty one is not saved in a rerun.

        Not `compared` between builds is what depends on the processor beyond the last digits: a count of ranks, say.
        """
        self._once(name)
        self._save_csv(name, data, compared)
        if not self._alone and len(data):
            data_note = f", {self.rerun.data()}" if self.rerun else ""
            link = f'<a href="{self.name}/{name}.csv" download>{html.escape(title)}</a>'
            self._downloads.append(f"<li>{link} (CSV{data_note})</li>")

    def answer(self, *sentences: str) -> None:
        """Answer the chapter's question in a rerun, in sentences at the top of its page.

        They name recorded values as prose does; a sentence that names one which this run lacks is left out, and so is
        what the book's data answer unchanged. In the book's own run the prose answers.
        """
        if self.rerun:
            self.rerun.answer([text for sentence in sentences if (text := fill_sentence(sentence, self.values))])
            self._top.update(_html(self.rerun.opening()))

    def close(self) -> None:
        """Write `results.json`, link the data and show how to rerun this chapter; the last line of every notebook."""
        read = provenance.noted()
        project = Project()
        rerun = (self.rerun.files, self.rerun.steps) if self.rerun else (set(), set())
        files = tuple(map(project.label, read.files | rerun[0]))
        recorded = results.ChapterResults(self.name, self.values, files, tuple(read.steps | rerun[1]), self._findings)
        results.write_chapter(self.out / "results.json", recorded)
        if folder := os.environ.get(where.FOLDER):
            write_json(Path(folder) / f"{self.name}.json", self._recordings)
        parameters = find(project, self.name).parameters
        if self.rerun:
            self._top.update(_html(self.rerun.opening(self.values)))
            self._display(self.rerun.closing(self.values, self._findings))
        if self._downloads:
            summary = f"<summary>More data of this chapter (CSV): {len(self._downloads)}</summary>"
            self._display(f'<details class="rbp-fold">{summary}<ul>{"".join(self._downloads)}</ul></details>')
        box = rerun_box(self.name, parameters, *(self.rerun.command(not self._alone) if self.rerun else ()))
        self._display(box, **({"metadata": {"rbp": recorded.as_dict()}} if self._alone else {}))

    def _display(self, markup: str, **options: Any) -> Any:
        from IPython.display import display  # late: not everything that makes tables has it

        return display(_html(markup), **options)

    def _data(self) -> str:
        """Say above a figure or table whose data it shows; "" in the book's own run."""
        return f'<p class="rbp-data">Data: {html.escape(self.rerun.data())}</p>' if self.rerun else ""

    def _once(self, name: str) -> None:
        if name in self._shown and not self._alone:
            raise ChapterError(f"'{name}' is shown twice", self.name, "Give each figure and table a name of its own.")
        self._shown.add(name)

    def _save_csv(self, name: str, data: pd.DataFrame, compared: bool, table_text: str = "") -> None:
        """Save a table as CSV, and record a checksum of it and of the text of the table on the page."""
        if len(data) or not self.rerun:
            file = f"{name}.csv"
            write_file(self.files / file, data.to_csv(index=False, lineterminator="\n").encode())
            checksum, tolerance = checksum_contents(data, table_text), 0.0 if compared else None
            self.values[file] = results.recorded(file, checksum, results.CHECKSUM, tolerance)
            self._note([file])

    def _note(self, keys: Iterable[str]) -> None:
        """Note which statement of the notebook records these values (`companion.execute.where`)."""
        noted = where.FOLDER in os.environ
        if noted and (recording := where.recording_of(sys._getframe(2), self._namespace)):
            self._recordings |= dict.fromkeys(keys, recording)

    def _show(self, name: str, body: str, caption: str, files: tuple[str, ...], kind: str = "rbp-figure") -> None:
        links = " · ".join(
            f'<a href="{self.name}/{name}.{file}" download>{"data (CSV)" if file == "csv" else file.upper()}</a>'
            for file in files
        )
        downloads = f' <span class="rbp-downloads">Download: {links}</span>' if not self._alone else ""
        contents = f"{self._data()}{body}<figcaption>{caption}{downloads}</figcaption>"
        self._display(f'<figure class="{kind}" id="{name}">{contents}</figure>')


def checksum_contents(data: pd.DataFrame, text: str = "") -> str:
    """Return sixteen hexadecimal digits that identify a table's names, words and numbers, and a text.

    Fractions count by four significant digits, and as 0 below a billionth of their column's largest: the last digits
    depend on the processor.
    """
    rounded = data.infer_objects()
    for column in rounded.select_dtypes("float"):
        sizes = rounded[column].abs()
        rounded[column] = rounded[column].mask(sizes < 1e-9 * sizes.max(), 0.0)
    words = re.sub(r"\d+\.\d+(e[-+]\d+)?", lambda number: f"{float(number[0]):.4g}", rounded.to_csv(index=False))
    return sha256((words + text).encode()).hexdigest()[:16]


def _html(markup: str) -> Any:
    from IPython.display import HTML

    return HTML(markup)


def _rerun_in(name: str, namespace: dict[str, Any]) -> Any:
    """Return the `Rerun` of the notebook with this namespace; None in the book's run and elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or shell.user_global_ns is not namespace:
        return None
    chapter = find(Project(), name)
    values = chapter.values_in(shell.user_ns)
    if not chapter.changed(values):
        return None
    # by name: the book's own chapters are not made from what a rerun says
    return importlib.import_module("companion.execute.rerun").Rerun(chapter, values, shell)


def keyed(key: str, table: pd.DataFrame, column: str) -> dict[str, Any]:
    """Name each row's value in a column by `key`, filled in from the row: "real.early.{dataset}.k{k}"."""
    rows: Any = table.to_dict("records")
    return {key.format(**row): row[column] for row in rows}


def data_within(data: Any) -> str:
    """Embed data for a script of the page, as JSON within the page."""
    # a script ends at the first "</script", wherever it stands
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'
