"""The command `rbp forecasts`: registered forecasts, scored by new measurements."""

from pathlib import Path
from typing import Annotated

import typer

from companion.project import Project

forecasts = typer.Typer(name="forecasts", no_args_is_help=True, help="Score registered forecasts by new measurements.")

_FILE = (
    "Measurements, a CSV file: dataset (imagenet-real, imagenet-r, imagenet-a), model, param_count (millions), "
    "img_size, top1, top5."
)


@forecasts.callback()
def _group() -> None:
    """Keep `score` a subcommand, though it is alone."""


@forecasts.command()
def score(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help=_FILE)],
    out: Annotated[Path | None, typer.Option(help="Table to write.", show_default="runs/forecasts.csv")] = None,
) -> None:
    """Score the registered forecasts for image models (data/predictions/images.toml) by their measurements."""
    project = Project.of(context.find_root().obj)
    from companion.chapters import outcomes
    from companion.chapters.appendix import fair, predictions
    from rbp.io import write_file

    models = outcomes.read_images(file)
    forecasts = predictions.read_forecasts("images")
    measured = [fields["dataset"] in set(models["dataset"]) for fields in forecasts["fields"]]
    table = predictions.measure(forecasts[measured], outcomes.image_models(models))
    scores = predictions.score(table)
    scores = fair.with_fair_guess(scores, outcomes.known_to_images(scores))
    every = predictions.list_predictions(table, scores)
    target = out or project.runs / "forecasts.csv"
    write_file(target, every.to_csv(index=False, lineterminator="\n").encode())
    for row in table[table["outcome"].isna()].itertuples():
        typer.echo(f"{row.prediction}: could not be computed")
    for row in scores.itertuples():
        interval = f"forecast {row.middle:.3g} [{row.low:.3g}, {row.high:.3g}], measured {row.outcome:.3g}"
        typer.echo(f"{row.prediction}: {interval}, {'inside' if row.inside else 'outside'}, {row.gain:+.2f} nats")
    counts, guess = predictions.count_inside(scores), fair.fair_statistics(scores)
    typer.echo(
        f"{counts['inside']} of {counts['intervals']} intervals include the outcome, and {counts['naive_inside']} of "
        f"the naive guesses’. {counts['better']} forecasts beat the naive guess by log score; the median gain is "
        f"{scores['gain'].median():+.2f} nats."
    )
    typer.echo(
        f"A fair naive guess is Student’s t on the three known datasets. {guess['fair_inside']} of its intervals "
        f"include the outcome; {guess['fair_better']} of {guess['fair']} forecasts beat it, by a median of "
        f"{guess['fair_gain_median']:+.2f} nats."
    )
    typer.echo(str(target))
