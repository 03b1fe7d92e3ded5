"""The commands of `rbp` that work on the book: its chapters, the whole of it, and the live one."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from companion.project import Project
from rbp.errors import ParameterError, RbpError
from rbp.names import split_names

if TYPE_CHECKING:
    from companion.execute.run import Chapter

PATIENCE = 5.0  # seconds without a word, before a chapter says which cell it begins
commands = typer.Typer()


@commands.command()
def chapters(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the chapters and their parameters."""
    project = Project.of(context.obj)
    from companion.execute.run import all_chapters

    every = all_chapters(project)
    if as_json:
        listing = [{"name": c.name, "title": c.title, "parameters": [p.as_dict() for p in c.parameters]} for c in every]
        typer.echo(json.dumps(listing, indent=2, ensure_ascii=False))
        return
    for chapter in every:
        typer.secho(f"{chapter.name}  {chapter.title}", bold=True)
        for p in chapter.parameters:
            kind = p.type if p.choices is None else f"{p.type}: {'|'.join(map(str, p.choices))}"
            typer.echo(f"    {p.name} = {json.dumps(p.default, ensure_ascii=False)}  ({kind})  {p.help}")


@commands.command()
def run(
    context: typer.Context,
    chapter: Annotated[str, typer.Argument(help="Name of the chapter, or its number in the contents.")],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="Parameter to set; may be given several times."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write; it appears only once it is complete.")] = None,
) -> None:
    """Run one chapter with other parameters, and write a folder with a page that opens offline.

    Several values of a number, as in -p level=0.8,0.9, make several runs, and a page that compares them.
    """
    project = Project.of(context.obj)
    from companion.execute.parameters import sweeps
    from companion.execute.run import find

    chosen = find(project, chapter)
    every = sweeps(chosen.parameters, parameter or [], chosen.name)
    if out and len(every) > 1:
        raise ParameterError("one folder cannot hold several runs", "--out", "Leave it out.")
    folders = [_run(project, chosen, values, out) for values in every]
    if len(every) > 1:
        from companion.execute.comparison import compare

        page = folders[0].with_name(f"{chosen.name}-{'-'.join(folder.name[-4:] for folder in folders)}.html")
        typer.echo(compare(chosen, every, page).to_string(index=False))
        typer.echo(str(page))


def _run(project: Project, chapter: "Chapter", values: dict[str, Any], out: Path | None) -> Path:
    """Execute a chapter, or find an earlier run that is the same; prints its page and returns its folder."""
    if measurements := str(values.get("measurements", "")):
        from companion.execute.needs import check_sources
        from rbp.measurements import open_source

        check_sources(chapter, values)  # what is wrong with a table is said before a kernel starts
        if any(Path(name).is_dir() for name in split_names(measurements)):
            _ = open_source(measurements).ranked.stores  # says which way of reading a text is taken
    from companion.render.build import run_code

    name = chapter.name
    folder = out or project.runs / f"{name}-{chapter.short_hash(values, run_code(project, name))}"
    page = folder / f"{name}.html"
    judged = not chapter.changed(values)  # else the numbers are of another question
    if judged:
        from companion.ledger import claims

        claims.read_claims()  # a faulty claim fails before a kernel starts
    if out is None and page.exists():
        typer.echo(f"{name}: this run was made before, and is shown again", err=True)
    else:
        _execute(project, chapter, values, folder)
    if judged:
        for line in claims.verdicts_of(project, name, folder / "results.json"):
            typer.echo(line, err=True)
    typer.echo(str(page))
    return folder


def _execute(project: Project, chapter: "Chapter", values: dict[str, Any], folder: Path) -> None:
    """Execute a chapter into a folder, with its page, and print its progress."""
    from companion.render.standalone import execute_with_page

    name, last = chapter.name, time.monotonic()
    typer.echo(f"{name} …", err=True)

    def report_cell(cell: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PATIENCE:
            last = time.monotonic()
            typer.echo(f"{name} … cell {cell} of {of}", err=True)

    seconds = execute_with_page(project, chapter, values, folder, Path.cwd(), report_cell)
    typer.echo(f"{name} … {seconds:.1f} s", err=True)


@commands.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def book(
    context: typer.Context,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Number of chapters to run at a time; default: one for each core.")
    ] = None,
) -> None:
    """Run the chapters that are out of date, and build the book.

    Arguments after -- are passed to Snakemake, such as -- --executor slurm.
    """
    project = Project.of(context.obj)
    from companion.render.build import build

    if not build(project, cores, context.args):
        raise typer.Exit(1)


@commands.command()
def report(context: typer.Context) -> None:
    """Write the report for referees, a PDF, from the values that the built book recorded."""
    project = Project.of(context.obj)
    from companion.report import make

    typer.echo(f"Report written: {make(project)}\nThe next `rbp book` adds it to the pages.")


