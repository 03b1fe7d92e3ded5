import numpy as np
import pandas as pd
import pytest

from rbp.paper.emergence import transitions

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


def test_the_steepest_rise_is_that_of_the_curve():
    x = np.linspace(0, 40, 400_001)
    p = np.exp(-3 * np.exp(-0.5 * x))
    steepest = np.gradient(p, x).max() * np.log(10)
    assert transitions(curves(lengths=(1,)))["steepest"].iloc[0] == pytest.approx(steepest, rel=1e-3)


def test_a_length_without_success_has_no_exponent():
    found = transitions(curves(lengths=(1, 100), windows=1000)).set_index("n")
    assert found.loc[100, "zeros"] > 1
    assert np.isnan(found.loc[100, "alpha"])
