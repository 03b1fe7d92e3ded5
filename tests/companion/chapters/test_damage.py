"""Models made worse, at equal cross-entropy: made-up paths whose answers are known."""

import numpy as np
import pytest
from own_sources import paths

from companion.chapters import damage as study
from companion.chapters import outcomes


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    paths(folder := tmp_path_factory.mktemp("paths") / "own")
    (cell,) = study.open_cells(str(folder))
    return cell


def test_paths_that_rank_alike_have_no_offset_and_tilted_ones_cross(cell):
    assert (cell.family, cell.rung) == ("big", "small-200")  # the middle one
    assert cell.nats == pytest.approx(3.8, rel=0.02)
    table = study.compare_at_equal_entropy([cell]).set_index(["path", "k"])
    assert set(table.index.get_level_values(0)) == {"bits", "weights", "replaced", "parameters"}  # depth ends too soon
    assert table.loc["bits", "offset"].abs().max() < 0.2  # a line in CE, nearly one in logarithms
    assert not table.loc["bits", "apart"].any()
    assert (table.loc["parameters", "offset"] == 0).all()
    for path, sign in (("weights", 1), ("replaced", -1)):
        assert 8 < sign * table.loc[(path, 1), "offset"] < 13
        assert -14 < sign * table.loc[(path, 1000), "offset"] < -9
        assert table.loc[(path, 1), "apart"]
    spread = study.measure_spreads([cell]).set_index("k")
    assert spread["spread"].idxmin() == 30  # nearest to where the tilts cross, at the root of 1000
    assert (spread["is_least"].sum(), spread.loc[30, "least"], spread.loc[1, "least"]) == (1, True, False)


def test_a_path_is_tested_by_documents_and_by_another_training(cell):
    """Without a training's noise the test is the interval's; with far more noise than effect nothing differs."""
    intervals = study.compare_at_equal_entropy([cell]).set_index(["path", "k"])
    sharp = study.path_tests([cell], 0.0, 1).set_index("path")
    assert set(sharp.index) == {"bits", "weights", "replaced"}
    for path, row in sharp.iterrows():
        assert bool(row.p < 0.05) == intervals.loc[(path, 1), "apart"]
        assert np.isnan(row.p_training)
        assert 100 * np.expm1(row.offset) == pytest.approx(intervals.loc[(path, 1), "offset"])
    ordered = sharp.sort_values("p")
    steps = np.maximum.accumulate(ordered.p.to_numpy() * [3, 2, 1])  # Holm by hand
    assert ordered.p_holm.to_numpy() == pytest.approx(np.minimum(steps, 1))
    blunt = study.path_tests([cell], 5.0, 6)
    assert (blunt.p_training > 0.9).all()
    said = study.path_tests_summary(sharp.reset_index(), level=0.95)
    assert list(said.values()) == [3, 2, 2, 1]  # all; apart: by documents, after Holm, of the input
    assert "path_tests.apart_seeds" not in said  # no training was repeated
    assert study.path_tests_summary(blunt, level=0.95)["path_tests.apart_seeds"] == 0


def test_registered_outcomes_are_of_the_path_the_model_and_the_k(cell):
    measured = outcomes.made_worse([cell])
    at = cell.worse.thresholds.index
    assert measured["offset"]["weights", "big", "text", 10] == pytest.approx(cell.equal["weights"][:, 0, at(10)].mean())
    means = [draws[:, 0, at(100)].mean() for draws in cell.equal.values()]
    assert measured["spread"]["big", "text", 100] == pytest.approx(np.std(means))
    assert measured["least_k"]["big", "text"] == pytest.approx(np.log(30))
    assert measured["some_path_differs"]()
    assert measured["spread_grows"]()
