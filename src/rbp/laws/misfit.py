"""The misfit of laws with an offset to some rows, its lowest minimum, and intervals by its profile.

The misfit of such a law may have several minima. With its exponents held it is a linear regression in the amounts A, B
and E, but for the logarithm (variable projection: Golub and Pereyra 1973), so a whole grid of exponents is tried in a
few batches of small linear systems. Newton's steps go from the valleys of that grid to the bottom, where the gradient
is zero to rounding: the lowest minimum comes out, with the same digits on any processor.

The misfit as a landscape, whose place is a point of parameters and whose height is the misfit there:

    _valleys   look down on a grid of exponents, zoom into its lowest places: where to set out from
    _bottom    walk downhill from one start, to where the ground is level; or off the map (a parameter grows for ever)
    _limit     off the map: how low it gets there
    _bottoms   all walks: from the valleys, and along the fence E = 0, where a law without an offset is the lowest
    _lowest    the lowest end of all walks with some parameters held: one point of a parameter's profile
    _crossing  where that profile rises to the height of the interval's ends, by one walk along it

`fit` takes the lowest minimum of `_bottoms`; `interval` follows `_lowest` outwards from it, and ends at `_crossing`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import minimum_filter
from scipy.optimize import brentq, least_squares, root
from scipy.special import fdtri

from rbp.arrays import Reals, as_positive, check_level
from rbp.errors import FitError
from rbp.laws.newton import minimum
from rbp.laws.power import ROUNDING

POWER, OFFSET, PRODUCT = "power of one", "power of one above E", "product"
SUM, ADDITIVE, KAPLAN = "sum without a floor", "sum", "Kaplan’s form"
_OF_S, _OF_BOTH = ("size_term", "alpha"), ("size_term", "alpha", "token_term", "beta")
#: the parameters of each form, in the order in which they are searched; of a term the logarithm is
NAMES = {
    POWER: _OF_S,
    OFFSET: (*_OF_S, "offset"),
    PRODUCT: (*_OF_S, "beta"),
    SUM: _OF_BOTH,
    ADDITIVE: (*_OF_BOTH, "offset"),
    KAPLAN: _OF_BOTH,
}
FORMS = tuple(NAMES)
FORMULAS = {
    POWER: "A·S^(−a)",
    OFFSET: "E + A·S^(−a)",
    PRODUCT: "A·S^(−a)·D^(−b)",
    SUM: "A·S^(−a) + B·D^(−b)",
    ADDITIVE: "E + A·S^(−a) + B·D^(−b)",
    KAPLAN: "((A·S^(−a))^(1/b) + (B·D^(−b))^(1/b))^b",
}
STEEPEST = 5.0  # the size of an exponent, of a law of two variables, beyond which no search and no interval goes
#: columns that a fit of two variables needs; `training_tokens` is D
COLUMNS = ("size", "training_tokens", "value")
_GONE = 40.0  # e to the −40th is lost in rounding beside 1
_GRID = {1: 48, 2: 20}  # exponents of either sign, by how many a form has
_ZOOMS = {1: 6, 2: 3}  # each makes the grid's steps four times finer around its valleys
_VALLEYS = 3  # the lowest ones, of which Newton's steps go on from those that are…
_RIVAL = 2.0  # … at most so many times as high as the lowest
_ROUNDS = 3  # of Newton’s steps to the amounts of a grid’s point
_LEAST = 1e-3  # of an amount from which to set out, of y’s geometric mean
_STEPS = 200  # downhill from a valley; ten are the rule, more where the misfit is nearly flat
_NONE: Mapping[str, float] = {}


class _BelowError(Exception):
    """A search for E > 0 has stepped below."""


class Bottom(NamedTuple):
    """The end of a search: a point, the misfit there, and whether it is a minimum.

    It is none where the misfit falls for ever as a parameter grows; it is then the limit, nearly.
    """

    point: Reals
    misfit: float
    minimum: bool


class Law:
    """A form at some rows. A point is an array of the parameters that NAMES has.

    x and z, shape (n,): ln S and ln D from their centres.
    """

    def __init__(self, form: str, x: Reals, z: Reals) -> None:
        self.form, self.names, self.x, self.z = form, NAMES[form], x, z
        self.floored = self.names[-1] == "offset"
        ones, zeros = np.ones_like(x), np.zeros_like(x)
        if form in (SUM, ADDITIVE, KAPLAN):
            parts = [[ones, -x, zeros, zeros], [zeros, zeros, ones, -z]]
        else:
            parts = [[ones, -x, -z] if form == PRODUCT else [ones, -x]]
        self.design = [np.column_stack(part) for part in parts]

    def _with_offset(self, log_y: Reals, share: Reals, slopes: Reals) -> Reals:
        """Return the slopes of ln y in the parameters."""
        of_terms = share[:, None] * slopes
        return np.column_stack([of_terms, np.exp(-log_y)]) if self.floored else of_terms

    def slopes(self, point: Reals) -> Reals:
        """Return the slopes of ln y in the parameters, shape (n, p)."""
        terms, slopes, _ = self._terms(point)
        return self._with_offset(*self._raised(terms, point), slopes)

    def log_values(self, point: Reals) -> Reals:
        """Return ln y of the law at each row."""
        return self._raised(self._terms(point)[0], point)[0]

    def _raised(self, terms: Reals, point: Reals) -> tuple[Reals, Reals]:
        """Return ln y, and the share of y that lies above the offset."""
        offset = point[-1] if self.floored else 0.0
        if offset == 0:
            return terms, np.ones_like(terms)
        log_y: Reals = np.log(offset + np.exp(terms))
        return log_y, np.exp(terms - log_y)

    def _terms(self, point: Reals) -> tuple[Reals, Reals, tuple[Reals, Reals] | None]:
        """Return ln of what lies above the offset; its slopes (n, p); its second derivatives c·d·dᵀ, as c and d."""
        first = self.design[0]
        inner = point[: first.shape[1]]
        if len(self.design) == 1:
            return first @ inner, first, None
        second, power = self.design[1], point[3] if self.form == KAPLAN else 1.0
        by_size, by_tokens = first @ inner / power, second @ inner / power
        both = np.logaddexp(by_size, by_tokens)
        share = np.exp(by_size - both)
        slopes, across = share[:, None] * first + (1 - share)[:, None] * second, first - second
        if self.form == KAPLAN:
            slopes[:, 3] += both - share * by_size - (1 - share) * by_tokens
            across[:, 3] -= by_size - by_tokens
        return power * both, slopes, (share * (1 - share) / power, across)


class Misfit(Law):
    """The misfit of one form to some rows: half the sum of squares of ln y.

    size, tokens, value: shape (n,), positive. x and z are from the `centre`, the geometric means of S and D.
    """

    def __init__(self, form: str, size: Reals, tokens: Reals, value: npt.ArrayLike) -> None:
        self.y = as_positive(value, "value")
        self.logs = np.log(self.y)
        self.centre = float(np.exp(np.log(size).mean())), float(np.exp(np.log(tokens).mean()))
        super().__init__(form, np.log(size / self.centre[0]), np.log(tokens / self.centre[1]))
        self.exponents = [place for place, name in enumerate(self.names) if name in ("alpha", "beta")]
        self.limits = _limits(self.x) if form in (POWER, OFFSET) else (-STEEPEST, STEEPEST)
        # Exponents of the grid are gentle·sinh(u) for even steps of u: dense near 0, by factors further out.
        self.gentle = 0.1 / float(np.ptp(self.x) or 1.0) if form in (POWER, OFFSET) else 0.002 * STEEPEST

    def __call__(self, point: Reals) -> tuple[float, Reals, Reals]:
        """Return the misfit at a point, its gradient and its Hessian."""
        terms, slopes, bends = self._terms(point)
        log_y, share = self._raised(terms, point)
        away = log_y - self.logs
        by_terms = away * share
        log_slopes = self._with_offset(log_y, share, slopes)
        hessian = (log_slopes * (1 - away)[:, None]).T @ log_slopes
        inner = hessian[: slopes.shape[1], : slopes.shape[1]]
        inner += (slopes * by_terms[:, None]).T @ slopes
        if bends is not None:
            curvature, across = bends
            inner += (across * (by_terms * curvature)[:, None]).T @ across
        return float(away @ away) / 2, log_slopes.T @ away, hessian

    def fit(self) -> Bottom:
        """Find the lowest minimum. Raises FitError where there is none: the misfit falls for ever."""
        bottoms = [end for end in self._bottoms(_NONE) if end.minimum]
        if not bottoms:
            raise FitError("the fit did not converge", None, "The points may not determine all parameters.")
        # Where E = 0 is best, or a step, a search creeps up to it without arriving.
        enough = min(end.misfit for end in bottoms) * (1 + 1e-9) + len(self.x) * ROUNDING**2
        bounds = {id(end): sum(map(self._bound, range(len(end.point)), end.point)) for end in bottoms}
        return max((end for end in bottoms if end.misfit <= enough), key=lambda end: (bounds[id(end)], -end.misfit))

    def interval(self, name: str, best: Bottom, level: float) -> tuple[float, float]:
        """Return a parameter's interval by its profile: every value near the best that the rows do not exclude.

        These are the values at which the other parameters, fitted anew with E ≥ 0, leave a deviance of at most 1 +
        F(level; 1, n − p)/(n − p) times the least (least squares of ln y; residuals are taken for independent). It ends
        at `limits`, or at 0 for E, where such values go so far.
        """
        check_level(level)
        df, place = len(self.x) - len(self.names), self.names.index(name)
        least, estimate = 2 * best.misfit, float(best.point[place])
        cut = max(least, len(self.x) * ROUNDING**2) * (1 + float(fdtri(1, df, level)) / df)
        profiled: dict[float, tuple[float, Bottom | None]] = {}

        def profile(value: float) -> tuple[float, Bottom | None]:
            """Return how far above the cut the profile is, by its root, which is nearly straight; and where that is."""
            if value not in profiled:
                near = profiled[min(profiled, key=lambda tried: abs(tried - value))][1] if profiled else best
                end = self._lowest({name: value}, [near.point] if near else [])
                height = np.inf if end is None else np.sqrt(max(2 * end.misfit - least, 0.0)) - np.sqrt(cut - least)
                profiled[value] = float(height), end
            return profiled[value]

        def end(far: float) -> float:
            if far == estimate or profile(far)[0] <= 0:
                return far
            inside, outside = estimate, estimate + np.copysign(width, far - estimate)
            while abs(outside - estimate) < abs(far - estimate) and profile(outside)[0] <= 0:
                inside, outside = outside, estimate + 2 * (outside - estimate)
            outside = outside if abs(outside - estimate) < abs(far - estimate) else far
            crossing = self._crossing(profile(outside)[1], place, cut)
            if min(inside, outside) <= crossing <= max(inside, outside):
                if abs(profile(crossing)[0]) <= 1e-6 * np.sqrt(cut - least):
                    return crossing
                inside = crossing  # of another valley: the lowest one crosses further out
            return float(
                brentq(lambda value: profile(value)[0], inside, outside, xtol=1e-13 * abs(outside - inside), rtol=1e-13)
            )

        if name == "offset":
            low, high = 0.0, 2 * float(self.y.max())
            while profile(high)[0] <= 0:  # the scatter is of ln y, so that E may lie above the smallest y
                high *= 2
        else:
            low, high = (0.0 if (self.form, name) == (KAPLAN, "beta") else self.limits[0]), self.limits[1]
        with np.errstate(all="ignore"):
            variance = np.linalg.pinv(self(best.point)[2])[place, place]
        width = float(np.sqrt((cut - least) * variance)) if variance > 0 else 1e-3 * (high - low)
        return end(low), end(high)

    def _crossing(self, start: Bottom | None, place: int, cut: float) -> float:
        """Solve for the parameter value where the profile deviance equals `cut`, near `start`; NaN if not found.

        The other parameters are at their optimum there (Venzon and Moolgavkar 1988).
        """
        if start is None or not start.minimum:
            return np.nan
        free = [i for i, value in enumerate(start.point) if i == place or not self._bound(i, value)]
        others = [i for i in free if i != place]

        def equations(part: Reals) -> tuple[Reals, Reals]:
            point = start.point.copy()
            point[free] = part
            value, gradient, hessian = self(point)
            return np.append(gradient[others], 2 * value - cut), np.vstack(
                [hessian[others][:, free], 2 * gradient[free]]
            )

        with np.errstate(all="ignore"):
            solution = root(equations, start.point[free], jac=True, tol=1e-15).x
            left, slopes = equations(solution)
            if not (np.isfinite(slopes).all() and abs(left[-1]) <= 1e-10 * cut):
                return np.nan
            step = np.linalg.lstsq(slopes, left, rcond=None)[0]
        settled = np.abs(step) <= 1e-9 * np.abs(solution) + 1e-9
        return float((solution - step)[free.index(place)]) if settled.all() else np.nan

    def _bound(self, place: int, value: float) -> bool:
        """Return whether a parameter is at the end of its range."""
        if place in self.exponents:
            return not self.limits[0] * (1 - 1e-9) < value < self.limits[1] * (1 - 1e-9)
        return self.names[place] == "offset" and value == 0

    def _lowest(self, held: Mapping[str, float], near: Sequence[Reals] = ()) -> Bottom | None:
        bottoms = self._bottoms(held, near) if not (self.form == KAPLAN and held.get("beta", 1.0) <= 0) else []
        return min((end for end in bottoms if np.isfinite(end.misfit)), key=_misfit, default=None)

    @np.errstate(all="ignore")  # a step too far is taken back
    def _bottoms(self, held: Mapping[str, float], near: Sequence[Reals] = ()) -> list[Bottom]:
        """Return the ends of searches in which some parameters are held: from the grid, and from points `near`."""
        free_offset = self.floored and "offset" not in held
        starts = self._valleys(held)
        bottoms = [end for start in starts or near if (end := self._bottom(start, held, inside=free_offset))]
        if self.form == OFFSET and held.get("offset", 0.0) > 0:  # A = 0
            point = np.array([-(_GONE**2), 0.0, held["offset"]])
            bottoms.append(Bottom(point, self(point)[0], False))
        if free_offset:
            bare = self._bottoms({**held, "offset": 0.0}, near)
            least = min((end for end in bare if end.minimum), key=_misfit, default=None)
            if not bottoms and least and self(least.point)[1][-1] < 0:  # an E above 0 is better, if only just
                end = self._bottom(least.point, held)
                bottoms = [end] if end and end.point[-1] > 0 else []
            bottoms += bare
        return bottoms

    def _valleys(self, held: Mapping[str, float]) -> list[Reals]:
        """Find the lowest points of a grid of exponents, and of finer grids around them."""
        if len(self.design) == 1 and (not self.floored or held.get("offset") == 0):
            return [self._line(held)]
        edges = np.arcsinh(np.array(self.limits) / self.gentle)
        axes = []
        for place in self.exponents:
            if (name := self.names[place]) in held:
                axes.append(np.arcsinh(np.array([held[name]]) / self.gentle))
            else:
                axis = np.linspace(edges[0], edges[1], _GRID[len(self.exponents)])
                axes.append(axis[axis > 0] if (self.form, name) == (KAPLAN, "beta") else axis)
        places = _product(axes)
        misfits, points, _ = self._projected(places, held)
        shape = [len(axis) for axis in axes]
        low = np.flatnonzero(
            (misfits < np.inf) & (misfits == minimum_filter(misfits.reshape(shape), 3, mode="nearest").ravel())
        )
        low = low[np.argsort(misfits[low], kind="stable")][:_VALLEYS]
        if not len(low):
            return []
        # The grid's ends are steps between two sizes: laws of their own, as any steeper exponent gives them too.
        steps = (
            points[[0, -1]][misfits[[0, -1]] < np.inf] if self.form == OFFSET and "alpha" not in held else points[:0]
        )
        places, row = places[low], np.arange(len(low))
        step = np.array([axis[1] - axis[0] if len(axis) > 1 else 0.0 for axis in axes])
        around = _product([np.linspace(-1, 1, 5) if width else np.zeros(1) for width in step])
        for _ in range(_ZOOMS[len(axes)]):
            tried = places[:, None] + step * around
            misfits, points, above = self._projected(tried.reshape(-1, len(axes)), held)
            misfits = misfits.reshape(len(places), -1)
            best = misfits.argmin(axis=1)
            places, points = tried[row, best], points.reshape(len(places), len(around), -1)[row, best]
            step = step / 4
        # Where E would be below 0 next to the valley, it is 0 in the valley, or nearly: that is the law without E.
        near_lowest = above.reshape(len(places), -1).all(axis=1) & (misfits.min(axis=1) <= _RIVAL * misfits.min())
        return [*points[near_lowest], *steps]

    def _projected(self, places: Reals, held: Mapping[str, float]) -> tuple[Reals, Reals, npt.NDArray[np.bool_]]:
        """Return the misfit of ln y at exponents gentle·sinh(at), shape (G, 1 or 2), with the amounts that fit best.

        And the points, and whether E is above 0 there. Where a term would be negative the misfit is inf.
        """
        exponents = self.gentle * np.sinh(places)
        power = np.ones((len(places), 1))
        if self.form == KAPLAN:  # there is none of b = 0
            power = np.where(exponents[:, 1:] >= _LEAST, exponents[:, 1:], np.nan)
        logs = [-exponent[:, None] / power * x for exponent, x in zip(exponents.T, (self.x, self.z), strict=False)]
        peaks = [log.max(axis=1) for log in logs]  # a column is 1 at its largest, and does not overflow
        columns = [np.exp(log - peak[:, None]) for log, peak in zip(logs, peaks, strict=True)]
        if fitted := self.floored and "offset" not in held:
            columns.append(np.ones_like(columns[0]))
        if self.form == KAPLAN:
            target, fixed = self.y ** (1 / power), 0.0
        else:
            target, fixed = self.y + 0 * power, held.get("offset", 0.0)
        amounts, misfits, positive = _amounts(np.stack(columns, axis=-1), target, fixed)
        terms = power * (np.log(amounts[:, : len(peaks)]) - np.stack(peaks, axis=-1))
        points = np.stack([terms, exponents], axis=-1).reshape(len(places), -1)
        if self.floored:
            offset = amounts[:, -1] if fitted else np.full(len(places), held["offset"])
            points = np.column_stack([points, offset])
        allowed = positive.all(axis=1) & np.isfinite(misfits)
        return np.where(allowed, misfits * power[:, 0] ** 2, np.inf), points, positive[:, -1] | (not fitted)

    def _line(self, held: Mapping[str, float]) -> Reals:
        """Fit the regression of ln y: the law of one term, or the start of a search for another."""
        point = np.array([held.get(name, 0.0) for name in self.names])
        design = self.design[0]
        free = [place for place in range(design.shape[1]) if self.names[place] not in held]
        rest = self.logs - design @ point[: design.shape[1]]
        point[free] = np.linalg.lstsq(design[:, free], rest, rcond=None)[0]
        return point

    def _bottom(self, start: Reals, held: Mapping[str, float], *, inside: bool = False) -> Bottom | None:
        """Search downhill from a point; None where nothing is found, or `inside` would leave E ≥ 0."""
        if self.form == OFFSET and "alpha" not in held and self._bound(1, start[1]):
            held = {**held, "alpha": self.limits[int(start[1] > 0)]}
        point = np.array([held.get(name, value) for name, value in zip(self.names, start, strict=True)])
        free = [place for place, name in enumerate(self.names) if name not in held]

        def filled(part: Reals) -> Reals:
            full = point.copy()
            full[free] = part
            return full

        def function(part: Reals) -> tuple[float, Reals, Reals]:
            full = filled(part)
            if inside and full[-1] <= 0:
                raise _BelowError
            value, gradient, hessian = self(full)
            return value, gradient[free], hessian[free][:, free]

        far = [place for place in self.exponents if place in free]
        try:
            positive = [free.index(3)] if self.form == KAPLAN and 3 in far else []
            end = filled(minimum(function, point[free], positive, steps=_STEPS))
            if all(self.limits[0] < end[place] < self.limits[1] for place in far):
                return Bottom(end, self(end)[0], True)
        except _BelowError:
            return None
        except FitError:
            pass
        return None if self.form == OFFSET else self._limit(filled, point, free)

    def _limit(self, filled: Callable[[Reals], Reals], point: Reals, free: list[int]) -> Bottom | None:
        """Estimate what the misfit of ln y approaches where it falls for ever, by a search that gives up."""
        with suppress(ValueError):
            result = least_squares(
                lambda part: self.log_values(filled(part)) - self.logs,
                point[free],
                lambda part: self.slopes(filled(part))[:, free],
                method="lm",
                x_scale="jac",
            )
            end = filled(result.x)
            if not self.floored or end[-1] >= 0:
                return Bottom(end, self(end)[0], False)
        return None


def _misfit(end: Bottom) -> float:
    return end.misfit if np.isfinite(end.misfit) else np.inf


def _product(axes: Sequence[Reals]) -> Reals:
    """Return every combination of the axes' values, shape (G, axes)."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)


