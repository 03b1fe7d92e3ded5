"""Appendix C: equations against numbers computed in another way and wrong variants, and sums."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.stats import norm

from companion.chapters.appendix.algebra import notation, numbers, statements
from companion.chapters.appendix.algebra.notation import FAILS, I1, I2, Equation, P, Z, a, c, k, lam, mu, sigma
from rbp.measurements.histograms import MeasuredRanks
from rbp.measurements.rank_counts import RankCounts


def exact(m, sd):
    at = np.array([m]), np.array([sd])
    return {name: each.item() for name, each in numbers.parts(*at, numbers.exact_sums(*at)).items()}


@pytest.mark.long
@pytest.mark.parametrize(("equation", "power"), [(statements.EQ13, 0), (statements.EQ14, 1), (statements.EQ15, 2)])
def test_truncated_moments_are_the_integrals(equation, power):
    m, sd = -7.1, 2.7
    with mp.workdps(30):
        splits = [1, *mp.arange(1, 40, 3), mp.inf]
        quadrature = mp.quad(lambda u: u**power * mp.npdf(u, m, sd), [0, *splits])
        value = notation.unfold(equation.right).subs({mu: mp.mpf(m), sigma: mp.mpf(sd)}).evalf(30)
        assert mp.almosteq(mp.mpmathify(value), quadrature, rel_eps=1e-15, abs_eps=1e-20)


@pytest.mark.parametrize(
    "wrong",
    [
        Equation("13", P, "=", notation.Phi(-mu / sigma)),
        Equation("14", I1, "=", mu * P - sigma * notation.varphi(a)),
        Equation("15", I2, "=", (mu**2 - sigma**2) * P + mu * sigma * notation.varphi(a)),
        Equation("16", statements.EQ16.left, "=", statements.EQ16.right - mu**2 / sigma**2),
        Equation("17", statements.EQ17.left, "=", statements.EQ17.right - 2 * sp.log(k)),
        Equation("19", statements.STEP_19.left, "=", statements.RIGHT19 + mu / (2 * sigma * c) * notation.varphi(a)),
        Equation("21", statements.RIGHT19, "=", statements.RIGHT21 + mu / sigma * notation.varphi(a) / c),
    ],
)
def test_wrong_variants_are_rejected(wrong):
    assert not wrong.holds()


def test_entropy_of_a_finite_lognormal_is_equation_17():
    ranks, (m, sd) = np.arange(1, 4001.0), (-1.3, 2.1)
    weight = norm.pdf(np.log(ranks), m, sd) / ranks
    total, logs = weight.sum(), np.log(ranks)
    p = weight / total
    numbers = {mu: m, sigma: sd, c: total, statements._S1: weight @ logs, statements._S2: weight @ logs**2}
    assert float(statements.entropy_of_sums().subs(numbers)) == pytest.approx(-(p * np.log(p)).sum(), rel=1e-12)


def test_what_is_left_of_equation_16_is_ln_z():
    assert statements.neg_log_p1() == sp.log(Z)
    assert statements.summand_identity()
    assert statements.falls()


@pytest.mark.parametrize(("m", "sd"), [(-30.0, 2.0), (-3.0, 1.0), (0.5, 0.7), (2.0, 0.9)])
def test_exact_sums_are_the_sums(m, sd):
    logs = np.log(np.arange(1, 400_000.0))  # at these points nothing is left beyond
    weight = np.exp(-(1 - m / sd**2) * logs - logs**2 / (2 * sd**2))
    found = numbers.exact_sums(np.array([m]), np.array([sd]))[:, 0]
    np.testing.assert_allclose(found, [weight.sum(), weight @ logs, weight @ logs**2], rtol=1e-9)
    p = weight / weight.sum()
    assert exact(m, sd)["neg_log_p1"] == pytest.approx(-np.log(p[0]), rel=1e-9)
    assert exact(m, sd)["entropy"] == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), rel=1e-8)


@pytest.mark.parametrize(("m", "sd"), [(1.19, 3.69), (-14.29, 5.76), (4.0, 7.0)])
def test_the_tail_does_not_depend_on_where_it_begins(m, sd, monkeypatch):
    first = numbers.exact_sums(np.array([m]), np.array([sd]))
    monkeypatch.setattr(numbers, "HEAD", 40_000)
    np.testing.assert_allclose(first, numbers.exact_sums(np.array([m]), np.array([sd])), rtol=1e-11)


def _value(expression, at_lambda, at_sigma):
    zeta = {f"zeta_{n}": (-1) ** n * mp.zeta(1 + at_lambda, derivative=n) for n in range(5)}
    values = {sp.Symbol(name, positive=True): each for name, each in zeta.items()}
    return float(expression.subs({**values, lam: at_lambda, sigma: at_sigma}))


def test_what_is_left_at_fixed_sigma():
    series = statements.on_fixed_sigma()
    lead, following, entropy = series.values()
    for at, allowed in ((12.0, 0.2), (24.0, 0.01)):  # the next term explains the distance, better and better
        found = exact(-at * 9, 3)
        assert found["neg_log_p1"] - _value(lead, at, 3) == pytest.approx(_value(following, at, 3), rel=allowed)
        assert found["entropy"] == pytest.approx(_value(entropy, at, 3), rel=allowed / 5)


def test_one_sorted_distribution_and_calibration_make_the_entropy_of_ranks_the_cross_entropy():
    rng = np.random.default_rng(2)
    q = np.sort(rng.dirichlet(np.full(40, 0.3)))[::-1]  # the sorted probabilities, the same at every token
    rank = rng.choice(40, 50_000, p=q) + 1
    one = MeasuredRanks("x", "m", "F", 1, RankCounts.of_ranks(rank, 40), float(-np.log(q[rank - 1]).mean()))
    assert numbers.entropies([one])["share"].item() == pytest.approx(1, abs=0.01)


def test_checks_of_a_wrong_moment_and_of_a_wrong_step_fail():
    wrong = Equation("14", I1, "=", mu * P - sigma * notation.varphi(a))
    assert statements.check_moment(wrong, 1).verdict == FAILS
    step = Equation("19 → 21", statements.RIGHT19, "=", statements.RIGHT21 + P / c)
    assert statements.check_step(statements.EQ21, step, "").verdict == FAILS
