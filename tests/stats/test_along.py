import numpy as np
import pytest
from simulated import chain, rows, varying

from rbp.core.errors import DataError
from rbp.stats.clustering import autocorrelation, run_counts


def test_a_chain_forgets_geometrically():
    text = chain(np.random.default_rng(1), 200, 1000, 0.6, 0.8)
    found = autocorrelation(*text, [1, 2, 4])
    memory = 0.8 - 0.6 * 0.2 / 0.4  # stay less back: the second eigenvalue
    assert found["correlation"].to_numpy() == pytest.approx([memory, memory**2, memory**4], abs=0.015)
    assert found["pairs"].tolist() == [200 * 999, 200 * 998, 200 * 996]


def test_documents_that_differ_are_alike_at_every_distance():
    text = varying(np.random.default_rng(2), 2000, 200, 2.0, 3.0)
    found = autocorrelation(*text, [1, 50, 150])
    assert found["correlation"].to_numpy() == pytest.approx([1 / 6] * 3, abs=0.015)  # 1/(a + b + 1)
    assert found["within"].to_numpy() == pytest.approx([0] * 3, abs=0.02)


def test_no_pair_crosses_a_document_or_a_gap():
    hit, documents, positions = [1, 0, 1, 0, 1], [0, 0, 1, 1, 1], [0, 1, 0, 1, 5]
    assert autocorrelation(hit, documents, positions, [1, 2])["pairs"].tolist() == [2, 0]
    with pytest.raises(DataError, match="nothing varies"):
        autocorrelation([1, 1], [0, 0], [0, 1], [1])


def test_independent_runs_are_as_expected():
    text = rows(np.random.default_rng(3).random((2000, 30)) < 0.7)
    found = run_counts(*text, [1, 3, 10, 30, 31])
    assert found["runs"].to_numpy() == pytest.approx(found["independent"].to_numpy(), rel=0.05, abs=2)
    assert found["independent"].tolist()[-1] == 0


def test_runs_are_counted_one_by_one():
    good = np.array([[1, 1, 0, 1, 0, 1, 1, 1]], dtype=bool)
    assert run_counts(*rows(good), [1, 2, 3, 4])["runs"].tolist() == [3, 2, 1, 0]
