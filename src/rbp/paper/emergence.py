"""Success on N tokens in a row against size: figure 7 as printed, transitions, and one law for all N and S."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import sympy as sp
from scipy.special import log_ndtr

from rbp.core.arrays import Reals
from rbp.core.errors import FitError, ParameterError
from rbp.stats.newton import minimum
from rbp.stats.power_law import fit_power_law
from rbp.stats.resampling import interval

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


def on_dataset(windows: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """The window counts on one dataset. Raises ParameterError where there are none."""
    own = windows[windows["dataset"] == dataset]
    if own.empty:
        there = ", ".join(sorted(set(windows["dataset"])))
        raise ParameterError(f"no windows of {dataset}", "dataset", f"There is: {there}.")
    return own


def one_family(windows: pd.DataFrame, family: str = "") -> pd.DataFrame:
    """The window counts of `family`; if it is "", of that with the most models. Raises ParameterError for none."""
    family = family or str(windows.groupby("family")["model"].nunique().idxmax())
    own = windows[windows["family"] == family]
    if own.empty:
        there = ", ".join(sorted(set(windows["family"])))
        raise ParameterError(f"no windows of {family}", "family", f"On this dataset there is: {there}.")
    return own


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


def beside_printed(counts: pd.DataFrame, combination: str, zero: float | None) -> pd.DataFrame:
    """Figure 7's printed α and R² beside a `recipe`, and beside one line for all N, as equation 7 has it.

    counts as for `recipes`, with successes. One row for each printed k: k, zeros, alpha_printed, alpha,
    r_squared_printed, r_squared, r_squared_pooled (of the one line, zeros left out).
    """
    rows = []
    for k, (alpha, r_squared) in PRINTED.items():
        own = counts[counts["k"] == k]
        ours, pooled = recipe(own, combination, zero), recipe(own, POOLED, None)
        rows.append((k, int((own["successes"] == 0).sum()), alpha, ours[0], r_squared, ours[1], pooled[1]))
    names = ["k", "zeros", "alpha_printed", "alpha", "r_squared_printed", "r_squared", "r_squared_pooled"]
    return pd.DataFrame(rows, columns=names)


def algebra() -> dict[str, str]:
    """What follows from the premises of section 5.1, "yes" or "no", by computer algebra.

    - equation_6: p(N) = RBP_k^N for independent tokens that are alike.
    - equation_6_dependent, equation_6_unlike: the same without the one premise or the other (a stationary two-state
      chain; two independent places of unlike rates, RBP_k their mean).
    - sigmoid: exp(−C·N·S^(−α)) runs from 0 to 1 in ln S with one turning point.
    - sharper: its steepest rise in ln S grows with N.
    """
    rate, other, stay, n, c, alpha = sp.symbols("rate other stay N C alpha", positive=True)
    x = sp.Symbol("x", real=True)
    curve = sp.exp(-c * n * sp.exp(-alpha * x))
    turns = sp.solve(sp.simplify(sp.diff(curve, x, 2) / curve / sp.exp(-alpha * x)), x)
    ends = sp.limit(curve.subs({c: 1, n: 1, alpha: 1}), x, -sp.oo), sp.limit(curve, x, sp.oo)
    steepest = sp.simplify(sp.diff(curve, x).subs(x, turns[0]))
    true = {
        "equation_6": all(sp.Mul(*[rate] * m) == rate**m for m in range(1, 10)),
        "equation_6_dependent": sp.simplify(rate * stay ** (n - 1) - rate**n) == 0,
        "equation_6_unlike": sp.expand(rate * other - ((rate + other) / 2) ** 2) == 0,
        "sigmoid": ends == (0, 1) and len(turns) == 1,
        "sharper": bool(sp.diff(steepest, n) > 0),
    }
    return {name: "yes" if found else "no" for name, found in true.items()}


CELL = ["dataset", "family", "k", "n"]
BOTTOM, TOP = 0.1, 0.9
TURN = float(np.exp(-1))  # where a curve of the law is steepest, in ln S


def transitions(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """What each measured curve of success shows of a transition: one row for each family, k and N.

    Columns CELL; models; zeros (models without a success); p_min, p_max; visible (it runs from below 0.1 to above
    0.9: a whole sigmoid); turns (it passes 1/e, where a curve of the law turns); rises (how many steps to the next
    larger model raise p); alpha, alpha_low, alpha_high of −ln p and constant (ln of its prefactor) where all models
    have a success (else NaN); steepest = α·ln(10)/e, the rise of p per tenfold S where the fitted curve is steepest,
    with steepest_low, steepest_high; half: the S at which the fitted p is 1/2.
    """
    rows = []
    for key, own in counts.groupby(CELL):
        own = own.sort_values("size")
        p = (own["successes"].astype(float) / own["windows"]).to_numpy()
        row = dict(zip(CELL, key, strict=True)) | {
            "models": len(p),
            "zeros": int((p == 0).sum()),
            "p_min": p.min(),
            "p_max": p.max(),
            "visible": bool(p.min() < BOTTOM and p.max() > TOP),
            "turns": bool(p.min() < TURN < p.max()),
            "rises": int((np.diff(p) > 0).sum()),
        }
        if (p > 0).all():
            try:
                fit = fit_power_law(own["size"], -np.log(p), level=level)
            except FitError:
                pass
            else:
                row |= {"alpha": fit.alpha, "alpha_low": fit.alpha_low, "alpha_high": fit.alpha_high}
                row["constant"] = float(np.log(fit.prefactor))
                row["half"] = float((fit.prefactor / np.log(2)) ** (1 / fit.alpha)) if fit.alpha > 0 else np.nan
        rows.append(row)
    names = [*CELL, "models", "zeros", "p_min", "p_max", "visible", "turns", "rises"]
    table = pd.DataFrame(rows, columns=[*names, "alpha", "alpha_low", "alpha_high", "constant", "half"])
    for end in ("", "_low", "_high"):
        table[f"steepest{end}"] = table[f"alpha{end}"] * np.log(10) / np.e
    return table


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
    _, low, high = interval(np.vstack([best, without]), level=level)
    constant, alpha, length, scatter = best
    seen = counts[(counts["successes"] > 0) & (counts["successes"] < counts["windows"])]
    y = pd.Series(np.log(-np.log(seen["successes"] / seen["windows"])), seen.index)
    off = y - (constant + length * np.log(seen["n"]) - alpha * np.log(seen["size"].astype(float)))
    about = y - y.groupby(seen["n"]).transform("mean")
    return JointFit(
        alpha=alpha,
        alpha_low=low[1],
        alpha_high=high[1],
        length=length,
        length_low=low[2],
        length_high=high[2],
        constant=constant,
        scatter=scatter,
        r_squared=1 - float((off**2).sum() / (about**2).sum()),
        points=len(seen),
        zeros=int((counts["successes"] == 0).sum()),
        models=len(models),
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