def _limits(x: Reals) -> tuple[float, float]:
    """Return exponents at which S^(−α) has vanished at all sizes but one end's: steeper ones give the same law."""
    distinct = np.unique(x)
    return -_GONE / float(distinct[-1] - distinct[-2]), _GONE / float(distinct[1] - distinct[0])


def _amounts(columns: Reals, y: Reals, fixed: float) -> tuple[Reals, Reals, npt.NDArray[np.bool_]]:
    """Fit each column's amount, on top of `fixed`, to y by least squares of ln y; return residuals, and which are > 0.

    columns: shape (G, n, m); y: (G, n). By Gauss and Newton's steps from y itself; an amount below 0 is raised to
    _LEAST of y.
    """
    amounts = np.zeros((len(y), columns.shape[2]))
    fitted, lowest = y, _LEAST * np.exp(np.log(y).mean(axis=1, keepdims=True))
    for _ in range(_ROUNDS):
        relative = columns / fitted[..., None]
        target = 1 + np.log(y / fitted) - fixed / fitted
        squares = relative.swapaxes(1, 2) @ relative
        ridge = 1e-12 * np.trace(squares, axis1=1, axis2=2) + 1e-300  # where two columns are one
        squares += ridge[:, None, None] * np.eye(columns.shape[2])
        amounts = np.asarray(
            np.linalg.solve(squares, relative.swapaxes(1, 2) @ target[..., None])[..., 0], dtype=np.float64
        )
        positive = amounts > 0
        amounts = np.asarray(np.where(positive, amounts, lowest), dtype=np.float64)
        fitted = (columns @ amounts[..., None])[..., 0] + fixed
    return amounts, np.asarray(np.sum(np.log(y / fitted) ** 2, axis=1) / 2), positive
