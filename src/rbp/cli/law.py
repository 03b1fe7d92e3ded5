"""The command `rbp law`: from models and a text to a law, in one go."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rbp.cli.ranks import BOS, DEVICE, DTYPE, PLAN, SPECIAL
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
    bos: Annotated[str, typer.Option(help=BOS)] = "auto",
    special: Annotated[str, typer.Option(help=SPECIAL)] = "token",
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    dtype: Annotated[str, typer.Option(help=DTYPE)] = "float32",
    out: Annotated[Path | None, typer.Option(help="Page to write.", show_default="runs/law.html")] = None,
    plan: Annotated[bool, typer.Option("--plan", help=PLAN)] = False,
) -> None:
    """Rank models on a text, fit the law at each k, and write one page that opens offline."""
    from rbp.choices import known_device, known_dtype

    kind, device = known_dtype(dtype), known_device(device)

    from rbp.arrays import check_level
    from rbp.measurements.checkpoints import check_axis

    check_level(level)
    check_axis(against)
    ks = sorted(set(split_numbers(k, "thresholds", "-k")))
    place: Place = context.obj
    given = [each for each in models if _is_measured(each)]
    to_rank = [each for each in models if each not in given]
    if to_rank and corpus is None:
        from rbp.measurements.sources import known_sources

        what = f"{to_rank[0]} is not a source of measurements, and no text is given to rank a model on"
        raise ParameterError(what, "--corpus", f"{known_sources()} To rank a model, give a text as well.")
    if corpus is not None and not to_rank:
        raise ParameterError("no model is given that could be ranked", "--corpus", "Leave it out, or give models.")
    if plan and not to_rank:
        raise ParameterError("no model is given that could be ranked", "--plan", "Leave it out, or give models.")
    sources: list[str | Path] = [*given]
    if to_rank and corpus is not None:
        from rbp.texts.corpora import check_corpus
        from rbp.texts.protocol import protocol as make_protocol
        from rbp.texts.protocol import window_length

        check_corpus(corpus)
        options = {"tokens": tokens, "bos": bos, "special": special}
        windows = make_protocol("windows", length=length, **options)  # type: ignore[arg-type]
        typer.echo(f"{', '.join(to_rank)} …", err=True)  # what reads them takes seconds to import
        from rbp.extract.extraction import Settings, extract, say_on_stderr
        from rbp.models.find import find_model

        say_on_stderr()
        settings = Settings(dtype=kind, device=device, family=family)
        model_files = [find_model(each) for each in to_rank]
        if length is None:
            most = window_length([files.config for files in model_files])
            windows = make_protocol("windows", length=most, **options)  # type: ignore[arg-type]
        if plan:
            from rbp.extract.extraction import planned
            from rbp.extract.plan import plan_lines

            costs = planned(model_files, [corpus], windows, settings, place.runs / "ranks")
            typer.echo("\n".join(plan_lines(costs)))
            return
        sources += extract(model_files, [corpus], windows, place.runs / "ranks", settings)

    from rbp.measurements import checkpoints, open_source
    from rbp.measurements.table import warn_of_no_hits
    from rbp.report import law as law_report
    from rbp.report.leaf import Leaf

    how = (None, None) if to_rank else (protocol, length)
    source = open_source(sources, protocol=how[0], length=how[1]).at(ks)
    by_size, only = against == "size", None
    if family is not None and not to_rank:
        only = checkpoints.names_in_time(source.checkpoints, family)
    table = plotted = law_report.chosen(source.table if by_size else source.checkpoints, dataset, ks, only)
    if not by_size:
        plotted = checkpoints.against(table, against)
    law_report.warn_of_missing(table, ks)
    whole = law_report.chosen(source.checkpoints, dataset, ks, only)
    every = source.checkpoints
    selected = every["dataset"].isin(whole["dataset"]) & every["family"].isin(whole["family"])
    warn_of_no_hits(every[selected], ks)
    surfaces = law_report.compared(whole, level) if surface else {}
    fits = law_report.laws(plotted, level)
    for line in [*law_report.in_words(fits, level, against), *law_report.compared_in_words(surfaces, level)]:
        typer.echo(line)
    page = out or place.runs / "law.html"
    leaf = Leaf(f"{', '.join(dict.fromkeys(table['family']))} on {table['dataset'].iloc[0]}")
    command = shlex.join(["rbp", *sys.argv[sys.argv.index("law") :]])
    law_report.write_page(
        leaf,
        source,
        table,
        fits,
        level=level,
        command=command,
        tokenizers=law_report.tokenizers(to_rank),
        axis=against,
        plotted=plotted,
        surfaces=surfaces,
    )
    leaf.write(page)
    typer.echo(str(page))


def _is_measured(text: str) -> bool:
    if (Path(text) / "config.json").is_file():  # a model: it is ranked before what reads measurements is imported
        return False
    from rbp.measurements.sources import is_measured

    return is_measured(text)
