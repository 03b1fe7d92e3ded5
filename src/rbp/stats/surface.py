"""Laws of size S and training tokens D, by one likelihood, so that they can be compared.

Of both: the product A·S^(−a)·D^(−b); the sum A·S^(−a) + B·D^(−b), without a floor E or above one (arXiv:2203.15556);
and Kaplan's form, ((A·S^(−a))^(1/b) + (B·D^(−b))^(1/b))^b (arXiv:2001.08361). Of S alone: the power A·S^(−a), and the
same above an E.

Fitted by the likelihood that the values have: of ln y where y is a loss or −ln RBP_k of many tokens; of binomial counts
where y is −ln of a share of few items, so that a share of 0 is a value like any other.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.linalg import block_diag
from scipy.optimize import nnls
from scipy.special import fdtri, stdtrit, xlogy

from rbp.core.arrays import Reals, as_positive, check_level
from rbp.core.errors import DataError, FitError, ParameterError
from rbp.stats.newton import minimum, near_least
from rbp.stats.offset_law import edge
from rbp.stats.power_law import ROUNDING

POWER, OFFSET, PRODUCT = "power of one", "power of one above E", "product"
SUM, ADDITIVE, KAPLAN = "sum without a floor", "sum", "Kaplan’s form"
PARAMETERS = {POWER: 2, OFFSET: 3, PRODUCT: 3, SUM: 4, ADDITIVE: 5, KAPLAN: 4}
FORMS = tuple(PARAMETERS)
STEEPEST = 5.0  # the size of an exponent beyond which no interval goes
_OF_S, _OF_BOTH = ("size_term", "alpha"), ("size_term", "alpha", "token_term", "beta")
_TERMS = {POWER: _OF_S, OFFSET: _OF_S, PRODUCT: (*_OF_S, "beta"), SUM: _OF_BOTH, ADDITIVE: _OF_BOTH, KAPLAN: _OF_BOTH}
_LOGS = ("size_term", "token_term")  # of which the logarithm is searched
#: columns that a fit of two variables needs; `training_tokens` is D
COLUMNS = ("size", "training_tokens", "value")
_STARTS = (0.05, 0.2, 0.4, 0.8)  # exponents from which the search sets out

#: y → the negative log-likelihood of the data, and its first and second derivative by each y
_Loss = Callable[[Reals], tuple[float, Reals, Reals]]


@dataclass(frozen=True)
class Surface:
    """A fitted law of S and D.

    `alpha` is a, `beta` is b (0 in a law of S alone), `offset` is E ≥ 0, fitted or given. `size_term` is A·S^(−a) and
    `token_term` B·D^(−b) at the `centre`, the geometric means of S and D; of a product `size_term` is the whole.
    `deviance`: Σ(ln y − ln ŷ)², or the binomial deviance. `explained`: 1 − deviance/deviance of a constant.
    `dispersion`: the mean square of the residuals of ln y, or Pearson's χ² over its degrees of freedom.
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
    dispersion: float

    def _shares(self, size: npt.ArrayLike, tokens: npt.ArrayLike) -> tuple[Reals, Reals, Reals]:
        """y, and the weights of a and b in its exponent: the part of y that each term makes."""
        x = np.log(np.asarray(size, dtype=float) / self.centre[0])
        z = np.log(np.asarray(tokens, dtype=float) / self.centre[1])
        if self.form in (POWER, OFFSET, PRODUCT):
            whole = np.asarray(self.size_term * np.exp(-self.alpha * x - self.beta * z))
            return whole + self.offset, whole / (whole + self.offset), whole / (whole + self.offset)
        by_size, by_tokens = self.size_term * np.exp(-self.alpha * x), self.token_term * np.exp(-self.beta * z)
        if self.form == KAPLAN:
            inner = by_size ** (1 / self.beta) + by_tokens ** (1 / self.beta)
            y = np.asarray(inner**self.beta + self.offset)
            of_size, above = np.asarray(by_size ** (1 / self.beta) / inner), 1 - self.offset / y
            return y, above * of_size, above * (1 - of_size)
        y = np.asarray(self.offset + by_size + by_tokens)
        return y, np.asarray(by_size / y), np.asarray(by_tokens / y)

    def predict(self, size: npt.ArrayLike, tokens: npt.ArrayLike) -> Reals:
        """y at S and D; shapes broadcast."""
        return self._shares(size, tokens)[0]

    def exponent(self, size: npt.ArrayLike, tokens: npt.ArrayLike, along: float = 0.0) -> Reals:
        """The local exponent −d ln y/d ln S where D grows as S^along: 0 at fixed D, 1 at constant tokens per parameter.

        In a sum it is the mean of a, along·b and 0 with the three terms as weights, in a product a + along·b.
        """
        _, of_size, of_tokens = self._shares(size, tokens)
        return np.asarray(self.alpha * of_size + along * self.beta * of_tokens)


