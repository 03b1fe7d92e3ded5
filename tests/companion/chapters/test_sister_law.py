"""Cross-entropy's three terms: their identity, their bias and how it goes, their intervals, and what bins do."""

from math import exp, fsum, log
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow, may_be
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from own_sources import stores

from companion.chapters.appendix import sister
from companion.chapters.appendix.sister import QUANTITIES, TERMS, WEIGHTS, Terms
from rbp.errors import DataError, FitError
from rbp.measurements import open_source
from rbp.measurements.counts import Counts
from rbp.measurements.rank_counts import RankCounts

ERRORS = st.integers(1, 300).flatmap(lambda n: arrays(np.int64, n, elements=st.integers(0, 40)))
SEEDS = st.integers(0, 2**32 - 1)


def by_the_book(errors: np.ndarray, nll: np.ndarray) -> tuple[float, float, float]:
    """The terms as the sister law's paper writes them, one error after the other."""
    p, q = {}, {}
    for e in set(errors.tolist()):
        own = nll[errors == e].tolist()
        p[e], q[e] = len(own) / len(errors), exp(-fsum(own) / len(own))
    c = fsum(q.values())
    return (
        -fsum(p[e] * log(p[e]) for e in p),
        fsum(p[e] * log(p[e] / (q[e] / c)) for e in p),
        -log(c),
    )


@given(ERRORS, SEEDS)
def test_the_identity_closes_and_the_terms_are_the_papers(errors: np.ndarray, seed: int) -> None:
    nll = np.random.default_rng(seed).exponential(3.0, len(errors))
    found, added = sister.terms(errors, nll), sister.contributions(errors, nll)
    assert found == pytest.approx(by_the_book(errors, nll), abs=1e-12)
    assert found.sum() == pytest.approx(nll.mean(), abs=1e-12)
    assert added.mean(axis=0) == pytest.approx(found, abs=1e-12)
    assert added.sum(axis=1) == pytest.approx(nll, abs=1e-12)
    assert found[0] >= 0
    assert found[1] >= -1e-12  # a Kullback–Leibler divergence


