"""What −ln p and entropy tell of a rank, on tokens made so that it is known."""

from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from patsy import dmatrix
from toy_stores import make_store

from companion.chapters.cross_entropy import tokens
from companion.chapters.cross_entropy.tokens import Cells, Tokens
from rbp.measurements import open_source

DOCUMENTS, LENGTH = 40, 500


def made(rank: np.ndarray, nll: np.ndarray, entropy: np.ndarray | None = None) -> Tokens:
    return Tokens(np.repeat(np.arange(DOCUMENTS), LENGTH), np.maximum(1.0, rank), nll, entropy)


def explained(found, outcome: str) -> dict[str, float]:
    own = found[found["outcome"] == outcome]
    return dict(zip(own["by"], own["explained"], strict=True))


def test_cells_hold_about_as_many_tokens_and_their_means_are_shares() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.gamma(2, 2, 20_000), rng.random(20_000)
    for known in ((first,), (first, second)):
        cells = Cells(*known)
        place = cells(*known)
        counts = np.bincount(place, minlength=cells.count)
        assert len(counts) == cells.count
        assert 0.6 <= counts.min() * cells.count / 20_000 <= counts.max() * cells.count / 20_000 <= 1.5
        hit = (first < 3).astype(float)
        means = cells.means(place, hit)
        assert ((means > 0) & (means < 1)).all()
        assert means[place].mean() == pytest.approx(hit.mean(), abs=0.005)
    one = Cells(first, second)
    # of a token the first variable's quantile, then the second's within it
    assert (one(first, second) // one.inner == Cells.__call__(_of_first(one), first)).all()


def _of_first(cells: Cells) -> Cells:
    alone = Cells.__new__(Cells)
    alone._first, alone.inner, alone.count = cells._first, 1, len(cells._first) + 1
    return alone


def test_a_rank_that_is_a_function_of_p_is_told_and_one_that_is_not_is_not() -> None:
    rng = np.random.default_rng(1)
    nll, entropy = rng.gamma(2, 2, DOCUMENTS * LENGTH), rng.uniform(0, 6, DOCUMENTS * LENGTH)
    sure = explained(tokens.explained(made(np.exp(nll), nll, entropy), (10,)), "ln rank")
    assert sure["−ln p"] > 0.99
    assert sure["entropy"] == pytest.approx(0, abs=0.03)
    both = tokens.explained(made(np.exp(0.5 * nll + 0.5 * entropy), nll, entropy), (10,))
    assert explained(both, "ln rank")["both"] > 0.97
    assert explained(both, "ln rank")["−ln p"] < 0.75
    assert explained(both, "rank ≤ 10")["both"] > explained(both, "rank ≤ 10")["−ln p"] + 0.3
    none = tokens.explained(made(np.exp(rng.gamma(2, 2, nll.size)), nll, entropy), (10,))
    for outcome in ("ln rank", "rank ≤ 10"):
        for share in explained(none, outcome).values():
            assert -0.04 < share < 0.005  # cells learn noise, and pay about 2/√T for it: 0.016


def test_without_entropies_p_alone_is_there_and_of_few_documents_nothing() -> None:
    rng = np.random.default_rng(2)
    nll = rng.gamma(2, 2, DOCUMENTS * LENGTH)
    found = tokens.explained(made(np.floor(np.exp(nll)), nll), (1, 10, 10**15))
    assert set(found["by"]) == {"−ln p"}
    assert set(found["outcome"]) == {"ln rank", "rank ≤ 1", "rank ≤ 10"}, "all ranks are at most 10¹⁵"
    few = Tokens(np.arange(100) % 3, np.arange(1.0, 101), nll[:100], None)
    assert tokens.explained(few).empty


def of_390k():
    """The entropies of a shipped model on HumanEval."""
    found = open_source("ladder").entropies
    return next(e for e in found if (e.store.model, e.store.dataset) == ("neox-390k-at-8m", "humaneval"))


@pytest.mark.parametrize("k", [1, 100])
def test_cells_tell_as_much_as_splines(k: int) -> None:
    """Beside statsmodels: a binomial GLM with natural cubic splines of −ln p, on the same folds."""
    found = of_390k()
    own = Tokens.of(found.store, found)
    ours = explained(tokens.explained(own, (k,)), f"rank ≤ {k}")["−ln p"]
    documents = int(own.document.max()) + 1
    fold = np.random.default_rng(0).permutation(documents)[own.document] % tokens.FOLDS
    hit, sure = (own.rank <= k).astype(float), own.nll < np.log(k + 1)  # p · rank ≤ 1: these are hits
    assert hit[sure].all()
    basis = np.zeros((len(hit), 7))
    basis[~sure] = dmatrix("cr(x, df=7) - 1", {"x": np.minimum(own.nll[~sure], np.log(k + 1) + 4)})
    loss = none = 0.0
    for out in range(tokens.FOLDS):
        learn, test = (fold != out) & ~sure, (fold == out) & ~sure
        fit = sm.GLM(hit[learn], basis[learn], family=sm.families.Binomial()).fit()
        said = np.clip(fit.predict(basis[test]), 1e-9, 1 - 1e-9)
        loss -= np.log(np.where(hit[test] > 0.5, said, 1 - said)).sum()
        mean, all_test = hit[fold != out].mean(), hit[fold == out]
        none -= np.log(np.where(all_test > 0.5, mean, 1 - mean)).sum()
    assert ours == pytest.approx(1 - loss / none, abs=0.01)


def test_rounding_the_entropy_changes_nothing_that_is_told() -> None:
    found = of_390k()
    own = Tokens.of(found.store, found)
    coarser = own._replace(entropy=np.round(found.entropy * 8) / 8)  # four times as coarse as what is kept
    fine, coarse = (
        tokens.explained(each, (1, 10)).set_index(["outcome", "by"])["explained"] for each in (own, coarser)
    )
    assert (fine - coarse).abs().max() < 0.01


def pair(folder: Path, change: float) -> None:
    """Two models whose ranks are one function of −ln p, but for a factor exp(change) in the second."""
    rng = np.random.default_rng(3)
    for i, mean in enumerate((3.0, 2.0)):
        nll = rng.gamma(2, mean / 2, DOCUMENTS * LENGTH).astype("float32")
        rank = np.exp(nll + rng.normal(-1, 0.3, nll.size) + i * change).clip(1, 999).astype(int)
        lengths = [LENGTH] * DOCUMENTS
        make_store(folder / f"m{i}", rank - 1, lengths, model=f"m{i}", size=10**i, nll=nll, vocabulary=1000)


def test_a_function_that_is_the_same_is_carried_and_another_is_not(tmp_path: Path) -> None:
    pair(tmp_path / "same", 0)
    same = tokens.transferred(open_source(tmp_path / "same"), (1, 10))
    assert list(same["learnt"]) == ["smallest"] * 2 + ["largest"] * 2
    assert same["moved"].to_numpy() == pytest.approx(1, abs=0.05)
    assert ((same["low"] < same["moved"]) & (same["moved"] < same["high"])).all()
    pair(tmp_path / "other", 1)
    other = tokens.transferred(open_source(tmp_path / "other"), (1, 10))
    assert (np.abs(other["moved"] - 1) > 0.3).all()


def test_of_one_size_and_of_no_ranks_there_is_nothing_to_carry(tmp_path: Path) -> None:
    pair(tmp_path, 0)
    one = open_source(tmp_path / "m0")
    assert tokens.transferred(one).empty
    assert tokens.hit_rates(one).empty
    none = open_source("published").ranked
    assert tokens.explained_by_all(none).empty
    assert tokens.entropies_of(none) == []
    said = tokens.told(tokens.explained_by_all(one))
    assert said["explained.first.alone.min"] == said["explained.first.alone.max"] > 0.1


def test_the_figure_tells_the_smallest_from_the_largest(tmp_path: Path) -> None:
    pair(tmp_path, 0)
    rates = tokens.hit_rates(open_source(tmp_path), (1, 10))
    (key,) = tokens.rates_shown(rates)["figure"].keys
    lines = tokens.rate_panels(rates).single(key).axes[0].lines
    widths = [line.get_linewidth() for line in lines if len(line.get_xdata()) > 2]
    assert sorted(widths) == [0.9, 0.9, 2.2, 2.2]