def fit_surface(table: pd.DataFrame, form: str = ADDITIVE, *, trials: int | None = None, above: float = 0.0) -> Surface:
    """Fit a law of S and D to the rows of `table` (COLUMNS), by maximum likelihood.

    above: an E that is known, for the forms that fit none. trials: None where `value` is y, positive: least squares of
    ln y. Else `value` is the share of so many trials that succeed, 0 and 1 included, and y is its −ln: binomial
    likelihood. E is held at 0 where the likelihood would have it below.

    Raises ParameterError for an unknown form, and for one that fits an E where one is given; DataError for a missing
    column or shares outside 0 … 1, FitError for fewer than three sizes (or token counts), too few rows, or values that
    do not determine the law.
    """
    if form not in FORMS:
        raise ParameterError(f"there is no form {form!r}", "form", f"There is: {', '.join(FORMS)}.")
    if above and form in (OFFSET, ADDITIVE):
        raise ParameterError(f"the {form} fits an E of its own", "above", "Leave it out, or take a form without one.")
    if missing := [name for name in COLUMNS if name not in table.columns]:
        raise DataError(f"the table has no column {', '.join(missing)}", remedy=f"It needs {', '.join(COLUMNS)}.")
    size, tokens = (as_positive(table[name], name) for name in COLUMNS[:2])
    fewest = np.unique(size).size if form in (POWER, OFFSET) else min(np.unique(size).size, np.unique(tokens).size)
    if len(table) <= PARAMETERS[form] or fewest < 3:
        what = f"{len(table)} points with {fewest} different sizes or token counts are too few for the {form}"
        raise FitError(what, "size, training_tokens", "Give three of each at least, and more points than parameters.")
    centre = float(np.exp(np.log(size).mean())), float(np.exp(np.log(tokens).mean()))
    x, z = np.log(size / centre[0]), np.log(tokens / centre[1])
    one = np.ones_like(x)
    y, of_whole, least, of_constant = _data(table["value"], trials)
    y = np.maximum(y - above, 0.01 * y)  # to start from

    def loss(risen: Reals) -> tuple[float, Reals, Reals]:
        return of_whole(risen + above)

    if form == KAPLAN:
        found = _kaplan(x, z, loss, y)
        at_middle, alpha, of_tokens, beta, offset = np.append(found[3] * found[:3], [found[3], 0.0])
        fitted = np.exp(found[3] * np.logaddexp(found[0] - found[1] * x, found[2] - z))
    else:
        both = [(one, -x), (one, -z)]
        columns = [(one, -x, -z)] if form == PRODUCT else both if form in (SUM, ADDITIVE) else [(one, -x)]
        design = [np.column_stack(part) for part in columns]
        found = _terms(design, form in (OFFSET, ADDITIVE), loss, y)
        fitted = _mean(design, found)[0]
        if form in (SUM, ADDITIVE):
            at_middle, alpha, of_tokens, beta, offset = np.append(found, 0.0)[:5]
        else:
            rest = found[2:] if form == PRODUCT else np.insert(found[2:], 0, 0.0)
            at_middle, alpha, beta, offset, of_tokens = np.append(np.append([*found[:2], *rest], 0.0)[:4], -np.inf)
    missed = 2 * (loss(fitted)[0] - least)
    return Surface(
        form=form,
        alpha=float(alpha),
        beta=float(beta),
        offset=float(offset) + above,
        size_term=float(np.exp(at_middle)),
        token_term=float(np.exp(of_tokens)),
        centre=centre,
        n=len(table),
        deviance=missed,
        explained=1 - missed / of_constant,
        dispersion=_dispersion(fitted + above, table["value"], trials) / (len(table) - len(found)),
    )


