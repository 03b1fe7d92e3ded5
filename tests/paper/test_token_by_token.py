"""What −ln p and entropy tell of a rank, on tokens made so that it is known; and one temperature."""

from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from patsy import dmatrix
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar
from toy_stores import make_store

from rbp.core.errors import ParameterError
from rbp.evidence import open_source
from rbp.paper import token_by_token as tokens
from rbp.paper.token_by_token import Cells, Tokens
from rbp.ranks.entropies import TEMPERATURES, Entropies, write_entropies
from rbp.ranks.store import RankStore

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


def test_the_extremes_are_those_of_the_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    greater, nll = rng.integers(0, 50, 300), rng.gamma(2, 2, 300).astype("float32")
    store = make_store(tmp_path / "ranks" / "one", greater, [100, 200], nll=nll)
    own = Tokens.of(store)
    found = tokens.extremes(store, own, count=3)
    apart = [
        sum(nll < x) + sum(nll == x) / 2 - sum(greater < g) - sum(greater == g) / 2
        for x, g in zip(nll, greater, strict=True)
    ]
    for sort, order in found.groupby("sort"):
        best = sorted(range(300), key=lambda i, s=sort: apart[i] if s.startswith("probable") else -apart[i])
        unlike, seen = [], set()
        for i in best:  # of each token of the vocabulary the first alone; token i is i modulo 100
            if i % 100 not in seen:
                seen.add(i % 100)
                unlike.append(i)
        assert list(order["p"]) == pytest.approx(list(np.exp(-nll[unlike[:3]])))
        assert list(order["rank"]) == [greater[i] + 1 for i in unlike[:3]]
    assert found["token"].str.fullmatch(r"#\d+").all(), "without a tokenizer, tokens are numbers"


def test_the_minimum_of_a_spline_is_found() -> None:
    grid, rng = np.log(TEMPERATURES), np.random.default_rng(5)
    for _ in range(20):
        best, width = rng.uniform(-0.5, 0.5), rng.uniform(0.5, 2)
        values = np.cosh((grid - best) / width)
        spline = CubicSpline(grid, values)
        exact = minimize_scalar(spline, bounds=(grid[0], grid[-1]), method="bounded", options={"xatol": 1e-10}).x
        assert float(tokens.minimum(grid, values)) == pytest.approx(exact, abs=1e-5)
        assert exact == pytest.approx(best, abs=0.01)
    assert float(tokens.minimum(grid, grid)) == pytest.approx(grid[0], abs=0.003)
    assert np.isnan(tokens.minimum(grid, np.full(len(grid), np.nan)))


def scaled(folder: Path, sizes: dict[int, float], best: float) -> list[Entropies]:
    """Models whose logits are `best` times too large: those of a chain over 20 tokens, which the text follows."""
    rng, found = np.random.default_rng(6), []
    for size, spread in sizes.items():
        logits = rng.normal(0, spread, (DOCUMENTS * LENGTH, 20))
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        truth = (chances.cumsum(1) < rng.random((len(logits), 1))).sum(1).clip(max=19)
        logits = logits * best
        own = logits[np.arange(len(logits)), truth]
        nll = np.stack([np.log(np.exp(logits / t).sum(1)) - own / t for t in TEMPERATURES], axis=1)
        sharp = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        greater = (logits > own[:, None]).sum(1)
        about = {"model": f"m{size}", "size": size, "nll": nll[:, TEMPERATURES.index(1.0)].astype("float32")}
        store: RankStore = make_store(folder / f"m{size}", greater, [LENGTH] * DOCUMENTS, **about)
        document = np.repeat(np.arange(DOCUMENTS), LENGTH)
        write_entropies(store, -(sharp * np.log(sharp)).sum(1), document, nll)
        found.append(Entropies(store))
    return found


def test_a_temperature_that_is_known_is_found_and_moves_no_rank(tmp_path: Path) -> None:
    right = tokens.calibrated(scaled(tmp_path / "right", {1: 1.0, 10: 1.5, 100: 2.0}, 1.0))
    wrong = tokens.calibrated(scaled(tmp_path / "wrong", {1: 1.0, 10: 1.5, 100: 2.0}, 1.3))
    np.testing.assert_allclose(right["temperature"], 1.0, atol=0.03)
    np.testing.assert_allclose(wrong["temperature"], 1.3, atol=0.04)
    np.testing.assert_allclose(right["gain"], 0, atol=0.002)
    assert (wrong["gain_low"] > 0.01).all()
    np.testing.assert_array_equal(right["hit"], wrong["hit"])
    np.testing.assert_allclose(wrong["calibrated"], right["cost"], atol=0.003)  # the same predictions again
    np.testing.assert_allclose(wrong["entropy"] < wrong["cost"] - 0.05, True)  # too sure
    np.testing.assert_allclose(right["entropy"], right["cost"], atol=0.03)
    assert wrong["slope_calibrated"][0] == pytest.approx(right["slope"][0], abs=0.03)
    assert wrong["slope_change"][0] == pytest.approx(wrong["slope_calibrated"][0] - wrong["slope"][0])


def test_a_text_that_is_not_there_is_said() -> None:
    with pytest.raises(ParameterError, match="There is: wikipedia"):
        tokens.chosen(open_source("ladder"), "poems")
