"""Whether a ladder zigzags, on ladders that are made so."""

from dataclasses import replace

import numpy as np
import pytest
from made_grid import SIZES, make
from scipy.stats import t as student

from rbp.core.errors import FitError
from rbp.evidence import shipped
from rbp.paper.appendix.ladder import moved, points_at, seed_variance, zigzag
from rbp.paper.families import TRANSFORMER, first_ladder, with_ablations

KINK = {SIZES["59k"]: 0.04, SIZES["150k"]: -0.03}


def power(size, tokens, k=1):
    return 5 * size**-0.1 * np.exp(KINK.get(int(size), 0.0)) / k**0.2


def counted(value, spread=0.05):
    return [text.of(TRANSFORMER) for text in make(value, families=("neox",), spread=spread)]


def test_a_zigzag_is_the_contrast_of_the_residuals_that_were_put_in():
    x = np.log(list(SIZES.values()))
    y = np.array([KINK.get(size, 0.0) for size in SIZES.values()])
    off = y - np.polyval(np.polyfit(x, y, 1), x)
    pair = (SIZES["59k"], SIZES["150k"])
    found, low, high = zigzag(counted(power), pair, 10, (0.0, 4))
    assert found == pytest.approx(off[2] - off[3], abs=1e-3)
    assert low <= found <= high
    assert high - low < 0.01  # a hard document is hard for all rungs
    # by hand: each residual moves with all seeds, by the rows of I − X(XᵀX)⁻¹Xᵀ
    design = np.vander(x, 2)
    hat = np.eye(7) - design @ np.linalg.inv(design.T @ design) @ design.T
    by_seeds = 0.01 * np.linalg.norm(hat[2] - hat[3])
    found, low, high = zigzag(counted(power, spread=0.0), pair, 10, (0.01**2, 4))
    assert (high - low) / 2 == pytest.approx(student.ppf(0.975, 4) * by_seeds, rel=1e-3)
    with pytest.raises(FitError, match="no rung of 5 parameters"):
        zigzag(counted(power), (5, SIZES["59k"]), 10, (0.0, 4))


def twice(hits, times):
    """A ladder whose rungs were trained so many times."""
    found = hits.keep(np.repeat(np.arange(7), times))
    names = [f"{name}-{i}" for name, n in zip("abcdefg", times, strict=True) for i in range(n)]
    return replace(found, models=found.models.assign(model=names))


def test_what_a_change_moves_is_that_over_the_texts_with_seeds_and_documents():
    texts = [twice(hits, [1, 1, 2, 2, 1, 1, 1]) for hits in counted(power)]
    still = moved(texts, 10, (0.0, 4))
    assert still[["model", "first"]].to_numpy().tolist() == [["c-1", "c-0"], ["d-1", "d-0"]]
    assert still[["difference", "low", "high"]].to_numpy() == pytest.approx(0)
    away = []
    for hits in texts:
        place = hits.thresholds.index(10)
        before = hits.hits[:, 3, place].sum() / hits.tokens.sum()
        hits.hits[:, 3, place] = (hits.hits[:, 3, place] * 0.98).astype(int)
        away.append(np.log(np.log(hits.hits[:, 3, place].sum() / hits.tokens.sum()) / np.log(before)))
    found = moved(texts, 10, (0.01**2, 4)).set_index("model")
    assert found.difference["c-1"] == pytest.approx(100 * np.mean(away))
    # Student's, from two trainings' seeds; documents add where the two differ
    seeds = 100 * student.ppf(0.975, 4) * 0.01 * np.sqrt(2)
    half = (found.high - found.low) / 2
    assert half["d-1"] == pytest.approx(seeds)
    assert seeds < half["c-1"] < 1.5 * seeds


def test_the_first_ladder_s_sums_are_those_of_its_stores_and_there_only_where_it_is_named():
    # the slopes of ln(−ln RBP₁) in ln CE as they were recorded of its rank stores, before these went
    recorded = {"auslegal": 1.5628218296554313, "hotpotqa": 2.5712306577667395}
    for one in shipped.counted([1], families=[shipped.FIRST], datasets=list(recorded)):
        own = one.keep(one.models["seed"] == 0)
        slope = np.polyfit(np.log(own.cross_entropy), np.log(own.neg_log_rbp[:, 0]), 1)[0]
        assert slope == pytest.approx(recorded[one.dataset], rel=1e-6)
        assert np.isnan(one.entropy).all(axis=0).tolist() == (one.models["seed"] > 0).tolist()
    assert len(one.models) == 11
    assert not set(shipped.APART) & set(shipped.models()["family"])


def test_points_at_a_threshold_are_those_of_the_first_of_each_size():
    hits = counted(power)
    found = points_at(hits, 10)
    assert len(found) == 7 * len(hits)
    one = found[found.dataset == hits[0].dataset]
    share = hits[0].hits[:, :, hits[0].thresholds.index(10)].sum(axis=0) / hits[0].tokens.sum()
    np.testing.assert_allclose(one.value, -np.log(share))


def test_the_shipped_ablations_stand_beside_their_rungs():
    texts = first_ladder(10)
    for one, first in zip(with_ablations(texts), texts, strict=True):
        assert one.names == ["ladder-59k", "ladder-59k-40", "ladder-150k", "ladder-150k-8"]
        assert one.sizes.tolist() == [59_240] * 2 + [150_080] * 2
        places = [first.names.index(name) for name in one.names[::2]]
        np.testing.assert_array_equal(one.hits[:, ::2], first.hits[:, places])
        np.testing.assert_array_equal(one.nll[:, ::2], first.nll[:, places])
        assert (one.hits[:, 1::2].sum(axis=0) != one.hits[:, ::2].sum(axis=0)).all()


def test_luck_is_the_variance_between_seeds_of_the_mean_over_texts():
    texts = counted(power, spread=0.0)
    again = [twice(hits, [2, 2, 1, 1, 1, 1, 1]) for hits in texts]
    assert seed_variance(again, 10) == (0.0, 2)
    assert seed_variance(texts, 10)[1] == 0
    for hits in again:  # one of the seeds misses more: y grows by ln(ln share′/ln share)
        hits.hits[:, 1] = (hits.hits[:, 1] * 0.99).astype(int)
    apart = []
    for hits in again:
        shares = hits.hits[:, :2, hits.thresholds.index(10)].sum(axis=0) / hits.tokens.sum()
        apart.append(np.log(np.log(shares[1]) / np.log(shares[0])))
    assert seed_variance(again, 10)[0] == pytest.approx(np.mean(apart) ** 2 / 2 / 2)