def profile(table: pd.DataFrame, form: str, name: str, *, level: float = 0.95) -> tuple[Surface, float, float]:
    """A law fitted by least squares of ln y, and the interval of one of its parameters by its profile.

    name: of the parameter, alpha, beta or offset. The interval holds every value at which the others, fitted anew with
    E ≥ 0, leave a deviance of at most 1 + F(level; 1, n − p)/(n − p) times the least: residuals are taken for
    independent. It goes no further than −STEEPEST to STEEPEST, of E from 0 to the smallest y. Raises what
    `fit_surface` does, and ParameterError for a parameter that the form does not have.
    """
    check_level(level)
    best = fit_surface(table, form)
    names = [*_TERMS[form], *(["offset"] if form in (OFFSET, ADDITIVE) else [])]
    if name not in names or name in _LOGS:
        raise ParameterError(f"the {form} has no parameter {name!r} with an interval", "name", "alpha, beta, offset")
    size, tokens, y = (table[column].to_numpy(np.float64) for column in COLUMNS)
    df = best.n - len(names)
    cut = max(best.deviance, best.n * ROUNDING**2) * (1 + float(fdtri(1, df, level)) / df)
    at_best = {each: float(np.log(getattr(best, each)) if each in _LOGS else getattr(best, each)) for each in names}
    last = dict(at_best)  # where the last search ended

    def least(**held: float) -> float:
        free = [each for each in names if each not in held]

        def away(values: Reals) -> Reals:  # complex where derivatives are taken
            both = zip(free, values, strict=True)
            law: dict[str, Any] = {each: np.exp(value) if each in _LOGS else value for each, value in both}
            return np.asarray(np.log(replace(best, **(held | law)).predict(size, tokens) / y))

        ends = []
        for start in (at_best, last):
            with suppress(FitError, ZeroDivisionError):  # there is no Kaplan's form of b = 0
                ends.append(near_least(away, np.array([start[each] for each in free])))
        if not ends:
            return np.inf
        found = min(ends, key=lambda values: float(np.sum(away(values) ** 2)))
        if "offset" in free and found[free.index("offset")] < 0:
            return least(**held, offset=0.0)
        last.update(zip(free, found.tolist(), strict=True))
        return float(np.sum(away(found) ** 2))

    def end(far: float) -> float:
        return edge(lambda at: least(**{name: at}), getattr(best, name), far, cut)

    lowest = 0.0 if name == "offset" or (form, name) == (KAPLAN, "beta") else -STEEPEST
    return best, end(lowest), end(float(y.min()) if name == "offset" else STEEPEST)


def deviance(surface: Surface, table: pd.DataFrame, *, trials: int | None = None) -> float:
    """The deviance of other rows from a surface that was fitted without them."""
    _, loss, least, _ = _data(table["value"], trials)
    return 2 * (loss(surface.predict(table["size"], table["training_tokens"]))[0] - least)


@dataclass(frozen=True)
class ShareLaw:
    """−ln of a share as a power law of S: `alpha` with its Student interval of n − 2 degrees of freedom.

    `typical` is −ln p at the geometric mean of the sizes. `dispersion` is Pearson's χ² over the degrees of freedom; the
    interval is that of counting times its root (or counting's own, where it is below 1).
    """

    typical: float
    alpha: float
    alpha_low: float
    alpha_high: float
    alpha_se: float
    dispersion: float
    n: int


