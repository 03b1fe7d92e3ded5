"""Build the book: which file depends on which, the Snakefile's jobs, and the run of Snakemake over them."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import typer

from rbp.book import results, site, steps, workers
from rbp.book.chapters import Chapter, all_chapters, chapter_names, execute, find, step_names, times
from rbp.book.parameters import check
from rbp.core.errors import ChapterFailed, ParameterError, RbpError
from rbp.core.files import canonical_json, exists, expanded, files_below, lock, parse_json, sha256, write_json
from rbp.core.names import nearest, split_names
from rbp.core.paths import ROOT, Project

EVERYWHERE = ("rbp.book.engine", "ipykernel.kernelapp")
LATE = "pandera.backends.pandas.builtin_checks"  # imported when pandera is called
FULL = 100_000  # bytes that are left on a disk that is as good as full


def overrides(project: Project, chapter: Chapter) -> dict[str, Any]:
    """The parameters that ``book/parameters.toml`` (optional) sets in its table ``[NAME]``.

    Raises ParameterError for a table of no chapter and for whatever `rbp.book.parameters.check` refuses.
    """
    path = project.book / "parameters.toml"
    if not path.exists():
        return {}
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"this is not TOML: {error}", "book/parameters.toml") from None
    names = chapter_names(project)
    for name, table in tables.items():
        if name not in names or not isinstance(table, dict):
            raise ParameterError(f'"{name}" is no table of a chapter', "book/parameters.toml", nearest(name, names))
    return check(chapter.parameters, tables.get(chapter.name, {}), chapter.name)


def canonical_overrides(project: Project, name: str) -> str:
    """A chapter's overrides as text: the parameters that Snakemake watches."""
    return canonical_json(overrides(project, find(project, name)))


def _existing(project: Project, values: dict[str, Any]) -> list[Path]:
    """The files that overriding values may name: a user's measurements, say.

    What a word such as "published" stands for is not the book's to know: a text brings all data of the project along.
    """
    texts = [value for value in values.values() if isinstance(value, str)]
    named = [word for text in texts for word in (text.strip(), *split_names(text))]
    paths = [project.root / word for word in dict.fromkeys(named) if word] + [project.root / "data"] * bool(texts)
    return expanded(path for path in paths if exists(path))


def code_checksum(project: Project) -> str:
    """A checksum of the package's code, which every chapter and page depends on.

    Snakemake watches it as a parameter: it looks at all input files again whenever a job ends.
    """
    code = [path for path in files_below(project.root / "src" / "rbp") if path.suffix == ".py"]
    sums = {str(_relative(project, path)): sha256(path) for path in code}
    return hashlib.sha256(canonical_json(sums).encode()).hexdigest()


def chapter_inputs(project: Project, name: str) -> list[str]:
    """The files that a chapter depends on, but for the package: notebook, data, steps, pins, others' results.

    They are relative to the root.
    """
    chapter = find(project, name)
    pins = sorted(project.root.glob("requirements*.lock"))
    data = expanded([project.root / path for path in chapter.reads])
    tables = [project.steps / f"{step}.parquet" for step in chapter.steps]
    own = _existing(project, overrides(project, chapter))
    others = [other for other in chapter_names(project) if other != chapter.name]
    wanted = others if "*" in chapter.results_of else [find(project, each).name for each in chapter.results_of]
    of_others = [project.chapters / other / "results.json" for other in wanted]
    paths = [chapter.path, *data, *tables, *own, *of_others, *pins]
    return list(dict.fromkeys(str(_relative(project, path)) for path in paths))


def step_urgency(project: Project, name: str) -> int:
    """The seconds that follow from the start of the step: its own, and those of the longest chapter that reads it."""
    waiting = [chapter.seconds for chapter in all_chapters(project) if name in chapter.steps]
    return steps.find_step(project, name).seconds + max(waiting, default=0)


def step_inputs(project: Project, name: str) -> list[str]:
    """What a step depends on, relative to the root."""
    return [str(_relative(project, path)) for path in steps.inputs(project, name)]


def _relative(project: Project, path: Path) -> Path:
    return path.relative_to(project.root) if path.is_relative_to(project.root) else path


