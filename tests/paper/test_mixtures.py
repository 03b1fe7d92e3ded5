"""The slopes that mixtures imply, on families made so that RBP_1 is a function of the cross-entropy, and is not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from scipy.special import gammainc
from toy_stores import make_store

from rbp.core.errors import DataError
from rbp.evidence import open_source
from rbp.paper import mixtures
from rbp.ranks.entropies import TEMPERATURES, Entropies, write_entropies
from rbp.ranks.store import RankStore


def slope_of(hit: Callable[[float], float], cost: Callable[[float], float], t: float, step: float = 1e-6) -> float:
    """d ln(−ln hit)/d ln cost by a central difference."""
    ends = [(np.log(-np.log(hit(x))), np.log(cost(x))) for x in (t - step, t + step)]
    return float((ends[1][0] - ends[0][0]) / (ends[1][1] - ends[0][1]))


def test_every_derivation_holds_and_a_wrong_one_would_not() -> None:
    assert {one.name: one.holds for one in mixtures.derived()} == dict.fromkeys(
        ("two kinds", "solved or not", "all alike", "hits and misses"), True
    )
    t = sp.Symbol("t", real=True)
    share = sp.Function("pi")(t)
    change = sp.diff(share**2, t)
    assert mixtures._equal(change, 2 * share * sp.diff(share, t))
    assert not mixtures._equal(change, share * sp.diff(share, t))


def test_the_slopes_are_those_of_numerical_derivatives() -> None:
    slope = {one.name: one.slope for one in mixtures.derived()}

    def at(name: str, **values: float) -> float:
        free = {str(symbol): symbol for symbol in slope[name].free_symbols}
        return float(slope[name].subs({free[key]: value for key, value in values.items() if key in free}))

    easy, hard, hit_easy, hit_hard = 0.8, 6.1, 0.7, 0.05
    hit, cost = (lambda t: t * hit_easy + (1 - t) * hit_hard), (lambda t: t * easy + (1 - t) * hard)
    given = {"l_e": easy, "l_d": hard, "h_e": hit_easy, "h_d": hit_hard}
    assert at("two kinds", h=hit(0.3), C=cost(0.3), **given) == pytest.approx(slope_of(hit, cost, 0.3), rel=1e-6)
    hit, cost = (lambda t: t + (1 - t) * 0.1), (lambda t: (1 - t) * 5.0)
    assert at("solved or not", h=hit(0.3), C=cost(0.3)) == pytest.approx(slope_of(hit, cost, 0.3), rel=1e-6)
    kappa, tau = 1.7, 2.1
    hit, cost = (lambda t: float(gammainc(kappa, kappa * tau / t))), (lambda t: t)
    given = {"kappa": kappa, "tau": tau}
    assert at("all alike", h=hit(4.2), C=4.2, **given) == pytest.approx(slope_of(hit, cost, 4.2), rel=1e-5)


def model(folder: Path, name: str, size: int, hit: np.ndarray, nll: np.ndarray, lengths: list[int]) -> RankStore:
    return make_store(folder / name, np.where(hit, 0, 7), lengths, model=name, size=size, nll=nll.astype("float32"))


def family(folder: Path, kind: str) -> list[RankStore]:
    """Five models of 20 000 tokens. "share": hits cost 0.5 and misses 5 nats, and ever more tokens are hits.

    "costs": the hits stay, and misses cost less and less, so that RBP_1 is no function of the cross-entropy.
    """
    rng, lengths = np.random.default_rng(0), [500] * 40
    order, found = rng.permutation(sum(lengths)), []
    for i in range(5):
        hits = 4000 + (1000 * i if kind == "share" else 0)
        hit = order < hits
        nll = np.where(hit, 0.5, 5.0 if kind == "share" else 6.0 - 0.6 * i)
        found.append(model(folder, f"m{i}", 10**i, hit, nll, lengths))
    return found


def quantities(table: pd.DataFrame) -> dict[str, float]:
    return dict(zip(table["quantity"], table["value"], strict=True))


def test_where_only_the_share_of_hits_moves_rbp_is_a_straight_line_in_cross_entropy(tmp_path: Path) -> None:
    (costs,) = mixtures.count_costs(family(tmp_path, "share"))
    found = quantities(mixtures.turned(costs, resamples=50))
    assert found["share"] == pytest.approx(1, abs=1e-6)
    assert found["gap"] == pytest.approx(4.5, abs=1e-6)
    assert found["per_nat"] == pytest.approx(1 / 4.5, abs=1e-6)
    (line,) = mixtures.slopes(mixtures.points(open_source(tmp_path).table)).to_dict("records")
    assert line["per_nat"] == pytest.approx(1 / 4.5, abs=1e-6)
    assert line["r_squared"] == pytest.approx(1, abs=1e-9)
    expected = mixtures.expected_slopes(costs)
    assert expected["two kinds"] == pytest.approx(expected["measured"], rel=0.01)
    assert expected["left"] == pytest.approx(0, abs=1e-6)
    h = np.array([0.2, 0.25, 0.3, 0.35, 0.4])
    local = (mixtures.factor(h, 5 - 4.5 * h) / 4.5).mean()  # b·C/(h·r)
    assert expected["measured"] == pytest.approx(local, rel=0.03)


def test_where_only_costs_move_rbp_is_no_function_of_cross_entropy(tmp_path: Path) -> None:
    (costs,) = mixtures.count_costs(family(tmp_path, "costs"))
    found = quantities(mixtures.turned(costs, resamples=50))
    assert found["share"] == pytest.approx(0, abs=1e-6)
    assert found["per_nat"] == pytest.approx(0, abs=1e-6)
    assert found["slope"] == pytest.approx(0, abs=1e-6)


def test_intervals_cover_by_documents() -> None:
    """b of draws from one population lies in the 95% interval about as often as that."""
    rng, inside, draws = np.random.default_rng(1), 0, 40
    rates = np.array([0.2, 0.3, 0.4])
    for _ in range(draws):
        tokens = np.full(60, 50.0)
        easy = rng.normal(0, 0.1, 60)  # documents differ, alike for all models
        hits = rng.binomial(50, np.clip(rates + easy[:, None], 0.01, 0.99))
        nll = 0.5 * hits + 5.0 * (50 - hits)
        sums = np.stack([np.tile(tokens[:, None], 3), hits, nll, 0.5 * hits], axis=-1).astype(float)
        costs = mixtures.Costs("d", "f", ("a", "b", "c"), np.array([1, 2, 3]), sums, np.zeros((3, 2, 65)))
        row = mixtures.turned(costs, resamples=200).set_index("quantity").loc["slope"]
        truth = -mixtures._line(np.log(5 - 4.5 * rates), np.log(-np.log(rates)))[0]
        inside += row["low"] <= truth <= row["high"]
    assert inside >= 32  # of 40 at 95%: fewer than 1 time in 1000


def with_entropies(folder: Path, kind: str) -> list[Entropies]:
    """Two models of sure and unsure contexts. "contexts": their shares move; "rates": what they cost and hit does."""
    found = []
    for i, share in enumerate((0.2, 0.6) if kind == "contexts" else (0.4, 0.4)):
        sure = np.arange(1000) < 1000 * share
        better = 0.2 * i if kind == "rates" else 0.0
        hit = (np.arange(1000) * 7919 % 1000) / 1000 < np.where(sure, 0.7, 0.1) + better
        # the hit rate within each kind is made exact
        for own, rate in ((sure, 0.7 + better), (~sure, 0.1 + better)):
            places = np.flatnonzero(own)
            hit[places] = np.arange(len(places)) < round(rate * len(places))
        nll = np.where(sure, 1.0, 4.0) - better
        store = model(folder, f"m{i}", 10**i, hit, nll, [100] * 10)
        tempered = np.tile(nll[:, None], (1, len(TEMPERATURES)))
        write_entropies(store, np.where(sure, 0.5, 4.0), np.repeat(np.arange(10), 100), tempered)
        found.append(Entropies(store))
    return found


@pytest.mark.parametrize(("kind", "share"), [("contexts", 1.0), ("rates", 0.0)])
def test_what_contexts_do_by_moving_is_told_from_what_they_do_where_they_are(
    kind: str, share: float, tmp_path: Path
) -> None:
    found = mixtures.by_entropy(with_entropies(tmp_path, kind))
    assert found["hits"] == pytest.approx(share, abs=1e-6)
    assert found["cost"] == pytest.approx(share, abs=1e-5)


def test_the_shipped_ladder_is_counted_as_its_table_says() -> None:
    source = open_source("ladder:v1")
    points = mixtures.points(source.table).set_index(["dataset", "model"])
    for costs in mixtures.count_costs(source.stores):
        tokens, hits, nll, _ = costs.sums.sum(axis=0).T
        own = points.loc[costs.dataset].loc[list(costs.models)]
        np.testing.assert_allclose(hits / tokens, own["hit"], rtol=1e-12)
        np.testing.assert_allclose(nll / tokens, own["cost"], rtol=1e-12)
        np.testing.assert_array_equal(costs.spread.sum((1, 2)), tokens)


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    first = make_store(tmp_path / "a", [0, 1, 2], [3], model="a")
    second = make_store(tmp_path / "b", [0, 1], [2], model="b")
    with pytest.raises(DataError, match="did not rank the same tokens"):
        mixtures.count_costs([first, second])
    ranks_alone = open_source("ladder:v1").table.query("metric == 'neg_log_rbp'")
    with pytest.raises(DataError, match="no model has both"):
        mixtures.points(ranks_alone)