def fit_shares(size: npt.ArrayLike, share: npt.ArrayLike, trials: int, *, level: float = 0.95) -> ShareLaw:
    """Fit −ln p = A·S^(−α) to shares of `trials` by binomial likelihood, shares of 0 included; shapes (n,), n ≥ 3.

    The models are the units: their scatter about the law is in `dispersion`, and so in the interval. Raises FitError
    for fewer than three sizes, or shares that are all 0 or all 1.
    """
    check_level(level)
    sizes = as_positive(size, "size")
    if np.unique(sizes).size < 3:
        raise FitError("a law needs three sizes at least", "size", "Give more models.")
    y, loss, _, _ = _data(share, trials)
    x = np.log(sizes)
    design = [np.column_stack([np.ones_like(x), x.mean() - x])]
    found = _solve(design, False, loss, np.linalg.lstsq(design[0], np.log(y), rcond=None)[0])
    fitted, slopes, _ = _mean(design, found)
    df = len(x) - 2
    dispersion = _dispersion(fitted, share, trials) / df
    # Fisher's information: a binomial share has the weight n·p/(1 − p) in y = −ln p
    information = (slopes * (trials / np.expm1(fitted))[:, None]).T @ slopes
    error = float(np.sqrt(max(dispersion, 1.0) * np.linalg.inv(information)[1, 1]))
    half = float(stdtrit(df, (1 + level) / 2)) * error
    alpha = float(found[1])
    return ShareLaw(float(np.exp(found[0])), alpha, alpha - half, alpha + half, error, dispersion, len(x))


def explained_elsewhere(table: pd.DataFrame, unit: str, form: str, *, trials: int | None = None) -> float:
    """How much of the deviance a form explains of units that it was not fitted to: each left out in turn, and foretold.

    1 − Σ deviance/deviance of the constant that is best for all; below 0 where the constant would have done better.
    """
    missed = 0.0
    for one in pd.unique(table[unit]):
        out = table[unit] == one
        missed += deviance(fit_surface(table[~out], form, trials=trials), table[out], trials=trials)
    return 1 - missed / _data(table["value"], trials)[3]


def _data(value: npt.ArrayLike, trials: int | None) -> tuple[Reals, _Loss, float, float]:
    """y (positive, to start from), the loss, its least value, and the deviance of a constant."""
    if trials is None:
        y = as_positive(value, "value")
        log = np.log(y)

        def of_logs(fitted: Reals) -> tuple[float, Reals, Reals]:
            away = np.log(fitted) - log
            return float(away @ away) / 2, away / fitted, (1 - away) / fitted**2

        return y, of_logs, 0.0, float(((log - log.mean()) ** 2).sum())
    share = np.asarray(value, dtype=np.float64)
    if not ((share >= 0) & (share <= 1)).all():
        raise DataError("a share lies between 0 and 1", "value", "Check the shares.")
    mean = float(share.mean())
    if mean in (0, 1):
        raise FitError("no trial succeeds, or all do: there is no law to fit", "value")

    def of_counts(fitted: Reals) -> tuple[float, Reals, Reals]:
        failing = -np.expm1(-fitted)
        odds = np.exp(-fitted) / failing
        value = share @ fitted - (1 - share) @ np.log(failing)
        return trials * float(value), trials * (share - (1 - share) * odds), trials * (1 - share) * odds / failing

    least = -trials * float((xlogy(share, share) + xlogy(1 - share, 1 - share)).sum())
    constant = -trials * len(share) * float(xlogy(mean, mean) + xlogy(1 - mean, 1 - mean))
    return -np.log((share * trials + 0.5) / (trials + 1)), of_counts, least, 2 * (constant - least)


def _dispersion(fitted: Reals, value: npt.ArrayLike, trials: int | None) -> float:
    """The sum of squared residuals, in units of counting's own for shares."""
    seen = np.asarray(value, dtype=np.float64)
    if trials is None:
        return float(((np.log(fitted) - np.log(seen)) ** 2).sum())
    share = np.exp(-fitted)
    with np.errstate(divide="ignore", invalid="ignore"):  # where the law leaves no chance, and none was had
        pearson = trials * (seen - share) ** 2 / (share * -np.expm1(-fitted))
    return float(np.nan_to_num(pearson, nan=0.0).sum())


def _mean(design: Sequence[Reals], found: Reals) -> tuple[Reals, Reals, Sequence[Reals]]:
    """y, the sum of exponentials of the designs' linear forms (and E, if one more is found); its slopes; its terms."""
    widths = np.cumsum([part.shape[1] for part in design])
    parts = np.split(found, widths)
    terms = [np.exp(own @ part) for own, part in zip(design, parts[:-1], strict=True)]
    slopes = [own * term[:, None] for own, term in zip(design, terms, strict=True)]
    fitted = np.asarray(sum(terms), dtype=np.float64)
    if len(parts[-1]):
        fitted = fitted + parts[-1][0]
        slopes.append(np.ones((len(fitted), 1)))
    return fitted, np.hstack(slopes), terms


