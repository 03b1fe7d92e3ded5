"""The commands `rbp forecasts` and `rbp ladder predict`: registered forecasts, and their outcomes."""

from pathlib import Path
from typing import Annotated

import typer

from companion.project import Project
from ladder.cli import ladder

forecasts = typer.Typer(name="forecasts", no_args_is_help=True, help="Score registered forecasts by new measurements.")

_FILE = (
    "Measurements, a CSV file: dataset (imagenet-real, imagenet-r, imagenet-a), model, param_count (millions), "
    "img_size, top1, top5."
)


@forecasts.command()
def score(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help=_FILE)],
    out: Annotated[Path | None, typer.Option(help="Table to write.", show_default="runs/forecasts.csv")] = None,
) -> None:
    """Score the registered forecasts for image models (data/predictions/images.toml) by their measurements."""
    project = Project.of(context.find_root().obj)
    from companion.chapters.appendix.fair import fair_statistics
    from companion.chapters.appendix.image_scores import OF, scored
    from rbp.io import write_file

    table = scored(file)
    target = out or project.runs / "forecasts.csv"
    write_file(target, table.to_csv(index=False, lineterminator="\n").encode())
    for row, known in zip(table.itertuples(), table["outcome"].notna(), strict=True):
        interval = f"{row.middle:.3g} [{row.low:.3g}, {row.high:.3g}]"
        what = f"{row.dataset:14} {OF.get(str(row.of), row.of):44} forecast {interval}"
        result = f"measured {row.outcome:.3g}, {'inside' if row.inside else 'outside'}, {row.gain:+.2f} nats"
        typer.echo(f"{what}; {result if known else 'could not be computed'}")
    tested = table.dropna(subset="outcome")
    held, naive = tested["inside"].sum(), tested["naive_inside"].sum()
    typer.echo(f"{held:.0f} of {len(tested)} intervals include the outcome, and {naive:.0f} of the naive guesses’.")
    better, gain = (tested["gain"] > 0).sum(), tested["gain"].median()
    typer.echo(f"{better} forecasts beat the naive guess by log score; the median gain is {gain:+.2f} nats.")
    fair = fair_statistics(tested)
    typer.echo(
        f"A fair naive guess is Student’s t on the three known datasets. {fair['fair_inside']} of its intervals "
        f"include the outcome; {fair['fair_better']} of {fair['fair']} forecasts beat it, by a median of "
        f"{fair['fair_gain_median']:+.2f} nats."
    )
    typer.echo(str(target))


@ladder.command()
@ladder.command("foretell", hidden=True)  # as data/predictions/tokens.toml calls it
def predict(
    to: Annotated[Path | None, typer.Option(help="File to write.", show_default="data/predictions/tokens.toml")] = None,
) -> None:
    """Write forecasts for 16 and 32 million tokens, by laws fitted to the runs up to 8 million."""
    from companion.chapters import training_forecasts
    from ladder.making import LONGER

    training_forecasts.write(to or LONGER)
    typer.echo(str(to or LONGER))
