"""The commands `rbp study`: plan and run a whole study."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbp.study.config import Study

study = typer.Typer(no_args_is_help=True, help="Plan and run a study of many models and texts, described in one file.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Study to plan or run, a TOML file.")]


@study.command()
def plan(
    context: typer.Context,
    file: File,
    tflops: Annotated[
        float | None, typer.Option(min=1e-6, help="Speed of a device, in 10¹² operations a second, to print hours too.")
    ] = None,
) -> None:
    """Print what a study would rank, and its cost. No network is needed."""
    checked = _study(context, file)
    from rbp.study.plan import make_plan, plan_lines

    typer.echo("\n".join(plan_lines(checked, make_plan(checked), tflops and tflops * 1e12)))


@study.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def run(
    context: typer.Context,
    file: File,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile to run with: local, slurm, or a folder of Snakemake's; default: slurm where it is installed."
        ),
    ] = None,
) -> None:
    """Run what is missing of a study, on this machine or a Slurm cluster.

    Arguments after -- are passed to Snakemake.
    """
    checked = _study(context, file)
    from rbp.study.run import find_profile, run_study

    table = run_study(checked, find_profile(profile), context.args)
    if table is None:
        raise typer.Exit(1)
    typer.echo(str(table))


@study.command("_job", hidden=True)
def _job(context: typer.Context, file: File, kind: str, arguments: list[str]) -> None:
    """Do one job (src/rbp/study/Snakefile), in the study's folder; the outputs of jobs name stores."""
    from rbp.study import jobs

    if kind == "shard":
        checked = _study(context, file)
        typer.echo(str(jobs.rank_shard(checked, checked.cells[arguments[0]], int(arguments[1]))))
    elif kind == "merge":
        typer.echo(str(jobs.merge_shards({_store(name) for name in arguments})))
    else:
        jobs.write_table([_store(name) for name in arguments[:-1]], Path(arguments[-1]))


def _store(output: str) -> Path:
    return Path(Path(output).read_text(encoding="utf-8").strip())


def _study(context: typer.Context, file: Path) -> "Study":
    from rbp.study.config import read_study

    return read_study(file, context.find_root().obj.runs)
