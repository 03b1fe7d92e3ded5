"""The command `rbp`. What is heavy is imported by the command that needs it: `rbp --help` answers at once."""

import atexit
import gc
import json
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

import rbp.ladder  # noqa: F401 (whose texts and models may be asked for by name)
from rbp.cli import fit, forecasts, ladder, law, paths, ranks, study
from rbp.core.errors import ChapterFailed, RbpError
from rbp.core.files import refusal, write_remedy
from rbp.core.names import split_names
from rbp.core.paths import Project

PATIENCE = 5.0  # seconds without a word, before a chapter says which cell it begins
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Rerun the evidence on the relative-based scaling law: chapters, fits, and the whole book.",
)

app.command()(ranks.extract)
app.command()(law.law)
app.command()(fit.fit)
app.add_typer(forecasts.forecasts, name="forecasts")
app.add_typer(ranks.ranks, name="ranks")
app.add_typer(paths.paths, name="paths")
app.add_typer(ladder.ladder, name="ladder")
app.add_typer(study.study, name="study")


@app.callback()
def _options(
    context: typer.Context,
    root: Annotated[Path | None, typer.Option(hidden=True, help="Another project's root folder.")] = None,
    home: Annotated[Path | None, typer.Option(hidden=True, help="The folder below which results go.")] = None,
) -> None:
    context.obj = Project(root.resolve(), home) if root else Project(home=Path.cwd())


