"""The commands `rbp paths`: degrade one model in many ways, and compare its ranks at equal cross-entropy."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rbp.cli.ranks import DEVICE, DTYPE, FIELD
from rbp.errors import ParameterError
from rbp.names import split_names
from rbp.place import Place

paths = typer.Typer(
    name="paths",
    no_args_is_help=True,
    help="Degrade one model in many ways, and compare its ranks at equal cross-entropy.",
)

_PATHS = (
    "Ways to degrade the model, with commas. context: 1 to 64 tokens before each; depth: output of an earlier layer, "
    "through the final norm; bits: matrices rounded to 8 to 2 bits; replaced: some tokens of the input replaced by "
    "others; weights, logits: noise added to them."
)
_SMALLER = (
    "Smaller model of the family, as a step of the path parameters; may be given several times, the largest first."
)
_EARLIER = "The model after less training, as a step of the path training; may be given several times, the last first."
_TOKENS = "Number of tokens to score, in whole documents, the shortest that fill a window first."
_PREDICTIONS = "File of forecasts, whose checksum is kept with the time when measuring began."


@paths.command()
def run(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Model to degrade: a hub id or a folder.")],
    corpus: Annotated[str, typer.Option(help="Text to rank, as rbp extract takes it.")],
    ways: Annotated[str, typer.Option("--paths", help=_PATHS)] = "context,depth,bits,replaced,weights,logits",
    smaller: Annotated[list[str] | None, typer.Option(help=_SMALLER)] = None,
    earlier: Annotated[list[str] | None, typer.Option(help=_EARLIER)] = None,
    tokens: Annotated[int, typer.Option(min=1, help=_TOKENS)] = 40_000,
    documents: Annotated[
        int | None, typer.Option(min=1, help="Number of documents to choose from, from the first on.")
    ] = None,
    field: Annotated[list[str] | None, typer.Option(help=FIELD)] = None,
    length: Annotated[
        int | None, typer.Option(help="Number of tokens that the model reads at once, half of them context.")
    ] = None,
    dtype: Annotated[str, typer.Option(help=DTYPE)] = "float32",
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    predictions: Annotated[Path | None, typer.Option(help=_PREDICTIONS)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the measurements.", show_default="runs/paths")] = None,
) -> None:
    """Rank a text by a model, intact and degraded step by step. What was measured before is not measured again.

    Besides the sums by document, it writes steps.csv (cross-entropy, entropy, best temperature and −ln RBP_k of each
    step). Where smaller models are given, it writes equal.csv too (−ln RBP_k of each path at each one's cross-entropy).
    """
    from rbp.choices import known_device, known_dtype

    kind, device, names = known_dtype(dtype), known_device(device), split_names(ways)

    from companion.damage.compare import STEPS, open_paths, write_tables
    from rbp.texts.corpora import check_corpus, open_corpus

    if not names or len({*names}) < len(names):
        raise ParameterError(f"{ways!r} names no path, or one twice", "--paths", "Give each once, with commas.")
    if strange := [name for name in names if name not in STEPS]:
        raise ParameterError(f"there is no path {strange[0]!r}", "--paths", f"There is: {', '.join(STEPS)}.")
    check_corpus(corpus, field or ())
    if predictions is not None and not predictions.is_file():
        raise ParameterError("there is no such file", f"{predictions}, --predictions", "Check the path.")

    from companion.damage import measure
    from rbp.extract.extraction import say_on_stderr
    from rbp.models.devices import find_device
    from rbp.models.find import find_model

    say_on_stderr()
    place: Place = context.obj
    model_files: list[Any] = [[find_model(each) for each in given or ()] for given in ([model], smaller, earlier)]
    folder = measure.run(
        model_files[0][0],
        open_corpus(corpus, field or ()),
        names,
        out or place.runs / "paths",
        smaller=model_files[1],
        earlier=model_files[2],
        tokens=tokens,
        documents=documents,
        length=length,
        dtype=kind,
        device=find_device(device),
        predictions=predictions,
    )
    write_tables(open_paths(folder), folder)
    typer.echo(str(folder))
