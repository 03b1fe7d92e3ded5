import time

import numpy as np
import numpy.typing as npt
import pytest

from rbp.core.errors import DataError, ParameterError
from rbp.evidence import published
from rbp.stats import recovery
from rbp.stats.recovery import Recovery

FOUND = {
    ("hotpotqa", "GPT-2"): 24141,
    ("hotpotqa", "OPT"): 24141,
    ("hotpotqa", "Pythia"): 24782,
    ("hotpotqa", "Qwen2.5"): 24468,
    ("humaneval", "GPT-2"): 42400,
    ("humaneval", "OPT"): 42391,
    ("humaneval", "Pythia"): 33233,
    ("humaneval", "Qwen2.5"): 30655,
}


def rounded_to_decimals(share: npt.ArrayLike, decimals: int) -> float:
    """How far the shares are from multiples of 10^−decimals at most, as a fraction of that step (0 … 0.5).

    Near 0 the shares had been rounded to so many decimals; shares that had not come out near 0.5.
    """
    scaled = np.asarray(share, dtype=np.float64) * 10.0**decimals
    return float(np.abs(scaled - np.rint(scaled)).max())


def could_be_counts(share: npt.ArrayLike, tokens: int, *, decimals: int) -> npt.NDArray[np.bool_]:
    """Whether each share, rounded to `decimals`, can be a whole number over `tokens` (elementwise)."""
    part = np.asarray(share, dtype=np.float64)
    step = 10.0**-decimals
    # half a step of rounding, and a hundredth of one for the reading
    return np.abs(np.rint(part * tokens) / tokens - part) <= 0.51 * step


def recover_tokens(neg_log_rbp: npt.ArrayLike, *, relative_error: float, candidates: npt.ArrayLike) -> Recovery:
    """N behind several −ln RBP_k, each read to a relative standard deviation."""
    value = np.asarray(neg_log_rbp)
    return recovery.recover_total(np.exp(-value), value * np.exp(-value) * relative_error, candidates)


def points(dataset, family, figure_5=False):
    table = published.rbp()
    families = published.models().set_index("model")["family"]
    chosen = (table["dataset"] == dataset) & (table["model"].map(families) == family)
    return table[chosen & ((table["source"] == "figure 5") == figure_5)]


def test_small_datasets_are_identified_fast():
    start = time.process_time()
    for (dataset, family), tokens in FOUND.items():
        found = recover_tokens(
            points(dataset, family)["neg_log_rbp"],
            relative_error=recovery.READING_ERROR,
            candidates=np.arange(1000, 100_001),
        )
        assert found.tokens == tokens
        assert found.identified
        assert found.margin > 90
        assert found.largest_fraction < 0.06
        if dataset == "humaneval":
            assert tokens <= recovery.protocol_bound(dataset) == 83_804
    assert time.process_time() - start < 5


def test_the_known_count_of_gpt2_on_wikipedia_is_found_blindly():
    found = recover_tokens(
        points("wikipedia", "GPT-2")["neg_log_rbp"],
        relative_error=recovery.READING_ERROR,
        candidates=np.arange(1000, recovery.protocol_bound("wikipedia") + 1),
    )
    assert set(published.gpt2_window_counts().query("n == 1")["windows"]) == {317414}
    assert found.tokens == 317414
    assert found.identified


def test_rounded_shares_of_figure_5_confirm_hotpotqa():
    # independent of the recovery, which leaves figure 5 out
    for family in ("GPT-2", "OPT", "Pythia"):
        share = np.exp(-points("hotpotqa", family, figure_5=True)["neg_log_rbp"])
        tokens = FOUND["hotpotqa", family]
        assert could_be_counts(share, tokens, decimals=6).all()
        assert not could_be_counts(share, tokens + 7, decimals=6).all()
        assert not could_be_counts(share, tokens - 7, decimals=6).all()


def test_figure_5_is_rounded_to_six_decimals():
    table = published.rbp()
    share = np.exp(-table["neg_log_rbp"])
    figure_5 = table["source"] == "figure 5"
    assert rounded_to_decimals(share[figure_5], 6) < 0.004
    assert rounded_to_decimals(share[figure_5], 5) > 0.3
    assert rounded_to_decimals(share[~figure_5], 6) > 0.4


