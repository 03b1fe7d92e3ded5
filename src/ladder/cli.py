"""The commands `rbp ladder`: train a family of small models from nothing, and rank with it."""

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rbp.errors import ParameterError, RbpError
from rbp.names import split_names, split_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ladder.making import Making, TrainingRun
    from rbp.processes import Task


ladder = typer.Typer(
    name="ladder",
    no_args_is_help=True,
    help="Train families of small models from scratch, rank their tokens, and ship the results.",
)

Texts = Annotated[
    Path | None,
    typer.Option(help="Folder of .txt files, or of the recipe's corpora; default: these corpora, downloaded."),
]
Tokens = Annotated[int | None, typer.Option(min=1, help="Number of tokens of the .txt files to train on.")]
Config = Annotated[
    Path | None, typer.Option(help="Recipe to follow, a TOML file.", show_default="data/ladder/ladders.toml")
]
Out = Annotated[
    Path | None,
    typer.Option(help="Working folder.", show_default="runs/ladders; for .txt files in FOLDER: runs/ladder-FOLDER"),
]
Families = Annotated[
    str, typer.Option("--family", help="Families of the recipe, with commas: neox (transformers), lstm.")
]
Rungs = Annotated[str | None, typer.Option(help="Sizes to take (rungs of the recipe), with commas; default: all.")]
Seeds = Annotated[str | None, typer.Option(help="Seeds to take, with commas; default: all of each size.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Number of models at a time; default: one for each core.")]
Device = Annotated[
    str, typer.Option(help="Device to compute on: auto, cpu or cuda. On a GPU models are trained one after the other.")
]
TRANSFORMERS = "neox"


@ladder.command()
def train(
    context: typer.Context,
    rungs: Rungs = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    device: Device = "auto",
    family: Families = TRANSFORMERS,
    texts: Texts = None,
    tokens: Tokens = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Train what is not trained yet. A run that was stopped continues where it was, to the same weights."""
    making, texts = _open(context, config, out, texts, tokens)
    runs = making.choose(split_names(family), split_names(rungs), _seeds(seeds))
    device = _device(device)
    making.prepare(texts)
    _end(_work(making.jobs(runs, device), jobs, device))
    for run in runs:
        for budget in run.budgets:
            typer.echo(str(making.model(run, budget)))


@ladder.command()
def sweep(
    context: typer.Context,
    trials: Annotated[str | None, typer.Option(help="Trials of the recipe to take, with commas; default: all.")] = None,
    family: Annotated[str | None, typer.Option(help="Families to take, with commas; default: all.")] = None,
    rungs: Rungs = None,
    jobs: Jobs = None,
    device: Device = "auto",
    texts: Texts = None,
    config: Config = None,
    out: Out = None,
    to: Annotated[
        Path | None, typer.Option(help="Table to write.", show_default="trials.csv in the working folder")
    ] = None,
) -> None:
    """Train the recipe's trials (rates, batches, seeds, less text or more), and measure their loss on unseen text.

    Trials run one after the other, and each is written to the table when it ends. A run that was stopped continues.
    """
    making, texts = _open(context, config, out, texts)
    from ladder import trials as tried

    device, to = _device(device), to or making.place / "trials.csv"
    families, wanted = split_names(family), split_names(rungs)
    chosen = [tried.runs_of(making, trial, families, wanted) for trial in tried.choose(making, split_names(trials))]
    if not any(chosen):
        raise ParameterError("no trial has such a run", "--trials, --family, --rungs", "Leave one out.")
    making.prepare(texts, max(run.change.more or 0 for runs in chosen for run in runs))
    todo = [tried.jobs(making, runs, device) for runs in chosen]
    for runs, left in zip(chosen, todo, strict=True):
        try:
            _end(_work(left, jobs, device))
        finally:
            tried.write_losses(tried.loss_table(making, runs), to)
    typer.echo(str(to))


@ladder.command()
def rank(
    context: typer.Context,
    rungs: Rungs = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    family: Families = TRANSFORMERS,
    trials: Annotated[str | None, typer.Option(help="Trials to take instead of the grid, with commas.")] = None,
    texts: Texts = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Rank every token of the evaluation text by every trained model.

    The rank of each token is kept for seed 0 at the largest budget; for other models, only sums are kept.
    """
    from ladder import aggregates

    making, texts = _open(context, config, out, texts)
    wanted = split_names(family), split_names(rungs), _seeds(seeds)
    runs = making.choose(*wanted) if trials is None else _trial_runs(making, trials, *wanted)
    if not any(making.finished(runs)):
        command = f"train --family {family}" if trials is None else f"sweep --trials {trials}"
        remedy = f"Train first: rbp ladder {command}."
        raise ParameterError("none of these models is trained", str(making.place.folder), remedy)
    making.prepare(texts)
    _end(_work(aggregates.jobs(making, runs), jobs))
    typer.echo(str(making.place / "ranks"))


@ladder.command()
def ship(
    context: typer.Context,
    to: Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="data/ladder")] = None,
    family: Families = TRANSFORMERS,
    trials: Annotated[str | None, typer.Option(help="Trials to take instead of the grid, with commas.")] = None,
    config: Config = None,
    out: Out = None,
) -> None:
    """Copy models, ranks and what is known about them from the working folder into the project.

    For all ranked models, the sums of ranks are copied; for seed 0 at the largest budget, weights and ranks too. For
    trials, only sums are copied.
    """
    from ladder import LADDER, shipping

    making, _ = _open(context, config, out, None)
    if trials is None:
        left_out = shipping.ship(making, split_names(family), to or LADDER)
    else:
        left_out = shipping.ship_trials(making, _trial_runs(making, trials, split_names(family)), to or LADDER)
    for model in itertools.chain.from_iterable(left_out.values()):
        typer.echo(f"{model}: not ranked, so left out", err=True)
    typer.echo(str(to or LADDER))


