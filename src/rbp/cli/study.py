"""The commands `rbp study`: plan, run and watch a whole study."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbp.core.errors import ParameterError, RbpError
from rbp.core.names import split_names, split_numbers
from rbp.core.paths import Project

if TYPE_CHECKING:
    from rbp.study.config import Study
    from rbp.study.workflow import Place


study = typer.Typer(no_args_is_help=True, help="Plan, run and watch a whole study: models × corpora, in one file.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="A study: studies/paper.toml, or your own.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@study.command()
def plan(
    context: typer.Context,
    file: File,
    gpus: Annotated[
        str | None, typer.Option(help="Numbers of GPUs to reckon with, with commas.", show_default="1,8,64")
    ] = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Another budget for each model on each corpus.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a study would run and cost, and what is there already; needs no network."""
    counts = split_numbers("1,8,64" if gpus is None else gpus, "numbers of GPUs", "--gpus", least=1)
    asked = _study(context, file)
    from rbp.study.plan import jobs_here, make_plan
    from rbp.study.report import hours_line, plan_json, plan_lines

    if asked.on_cpu:
        if gpus is not None:
            raise ParameterError("this study runs on CPUs", "--gpus", 'Leave it out, or set device = "cuda".')
        counts = [jobs_here(asked)]
    found = make_plan(asked, tokens, on_gpu=not asked.on_cpu, here=True)
    if as_json:
        typer.echo(json.dumps(plan_json(found, counts), indent=1))
        return
    typer.echo("\n".join(plan_lines(found, counts)))
    if asked.content.device == "auto" and found.on_gpu:  # it runs without them too
        typer.echo(f"Without GPUs: {hours_line(make_plan(asked, tokens, on_gpu=False, here=True), jobs_here(asked))}.")


@study.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def run(
    context: typer.Context,
    file: File,
    profile: Annotated[str | None, typer.Option(help="local or slurm; by default what this machine has.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Jobs at once.")] = None,
    gpus: Annotated[str | None, typer.Option(help="GPUs of this machine to use, such as 0,1; all if none.")] = None,
) -> None:
    """Do what is left of a study, on this machine or a Slurm cluster. What follows -- goes to Snakemake."""
    found = _study(context, file)
    from rbp.study import workflow
    from rbp.study.jobs import BOOK, TABLE
    from rbp.study.report import lines_of, summary

    place = workflow.find_place(found, profile, gpus)
    typer.echo(f"{found.path.name}: {place.profile}, {_devices(place)}; all of it in {found.out}", err=True)
    well = workflow.run(found, Project.of(context.find_root().obj), place, jobs, context.args)
    typer.echo("\n".join(lines_of(found, summary(found))), err=True)
    if not well:
        raise typer.Exit(1)
    made = found.out / TABLE.output, (found.out / BOOK.output).with_name("index.html")
    typer.echo("\n".join(str(path) for path in made if path.is_file()))  # a dry run makes none


@study.command()
def status(
    context: typer.Context,
    file: File,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it, until all is done or Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Say what is done, running, failed (and why) and left."""
    found = _study(context, file)
    from rbp.study.report import lines_of, status_json, summary
    from rbp.study.workflow import is_driven

    if as_json:
        typer.echo(json.dumps(status_json(found) | {"driven": is_driven(found)}, indent=1))
        return
    while True:
        now = summary(found)
        lines, whole = lines_of(found, now), now.counts["done"] == len(now.jobs)
        if not whole and not is_driven(found):
            lines.append(f"No run is at work on it here: rbp study run {file}")
        typer.echo(("\033[H\033[2J" if watch and sys.stdout.isatty() else "") + "\n".join(lines))
        if whole or not watch:
            return
        time.sleep(2)


@study.command("_job", hidden=True)
def _job(
    context: typer.Context,
    file: File,
    name: str,
    device: Annotated[str, typer.Option()] = "cpu",
    gpus: Annotated[str, typer.Option()] = "",
) -> None:
    """Do one job (studies/Snakefile)."""
    found = _study(context, file)
    from rbp.study.tasks import run as run_job

    try:
        run_job(found, Project.of(context.find_root().obj), name, device, split_names(gpus))
    except RbpError:
        raise typer.Exit(2) from None  # it has told the reason in its log, and to us


def _study(context: typer.Context, file: Path) -> "Study":
    project = Project.of(context.find_root().obj).whole("study")
    from rbp.study.config import read_study

    return read_study(file, project)


def _devices(place: "Place") -> str:
    if place.gpus:
        return f"GPUs {', '.join(place.gpus)}"
    return "a GPU for each shard" if place.ask else "no GPUs"