@pytest.mark.parametrize("tokens", [24_001, 30_000])
def test_simulated_counts_are_found(tokens):
    rng = np.random.default_rng(tokens)
    found = 0
    for _ in range(20):
        value = -np.log(rng.binomial(tokens, rng.uniform(0.3, 0.97, 40)) / tokens)
        value *= 1 + rng.normal(0, 2e-6, value.size)
        result = recover_tokens(value, relative_error=2e-6, candidates=np.arange(10_000, 100_000))
        found += result.tokens == tokens and result.identified
    assert found == 20


def test_arbitrary_numbers_are_not_identified():
    rng = np.random.default_rng(0)
    candidates = np.arange(10_000, 30_000)
    best = []
    for _ in range(100):
        found = recover_tokens(rng.uniform(0.02, 1.2, 40), relative_error=2e-6, candidates=candidates)
        assert not found.identified
        best.append(found.log_likelihood)
    # Markov's bound behind the rule: the best likelihood exceeds candidates/q in a share q of the draws at most
    for q in (0.5, 0.2):
        assert np.mean(np.array(best) > np.log(candidates.size / q)) <= q


def test_the_likelihood_averages_one_over_the_circle():
    # what Markov's inequality needs: against evenly spread distances no candidate gains in the mean
    position = np.linspace(-0.5, 0.5, 200_001)[:-1]
    for sd in (0.01, 0.1, 0.1999, 0.2, 0.4, 3.0):
        density = recovery._wrapped_normal(position, np.full(position.size, sd))
        assert density.mean() == pytest.approx(1, abs=0.013)
        assert density.min() >= 0
        images = sum(np.exp(-0.5 * ((position + turn) / sd) ** 2) for turn in range(-20, 21))
        np.testing.assert_allclose(density, images / (sd * np.sqrt(2 * np.pi)), atol=0.09)


def test_multiples_and_divisors():
    value = -np.log(np.array([7001, 8003, 9001, 5003, 4001, 9973, 2003, 6007]) / 10_007)
    both = recover_tokens(value, relative_error=1e-6, candidates=[10_007, 20_014, 15_000, 12_345])
    assert both.tokens == 10_007
    assert both.runner_up in (15_000, 12_345)
    assert 0 < 1 - both.posterior < 0.01  # what is left is that of 2N: a factor of two for each reading
    assert both.posterior == pytest.approx(1 / (1 + 2.0**-8), rel=1e-2)


def test_rank_bins_count_pythia_on_wikipedia():
    neg_log_rbp = points("wikipedia", "Pythia").query("k == 1").set_index("model")["neg_log_rbp"]
    totals = {}
    for model, bins in published.rank_bins().groupby("model"):
        mass = bins["mass"] / bins["mass"].sum()
        found = recovery.recover_total(mass, mass * 2e-6, np.arange(100_000, 300_000))
        assert found.identified
        totals[model.removeprefix("EleutherAI/pythia-")] = found.tokens / -np.expm1(-neg_log_rbp[model])
    together = recover_tokens(
        points("wikipedia", "Pythia")["neg_log_rbp"],
        relative_error=recovery.READING_ERROR,
        candidates=np.arange(200_000, 511_001),
    )
    assert together.tokens == 317_684
    assert together.identified
    assert totals["1.4b"] == pytest.approx(317_684, abs=1)
    # the others' bins hold up to three tokens fewer
    assert all(317_679 < total < 317_684.5 for total in totals.values())


def test_impossible_inputs():
    good = {"relative_error": 1e-6, "candidates": [10, 11]}
    for value in ([], [np.nan], [-0.1]):
        with pytest.raises(DataError):
            recover_tokens(value, **good)
    for change in ({"relative_error": 0}, {"candidates": [10]}, {"candidates": [0, 1]}, {"candidates": [1.5, 2]}):
        with pytest.raises(ParameterError):
            recover_tokens([0.5], **(good | change))
    with pytest.raises(DataError):
        recovery.recover_total([1.5], 1e-6, [10, 11])
    with pytest.raises(ParameterError, match="humaneval"):
        recovery.protocol_bound("c4")