@commands.command()
def serve(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own (loopback) needs --i-know.")
    ] = "127.0.0.1",
    i_know: Annotated[bool, typer.Option("--i-know", help="Allow other machines to connect.")] = False,
    minutes: Annotated[float, typer.Option(min=0.1, help="Longest time that a chapter may run, in minutes.")] = 15.0,
) -> None:
    """Serve the live book, in which readers run chapters with other values, until Ctrl-C."""
    project = Project(Project.of(context.obj).root)  # whose runs lie in it, wherever one stands
    from companion.live.server import serve as serve_book

    serve_book(project, host, port, i_know=i_know, minutes=minutes)


@commands.command()
def verify(
    context: typer.Context,
    chapter: Annotated[
        str | None, typer.Argument(help="Chapter to verify, by name or number; default: the whole book.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the values that were built; those that agree stay as they are.")
    ] = False,
) -> None:
    """Compare values, tables and downloads with the accepted ones: exit 1 if one differs, or is not recorded."""
    project = Project.of(context.obj)
    from companion import report
    from companion.execute import prose, results
    from companion.execute.run import find
    from companion.ledger import claims
    from companion.render import build

    name = find(project, chapter).name if chapter else None
    if stale := build.differences_of_tree(project, name):
        raise RbpError("the book was built from other files", "\n".join(stale), "Run `rbp book`, and verify again.")
    built = results.merge([project.chapters / name / "results.json"]) if name else results.read_book(project.results)
    units = [value.unit for values in built.values() for value in values.values()]
    tables = units.count(results.CHECKSUM)
    count = f"{len(units) - tables} values, {tables} tables and downloads of {len(built)} chapters"
    before = results.read_book(project.expected) if project.expected.exists() or not accept else {}
    others = {other: values for other, values in before.items() if name and other != name}
    if accept:
        results.write_book(project.expected, others | results.accepted(built, before))
        typer.echo(f"{count} are accepted.")
        return
    recorded = others | built
    differences = [str(difference) for difference in results.compare(recorded, before)]
    faults = [f"not recorded: {place}" for place in prose.list_unrecorded(project, recorded)]
    if "ledger" in recorded:
        faults += [f"not recorded: {place}" for place in claims.lacking(claims.Numbers(recorded))]
    for chapter_name in [name] if name else built:
        path = project.chapters / chapter_name / "results.json"
        faults += [
            f"not borne out: {chapter_name}: {text}"
            for text in (results.read_chapter(path).findings if path.exists() else ())
        ]
    if not name:
        faults += report.faults(project, built)
    for line in differences + faults:
        typer.echo(line)
    if differences:
        typer.echo(f"Differences: {len(differences)}. To accept them: rbp verify --accept", err=True)
    if differences or faults:
        raise typer.Exit(1)
    typer.echo(f"{count} agree with the accepted ones.")


@commands.command()
def where(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Recorded value: KEY or CHAPTER::KEY; NAME.csv is a figure or table.")],
) -> None:
    """Say who makes a recorded value, and which sentences, claims and lines of the report name it."""
    project = Project.of(context.obj)
    from companion.execute import prose
    from companion.execute.where import find_makers, find_uses, find_values

    recorded = prose.BookValues.read(project).known()
    for chapter, name in find_values(recorded, key):
        typer.secho(f"{chapter}::{name} = {recorded[chapter][name].value}", bold=True)
        unknown = [f"who makes it is noted when `rbp book` executes {chapter}"]
        for line in find_makers(project, chapter, name) or unknown:
            typer.echo(f"  made by   {line}")
        for use in find_uses(project, chapter, name, recorded):
            typer.echo(f"  {use.kind:9} {use.place}  {use.text}")


@commands.command("_step", hidden=True)
def _step(context: typer.Context, name: str) -> None:
    """Make a step's table for the book (a job of the Snakefile)."""
    from companion.render.build import run_step

    if not run_step(Project.of(context.obj), name):
        raise typer.Exit(1)


@commands.command("_chapter", hidden=True)
def _chapter(context: typer.Context, name: str) -> None:
    """Execute a chapter for the book (a job of the Snakefile)."""
    from companion.render.build import run_chapter

    if not run_chapter(Project.of(context.obj), name):
        raise typer.Exit(1)


@commands.command("_live", hidden=True)
def _live(context: typer.Context, limit: float, server: int, folder: Path) -> None:
    """Execute a chapter for a reader of the live book (a process of `rbp serve`)."""
    from companion.live.runs import execute

    execute(Project.of(context.obj), limit, server, folder)


@commands.command("_compare", hidden=True)
def _compare(context: typer.Context, page: Path, folders: list[Path]) -> None:
    """Compare runs of the live book (a process of `rbp serve`)."""
    from companion.live.runs import compare_runs

    compare_runs(Project.of(context.obj), folders, page)


@commands.command("_check", hidden=True)
def _check(path: Path) -> None:
    """Check a table that a reader of the live book has uploaded (a process of `rbp serve`)."""
    from companion.live.requests import check_upload

    check_upload(path)