def _solve(design: Sequence[Reals], offset: bool, loss: _Loss, start: Reals) -> Reals:
    """The parameters of least loss."""

    def function(found: Reals) -> tuple[float, Reals, Reals]:
        fitted, slopes, terms = _mean(design, found)
        value, first, second = loss(fitted)
        bends = [(own * (first * term)[:, None]).T @ own for own, term in zip(design, terms, strict=True)]
        curved = block_diag(*bends, *([np.zeros((1, 1))] if offset else []))
        return value, slopes.T @ first, (slopes * second[:, None]).T @ slopes + curved

    with np.errstate(all="ignore"):  # a step too far is taken back
        return minimum(function, start)


def _terms(design: Sequence[Reals], floor: bool, loss: _Loss, y: Reals) -> Reals:
    """The terms' parameters and E, if one is asked for and above 0."""
    if len(design) == 1 and not floor:
        start = np.asarray(np.linalg.lstsq(design[0], np.log(y), rcond=None)[0], dtype=np.float64)
        return _solve(design, False, loss, start)
    starts = []
    for exponents in product(_STARTS, repeat=sum(own.shape[1] - 1 for own in design)):
        parts = np.split(np.array(exponents), [own.shape[1] - 1 for own in design[:-1]])
        powers = [np.exp(own[:, 1:] @ part) for own, part in zip(design, parts, strict=True)]
        amounts = _amounts([*powers, np.ones_like(y)], y)
        terms = [np.append(np.log(amount), part) for amount, part in zip(amounts, parts, strict=False)]
        starts.append(np.concatenate([*terms, amounts[-1:]]))
    start = min(starts, key=lambda each: loss(_mean(design, each)[0])[0])
    bare = _solve(design, False, loss, start[:-1])
    if floor and loss(_mean(design, bare)[0])[1].sum() < 0:  # an E above 0 is better
        with suppress(FitError):  # it may run to an E below 0, which the values do not bound
            found = _solve(design, True, loss, start)
            if found[-1] >= 0:
                return found
    return bare


def _amounts(powers: Sequence[Reals], y: Reals) -> Reals:
    """How much of each of `powers` makes y, above 0, by least squares of relative errors, as the logarithm has them."""
    found = nnls(np.column_stack(powers) / y[:, None], np.ones_like(y))[0]
    amounts: Reals = np.maximum(found, 1e-3 * np.exp(np.log(y).mean()))
    return amounts


def _kaplan(x: Reals, z: Reals, loss: _Loss, y: Reals) -> Reals:
    """c, g, d, b of least loss in ln y = b·ln(exp(c − g·x) + exp(d − z)), with a = g·b."""
    of_size, of_tokens = np.column_stack([np.ones_like(x), -x, 0 * x]), np.tile([0.0, 0.0, 1.0], (len(x), 1))

    def function(found: Reals) -> tuple[float, Reals, Reals]:
        inner, b = found[:3], found[3]
        left = of_size @ inner
        both = np.logaddexp(left, found[2] - z)
        weight = np.exp(left - both)[:, None]
        middle, apart, fitted = weight * of_size + (1 - weight) * of_tokens, of_size - of_tokens, np.exp(b * both)
        value, first, second = loss(fitted)
        slope = (first * fitted)[:, None]  # of the loss by ln y
        slopes = np.column_stack([b * middle, both])
        curved = slopes.T @ ((second * fitted**2)[:, None] * slopes + slope * slopes)
        curved[:3, :3] += apart.T @ (b * slope * weight * (1 - weight) * apart)
        cross = (middle.T @ slope)[:, 0]
        curved[:3, 3] += cross
        curved[3, :3] += cross
        return value, (slopes.T @ slope)[:, 0], curved

    starts = []
    for a, b in product(_STARTS, repeat=2):
        amounts = _amounts([np.exp(-a / b * x), np.exp(-z)], y ** (1 / b))
        starts.append(np.array([np.log(amounts[0]), a / b, np.log(amounts[1]), b]))
    with np.errstate(all="ignore"):  # a step too far is taken back
        return minimum(function, min(starts, key=lambda each: function(each)[0]), positive=[3])