@given(ERRORS, SEEDS, st.integers(1, 9))
def test_whatever_the_parts_their_mean_keeps_cross_entropy(errors: np.ndarray, seed: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    nll, part = rng.exponential(3.0, len(errors)), rng.integers(0, parts, len(errors))
    found = sister.terms(errors, nll, part)
    alone = [(np.mean(part == i), by_the_book(errors[part == i], nll[part == i])) for i in set(part.tolist())]
    assert found == pytest.approx(sum(share * np.array(each) for share, each in alone), abs=1e-12)
    assert found.sum() == pytest.approx(nll.mean(), abs=1e-12)


@given(ERRORS.filter(lambda errors: len(errors) >= 4), SEEDS)
def test_the_correction_keeps_the_sum(errors: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nll = rng.exponential(3.0, len(errors))
    documents = np.sort(np.append(np.arange(4), rng.integers(0, 20, len(errors) - 4)))
    assert sister.without_bias(errors, nll, documents).sum() == pytest.approx(nll.mean(), abs=1e-12)


def test_the_weights_take_away_two_orders() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    for order in (1, 2):  # T/n tokens have the bias (n/T)^order
        assert sum(weight * n**order for n, weight in WEIGHTS.items()) == pytest.approx(0, abs=1e-12)


def test_a_contribution_is_the_derivative_of_the_terms() -> None:
    rng = np.random.default_rng(5)
    errors, nll = rng.geometric(0.2, 60) - 1, rng.exponential(2.0, 60)
    added, before, times = sister.contributions(errors, nll), sister.terms(errors, nll), 3000
    many = np.tile(errors, times), np.tile(nll, times)
    for token in (0, 17, 42):
        after = sister.terms(np.append(many[0], errors[token]), np.append(many[1], nll[token]))
        slope = (after - before) * (60 * times + 1)
        assert slope == pytest.approx(added[token] - before, abs=2e-3)


# ── A text whose terms are known: p falls with the error as a power, ln p is normal about −m_e

V = 200
P = (np.arange(1, V + 1) ** -1.2) / (np.arange(1, V + 1) ** -1.2).sum()
MEAN = 0.8 + 0.9 * np.log(np.arange(1, V + 1))
C = np.exp(-MEAN).sum()
KNOWN = np.array([-(P @ np.log(P)), P @ (np.log(P) + MEAN + np.log(C)), -np.log(C)])


def text(rng: np.random.Generator, documents: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """errors, nll, document of a text with KNOWN terms; documents differ in how hard they are, by what cancels."""
    errors = rng.choice(V, documents * length, p=P)
    shift = np.repeat(rng.normal(0, 0.3, documents), length)
    return errors, MEAN[errors] + shift + rng.normal(0, 0.5, len(errors)), np.repeat(np.arange(documents), length)


@pytest.mark.parametrize("draws", loop_and_slow(40, 400))
def test_the_correction_finds_the_known_terms(draws: int) -> None:
    rng = np.random.default_rng(11)
    texts = [text(rng, 40, 600) for _ in range(draws)]
    plain = np.array([sister.terms(errors, nll) for errors, nll, _ in texts]) - KNOWN
    free = np.array([sister.without_bias(*each) for each in texts]) - KNOWN
    error = free.std(axis=0, ddof=1) / np.sqrt(draws)
    assert plain.mean(axis=0)[1] > 0.005  # what rare errors lack turns up in self-alignment
    assert (np.abs(free.mean(axis=0)) < 4 * error + 0.001).all()


def test_the_correction_of_error_entropy_holds_where_tokens_are_few() -> None:
    """Twelve tokens for each rank of the vocabulary: there the other two terms are beyond extrapolation."""
    rng = np.random.default_rng(11)
    texts = [text(rng, 40, 60) for _ in range(60)]
    plain = np.mean([sister.terms(errors, nll)[0] for errors, nll, _ in texts]) - KNOWN[0]
    free = np.mean([sister.without_bias(*each)[0] for each in texts]) - KNOWN[0]
    assert plain < -0.03
    assert abs(free) < abs(plain) / 2


@pytest.mark.parametrize("draws", loop_and_slow(60, 1000))
def test_the_interval_of_a_share_covers_it(draws: int) -> None:
    rng = np.random.default_rng(2)
    true, covered = KNOWN[0] / KNOWN.sum(), 0
    for _ in range(draws):
        errors, nll, documents = text(rng, 30, 400)
        added = sister.contributions(errors, nll)
        mean = added.mean(axis=0)
        moves = np.stack([np.bincount(documents, column) for column in (added - mean).T], axis=1) / len(errors)
        share = sister.without_bias(errors, nll, documents)[0] / mean.sum()
        half = sister.half_width((moves[:, 0] - share * moves.sum(axis=1)) / mean.sum(), 0.9)
        covered += abs(share - true) <= half
    assert may_be(covered, draws, 0.85, 0.95)


def test_documents_are_dealt_out_evenly() -> None:
    tokens = np.random.default_rng(1).integers(50, 150, 100)
    part = sister.deal(tokens, 7, np.random.default_rng(2))
    sums = np.bincount(part, tokens)
    assert len(sums) == 7
    assert np.abs(sums / sums.mean() - 1).max() < 0.15
    assert len(set(sister.deal(tokens[:3], 3, np.random.default_rng(0)))) == 3


# ── Families


def rung(size: int, free: tuple[float, float, float], influence: np.ndarray | None = None) -> Terms:
    moves = np.zeros((5, 3)) if influence is None else influence
    counts = RankCounts.of_ranks(np.array([1, 1, 2]), 10)
    tokens = np.full(5, 100)
    terms = np.array(free)
    return Terms("text", f"m{size}", "F", size, 500, tokens, terms, terms, moves, counts)


def test_exponents_are_recovered_and_the_parts_of_a_fall_add_up() -> None:
    sizes = np.array([1e4, 1e5, 1e6, 1e7]).astype(int)
    family = [rung(s, (5 * s**-0.05, 0.3 * s**-0.1, -0.1 * s**0.02)) for s in sizes]
    fits = sister.fits(family).set_index("metric")
    assert fits.loc["error_entropy", "alpha"] == pytest.approx(0.05)
    assert fits.loc["self_alignment", "alpha"] == pytest.approx(0.1)
    assert fits.loc["log_c", "alpha"] == pytest.approx(-0.02)
    assert set(fits.index) == set(QUANTITIES)
    change = sister.changes(family).iloc[0]
    assert change[list(TERMS)].sum() == pytest.approx(1)
    assert change["error_entropy"] * change["fall"] == pytest.approx(5 * (1e4**-0.05 - 1e7**-0.05))


def test_documents_move_the_exponent_as_they_move_the_terms() -> None:
    sizes = np.array([1e4, 1e5, 1e6, 1e7]).astype(int)
    rng = np.random.default_rng(3)
    tilt = rng.normal(0, 0.01, 5)
    tilt -= tilt.mean()
    x = np.log(sizes) - np.log(sizes).mean()
    family = []
    for s, at in zip(sizes, x, strict=True):
        value = 5 * s**-0.05
        family.append(rung(s, (value, 0.3, -0.1), np.outer(value * at * tilt, [1, 0, 0])))
    found = sister.fits(family).set_index("metric").loc["error_entropy"]
    assert (found.text_high - found.text_low) / 2 == pytest.approx(sister.half_width(tilt, 0.95))


def test_a_term_that_is_not_above_0_has_a_note_and_no_law() -> None:
    family = [rung(s, (5 * s**-0.05, 0.3, 0.1)) for s in (10_000, 100_000, 1_000_000)]
    fits = sister.fits(family).set_index("metric")
    assert np.isnan(fits.loc["log_c", "alpha"])
    assert "no logarithm" in fits.loc["log_c", "note"]


# ── Sources


def test_a_readers_stores_give_every_table(tmp_path: Path) -> None:
    stores(tmp_path / "own", models=4, datasets=("mine", "yours"))
    source = open_source(tmp_path / "own", "strict")
    rungs = sister.measure(source)
    assert len(rungs) == 8
    assert all(one.free.sum() == pytest.approx(one.cross_entropy, abs=1e-12) for one in rungs)
    ranked = source.stores[0].ranks()
    assert rungs[0].measured == pytest.approx(by_the_book(ranked.greater.to_numpy(), ranked.nll.to_numpy(float)))
    table = sister.shares(rungs)
    assert ((table.low < table.share) & (table.share < table.high)).all()
    curves = sister.share_by_tokens(source)
    assert set(curves.model) == {"m0", "m3"}
    bins = sister.in_bins(open_source("published").histograms)
    assert ((bins.least <= bins.filled) & (bins.filled <= bins.most)).all()


def test_what_a_source_lacks_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rank stores"):
        sister.measure(open_source("published", "strict"))
    stores(tmp_path / "one", models=4, documents=1)
    with pytest.raises(DataError, match="1 documents are too few"):
        sister.measure(open_source(tmp_path / "one", "strict"))
    stores(tmp_path / "two", models=2)
    with pytest.raises(FitError, match="no law can be fitted"):
        sister.fits(sister.measure(open_source(tmp_path / "two", "strict")))


@pytest.mark.parametrize(
    ("errors", "nll", "what"),
    [
        ([], [], "each token needs"),
        ([-1], [1.0], "each token needs"),
        ([0, 1], [1.0], "each token needs"),
        ([0.5], [1.0], "whole number"),
        ([0], [np.inf], "no finite"),
    ],
)
def test_bad_tokens_are_refused(errors: list[float], nll: list[float], what: str) -> None:
    with pytest.raises(DataError, match=what):
        sister.terms(np.array(errors), np.array(nll))


def test_the_tail_of_failures_is_that_of_a_power_law() -> None:
    """P(e ≥ n) = n^(1 − β) exactly: 1 − RBP_n of two documents, each with a million tokens."""
    beta, tokens = 2.4, 1_000_000
    missed = np.round(tokens * np.array([10.0, 100.0]) ** (1 - beta))
    hits = np.tile((tokens - missed).astype(np.int64), (2, 1, 1))
    models = pd.DataFrame({"model": ["m"], "family": "f", "size": 10, "budget": 1, "seed": 0})
    one = Counts("text", models, 1000, (10, 100), np.array([tokens, tokens]), hits, np.full((2, 1), 3.0 * tokens))
    (row,) = sister.tail_exponents([one], 10, 100).to_dict("records")
    assert row["exponent"] == pytest.approx(beta, abs=1e-4)
    assert row["low"] == pytest.approx(row["high"])  # documents that are alike
