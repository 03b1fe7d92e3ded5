"""The command `rbp lm-eval`: lm-evaluation-harness, answered by our ranks."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from rbp.errors import DataError, install_extra
from rbp.names import split_numbers


def evaluate(
    context: typer.Context,
    k: Annotated[str, typer.Option(help="Thresholds, with commas.")] = "1,10,100",
    store: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for a rank store of each task; by default none.")
    ] = None,
) -> None:
    """Run lm-evaluation-harness with ranks: RBP_k of the correct answers' tokens, beside each task's own metrics.

    All other arguments are lm-eval's own, such as --model rbp --model_args pretrained=MODEL --tasks TASK. MODEL is a
    folder, a GGUF file, an adapter or a hub id. `rbp lm-eval ls tasks` lists the tasks.
    """
    ks = split_numbers(k, "thresholds", "--k", least=1)
    if not find_spec("lm_eval"):
        raise DataError("lm-eval is not installed", "rbp lm-eval", install_extra("lm-eval"))
    from rbp.harness import run

    run(context.args, ks, store)
