"""Laws with an offset, of size S and training tokens D, fitted by least squares of ln y.

Of both: the product A·S^(−a)·D^(−b); the sum A·S^(−a) + B·D^(−b), without an offset E or above one (arXiv:2203.15556);
and Kaplan's form, ((A·S^(−a))^(1/b) + (B·D^(−b))^(1/b))^b (arXiv:2001.08361). Of S alone: the power A·S^(−a), and the
same above an E.

y is a loss, or −ln RBP_k of many tokens.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Reals, as_positive
from rbp.errors import DataError, FitError, ParameterError
from rbp.laws.misfit import ADDITIVE, COLUMNS, FORMS, NAMES, OFFSET, POWER, Bottom, Law, Misfit


@dataclass(frozen=True)
class Surface:
    """A fitted law of S and D.

    `alpha` is a, `beta` is b (0 in a law of S alone), `offset` is E ≥ 0. `size_term` is A·S^(−a) and
    `token_term` B·D^(−b) at the `centre`, the geometric means of S and D; of a product `size_term` is the whole.
    `deviance`: Σ(ln y − ln ŷ)². `explained`: 1 − deviance/deviance of a constant.
    """

    form: str
    alpha: float
    beta: float
    offset: float
    size_term: float
    token_term: float
    centre: tuple[float, float]
    n: int
    deviance: float
    explained: float

    def _evaluated(self, size: npt.ArrayLike, tokens: npt.ArrayLike) -> tuple[Reals, Reals]:
        """Return ln y at S and D, and its slopes in the parameters, [..., p]; shapes broadcast."""
        logs = (
            np.log(np.asarray(values, dtype=float) / middle)
            for values, middle in zip((size, tokens), self.centre, strict=True)
        )
        x, z = np.broadcast_arrays(*logs)
        terms: dict[str, float] = {name: np.log(getattr(self, name)) for name in NAMES[self.form] if "term" in name}
        point = np.array([terms.get(name, getattr(self, name)) for name in NAMES[self.form]])
        law = Law(self.form, x.ravel(), z.ravel())
        with np.errstate(invalid="ignore"):  # at an infinite S or D
            return law.log_values(point).reshape(x.shape), law.slopes(point).reshape(*x.shape, len(point))

    def predict(self, size: npt.ArrayLike, tokens: npt.ArrayLike) -> Reals:
        """Return y at S and D; shapes broadcast."""
        return np.asarray(np.exp(self._evaluated(size, tokens)[0]))

    def log_errors(self, rows: pd.DataFrame) -> Reals:
        """Compute ln of forecast over measured value of some rows (COLUMNS)."""
        return self._evaluated(rows["size"], rows["training_tokens"])[0] - np.log(as_positive(rows["value"], "value"))

    def exponent(self, size: npt.ArrayLike, tokens: npt.ArrayLike, along: float = 0.0) -> Reals:
        """Return the local exponent −d ln y/d ln S where D grows as S^along: 0 at fixed D, 1 at constant D/S.

        In a sum it is the mean of a, along·b and 0 with the three terms as weights, in a product a + along·b.
        """
        names, slopes = NAMES[self.form], self._evaluated(size, tokens)[1]
        shares = [slopes[..., names.index(name) if name in names else 0] for name in ("size_term", "token_term")]
        return np.asarray(self.alpha * shares[0] + along * self.beta * shares[1])


def fit_surface(table: pd.DataFrame, form: str = ADDITIVE) -> Surface:
    """Fit a law of S and D to the rows of `table` (COLUMNS) by least squares of ln y.

    E is held at 0 where the fit would have it below. The fit is the lowest minimum. Raises ParameterError for an
    unknown form, DataError for a missing column, FitError for fewer than three sizes (or token counts), too few rows,
    values that are not positive, or values that do not determine the law.
    """
    misfit = _misfit(table, form)
    return _surface(misfit, misfit.fit())


def _misfit(table: pd.DataFrame, form: str) -> Misfit:
    if form not in FORMS:
        raise ParameterError(f"there is no form {form!r}", "form", f"There is: {', '.join(FORMS)}.")
    if missing := [name for name in COLUMNS if name not in table.columns]:
        raise DataError(f"the table has no column {', '.join(missing)}", remedy=f"It needs {', '.join(COLUMNS)}.")
    size, tokens = (as_positive(table[name], name) for name in COLUMNS[:2])
    fewest = np.unique(size).size if form in (POWER, OFFSET) else min(np.unique(size).size, np.unique(tokens).size)
    if len(table) <= len(NAMES[form]) or fewest < 3:
        fault = f"{len(table)} points with {fewest} different sizes or token counts are too few for the {form}"
        raise FitError(fault, "size, training_tokens", "Give three of each at least, and more points than parameters.")
    return Misfit(form, size, tokens, table["value"])


def profile(table: pd.DataFrame, form: str, name: str, *, level: float = 0.95) -> tuple[Surface, float, float]:
    """Fit a law by least squares of ln y, with the interval of one of its parameters by its profile.

    name: of the parameter, alpha, beta or offset; the interval is by `Misfit.interval`, and an exponent's goes no
    further than −STEEPEST to STEEPEST. Raises what `fit_surface` does, and ParameterError for a parameter that the form
    does not have.
    """
    misfit = _misfit(table, form)
    if name not in NAMES[form] or name in ("size_term", "token_term"):
        raise ParameterError(f"the {form} has no parameter {name!r} with an interval", "name", "alpha, beta, offset")
    best = misfit.fit()
    return _surface(misfit, best), *misfit.interval(name, best, level)


def _surface(misfit: Misfit, best: Bottom) -> Surface:
    """Make the law of a point, with its deviance."""
    of = dict(zip(misfit.names, best.point.tolist(), strict=True))
    if not 0 < np.exp(of["size_term"]) < np.inf:
        raise FitError("the best law is a step between two sizes", "size", "Give more sizes, further apart.")
    deviance = 2 * best.misfit
    return Surface(
        form=misfit.form,
        alpha=of["alpha"],
        beta=of.get("beta", 0.0),
        offset=of.get("offset", 0.0),
        size_term=float(np.exp(of["size_term"])),
        token_term=float(np.exp(of.get("token_term", -np.inf))),
        centre=misfit.centre,
        n=len(misfit.x),
        deviance=deviance,
        explained=1 - deviance / _deviance_of_constant(misfit.y),
    )


def missed_elsewhere(table: pd.DataFrame, unit: str, form: str) -> pd.Series:
    """Compute how much a form misses of units that it was not fitted to: each left out in turn, and forecast.

    The deviance of each unit, by its name, as a share of the deviance of the best constant. They sum to above 1
    where the constant would have done better.
    """
    total = _deviance_of_constant(as_positive(table["value"], "value"))
    missed = {}
    for name in pd.unique(table[unit]):
        out = table[unit] == name
        missed[name] = float((fit_surface(table[~out], form).log_errors(table[out]) ** 2).sum()) / total
    return pd.Series(missed)


def _deviance_of_constant(value: Reals) -> float:
    log = np.log(value)
    return float(((log - log.mean()) ** 2).sum())
