"""Design effects and intervals over documents: against simulated texts, brute force, and statistics of known error."""

import numpy as np
import pytest
from draws import loop_and_slow, may_be

from rbp.core.errors import DataError
from rbp.stats.clustering import (
    cluster_sums,
    design_effect,
    document_sums,
    draws,
    jackknife_interval,
    log_design_effect,
    log_neg_log_share,
    log_scatter_effect,
    neg_log_rbp_document_interval,
    scatter_sums,
    studentized_interval,
    variance_parts,
)
from rbp.stats.overdispersion import fit_counts


def documents(rng, count, length, spread):
    """Misses of documents whose rates vary: (values, documents)."""
    rate = np.clip(0.3 + spread * rng.standard_normal(count), 0.01, 0.99)
    values = rng.random((count, length)) < rate[:, None]
    return values.ravel().astype(float), np.repeat(np.arange(count), length)


def test_independent_tokens_have_none():
    values, document = documents(np.random.default_rng(0), 3000, 20, 0.0)
    assert design_effect(values, document) == pytest.approx(1, abs=0.1)
    assert variance_parts(values, document).shared == pytest.approx(0, abs=0.005)


def test_it_is_what_resampling_documents_gives():
    rng = np.random.default_rng(1)
    values, document = documents(rng, 400, 50, 0.15)
    sums = values.reshape(400, 50).sum(axis=1)
    means = sums[rng.integers(0, 400, (4000, 400))].sum(axis=1) / values.size
    single = values.var() / values.size
    assert design_effect(values, document) == pytest.approx(means.var() / single, rel=0.08)


def test_the_draws_are_the_same_however_many_at_a_time():
    whole = np.random.default_rng(3).multinomial(7, [1 / 7] * 7, size=10)
    for at_once in (None, 1, 4, 100):
        parts = list(draws(7, 10, at_once=at_once, seed=3))
        assert np.array_equal(np.concatenate(parts), whole)
        assert max(map(len, parts)) == min(at_once or 10, 10)


def test_whole_documents_that_miss_have_the_length_as_effect():
    values, document = np.repeat(np.random.default_rng(2).random(500) < 0.1, 30), np.repeat(np.arange(500), 30)
    assert design_effect(values, document) == pytest.approx(30, rel=0.01)
    assert variance_parts(values, document).shared == pytest.approx(1)


def test_the_parts_are_those_that_were_put_in():
    values, document = documents(np.random.default_rng(3), 4000, 40, 0.1)
    parts = variance_parts(values, document)
    assert parts.between == pytest.approx(0.01, rel=0.1)
    assert parts.within + parts.between == pytest.approx(values.var(), rel=0.01)
    assert design_effect(values, document) == pytest.approx(1 + 39 * parts.shared, rel=0.05)


def test_one_document_says_nothing():
    with pytest.raises(DataError, match="two documents"):
        design_effect([1.0, 0.0], [3, 3])
    assert np.isnan(design_effect([0.0, 0.0], [1, 2]))


