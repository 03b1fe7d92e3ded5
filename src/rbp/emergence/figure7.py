"""Figure 7 of the paper: its eight printed fits, and the ways in which they can have been made."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from rbp.metric import Reals

#: k → (α, R²) as figure 7 prints them above its panels
PRINTED = {
    1: (0.090, 0.884),
    5: (0.110, 0.947),
    10: (0.115, 0.967),
    50: (0.141, 0.972),
    100: (0.143, 0.979),
    500: (0.229, 0.975),
    2500: (0.295, 0.991),
    10000: (0.351, 0.989),
}
SEPARATE, POOLED, COMMON = "mean of a line for each N", "one line for all N", "lines of one slope"
COMBINATIONS = (SEPARATE, POOLED, COMMON)
#: what is done with p = 0: left out, or replaced by a small number
ZEROS: tuple[float | None, ...] = (None, *(10.0**power for power in range(-20, -3)))


def recipe(counts: pd.DataFrame, combination: str, zero: float | None) -> tuple[float, float]:
    """α and R² of ln(−ln p) on ln S by one way of putting the lengths N together.

    counts: the rows of one k, with n, size and p. SEPARATE: a line for each N, then the plain means of α and R²; a
    line through equal values has α = 0 and counts as R² = 1 (as in scikit-learn's r2_score). POOLED: one line through
    ln(−ln p/N), as equation 7 reads. COMMON: one slope, an intercept for each N. zero: what stands for p = 0, or None
    to leave those points out.
    """
    own = counts[counts["p"] > 0] if zero is None else counts.assign(p=counts["p"].mask(counts["p"] == 0, zero))
    own = own.assign(x=np.log(own["size"].astype(float)), y=np.log(-np.log(own["p"])))
    if combination == SEPARATE:
        lines = [_line(rows["x"].to_numpy(), rows["y"].to_numpy()) for _, rows in own.groupby("n") if len(rows) > 2]
        slope, fit = np.mean(lines, axis=0)
        return -float(slope), float(fit)
    if combination == COMMON:
        x, y = (own[name] - own.groupby("n")[name].transform("mean") for name in ("x", "y"))
    else:
        x, y = own["x"], own["y"] - np.log(own["n"])
    slope, fit = _line(x.to_numpy(), y.to_numpy())
    return -slope, fit


def _line(x: Reals, y: Reals) -> tuple[float, float]:
    """Slope and R² by least squares."""
    x, spread = x - x.mean(), y - y.mean()
    total = float(spread @ spread)
    if total < 1e-20:
        return 0.0, 1.0
    slope = float(x @ y) / float(x @ x)
    return slope, 1 - float(np.sum((spread - slope * x) ** 2)) / total


def recipes(counts: pd.DataFrame) -> pd.DataFrame:
    """Every recipe held against the printed numbers, the closest first.

    counts: the published window successes of Pythia, with k, n, size, p. Columns combination, zero (NaN: left out),
    agree (how many of the printed numbers come out to all three digits), numbers (how many there are), alpha_off and
    r_squared_off (the largest differences).
    """
    rows = []
    for combination, zero in product(COMBINATIONS, ZEROS):
        off = np.array([list(_off(counts[counts["k"] == k], k, combination, zero)) for k in PRINTED])
        agree = int((np.abs(off) <= 0.0005 + 1e-5).sum())
        alpha_off, r_squared_off = np.abs(off).max(axis=0)
        rows.append((combination, np.nan if zero is None else zero, agree, off.size, alpha_off, r_squared_off))
    names = ["combination", "zero", "agree", "numbers", "alpha_off", "r_squared_off"]
    table = pd.DataFrame(rows, columns=names)
    return table.sort_values(["agree", "alpha_off"], ascending=[False, True], kind="stable", ignore_index=True)


def _off(counts: pd.DataFrame, k: int, combination: str, zero: float | None) -> Iterator[float]:
    for ours, printed in zip(recipe(counts, combination, zero), PRINTED[k], strict=True):
        yield ours - printed