def site_inputs(project: Project) -> list[str]:
    """The files that the HTML depends on, but for the package, relative to the root."""
    executed = [project.chapters / name / f"{name}.ipynb" for name in chapter_names(project)]
    recorded = [path.with_name("results.json") for path in executed]
    by_hand = [*files_below(project.book), *(project.root / name for name in site.SETTINGS)]
    others = [path for path in (project.expected, site.report_stamp(project)) if path.exists()]
    return [str(_relative(project, path)) for path in [*executed, *recorded, *others, *by_hand]]


def begin(project: Project, job: str, inputs: Sequence[str]) -> None:
    """Keep the inputs of a job as they are before it reads them: when each was written, in ns, and its checksum.

    job: one of `outrun`; inputs: relative to the root.
    """
    there = {path: project.root / path for path in inputs if exists(project.root / path)}
    as_they_are = {path: (file.stat().st_mtime_ns, sha256(file)) for path, file in there.items()}
    write_json(project.begun / f"{job}.json", as_they_are)


def outrun(project: Project) -> list[str]:
    """An output, relative to the root, of each job whose inputs are others than when it began.

    Snakemake compares inputs with outputs, and remembers them as they are when a job has ended: to it, what was saved
    while the job ran is as old as the outputs. Only what was written since is read.
    """
    outputs = {f"chapter-{name}": project.chapters / name / f"{name}.ipynb" for name in chapter_names(project)}
    outputs |= {f"step-{name}": project.steps / f"{name}.parquet" for name in step_names(project)}
    outputs["site"] = project.build / "site.json"

    @cache
    def changed(path: str, written: int, checksum: str) -> bool:
        file = project.root / path
        return exists(file) and file.stat().st_mtime_ns != written and sha256(file) != checksum

    records = {job: project.begun / f"{job}.json" for job in outputs}
    begun = {job: parse_json(path.read_bytes()) for job, path in records.items() if path.exists()}
    found = [job for job, inputs in begun.items() if any(changed(path, *then) for path, then in inputs.items())]
    return [str(_relative(project, outputs[job])) for job in found]


def run_step(project: Project, name: str) -> bool:
    """Make a step's table, with a line when it starts and when it ends; whether it went well.

    A fresh table stays as it is; its files are as new as if it had been made, which is what Snakemake looks at.
    """
    typer.echo(f"step {name} …")
    try:
        begin(project, f"step-{name}", step_inputs(project, name))
        seconds = steps.bring_up_to_date(project, name)
    except (RbpError, OSError) as error:
        typer.echo(f"step {name} failed: {error}")
        return False
    if seconds is None:
        for ending in ("parquet", "json"):
            (project.steps / f"{name}.{ending}").touch()
    typer.echo(f"step {name} … " + ("is fresh" if seconds is None else f"{seconds:.1f} s"))
    return True


def run_chapter(project: Project, name: str) -> bool:
    """Execute a chapter for the book, with a line when it starts and when it ends; whether it went well."""
    chapter = find(project, name)
    names = chapter_names(project)
    label = f"[{names.index(chapter.name) + 1}/{len(names)}] {name}"
    typer.echo(f"{label} …")
    try:
        begin(project, f"chapter-{name}", chapter_inputs(project, name))
        seconds = execute(chapter, overrides(project, chapter), project.chapters / name, project.root)
    except (RbpError, ChapterFailed, OSError) as error:
        kept = getattr(error, "kept", None)
        typer.echo(f"{label} failed: {error}" + (f"\nThe partial notebook: {kept}" if kept else ""))
        return False
    write_json(project.times / f"{name}.json", {"seconds": round(seconds, 1)})
    typer.echo(f"{label} … {seconds:.1f} s")
    return True


def run_site(project: Project) -> None:
    """Build the HTML for the book. Raises RbpError."""
    begin(project, "site", site_inputs(project))
    site.build_html(project)


def forget_removed(project: Project) -> None:
    """Remove the executed chapters that the book has no more: the ledger and the pages read all that are there."""
    for folder in project.chapters.glob("[!.]*/"):
        if folder.name not in chapter_names(project):
            shutil.rmtree(folder)


