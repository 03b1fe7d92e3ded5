"""Least squares, ordinary or weighted: coefficients, their errors, and intervals of the line.

statsmodels gives the same. It is not used here, as with scipy.stats it takes longer to import than all that a question
on stores needs besides. For the same reason quantiles come from scipy.special in this room.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from rbp.core.arrays import Reals


@dataclass(frozen=True)
class Linear:
    """y = design @ coefficients + ε, where ε has the variance scale / weight.

    `residuals` (shape (n,)) are those of y. `ssr` is the sum of their squares, each times its weight; `df` is n less
    the number of coefficients. `inverse` is that of XᵀWX, for the design X and the weights W.
    """

    coefficients: Reals
    inverse: Reals
    residuals: Reals
    weights: Reals
    r_squared: float
    ssr: float
    df: int

    @property
    def scale(self) -> float:
        """The variance of ε at weight 1, estimated."""
        return self.ssr / self.df

    @property
    def covariance(self) -> Reals:
        """The covariance of the coefficients."""
        return self.scale * self.inverse

    @property
    def errors(self) -> Reals:
        """The standard error of each coefficient."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def p(self) -> Reals:
        """The two-sided p of each coefficient, by Student's t."""
        return np.asarray(2 * stdtr(self.df, -np.abs(self.coefficients / self.errors)))

    def intervals(self, level: float) -> Reals:
        """The interval of each coefficient (shape (coefficients, 2)), by Student's t."""
        return _around(self.coefficients, self.errors, self.df, level)

    def at(self, design: Reals, level: float, noise: float = 0.0) -> tuple[Reals, Reals]:
        """The line at the rows of a design, and its interval (shape (rows, 2)).

        `noise`: the variance of a new measurement about the line, for its prediction interval.
        """
        variance = np.einsum("ij,jk,ik->i", design, self.covariance, design)
        line = design @ self.coefficients
        return line, _around(line, np.sqrt(variance + noise), self.df, level)


def ols(design: Reals, y: npt.ArrayLike, weights: npt.ArrayLike = 1.0) -> Linear:
    """Fit y (shape (n,)) to a design (shape (n, columns)) that has a constant in it, each point by its weight."""
    value = np.asarray(y, dtype=np.float64)
    weight = np.broadcast_to(np.asarray(weights, dtype=np.float64), value.shape)
    root = np.sqrt(weight)
    solver = np.linalg.pinv(root[:, None] * design)
    coefficients = solver @ (root * value)
    residuals = value - design @ coefficients
    ssr, total = (float(weight @ off**2) for off in (residuals, value - np.average(value, weights=weight)))
    df = value.size - coefficients.size
    return Linear(coefficients, solver @ solver.T, residuals, weight, 1 - ssr / total, ssr, df)


def _around(middle: Reals, errors: Reals, df: int, level: float) -> Reals:
    half = stdtrit(df, (1 + level) / 2) * errors
    return np.column_stack([middle - half, middle + half])
