"""One fit of success on N tokens for all N and S at once, with the zeros as what they are: values below a limit."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import log_ndtr
from scipy.stats import t as t_distribution

from rbp.errors import FitError
from rbp.metric import Reals
from rbp.newton import minimum


@dataclass(frozen=True)
class JointFit:
    """ln(−ln p) = c + β·ln N − α·ln S + ε, ε normal of standard deviation `scatter`, by maximum likelihood.

    alpha, and length (β, 1 where it was held there), with their intervals of confidence `level` by leaving out one
    model at a time: the errors of one model's lengths hang together, so models are the units. r_squared: of the points
    with a success, about each length's own mean, so that it compares with the fits of single lengths; it can be
    negative. points, zeros, models: how many.
    """

    alpha: float
    alpha_low: float
    alpha_high: float
    length: float
    length_low: float
    length_high: float
    constant: float
    scatter: float
    r_squared: float
    points: int
    zeros: int
    models: int
    level: float


def fit_joint(counts: pd.DataFrame, *, free_length: bool = True, level: float = 0.95) -> JointFit:
    """Fit the law to the window counts of one family at one k.

    counts: model, size, n, successes, windows. With free_length=False, β is 1: equation 7 of the paper. A length
    without success is known to have p below 1/windows, so −ln p above ln(windows): it enters by that probability.
    Raises FitError for fewer than four models, no two lengths with successes, or points that determine no law.
    """
    models = sorted(set(counts["model"]))
    if len(models) < 4 or counts.loc[counts["successes"] > 0, "n"].nunique() < 2:
        what = f"{len(models)} models are too few for a joint fit with an interval"
        raise FitError(what, "model, n", "Give at least four models, and two lengths with successes.")
    best = _maximum(counts, free_length)
    without = np.array([_maximum(counts[counts["model"] != model], free_length) for model in models])
    count = len(models)
    spread = np.sqrt((count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    half = t_distribution.ppf((1 + level) / 2, count - 1) * spread
    constant, alpha, length, scatter = best
    seen = counts[(counts["successes"] > 0) & (counts["successes"] < counts["windows"])]
    y = pd.Series(np.log(-np.log(seen["successes"] / seen["windows"])), seen.index)
    off = y - (constant + length * np.log(seen["n"]) - alpha * np.log(seen["size"].astype(float)))
    about = y - y.groupby(seen["n"]).transform("mean")
    return JointFit(
        alpha=alpha,
        alpha_low=alpha - half[1],
        alpha_high=alpha + half[1],
        length=length,
        length_low=length - half[2],
        length_high=length + half[2],
        constant=constant,
        scatter=scatter,
        r_squared=1 - float((off**2).sum() / (about**2).sum()),
        points=len(seen),
        zeros=int((counts["successes"] == 0).sum()),
        models=count,
        level=level,
    )


def _maximum(counts: pd.DataFrame, free_length: bool) -> Reals:
    """c, α, β and the scatter of the highest likelihood; with θ = parameters/σ and h = 1/σ it has one maximum only."""
    counts = counts[counts["successes"] < counts["windows"]]  # p = 1 has no ln(−ln p)
    zero = (counts["successes"] == 0).to_numpy()
    share = np.where(zero, 1, counts["successes"]) / counts["windows"].to_numpy(dtype=float)
    y = np.log(-np.log(share))
    log_n, log_s = np.log(counts["n"].to_numpy(float)), np.log(counts["size"].to_numpy(float))
    middle = log_s.mean()
    design = np.column_stack([np.ones_like(y), middle - log_s, log_n])
    if not free_length:
        y, design = y - log_n, design[:, :2]
    lines = np.column_stack([-design, y])  # (h·y − design·θ) = lines·(θ, h)
    seen = int((~zero).sum())

    def loss(free: Reals) -> tuple[float, Reals, Reals]:
        height = free[-1]
        if height <= 0:
            return np.inf, free, np.eye(free.size)
        away = lines @ free
        tail = log_ndtr(-away[zero])  # ln P(the value lies above its limit)
        push, bend = away.copy(), np.ones_like(away)
        push[zero] = np.exp(-(away[zero] ** 2) / 2 - tail) / np.sqrt(2 * np.pi)
        bend[zero] = push[zero] * (push[zero] - away[zero])
        value = 0.5 * float(away[~zero] @ away[~zero]) - seen * np.log(height) - float(tail.sum())
        gradient, hessian = lines.T @ push, (lines * bend[:, None]).T @ lines
        gradient[-1] -= seen / height
        hessian[-1, -1] += seen / height**2
        return value, gradient, hessian

    start = np.linalg.lstsq(design[~zero], y[~zero], rcond=None)[0]
    sigma = max(float(np.std(y[~zero] - design[~zero] @ start)), 1e-6)
    free = minimum(loss, np.append(start, 1.0) / sigma)
    constant, alpha, *length = free[:-1] / free[-1]
    return np.array([constant + alpha * middle, alpha, *(length or [1.0]), 1 / free[-1]])


def fit_joint_table(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Both joint fits, β held at 1 and free, for each dataset, family and k that allow them.

    Columns dataset, family, k, kind ("equation 7" or "free length"), and the fields of `JointFit`.
    """
    rows = []
    for (dataset, family, k), own in counts.groupby(["dataset", "family", "k"]):
        for kind, free in (("equation 7", False), ("free length", True)):
            try:
                fit = fit_joint(own, free_length=free, level=level)
            except FitError:
                continue
            rows.append({"dataset": dataset, "family": family, "k": k, "kind": kind} | vars(fit))
    if not rows:
        raise FitError("no family has four models with window successes", "measurements", "Give more models.")
    return pd.DataFrame(rows)
