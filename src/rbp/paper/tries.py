"""Lists of k and tries of k: the paper's RBP_k beside pass@k, and what a mixture of easy and hard tokens says of both.

A list of k holds the k likeliest tokens; k tries are k tokens drawn from the prediction. If a try hits a token with
probability q, k tries miss it with (1 − q)^k, and their share over all tokens is the mean of that over the distribution
of q. With a Beta distribution of q, Beta(a, b), it is the product of (b + i)/(a + b + i) over i < k: two numbers for
all k.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq

from rbp.core.arrays import Reals
from rbp.core.errors import DataError, FitError
from rbp.ranks.metric import TieRule, rank
from rbp.ranks.store import RankStore
from rbp.stats.cells import fit_table
from rbp.stats.power_law import fit_power_law

LIST, TRIES = "list of k", "k tries"
CELL = ["dataset", "family"]


@dataclass(frozen=True)
class BetaMixture:
    """The chance of a hit in one try varies between tokens as Beta(a, b)."""

    a: float
    b: float

    def log_missed(self, k: npt.ArrayLike) -> Reals:
        """ln of the share of tokens that k tries miss; k: whole numbers of at least 1."""
        at = np.asarray(k, dtype=np.int64)
        each = np.log1p(self.a / (self.b + np.arange(at.max())))
        return np.asarray(-np.cumsum(each)[at - 1], dtype=np.float64)

    def neg_log(self, k: npt.ArrayLike) -> Reals:
        """−ln of the share of tokens that k tries hit, shape of k."""
        return np.asarray(-np.log(-np.expm1(self.log_missed(k))), dtype=np.float64)


def fit_mixture(first: float, later: float, k: int) -> BetaMixture:
    """The mixture with −ln of the share hit equal to `first` at k = 1 and to `later` at another `k`.

    Raises FitError where there is none: `later` must lie above what k tries would give if all tokens were equally hard,
    and below `first`.
    """
    missed, target = -np.expm1(-first), np.log(-np.expm1(-later))

    def mixture(log_a: float) -> BetaMixture:
        return BetaMixture(np.exp(log_a), np.exp(log_a) * missed / (1 - missed))

    def away(log_a: float) -> float:
        return float(mixture(log_a).log_missed(k) - target)

    ends = -25.0, 25.0
    if not away(ends[0]) > 0 > away(ends[1]):
        what = f"no mixture of easy and hard tokens has {first:g} at k = 1 and {later:g} at k = {k}"
        raise FitError(what, "value", "Values must fall with k, and more slowly than at equal difficulty.")
    return mixture(float(brentq(away, *ends, xtol=1e-14, rtol=1e-14)))


def of_tokens(stores: Iterable[RankStore], ks: Sequence[int], rule: TieRule = "paper") -> pd.DataFrame:
    """−ln of the share of tokens hit by a list of k and by k tries, of each store: exact, by the tokens' own
    probabilities.

    Columns way (LIST, TRIES), dataset, family, model, size, k, value. Raises DataError where a k exceeds a vocabulary.
    """
    rows = []
    for store in stores:
        if max(ks) > store.vocabulary:
            what = f"k = {max(ks)} exceeds the vocabulary of {store.vocabulary}"
            raise DataError(what, str(store.folder), "Give smaller thresholds.")
        tokens = store.ranks()
        ranks = rank(tokens["greater"], tokens["equal"], rule)
        with np.errstate(divide="ignore"):  # a token that is sure to be drawn
            log_miss = np.log(-np.expm1(-tokens["nll"].to_numpy(np.float64)))
        about = (store.dataset, store.family, store.model, store.size)
        for k in ks:
            hit = {LIST: float((ranks <= k).mean()), TRIES: float(-np.expm1(k * log_miss).mean())}
            rows += [(way, *about, k, -np.log(share)) for way, share in hit.items()]
    return pd.DataFrame(rows, columns=["way", *CELL, "model", "size", "k", "value"])


def foretold(points: pd.DataFrame, fitted: int, ks: Sequence[int]) -> pd.DataFrame:
    """Each model's −ln share at `ks` by the mixture that it has at k = 1 and at `fitted`: `points` with `foretold`.

    points: dataset, family, model, size, k, value (rows of −ln RBP_k, or of `of_tokens`). Models without both
    thresholds, or without a mixture, are left out. Raises DataError where none is left.
    """
    parts = []
    for _, own in points.groupby([*CELL, "model"]):
        at = own.set_index("k")["value"]
        if not {1, fitted} <= set(at.index):
            continue
        try:
            mixture = fit_mixture(float(at[1]), float(at[fitted]), fitted)
        except FitError:
            continue
        there = own[own["k"].isin(ks)]
        if len(there):
            parts.append(there.assign(foretold=mixture.neg_log(there["k"].to_numpy(np.int64))))
    if not parts:
        what = f"no model has points at k = 1, at k = {fitted} and at another"
        raise DataError(what, "measurements", "Give a source with these thresholds.")
    return pd.concat(parts, ignore_index=True)


def change(points: pd.DataFrame, k: int, *, level: float = 0.95) -> pd.DataFrame:
    """By how much the exponent in S at `k` exceeds that at 1: change, low, high, by way, dataset and family.

    points: as of `of_tokens`. Each model is compared with itself. Raises FitError for fewer than three sizes.
    """
    both = points[points["k"] == 1].merge(points[points["k"] == k], on=["way", *CELL, "model", "size"])
    rows = []
    for key, own in both.groupby(["way", *CELL]):
        fit = fit_power_law(own["size"], own["value_y"] / own["value_x"], level=level)
        rows.append((*key, fit.alpha, fit.alpha_low, fit.alpha_high))
    return pd.DataFrame(rows, columns=["way", *CELL, "change", "low", "high"])


def by_k(told: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Exponents in S by way, dataset, family and k of `value`, with their intervals, and `foretold`, that of the
    mixture.

    told: `foretold` with a column `way`.
    """
    by = ["way", *CELL, "k"]
    fits = fit_table(told, by, level=level)
    mixtures = fit_table(told.assign(value=told["foretold"]), by, level=level)
    return fits.assign(foretold=mixtures["alpha"]).dropna(subset="alpha")
