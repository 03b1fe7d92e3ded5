"""The command `rbp compare`: rank stores of one text, token by token."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rbp.cli.ranks import put_table
from rbp.errors import ParameterError
from rbp.names import split_numbers


def compare(
    stores: Annotated[
        list[Path], typer.Argument(help="Rank store of the original model, then those of the models made from it.")
    ],
    k: Annotated[str, typer.Option("-k", "--k", help="Thresholds, with commas.")] = "1,10,100,1000",
    tie_rule: Annotated[
        str | None, typer.Option(help="Rule for equal scores: paper, strict or expected.", show_default="paper")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    tokenizer: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Tokenizer that shows tokens as text, if the models are gone.")
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Page to write, which opens offline.")] = None,
    out: Annotated[Path | None, typer.Option(help="Table to write: a .csv or .parquet file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with null for missing numbers.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print only the smallest differences that this many tokens can show.")
    ] = False,
) -> None:
    """Compare models on the same tokens: what each lost against the first, and where."""
    from rbp.api import compare as compare_stores
    from rbp.laws.comparison import long_table, overview, plan_lines

    if len(stores) < 2:
        raise ParameterError("there is only one rank store", "STORES", "Give two or more.")
    ks = split_numbers(k, "thresholds", "-k", least=1)
    how = {"k": ks, "tie_rule": tie_rule, "level": level, "tokenizer": tokenizer}
    comparisons = [compare_stores(stores[0], store, **how) for store in stores[1:]]  # type: ignore[arg-type]
    if as_json:
        several = [comparison.as_dict() for comparison in comparisons]
        typer.echo(json.dumps(several if len(several) > 1 else several[0]))
    elif plan:
        typer.echo("\n".join(line for comparison in comparisons for line in plan_lines(comparison)))
    elif len(comparisons) > 1:
        typer.echo(overview(comparisons))
    else:
        typer.echo(str(comparisons[0]))
        if comparisons[0].tokenizer is None:
            typer.echo(
                "Tokens are shown as numbers, as the models' tokenizer was not found. Give --tokenizer FOLDER.",
                err=True,
            )
    if out is not None:
        put_table(long_table(comparisons), out)
    if page is not None:
        from rbp.report.comparison import write_comparison

        write_comparison(comparisons, page, shlex.join(["rbp", *sys.argv[sys.argv.index("compare") :]]))
        typer.echo(str(page), err=as_json)
