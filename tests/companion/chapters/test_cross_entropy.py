"""Rank against cross-entropy: families where one is and is not a function of the other, of known slopes and offsets."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from draws import loop_and_slow, may_be
from simulated import counts

from companion.chapters import cross_entropy as ce

SIZES = np.geomspace(1e5, 1e9, 8)
SLOPES = {1: 0.9, 10: 1.5}


def family(name="A", *, scale=1.0, noise=0.0, seed=0, sizes=SIZES):
    """Models whose −ln RBP_k is scale·(CE/10)^slope, up to noise; their CE falls from 7 to 3 by a power of S."""
    rng = np.random.default_rng(seed)
    at = 7 * (sizes / 1e5) ** (-np.log(7 / 3) / np.log(1e4))
    parts = []
    for k, slope in SLOPES.items():
        rank = scale * (at / 10) ** slope * np.exp(rng.normal(0, noise, len(at)))
        about = {"dataset": "news", "family": name, "k": k, "size": sizes.astype(int)}
        parts.append(pd.DataFrame(about | {"cross_entropy": at, "neg_log_rbp": rank}))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(model=f"{name}-" + table["size"].astype(str))


def test_slopes_are_recovered_and_scatter_is_that_of_polynomials_by_another_library():
    own = family(noise=0.02)
    row = ce.entropy_curves(own).set_index("k").loc[10]
    assert row.low < row.slope < row.high
    exact = ce.entropy_curves(family(noise=1e-9)).set_index("k").slope
    assert exact.to_dict() == pytest.approx(SLOPES, rel=1e-6)
    one = own[own.k == 10]
    for of, x in (("", one.cross_entropy), ("_size", one["size"])):
        for name, degree in (("scatter", 1), ("smooth", 2)):
            fit = np.polynomial.Polynomial.fit(np.log(x), np.log(one.neg_log_rbp), degree)
            left = np.log(one.neg_log_rbp) - fit(np.log(x))
            scatter = np.sqrt((left**2).sum() / (len(one) - degree - 1))
            assert row[name + of] == pytest.approx(100 * (np.exp(scatter) - 1), rel=1e-6)


def test_the_analysis_of_covariance_is_statsmodels_own():
    points = pd.concat([family("A", noise=0.03), family("B", scale=1.05, noise=0.03, seed=1, sizes=SIZES[1:6])])
    one = points[points.k == 1]
    row = ce.compare_groups(one, ["dataset", "k"], "family", level=0.9).iloc[0]
    y, x = np.log(one.neg_log_rbp), np.log(one.cross_entropy / row["at"])
    frame = one.assign(y=y, x=x, other=one.family.eq("B") * 1.0)
    fit = smf.ols("y ~ x * other", frame).fit()
    low, high = 100 * np.expm1(fit.conf_int(0.1).loc["other"])
    assert (row.offset, row.low, row.high) == pytest.approx((100 * np.expm1(fit.params["other"]), low, high))
    turned = ce.compare_groups(one, ["dataset", "k"], "family", order=["B"]).iloc[0]
    assert (1 + turned.offset / 100) * (1 + row.offset / 100) == pytest.approx(1)


def simulated(rng, *, dataset="news", documents=30, slope=1.5, sizes=(1, 2, 4, 8, 8, 16), again=0.99, offset=0.0):
    """Documents that are easier or harder for all: in expectation, −ln RBP_1 is 0.3·CE^slope in every one of them.

    A model of the size of the one before has `again` times its CE; −ln RBP_1 is higher by `offset` (a share, or one for
    each model) at equal CE.
    """
    models = len(sizes)
    typical = 5 * np.asarray(sizes, dtype=float) ** -0.1 * np.where(np.append(False, np.diff(sizes) == 0), again, 1.0)
    hard = np.exp(rng.normal(0, 0.15, documents))[:, None]
    tokens = rng.integers(800, 1200, documents)
    nll = tokens[:, None] * (typical * hard + rng.normal(0, 3 / np.sqrt(1000), (documents, models)))
    share = np.exp(-0.3 * typical**slope * (1 + offset))
    logit = np.log(share / (1 - share)) - (hard - 1)
    hits = rng.binomial(tokens[:, None], 1 / (1 + np.exp(-logit)))
    return counts([f"m{i}" for i in range(models)], sizes, [1], tokens, hits[:, :, None], nll, dataset=dataset)


@pytest.mark.parametrize("draws", loop_and_slow(20, 600))
def test_intervals_from_documents_cover_what_many_documents_give(draws):
    """The texts' offset, against the value of a text without end."""
    texts, covered, without_end = ({}, {"slope": 1.7, "dataset": "poems"}), 0, np.random.default_rng(99)
    lines = [ce.line_of_rungs(simulated(without_end, documents=200_000, **how).left_out(), 1) for how in texts]
    news, poems = (at_0[0] + slope[0] * np.log(4.4) for at_0, slope in lines)
    at_texts = 100 * np.expm1(poems - news)
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        low, high = ce.text_offset(*(simulated(rng, **how).left_out() for how in texts), 1, 4.4, 0.95)
        covered += low <= at_texts <= high
    assert may_be(covered, draws, 0.92, 0.975)


#: three sizes, of which two have three models each
AGAIN = {"sizes": (1, 2, 2, 2, 4, 4, 4, 16), "again": 1.0}


def several(seed, *, common=0.0, own=0.0, texts=4, documents=40):
    """Texts on which trainings differ at equal CE by these standard deviations: on all alike, and on each."""
    rng = np.random.default_rng(seed)
    alike = rng.normal(0, common, 8)
    offsets = [np.expm1(alike + rng.normal(0, own, 8)) for _ in range(texts)]
    how = AGAIN | {"documents": documents}
    return [simulated(rng, dataset=f"t{i}", **how, offset=offset).left_out() for i, offset in enumerate(offsets)]


def test_trainings_vary_as_the_mixed_model_of_another_library_has_them():
    texts = several(0, common=0.03, own=0.02)
    row = ce.measure_trainings(texts).iloc[0]
    parts = []
    for text in texts:
        y = text.at(1)[0] - ce.line_of_rungs(text, 1)[1][0] * text.x[0]
        about = {"y": 100 * y, "text": text.counts.dataset, "size": text.counts.sizes, "model": text.counts.names}
        parts.append(pd.DataFrame(about)[1:7])
    long = pd.concat(parts)
    fit = smf.mixedlm("y ~ C(text) * C(size)", long, groups="model").fit(reml=True)
    common, own = float(fit.cov_re.iloc[0, 0]), fit.scale
    assert (row.models, row.texts) == (4, 4)
    assert row.common == pytest.approx(100 * np.expm1(np.sqrt(common) / 100), rel=0.01, abs=0.02)
    assert row.moved == pytest.approx(100 * np.expm1(np.sqrt(common + own) / 100), rel=0.01)
