"""Fits of measured ranks by every family, how far each is from the data, and what each says of the two metrics."""

import json
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from rbp.book.steps import step
from rbp.core.arrays import Reals
from rbp.evidence import Source, histograms, open_source
from rbp.evidence.histograms import MeasuredRanks
from rbp.stats.power_law import fit_power_law
from rbp.stats.rank_counts import RankCounts
from rbp.stats.rank_families import FAMILIES, family
from rbp.stats.rank_fits import MARGIN, RankDistribution, RankFit, covariance, fit, log_likelihood

SOURCE = ("published", "ladder")
DIAGNOSTIC = ("log_quadratic",)  # no family of the question: it tells which way the ranks curve
DRAWS = 199  # of a parametric bootstrap


def main_group(measured: Iterable[MeasuredRanks]) -> list[MeasuredRanks]:
    """The family of the largest model, on its dataset, by size: it stands for all where one must."""
    by_size = sorted(measured, key=lambda own: own.size)
    largest = max(by_size, key=lambda own: own.size)
    return [own for own in by_size if (own.family, own.dataset) == (largest.family, largest.dataset)]


def smallest_and_largest(measured: Iterable[MeasuredRanks]) -> list[MeasuredRanks]:
    """The ends of each family on the dataset of the `main_group`, the family of the largest model first."""
    largest_first = sorted(measured, key=lambda own: -own.size)
    groups: dict[str, list[MeasuredRanks]] = {}
    for own in largest_first:
        if own.dataset == largest_first[0].dataset:
            groups.setdefault(own.family, []).insert(0, own)
    return [own for group in groups.values() for own in group[:: max(1, len(group) - 1)]]


def distance(distribution: RankDistribution, counts: RankCounts) -> float:
    """Kolmogorov and Smirnov's distance: the largest gap of the distribution functions, at the bins' ends.

    Of the ranks from the distribution's first on.
    """
    own = counts.since(distribution.first)
    seen = np.cumsum(own.count) / own.total
    return float(np.abs(seen - distribution.cdf(own.high)).max())


def fits(measured: Iterable[MeasuredRanks], firsts: Sequence[int] = (1, 2)) -> pd.DataFrame:
    """Every family fitted to every model's ranks, from rank 1 and from rank 2.

    Columns dataset, model, family, size, vocabulary, first, distribution, count (how many parameters it has), found
    (the distribution that was found: its limit where at_limit), parameters (of that, as JSON), log_likelihood,
    per_token, total, aic, at_limit, rounding (of the parameters at most, relative), distance, p1, rbp10 and entropy
    (missing unless first is 1).
    """
    rows = []
    for own in measured:
        for first in firsts:
            rows += [_row(own, name, first) for name in _families(first)]
    return pd.DataFrame(rows)


def _families(first: int) -> list[str]:
    return [name for name in FAMILIES if first == 1 or not name.startswith("mass_at_1")]


def _row(own: MeasuredRanks, name: str, first: int) -> dict[str, object]:
    found = fit(family(name), own.counts, first=first)
    it = found.distribution
    row: dict[str, object] = {"dataset": own.dataset, "model": own.model, "family": own.family, "size": own.size}
    row |= {"vocabulary": own.counts.vocabulary, "first": first}
    row |= {"distribution": name, "count": len(found.family.parameters)}
    row |= {"found": it.family.name, "parameters": json.dumps(it.parameters)}
    row |= {"log_likelihood": found.log_likelihood, "per_token": found.per_token, "total": found.total}
    row |= {"aic": found.aic, "at_limit": found.at_limit, "rounding": found.rounding}
    row |= {"distance": distance(it, own.counts)}
    whole = first == 1
    row |= {"p1": float(it.pmf(1)) if whole else np.nan, "rbp10": float(it.cdf(10)) if whole else np.nan}
    return row | {"entropy": it.entropy if whole else np.nan}


def distribution_of(row: pd.Series) -> RankDistribution:
    """The fitted distribution of a row of `fits`."""
    parameters = json.loads(row["parameters"])
    return RankDistribution.of(family(row["found"]), parameters, int(row["vocabulary"]), int(row["first"]))


def fit_label(row: pd.Series) -> str:
    """How a figure calls the distribution of a row of `fits`: the family, where it begins, and its limit."""
    notes = ["from 2"] if row["first"] == 2 else []
    notes += [f"at its limit: {family(row['found']).label}"] if row["at_limit"] else []
    return FAMILIES[row["distribution"]].label + (f" ({', '.join(notes)})" if notes else "")


