"""Laws of S and D: recovered, and against scipy and statsmodels."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import differential_evolution, least_squares
from scipy.stats import f as f_distribution

from rbp.errors import FitError
from rbp.laws.misfit import ADDITIVE, FORMS, KAPLAN, NAMES, OFFSET, POWER, PRODUCT, STEEPEST, SUM
from rbp.laws.surface import fit_surface, profile

SIZES = np.geomspace(5e6, 7e9, 8)
RATIOS = 20 * 2.0 ** np.arange(-2, 6)
TRUE = {  # of each form, ln of the amounts at S = 1e8 and D = 5e9, the exponents, and E
    POWER: {"size_term": np.log(1.5), "alpha": 0.2},
    OFFSET: {"size_term": np.log(1.5), "alpha": 0.2, "offset": 0.3},
    PRODUCT: {"size_term": np.log(1.5), "alpha": 0.2, "beta": 0.15},
    SUM: {"size_term": np.log(0.8), "alpha": 0.35, "token_term": np.log(0.4), "beta": 0.6},
    ADDITIVE: {"size_term": np.log(0.8), "alpha": 0.35, "token_term": np.log(0.4), "beta": 0.6, "offset": 0.3},
    KAPLAN: {"size_term": np.log(0.9), "alpha": 0.3, "token_term": np.log(0.7), "beta": 0.4},
}


def curve(form, of, x, z):
    """y of a form by its definition; x, z: ln S and ln D."""
    first = np.exp(of["size_term"] - of["alpha"] * x)
    if form in (POWER, OFFSET, PRODUCT):
        return of.get("offset", 0) + first * np.exp(-of.get("beta", 0) * z)
    power = of["beta"] if form == KAPLAN else 1
    second = np.exp(of["token_term"] - of["beta"] * z)
    return of.get("offset", 0) + (first ** (1 / power) + second ** (1 / power)) ** power


def runs(form, noise=0.0, seed=3, sizes=SIZES, **changed):
    """Runs at each size over tokens per parameter, whose values are of the form."""
    size, ratio = (each.ravel() for each in np.meshgrid(sizes, RATIOS, indexing="ij"))
    y = curve(form, TRUE[form] | changed, np.log(size / 1e8), np.log(size * ratio / 5e9))
    y = y * np.exp(noise * np.random.default_rng(seed).normal(size=len(y)))
    return pd.DataFrame({"size": size, "training_tokens": size * ratio, "value": y})


def centred(table):
    return [(np.log(table[name]) - np.log(table[name]).mean()).to_numpy() for name in ("size", "training_tokens")]


def by_scipy(table, form, start, held=None):
    """The least deviance and its parameters, from `start`, with some held."""
    x, z, held = *centred(table), held or {}
    free = [name for name in NAMES[form] if name not in held]
    least = [0 if name == "offset" else 0.01 if (form, name) == (KAPLAN, "beta") else -30 for name in free]

    def away(point):
        of = dict(zip(free, point, strict=True)) | held
        return np.log(curve(form, of, x, z)) - np.log(table["value"].to_numpy())

    begin = [start[name] for name in free]
    found = least_squares(away, begin, bounds=(least, np.inf), xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return 2 * found.cost, dict(zip(free, found.x, strict=True))


def parameters(fit):
    return fit.alpha, fit.beta, fit.offset


@pytest.mark.parametrize("form", FORMS)
def test_a_perfect_law_is_recovered_with_its_local_exponents(form):
    table = runs(form)
    law = fit_surface(table, form)
    true = [TRUE[form].get(name, 0) for name in ("alpha", "beta", "offset")]
    assert parameters(law) == pytest.approx(true, rel=1e-7, abs=1e-12)
    assert law.predict(table["size"], table["training_tokens"]) == pytest.approx(table["value"].to_numpy(), rel=1e-7)
    ends = [law.predict(2e8 * np.exp(step), 4e9 * np.exp(0.5 * step)) for step in (-1e-5, 1e-5)]
    assert law.exponent(2e8, 4e9, 0.5) == pytest.approx(-np.log(ends[1] / ends[0]) / 2e-5, rel=1e-8)


@pytest.mark.parametrize(
    ("form", "name", "noise"),
    [(ADDITIVE, "offset", 0.03), (SUM, "beta", 0.01), (KAPLAN, "beta", 0.01), (OFFSET, "alpha", 0.03)],
)
def test_a_profile_ends_where_the_deviance_with_the_parameter_held_is_just_small_enough(form, name, noise):
    table = runs(form, noise)
    best, low, high = profile(table, form, name, level=0.9)
    assert 0 <= low < getattr(best, name) < high < 5
    df = len(table) - len(NAMES[form])
    cut = best.deviance * (1 + f_distribution.ppf(0.9, 1, df) / df)
    start = {"alpha": best.alpha, "beta": best.beta, "offset": 0.1}
    start |= {"size_term": np.log(best.size_term), "token_term": np.log(best.token_term or 1)}
    deviance, theirs = by_scipy(table, form, start)
    assert best.deviance == pytest.approx(deviance, rel=1e-6)
    assert parameters(best) == pytest.approx([theirs.get(each, 0) for each in ("alpha", "beta", "offset")], abs=2e-3)
    for end in filter(None, (low, high)):
        assert by_scipy(table, form, start, {name: end})[0] == pytest.approx(cut, rel=1e-6)


def test_a_law_needs_more_points_than_parameters():
    table = runs(ADDITIVE).iloc[[0, 8, 16, 3, 11]]
    with pytest.raises(FitError, match="5 points with 3 different sizes or token counts are too few"):
        fit_surface(table, ADDITIVE)


@pytest.mark.parametrize(("form", "seed"), [(SUM, 0), (KAPLAN, 1)])
def test_the_fit_is_the_lowest_minimum(form, seed):
    """Values that no form made, on a small grid with much noise, against a search that starts everywhere."""
    table = runs(PRODUCT, sizes=SIZES[::2], alpha=0.1, beta=0.3)[::2]
    table["value"] *= np.exp(0.3 * np.random.default_rng(seed).normal(size=len(table)))
    x, z = (each[:, None] for each in centred(table))
    log_y = np.log(table["value"].to_numpy())[:, None]

    def left(p):  # of parameters, a column each; the best common factor is a mean
        power = p[1] if form == KAPLAN else 1.0
        with np.errstate(all="ignore"):
            away = log_y - power * np.logaddexp(-p[0] * x / power, (p[2] - p[1] * z) / power)
            return np.nan_to_num(away.var(axis=0) * len(x), nan=1e9, posinf=1e9)

    bounds = [(-STEEPEST, STEEPEST), (0.01 if form == KAPLAN else -STEEPEST, STEEPEST), (-15, 15)]
    searched = differential_evolution(
        left, bounds, seed=seed, tol=1e-12, maxiter=600, vectorized=True, updating="deferred"
    )
    assert fit_surface(table, form).deviance == pytest.approx(searched.fun, rel=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_last_bits_units_and_the_order_of_rows_move_no_optimum(form):
    table, rng = runs(ADDITIVE, 0.05)[::3], np.random.default_rng(7)
    others = [table.assign(size=table["size"] / 1e6, training_tokens=table["training_tokens"] / 1e9)]
    others += [table.sample(frac=1, random_state=1)]
    others += [table.assign(value=table["value"] * (1 + 1e-15 * rng.choice([-1, 1], len(table)))) for _ in range(3)]
    numbers = [parameters(fit_surface(other, form)) for other in (table, *others)]
    np.testing.assert_allclose(numbers, [numbers[0]] * len(numbers), rtol=1e-9, atol=1e-12)