def _open(
    context: typer.Context, config: Path | None, out: Path | None, texts: Path | None, tokens: int | None = None
) -> "tuple[Making, Path | None]":
    """Return the families in their working folder, and the folder of their corpora, None for the public homes.

    Plain text becomes corpora in the working folder, which keeps that text from then on.
    """
    from ladder.making import Making
    from ladder.recipe import LADDERS, read_ladders
    from ladder.text import PLAIN_RECIPE, import_plain, is_plain, with_plain_text
    from ladder.workspace import Workspace

    runs: Path = context.find_root().obj.runs
    ladders, base = read_ladders(config or LADDERS)
    plain = texts is not None and is_plain(base, texts)
    if tokens is not None and not plain:
        raise ParameterError("the number of tokens is in the recipe", "--tokens", "Leave it out, or give .txt files.")
    if texts is not None and plain:
        place = Workspace(out or runs / f"ladder-{texts.resolve().name}")
        import_plain(place, base, texts, tokens, ladders.training.batch * base.text.context)
    else:
        place = Workspace(out or runs / "ladders")
    if plain or (texts is None and (place / PLAIN_RECIPE).is_file()):
        base, texts = with_plain_text(place, base), (place / PLAIN_RECIPE).parent
    return Making(ladders.up_to(base.text.tokens), base, place), texts


def _trial_runs(
    making: "Making", trials: str, families: "Sequence[str]", rungs: "Sequence[str]" = (), seeds: "Sequence[int]" = ()
) -> "list[TrainingRun]":
    """Return what some trials train beside the grid."""
    from ladder import trials as tried

    chosen = tried.choose(making, split_names(trials))
    return tried.beyond_grid(
        making, [run for trial in chosen for run in tried.runs_of(making, trial, families, rungs, seeds)]
    )


def _device(name: str) -> str:
    """Return the kind of device. Raises ParameterError where there is none of this name."""
    from rbp.models.devices import find_device

    return find_device(name).type


def _work(todo: "Sequence[Task]", at_once: int | None, device: str = "cpu") -> dict[str, RbpError | str]:
    from rbp.processes import board, cores, run_tasks

    with board() as show:
        return run_tasks(todo, 1 if device == "cuda" else at_once or cores(), show)


def _end(failed: dict[str, RbpError | str]) -> None:
    """Say what went wrong: exit 2 if it can all be mended by who runs it, 1 otherwise."""
    for name, error in failed.items():
        typer.echo(f"error: {name}: {error}", err=True)
    if failed:
        typer.echo("What the others made stays. Run the same command again to go on.", err=True)
        sys.exit(2 if all(isinstance(error, RbpError) for error in failed.values()) else 1)


def _seeds(text: str | None) -> list[int]:
    return split_numbers(text, "seeds", "--seeds", least=0)
