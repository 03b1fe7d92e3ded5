"""Fits of measured ranks by every family, how far each is from the data, and what each says of the two metrics.

`make` and `make_bootstrap` are steps of the workflow (`rbp.steps`): they take too long for a chapter.
"""

import json
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp import measured_ranks
from rbp.errors import FitError
from rbp.measured_ranks import MeasuredRanks
from rbp.rank_distributions import (
    FAMILIES,
    RankCounts,
    RankDistribution,
    RankFit,
    covariance,
    family,
    fit,
    log_likelihood,
)
from rbp.scaling import fit_power_law

Reals = npt.NDArray[np.float64]
SOURCE = "published,ladder"
DIAGNOSTIC = ("log_quadratic",)  # no family of the question: it tells which way the ranks curve
RESAMPLES = 200
DRAWS = 199  # of a parametric bootstrap


def distance(distribution: RankDistribution, counts: RankCounts) -> float:
    """Kolmogorov and Smirnov's distance: the largest gap of the distribution functions, at the bins' ends.

    Of the ranks from the distribution's first on.
    """
    own = counts.since(distribution.first)
    seen = np.cumsum(own.count) / own.total
    return float(np.abs(seen - distribution.cdf(own.high)).max())


def redrawn(ranks: MeasuredRanks, first: int, *, seed: int = 0) -> Reals:
    """Distribution functions of corpora of whole documents drawn anew with replacement, shape (RESAMPLES, bins).

    At the ends of the bins of ranks first … V. Raises DataError where documents are unknown.
    """
    table = ranks.by_document()[:, ranks.counts.low >= first]
    documents = table.shape[0]
    times = np.random.default_rng(seed).multinomial(documents, np.full(documents, 1 / documents), RESAMPLES)
    seen = np.cumsum(times @ table, axis=1)
    return np.asarray(seen / seen[:, -1:], dtype=np.float64)


def distances_by_document(distribution: RankDistribution, counts: RankCounts, corpora: Reals) -> Reals:
    """`distance` to each of the `corpora` (of `redrawn`, for the same first rank); the fit stays."""
    return np.asarray(np.abs(corpora - distribution.cdf(counts.since(distribution.first).high)).max(axis=1))


def fits(measured: Iterable[MeasuredRanks], firsts: Sequence[int] = (1, 2)) -> pd.DataFrame:
    """Every family fitted to every model's ranks, from rank 1 and from rank 2.

    Columns dataset, model, family, size, first, distribution, parameters (as JSON), count (how many parameters),
    log_likelihood, per_token, total, aic, at_limit, distance, distance_low, distance_high (95 per cent, by resampling
    documents; missing where documents are unknown), p1, rbp10 and entropy (missing unless first is 1).
    """
    rows = []
    for own in measured:
        for first in firsts:
            corpora = None if own.store is None else redrawn(own, first)
            rows += [_row(own, name, first, corpora) for name in _families(first)]
    return pd.DataFrame(rows)


def _families(first: int) -> list[str]:
    return [name for name in FAMILIES if first == 1 or not name.startswith("mass_at_1")]


def _row(own: MeasuredRanks, name: str, first: int, corpora: Reals | None) -> dict[str, object]:
    found = fit(family(name), own.counts, first=first)
    it = found.distribution
    row: dict[str, object] = {"dataset": own.dataset, "model": own.model, "family": own.family, "size": own.size}
    row |= {"first": first, "distribution": name, "parameters": json.dumps(it.parameters), "count": len(it.values)}
    row |= {"log_likelihood": found.log_likelihood, "per_token": found.per_token, "total": found.total}
    row |= {"aic": found.aic, "at_limit": found.at_limit, "distance": distance(it, own.counts)}
    low = high = np.nan
    if corpora is not None:
        low, high = np.quantile(distances_by_document(it, own.counts, corpora), [0.025, 0.975])
    row |= {"distance_low": low, "distance_high": high}
    whole = first == 1
    row |= {"p1": float(it.pmf(1)) if whole else np.nan, "rbp10": float(it.cdf(10)) if whole else np.nan}
    return row | {"entropy": it.entropy if whole else np.nan}


def distribution_of(row: pd.Series, vocabulary: int) -> RankDistribution:
    """The fitted distribution of a row of `fits`."""
    return RankDistribution.of(
        family(row["distribution"]), json.loads(row["parameters"]), vocabulary, int(row["first"])
    )


def _found(row: pd.Series, vocabulary: int) -> RankFit:
    """The fit of a row of `fits`."""
    whole = float(row["log_likelihood"]), float(row["total"]), bool(row["at_limit"])
    return RankFit(distribution_of(row, vocabulary), *whole)


def best(table: pd.DataFrame, how_many: int) -> list[str]:
    """The families with the highest log-likelihood per token, over the models of `table` (mean); no diagnostic ones."""
    own = table[~table["distribution"].isin(DIAGNOSTIC)]
    return [str(name) for name in own.groupby("distribution")["per_token"].mean().nlargest(how_many).index]


def bootstrap(own: MeasuredRanks, name: str, *, first: int = 1, draws: int = DRAWS, seed: int = 0) -> Reals:
    """Distances of fits to tokens drawn independently from the fitted distribution: parametric bootstrap, (draws,).

    As many tokens as were measured; each draw is fitted anew, beginning at the fit.
    """
    found = fit(family(name), own.counts, first=first).distribution
    rng = np.random.default_rng(seed)
    total = int(own.counts.since(first).total)
    ranks = np.arange(first, own.counts.vocabulary + 1)
    far = []
    for _ in range(draws):
        drawn = rng.multinomial(total, found.masses / found.masses.sum())
        some = drawn > 0
        counts = RankCounts(ranks[some], ranks[some], drawn[some].astype(np.float64), own.counts.vocabulary)
        again = fit(family(name), counts, first=first, start=found.values)
        far.append(distance(again.distribution, counts))
    return np.array(far)


