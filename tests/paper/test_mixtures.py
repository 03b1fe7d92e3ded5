"""Slopes, and hits and misses, of families made so that RBP_1 is a function of the cross-entropy, and is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from rbp.core.errors import DataError
from rbp.evidence import open_source
from rbp.paper import mixtures
from rbp.ranks.store import RankStore


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
    found = quantities(mixtures.turned(costs))
    assert found["share"] == pytest.approx(1, abs=1e-6)
    assert found["gap"] == pytest.approx(4.5, abs=1e-6)
    assert found["per_nat"] == pytest.approx(1 / 4.5, abs=1e-6)
    (line,) = mixtures.slopes(mixtures.points(open_source(tmp_path).table)).to_dict("records")
    assert line["per_nat"] == pytest.approx(1 / 4.5, abs=1e-6)
    assert line["r_squared"] == pytest.approx(1, abs=1e-9)
    h = np.array([0.2, 0.25, 0.3, 0.35, 0.4])
    local = (mixtures.factor(h, 5 - 4.5 * h) / 4.5).mean()  # b·C/(h·r)
    assert line["slope"] == pytest.approx(local, rel=0.03)


def test_where_only_costs_move_rbp_is_no_function_of_cross_entropy(tmp_path: Path) -> None:
    (costs,) = mixtures.count_costs(family(tmp_path, "costs"))
    found = quantities(mixtures.turned(costs))
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
        costs = mixtures.Costs("d", "f", ("a", "b", "c"), np.array([1, 2, 3]), sums)
        row = mixtures.turned(costs).set_index("quantity").loc["slope"]
        truth = -mixtures._line(np.log(5 - 4.5 * rates), np.log(-np.log(rates)))[0]
        inside += row["low"] <= truth <= row["high"]
    assert inside >= 32  # of 40 at 95%: fewer than 1 time in 1000


def test_the_shipped_ladder_is_counted_as_its_table_says() -> None:
    source = open_source("ladder")
    points = mixtures.points(source.table).set_index(["dataset", "model"])
    for costs in mixtures.count_costs(source.stores):
        tokens, hits, nll, _ = costs.sums.sum(axis=0).T
        own = points.loc[costs.dataset].loc[list(costs.models)]
        np.testing.assert_allclose(hits / tokens, own["hit"], rtol=1e-12)
        np.testing.assert_allclose(nll / tokens, own["cost"], rtol=1e-12)


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    first = make_store(tmp_path / "a", [0, 1, 2], [3], model="a")
    second = make_store(tmp_path / "b", [0, 1], [2], model="b")
    with pytest.raises(DataError, match="did not rank the same tokens"):
        mixtures.count_costs([first, second])
    ranks_alone = open_source("ladder").table.query("metric == 'neg_log_rbp'")
    with pytest.raises(DataError, match="no model has both"):
        mixtures.points(ranks_alone)
