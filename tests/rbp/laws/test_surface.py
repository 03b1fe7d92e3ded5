"""Laws of S and D: recovered, and against scipy and statsmodels."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import differential_evolution, least_squares
from scipy.stats import f as f_distribution

from rbp.errors import DataError, FitError, ParameterError
from rbp.laws.misfit import ADDITIVE, COLUMNS, FORMS, KAPLAN, NAMES, OFFSET, POWER, PRODUCT, STEEPEST, SUM
from rbp.laws.surface import fit_surface, missed_elsewhere, profile

SIZES = np.geomspace(5e6, 7e9, 8)
RATIOS = 20 * 2.0 ** np.arange(-2, 6)


def grid(sizes: np.ndarray = SIZES) -> pd.DataFrame:
    """Runs at each size over tokens per parameter, as OpenLM's."""
    size, ratio = (each.ravel() for each in np.meshgrid(sizes, RATIOS, indexing="ij"))
    return pd.DataFrame({"size": size, "training_tokens": size * ratio})


def additive(table: pd.DataFrame, offset: float = 0.3, alpha: float = 0.35, beta: float = 0.6) -> np.ndarray:
    x, z = np.log(table["size"] / 1e8), np.log(table["training_tokens"] / 5e9)
    return (offset + 0.8 * np.exp(-alpha * x) + 0.4 * np.exp(-beta * z)).to_numpy()


def product(table: pd.DataFrame, alpha: float = 0.2, beta: float = 0.15) -> np.ndarray:
    x, z = np.log(table["size"] / 1e8), np.log(table["training_tokens"] / 5e9)
    return (1.5 * np.exp(-alpha * x - beta * z)).to_numpy()


def kaplan(table: pd.DataFrame, alpha: float = 0.3, beta: float = 0.4) -> np.ndarray:
    x, z = np.log(table["size"] / 1e8), np.log(table["training_tokens"] / 5e9)
    return ((0.9 * np.exp(-alpha * x)) ** (1 / beta) + (0.7 * np.exp(-beta * z)) ** (1 / beta)).to_numpy() ** beta


