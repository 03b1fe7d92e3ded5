"""−ln RBP_k of one model against the threshold k: its exponent in k, its bend, and what sampling allows.

The preprint of 3 October 2025 (its appendix B, figure 9) fits −ln RBP_k = B·k^(−α_k) to each model. The points of
one model are cumulative counts of the same tokens: whoever has rank ≤ 10 has rank ≤ 50 too. They are not
independent, which ordinary least squares takes them to be.
"""

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import chi2, norm

from rbp.errors import FitError
from rbp.scaling.cells import fit_table
from rbp.scaling.points import Floats, check_level, check_points

MODEL = ["dataset", "family", "model", "size"]


def enough_thresholds(points: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """The rows of models that have −ln RBP_k at `minimum` thresholds or more, on one dataset."""
    return points[points.groupby(["dataset", "model"])["k"].transform("nunique") >= minimum]


def fit_in_k(points: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit B·k^(−α_k) to each model on each dataset by OLS of ln y on ln k, as the preprint does.

    `points` are rows of a measurement table of −ln RBP_k. One row a model and dataset: `MODEL`, the fields of
    `PowerLawFit` (`k_min` and `k_max` in place of its sizes) and `note`, as `fit_table` gives them. The intervals
    treat the points as independent; they describe the scatter about the line, no more.
    """
    abscissa = points.assign(parameters=points["size"], size=points["k"].astype(float)).drop(columns="k")
    fits = fit_table(abscissa, ["dataset", "family", "model", "parameters"], level=level)
    return fits.rename(columns={"parameters": "size", "size_min": "k_min", "size_max": "k_max"})


def with_residuals(points: pd.DataFrame, fits: pd.DataFrame) -> pd.DataFrame:
    """`points` with `residual`, ln y minus ln of the fitted line of `fit_in_k`; models without a fit drop out."""
    table = points.merge(fits.dropna(subset="alpha")[[*MODEL, "alpha", "prefactor"]], on=MODEL)
    line = np.log(table.pop("prefactor")) - table.pop("alpha") * np.log(table["k"].astype(float))
    return table.assign(residual=np.log(table["value"]) - line)


def bend(points: pd.DataFrame, middle: float) -> pd.DataFrame:
    """The exponent in k on either side of `middle` (which both sides include), for each model and dataset.

    Columns `MODEL`, `alpha_below`, `alpha_above` and `bend` = above − below: negative where −ln RBP_k falls ever
    more slowly with k, 0 for a power law. Models with fewer than three thresholds on a side are left out.
    """
    below, above = (
        fit_in_k(side).dropna(subset="alpha").set_index(MODEL)["alpha"]
        for side in (points[points["k"] <= middle], points[points["k"] >= middle])
    )
    table = pd.concat({"alpha_below": below, "alpha_above": above}, axis=1, join="inner").reset_index()
    return table.assign(bend=table["alpha_above"] - table["alpha_below"])


def sampling_covariance(value: npt.ArrayLike, k: npt.ArrayLike, tokens: int) -> Floats:
    """Covariance matrix, shape (n, n), of ln(−ln RBP_k) at n thresholds `k`, from `tokens` independent ranks.

    RBP_k is an empirical distribution function, so Cov(RBP_j, RBP_k) = RBP_j (1 − RBP_k)/tokens for j ≤ k; the
    rest is the delta method. Neighbouring tokens of a text are not independent: the truth is somewhat larger.
    """
    thresholds, values = check_points(k, value)
    share = np.exp(-values)
    smaller = np.minimum.outer(thresholds, thresholds) == thresholds[:, None]
    larger_share = np.where(smaller, share[None, :], share[:, None])
    covariance: Floats = (1 - larger_share) / (larger_share * tokens * np.outer(values, values))
    return covariance


@dataclass(frozen=True)
class SamplingTest:
    """The line in k, weighted by what sampling `tokens` tokens allows, and whether that explains its scatter.

    `alpha` and its interval of confidence `level`: generalized least squares with known covariance. `chi2` has
    `df` = n − 2 degrees of freedom; a small `p` says that the points leave the line by more than chance.
    `noise` is the standard deviation of ln y that sampling alone gives, averaged (root mean square) over k.
    """

    alpha: float
    alpha_low: float
    alpha_high: float
    chi2: float
    df: int
    p: float
    noise: float
    level: float


def sampling_test(k: npt.ArrayLike, value: npt.ArrayLike, tokens: int, *, level: float = 0.95) -> SamplingTest:
    """Test a straight line in ln k against sampling noise; `k` and `value` have shape (n,), n ≥ 3.

    Raises FitError as `fit_power_law` does, and where two thresholds share one value (nothing ranked between).
    """
    check_level(level)
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
    half = norm.ppf((1 + level) / 2) * np.sqrt(np.linalg.inv(x.T @ x)[1, 1])
    alpha, df = -float(coefficients[1]), len(values) - 2
    return SamplingTest(
        alpha=alpha,
        alpha_low=float(alpha - half),
        alpha_high=float(alpha + half),
        chi2=statistic,
        df=df,
        p=float(chi2.sf(statistic, df)),
        noise=float(np.sqrt(np.mean(np.diag(covariance)))),
        level=level,
    )


def sampling_tests(
    points: pd.DataFrame, fits: pd.DataFrame, tokens: pd.DataFrame, *, level: float = 0.95
) -> pd.DataFrame:
    """`sampling_test` of each fitted model whose number of tokens is known.

    `tokens` comes from `rbp.counting.tokens.tokens_behind`; numbers that are bounds only are not used. One row a model:
    `MODEL`, `tokens`, `residual_se` (of `fits`), and the fields of `SamplingTest`. May be empty.
    """
    known = tokens[tokens["basis"].isin(["counted", "recovered"])]
    fitted = fits.dropna(subset="alpha").merge(known, on=["dataset", "family"])
    rows = []
    for row in fitted.to_dict("records"):
        own = points[(points["dataset"] == row["dataset"]) & (points["model"] == row["model"])]
        test = sampling_test(own["k"].astype(float), own["value"], row["tokens"], level=level)
        rows.append({name: row[name] for name in (*MODEL, "tokens", "residual_se")} | asdict(test))
    return pd.DataFrame(rows, columns=[*MODEL, "tokens", "residual_se", *SamplingTest.__dataclass_fields__])
