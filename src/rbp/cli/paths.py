"""The commands `rbp paths`: degrade one model in many ways, and compare its ranks at equal cross-entropy."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rbp.errors import ParameterError
from rbp.names import split_names
from rbp.place import Place

paths = typer.Typer(no_args_is_help=True, help="Make one model worse in many ways, and compare at equal cross-entropy.")

_PATHS = (
    "Ways, with commas. context: exactly 1 to 64 tokens before each. depth: leave at an earlier layer, through the "
    "final norm. bits: matrices rounded to 8 to 2 bits. replaced: tokens that are read, replaced by others. "
    "weights, logits: noise on them."
)
_SMALLER = "A smaller model of the family: a step of the path parameters. The largest first."
_EARLIER = "The model after less training: a step of the path training. The longest trained first."
_TOKENS = "Whole documents, the shortest first (of a window at least), until so many tokens are scored."
_PREDICTIONS = "A file of forecasts: its checksum is kept, with the time when measuring began."


@paths.command()
def run(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="A hub id or a folder.")],
    corpus: Annotated[str, typer.Option(help="The text: as rbp extract takes it.")],
    ways: Annotated[str, typer.Option("--paths", help=_PATHS)] = "context,depth,bits,replaced,weights,logits",
    smaller: Annotated[list[str] | None, typer.Option(help=_SMALLER)] = None,
    earlier: Annotated[list[str] | None, typer.Option(help=_EARLIER)] = None,
    tokens: Annotated[int, typer.Option(min=1, help=_TOKENS)] = 40_000,
    documents: Annotated[int | None, typer.Option(min=1, help="Look at the first so many documents alone.")] = None,
    field: Annotated[list[str] | None, typer.Option(help="A field of the corpus file; several are joined.")] = None,
    length: Annotated[int | None, typer.Option(help="Tokens read at once, half of them context.")] = None,
    dtype: Annotated[str, typer.Option(help="Of weights and hidden states.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    predictions: Annotated[Path | None, typer.Option(help=_PREDICTIONS)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the measurements.", show_default="runs/paths")] = None,
) -> None:
    """Measure a model, whole and made worse step by step; what is measured already is left alone.

    Beside the sums by document, writes steps.csv (cross-entropy, entropy, best temperature and −ln RBP_k of every step)
    and, where smaller models are given, equal.csv: −ln RBP_k of each path at the cross-entropy of each of these.
    """
    from rbp.choices import known_device, known_dtype

    kind, device, names = known_dtype(dtype), known_device(device), split_names(ways)

    from rbp.damage.sums import STEPS
    from rbp.texts.corpora import check_corpus, open_corpus

    if not names or len({*names}) < len(names):
        raise ParameterError(f"{ways!r} names no paths, or one twice", "--paths", "Give some of them, with commas.")
    if strange := [name for name in names if name not in STEPS]:
        raise ParameterError(f"there is no path {strange[0]!r}", "--paths", f"There is: {', '.join(STEPS)}.")
    check_corpus(corpus, field or ())
    if predictions is not None and not predictions.is_file():
        raise ParameterError("there is no such file", f"{predictions}, --predictions", "Check the path.")

    from rbp.damage import run as measuring
    from rbp.damage.paths import open_paths, write_tables
    from rbp.extract.extraction import say_on_stderr
    from rbp.models.devices import find_device
    from rbp.models.find import find_model

    say_on_stderr()
    place: Place = context.obj
    model_files: list[Any] = [[find_model(each) for each in given or ()] for given in ([model], smaller, earlier)]
    folder = measuring.run(
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
