"""Paths at equal cross-entropy: against paths whose offsets are known, and temperatures against a fine grid."""

import numpy as np
import pytest

from rbp.damage.equal_loss import as_least, best_temperature, curve, offset_table, offsets, spread, spread_interval
from rbp.laws.resampling import interval, without_each

KS = (1, 10, 100)
TOKENS = np.array([3000.0, 5000, 2000, 4000, 3500, 2500])


def made(path, entropies, factor, draw=0, wobble=0.0, seed=0):
    """A path on which −ln RBP_k is factor_k · 0.1 · CE^1.5, exactly where wobble is 0; its documents differ."""
    rng = np.random.default_rng(seed)
    ce = np.asarray(entropies)
    share = np.exp(-np.outer(ce**1.5, 0.1 * np.asarray(factor)))  # (n, K)
    easier = 1 + wobble * rng.normal(size=(len(TOKENS), 1))
    nll = TOKENS[:, None] * ce * easier
    hits = TOKENS[:, None, None] * share * (1 + wobble * rng.normal(size=(len(TOKENS), 1, 1)))
    left = without_each(nll) / without_each(TOKENS)[:, None]
    return curve(path, draw, [f"{each:g}" for each in ce], TOKENS, hits, nll, left)


def test_known_offsets_come_back():
    smaller = made("parameters", [3, 3.5, 4, 4.5], [1, 0.5, 0.2])
    other = made("bits", [3, 3.0, 3.2, 5.0], [1.1, 0.5, 0.16])
    found = offsets([smaller, other], "parameters", "4")
    table = offset_table(found, KS).set_index(["path", "k"])["offset"]
    # the line in logarithms is the power law itself: interpolation is exact
    assert table["bits"].tolist() == pytest.approx([10, 0, -20], abs=1e-9)
    assert table["parameters"].tolist() == [0, 0, 0]
    deviation = spread(found)
    assert deviation[0] == pytest.approx(np.abs(np.log([1.1, 1, 0.8])) / 2)
    assert as_least(deviation)[0] == 1


def test_the_first_pair_of_steps_that_enclose_the_level_decides_and_one_that_does_not_reach_it_is_left_out():
    smaller = made("parameters", [3, 4], [1, 1, 1])
    there_and_back = made("depth", [3, 5, 3.5, 6], [1, 1, 1])
    short = made("bits", [3, 3.9], [1, 1, 1])
    found = offsets([smaller, there_and_back, short], "parameters", "4")
    assert set(found) == {"parameters", "depth"}
    assert there_and_back.at(np.full(7, np.log(2.9))) is None
    level = np.full(7, np.log(4.0))
    share = (np.log(4) - np.log(3)) / (np.log(5) - np.log(3))
    y = there_and_back.y
    assert there_and_back.at(level) == pytest.approx(y[:, 0] + share * (y[:, 1] - y[:, 0]))
    # without one document the level is another, which other steps would enclose: those of the whole text decide
    level[-1] = np.log(3.4)
    share = (level - np.log(3)) / (np.log(5) - np.log(3))
    assert there_and_back.at(level) == pytest.approx(y[:, 0] + share[:, None] * (y[:, 1] - y[:, 0]))
    level[-1] = np.log(2)
    assert there_and_back.at(level) is not None
    with pytest.raises(KeyError):
        offsets([smaller], "parameters", "5")


def test_intervals_are_paired_by_document_and_draws_are_averaged():
    """Without a document, the level and both paths are computed anew, which brute force does too."""
    smaller = made("parameters", [3, 4], [1, 0.5, 0.2], wobble=0.05, seed=1)
    draws = [made("weights", [3, 4.4], [1.2, 0.5, 0.2], draw=d, wobble=0.05, seed=2 + d) for d in range(3)]
    table = offset_table(offsets([smaller, *draws], "parameters", "4"), KS, level=0.9)
    row = table[(table["path"] == "weights") & (table["k"] == 1)].iloc[0]

    def statistic(d):
        level, there = smaller.x[d, 1], smaller.y[d, 1, 0]
        return np.mean([np.interp(level, one.x[d], one.y[d, :, 0]) - there for one in draws])

    every = [statistic(d) for d in range(len(TOKENS) + 1)]
    expected = 100 * np.expm1(interval(np.array(every), level=0.9))
    assert [row["offset"], row["low"], row["high"]] == pytest.approx(list(expected))
    assert row["apart"] == (row["low"] > 0 or row["high"] < 0)
    assert row["draws"] > 0


@pytest.mark.parametrize("scale", [0.3, 0.8, 1.7, 3.0])
def test_the_best_temperature_is_that_of_a_fine_grid(scale):
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(400, 50)) * 2
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = np.array([rng.choice(50, p=each) for each in p])
    logits = logits * scale  # so that about 1/scale⁻¹ is best

    def total(beta):
        z = logits * beta
        top = z.max(1)
        return (np.log(np.exp(z - top[:, None]).sum(1)) + top - z[np.arange(400), target]).sum()

    def slope(beta):
        w = np.exp(logits * beta - (logits * beta).max(1, keepdims=True))
        return ((w * logits).sum(1) / w.sum(1) - logits[np.arange(400), target]).sum()

    temperatures = np.array([0.5, 0.7071, 1.0, 1.4142, 2.0, 2.8284, 4.0])
    nll, slopes = ([f(1 / t) for t in temperatures] for f in (total, slope))
    best, least = best_temperature(nll, slopes, temperatures)
    fine = np.exp(np.linspace(np.log(0.5), np.log(4), 4001))
    by_grid = np.array([total(1 / t) for t in fine])
    assert least / 400 == pytest.approx(by_grid.min() / 400, abs=2e-4)
    if 0.5 < fine[by_grid.argmin()] < 4:
        assert best == pytest.approx(fine[by_grid.argmin()], rel=0.02)
    else:
        assert best in (0.5, 4.0)
    both = best_temperature([nll, nll], [slopes, slopes], temperatures)[1]
    assert both.tolist() == [least, least]


def test_the_spread_has_an_interval_and_its_least_k_company():
    rng = np.random.default_rng(3)
    values = np.abs(np.array([0.05, 0.02, 0.021, 0.2]) + 0.0005 * rng.normal(size=(9, 4)))
    values[0] = [0.05, 0.02, 0.0201, 0.2]
    least, same = as_least(values)
    assert least == 1
    assert same.tolist() == [False, True, True, False]
    found = spread_interval(values)
    assert (found.low < found.estimate).all()
    assert (found.estimate < found.high).all()
    assert found.estimate[3] == pytest.approx(100 * np.expm1(0.2))