LAWS = {
    POWER: lambda table: product(table, beta=0.0),
    OFFSET: lambda table: 0.3 + product(table, beta=0.0),
    PRODUCT: product,
    SUM: lambda table: additive(table, offset=0.0),
    ADDITIVE: additive,
    KAPLAN: kaplan,
}
TRUE = {  # a, b and E of each
    POWER: (0.2, 0, 0),
    OFFSET: (0.2, 0, 0.3),
    PRODUCT: (0.2, 0.15, 0),
    SUM: (0.35, 0.6, 0),
    ADDITIVE: (0.35, 0.6, 0.3),
    KAPLAN: (0.3, 0.4, 0),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_perfect_law_is_recovered(form: str) -> None:
    table = grid()
    y = LAWS[form](table)
    fit = fit_surface(table.assign(value=y), form)
    assert (fit.alpha, fit.beta, fit.offset) == pytest.approx(TRUE[form], rel=1e-7, abs=1e-12)
    assert fit.predict(table["size"], table["training_tokens"]) == pytest.approx(y, rel=1e-7)
    assert fit.explained == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_the_profile_of_a_product_is_the_interval_of_linear_regression(name: str) -> None:
    table, noise = grid(), np.random.default_rng(3).normal(size=64)
    table = table.assign(value=product(table) * np.exp(0.05 * noise))
    design = sm.add_constant(-np.log(table[["size", "training_tokens"]]).set_axis(["alpha", "beta"], axis=1))
    theirs = sm.OLS(np.log(table["value"]), design).fit()
    best, *ends = profile(table, PRODUCT, name, level=0.9)
    assert getattr(best, name) == pytest.approx(theirs.params[name])
    assert ends == pytest.approx(theirs.conf_int(alpha=0.1).loc[name].tolist())


@pytest.mark.parametrize(
    ("form", "name"), [(ADDITIVE, "offset"), (ADDITIVE, "alpha"), (SUM, "beta"), (KAPLAN, "alpha"), (KAPLAN, "beta")]
)
def test_a_profile_ends_where_the_deviance_with_the_parameter_held_is_just_small_enough(form: str, name: str) -> None:
    table = grid()
    noise = np.random.default_rng(3).normal(size=len(table))
    table = table.assign(value=LAWS[form](table) * np.exp(0.01 * noise))
    best, low, high = profile(table, form, name, level=0.9)
    assert 0 < low < getattr(best, name) < high < 5
    df = len(table) - len(NAMES[form])
    cut = best.deviance * (1 + f_distribution.ppf(0.9, 1, df) / df)
    x, z = (np.log(table[each] / np.exp(np.log(table[each]).mean())).to_numpy() for each in table.columns[:2])
    starts = {"size_term": best.size_term, "alpha": best.alpha, "token_term": best.token_term, "beta": best.beta}
    free = [each for each in (*starts, *(["offset"] if form == ADDITIVE else [])) if each != name]
    for end in (low, high):

        def residuals(p: np.ndarray, end: float = end) -> np.ndarray:
            of = dict(zip(free, p, strict=True)) | {name: end}
            by_size, by_tokens = of["size_term"] * np.exp(-of["alpha"] * x), of["token_term"] * np.exp(-of["beta"] * z)
            power = of["beta"] if form == KAPLAN else 1
            both = (by_size ** (1 / power) + by_tokens ** (1 / power)) ** power
            return np.log(of.get("offset", 0) + both) - np.log(table["value"].to_numpy())

        start = [(starts | {"offset": 0.1})[each] for each in free]
        assert 2 * by_scipy(residuals, (0, np.inf), start).cost == pytest.approx(cut, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_the_profile_of_the_floor_is_that_of_sums_above_each_by_scipy(seed: int) -> None:
    table = grid()[::2]
    table = table.assign(value=additive(table) * np.exp(0.03 * np.random.default_rng(seed).normal(size=len(table))))
    best, low, high = profile(table, ADDITIVE, "offset")
    cut = best.deviance * (1 + f_distribution.ppf(0.95, 1, len(table) - 5) / (len(table) - 5))
    assert 0 <= low < best.offset < high < table["value"].min()
    x, z = (np.log(table[name] / np.exp(np.log(table[name]).mean())).to_numpy() for name in table.columns[:2])
    log_y = np.log(table["value"].to_numpy())
    for end in (low, high) if low else (high,):

        def residuals(p: np.ndarray, end: float = end) -> np.ndarray:
            return np.log(end + np.exp(p[0] - p[1] * x) + np.exp(p[2] - p[3] * z)) - log_y

        starts = [[a, 0.4, b, 0.6] for a in (-3, 0) for b in (-3, 0)]
        ends = [by_scipy(residuals, ([-30, 0, -30, 0], [9, 9, 9, 9]), start).cost for start in starts]
        assert 2 * min(ends) == pytest.approx(cut, rel=1e-5)


def test_a_profile_goes_no_further_than_the_steepest_where_the_values_do_not_tell() -> None:
    # three near sizes and a scatter of 5 per cent tell little of a, and yet the fit is found on any processor
    table = pd.DataFrame({"size": np.repeat([1e6, 1.5e6, 2e6], 3), "training_tokens": np.tile([1e8, 4e8, 1.6e9], 3)})
    noise = 0.05 * np.random.default_rng(0).normal(size=9)
    table["value"] = (0.5 * (table["size"] / 1e6) ** -3.0 + 0.5 * (table["training_tokens"] / 1e8) ** -0.5) * np.exp(
        noise
    )
    best, low, high = profile(table, SUM, "alpha", level=0.999)
    assert low < best.alpha < high == STEEPEST
    with pytest.raises(ParameterError, match="no parameter 'offset'"):
        profile(table, SUM, "offset")


@pytest.mark.slow
def test_the_interval_of_the_floor_covers_as_often_as_it_says() -> None:
    table, rng = grid()[::2], np.random.default_rng(5)
    y = additive(table)
    held = 0
    for _ in range(60):
        _, low, high = profile(
            table.assign(value=y * np.exp(0.01 * rng.normal(size=len(y)))), ADDITIVE, "offset", level=0.8
        )
        held += low <= 0.3 <= high
    assert 39 <= held <= 57  # 0.8 of 60 is 48, with a standard deviation of 3.1


@pytest.mark.parametrize("offset", [0.3, 0.0])
def test_least_squares_agree_with_scipy(offset: float) -> None:
    table = grid()
    y = additive(table, offset=offset) * np.exp(0.03 * np.random.default_rng(3).normal(size=len(table)))
    fit = fit_surface(table.assign(value=y))
    x, z = (np.log(table[name] / np.exp(np.log(table[name]).mean())).to_numpy() for name in table)

    def residuals(p: np.ndarray) -> np.ndarray:
        return np.log(p[4] + np.exp(p[0] - p[1] * x) + np.exp(p[2] - p[3] * z)) - np.log(y)

    theirs = by_scipy(residuals, ([-9, 0, -9, 0, 0], [9, 3, 9, 3, 9]), [0, 0.5, -1, 0.5, 0.1])
    assert fit.deviance == pytest.approx(2 * theirs.cost, rel=1e-6)
    assert (fit.alpha, fit.beta, fit.offset) == pytest.approx(theirs.x[[1, 3, 4]], rel=1e-3, abs=2e-3)


def by_scipy(residuals, bounds, start):
    return least_squares(residuals, start, bounds=bounds, xtol=1e-15, ftol=1e-15, gtol=1e-15)


def test_kaplans_form_agrees_with_scipy() -> None:
    table = grid()
    y = kaplan(table) * np.exp(0.03 * np.random.default_rng(6).normal(size=len(table)))
    fit = fit_surface(table.assign(value=y), KAPLAN)
    x, z = (np.log(table[name] / np.exp(np.log(table[name]).mean())).to_numpy() for name in table)

    def residuals(p: np.ndarray) -> np.ndarray:
        terms = np.exp((p[0] - p[1] * x) / p[3]) + np.exp((p[2] - p[3] * z) / p[3])
        return p[3] * np.log(terms) - np.log(y)

    theirs = by_scipy(residuals, ([-9, 0, -9, 0.01], [9, 3, 9, 3]), [0, 0.5, -1, 0.5])
    assert fit.deviance == pytest.approx(2 * theirs.cost, rel=1e-8)
    assert (fit.alpha, fit.beta) == pytest.approx(theirs.x[[1, 3]], rel=1e-4)
    assert (np.log(fit.size_term), np.log(fit.token_term)) == pytest.approx(theirs.x[[0, 2]], abs=1e-4)


def test_local_exponents_are_the_slopes_of_the_surface() -> None:
    table = grid()
    for form in FORMS:
        law = fit_surface(table.assign(value=LAWS[form](table)), form)
        for along in (0.0, 0.5, 1.0):
            step = 1e-5
            ends = [law.predict(2e8 * np.exp(s), 4e9 * np.exp(along * s)) for s in (-step, step)]
            slope = -np.log(ends[1] / ends[0]) / (2 * step)
            assert law.exponent(2e8, 4e9, along) == pytest.approx(slope, rel=1e-8)
    law = fit_surface(table.assign(value=additive(table)))
    assert law.exponent(1e8, np.inf) == pytest.approx(0.35 * 0.8 / 1.1)


def test_units_that_were_left_out_are_foretold_by_the_true_form() -> None:
    table = grid()
    noise = np.exp(0.01 * np.random.default_rng(1).normal(size=len(table)))
    for true in (ADDITIVE, PRODUCT):
        own = table.assign(value=LAWS[true](table) * noise)
        held = {form: 1 - missed_elsewhere(own, "size", form).sum() for form in (ADDITIVE, PRODUCT)}
        assert held[true] > 0.97
        if true == ADDITIVE:  # the other way round, a sum has the room to imitate a product
            assert held[PRODUCT] < held[true] - 0.05


def test_the_order_of_rows_and_units_of_measure_change_nothing() -> None:
    table = grid()
    table["value"] = additive(table) * np.exp(0.02 * np.random.default_rng(4).normal(size=len(table)))
    fit = fit_surface(table)
    shuffled = fit_surface(table.sample(frac=1, random_state=1))
    scaled = fit_surface(table.assign(size=table["size"] / 1e6, training_tokens=table["training_tokens"] / 1e9))
    for other in (shuffled, scaled):
        assert (other.alpha, other.beta, other.offset) == pytest.approx((fit.alpha, fit.beta, fit.offset), rel=1e-10)


def test_what_cannot_be_fitted_says_why() -> None:
    table = grid().assign(value=lambda t: additive(t))
    with pytest.raises(ParameterError, match="no form"):
        fit_surface(table, "other")
    with pytest.raises(DataError, match="no column training_tokens"):
        fit_surface(table.drop(columns="training_tokens"))
    with pytest.raises(FitError, match="too few"):
        fit_surface(table[table["size"] < 2e7])


@pytest.mark.parametrize(("form", "parameters"), [(PRODUCT, 3), (SUM, 4), (ADDITIVE, 5), (KAPLAN, 4)])
def test_a_law_needs_more_points_than_parameters(form: str, parameters: int) -> None:
    table = grid().assign(value=lambda t: additive(t)).iloc[[0, 8, 16, 3, 11, 5][: parameters + 1]]
    with pytest.raises(FitError, match=f"{parameters} points with 3 different sizes or token counts are too few"):
        fit_surface(table.iloc[:parameters], form)
    fit_surface(table, form)


def test_a_floor_below_nothing_is_none() -> None:
    table = grid()
    for floor, bare in ((ADDITIVE, SUM), (OFFSET, POWER)):
        y = LAWS[bare](table)
        below = table.assign(value=y - 0.02 * y.min())  # as if E lay below 0
        raised, plain = (fit_surface(below, form) for form in (floor, bare))
        assert raised.offset == 0
        assert (raised.alpha, raised.beta, raised.deviance) == pytest.approx((plain.alpha, plain.beta, plain.deviance))


@pytest.mark.parametrize("form", [OFFSET, SUM, KAPLAN])
@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_the_lowest_minimum(form: str, seed: int) -> None:
    """Values that no form made, on a small grid with much noise, against a search that starts everywhere."""
    rng = np.random.default_rng(seed)
    table = grid(SIZES[::2])[::2]
    table = table.assign(value=np.exp(0.3 * rng.normal(size=len(table))) * product(table, alpha=0.1, beta=0.3))
    x, z = (np.log(table[name] / np.exp(np.log(table[name]).mean())).to_numpy() for name in COLUMNS[:2])
    log_y = np.log(table["value"].to_numpy())

    def left(p: np.ndarray) -> float:
        with np.errstate(all="ignore"):
            second = 0 * x if form == OFFSET else -p[1] * z
            power = p[1] if form == KAPLAN else 1.0
            shape = power * np.logaddexp(-p[0] * x / power, (p[2] + second) / power)
        away = log_y - shape
        found = float(np.sum((away - away.mean()) ** 2))
        return found if np.isfinite(found) else 1e9

    bounds = [(-STEEPEST, STEEPEST), (0.01 if form == KAPLAN else -STEEPEST, STEEPEST), (-15, 15)]
    searched = differential_evolution(left, bounds, seed=seed, tol=1e-12, maxiter=600)
    assert fit_surface(table, form).deviance == pytest.approx(searched.fun, rel=1e-6)


def test_a_sum_is_not_taken_for_its_mirror() -> None:
    """Either term of a sum may be the steep one; both are minima, and once the higher one came out."""
    table = grid()
    for steep, flat in ((0.45, 0.03), (0.03, 0.45)):
        noise = np.exp(0.02 * np.random.default_rng(1).normal(size=len(table)))
        fit = fit_surface(table.assign(value=additive(table, 0.0, steep, flat) * noise), SUM)
        assert (fit.alpha > fit.beta) == (steep > flat)


def test_last_bits_move_no_optimum() -> None:
    table, rng = grid()[::3], np.random.default_rng(7)
    value = additive(table) * np.exp(0.05 * rng.normal(size=len(table)))
    for form in FORMS:
        fits = [
            fit_surface(table.assign(value=value * (1 + 1e-15 * rng.choice([-1, 1], len(table)))), form)
            for _ in range(20)
        ]
        numbers = np.array([(fit.alpha, fit.beta, fit.offset) for fit in fits])
        np.testing.assert_allclose(numbers, numbers[:1].repeat(20, axis=0), rtol=1e-9, atol=1e-12)