def row_of(table: pd.DataFrame, own: MeasuredRanks, distribution: str, first: int = 1) -> pd.Series:
    """The row of `fits` of one model and one family."""
    here = (table["dataset"] == own.dataset) & (table["model"] == own.model) & (table["first"] == first)
    return table[here & (table["distribution"] == distribution)].iloc[0]


def of_family(table: pd.DataFrame, group: Sequence[MeasuredRanks], first: int) -> pd.DataFrame:
    """The rows of `fits` of a group of models on one dataset, of the ranks from `first` on."""
    here = (table["dataset"] == group[0].dataset) & (table["family"] == group[0].family)
    return table[here & (table["first"] == first)]


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without the families that only diagnose."""
    return table[~table["distribution"].isin(DIAGNOSTIC)]


def _found(row: pd.Series) -> RankFit:
    """The fit of a row of `fits`."""
    numbers = (float(row[name]) for name in ("log_likelihood", "total", "rounding"))
    return RankFit(family(row["distribution"]), distribution_of(row), *numbers)


def _means(table: pd.DataFrame) -> pd.Series:
    """Log-likelihood per token of each family, over the models of `table` (mean), largest first; no diagnostic ones."""
    return plain(table).groupby("distribution")["per_token"].mean().sort_values(ascending=False, kind="stable")


def best(table: pd.DataFrame, how_many: int) -> list[str]:
    """The families with the highest log-likelihood per token, over the models of `table` (mean); no diagnostic ones."""
    return [str(name) for name in _means(table).index[:how_many]]


def better(table: pd.DataFrame, name: str) -> list[str]:
    """The families likelier than `name` by more than what rounding can do (`MARGIN`), the likeliest first."""
    mean = _means(table)
    return [str(other) for other in mean.index if mean[other] > mean[name] + MARGIN]


def level_with(table: pd.DataFrame, name: str) -> list[str]:
    """The other families that are as likely as `name`: which of them is likelier is undecided, within `MARGIN`."""
    mean = _means(table)
    return [str(other) for other in mean.index if other != name and abs(mean[other] - mean[name]) <= MARGIN]


_ORDINALS = ("the best", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def place(table: pd.DataFrame, name: str) -> str:
    """Where a family stands by its likelihood: "third of 7 families", and with which it is level."""
    level = " and ".join(FAMILIES[other].label for other in level_with(table, name))
    order = f"{_ORDINALS[len(better(table, name))]} of {len(_means(table))} families"
    return order + (f", level with the {level}" if level else "")


def spread(table: pd.DataFrame) -> float:
    """How far families of two parameters lie apart at most, in nats per token; without the negative binomial."""
    two = plain(table[(table["count"] == 2) & (table["distribution"] != "negative_binomial")])
    return float(two.groupby("model")["per_token"].agg(np.ptp).max())


def curvatures(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `fits` of the log-quadratic family with their curvature tau: a lognormal's 1/σ², of any sign."""
    rows = table[table["distribution"] == "log_quadratic"]
    return rows.assign(tau=[json.loads(text)["tau"] for text in rows["parameters"]])


def bootstrap(own: MeasuredRanks, name: str, *, draws: int = DRAWS) -> Reals:
    """Distances of fits to tokens drawn independently from the fitted distribution: parametric bootstrap, (draws,).

    As many tokens as were measured; each draw is fitted anew, beginning at the fit.
    """
    fitted = fit(family(name), own.counts)
    found = fitted.distribution
    start = None if fitted.at_limit else found.parameters
    rng = np.random.default_rng(0)
    total = int(own.counts.total)
    ranks = np.arange(1, own.counts.vocabulary + 1)
    far = []
    for _ in range(draws):
        drawn = rng.multinomial(total, found.masses / found.masses.sum())
        some = drawn > 0
        counts = RankCounts(ranks[some], ranks[some], drawn[some].astype(np.float64), own.counts.vocabulary)
        again = fit(family(name), counts, start=start)
        far.append(distance(again.distribution, counts))
    return np.array(far)


