"""The book's pages: stage the sources, and build them with Jupyter Book."""

import atexit
import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from sphinx_external_toc.parsing import MalformedError, parse_toc_yaml

from companion.execute import inputs, prose
from companion.execute.run import Chapter, all_chapters, times
from companion.ledger.claims import Numbers, judge_all
from companion.project import Project
from companion.render.cards import Card, claim_cards, figure_cards, write_cards
from companion.render.citation import bibtex_box, configuration, read_citation
from rbp.errors import ChapterError, RbpError
from rbp.io import canonical_json, files_below, folder_beside, parse_json, sha256, swap_in, write_file

FIGURE = re.compile(r"^<!-- figure (?P<chapter>\w+)::(?P<name>[\w-]+) -->$", re.MULTILINE)
"""The place of a chapter's figure on a page by hand."""

INDEX = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>The book</title>
<meta http-equiv="refresh" content="0; url={page}"><link rel="icon" href="data:,">
<p>The book begins at <a href="{page}">{page}</a>.</p></html>
"""
"""``index.html``: it leads on to the first page, which is in a folder."""

SETTINGS = ("_config.yml", "CITATION.cff")
"""What the pages depend on beside chapters and pages by hand."""

CITE_LINE = "<!-- cite -->"
CHAPTERS_LINE = "<!-- chapters -->"
"""The place of the list of chapters, with the minutes that each takes, on a page by hand."""

WORDS_A_MINUTE, FIGURES_A_MINUTE = 200, 3  # of a reader who looks at the figures too
REPORT_LINK = '\n- The report for referees, set from these very chapters: <a href="../report.pdf">PDF</a>'


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def stage(project: Project) -> None:
    """Make ``_build/source`` (pages) and ``_build/extra`` (the figures' files).

    The source mirrors the repository: ``book/`` by hand, ``notebooks/`` executed, ``_toc.yml`` at its root.
    A report of these very chapters is offered for download.
    """
    offered = report_is_current(project)
    chapters = all_chapters(project)
    book = prose.BookValues.read(project)
    values = book.known()
    with contextlib.ExitStack() as stack:
        source, extra = (stack.enter_context(folder_beside(project.build / name)) for name in ("source", "extra"))
        shutil.copytree(project.book, source / "book", ignore=shutil.ignore_patterns(".*", "*.toml", "*.json", "*.typ"))
        for page in (source / "book").rglob("*.md"):
            text = prose.numbered(prose.fill_in(page.read_text(encoding="utf-8"), "", values), book.numbers)
            _check_values(text, page.name)
            if CITE_LINE in text:
                text = text.replace(CITE_LINE, bibtex_box(project))
            if CHAPTERS_LINE in text:
                text = text.replace(CHAPTERS_LINE, _contents(project, chapters, book.numbers))
            page.write_text(with_figures(text, project, page.name), encoding="utf-8")
        _copy(project.book / "_toc.yml", source / "_toc.yml")
        made_text = made_page(project, REPORT_LINK if offered else "")
        (source / "book" / "made.md").write_text(made_text, encoding="utf-8")
        (source / "notebooks").mkdir(exist_ok=True)
        for chapter in chapters:
            name = chapter.name
            (source / "notebooks" / f"{name}.ipynb").write_text(_page(project, chapter, book), encoding="utf-8")
            if (files := project.chapters / name / name).is_dir():
                shutil.copytree(files, extra / "notebooks" / name)
        if cards := list(_cards(project, chapters)):
            write_cards(extra, cards, read_citation(project).get("url", ""))
        if offered:
            _copy(report_file(project), extra / "report.pdf")
        _keep_times(source, project.build / "source")
        for folder, name in ((source, "source"), (extra, "extra")):
            swap_in(folder, project.build / name)


def _keep_times(new: Path, old: Path) -> None:
    """Give files that are as they were their old times, by which Sphinx knows what it has read."""
    for path in files_below(new):
        before = old / path.relative_to(new)
        if before.is_file() and before.read_bytes() == path.read_bytes():
            os.utime(path, ns=(before.stat().st_atime_ns, before.stat().st_mtime_ns))


def reading_minutes(cells: prose.Cells) -> int:
    """Estimate the minutes that an executed chapter takes to read, without its exercises: whole ones, at least 1."""
    words = figures = 0
    for cell in cells:
        if cell["cell_type"] == "markdown":
            words += len(re.findall(r"\w+", prose.EXERCISES.sub("", prose.VALUE.sub("1", "".join(cell["source"])))))
        figures += json.dumps(cell.get("outputs", "")).count("<figure class=")
    return max(1, round(words / WORDS_A_MINUTE + figures / FIGURES_A_MINUTE))


def _contents(project: Project, chapters: list[Chapter], numbers: Mapping[str, str]) -> str:
    """List the chapters that are no appendices, each with its link and the minutes that it takes."""
    lines = []
    for name, number in numbers.items():  # in their order
        chapter = next((candidate for candidate in chapters if candidate.name == name), None)
        if chapter and number.isdecimal():
            minutes = reading_minutes(_cells(project, chapter))
            lines.append(f"{number}. [{chapter.title}](../notebooks/{name}.ipynb) · {minutes} min")
    return "\n".join(lines)


def _cells(project: Project, chapter: Chapter) -> prose.Cells:
    """Return a chapter's cells as they are written now, with the outputs of its execution."""
    executed = parse_json((project.chapters / chapter.name / f"{chapter.name}.ipynb").read_bytes())
    return prose.with_prose(chapter.notebook["cells"], executed["cells"])


def _cards(project: Project, chapters: list[Chapter]) -> Iterator[Card]:
    """Make the cards of all figures, and of the claims where the ledger is a chapter."""
    by_hand = [(path.stem, path.read_text(encoding="utf-8")) for path in sorted(project.book.glob("*.md"))]
    places = [(place, f"book/{page}.html") for page, text in by_hand for place in FIGURE.finditer(text)]
    for chapter in chapters:
        elsewhere = {place["name"]: page for place, page in places if place["chapter"] == chapter.name}
        yield from figure_cards(chapter.name, chapter.title, _cells(project, chapter), elsewhere)
        if chapter.name == "ledger":
            yield from claim_cards(judge_all(Numbers.read(project)))


def with_figures(text: str, project: Project, page: str) -> str:
    """Insert the figures of executed chapters at their places in a page written by hand, with caption and downloads.

    Raises ChapterError for a figure that its chapter does not show.
    """

    def shown(place: re.Match[str]) -> str:
        chapter, name = place["chapter"], place["name"]
        executed = project.chapters / chapter / f"{chapter}.ipynb"
        cells = parse_json(executed.read_bytes())["cells"] if executed.exists() else []
        for output in (output for cell in cells for output in cell.get("outputs", [])):
            html = "".join(output.get("data", {}).get("text/html", ""))
            if html.startswith(f'<figure class="rbp-figure" id="{name}">'):
                html = html.replace(f'href="{chapter}/', f'href="../notebooks/{chapter}/')
                return f"```{{raw}} html\n{html}\n```"
        fault = f"the page shows the figure {name} of {chapter}, which has none of this name"
        raise ChapterError(fault, page, "Name a chapter of the book and a figure that it shows.")

    return FIGURE.sub(shown, text)


def _page(project: Project, chapter: Chapter, book: prose.BookValues) -> str:
    """Write out the prose and values of an executed chapter. Raises ChapterError for a value that nobody records."""
    executed = project.chapters / chapter.name / f"{chapter.name}.ipynb"
    try:
        notebook = prose.page_of(executed, book, chapter.notebook["cells"])
    except ValueError as error:
        raise ChapterError(str(error), chapter.name) from None
    for cell in notebook["cells"]:
        _check_values(cell["source"] if cell["cell_type"] == "markdown" else "", chapter.name)
    title, _, rest = notebook["cells"][0]["source"].partition("\n")
    minutes = f'<p class="rbp-minutes">{reading_minutes(notebook["cells"])} min to read</p>'
    notebook["cells"][0]["source"] = f"{title}\n\n{minutes}\n{rest}"
    return canonical_json(notebook, indent=1) + "\n"


def _check_values(text: str, page: str) -> None:
    """Raise ChapterError if a page names a value that is not recorded."""
    before, missing, _ = text.partition(prose.NO_VALUE)
    if missing:
        fault = f"the prose names a value that no chapter records, after “{before.strip()[-40:]}”"
        raise ChapterError(fault, page, "Name a key that page.record records.")


_START = """
import atexit, gc, importlib, json, pathlib, sys
gc.set_threshold(100_000)
atexit.register(gc.freeze)  # at the end nobody waits for a last look at all that was imported
from jupyter_book.cli.main import main
from jupyter_book.config import get_final_config
from sphinx.application import builtin_extensions
config, _ = get_final_config(user_yaml=pathlib.Path(sys.argv[1]), cli_config={"latex_individualpages": False})
for name in (*builtin_extensions, *config["extensions"], "myst_nb.sphinx_ext", "sphinx_book_theme"):
    importlib.import_module(name)
line = sys.stdin.readline()
if line:
    sys.argv = json.loads(line)
    main()
"""
_waiting: list["subprocess.Popen[str]"] = []


def start_early(config: Path) -> None:
    """Start the next `jupyter_book` now: it imports what `config` names, and waits. It ends with this process."""
    if _waiting:
        return
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    # It has no __main__, and its script may be off the PATH.
    process = subprocess.Popen([sys.executable, "-c", _START, str(config)], text=True, **pipes)  # type: ignore[call-overload]  # noqa: S603
    atexit.register(process.kill)
    _waiting.append(process)


def configured(project: Project) -> Path:
    """Write the book's configuration with authors and addresses to ``_build/config.yml``; returns the file."""
    path = project.build / "config.yml"
    write_file(path, yaml.safe_dump(configuration(project), allow_unicode=True))
    return path


def jupyter_book(source: Path, config: Path, output: Path, strict: bool = True) -> Path:
    """Build ``source`` with Jupyter Book below ``output``; returns the folder of pages.

    Raises RbpError if it cannot be built, and for a page that the contents name and the pages lack.
    """
    start_early(config)
    arguments = ["build", str(source), "--config", str(config)]
    arguments += ["--toc", str(source / "_toc.yml"), "--path-output", str(output)]
    arguments += ["-W", "--keep-going", "-n"] if strict else []
    process = _waiting.pop()
    try:
        printed, _ = process.communicate(json.dumps(["jupyter-book", *arguments]) + "\n")
    except BaseException:
        process.kill()
        raise
    pages = output / "_build" / "html"
    explained = process.returncode and "nonexisting document" not in printed  # another fault, which Sphinx tells
    if not explained and (absent := _absent(source / "_toc.yml", pages)):
        remedy = "Write it, or take it out of the contents; what the configuration excludes becomes no page."
        raise RbpError(f"the contents name {absent[0]}, and the built pages have no such page", "_toc.yml", remedy)
    if process.returncode:
        lines = printed.splitlines()
        warned = [line for line in lines if any(word in line for word in ("WARNING", "ERROR", "CRITICAL", "rror:"))]
        text = "\n".join(dict.fromkeys(warned or lines[-20:])).replace(f"{source}{os.sep}", "")
        raise RbpError("the pages cannot be built", None, text)
    return pages


def _absent(contents: Path, pages: Path) -> list[str]:
    """List the pages that a table of contents names and the build lacks."""
    with contextlib.suppress(MalformedError, FileNotFoundError):  # which Sphinx says better
        named = [re.sub(r"\.(md|ipynb|rst)$", "", name) for name in parse_toc_yaml(contents)]
        return [name for name in named if not (pages / f"{name}.html").is_file()] if pages.is_dir() else []
    return []


#: of the built pages, what Sphinx leaves as it is where it writes a page no more; it copies all other files anew
_WRITTEN: tuple[str, ...] = ("book/*.html", "notebooks/*.html", "_sources/*/*", "_images/*", "_downloads/*/*")
_WRITTEN += (".buildinfo", "searchindex.js", "_static/sentences.js")


def build_html(project: Project) -> None:
    """Stage the book and build its HTML into ``_build/html``, which is replaced whole. Raises RbpError.

    Where code and settings have not changed, Sphinx begins with the pages of the last build: it reads changed ones,
    and writes these, or all where more than words has changed (`companion.render.sphinx_ext`).
    """
    config = configured(project)
    start_early(config)  # Sphinx imports its extensions meanwhile
    stage(project)
    key = _reading_key(project)
    with folder_beside(project.html) as aside:
        read, written = aside / "_build" / ".doctrees", aside / "_build" / "html"  # where Jupyter Book has them
        kept_doctrees = project.doctrees / key
        if written_before := kept_doctrees.is_dir():
            read.parent.mkdir()
            kept_doctrees.rename(read)
            for path in (path for pattern in _WRITTEN for path in project.html.glob(pattern)):
                copy = written / path.relative_to(project.html)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
        pages = jupyter_book(project.build / "source", config, aside)
        if (addresses := project.html / "sitemap.xml").exists() and written_before:
            shutil.copy2(addresses, pages)  # the extension names only pages that it has seen written
        toc = yaml.safe_load((project.book / "_toc.yml").read_text(encoding="utf-8"))
        first = f"{toc['root']}.html"
        write_file(pages / "index.html", INDEX.format(page=first))
        swap_in(pages, project.html)
        shutil.rmtree(project.doctrees, ignore_errors=True)
        project.doctrees.mkdir()
        read.rename(kept_doctrees)


def _reading_key(project: Project) -> str:
    """Return a checksum of what, besides a page, decides how Sphinx reads and writes it: code, settings, pins."""
    code = [path for path in files_below(project.root / "src") if path.suffix == ".py"]
    others = [path for path in files_below(project.book) if path.suffix != ".md"]
    return inputs.digest(project, [*code, *others, *(project.root / name for name in SETTINGS), *inputs.pins(project)])


def fingerprint(project: Project) -> str:
    """Return a checksum over all that the pages are made of, except the page on how the book was made."""
    written = [chapter.path for chapter in all_chapters(project)]
    executed = [project.chapters / path.stem / path.name for path in written]
    settings = [project.root / name for name in SETTINGS]
    return inputs.digest(project, [*written, *executed, project.book, project.expected, *settings])


def report_file(project: Project) -> Path:
    """Return where the report lies (`make report`)."""
    return project.build / "pdf" / "report.pdf"


def report_stamp(project: Project) -> Path:
    """Return the file with the fingerprint of the chapters that the report shows."""
    return report_file(project).with_suffix(".sha256")


def report_is_current(project: Project) -> bool:
    """Return whether there is a report of these very chapters."""
    stamp = report_stamp(project)
    return stamp.exists() and stamp.read_text() == fingerprint(project)


PACKAGES = (
    *("jupyter-book", "sphinx", "myst-nb", "papermill", "ipykernel", "snakemake", "numpy", "pandas", "scipy"),
    *("statsmodels", "matplotlib", "seaborn"),
)


def git(project: Project, *arguments: str) -> str | None:
    """Return git's answer about the checkout; None outside of one, and where there is no git."""
    command = ["git", "-C", str(project.root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit(project: Project) -> str:
    """Name the checkout's commit, and whether files differ from it; "not a checkout" outside git."""
    head = git(project, "rev-parse", "HEAD")
    if head is None:
        return "not a checkout"
    return f"`{head}`" + (", with changes that are not committed" if git(project, "status", "--porcelain") else "")


def _table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"| {a} | {b} |" for a, b in [head, ("---", "---"), *rows])


def _moved_verdicts(project: Project) -> str:
    """List the verdicts that other data or another method has moved (book/verdicts.toml), as a section; "" for none."""
    path = project.book / "verdicts.toml"
    moved = tomllib.loads(path.read_text(encoding="utf-8"))["moved"] if path.is_file() else []
    rows = [(f"{verdict['claim']}", f"{verdict['before']} → {verdict['after']}. {verdict['why']}") for verdict in moved]
    return f"\n## Verdicts that moved\n\n{_table(('Claim', 'Verdict, and why'), rows)}\n" if rows else ""


def made_page(project: Project, report: str = "") -> str:
    """Write the page on how the book was made, in MyST: versions, commit, moved verdicts, seconds, data's checksums.

    report: a line that links it; "" where there is none.
    """
    versions = [(name, importlib.metadata.version(name)) for name in PACKAGES]
    took = times(project)
    seconds = [(name, f"{value:.1f}") for name, value in took.items()]
    seconds.append(("all", f"{sum(took.values()):.1f}"))
    data = project.root / "data"
    files = sorted(path for path in data.rglob("*") if path.is_file() and not path.name.startswith("."))
    sums = [(f"`{path.relative_to(project.root).as_posix()}`", f"`{sha256(path)}`") for path in files]
    return f"""---
nosearch: true
made: true
---
# How this book was made

`rbp book` executed every chapter with papermill and built these pages with Jupyter Book. Every number in the
prose was recorded by a chapter and put in from there. Building the book again from the same sources gives the
same pages, byte for byte, but for this one.

- Commit: {commit(project)}
- Python {platform.python_version()} on {platform.system()} {platform.machine()}{report}

## Packages

{_table(("Package", "Version"), versions)}

All pins are in `requirements.lock`, `requirements-checks.lock` and `requirements-torch.lock`.
{_moved_verdicts(project)}
## Seconds for each step and chapter

{_table(("Step or chapter", "Seconds"), seconds)}

Each was measured when the step was last made or the chapter last executed; two may have shared the machine.

## Data

<details class="rbp-fold"><summary>The checksums of {len(sums)} files</summary>

{_table(("File", "SHA-256"), sums)}

</details>
"""
