"""The command `rbp compare`: two rank stores of one text, token by token."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rbp.names import split_numbers


def compare(
    a: Annotated[Path, typer.Argument(help="The rank store of the model as it was.")],
    b: Annotated[Path, typer.Argument(help="That of the model that was quantized, pruned or tuned.")],
    k: Annotated[str, typer.Option("-k", "--k", help="Thresholds, with commas.")] = "1,10,100,1000",
    tie_rule: Annotated[
        str | None, typer.Option(help="How equal scores count: paper, strict or expected.", show_default="paper")
    ] = None,
    level: Annotated[float, typer.Option(help="The confidence level of intervals.")] = 0.95,
    tokenizer: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Shows tokens as text, where the models are no longer there.")
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page that opens offline.")] = None,
) -> None:
    """Compare two models on the same tokens: what B lost against A, and where."""
    from rbp.api import compare as compare_stores

    ks = split_numbers(k, "thresholds", "-k", least=1)
    comparison = compare_stores(a, b, k=ks, tie_rule=tie_rule, level=level, tokenizer=tokenizer)  # type: ignore[arg-type]
    typer.echo(str(comparison))
    if comparison.tokenizer is None:
        typer.echo("Tokens are shown as numbers: no model is where it was. Give --tokenizer FOLDER.", err=True)
    if page is not None:
        from rbp.report.comparison import write_page

        write_page(comparison, page, shlex.join(["rbp", *sys.argv[sys.argv.index("compare") :]]))
        typer.echo(str(page))
