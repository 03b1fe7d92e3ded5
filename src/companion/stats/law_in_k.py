"""−ln RBP_k of one model against the threshold k: its exponent in k, and what a larger k is worth in parameters."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import chdtrc

from rbp.arrays import Reals
from rbp.errors import DataError, FitError, ParameterError
from rbp.laws.power import check_points, fit_power_law
from rbp.laws.table import fit_table

MODEL = ["dataset", "family", "model", "size"]
LEAST = 3  # thresholds that a line needs


def enough_thresholds(points: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """The rows of models that have −ln RBP_k at `minimum` thresholds or more, on one dataset.

    Raises DataError where there is no such model.
    """
    enough = points[points.groupby(["dataset", "model"])["k"].transform("nunique") >= minimum]
    if enough.empty:
        what = f"no model has −ln RBP_k at {minimum} thresholds"
        fewer = "Ask for fewer, or give" if minimum > LEAST else "Give"
        raise DataError(what, "measurements", f"{fewer} a source with more values of k.")
    return enough


def fit_in_k(points: pd.DataFrame, *, level: float = 0.95, required: bool = True) -> pd.DataFrame:
    """Fit B·k^(−α_k) to each model on each dataset by OLS of ln y on ln k, as the preprint does.

    `points` are rows of a measurement table of −ln RBP_k. One row a model and dataset: `MODEL`, the fields of
    `PowerLawFit` (`k_min` and `k_max` in place of its sizes) and `note`, as `fit_table` gives them (`required` is
    its). The intervals
    treat the points as independent; they describe the scatter about the line, no more. Raises DataError where one
    is required, and no model has three thresholds.
    """
    if required:
        enough_thresholds(points, LEAST)
    abscissa = points.assign(parameters=points["size"], size=points["k"].astype(float)).drop(columns="k")
    fits = fit_table(abscissa, ["dataset", "family", "model", "parameters"], level=level, required=required)
    return fits.rename(columns={"parameters": "size", "size_min": "k_min", "size_max": "k_max"})


def bend(points: pd.DataFrame, middle: float) -> pd.DataFrame:
    """The exponent in k on either side of `middle` (which both sides include), for each model and dataset.

    Columns `MODEL`, `alpha_below`, `alpha_above` and `bend` = above − below: negative where −ln RBP_k falls ever
    more slowly with k, 0 for a power law. Models with fewer than three thresholds on a side are left out; raises
    DataError where no model is left.
    """
    below, above = (
        fit_in_k(side, required=False).dropna(subset="alpha").set_index(MODEL)["alpha"]
        for side in (points[points["k"] <= middle], points[points["k"] >= middle])
    )
    table = pd.concat({"alpha_below": below, "alpha_above": above}, axis=1, join="inner").reset_index()
    if table.empty:
        what = f"no model has three thresholds up to k = {middle:g} and three from there on"
        raise DataError(what, "measurements", "Give a source with more values of k.")
    return table.assign(bend=table["alpha_above"] - table["alpha_below"])


def sampling_covariance(value: npt.ArrayLike, k: npt.ArrayLike, tokens: int) -> Reals:
    """Covariance matrix, shape (n, n), of ln(−ln RBP_k) at n thresholds `k`, from `tokens` independent ranks.

    RBP_k is an empirical distribution function, so Cov(RBP_j, RBP_k) = RBP_j (1 − RBP_k)/tokens for j ≤ k; the
    rest is the delta method. Neighbouring tokens of a text are not independent: the truth is somewhat larger.
    """
    thresholds, values = check_points(k, value)
    share = np.exp(-values)
    smaller = np.minimum.outer(thresholds, thresholds) == thresholds[:, None]
    larger_share = np.where(smaller, share[None, :], share[:, None])
    covariance: Reals = (1 - larger_share) / (larger_share * tokens * np.outer(values, values))
    return covariance


def sampling_test(k: npt.ArrayLike, value: npt.ArrayLike, tokens: int) -> tuple[float, float]:
    """χ² (of n − 2 degrees of freedom) and p of a straight line in ln k: a small p says that it leaves more than noise.

    `k` and `value` have shape (n,), n ≥ 3; the line is weighted by what sampling `tokens` tokens allows. Raises
    FitError as `fit_power_law` does, and where two thresholds share one value (nothing ranked between).
    """
    thresholds, values = check_points(k, value)
    covariance = sampling_covariance(values, thresholds, tokens)
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise FitError("two thresholds have the same RBP_k: their covariance has no inverse", "k") from None
    design = np.column_stack([np.ones_like(thresholds), np.log(thresholds)])
    x, y = np.linalg.solve(root, design), np.linalg.solve(root, np.log(values))
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    statistic = float(np.sum((y - x @ coefficients) ** 2))
    return statistic, float(chdtrc(len(values) - 2, statistic))


def sampling_tests(points: pd.DataFrame, fits: pd.DataFrame, tokens: pd.DataFrame) -> pd.DataFrame:
    """`sampling_test` of each fitted model whose number of tokens is known: `MODEL`, `tokens`, `chi2`, `p`.

    `tokens` comes from `companion.evidence.tokens.tokens_behind`; numbers that are bounds only are not used. Models
    that cannot be tested are left out; the table may be empty.
    """
    known = tokens[tokens["basis"].isin(["counted", "recovered"])]
    fitted = fits.dropna(subset="alpha").merge(known, on=["dataset", "family"])
    rows = []
    for row in fitted.to_dict("records"):
        own = points[(points["dataset"] == row["dataset"]) & (points["model"] == row["model"])]
        try:
            tested = sampling_test(own["k"].astype(float), own["value"], row["tokens"])
        except FitError:
            continue
        rows.append((*(row[name] for name in (*MODEL, "tokens")), *tested))
    return pd.DataFrame(rows, columns=[*MODEL, "tokens", "chi2", "p"])


def local_factor(ratio: npt.ArrayLike, k_from: float, k_to: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """S′/S = 1 − ratio·(k_to − k_from)/k_from, with ratio = α_k/α_S: the preprint's formula. Negative = no size."""
    return 1 - np.asarray(ratio, float) * (np.asarray(k_to, float) - k_from) / k_from


