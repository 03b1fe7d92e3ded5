"""`rbp fit`: one law of one family, as the page with the explorer fits it."""

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from rbp.cli.law import SURFACE
from rbp.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from rbp.laws.offset import OffsetFit
    from rbp.laws.power import PowerLawFit

#: metrics, as the line that is printed calls them
_WHAT = {
    "neg_log_rbp": "−ln RBP_{k}",
    "cross_entropy": "cross-entropy",
    "mean_log_rank": "mean ln rank",
    "entropy": "entropy",
    "neg_log_pass": "−ln pass@{k}",
}


def fit(
    measurements: Annotated[
        str, typer.Option(help="published, ladder, images, …, a folder of ranks, a CSV or Parquet file.")
    ],
    dataset: Annotated[str, typer.Option(help="wikipedia, humaneval, …")],
    family: Annotated[str, typer.Option(help="Pythia, GPT-2, …")],
    k: Annotated[int | None, typer.Option(help="The threshold of RBP_k, or the tries of pass@k.")] = None,
    metric: Annotated[str, typer.Option(help=", ".join(_WHAT))] = "neg_log_rbp",
    level: Annotated[float, typer.Option(help="The confidence level of the intervals.")] = 0.95,
    without: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="Leave this model out; may be given several times.")
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Weight each point by its counting noise.")] = False,
    offset: Annotated[bool, typer.Option("--offset", help="Fit y = E + A·S^(−α), with profile intervals.")] = False,
    at: Annotated[
        float | None, typer.Option(metavar="SIZE", help="Forecast the value at this size, with its interval.")
    ] = None,
    against: Annotated[str, typer.Option(help="The law's axis: size, tokens, compute or step.")] = "size",
    surface: Annotated[bool, typer.Option("--surface", help=SURFACE)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; null where an interval has no end.")] = False,
) -> None:
    """Fit one power law y = A·S^(−α), or one with an offset, and print it."""
    if surface and (weights or offset or at is not None or against != "size"):
        remedy = "Leave out --weights, --offset, --at and --against."
        raise ParameterError("laws in S and D are fitted to all of a family, unweighted", "--surface", remedy)
    if metric not in _WHAT:
        raise ParameterError(f"there is no metric {metric}", "--metric", f"There is: {', '.join(_WHAT)}.")
    if "{k}" in _WHAT[metric] and k is None:
        raise ParameterError(f"a fit of {metric} needs a k", "--k", "Give --k, or --metric cross_entropy.")
    if "{k}" not in _WHAT[metric] and k is not None:
        raise ParameterError(f"{metric} has no threshold", "--k", "Leave --k out.")
    if weights and metric != "neg_log_rbp":
        raise ParameterError("counting noise is that of RBP_k", "--weights", "Leave --weights out, or give --k.")
    if weights and offset:
        raise ParameterError("the law with an offset is fitted without weights", "--weights", "Leave one of them out.")
    from rbp.laws.offset import fit_offset
    from rbp.laws.power import fit_power_law
    from rbp.measurements import open_source, select
    from rbp.measurements.checkpoints import AXES, check_axis
    from rbp.measurements.table import warn_of_no_hits
    from rbp.names import nearest

    check_axis(against)
    source = open_source(measurements)
    if metric == "neg_log_rbp" and k is not None:
        source = source.at([k])
    every = source.table if against == "size" and not surface else source.checkpoints
    if against == "size" and not surface:
        table = select(every, dataset=dataset, family=family, metric=metric, k=k)
    else:
        whole = select(every, dataset=dataset, metric=metric, k=k)
        table = select(whole, family=family) if surface else _of_line(whole, family, against)
    if k is not None:
        warn_of_no_hits(every[(every["dataset"] == dataset) & (every["family"] == family)], [k])
    out = without or []
    if strange := [model for model in out if model not in set(table["model"])]:
        raise ParameterError(f"no model {strange[0]}", "--without", nearest(strange[0], table["model"], _short))
    points = table[~table["model"].isin(out)]
    if surface:
        _side_by_side(points, level, as_json)
        return
    size, value = points["size"].to_numpy(), points["value"].to_numpy()
    fitted: PowerLawFit | OffsetFit
    if offset:
        fitted = fit_offset(size, value, level=level)
    else:
        fitted = fit_power_law(size, value, variance=source.counting_variance(points) if weights else None, level=level)
    forecast = None if at is None else fitted.predict(at).iloc[0].to_dict()
    if as_json:
        numbers = {name: _json(number) for name, number in fitted.as_dict().items()}
        typer.echo(json.dumps(numbers | {"forecast": forecast}))
        return
    letter = AXES[against][1]
    what = _WHAT[metric].format(k=k)
    for line in _in_words(fitted, what, f"{family} on {dataset}", letter):
        typer.echo(line)
    if forecast:
        ends = f"{forecast['low']:.4g} to {forecast['high']:.4g}"
        typer.echo(f"At {letter} = {at:.4g}: {forecast['value']:.4g}; {_level(level)} interval of a new model {ends}")


def _of_line(whole: "pd.DataFrame", family: str, axis: str) -> "pd.DataFrame":
    """Select the rows of one line of `checkpoints.against`: a run by its name, or a family's only run."""
    from rbp.measurements import select
    from rbp.measurements.checkpoints import against, runs
    from rbp.names import nearest

    lines = runs(whole) if axis in ("tokens", "step") else whole["family"]
    names = set(lines[whole["family"] == family]) or {family}
    if len(names) > 1:
        raise ParameterError(f"{family} has {len(names)} runs", "--family", f"Name one: {'; '.join(sorted(names))}.")
    if not names <= set(lines):
        raise ParameterError(f"there is no run or family {family}", "--family", nearest(family, sorted(set(lines))))
    return select(against(whole[lines.isin(names)], axis))


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


def _in_words(fitted: "PowerLawFit | OffsetFit", what: str, cell: str, letter: str) -> list[str]:
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
        return [f"{what} = {fitted.offset:.4g} + {law}", fitted.statement, f"{alpha}; {rest}"]
    scale = "" if fitted.scale is None else f"scatter {fitted.scale:.3g} times the variance of counting, "
    return [f"{what} = {law}", alpha, f"R² = {fitted.r_squared:.4f}, {scale}{rest}"]


def _level(level: float) -> str:
    return f"{100 * level:.4g}%"


def _json(number: float | None) -> float | None:
    """Return None for infinity, which JSON does not have."""
    return number if number is None or math.isfinite(number) else None


def _short(model: str) -> str:
    """Return a model's name without its owner's, as users type it."""
    return model.rsplit("/", 1)[-1].lower()
