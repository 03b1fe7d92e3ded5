"""Each equation of appendix C against numbers computed in another way, and against wrong variants of itself."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from rbp.paper.appendix_c import all_checked, approximate, as_table, exact, notation, orders
from rbp.paper.appendix_c.notation import FAILS, FOLLOWS, I1, I2, PART, Equation, P, Z, a, c, k, lam, mu, sigma

POINTS = [tuple(point) for point in np.random.default_rng(6).uniform([-20, 0.4], [4, 7], (4, 2))]

VERDICTS = {
    **dict.fromkeys(["10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "21", "22", "23"], FOLLOWS),
    **dict.fromkeys(["20", "24", "25", "26"], PART),
    **dict.fromkeys(["after 26", "earlier, B.4"], FAILS),
}


def _number(expression: sp.Expr, m: float, sd: float, **names: mp.mpf) -> mp.mpf:
    values = {
        mu: mp.mpf(m),
        sigma: mp.mpf(sd),
        **{sp.Symbol(name, positive=True): value for name, value in names.items()},
    }
    return mp.mpmathify(notation.unfold(expression).subs(values).evalf(30))


def _density(at: mp.mpf, m: float, sd: float) -> mp.mpf:
    return mp.npdf(mp.log(at), m, sd) / at


def test_verdicts_as_derived() -> None:
    assert {one.number: one.verdict for one in all_checked()} == VERDICTS
    table = as_table(all_checked())
    assert set(table["equation"]) == set(VERDICTS)
    assert table["finding"][table["finding"] != ""].str.endswith(".").all()


@pytest.mark.parametrize(("m", "sd"), POINTS)
@pytest.mark.parametrize(("equation", "power"), [(exact.EQ13, 0), (exact.EQ14, 1), (exact.EQ15, 2)])
def test_truncated_moments_are_the_integrals(equation: Equation, power: int, m: float, sd: float) -> None:
    with mp.workdps(30):
        splits = [1, *mp.arange(1, 40, 3), mp.inf]
        quadrature = mp.quad(lambda u: u**power * mp.npdf(u, m, sd), [0, *splits])
        assert mp.almosteq(_number(equation.right, m, sd), quadrature, rel_eps=1e-15, abs_eps=1e-20)


@pytest.mark.parametrize(
    "wrong",
    [
        Equation("13", P, "=", notation.Phi(-mu / sigma)),
        Equation("14", I1, "=", mu * P - sigma * notation.varphi(a)),
        Equation("14", I1, "=", mu * P + notation.varphi(a)),
        Equation("15", I2, "=", (mu**2 - sigma**2) * P + mu * sigma * notation.varphi(a)),
        Equation("15", I2, "=", (mu**2 + sigma**2) * P + sigma * notation.varphi(a)),
        Equation("16", exact.EQ16.left, "=", exact.EQ16.right - mu**2 / sigma**2),
        Equation("17", exact.EQ17.left, "=", exact.EQ17.right - 2 * sp.log(k)),
        Equation(
            "19", approximate.step_18_19().left, "=", approximate.RIGHT19 + mu / (2 * sigma * c) * notation.varphi(a)
        ),
        Equation("21", approximate.RIGHT19, "=", approximate.RIGHT21 + mu / sigma * notation.varphi(a) / c),
    ],
)
def test_wrong_variants_are_rejected(wrong: Equation) -> None:
    assert not wrong.holds()


@pytest.mark.parametrize(
    "right", [equation.right for equation in (exact.EQ13, exact.EQ13B, exact.EQ14, exact.EQ15, exact.EQ16, exact.EQ17)]
)
def test_right_ones_hold(right: sp.Expr) -> None:
    equations = (exact.EQ13, exact.EQ13B, exact.EQ14, exact.EQ15, exact.EQ16, exact.EQ17)
    assert next(equation for equation in equations if equation.right == right).holds()


def test_a_check_of_a_wrong_moment_fails() -> None:
    wrong = Equation("14", I1, "=", mu * P - sigma * notation.varphi(a))
    assert exact.check_moment(wrong, 1).verdict == FAILS


def test_a_wrong_step_fails() -> None:
    step = Equation("19 → 21", approximate.RIGHT19, "=", approximate.RIGHT21 + P / c)
    assert approximate.check_step(approximate.EQ21, step, "").verdict == FAILS


@pytest.mark.parametrize(("m", "sd"), POINTS)
def test_equations_18_to_21_agree_in_numbers(m: float, sd: float) -> None:
    with mp.workdps(40):
        level = _density(mp.mpf(1), m, sd) / 2 + mp.ncdf(m / sd)
        values = []
        for right in (approximate.RIGHT18, approximate.RIGHT19, approximate.RIGHT21):
            values.append(_number(right, m, sd, c=level))
        assert mp.almosteq(values[0], values[1], rel_eps=1e-10)
        assert mp.almosteq(values[0], values[2], rel_eps=1e-10)


def test_entropy_of_a_finite_lognormal_is_equation_17() -> None:
    ranks, (m, sd) = np.arange(1, 4001.0), (-1.3, 2.1)
    weight = np.array([float(_density(mp.mpf(r), m, sd)) for r in ranks])
    total, logs = weight.sum(), np.log(ranks)
    p = weight / total
    numbers = {mu: m, sigma: sd, c: total, exact._S1: weight @ logs, exact._S2: weight @ logs**2}
    assert float(exact.entropy_of_sums().subs(numbers)) == pytest.approx(-(p * np.log(p)).sum(), rel=1e-12)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_boundary_terms_are_derivatives_at_1(power: int, order: int) -> None:
    m, sd = -7.3, 3.1
    with mp.workdps(40):
        ratio = lambda u: _density(u, m, sd) / _density(mp.mpf(1), m, sd) * mp.log(u) ** power  # noqa: E731
        if order == 0:
            expected = ratio(mp.mpf(1)) / 2
        else:
            expected = -mp.bernoulli(2 * order) / mp.factorial(2 * order) * mp.diff(ratio, 1, 2 * order - 1)
        got = approximate.boundary(power, order).subs({lam: -m / sd**2, sigma: sd})
        assert float(got) == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


def test_what_is_left_of_equation_16_is_ln_z() -> None:
    assert orders.neg_log_p1() == sp.log(Z)
    assert orders.summand_identity()
    assert orders.falls()


def test_the_gap_of_the_two_metrics_is_equation_26() -> None:
    assert sp.simplify(orders.gap() - approximate.FRACTION) == 0
    m, sd = -14.29, 5.76
    level = _density(mp.mpf(1), m, sd) / 2 + mp.ncdf(m / sd)
    got = orders.fraction_of_mills().subs({Z: level / _density(mp.mpf(1), m, sd), lam: -m / sd**2, sigma: sd})
    assert float(got) == pytest.approx(float(_number(approximate.FRACTION, m, sd, c=level)), rel=1e-10)


def test_a_term_that_does_dominate_is_not_called_dominated() -> None:
    # −ln p₁ would be dominated by ln Z itself
    assert orders.check_dominant(sp.log(c) + mu**2 / (2 * sigma**2) + sp.log(sigma), "x", "", "").verdict == FOLLOWS


def test_limits_of_24_to_26_are_approached() -> None:
    from rbp.paper.appendix_c.numbers import approximate_sums as approximated
    from rbp.paper.appendix_c.numbers import exact_sums as summed

    def over_phi(m: float, sd: float) -> float:
        return float(mp.exp(summed(m, sd).log_c) / mp.npdf(mp.mpf(m) / sd))

    assert over_phi(-2000, 3) == pytest.approx(1 / 3, rel=1e-6)  # (a): 1/σ, not 0
    assert over_phi(-0.5 * 400**2, 400) < 0.01  # (b)
    at = approximated(-0.5 * 400**2, 400)
    assert float(at.fraction) == pytest.approx(2 * 1.5 / (0.5 * 2.5), rel=1e-3)
    assert float(-at.log_c / at.square) == pytest.approx(1, abs=0.01)
    assert float(at.neg_log_p1 / at.log_c) == pytest.approx(0, abs=1e-3)


def test_tex_comes_from_the_checked_expression() -> None:
    assert r"\mu" in exact.EQ14.tex
    changed = Equation("14", I1, "=", exact.EQ14.right + 1)
    assert changed.tex != exact.EQ14.tex


def test_roots_are_written_as_one_writes_them() -> None:
    x, sigma = sp.symbols("x sigma", positive=True)
    for expression, tex in {
        sp.sqrt(2) * sp.sqrt(sp.pi) * sigma: r"\sqrt{2\pi} \sigma",
        1 / (sp.sqrt(2 * sp.pi) * x): r"\frac{1}{\sqrt{2\pi} x}",
        sp.erf(x / sp.sqrt(2)): r"\operatorname{erf}{\left(\frac{x}{\sqrt{2}} \right)}",
        sp.sqrt(2) * x: r"\sqrt{2} x",
        -sp.sqrt(2) * x / 4: r"- \frac{x}{2 \sqrt{2}}",
    }.items():
        assert notation.latex(expression) == tex
        back = notation.as_written(expression).xreplace(
            {notation.ROOT_2PI: sp.sqrt(2 * sp.pi), notation.ROOT_2: sp.sqrt(2)}
        )
        assert sp.simplify(back - expression) == 0