def exact_factor(ratio: npt.ArrayLike, k_from: float, k_to: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """S′/S = (k_to/k_from)^(−ratio): the same law, for steps of any length."""
    return np.asarray((np.asarray(k_to, float) / k_from) ** -np.asarray(ratio, float))


def usable_from(ratio: float) -> int:
    """The smallest k at which the local ΔS/S of the step k → k + 1 is off by at most a tenth of the exact one.

    Raises ParameterError unless ratio > 0.
    """
    if not ratio > 0:
        raise ParameterError("the ratio must be positive", f"{ratio}")
    k = 1
    # The error falls as k grows, as (ratio + 1)/(2k) in the end: the loop is short.
    while abs((local_factor(ratio, k, k + 1) - 1) / (exact_factor(ratio, k, k + 1) - 1) - 1) > 0.1:
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


def beside_size(in_k: pd.DataFrame, in_s: pd.DataFrame) -> pd.DataFrame:
    """Each model's exponent in k beside its family's exponents in S.

    `in_k` comes from `fit_in_k`; `in_s` is a `fit_table` by dataset, family and k. The columns of `in_k`, those of
    `in_s` (with `_s` where both have them), and `times`, α_k/α_S. Raises DataError where no family is in both.
    """
    fitted = [fits.dropna(subset="alpha") for fits in (in_k, in_s)]
    both = fitted[0].merge(fitted[1], on=["dataset", "family"], suffixes=("", "_s"))
    if both.empty:
        what = "no family has both an exponent in k and one in S"
        raise DataError(what, "measurements", "Give a source with three sizes of one family, and more values of k.")
    return both.assign(times=both["alpha"] / both["alpha_s"])


def exchange(points: pd.DataFrame, in_k: pd.DataFrame, k_from: int, k_to: int | Sequence[int]) -> pd.DataFrame:
    """The size S′ that has at `k_to` the RBP that each model, of size S, has at `k_from`.

    `points`: rows of −ln RBP_k; `in_k`: the models' exponents, from `fit_in_k`. A row for each model and `k_to`:
    `MODEL`, `k_to`, `alpha_k`, `alpha_s` (of its family, at `k_from`), `ratio`, `local` and `exact` (S′/S by the two
    formulas), `measured` (from the family's values at `k_to`), `extrapolated` (S′ lies outside the family's models) and
    `models` (at `k_to`). Families of fewer than three models are left out; raises DataError where none is left.
    """
    targets = [k_to] if isinstance(k_to, int) else list(k_to)
    rows = []
    for (dataset, family), own in points.groupby(["dataset", "family"]):
        models = in_k[(in_k["dataset"] == dataset) & (in_k["family"] == family)].dropna(subset="alpha")
        start = own[own["k"] == k_from]
        for target in targets:
            end = own[own["k"] == target]
            try:
                alpha_s = fit_power_law(start["size"], start["value"]).alpha
                check_points(end["size"], end["value"])
            except FitError:
                continue
            for row in models.merge(start[["model", "value"]], on="model").to_dict("records"):
                reached, extrapolated = size_with_value(end["size"], end["value"], row["value"])
                ratio = row["alpha"] / alpha_s
                rows.append(
                    {name: row[name] for name in MODEL}
                    | {"k_to": target, "alpha_k": row["alpha"], "alpha_s": alpha_s, "ratio": ratio}
                    | {"local": float(local_factor(ratio, k_from, target))}
                    | {"exact": float(exact_factor(ratio, k_from, target))}
                    | {"measured": reached / row["size"], "extrapolated": extrapolated, "models": len(end)}
                )
    if not rows:
        what = f"no family has three sizes both at k = {k_from} and at k = {', '.join(map(str, targets))}"
        raise DataError(what, "measurements", "Choose among the thresholds of the source.")
    return pd.DataFrame(rows)
