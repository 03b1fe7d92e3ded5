"""`rbp fit`: the law of each family on each dataset, or of one, as the page with the explorer fits it."""

import json
import logging
import math
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rbp.cli.law import SURFACE
from rbp.cli.ranks import put_table
from rbp.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from rbp.laws.offset import OffsetFit
    from rbp.laws.power import PowerLawFit
    from rbp.measurements import Source

log = logging.getLogger(__name__)

#: metrics, as the line that is printed calls them
_QUANTITIES = {
    "neg_log_rbp": "−ln RBP_{k}",
    "cross_entropy": "cross-entropy",
    "mean_log_rank": "mean ln rank",
    "entropy": "entropy",
    "neg_log_pass": "−ln pass@{k}",
}


#: the thresholds that are fitted where none is given and ranks could be counted at any
KS = (1, 10, 100, 1000)


def fit(
    source: Annotated[
        str,
        typer.Argument(help="Measurements: a CSV or Parquet file, a folder of rank stores, or published, ladder, …"),
    ],
    dataset: Annotated[str | None, typer.Option(help="Dataset to fit; default: each.")] = None,
    family: Annotated[str | None, typer.Option(help="Family of models to fit; default: each.")] = None,
    k: Annotated[
        int | None, typer.Option(help="Threshold of RBP_k, or number of tries of pass@k; default: each.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help=f"Metric to fit: {', '.join(_QUANTITIES)}; default: each.")] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    without: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="Model to leave out; may be given several times.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Weight each point by its counting noise.")] = False,
    offset: Annotated[bool, typer.Option("--offset", help="Fit y = E + A·S^(−α), with profile intervals.")] = False,
    at: Annotated[
        float | None, typer.Option(metavar="SIZE", help="Size at which to forecast the value, with its interval.")
    ] = None,
    against: Annotated[str, typer.Option(help="Axis of the law: size, tokens, compute or step.")] = "size",
    surface: Annotated[bool, typer.Option("--surface", help=SURFACE)] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with null where an interval has no end.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Table of the laws to write: a .csv or .parquet file.")] = None,
) -> None:
    """Fit a power law y = A·S^(−α), or one with an offset, to each family on each dataset, and print it."""
    if surface and (weights or offset or at is not None or against != "size"):
        remedy = "Leave out --weights, --offset, --at and --against."
        raise ParameterError(
            "laws in size and training tokens are fitted to a whole family, without weights", "--surface", remedy
        )
    if metric is not None and metric not in _QUANTITIES:
        raise ParameterError(f"there is no metric {metric}", "--metric", f"There is: {', '.join(_QUANTITIES)}.")
    if metric is None and (k is not None or weights):
        metric = "neg_log_rbp"
    if metric is not None and "{k}" not in _QUANTITIES[metric] and k is not None:
        raise ParameterError(f"{metric} has no threshold", "--k", "Leave out --k.")
    if weights and metric != "neg_log_rbp":
        raise ParameterError(
            "only RBP_k has counting noise to weight by", "--weights", "Leave out --weights, or give --k."
        )
    if weights and offset:
        raise ParameterError("the law with an offset is fitted without weights", "--weights", "Leave one of them out.")
    from rbp.measurements import open_source, select
    from rbp.measurements.checkpoints import AXES, check_axis
    from rbp.measurements.table import warn_of_no_hits
    from rbp.names import nearest

    check_axis(against)
    opened = open_source(source)
    if metric == "neg_log_rbp" and k is not None:
        opened = opened.with_thresholds([k])
    by_size = against == "size" and not surface
    every = opened.table if by_size else opened.checkpoints
    selected = select(every, dataset=dataset, family=family if by_size or surface else None, metric=metric, k=k)
    if metric is None and k is None and {*KS} & {*selected["k"].dropna()}:
        selected = selected[selected["k"].isna() | selected["k"].isin(KS)]
    table = selected if by_size or surface or family is None else _of_line(selected, family, against)
    if k is not None and family is not None and dataset is not None:
        warn_of_no_hits(every[(every["dataset"] == dataset) & (every["family"] == family)], [k])
    left_out = without or []
    if strange := [model for model in left_out if model not in set(table["model"])]:
        raise ParameterError(f"no model {strange[0]}", "--without", nearest(strange[0], table["model"], _short))
    points = table[~table["model"].isin(left_out)]
    cells = points[CELL].drop_duplicates()
    if len(cells) > 1:
        alone = {"--weights": weights, "--offset": offset, "--at": at is not None, "--surface": surface}
        alone["--against"] = against != "size"
        if options := [name for name, chosen in alone.items() if chosen]:
            several = "; ".join(_named(cell) for cell in cells.head(6).to_dict("records"))
            remedy = f"Choose one by --dataset, --family, --metric and --k. There is: {several}."
            raise ParameterError(f"there are {len(cells)} laws to fit", options[0], remedy)
        _each(points, level, as_json, out)
        return
    if surface:
        _side_by_side(points, level, as_json)
        return
    fitted = _fitted(opened, points, offset, weights, level)
    forecast = None if at is None else _forecast(fitted, at)
    if as_json:
        numbers = {name: _json(number) for name, number in fitted.as_dict().items()}
        typer.echo(json.dumps(numbers | {"forecast": forecast}))
        return
    if out is not None:
        _each(points, level, as_json, out)
    letter, cell = AXES[against][1], cells.to_dict("records")[0]
    quantity, where = (
        _QUANTITIES[cell["metric"]].format(k=cell["k"]),
        f"{family or cell['family']} on {cell['dataset']}",
    )
    for line in _in_words(fitted, quantity, where, letter):
        typer.echo(line)
    if forecast:
        typer.echo(_forecast_in_words(forecast, letter, level, offset))


CELL = ["dataset", "family", "metric", "k"]


def _fitted(
    source: "Source", points: "pd.DataFrame", offset: bool, weights: bool, level: float
) -> "PowerLawFit | OffsetFit":
    from rbp.laws.offset import fit_offset
    from rbp.laws.power import fit_power_law

    size, value = points["size"].to_numpy(), points["value"].to_numpy()
    if offset:
        return fit_offset(size, value, level=level)
    return fit_power_law(size, value, variance=source.counting_variance(points) if weights else None, level=level)


def _each(points: "pd.DataFrame", level: float, as_json: bool, out: Path | None) -> None:
    """Print the law of each dataset, family, metric and k, a row each; or write them as a table, or as JSON."""
    from rbp.laws.table import fit_table
    from rbp.report.law import in_words

    fits = fit_table(points, by=CELL, level=level, required=False)
    if out is not None:
        put_table(fits, out)
    elif as_json:
        typer.echo(fits.to_json(orient="records"))
    else:
        for line in in_words(fits, level):
            typer.echo(line)


def _named(cell: dict[Hashable, Any]) -> str:
    return f"{_QUANTITIES[cell['metric']].format(k=cell['k'])} of {cell['family']} on {cell['dataset']}"


TOO_FAR = 1e4  # times the largest size: the unit of one of them is probably another


def _forecast(fitted: "PowerLawFit | OffsetFit", size: float) -> dict[Hashable, Any]:
    times = size / fitted.size_max
    if times > TOO_FAR:
        ratio = f"{size:.4g} is {times:,.0f} times the largest size of {fitted.size_max:,.0f}"
        log.warning("%s: both are numbers of parameters; is one of them in thousands, millions or billions?", ratio)
    return fitted.predict(size).iloc[0].to_dict() | {"times_largest": times}


def _forecast_in_words(forecast: dict[Hashable, Any], letter: str, level: float, offset: bool) -> str:
    bounds = f"{forecast['low']:.4g} to {forecast['high']:.4g}"
    beyond = f", {forecast['times_largest']:,.3g} times the largest" if forecast["times_largest"] > 1 else ""
    floor = ", if there is no floor (--offset fits one)" if beyond and not offset else ""
    interval = f"{_level(level)} interval of a new model {bounds}"
    return f"At {letter} = {forecast['size']:.4g}{beyond}: {forecast['value']:.4g}; {interval}{floor}"


def _of_line(measured: "pd.DataFrame", family: str, axis: str) -> "pd.DataFrame":
    """Select the rows of one line of `checkpoints.against`: a run by its name, or a family's only run."""
    from rbp.measurements import select
    from rbp.measurements.checkpoints import against, runs
    from rbp.names import nearest

    lines = runs(measured) if axis in ("tokens", "step") else measured["family"]
    names = set(lines[measured["family"] == family]) or {family}
    if len(names) > 1:
        raise ParameterError(f"{family} has {len(names)} runs", "--family", f"Name one: {'; '.join(sorted(names))}.")
    if not names <= set(lines):
        raise ParameterError(f"there is no run or family {family}", "--family", nearest(family, sorted(set(lines))))
    return select(against(measured[lines.isin(names)], axis))


def _side_by_side(points: "pd.DataFrame", level: float, as_json: bool) -> None:
    from rbp.report.law import compared, compared_in_words

    comparisons = compared(points, level)
    if not as_json:
        for line in compared_in_words(comparisons, level):
            typer.echo(line)
        return
    (rivals,) = comparisons.values()
    if isinstance(rivals, str):
        typer.echo(json.dumps({"note": rivals}))
        return
    tables = {name: json.loads(getattr(rivals, name).to_json(orient="records")) for name in ("errors", "laws")}
    typer.echo(json.dumps(tables | {"hidden": rivals.hidden, "runs": rivals.runs, "design": rivals.design}))


def _in_words(fitted: "PowerLawFit | OffsetFit", quantity: str, cell: str, letter: str) -> list[str]:
    from rbp.laws.offset import OffsetFit
    from rbp.laws.power import direction, formula

    law = f"{formula(fitted.prefactor, fitted.alpha, letter)}, {cell}"
    interval = f"{_level(fitted.level)} interval"
    alpha = f"α = {fitted.alpha:.4f}, {interval} {fitted.alpha_low:.4f} to {fitted.alpha_high:.4f}"
    alpha += direction(fitted.alpha, fitted.alpha_low, fitted.alpha_high, letter)
    weak = "; few points: read it with care" if fitted.weak else ""
    points, degrees = "models" if letter == "S" else "checkpoints", "degree" if fitted.df == 1 else "degrees"
    rest = f"{fitted.n} {points}, {fitted.df} {degrees} of freedom{weak}"
    if isinstance(fitted, OffsetFit):
        return [f"{quantity} = {fitted.offset:.4g} + {law}", fitted.statement, f"{alpha}; {rest}"]
    scale = "" if fitted.scale is None else f"scatter {fitted.scale:.3g} times the variance of counting, "
    return [f"{quantity} = {law}", alpha, f"R² = {fitted.r_squared:.4f}, {scale}{rest}"]


def _level(level: float) -> str:
    return f"{100 * level:.4g}%"


def _json(number: float | None) -> float | None:
    """Return None for infinity, which JSON does not have."""
    return number if number is None or math.isfinite(number) else None


def _short(model: str) -> str:
    """Return a model's name without its owner's, as users type it."""
    return model.rsplit("/", 1)[-1].lower()
