"""The analysis of a family on its rank stores: intervals by documents, and the split of the scatter."""

import numpy as np
import pandas as pd
import pytest
from simulated import counts

from companion.chapters.appendix.ladder import laws_by_document, split_scatter
from companion.chapters.families import exponents
from rbp.laws.resampling import variance, without_each

SIZES = np.array([10_000, 30_000, 100_000, 300_000, 1_000_000])


def family_of(rng, documents=40, own=0.0):
    """Hits of models of −ln RBP₁ = 8 S^(−0.1) on documents that are easier or harder for all, or for one (`own`)."""
    level = np.log(8) - 0.1 * np.log(SIZES)
    effect = rng.normal(0, 0.3, documents)[:, None] + rng.normal(0, own, (documents, len(SIZES)))
    share = np.exp(-np.exp(level + effect))
    tokens = rng.integers(2000, 4000, documents)
    hits = rng.binomial(tokens[:, None], share)[:, :, None]
    return counts([f"m{i}" for i in range(len(SIZES))], SIZES, [1], tokens, hits, hits[..., 0] * 1.0)


def test_the_text_interval_of_alpha_covers_what_other_texts_give():
    """The documents of one corpus tell the spread of α over independent corpora."""
    rng = np.random.default_rng(6)
    others = [family_of(rng, own=0.1) for _ in range(300)]
    alphas = np.array([exponents(SIZES, one.log_neg_log_rbp[None, :, 0])[0] for one in others])
    found = np.sqrt(np.mean([variance(exponents(SIZES, one.left_out().at(1))) for one in others[:20]]))
    assert found == pytest.approx(alphas.std(ddof=1), rel=0.15)
    row = laws_by_document(others[0].left_out()).iloc[0]
    assert row.text_low < row.alpha < row.text_high
    assert row.misses == (others[0].tokens.sum() - others[0].hits.sum(axis=0)).min()


SEEDED = np.repeat(SIZES, [3, 3, 3, 1, 1])
SHARED = np.random.default_rng(8).normal(size=(len(SEEDED), len(SEEDED)))
DOCUMENT = 1e-4 * (0.5 * np.eye(len(SEEDED)) + SHARED @ SHARED.T / 30 + 1)  # the covariance of the document noise
SEED = 2e-4
LACK = np.array([0.02, -0.03, 0.0, 0.01, 0.01])


def simulated(rng, lack, repeats=400, documents=60):
    """Splits of ln(−ln RBP_k) with known components, and means of documents that have this covariance."""
    root = np.linalg.cholesky(DOCUMENT)
    rung = np.searchsorted(SIZES, SEEDED)
    found = []
    for _ in range(repeats):
        line = 1 - 0.1 * np.log(SEEDED) + lack[rung]
        y = line + rng.normal(0, SEED**0.5, len(SEEDED)) + root @ rng.normal(size=len(SEEDED))
        corpus = root @ rng.normal(size=(len(SEEDED), documents)) * documents**0.5  # a column a document
        means = without_each(corpus.T) / np.append(documents, np.full(documents, documents - 1))[:, None]
        found.append(split_scatter(SEEDED, y + means - means[0]))
    return pd.DataFrame(found)


def test_the_split_finds_known_components():
    found = simulated(np.random.default_rng(9), LACK)
    x = np.column_stack([np.ones(5), np.log(SIZES)])
    residual = np.eye(5) - x @ np.linalg.solve(x.T @ x, x.T)
    first = [0, 3, 6, 9, 10]
    error = found.std() / np.sqrt(len(found))
    document = np.trace(residual @ DOCUMENT[np.ix_(first, first)]) / 3
    expected = {"document": document, "seed": SEED, "lack": LACK @ residual @ LACK / 3}
    for part, value in expected.items():
        assert found[part].mean() == pytest.approx(value, abs=3.5 * error[part]), part
    assert found.total.to_numpy() == pytest.approx((found.document + found.seed + found.lack).to_numpy())
    covered = ((found.seed_low <= SEED) & (found.seed_high >= SEED)).mean()
    assert 0.91 <= covered <= 0.99
    assert (found.seed_df == 6).all()
