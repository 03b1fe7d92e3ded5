"""Can a change of missed tokens between models be noise? What the margins alone say, where all read the same tokens."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from rbp.counting.clustering import design_effect
from rbp.errors import DataError


@dataclass(frozen=True)
class Bound:
    """The least that a trend in missed tokens can deviate from none, whatever tokens the models share.

    change: the contrast Σ w·misses; sd: the largest standard deviation that it can have for independent tokens under
    these margins; z = change/sd, the smallest deviation; p: its two-sided probability, an upper bound; needed: the
    design effect at which z would fall to the threshold of `level`, so a lower bound on the clustering that explains
    the change away.
    """

    change: float
    sd: float
    z: float
    p: float
    needed: float
    level: float


def trend_bound(misses: npt.ArrayLike, weights: npt.ArrayLike, *, level: float = 0.95) -> Bound:
    """Bound the test of a trend in the missed tokens of several models on the same tokens, from the totals alone.

    misses: shape (m,), how many tokens each model misses; weights: shape (m,), the contrast, with sum 0. For two
    models and weights (−1, 1) this is McNemar's test with as few shared misses as can be: z² = (b − c)²/(b + c), where
    b + c is at most the sum of the misses. For more models, the variance Σ over tokens of (Σ w·miss)² is largest
    where models of one sign miss the same tokens as far as they can, and models of opposite sign share none: then
    it is the sum of w_i·w_j·min(misses_i, misses_j) over the pairs of one sign. Raises DataError for weights that do
    not sum to 0, or negative misses.
    """
    count, weight = np.asarray(misses, dtype=float), np.asarray(weights, dtype=float)
    if count.shape != weight.shape or abs(weight.sum()) > 1e-9 * np.abs(weight).sum() or (count < 0).any():
        raise DataError("a trend needs one weight for each model, and their sum must be 0", "weights", "Check them.")
    same = np.sign(weight)[:, None] == np.sign(weight)[None, :]
    shared = np.minimum(count[:, None], count[None, :])
    variance = float((same * np.outer(weight, weight) * shared).sum())
    change, sd = float(weight @ count), float(np.sqrt(variance))
    z = change / sd if sd else 0.0
    return Bound(change, sd, z, float(2 * norm.sf(abs(z))), (z / norm.ppf((1 + level) / 2)) ** 2, level)


def log_size_weights(size: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The contrast of a straight line in ln S: its deviations from their mean, scaled to a spread of 1 end to end."""
    x = np.log(np.asarray(size, dtype=float))
    return np.asarray((x - x.mean()) / np.ptp(x), dtype=np.float64)


@dataclass(frozen=True)
class Discordance:
    """McNemar's test of two models on the same tokens: `first_only` and `second_only` count the tokens that one alone
    misses; z takes tokens as independent, z_documents divides it by the root of the design effect."""

    first_only: int
    second_only: int
    both: int
    z: float
    design_effect: float
    z_documents: float


def discordance(first: npt.ArrayLike, second: npt.ArrayLike, documents: npt.ArrayLike) -> Discordance:
    """Compare two models' misses, shape (T,) of booleans each, on the same tokens of `documents`, shape (T,)."""
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    b, c = int((one & ~other).sum()), int((other & ~one).sum())
    effect = design_effect(other.astype(float) - one, documents)
    z = (c - b) / np.sqrt(b + c) if b + c else 0.0
    return Discordance(b, c, int((one & other).sum()), float(z), effect, float(z / np.sqrt(effect)))
