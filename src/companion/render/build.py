"""Build the book: which file depends on which, the Snakefile's jobs, and the run of Snakemake over them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from companion.execute import inputs, prose, results, steps, where
from companion.execute.run import all_chapters, chapter_names, execute, find, step_names, times
from companion.project import ROOT, Project
from companion.render import site
from rbp.errors import ChapterFailed, DataError, RbpError
from rbp.io import files_below, lock, parse_json, write_file, write_json

FULL = 100_000  # bytes that are left on a disk that is as good as full


def chapter_files(project: Project, name: str) -> list[Path]:
    """List the files that a chapter reads: data and pins; neither notebook nor modules."""
    data = [project.root / path for path in find(project, name).declaration.reads]
    return [*data, *inputs.pins(project)]


def chapter_inputs(project: Project, name: str) -> list[str]:
    """List the files that make a chapter stale, relative to the root, but for its code: `chapter_code` has that."""
    chapter = find(project, name)
    tables = [project.steps / f"{step}.parquet" for step in chapter.declaration.steps]
    others, named = [other for other in chapter_names(project) if other != chapter.name], chapter.declaration.results_of
    names = others if "*" in named else [find(project, other_name).name for other_name in named]
    of_others = [project.chapters / other / "results.json" for other in names]
    return inputs.relative_paths(project, [*chapter_files(project, name), *tables, *of_others])


def chapter_code(project: Project, name: str) -> str:
    """Return a checksum of a chapter's code cells and the project's modules that they import.

    It is a parameter, which Snakemake looks at once. The prose is not in it: a changed sentence executes nothing.
    """
    notebook = find(project, name).notebook
    return inputs.code_checksum(notebook) + inputs.digest(project, inputs.code_of_notebook(project, notebook))


def step_inputs(project: Project, name: str) -> list[str]:
    """List what makes a step stale, relative to the root, but for its modules: `step_code` has these."""
    return inputs.relative_paths(project, steps.list_inputs(project, name))


def step_code(project: Project, name: str) -> str:
    """Return a checksum of the project's modules that a step imports."""
    return inputs.digest(project, steps.list_modules(project, name))


def step_urgency(project: Project, name: str) -> int:
    """Return the seconds that follow from the start of the step: its own, and its longest reader's."""
    waiting = [chapter.declaration.seconds for chapter in all_chapters(project) if name in chapter.declaration.steps]
    return steps.find_step(project, name).seconds + max(waiting, default=0)


def site_sources(project: Project) -> dict[str, str]:
    """Return the checksums of all that the HTML is made of, by path.

    Modules are among them: the pages show the docstrings of some, and are made by others.
    """
    executed = [project.chapters / name / f"{name}.ipynb" for name in chapter_names(project)]
    recorded = [path.with_name("results.json") for path in executed]
    by_hand = [*files_below(project.book), *(project.root / name for name in site.SETTINGS)]
    written = [chapter.path for chapter in all_chapters(project)]
    code = [path for path in files_below(project.root / "src") if path.suffix == ".py"]
    others = [project.expected, site.report_stamp(project)]
    return inputs.checksums(project, [*executed, *recorded, *written, *others, *by_hand, *code])


def run_code(project: Project, name: str) -> str:
    """Return a checksum of all that a rerun of a chapter depends on, but for its parameters and the reader's files."""
    code = [path for path in files_below(project.root / "src") if path.suffix in (".py", ".toml")]
    texts = [path for path in files_below(project.book) if path.suffix in (".css", ".js")]
    chapter = [find(project, name).path, *chapter_files(project, name)]  # with its prose, which the rerun's page shows
    return inputs.digest(project, [*chapter, *code, *texts, *filter(Path.exists, [project.expected])])


def sources_of(project: Project, name: str) -> dict[str, str]:
    """Return the checksums of all that a chapter's values depend on, by path: of its notebook, the executed part's.

    The files of its steps are among them.
    """
    chapter = find(project, name)
    read = chapter.declaration.steps
    of_steps = [path for step in read for path in steps.list_inputs(project, step) + steps.list_modules(project, step)]
    files = [*chapter_files(project, name), *inputs.code_of_notebook(project, chapter.notebook), *of_steps]
    notebook = {path: inputs.code_checksum(chapter.notebook) for path in inputs.relative_paths(project, [chapter.path])}
    return notebook | inputs.checksums(project, files)


def differences_of_tree(project: Project, chapter: str | None = None) -> list[str]:
    """Compare the files with what each chapter, or this one, was built from: a line for each chapter that differs."""
    lines = []
    for name in [chapter] if chapter else sorted(path.stem for path in project.notebooks.glob("*.ipynb")):
        path = project.inputs / f"{name}.json"
        if not path.exists() or not (project.chapters / name / "results.json").exists():
            lines.append(f"{name} is not built")
        elif changed := inputs.list_changes(parse_json(path.read_bytes()), sources_of(project, name)):
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            lines.append(f"{name} was built from another {changed[0]}{more}")
    return lines


def _report_job(project: Project, label: str, name: str, job: Callable[[], object]) -> bool:
    """Run a job, with a line when it starts and when it ends; returns whether it succeeded."""
    typer.echo(f"{label} …")
    start = time.perf_counter()
    try:
        job()
    except (RbpError, ChapterFailed, OSError) as error:
        notebook = error.partial_notebook if isinstance(error, ChapterFailed) else None
        typer.echo(f"{label} failed: {error}" + (f"\nThe partial notebook: {notebook}" if notebook else ""))
        return False
    seconds = time.perf_counter() - start
    write_json(project.times / f"{name}.json", {"seconds": round(seconds, 1)})
    typer.echo(f"{label} … {seconds:.1f} s")
    return True


