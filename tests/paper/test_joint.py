import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import FitError
from rbp.paper.emergence import fit_joint, fit_joint_table

SIZES = np.geomspace(1e6, 1e10, 10)


def law(alpha=0.15, length=0.6, constant=2.0, windows=10**6, scatter=0.0, seed=0):
    rng = np.random.default_rng(seed)
    parts = []
    for n in (1, 2, 5, 10, 50, 200):
        y = np.exp(constant + length * np.log(n) - alpha * np.log(SIZES) + scatter * rng.standard_normal(10))
        parts.append(
            pd.DataFrame({"model": np.arange(10).astype(str), "size": SIZES, "n": n, "windows": windows, "y": y})
        )
    table = pd.concat(parts, ignore_index=True)
    return table.assign(successes=np.rint(windows * np.exp(-table["y"])).astype(int))


def test_the_law_is_found_and_its_interval_covers_it():
    fit = fit_joint(law(windows=10**12, scatter=0.02))
    assert fit.alpha_low < 0.15 < fit.alpha_high
    assert fit.length_low < 0.6 < fit.length_high
    assert fit.scatter == pytest.approx(0.02, rel=0.3)
    assert fit.r_squared > 0.95
    assert fit.zeros == 0


def test_without_zeros_it_is_least_squares():
    table = law(windows=10**12, scatter=0.1)
    design = np.column_stack([np.ones(len(table)), np.log(table["n"]), -np.log(table["size"])])
    y = np.log(-np.log(table["successes"] / table["windows"]))
    constant, length, alpha = np.linalg.lstsq(design, y, rcond=None)[0]
    fit = fit_joint(table)
    assert (fit.constant, fit.length, fit.alpha) == pytest.approx((constant, length, alpha), rel=1e-9)
    held = fit_joint(table, free_length=False)
    constant, alpha = np.linalg.lstsq(design[:, [0, 2]], y - np.log(table["n"]), rcond=None)[0]
    assert (held.constant, held.alpha, held.length) == pytest.approx((constant, alpha, 1.0), rel=1e-9)


def test_zeros_do_not_bend_the_law():
    """Twenty thousand windows leave the long ones without success; leaving those points out would bend the fit."""
    table = law(windows=20_000, scatter=0.05)
    zeros = table["successes"] == 0
    assert zeros.sum() >= 5
    fit = fit_joint(table)
    assert fit.zeros == zeros.sum()
    assert fit.alpha == pytest.approx(0.15, abs=0.015)
    assert fit.length == pytest.approx(0.6, abs=0.02)


def test_few_models_make_no_fit():
    table = law()
    with pytest.raises(FitError, match="2 models"):
        fit_joint(table[table["model"].isin(["0", "1"])])
    with pytest.raises(FitError):
        fit_joint_table(table[table["model"] == "0"].assign(dataset="d", family="f", k=1))


def test_the_table_holds_both_kinds():
    found = fit_joint_table(law(scatter=0.05).assign(dataset="d", family="f", k=1))
    assert found["kind"].tolist() == ["equation 7", "free length"]
    assert found["length"].tolist()[0] == 1