@app.command()
def chapters(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the chapters and their parameters."""
    project: Project = context.obj.whole("book")
    from rbp.book.chapters import all_chapters

    found = all_chapters(project)
    if as_json:
        listing = [{"name": c.name, "title": c.title, "parameters": [p.as_dict() for p in c.parameters]} for c in found]
        typer.echo(json.dumps(listing, indent=2, ensure_ascii=False))
        return
    for chapter in found:
        typer.secho(f"{chapter.name}  {chapter.title}", bold=True)
        for p in chapter.parameters:
            kind = p.type if p.choices is None else f"{p.type}: {'|'.join(map(str, p.choices))}"
            typer.echo(f"    {p.name} = {json.dumps(p.default, ensure_ascii=False)}  ({kind})  {p.help}")


@app.command()
def run(
    context: typer.Context,
    chapter: Annotated[str, typer.Argument(help="Its name, or its number in the contents.")],
    parameter: Annotated[
        list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="Set a parameter.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; it appears whole or not at all.")] = None,
) -> None:
    """Execute one chapter with other parameters, into a folder with a page that opens offline."""
    project: Project = context.obj.whole("book")
    from rbp.book.chapters import execute, find
    from rbp.book.site import start_early
    from rbp.book.standalone import render_chapter

    found = find(project, chapter)
    values = found.parse(parameter or [])
    given = str(values.get("measurements", ""))
    if any(Path(name).is_dir() for name in split_names(given)):
        from rbp.evidence import open_source

        _ = open_source(given).ranked.stores  # says which way of reading a text is taken, before a kernel starts
    folder = out or project.runs / f"{found.name}-{found.short_hash(values)}"
    start_early(project.root / "_config.yml")  # the page's builder imports while the chapter runs
    typer.echo(f"{found.name} …", err=True)
    told = time.monotonic()

    def tell(cell: int, of: int) -> None:
        nonlocal told
        if time.monotonic() - told >= PATIENCE:
            told = time.monotonic()
            typer.echo(f"{found.name} … cell {cell} of {of}", err=True)

    def finish(new: Path) -> None:
        render_chapter(project, found, new)

    seconds = execute(found, values, folder, Path.cwd(), finish=finish, tell=tell)
    typer.echo(f"{found.name} … {seconds:.1f} s", err=True)
    typer.echo(str(folder / f"{found.name}.html"))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def book(
    context: typer.Context,
    cores: Annotated[int | None, typer.Option(min=1, help="Chapters at a time; one for each core.")] = None,
) -> None:
    """Execute what is stale, build the book. What follows -- goes to Snakemake (-- --executor slurm)."""
    project: Project = context.obj.whole("book")
    from rbp.book.build import build

    if not build(project, cores, context.args):
        raise typer.Exit(1)


@app.command()
def report(context: typer.Context) -> None:
    """Set the report for referees, a PDF, from what the built book recorded."""
    project: Project = context.obj.whole("book")
    from rbp.book.report import make

    typer.echo(f"The report: {make(project)}\nThe next `rbp book` puts it among the pages.")


@app.command()
def serve(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8000,
    host: Annotated[str, typer.Option(help="The address to listen at; another than loopback needs --i-know.")] = (
        "127.0.0.1"
    ),
    i_know: Annotated[bool, typer.Option("--i-know", help="Let other machines in.")] = False,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long a chapter may run.")] = 15.0,
) -> None:
    """Serve the live book, whose chapters run again with other values, until Ctrl-C."""
    project = Project(context.obj.root).whole("live")  # whose runs lie in it, wherever one stands
    from rbp.live.server import serve as serve_book

    serve_book(project, host, port, i_know=i_know, minutes=minutes)


@app.command()
def verify(
    context: typer.Context,
    accept: Annotated[bool, typer.Option("--accept", help="Take the built values as the accepted ones.")] = False,
) -> None:
    """Compare the recorded values with the accepted ones, and the report's: exit 1 if any moved, is new or missing."""
    project: Project = context.obj.whole("book")
    from rbp.book import build, report, results

    built = results.read_book(project.results)
    if stale := build.differences_of_tree(project):
        raise RbpError("the build is not of this tree", "\n".join(stale), "Run `rbp book`, and verify again.")
    count = sum(map(len, built.values()))
    if accept:
        results.write_book(project.expected, built)
        typer.echo(f"{count} values of {len(built)} chapters are accepted.")
        return
    differences = [str(each) for each in results.compare(built, results.read_book(project.expected))]
    faults = report.faults(project, built)
    for line in differences + faults:
        typer.echo(line)
    if differences:
        typer.echo(f"{len(differences)} differences. If they are meant: rbp verify --accept", err=True)
    if differences or faults:
        raise typer.Exit(1)
    typer.echo(f"{count} values of {len(built)} chapters agree with the accepted ones.")


@app.command("_step", hidden=True)
def _step(context: typer.Context, name: str) -> None:
    """Make a step's table for the book (a job of the Snakefile)."""
    from rbp.book.build import run_step

    if not run_step(context.obj, name):
        raise typer.Exit(1)


@app.command("_chapter", hidden=True)
def _chapter(context: typer.Context, name: str) -> None:
    """Execute a chapter for the book (a job of the Snakefile)."""
    from rbp.book.build import run_chapter

    if not run_chapter(context.obj, name):
        raise typer.Exit(1)


@app.command("_live", hidden=True)
def _live(context: typer.Context, limit: float, server: int, folder: Path) -> None:
    """Execute a chapter for a reader of the live book (a process of `rbp serve`)."""
    from rbp.live.runs import execute

    execute(context.obj, limit, server, folder)


@app.command("_check", hidden=True)
def _check(path: Path) -> None:
    """Look into a table that a reader of the live book has uploaded (a process of `rbp serve`)."""
    from rbp.live.requests import check_upload

    check_upload(path)


@app.command("_results", hidden=True)
def _results(context: typer.Context) -> None:
    """Merge the chapters' results (a job of the Snakefile)."""
    from rbp.book.build import merge_results

    merge_results(context.obj)


@app.command("_site", hidden=True)
def _site(context: typer.Context) -> None:
    """Build the HTML (a job of the Snakefile)."""
    from rbp.book.build import run_site

    run_site(context.obj)


def main() -> None:
    """Run `rbp`: what a user can mend is a message and exit 2, a failed chapter exit 1, Ctrl-C exit 130."""
    # A job that is told to stop cleans up as after Ctrl-C: no half-written folder stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # What is imported stays, two thirds of a million objects with a model's class: looking through it for garbage
    # takes a seventh of a start, and a second in the end.
    gc.set_threshold(1_000_000)
    atexit.register(gc.freeze)
    try:
        app()
    except RbpError as error:
        _stop(f"error: {error}", 2)
    except OSError as error:  # such as a full disk, a path below a file, or a folder that is not ours to write
        if why := refusal(error):
            remedy = f"{write_remedy(error, 'choose another folder')} What was there before is still whole."
            _stop(f"error: the system does not let us write: {why}\n{remedy}", 2)
        if error.filename is None:
            raise
        _stop(f"error: {error.strerror} ({error.filename})\nCheck the path, and that you may read and write there.", 2)
    except ChapterFailed as failure:
        _stop(f"error: {failure}" + (f"\nThe partial notebook: {failure.kept}" if failure.kept else ""), 1)


def _stop(message: str, code: int) -> None:
    typer.echo(message, err=True)
    sys.exit(code)
