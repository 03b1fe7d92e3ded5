"""The simulated coverage of intervals: its table again, and the kinds against SciPy's."""

import numpy as np
import pandas as pd
import pytest
from draws import may_be
from scipy import stats

from companion.evidence.interval_coverage import CELL, KS, intervals, simulate
from companion.project import LADDER
from ladder.shipped import counted
from rbp.laws.resampling import log_neg_log_share


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["humaneval", "wikipedia"])
def test_the_shipped_table_comes_out_again(dataset):
    texts = 600
    shipped = pd.read_csv(LADDER / "coverage.csv").query("text == @dataset and documents == 20")
    (text,) = counted(KS, families=["neox"], datasets=[dataset])
    table = simulate(text, 20, texts=texts, draws=200, seed=(1, 2, 3))
    both = table.merge(shipped, on=[*CELL, "kind"], suffixes=("", "_shipped"))
    assert len(both) == len(shipped) == 12 * 2 * 7
    for row in both.itertuples():  # 1000 texts made the shipped table: its own share is not known better
        share = row.covered_shipped
        margin = 3.3 * np.sqrt(share * (1 - share) / 1000)
        assert may_be(round(row.covered * texts), texts, share - margin, share + margin)


def test_percentiles_reversed_percentiles_and_bca_are_those_of_scipy():
    rng = np.random.default_rng(6)
    lengths = rng.lognormal(5, 0.7, 15).astype(int) + 20
    sums = np.column_stack([lengths - rng.binomial(lengths, rng.beta(2.45, 46.55, 15)), lengths]).astype(float)
    times = rng.multinomial(15, np.full(15, 1 / 15), size=20_000).astype(float)
    ends = {kind: ends for kind, level, *ends in intervals(sums, log_neg_log_share, times, lengths) if level == 0.8}

    def statistic(hits, tokens, axis):
        return np.log(-np.log(hits.sum(axis) / tokens.sum(axis)))

    options = {"paired": True, "vectorized": True, "n_resamples": 20_000, "confidence_level": 0.8}
    for method in ("percentile", "basic", "BCa"):
        expected = stats.bootstrap((*sums.T,), statistic, **options, method=method, rng=7).confidence_interval
        assert ends[method] == pytest.approx([expected.low, expected.high], abs=0.04 * (expected.high - expected.low))