def test_clusters_inside_documents_are_what_is_drawn():
    """Pieces that miss all or nothing have their length as effect, in however few documents they lie."""
    values, piece = np.repeat(np.random.default_rng(2).random(500) < 0.1, 30), np.repeat(np.arange(500), 30)
    sums = cluster_sums(values, piece, piece // 50)
    assert len(sums) == 10
    assert np.exp(log_design_effect(sums.sum(axis=0))) == pytest.approx(design_effect(values, piece), rel=1e-12)
    assert sums.sum(axis=0)[:4].tolist() == [500, values.sum(), values.sum(), 15_000]


def test_the_mean_of_documents_has_students_interval():
    """One token a document: the jackknife of a mean is the textbook's interval."""
    x = np.random.default_rng(0).normal(3, 1, 20)
    low, high = jackknife_interval(np.column_stack([x, np.ones(20)]), lambda t: t[..., 0] / t[..., 1])
    half = 2.093024 * x.std(ddof=1) / np.sqrt(20)
    assert (low, high) == pytest.approx((x.mean() - half, x.mean() + half), rel=1e-6)


def test_the_studentized_interval_is_the_bootstrap_t():
    """By hand: each draw's mean and its own standard error."""
    x = np.random.default_rng(1).gamma(0.5, 1, 15)
    sums = np.column_stack([x, np.ones(15)])
    found = studentized_interval(sums, lambda t: t[..., 0] / t[..., 1], level=0.9, resamples=500, seed=3)
    times = np.random.default_rng(3).multinomial(15, np.full(15, 1 / 15), size=500)
    drawn = [np.repeat(x, each) for each in times]
    away = [(d.mean() - x.mean()) / (d.std(ddof=1) / np.sqrt(15)) for d in drawn]
    high, low = np.quantile(away, [0.95, 0.05])
    error = x.std(ddof=1) / np.sqrt(15)
    assert found == pytest.approx((x.mean() - high * error, x.mean() - low * error), rel=1e-9)


def test_where_draws_have_no_value_the_interval_is_students():
    """By hand: 1, 2, 3 and 6 have the mean 3 and its error √(14/3/4); t for 3 degrees of freedom is 2.353363."""
    sums = np.column_stack([[1.0, 2, 3, 6], np.ones(4), [0.0, 0, 0, 1]])  # a third of the draws lack the last

    def mean(totals):
        return np.where(np.real(totals[..., 2]) > 0, totals[..., 0] / totals[..., 1], np.nan)

    half = 2.353363 * np.sqrt(14 / 12)
    assert studentized_interval(sums, mean, level=0.9) == pytest.approx((3 - half, 3 + half), rel=1e-5)


def clustered(rng, lengths, rate=0.05, shared=0.02):
    """Misses of documents of beta-distributed rates, `shared` the correlation of two tokens of one."""
    a = (1 / shared - 1) * np.array([rate, 1 - rate])
    misses = rng.binomial(lengths, rng.beta(*a, len(lengths)))
    return np.column_stack([lengths - misses, lengths]).astype(float)


@pytest.mark.parametrize("texts", loop_and_slow(60, 1200))
def test_intervals_of_24_documents_cover_the_truth(texts):
    """Documents of unlike lengths: percentiles of drawn texts miss far more than one in twenty."""
    rng = np.random.default_rng(4)
    lengths = rng.lognormal(6, 0.8, 24).astype(int) + 20
    covered, drawn = 0, 0
    for _ in range(texts):
        sums = clustered(rng, lengths)
        if (sums[:, 0] < sums[:, 1]).any():
            low, high = np.exp(studentized_interval(sums, log_neg_log_share, resamples=400))
            covered, drawn = covered + (low <= -np.log(0.95) <= high), drawn + 1
    assert may_be(covered, drawn, 0.91, 0.96)


@pytest.mark.parametrize("texts", loop_and_slow(60, 1200))
@pytest.mark.parametrize(("documents", "least", "most"), [(24, 0.72, 0.9), (160, 0.83, 0.96)])
def test_intervals_of_design_effects_cover_less_than_they_say_where_documents_are_few(documents, least, most, texts):
    rng = np.random.default_rng(5)
    lengths = rng.lognormal(6, 0.6, documents).astype(int) + 20
    truth = (lengths * (1 + (lengths - 1) * 0.02)).sum() / lengths.sum()
    covered = 0
    for _ in range(texts):
        hits, count = clustered(rng, lengths).T
        x = count - hits
        sums = np.column_stack([np.ones(documents), x, x, count, x * x, x * count, count * count])
        low, high = np.exp(jackknife_interval(sums, log_design_effect))
        covered += low <= truth <= high
    assert may_be(covered, texts, least, most)


def test_where_draws_lose_all_misses_there_is_still_an_interval():
    ranks, document = np.ones(300, dtype=int), np.repeat(np.arange(30), 10)
    ranks[5] = 9
    low, high = neg_log_rbp_document_interval(ranks, document, 1)
    assert 0 < low < -np.log(299 / 300) < high < np.inf
    assert np.isnan(neg_log_rbp_document_interval(np.ones(4), [0, 0, 1, 1], 1)).all()
    assert np.isnan(neg_log_rbp_document_interval([1, 2], [0, 0], 1)).all()


SIZES = np.array([1e6, 1e7, 1e8, 1e9])


def family(rng, count=200, length=100):
    """Misses of four models: documents hard for all or for one, and half of all misses shared."""
    p = -np.expm1(-0.05 * (SIZES / 1e8) ** -0.1)
    hard = rng.gamma(4, 0.25, count)[:, None] * rng.gamma(6, 1 / 6, (count, 4))
    same, own = rng.random((count, length, 1)), rng.random((count, length, 4))
    draw = np.where(rng.random((count, length, 1)) < 0.5, same, own)
    return (draw < (hard * p)[:, None, :]).reshape(-1, 4), np.repeat(np.arange(count), length)


@pytest.mark.parametrize("draws", loop_and_slow(150, 3000))
def test_the_scatters_effect_is_how_much_larger_the_deviance_is(draws):
    """Rao and Scott's mean effect, from the tokens of one text, against the deviances of many texts."""
    rng = np.random.default_rng(0)
    deviances, effects = [], []
    for _ in range(draws):
        missed, document = family(rng)
        deviances.append(fit_counts(SIZES, missed.sum(axis=0), len(missed))[1] / 2)
        effects.append(np.exp(log_scatter_effect(SIZES)(scatter_sums(missed, document, document).sum(axis=0))))
    error = np.std(deviances) / np.sqrt(draws)
    assert np.mean(deviances) == pytest.approx(np.mean(effects), abs=3.5 * error)
    assert np.mean(effects) > 1.5


def test_models_that_miss_the_same_tokens_have_no_scatter_of_their_own():
    rng = np.random.default_rng(1)
    missed, document = rng.random((20_000, 4)) < 0.05, np.repeat(np.arange(200), 100)
    effect = log_scatter_effect(SIZES)
    assert np.exp(effect(scatter_sums(missed, document, document).sum(axis=0))) == pytest.approx(1, abs=0.25)
    same = np.repeat(missed[:, :1], 4, axis=1)
    same[:3, 1] ^= True  # else the logarithm of nothing
    assert np.exp(effect(scatter_sums(same, document, document).sum(axis=0))) < 0.02


def test_sums_need_a_document_for_each_value():
    with pytest.raises(DataError, match="its document"):
        document_sums(np.ones((3, 1)), [0, 1])


def test_sums_of_documents_that_stand_together_are_those_of_scattered_ones():
    rng = np.random.default_rng(8)
    documents = np.repeat([7, 3, 9, 4], [5, 1, 30, 12])
    values = rng.normal(size=(len(documents), 3))
    scattered = np.concatenate([[0, 5, 6, 36], rng.permutation(np.setdiff1d(np.arange(48), [0, 5, 6, 36]))])
    for order in (np.arange(48), scattered):  # both have the documents' first tokens in one order
        found = document_sums(values[order], documents[order])
        assert found == pytest.approx(np.array([values[documents == each].sum(axis=0) for each in (7, 3, 9, 4)]))
    clusters = np.arange(48) // 2
    clusters[5:7] = [90, 91]  # none reaches into another document
    together = cluster_sums(values[:, 0], clusters, documents)
    assert cluster_sums(values[scattered, 0], clusters[scattered], documents[scattered]) == pytest.approx(together)
