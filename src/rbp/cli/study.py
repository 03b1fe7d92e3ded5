"""The commands `rbp study`: plan and run a whole study."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rbp.study.config import Study

study = typer.Typer(no_args_is_help=True, help="Plan and run a study of many models and texts, described in one file.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="Study to plan or run, a TOML file.")]
_PROFILE = "Profile to run with: local, slurm, or a folder of Snakemake's; default: slurm where it is installed."


@study.command()
def plan(context: typer.Context, file: File) -> None:
    """Print what a study would rank, and its cost: as rbp extract --plan, for each model and text."""
    checked = _study(context, file)
    from rbp.extract.extraction import planned
    from rbp.extract.plan import plan_lines

    pairs = [([c.model], [c.corpus], c.protocol, checked.out / "ranks", c.settings) for c in checked.cells.values()]
    typer.echo("\n".join(plan_lines([cost for pair in pairs for cost in planned(*pair)])))


@study.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def run(context: typer.Context, file: File, profile: Annotated[str | None, typer.Option(help=_PROFILE)] = None) -> None:
    """Run what is missing of a study, on this machine or a Slurm cluster.

    Arguments after -- are passed to Snakemake.
    """
    checked = _study(context, file)
    from rbp.study.run import find_profile, run_study

    table = run_study(checked, find_profile(profile), context.args)
    if table is None:
        raise typer.Exit(1)
    typer.echo(str(table))


@study.command("_shard", hidden=True)
def _shard(context: typer.Context, file: File, cell: str, number: int) -> None:
    """Rank a share of one model on one text, in the study's folder (src/rbp/study/Snakefile); print the store."""
    checked = _study(context, file)
    from rbp.study.run import rank_shard

    typer.echo(str(rank_shard(checked.cells[cell], number, checked.content.shards)))


def _study(context: typer.Context, file: Path) -> "Study":
    from rbp.study.config import read_study

    return read_study(file, context.find_root().obj.runs)
