"""The commands `rbp paths`: degrade one model in many ways, and compare its ranks at equal cross-entropy."""

from pathlib import Path
from typing import Annotated

import typer

from rbp.cli.ranks import DEVICE, DTYPE, FIELD
from rbp.errors import ParameterError
from rbp.io import write_file
from rbp.names import split_names
from rbp.place import Place

paths = typer.Typer(
    name="paths",
    no_args_is_help=True,
    help="Degrade one model in many ways, and compare its ranks at equal cross-entropy.",
)

_PATHS = (
    "Ways to degrade the model, with commas. context: 1 to 64 tokens before each; depth: fewer layers; "
    "bits: matrices rounded to 8 to 2 bits; replaced: some tokens of the input replaced by "
    "others; weights, logits: noise added to them."
)
_SMALLER = (
    "Smaller model of the family, as a step of the path parameters; may be given several times, the largest first."
)
_TOKENS = "Number of tokens to score, in whole documents, the shortest that fill a window first."


@paths.command()
def run(
    context: typer.Context,
    model: Annotated[str, typer.Option(help="Model to degrade: a hub id or a folder.")],
    corpus: Annotated[str, typer.Option(help="Text to rank, as rbp extract takes it.")],
    ways: Annotated[str, typer.Option("--paths", help=_PATHS)] = "context,depth,bits,replaced,weights,logits",
    smaller: Annotated[list[str] | None, typer.Option(help=_SMALLER)] = None,
    tokens: Annotated[int, typer.Option(min=1, help=_TOKENS)] = 40_000,
    field: Annotated[list[str] | None, typer.Option(help=FIELD)] = None,
    length: Annotated[
        int | None, typer.Option(help="Number of tokens that the model reads at once, half of them context.")
    ] = None,
    dtype: Annotated[str, typer.Option(help=DTYPE)] = "float32",
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for the measurements.", show_default="runs/paths")] = None,
) -> None:
    """Rank a text by a model, intact and degraded step by step. What was measured before is not measured again.

    Besides the sums by document, it writes steps.csv (cross-entropy, best temperature and −ln RBP_k of each step).
    `rbp run cross_entropy -p worse=FOLDER` compares the paths at a smaller model's cross-entropy.
    """
    from rbp.choices import known_device, known_dtype

    kind, device, names = known_dtype(dtype), known_device(device), split_names(ways)

    from companion.damage.compare import STEPS, open_paths
    from rbp.texts.corpora import check_corpus, open_corpus

    if not names or len({*names}) < len(names):
        raise ParameterError(f"{ways!r} names no path, or one twice", "--paths", "Give each once, with commas.")
    if strange := [name for name in names if name not in STEPS]:
        raise ParameterError(f"there is no path {strange[0]!r}", "--paths", f"There is: {', '.join(STEPS)}.")
    check_corpus(corpus, field or ())

    from companion.damage import measure
    from rbp.extract.extraction import say_on_stderr
    from rbp.models.devices import find_device
    from rbp.models.find import find_model
    from rbp.store import full_disk

    say_on_stderr()
    place: Place = context.obj
    folder = measure.run(
        find_model(model),
        open_corpus(corpus, field or ()),
        names,
        out or place.runs / "paths",
        smaller=[find_model(smaller_model) for smaller_model in smaller or ()],
        tokens=tokens,
        length=length,
        dtype=kind,
        device=find_device(device),
    )
    steps = open_paths(folder).steps
    with full_disk(folder):
        write_file(folder / "steps.csv", steps.to_csv(index=False, float_format="%.6g"))
    typer.echo(str(folder))
