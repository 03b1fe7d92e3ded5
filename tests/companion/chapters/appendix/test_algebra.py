"""Appendix C: equations against numbers computed in another way, wrong variants of them, and sums."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from companion.chapters.appendix.algebra import notation, numbers, statements
from companion.chapters.appendix.algebra.notation import FAILS, I1, I2, Equation, P, a, c, k, mu, sigma


@pytest.mark.long
@pytest.mark.parametrize(("equation", "power"), [(statements.EQ13, 0), (statements.EQ14, 1), (statements.EQ15, 2)])
def test_truncated_moments_are_the_integrals(equation, power):
    m, sd = -7.1, 2.7
    with mp.workdps(30):
        splits = [1, *mp.arange(1, 40, 3), mp.inf]
        quadrature = mp.quad(lambda u: u**power * mp.npdf(u, m, sd), [0, *splits])
        value = notation.unfold(equation.right).subs({mu: mp.mpf(m), sigma: mp.mpf(sd)}).evalf(30)
        assert mp.almosteq(mp.mpmathify(value), quadrature, rel_eps=1e-15, abs_eps=1e-20)


WRONG = [
    Equation("13", P, "=", notation.Phi(-mu / sigma)),
    Equation("14", I1, "=", mu * P - sigma * notation.varphi(a)),
    Equation("15", I2, "=", (mu**2 - sigma**2) * P + mu * sigma * notation.varphi(a)),
    Equation("16", statements.EQ16.left, "=", statements.EQ16.right - mu**2 / sigma**2),
    Equation("17", statements.EQ17.left, "=", statements.EQ17.right - 2 * sp.log(k)),
    Equation("19", statements.STEP_19.left, "=", statements.RIGHT19 + mu / (2 * sigma * c) * notation.varphi(a)),
    Equation("21", statements.RIGHT19, "=", statements.RIGHT21 + mu / sigma * notation.varphi(a) / c),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.number)
def test_wrong_variants_are_rejected(wrong):
    assert not wrong.holds()
    if wrong.number == "14":
        assert statements.check_moment(wrong, 1).verdict == FAILS


@pytest.mark.parametrize(("m", "sd"), [(-30.0, 2.0), (-3.0, 1.0), (0.5, 0.7), (2.0, 0.9)])
def test_exact_sums_are_the_sums(m, sd):
    logs = np.log(np.arange(1, 400_000.0))  # at these points nothing is left beyond
    weight = np.exp(-(1 - m / sd**2) * logs - logs**2 / (2 * sd**2))
    at = np.array([m]), np.array([sd])
    sums = numbers.exact_sums(*at)
    np.testing.assert_allclose(sums[:, 0], [weight.sum(), weight @ logs, weight @ logs**2], rtol=1e-9)
    p = weight / weight.sum()
    parts = numbers.parts(*at, sums)
    assert parts["neg_log_p1"].item() == pytest.approx(-np.log(p[0]), rel=1e-9)
    assert parts["entropy"].item() == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), rel=1e-8)


def test_the_tail_does_not_depend_on_where_it_begins(monkeypatch):
    at = np.array([1.19, -14.29, 4.0]), np.array([3.69, 5.76, 7.0])
    first = numbers.exact_sums(*at)
    monkeypatch.setattr(numbers, "HEAD", 40_000)
    np.testing.assert_allclose(first, numbers.exact_sums(*at), rtol=1e-11)
