"""What a larger threshold k is worth in parameters: the preprint's formula, its integral, and the measurements.

With −ln RBP_k = A·S^(−α_S)·k^(−α_k), RBP_k stays the same where d ln S = −(α_k/α_S) d ln k. The preprint of 3
October 2025 (its appendix B) writes ΔS/S ≈ −(α_k/α_S)·Δk/k, which is this for small steps.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.errors import FitError, ParameterError
from rbp.scaling.in_k import MODEL
from rbp.scaling.points import check_points
from rbp.scaling.powerlaw import fit_power_law


def local_factor(ratio: npt.ArrayLike, k_from: float, k_to: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """S′/S = 1 − ratio·(k_to − k_from)/k_from, with ratio = α_k/α_S: the preprint's formula. Negative = no size."""
    return 1 - np.asarray(ratio, float) * (np.asarray(k_to, float) - k_from) / k_from


def exact_factor(ratio: npt.ArrayLike, k_from: float, k_to: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """S′/S = (k_to/k_from)^(−ratio): the same law, for steps of any length."""
    return np.asarray((np.asarray(k_to, float) / k_from) ** -np.asarray(ratio, float))


def usable_from(ratio: float, error: float = 0.1) -> int:
    """The smallest k at which the local ΔS/S of the step k → k + 1 is off by at most `error` of the exact one.

    Raises ParameterError unless ratio > 0 and 0 < error < 1.
    """
    if not (ratio > 0 and 0 < error < 1):
        raise ParameterError("the ratio must be positive, and the error between 0 and 1", f"{ratio}, {error}")
    k = 1
    # The error falls as k grows, as (ratio + 1)/(2k) in the end: the loop is short.
    while abs((local_factor(ratio, k, k + 1) - 1) / (exact_factor(ratio, k, k + 1) - 1) - 1) > error:
        k += 1
    return k


def size_with_value(size: npt.ArrayLike, value: npt.ArrayLike, target: float) -> tuple[float, bool]:
    """The size at which a family reaches `target`, and whether that is an extrapolation.

    `size` and `value` have shape (n,), n ≥ 3. Between two models of neighbouring sizes whose values enclose the
    target: by a straight line in log-log (the smallest such size). Elsewhere: by the fitted power law.
    """
    sizes, values = check_points(size, value)
    order = np.argsort(sizes, kind="stable")
    x, y, goal = np.log(sizes[order]), np.log(values[order]), np.log(target)
    for i in range(len(x) - 1):
        if min(y[i], y[i + 1]) <= goal <= max(y[i], y[i + 1]) and y[i] != y[i + 1]:
            return float(np.exp(x[i] + (goal - y[i]) / (y[i + 1] - y[i]) * (x[i + 1] - x[i]))), False
    law = fit_power_law(sizes, values)
    return float((law.prefactor / target) ** (1 / law.alpha)), True


def exchange(points: pd.DataFrame, in_k: pd.DataFrame, k_from: int, k_to: int) -> pd.DataFrame:
    """The size S′ that has at `k_to` the RBP that each model, of size S, has at `k_from`.

    `points`: rows of −ln RBP_k; `in_k`: the models' exponents, from `fit_in_k`. Both thresholds need three models
    of the family. One row a model: `MODEL`, `alpha_k`, `alpha_s` (of its family, at `k_from`), `ratio`,
    `local` and `exact` (S′/S by the two formulas), `measured` (S′/S from the family's values at `k_to`),
    `extrapolated` (S′ lies outside the family's models) and `models` (how many the family has at `k_to`). Models
    of families that cannot be fitted are left out.
    """
    rows = []
    for (dataset, family), own in points.groupby(["dataset", "family"]):
        start, end = own[own["k"] == k_from], own[own["k"] == k_to]
        try:
            alpha_s = fit_power_law(start["size"], start["value"]).alpha
            check_points(end["size"], end["value"])
        except FitError:
            continue
        models = in_k[(in_k["dataset"] == dataset) & (in_k["family"] == family)].dropna(subset="alpha")
        for row in models.merge(start[["model", "value"]], on="model").to_dict("records"):
            reached, extrapolated = size_with_value(end["size"], end["value"], row["value"])
            ratio = row["alpha"] / alpha_s
            rows.append(
                {name: row[name] for name in MODEL}
                | {"alpha_k": row["alpha"], "alpha_s": alpha_s, "ratio": ratio}
                | {"local": float(local_factor(ratio, k_from, k_to))}
                | {"exact": float(exact_factor(ratio, k_from, k_to))}
                | {"measured": reached / row["size"], "extrapolated": extrapolated, "models": len(end)}
            )
    columns = ["alpha_k", "alpha_s", "ratio", "local", "exact", "measured", "extrapolated", "models"]
    return pd.DataFrame(rows, columns=[*MODEL, *columns])
