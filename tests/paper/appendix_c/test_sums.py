"""The exact sums against brute force, and what is left along each path against the exact sums."""

import mpmath as mp
import numpy as np
import pytest

from rbp.core.errors import ParameterError
from rbp.paper.appendix_c import numbers, paths


@pytest.mark.parametrize(("m", "sd"), [(-30.0, 2.0), (-3.0, 1.0), (0.5, 0.7), (2.0, 0.9)])
def test_exact_sums_are_the_sums(m: float, sd: float) -> None:
    ranks = np.arange(1, 400_000.0)  # at these points nothing is left beyond
    logs = np.log(ranks)
    weight = np.exp(-(1 - m / sd**2) * logs - logs**2 / (2 * sd**2))
    found = numbers.exact_sums(m, sd)
    for got, expected in zip(
        (found.z, found.z1, found.z2), (weight.sum(), weight @ logs, weight @ logs**2), strict=True
    ):
        assert float(got) == pytest.approx(expected, rel=1e-9)
    p = weight / weight.sum()
    assert float(found.neg_log_p1) == pytest.approx(-np.log(p[0]), rel=1e-9)
    assert float(found.entropy) == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), rel=1e-8)


def test_the_tail_does_not_depend_on_where_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    first = numbers.exact_sums(1.19, 3.69)
    monkeypatch.setattr(numbers, "HEAD", 700)
    second = numbers.exact_sums(1.19, 3.69)
    assert numbers.mp.almosteq(first.z, second.z, rel_eps=1e-30)
    assert numbers.mp.almosteq(first.z2, second.z2, rel_eps=1e-30)


def test_large_sigma_is_the_zeta_distribution() -> None:
    found = numbers.exact_sums(-1.5 * 1000**2, 1000)
    assert float(found.neg_log_p1) == pytest.approx(float(mp.log(mp.zeta(2.5))), rel=1e-5)


def test_approximation_is_the_papers_formula() -> None:
    m, sd = -3.4886, 4.4288
    phi, mass = mp.npdf(m / sd), mp.ncdf(m / sd)
    c = phi / sd / 2 + mass
    fraction = (mass * ((sd**2 - m**2) / (2 * sd**2) + m) + phi * (sd - m / (2 * sd))) / c
    found = numbers.approximate_sums(m, sd)
    assert float(found.log_c) == pytest.approx(float(mp.log(c)), rel=1e-12)
    assert float(found.fraction) == pytest.approx(float(fraction), rel=1e-12)


def test_approximated_p1_exceeds_1() -> None:
    assert numbers.approximate_sums(-3 * 5**2, 5).neg_log_p1 < 0 < numbers.exact_sums(-3 * 5**2, 5).neg_log_p1


@pytest.mark.parametrize("field", ["neg_log_p1", "entropy"])
def test_remainder_at_fixed_sigma(field: str) -> None:
    remains = paths.fixed_sigma()
    for lam, allowed in ((12.0, 0.2), (24.0, 0.01)):  # the next term explains the distance, better and better
        lead, following = (paths.value(getattr(remains, name), lam, 3.0) for name in (field, f"{field}_next"))
        left = float(getattr(numbers.exact_sums(-lam * 9, 3), field)) - lead
        assert left == pytest.approx(following, rel=allowed)


@pytest.mark.parametrize("field", ["neg_log_p1", "entropy"])
@pytest.mark.parametrize("lam", [0.6, 1.7])
def test_remainder_at_fixed_lambda(field: str, lam: float) -> None:
    remains = paths.fixed_lambda()
    lead, following = (paths.value(getattr(remains, name), lam, 200.0) for name in (field, f"{field}_next"))
    left = float(getattr(numbers.exact_sums(-lam * 200**2, 200), field)) - lead
    assert left == pytest.approx(following, rel=0.01)


def test_no_zeta_below_its_pole() -> None:
    with pytest.raises(ParameterError, match="λ"):
        paths.value(paths.fixed_lambda().entropy, -0.1)
