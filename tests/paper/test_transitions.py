import numpy as np
import pandas as pd
import pytest

from rbp.paper.emergence import algebra, transitions

SIZES = np.geomspace(1e6, 1e12, 13)


def curves(alpha=0.5, lengths=(1, 3, 6), windows=10**15):
    parts = []
    for n in lengths:
        p = np.exp(-3 * n * (SIZES / 1e6) ** -alpha)
        successes = np.rint(p * windows).astype(np.int64)
        parts.append(pd.DataFrame({"size": SIZES, "n": n, "successes": successes, "windows": windows}))
    return pd.concat(parts).assign(dataset="d", family="f", k=1)


def test_the_law_is_no_sharper_for_longer_windows():
    found = transitions(curves()).set_index("n")
    assert found["visible"].tolist() == [True, True, True]
    assert found["turns"].all()
    assert found["rises"].tolist() == [12, 12, 12]
    one, six = found.loc[1], found.loc[6]
    assert one["alpha"] == pytest.approx(0.5, rel=1e-3)
    assert one["steepest"] == pytest.approx(six["steepest"], rel=1e-3)
    # six times N moves the curve by ln(6)/α, no more
    assert six["half"] / one["half"] == pytest.approx(6**2, rel=1e-2)


def test_the_algebra_of_section_5_1_says_what_the_curves_show():
    follows = {step for step, verdict in algebra().items() if verdict == "follows"}
    assert follows == {"equation6", "equation7", "sigmoid"}
    # by numbers: N independent trials; and the slope against ln S of two lengths, with one sign change of its slope
    drawn = np.random.default_rng(1).random((200_000, 4)) < 0.6
    assert drawn.all(axis=1).mean() == pytest.approx(0.6**4, abs=4 * np.sqrt(0.6**4 / 200_000))
    x = np.linspace(-5, 40, 4501)
    slopes = [np.gradient(np.exp(-3 * n * np.exp(-0.5 * x)), x) for n in (1, 50)]
    assert slopes[0].max() == pytest.approx(slopes[1].max(), rel=1e-5)
    seen = slopes[1][slopes[1] > 1e-6]
    assert (np.diff(seen)[: seen.argmax()] > 0).all()
    assert (np.diff(seen)[seen.argmax() :] < 0).all()


def test_the_steepest_rise_is_that_of_the_curve():
    x = np.linspace(0, 40, 400_001)
    p = np.exp(-3 * np.exp(-0.5 * x))
    steepest = np.gradient(p, x).max() * np.log(10)
    assert transitions(curves(lengths=(1,)))["steepest"].iloc[0] == pytest.approx(steepest, rel=1e-3)


def test_a_length_without_success_has_no_exponent():
    found = transitions(curves(lengths=(1, 100), windows=1000)).set_index("n")
    assert found.loc[100, "zeros"] > 1
    assert found.loc[100, "idle"] == found.loc[100, "zeros"] - 1
    assert np.isnan(found.loc[100, "alpha"])
