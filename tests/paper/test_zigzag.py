"""Whether a ladder is bent, and whether it zigzags, on ladders that are made so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_grid import BUDGETS, SIZES, make
from scipy.stats import t as student

from rbp.core.errors import FitError
from rbp.paper.grid import TRANSFORMER
from rbp.paper.ladder import bends, luck, resample, resampled_points, without_largest, zigzag

KINK = {SIZES["59k"]: 0.04, SIZES["150k"]: -0.03}


def power(size, tokens, k=1):
    return 5 * size**-0.1 * np.exp(KINK.get(int(size), 0.0)) / k**0.2


def bent(size, tokens, k=1):
    x = np.log(size / 1e5)
    return np.exp(0.5 - 0.08 * x + 0.004 * x**2) / k**0.2


def counted(value, spread=0.05):
    return list(make(value, families=("neox",), spread=spread).lines[TRANSFORMER, BUDGETS[-1]].values())


def test_a_zigzag_is_the_contrast_of_the_residuals_that_were_put_in():
    x = np.log(list(SIZES.values()))
    y = np.array([KINK.get(size, 0.0) for size in SIZES.values()])
    off = y - np.polyval(np.polyfit(x, y, 1), x)
    pair = (SIZES["59k"], SIZES["150k"])
    found, low, high = zigzag(counted(power), pair, 10, (0.0, 4), resamples=200)
    assert found == pytest.approx(off[2] - off[3], abs=1e-3)
    assert low <= found <= high
    assert high - low < 0.01  # a hard document is hard for all rungs
    # by hand: each residual moves with all seeds, by the rows of I − X(XᵀX)⁻¹Xᵀ
    design = np.vander(x, 2)
    hat = np.eye(7) - design @ np.linalg.inv(design.T @ design) @ design.T
    by_seeds = 0.01 * np.linalg.norm(hat[2] - hat[3])
    found, low, high = zigzag(counted(power, spread=0.0), pair, 10, (0.01**2, 4), resamples=200)
    assert (high - low) / 2 == pytest.approx(student.ppf(0.975, 4) * by_seeds, rel=1e-3)
    with pytest.raises(FitError, match="no rung of 5 parameters"):
        zigzag(counted(power), (5, SIZES["59k"]), 10, (0.0, 4), resamples=10)


def test_a_bend_is_found_with_and_without_the_largest_rung():
    points = []
    for hits in counted(bent, spread=0.0):
        points.append(resampled_points(hits, resample(hits, resamples=20)))

    table = pd.concat(points)
    for own, sizes in ((table, 7), (without_largest(table), 6)):
        found = bends(own)
        assert len(found) == 4 * 3
        assert (found.n == sizes).all()
        assert found.coefficient.to_numpy() == pytest.approx(0.004, abs=1e-4)
        assert found.alarm_holm.all()
        assert (found.p_holm >= found.p).all()


def test_luck_is_the_variance_between_seeds_of_the_mean_over_texts():
    texts = counted(power, spread=0.0)
    twice = [
        replace(
            hits,
            models=("a", "a2", "b", "b2", *hits.models[2:]),
            sizes=np.repeat(hits.sizes, [2, 2, 1, 1, 1, 1, 1]),
            hits=np.repeat(hits.hits, [2, 2, 1, 1, 1, 1, 1], axis=1),
            nll=np.repeat(hits.nll, [2, 2, 1, 1, 1, 1, 1], axis=1),
        )
        for hits in texts
    ]
    assert luck(twice, 10) == (0.0, 2)
    assert luck(texts, 10)[1] == 0
    for hits in twice:  # one of the seeds misses more: y grows by ln(ln share′/ln share)
        hits.hits[:, 1] = (hits.hits[:, 1] * 0.99).astype(int)
    apart = []
    for hits in twice:
        shares = hits.hits[:, :2, hits.thresholds.index(10)].sum(axis=0) / hits.tokens.sum()
        apart.append(np.log(np.log(shares[1]) / np.log(shares[0])))
    assert luck(twice, 10)[0] == pytest.approx(np.mean(apart) ** 2 / 2 / 2)