def run_step(project: Project, name: str) -> bool:
    """Make a step's table, as a job of the Snakefile; returns whether it succeeded."""

    def make() -> None:
        files = [*steps.list_inputs(project, name), *steps.list_modules(project, name)]
        with inputs.unchanged(lambda: inputs.checksums(project, files)):
            steps.make_table(project, name)

    return _report_job(project, f"step {name}", name, make)


def run_chapter(project: Project, name: str) -> bool:
    """Execute a chapter for the book, as a job of the Snakefile; returns whether it succeeded."""
    chapter = find(project, name)
    names = chapter_names(project)

    def drop_prose(folder: Path) -> None:
        path = folder / chapter.path.name
        write_file(path, prose.without_prose(path.read_bytes()))

    def make() -> None:
        with inputs.unchanged(lambda: sources_of(project, name)) as made_from:
            environment = {steps.TABLES: str(project.steps), where.FOLDER: str(project.where)}
            execute(chapter, {}, project.chapters / name, project.root, drop_prose, environment=environment)
        write_json(project.inputs / f"{name}.json", made_from)

    return _report_job(project, f"[{names.index(chapter.name) + 1}/{len(names)}] {name}", name, make)


def build_site(project: Project) -> None:
    """Build the HTML, unless it was made of the files as they are now. Raises RbpError."""
    made_from_file = project.build / "site.json"
    with inputs.unchanged(lambda: site_sources(project)) as made_from:
        built = made_from_file.exists() and (project.html / "index.html").exists()
        if built and parse_json(made_from_file.read_bytes()) == made_from:
            return
        site.build_html(project)
    write_json(made_from_file, made_from)


def forget_removed(project: Project) -> None:
    """Remove executed chapters that are no longer in the book: the ledger and the pages read all in the folder."""
    for folder in project.chapters.glob("[!.]*/"):
        if folder.name not in chapter_names(project):
            shutil.rmtree(folder)


def merged_results(project: Project) -> results.Results:
    """Merge the chapters' results."""
    return results.merge(project.chapters / name / "results.json" for name in chapter_names(project))


def are_chapters_current(project: Project) -> bool:
    """Return whether all chapters were executed as the files are now, and the book's results are theirs.

    Each chapter that reads others' results was then executed after these.
    """
    try:
        return not differences_of_tree(project) and results.read_book(project.results) == merged_results(project)
    except DataError:  # not there, or damaged
        return False


def execute_chapters(project: Project, cores: int, extra: Sequence[str], lock: int) -> bool:
    """Execute the stale chapters and merge the results; returns whether all succeeded. extra: as `build` takes it.

    Snakemake, which takes as long to start as the pages take, is left out where nothing is stale.
    """
    for chapter in chapter_names(project):  # say what is wrong before Snakemake says it at length
        chapter_inputs(project, chapter)
    for step in step_names(project):
        step_inputs(project, step)
    forget_removed(project)
    if not extra and are_chapters_current(project):
        return True
    if not _snakemake(project, cores, extra, lock):
        full = " The disk is full: free some space." if shutil.disk_usage(project.build).free < FULL else ""
        typer.echo(f"The book is not complete.{full}", err=True)
        return False
    results.write_book(project.results, merged_results(project))
    return True


@contextmanager
def _lock(project: Project) -> Iterator[int]:
    """Hold ``_build/.lock`` until this process and Snakemake, which inherits it, have ended."""
    project.build.mkdir(parents=True, exist_ok=True)
    with (project.build / ".lock").open("w") as stream:
        if lock(stream) is False:
            remedy = "Wait until it has ended, or stop it."
            raise RbpError("another build of this book is running", str(project.build), remedy)
        yield stream.fileno()


def _snakemake(project: Project, cores: int, extra: Sequence[str], lock: int) -> bool:
    """Run Snakemake over the Snakefile; the jobs' lines go to stdout, its log to ``_build/snakemake.log``."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(project.root), "--cores", str(cores), "--quiet", "all", "--nolock"]
    command += ["--rerun-incomplete", "--keep-going", "--max-checksum-file-size", "100MB"]
    # its default scheduler, an integer program solved by a process of its own for each job, finds nothing better here
    command += ["--scheduler", "greedy", *extra]
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


def build(project: Project, cores: int | None = None, extra: Sequence[str] = (), pages: bool = True) -> bool:
    """Execute the stale chapters, merge the results, build the HTML (`pages`); returns whether all succeeded.

    ``extra`` arguments go to Snakemake. Prints progress, the chapters' times, and where the book is. Raises
    RbpError if another build is running, if the project is not as it should be, or if the pages cannot be built.
    """
    start = time.perf_counter()
    with _lock(project) as lock:
        if not execute_chapters(project, cores or os.cpu_count() or 1, extra, lock):
            return False
        if pages:
            build_site(project)
    for name, seconds in times(project).items():
        typer.echo(f"  {name:20} {seconds:6.1f} s")
    typer.echo(f"The book ({time.perf_counter() - start:.1f} s): {project.html / 'index.html'}")
    return True
