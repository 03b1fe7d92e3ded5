"""The command `rbp law`: from models and a text to a law, in one go."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rbp.choices import Settings
from rbp.cli.ranks import OR_SPREAD, PLAN
from rbp.errors import ParameterError
from rbp.names import split_numbers
from rbp.place import Place

SURFACE = "Compare laws in size and training tokens too, by how well they predict sizes and tokens not fitted."


def law(
    context: typer.Context,
    models: Annotated[list[str], typer.Argument(help="Models to rank (hub ids, folders), or sources of measurements.")],
    corpus: Annotated[str | None, typer.Option(help="Text to rank the models on, as rbp extract takes it.")] = None,
    k: Annotated[
        str, typer.Option("-k", "--k", help="Thresholds, with commas; any, where ranks are at hand.")
    ] = "1,10,100",
    family: Annotated[
        str | None, typer.Option(help="Family to fit; models that are ranked now are put into it, by this name.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Largest number of tokens to rank.")] = 50_000,
    length: Annotated[
        int | None,
        typer.Option(help="Number of tokens that a model reads at once.", show_default="what all read, up to 1024"),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Dataset to take from the measurements.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Protocol of the measurements to take: authors or windows.")
    ] = None,
    against: Annotated[str, typer.Option(help="Axis of the laws: size, tokens, compute or step.")] = "size",
    surface: Annotated[bool, typer.Option("--surface", help=SURFACE)] = False,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    device: Annotated[str, typer.Option(help=OR_SPREAD)] = "auto",
    out: Annotated[Path | None, typer.Option(help="Page to write.", show_default="runs/law.html")] = None,
    plan: Annotated[bool, typer.Option("--plan", help=PLAN)] = False,
) -> None:
    """Rank models on a text, fit the law at each k, and write one page that opens offline."""
    settings = Settings(device=device, family=family)

    from rbp.arrays import check_level
    from rbp.measurements.checkpoints import check_axis

    check_level(level)
    check_axis(against)
    ks = sorted(set(split_numbers(k, "thresholds", "-k")))
    place: Place = context.obj
    measured = [model for model in models if _is_measured(model)]
    to_rank = [model for model in models if model not in measured]
    if to_rank and corpus is None:
        from rbp.measurements.sources import known_sources

        fault = f"{to_rank[0]} is not a source of measurements, and no text is given to rank a model on"
        raise ParameterError(fault, "--corpus", f"{known_sources()} To rank a model, give a text as well.")
    if (corpus is not None or plan) and not to_rank:
        option = "--plan" if corpus is None else "--corpus"
        raise ParameterError("no model is given that could be ranked", option, "Leave it out, or give models.")
    sources: list[str | Path] = [*measured]
    if to_rank and corpus is not None:
        sources += _rank(to_rank, corpus, place.runs / "ranks", tokens, length, settings, plan)

    from rbp.measurements import checkpoints, open_source
    from rbp.measurements.table import warn_of_no_hits
    from rbp.report import law as law_report

    how = (None, None) if to_rank else (protocol, length)
    source = open_source(sources, protocol=how[0], length=how[1]).with_thresholds(ks)
    by_size, only = against == "size", None
    if family is not None and not to_rank:
        only = checkpoints.names_in_time(source.checkpoints, family)
    table = plotted = law_report.chosen(source.table if by_size else source.checkpoints, dataset, ks, only)
    if not by_size:
        plotted = checkpoints.against(table, against)
    law_report.warn_of_missing(table, ks)
    measurements = law_report.chosen(source.checkpoints, dataset, ks, only)
    every = source.checkpoints
    selected = every["dataset"].isin(measurements["dataset"]) & every["family"].isin(measurements["family"])
    warn_of_no_hits(every[selected], ks)
    surfaces = law_report.compared(measurements, level) if surface else {}
    fits = law_report.laws(plotted, level)
    for line in [*law_report.in_words(fits, level, against), *law_report.compared_in_words(surfaces, level)]:
        typer.echo(line)
    page = out or place.runs / "law.html"
    law_report.write_law(
        page,
        source,
        table,
        fits,
        level=level,
        command=shlex.join(["rbp", *sys.argv[sys.argv.index("law") :]]),
        tokenizers=law_report.tokenizers(to_rank),
        axis=against,
        plotted=plotted,
        surfaces=surfaces,
    )
    typer.echo(str(page))


def _rank(
    models: list[str], corpus: str, out: Path, tokens: int, length: int | None, settings: Settings, plan: bool
) -> list[Path]:
    """Rank models on a text into stores in the folder `out`; gives these. If asked, prints only the plan, and exits."""
    from rbp.texts.corpora import check_corpus
    from rbp.texts.protocol import protocol

    check_corpus(corpus)
    protocol("windows", length=length, tokens=tokens)  # which refuses what makes no sense
    typer.echo(f"{', '.join(models)} …", err=True)  # what reads them takes seconds to import
    from rbp.extract.extraction import extract, planned, say_on_stderr
    from rbp.extract.plan import plan_lines
    from rbp.models.find import find_model

    say_on_stderr()
    model_files = [find_model(name) for name in models]
    windows = protocol("windows", length=length, tokens=tokens, configs=[files.config for files in model_files])
    work = model_files, [corpus], windows, out, settings
    if plan:
        typer.echo("\n".join(plan_lines(planned(*work))))
        raise typer.Exit
    return extract(*work)


def _is_measured(text: str) -> bool:
    if (Path(text) / "config.json").is_file():  # a model: it is ranked before what reads measurements is imported
        return False
    from rbp.measurements.sources import is_measured

    return is_measured(text)