@step(
    "rank_fits", of=partial(open_source, SOURCE), reads=["data/published", "data/ladder/families-ranks/neox"], seconds=9
)
def fits_of(source: Source) -> pd.DataFrame:
    """`fits` of a source's measured ranks."""
    return fits(source.histograms)


@step("rank_bootstrap", reads=["data/ladder/families-ranks/neox"], seconds=6)
def bootstrapped() -> pd.DataFrame:
    """How far the three best families lie, and draws from them, on the ladder's smallest and largest rung on Wikipedia.

    Columns model, size, distribution, first, distance, draws, exceeded (how many draws are at least as far), largest.
    """
    rungs = [own for own in open_source("ladder").histograms if own.dataset == "wikipedia"]
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
    Columns dataset, model, family, size, vocabulary, distribution, at_limit, mu, sigma, ratio, mu_error, sigma_error,
    ratio_error, correlation (of the errors of μ and σ); all from mu on are missing where the maximum is at the limit,
    which has no μ and no σ. Tokens count as independent.
    """
    rows = []
    for own in measured:
        for name in ("lognormal", "lognormal_rounded"):
            found = _found(row_of(table, own, name, first))
            row = {"dataset": own.dataset, "model": own.model, "family": own.family, "size": own.size}
            row |= {"vocabulary": own.counts.vocabulary, "distribution": name, "at_limit": found.at_limit}
            mu = sigma = np.nan
            spread = np.full((2, 2), np.nan)
            if not found.at_limit:
                mu, sigma = found.distribution.parameters.values()
                spread = covariance(found, own.counts)
            slope = np.array([1 / sigma, -mu / sigma**2])
            row |= {"mu": mu, "sigma": sigma, "ratio": mu / sigma}
            row |= {"mu_error": np.sqrt(spread[0, 0]), "sigma_error": np.sqrt(spread[1, 1])}
            row |= {"ratio_error": np.sqrt(slope @ spread @ slope)}
            rows.append(row | {"correlation": spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1])})
    return pd.DataFrame(rows)


def lines_of_ratio(errors: pd.DataFrame) -> pd.DataFrame:
    """Is μ/σ a line in ln S? For each version of the lognormal in one family's `lognormal_errors`.

    Columns distribution, ratio_slope (per unit of ln S), ratio_r_squared_lnS. Versions with fewer
    than three models, or a fit at its limit, are left out.
    """
    rows = []
    for name, own in errors.groupby("distribution"):
        if len(own) > 2 and not own["at_limit"].any():
            log_size = np.log(own["size"])
            r_squared = np.corrcoef(log_size, own["ratio"])[0, 1] ** 2
            rows.append((name, np.polyfit(log_size, own["ratio"], 1)[0], r_squared))
    return pd.DataFrame(rows, columns=["distribution", "ratio_slope", "ratio_r_squared_lnS"])


def profile(own: MeasuredRanks, at: pd.Series, *, reach: float = 6.0, points: int = 34) -> pd.DataFrame:
    """The discrete lognormal's log-likelihood of ranks from 2 over a square grid of μ and σ, less its maximum.

    `at` is the model's row of `lognormal_errors`: the grid reaches so many standard errors to each side. Columns mu,
    sigma, drop (of all tokens, nats), per_thousand (tokens).
    """
    counts = own.counts.since(2)
    top = fit(family("lognormal"), own.counts, first=2).log_likelihood
    ranges = ((at[name], reach * at[f"{name}_error"]) for name in ("mu", "sigma"))
    mu, sigma = (np.linspace(middle - by, middle + by, points) for middle, by in ranges)
    rows = []
    for m in mu:
        for s in sigma:
            there = RankDistribution(family("lognormal"), (float(m), float(s)), counts.vocabulary, 2)
            rows.append((m, s, log_likelihood(there, counts) - top))
    grid = pd.DataFrame(rows, columns=["mu", "sigma", "drop"])
    return grid.assign(per_thousand=1000 * grid["drop"] / counts.total)


def measured_exponents(measured: Iterable[MeasuredRanks], *, level: float = 0.95) -> pd.DataFrame:
    """Exponents of −ln RBP_1, of the entropy of ranks and of cross-entropy, for each family on each dataset.

    Columns family, dataset, and alpha_NAME, alpha_NAME_low, alpha_NAME_high for NAME p1, entropy and ce; no row where
    there are fewer than three models.
    """
    groups: dict[tuple[str, str], list[MeasuredRanks]] = {}
    for own in measured:
        groups.setdefault((own.family, own.dataset), []).append(own)
    rows = []
    for (name, dataset), group in groups.items():
        if len(group) < 3:
            continue
        sizes = [own.size for own in group]
        values = {
            "p1": [own.neg_log_rbp1 for own in group],
            "entropy": [histograms.entropy(own.counts)[0] for own in group],
            "ce": [np.nan if own.cross_entropy is None else own.cross_entropy for own in group],
        }
        row: dict[str, object] = {"family": name, "dataset": dataset}
        for metric, each in values.items():
            law = fit_power_law(sizes, each, level=level)
            row |= {f"alpha_{metric}": law.alpha}
            row |= {f"alpha_{metric}_low": law.alpha_low, f"alpha_{metric}_high": law.alpha_high}
        rows.append(row)
    metrics = [f"alpha_{metric}{end}" for metric in ("p1", "entropy", "ce") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=["family", "dataset", *metrics])


def exponents_on_lines(table: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """`exponents_of_fits` for each row of `measured_exponents`, beside what was measured; nearest first.

    `table`: the `fits`. Columns of both; both: whether either exponent lies within the measured interval; far: the
    larger relative distance of the two from the measured ones.
    """
    if measured.empty:
        return measured
    cell = ["family", "dataset"]
    from_1 = plain(table[table["first"] == 1]).merge(measured[cell])
    parts = [exponents_of_fits(own).assign(**own.iloc[0][cell]) for _, own in from_1.groupby(cell)]
    lines = pd.concat(parts).merge(measured, on=cell)
    inside, off = pd.Series(True, lines.index), pd.DataFrame(index=lines.index)
    for metric in ("p1", "entropy"):
        told = lines[f"line_alpha_{metric}"]
        inside &= told.between(lines[f"alpha_{metric}_low"], lines[f"alpha_{metric}_high"])
        off[metric] = (told / lines[f"alpha_{metric}"] - 1).abs()
    return lines.assign(both=inside, far=off.max(axis=1)).sort_values([*cell, "far"], ignore_index=True)


def exponents_of_fits(table: pd.DataFrame) -> pd.DataFrame:
    """For each family, the exponents of −ln p₁ and of the entropy if its parameters lie on straight lines in ln S.

    `table`: rows of `fits` with first = 1, of one family of models on one dataset. The free parameters (of a lognormal
    1 − μ/σ² and ln 1/σ²; else the named ones, by logarithms where they must be above 0) are put on lines in ln S, and
    the metrics computed from these at the models' sizes.

    Columns distribution, at_limit (how many of the fits are), line_alpha_p1, line_alpha_entropy, p1_off, entropy_off
    (largest relative distance of these metrics from those of the fits themselves); missing where any fit is at the
    family's limit, which has no such parameters.
    """
    return pd.DataFrame([_on_lines(str(name), own) for name, own in table.groupby("distribution")])


def _on_lines(name: str, own: pd.DataFrame) -> dict[str, object]:
    row: dict[str, object] = {"distribution": name, "at_limit": int(own["at_limit"].sum())}
    if row["at_limit"]:
        return row | dict.fromkeys(["line_alpha_p1", "line_alpha_entropy", "p1_off", "entropy_off"], np.nan)
    kind, size = family(name), own["size"].to_numpy(float)
    fitted = [distribution_of(each) for _, each in own.iterrows()]
    free = np.array([kind.free(np.array(list(each.parameters.values())), each.first) for each in fitted])
    x = np.log(size)
    lines = [np.polynomial.Polynomial.fit(x, column, 1) for column in free.T]
    there = []
    for at, each in zip(x, fitted, strict=True):
        values = kind.bounded(np.array([line(at) for line in lines]), each.first)
        there.append(RankDistribution(kind, tuple(map(float, values)), each.vocabulary))
    p1 = np.array([-float(each.logpmf(1)) for each in there])
    entropy = np.array([each.entropy for each in there])
    return row | {
        "line_alpha_p1": fit_power_law(size, p1).alpha,
        "line_alpha_entropy": fit_power_law(size, entropy).alpha,
        "p1_off": float(np.abs(p1 / -np.log(own["p1"].to_numpy()) - 1).max()),
        "entropy_off": float(np.abs(entropy / own["entropy"].to_numpy() - 1).max()),
    }