def merge_results(project: Project) -> None:
    """Write ``_build/results.json`` from the chapters' results."""
    paths = [project.chapters / name / "results.json" for name in chapter_names(project)]
    results.write_book(project.results, results.merge(paths))


def _imported(project: Project) -> list[str]:
    """What the book's jobs and kernels import: what executes chapters, what these name, and what the package, late."""
    cells = [cell for each in all_chapters(project) for cell in each.notebook["cells"] if cell["cell_type"] == "code"]
    named: set[str] = set()
    for cell in cells:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):  # what is no Python imports nothing
            named.update(steps.named("".join(cell["source"]), ""))
    return [*EVERYWHERE, *sorted(named), *([LATE] if any(name.startswith("rbp.") for name in named) else [])]


@contextmanager
def _lock(project: Project) -> Iterator[int]:
    """Hold ``_build/.lock`` until this process and Snakemake, which inherits it, have ended."""
    project.build.mkdir(parents=True, exist_ok=True)
    with (project.build / ".lock").open("w") as stream:
        if lock(stream) is False:
            remedy = "Wait until it has ended, or stop it."
            raise RbpError("another build of this book is running", str(project.build), remedy)
        yield stream.fileno()


def _snakemake(project: Project, cores: int, again: Sequence[str], extra: Sequence[str], lock: int) -> bool:
    """Run Snakemake over the Snakefile; the jobs' lines go to stdout, its log to ``_build/snakemake.log``.

    again: outputs that are made again, however new they look.
    """
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(project.root), "--cores", str(cores), "--quiet", "all", "--nolock"]
    command += ["--rerun-incomplete", "--keep-going", "--max-checksum-file-size", "100MB"]
    command += ["--forcerun", *again]
    # its default scheduler, an integer program solved by a process of its own for each job, finds nothing better here
    command += ["--scheduler", "greedy", *extra]
    command = workers.serving(command, _imported(project))
    log = project.build / "snakemake.log"
    with log.open("w") as stream:
        # A session of its own: whatever stops this process stops Snakemake and its jobs together, once.
        running = subprocess.Popen(  # noqa: S603
            command,
            stderr=None if extra else stream,
            pass_fds=[lock],
            start_new_session=True,
            env=os.environ | {"PYTHONHASHSEED": "0"},  # of the kernels, too late to be set once Python runs
        )
        try:
            code = running.wait()
        except BaseException:
            # a job in a shell's background ignores SIGINT, and so do its children
            ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            os.killpg(running.pid, signal.SIGTERM if ignored else signal.SIGINT)
            running.wait()
            raise
    if code and not extra:
        typer.echo(log.read_text(encoding="utf-8").strip(), err=True)
    return code == 0


def build(project: Project, cores: int | None = None, extra: Sequence[str] = ()) -> bool:
    """Execute the stale chapters, merge the results, build the HTML; whether all went well.

    ``extra`` arguments go to Snakemake. Prints progress, the chapters' times, and where the book is. Raises
    RbpError if another build is running, or if the project is not as it should be.
    """
    start = time.perf_counter()
    for chapter in all_chapters(project):  # say what is wrong before Snakemake says it at length
        overrides(project, chapter)
        chapter_inputs(project, chapter.name)
    for step in step_names(project):
        step_inputs(project, step)
    index = project.html / "index.html"
    with _lock(project) as lock:
        forget_removed(project)
        again = outrun(project)
        if not index.exists() or "_build/site.json" in again:
            (project.build / "site.json").unlink(missing_ok=True)
        # whatever Snakemake is to make again, it makes: the pages are made where they are asked for
        again = [path for path in again if path != "_build/site.json"]
        if not _snakemake(project, cores or os.cpu_count() or 1, again, extra, lock):
            full = " The disk is full: free some space." if shutil.disk_usage(project.build).free < FULL else ""
            typer.echo(f"The book is not complete.{full}", err=True)
            return False
    for name, seconds in times(project).items():
        typer.echo(f"  {name:20} {seconds:6.1f} s")
    typer.echo(f"The book ({time.perf_counter() - start:.1f} s): {index}")
    return True
