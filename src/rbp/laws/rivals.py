"""Compare laws of size and training tokens by how well each forecasts runs that it has not seen.

A law of one variable is fitted at each value of the other by itself: an offset for each size, or for each number of
tokens. It says nothing where both are new.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Reals
from rbp.errors import DataError, FitError
from rbp.laws.misfit import ADDITIVE, FORMS, OFFSET, POWER
from rbp.laws.resampling import interval
from rbp.laws.surface import Surface, fit_surface

OF_BOTH = tuple(form for form in FORMS if form not in (POWER, OFFSET))
LEFT = 3  # sizes, and numbers of tokens, that are never hidden
SHARE = 4  # one in so many of the largest is hidden where runs are compared, at least one
TOGETHER = 0.99  # a correlation of ln S and ln D from which on their parts cannot be distinguished


def percent(logs: npt.ArrayLike) -> float:
    """Compute the root mean square of differences of ln y, as per cent of y."""
    return float(100 * np.expm1(np.sqrt(np.mean(np.square(np.asarray(logs, dtype=np.float64))))))


def forecast_cells(points: pd.DataFrame, sizes: int, budgets: int) -> dict[str, Reals]:
    """Compute ln of forecast over measured, by form, of the largest `sizes` and `budgets`, hidden from the fit.

    points: of one text and measure, columns size, training_tokens, value. Nothing hidden: of the fit itself. A law of
    one variable is a law of S where sizes are hidden, of D where budgets are. A form without a fit is left out.
    """
    every = [np.sort(points[name].unique()) for name in ("size", "training_tokens")]
    at_s, at_d = points["size"] <= every[0][-1 - sizes], points["training_tokens"] <= every[1][-1 - budgets]
    rows = (~at_s if sizes else at_s) & (~at_d if budgets else at_d)
    errors = {}
    for form in FORMS if bool(sizes) != bool(budgets) else OF_BOTH:
        with suppress(FitError):
            errors[form] = _away(points[at_s & at_d], points[rows], form, along_size=sizes > 0)
    return errors


def _away(fitted: pd.DataFrame, rows: pd.DataFrame, form: str, *, along_size: bool) -> Reals:
    if form in OF_BOTH:
        return fit_surface(fitted, form).log_errors(rows)
    if not along_size:
        swapped = {"size": "training_tokens", "training_tokens": "size"}
        fitted, rows = fitted.rename(columns=swapped), rows.rename(columns=swapped)
    budgets, lines = fitted["training_tokens"], rows.groupby("training_tokens")
    return np.concatenate([fit_surface(fitted[budgets == tokens], form).log_errors(line) for tokens, line in lines])


@dataclass(frozen=True)
class Rivals:
    """The results of `side_by_side` for one text and measure.

    errors: a row for each form and each part that was hidden ("size", "budget", "both"): form, hidden, error (the root
    mean square, per cent), low, high, and tied: whether the runs do not distinguish it from the best form there.
    laws: a row for each form of both, fitted to everything: form, alpha, beta, offset, each with _low and _high.
    hidden: how many sizes and budgets were. runs: how many; design: what the runs cannot distinguish, in words.
    """

    errors: pd.DataFrame
    laws: pd.DataFrame
    hidden: tuple[int, int]
    runs: int
    design: tuple[str, ...]


def side_by_side(points: pd.DataFrame, *, level: float = 0.95) -> Rivals:
    """Score each form of a law in S and D on the largest quarter of sizes, of budgets, and on both.

    points: of one text and measure, columns size, training_tokens, value, and run. Intervals leave out each run in turn
    (`rbp.laws.resampling`). Raises DataError for a value that is not positive, FitError where no form can be scored.
    """
    rows = points[["run", "size", "training_tokens", "value"]].astype({"size": float, "training_tokens": float})
    if (rows[["size", "training_tokens", "value"]] <= 0).any(axis=None):
        raise DataError(
            "a law in S and D needs values above 0", "size, training_tokens, value", "Leave the others out."
        )
    counts = [rows[name].nunique() for name in ("size", "training_tokens")]
    of_sizes, of_budgets = (max(0, min(max(1, count // SHARE), count - LEFT)) for count in counts)
    hidden = of_sizes, of_budgets
    if not any(hidden):
        fault = f"{counts[0]} sizes and {counts[1]} numbers of training tokens leave none to hide"
        raise FitError(fault, "size, training_tokens", f"Give {LEFT + 1} sizes, or {LEFT + 1} checkpoints of each.")
    names = pd.unique(rows["run"])
    parts = [rows, *(rows[rows["run"] != name] for name in names)]
    cuts = {"size": (of_sizes, 0), "budget": (0, of_budgets), "both": hidden if all(hidden) else (0, 0)}
    scored = [_compared(name, [_errors(part, *cut) for part in parts], level) for name, cut in cuts.items() if any(cut)]
    errors, bound = pd.concat(scored, ignore_index=True), _bound(rows)
    if errors.empty:
        fault = "; ".join(["no law in S and D can be fitted to these runs", *bound])
        raise FitError(fault, "size, training_tokens", "Give runs of several sizes, each at several numbers of tokens.")
    laws = pd.DataFrame([parameters(form, parts, level=level) for form in OF_BOTH]).dropna(subset="alpha")
    if ((laws["form"] == ADDITIVE) & ~(laws["offset_low"] > 0)).any():
        bound.append("a floor cannot be distinguished from none: the interval of E includes 0")
    return Rivals(errors, laws.reset_index(drop=True), hidden, len(names), tuple(bound))


def _errors(points: pd.DataFrame, sizes: int, budgets: int) -> Mapping[str, float]:
    """Compute ln of the root mean square error of each form; none where too few sizes or budgets are left."""
    left = [points[name].nunique() - cut for name, cut in (("size", sizes), ("training_tokens", budgets))]
    if min(left) < LEFT:
        return {}
    return {form: float(np.log(np.mean(away**2)) / 2) for form, away in forecast_cells(points, sizes, budgets).items()}


def _compared(name: str, errors: list[Mapping[str, float]], level: float) -> pd.DataFrame:
    """Make the rows of `Rivals.errors` for one cut, from the errors of all runs, then of all but each."""
    table = pd.DataFrame(errors, columns=[form for form in FORMS if form in errors[0]], dtype=float)
    rows = []
    for form in table:
        best = table.iloc[0].idxmin()
        error, low, high = interval(table[form], len(table) - 2, level=level)
        nearer = interval(table[form] - table[best], len(table) - 2, level=level).low
        labels = {"form": form, "hidden": name, "tied": bool(form == best or not nearer > 0)}
        values = {"error": error, "low": low, "high": high}
        rows.append(labels | {end: float(100 * np.expm1(np.exp(value))) for end, value in values.items()})
    return pd.DataFrame(rows, columns=["form", "hidden", "error", "low", "high", "tied"])


def parameters(form: str, parts: Sequence[pd.DataFrame], *, level: float = 0.95) -> dict[str, object]:
    """Make a row of `Rivals.laws`. parts: all points, then all but each run's; NaN for a part without a fit."""
    names = ("alpha", "beta", "offset")
    values = np.full((len(parts), len(names)), np.nan)
    for row, part in enumerate(parts):
        with suppress(FitError):
            law: Surface = fit_surface(part, form)
            values[row] = [getattr(law, name) for name in names]
    estimate, low, high = interval(values, len(parts) - 2, level=level)
    line: dict[str, object] = {"form": form}
    for name, *bounds in zip(names, estimate, low, high, strict=True):
        line |= dict(zip((name, f"{name}_low", f"{name}_high"), bounds, strict=True))
    return line


def _bound(rows: pd.DataFrame) -> list[str]:
    """Say what these runs cannot distinguish, whatever the law."""
    sentences = []
    grid = rows[["size", "training_tokens"]].drop_duplicates()
    logs = np.log(grid.to_numpy(float))
    together = float(np.corrcoef(logs.T)[0, 1]) if len(grid) > 2 and (np.ptp(logs, axis=0) > 0).all() else 0.0
    if abs(together) > TOGETHER:
        sentences.append(f"size and tokens grow together (correlation {together:.3f}): a and b cannot be distinguished")
    if grid["size"].is_unique:
        sentences.append("each size was measured at one number of training tokens: nothing is known of D at a size")
    return sentences