def make() -> pd.DataFrame:
    """The step `rank_fits`: `fits` of the published histograms and of the ladder's stores."""
    return fits(measured_ranks.load(SOURCE))


def make_bootstrap() -> pd.DataFrame:
    """The step `rank_bootstrap`: three best families, on the ladder's smallest and largest rung on Wikipedia.

    Columns model, size, distribution, first, distance, draws, exceeded (how many draws are at least as far), largest.
    """
    rungs = [own for own in measured_ranks.load("ladder") if own.dataset == "wikipedia"]
    ends = [min(rungs, key=lambda own: own.size), max(rungs, key=lambda own: own.size)]
    three = best(fits(ends, firsts=(1,)), 3)
    rows = []
    for own in ends:
        for name in three:
            seen = distance(fit(family(name), own.counts).distribution, own.counts)
            far = bootstrap(own, name)
            row = {"model": own.model, "size": own.size, "distribution": name, "first": 1, "distance": seen}
            rows.append(row | {"draws": len(far), "exceeded": int((far >= seen).sum()), "largest": float(far.max())})
    return pd.DataFrame(rows)


def lognormal_errors(measured: Iterable[MeasuredRanks], table: pd.DataFrame, *, first: int = 2) -> pd.DataFrame:
    """μ, σ and μ/σ of the discrete lognormal and of the rounded one, with standard errors from the likelihood.

    `table`: the `fits` of what was measured.
    Columns dataset, model, family, size, distribution, mu, sigma, ratio, mu_error, sigma_error, ratio_error,
    correlation (of the errors of μ and σ); errors are missing where the maximum is at a limit. Tokens count as
    independent.
    """
    rows = []
    for own in measured:
        for name in ("lognormal", "lognormal_rounded"):
            here = (table["dataset"] == own.dataset) & (table["model"] == own.model) & (table["first"] == first)
            found = _found(table[here & (table["distribution"] == name)].iloc[0], own.counts.vocabulary)
            mu, sigma = found.distribution.parameters.values()
            row = {"dataset": own.dataset, "model": own.model, "family": own.family, "size": own.size}
            row |= {"distribution": name, "mu": mu, "sigma": sigma, "ratio": mu / sigma, "at_limit": found.at_limit}
            try:
                spread = covariance(found, own.counts)
            except FitError:
                spread = np.full((2, 2), np.nan)
            slope = np.array([1 / sigma, -mu / sigma**2])
            row |= {"mu_error": np.sqrt(spread[0, 0]), "sigma_error": np.sqrt(spread[1, 1])}
            row |= {"ratio_error": np.sqrt(slope @ spread @ slope)}
            rows.append(row | {"correlation": spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1])})
    return pd.DataFrame(rows)


def profile(own: MeasuredRanks, mu: Reals, sigma: Reals, *, first: int = 2) -> pd.DataFrame:
    """Log-likelihood of the discrete lognormal over a grid, less its maximum: mu, sigma, drop (of all tokens, nats)."""
    counts = own.counts.since(first)
    top = fit(family("lognormal"), own.counts, first=first).log_likelihood
    rows = []
    for m in mu:
        for s in sigma:
            at = RankDistribution(family("lognormal"), (float(m), float(s)), counts.vocabulary, first)
            rows.append((m, s, log_likelihood(at, counts) - top))
    return pd.DataFrame(rows, columns=["mu", "sigma", "drop"])


def exponents_of_fits(table: pd.DataFrame, vocabulary: int) -> pd.DataFrame:
    """For each family, the exponents of −ln p₁ and of the entropy if its parameters lie on straight lines in ln S.

    `table`: rows of `fits` with first = 1, of one family of models on one dataset. The free parameters (those in which
    fits are made) of the models are put on lines in ln S, and the metrics computed at the models' sizes from these.
    Columns distribution, alpha_p1, alpha_entropy, p1_off, entropy_off (largest relative distance of the metrics on the
    lines from those of the fits themselves), at_limit (whether any fit is).
    """
    rows = []
    for name, own in table.groupby("distribution"):
        kind, size = family(str(name)), own["size"].to_numpy(float)
        values = [list(json.loads(text).values()) for text in own["parameters"]]
        free = np.array([kind.free(np.array(value)) for value in values])
        x = np.log(size)
        lines = [np.polynomial.Polynomial.fit(x, column, 1) for column in free.T]
        on_line = [kind.named(np.array([line(at) for line in lines])) for at in x]
        there = [RankDistribution(kind, tuple(map(float, value)), vocabulary) for value in on_line]
        p1 = np.array([-float(each.logpmf(1)) for each in there])
        entropy = np.array([each.entropy for each in there])
        rows.append(
            {
                "distribution": name,
                "alpha_p1": fit_power_law(size, p1).alpha,
                "alpha_entropy": fit_power_law(size, entropy).alpha,
                "p1_off": float(np.abs(p1 / -np.log(own["p1"].to_numpy()) - 1).max()),
                "entropy_off": float(np.abs(entropy / own["entropy"].to_numpy() - 1).max()),
                "at_limit": bool(own["at_limit"].any()),
            }
        )
    return pd.DataFrame(rows)
