"""Chapter "Emergence": success on N tokens in a row against size, and how far from independent the tokens are."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import sympy as sp
from scipy.special import log_ndtr
from scipy.stats import norm
from scipy.stats import t as t_distribution

from companion.stats.compare import paired_exponents
from companion.stats.hit_models import PARAMETERS, fit_distance
from rbp.arrays import Reals
from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import curves, shades, spread
from rbp.figures.style import LABELS
from rbp.figures.wording import dataset_label
from rbp.laws.newton import minimum
from rbp.laws.resampling import interval
from rbp.measurements.windows import runs_alive, with_error
from rbp.report.display import Columns, shown

CELL = ["dataset", "family", "k"]


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


# ── Is p(N, k) = RBP_k^N, as equation 6 has it for independent tokens that are alike?


def ratios(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """−ln p(N) over N·(−ln RBP_k) for every model, k and N > 1: 1 where the tokens are independent.

    counts: dataset, model, family, size, k, n, successes, windows, with n = 1 for every k. Adds single (−ln RBP_k),
    ratio, ratio_low, ratio_high (normal on ln p, by `windows.share_error`), and log10_gain (log₁₀ of p(N) over
    RBP_k^N). Where no window succeeds, ratio and ratio_high are missing and ratio_low is what one success would give.
    """
    first = counts[counts["n"] == 1].set_index(["dataset", "model", "k"])
    if first.empty:
        raise DataError("there are no windows of one token", "windows", "Count windows for n = 1 too.")
    table = with_error(counts)
    single = pd.Series(-np.log((first["successes"] / first["windows"]).astype(float)), first.index)
    table = table[table["n"] > 1].join(single.rename("single"), on=["dataset", "model", "k"])
    table = table[table["single"] > 0]
    count, windows = table["successes"].to_numpy(float), table["windows"].to_numpy(float)
    neg_log = -np.log(np.where(count > 0, count, np.nan) / windows)
    half = norm.ppf((1 + level) / 2) * table["error"].to_numpy()
    independent = table["n"].to_numpy() * table["single"].to_numpy()
    low = np.where(count > 0, np.maximum(neg_log - half, 0), np.log(windows))
    return table.assign(
        ratio=neg_log / independent,
        ratio_low=low / independent,
        ratio_high=(neg_log + half) / independent,
        log10_gain=(independent - neg_log) / np.log(10),
    ).reset_index(drop=True)


def ratio_by_length(found: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The ratio by family, k and N over the models: its geometric mean, with the spread of models as the interval.

    found: `ratios`. Only cells in which every model has a success. Columns CELL, n, models, ratio, low, high (a t
    interval of the mean of ln ratio: of models drawn anew on this very text), effective (ratio·N: as many independent
    tokens would succeed as rarely).
    """
    rows = []
    for key, own in found.groupby([*CELL, "n"]):
        if own["ratio"].isna().any() or len(own) < 2:
            continue
        logs = np.log(own["ratio"].to_numpy())
        half = t_distribution.ppf((1 + level) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        mean, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
        rows.append((*key, len(logs), mean, low, high, mean * key[-1]))
    return pd.DataFrame(rows, columns=[*CELL, "n", "models", "ratio", "low", "high", "effective"])


# ── Does −ln p(N, k) grow in proportion to N, as equation 7 has it?


def powers_of_length(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """β in −ln p = C·N^β·S^(−α), of each family at each k on each dataset: 1 by equation 7 of the paper.

    By maximum likelihood of ln(−ln p) = c + β·ln N − α·ln S + ε, ε normal; a length without success enters by the
    probability that p is below 1/windows. Columns CELL, models, constant (c), alpha, length (β), scatter (of ε),
    length_low, length_high: by leaving out one model at a time. Cells of fewer than four models, or of one length with
    successes, and those whose points determine no law are left out.
    """
    rows = []
    for key, own in counts.groupby(CELL):
        models = sorted(set(own["model"]))
        if len(models) < 4 or own.loc[own["successes"] > 0, "n"].nunique() < 2:
            continue
        try:
            best = _likeliest(own)
            without = [_likeliest(own[own["model"] != model])[2] for model in models]
        except FitError:
            continue
        _, low, high = interval([best[2], *without], level=level)
        rows.append((*key, len(models), *best, low, high))
    names = [*CELL, "models", "constant", "alpha", "length", "scatter", "length_low", "length_high"]
    return pd.DataFrame(rows, columns=names)


def _likeliest(counts: pd.DataFrame) -> Reals:
    """c, α, β and the scatter of the highest likelihood; with θ = parameters/σ and h = 1/σ it has one maximum only."""
    counts = counts[counts["successes"] < counts["windows"]]  # p = 1 has no ln(−ln p)
    zero = (counts["successes"] == 0).to_numpy()
    share = np.where(zero, 1, counts["successes"]) / counts["windows"].to_numpy(dtype=float)
    y = np.log(-np.log(share))
    log_n, log_s = np.log(counts["n"].to_numpy(float)), np.log(counts["size"].to_numpy(float))
    middle = log_s.mean()
    design = np.column_stack([np.ones_like(y), middle - log_s, log_n])
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
    constant, alpha, length = free[:-1] / free[-1]
    return np.array([constant + alpha * middle, alpha, length, 1 / free[-1]])


# ── With size: a sigmoid that a larger N makes sharper, as section 5.1 has it?


def by_size(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Does the exponent change with N? α of −ln p(N), less that of −ln RBP_k, for the same models.

    Under independence both are the same. The steepest rise of exp(−C·S^(−α)) in ln S is α/e, so the difference says too
    whether success rises more steeply than that of single tokens. Only cells in which every model has a success, and
    three models at least. Columns CELL, n, models, alpha (of −ln p(N)), alpha_single, difference, low, high, p:
    `compare.paired_exponents`.
    """
    rows = []
    for key, own in counts.groupby(CELL):
        share = (own["successes"] / own["windows"]).where(own["successes"] > 0)
        wide = own.assign(y=-np.log(share.astype(float)))
        wide = wide.pivot_table(values="y", index="size", columns="n", dropna=False)
        lengths = [int(n) for n in wide.columns]
        for n in (n for n in lengths if n > 1 and 1 in lengths):
            both = wide[[1, n]]
            if both.isna().any(axis=None) or len(both) < 3:
                continue
            try:
                test = paired_exponents(both.index.to_numpy(), both[n], both[1], level=level)
            except FitError:
                continue
            found = (len(both), test.alpha_first, test.alpha_second, test.difference, test.low, test.high, test.p)
            rows.append((*key, n, *found))
    names = [*CELL, "n", "models", "alpha", "alpha_single", "difference", "low", "high", "p"]
    return pd.DataFrame(rows, columns=names)


def transitions(counts: pd.DataFrame) -> pd.DataFrame:
    """What each curve of success against size shows of a sigmoid: a row for each family, k and N.

    Columns CELL, n; visible (it runs from below 0.1 to above 0.9); turns (it passes 1/e, where a curve of the law is
    steepest in ln S); steps (to the next larger model, unless neither has a success), and rises (how many raise p).
    """
    rows = []
    for key, own in counts.groupby([*CELL, "n"]):
        own = own.sort_values("size")
        p = (own["successes"].astype(float) / own["windows"]).to_numpy()
        low, high = p.min(), p.max()
        steps = int(((p[1:] > 0) | (p[:-1] > 0)).sum())
        rows.append((*key, low < 0.1 and high > 0.9, low < np.exp(-1) < high, steps, int((np.diff(p) > 0).sum())))
    return pd.DataFrame(rows, columns=[*CELL, "n", "visible", "turns", "steps", "rises"])


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


# ── Which law of dependence does better?


def extrapolations(counts: pd.DataFrame, *, up_to: int = 10, at: Sequence[int] = (50, 100)) -> pd.DataFrame:
    """Each law fitted to N ≤ up_to, and held against the success at longer N.

    Independence is equation 6: the single token alone. One row for each model, k, law and length of `at` at which
    some window succeeds: dataset, family, model, size, k, law, n, predicted and measured (−ln p), factor (predicted
    over measured), and edge (the simpler law that it has become, `hit_models.SequenceFit`). Cells in which a law has
    more parameters than points, or a share is 0 or 1, are left out.
    """
    rows = []
    for key, own in counts.groupby(["dataset", "family", "model", "size", "k"]):
        own = own.sort_values("n")
        near, far = own[own["n"] <= up_to], own[own["n"].isin(list(at)) & (own["successes"] > 0)]
        if far.empty or not (near["successes"] > 0).all():
            continue
        for law in PARAMETERS:
            used = near[near["n"] == 1] if law == "independence" else near
            try:
                fit = fit_distance(used["n"], -np.log((used["successes"] / used["windows"]).astype(float)), law)
            except DataError:
                continue
            measured = -np.log(far["successes"].to_numpy(float) / far["windows"].to_numpy(float))
            for n, real, said in zip(far["n"], measured, fit.neg_log(far["n"]), strict=True):
                rows.append((*key, law, n, said, real, said / real, fit.edge))
    names = ["dataset", "family", "model", "size", "k", "law", "n", "predicted", "measured", "factor", "edge"]
    return pd.DataFrame(rows, columns=names)


_MARGIN = 1e-8  # of a factor: the same from other starts, and from counts changed by 1e-13, to 1e-9


def closest(found: pd.DataFrame) -> "pd.Series[str]":
    """Which law comes closest to the measured −ln p, by model and k; "undecided" where two are as close, to rounding.

    found: rows of `extrapolations` at one length. A law that has become a simpler one is that one, and does not count.
    """
    own = found[found["edge"] == ""]
    off = own.assign(off=own["factor"].map(np.log).abs()).set_index(["model", "k", "law"])["off"].unstack()  # noqa: PD010
    least = off.min(axis=1)
    near = off.le(least + _MARGIN, axis=0).sum(axis=1)
    return off.idxmin(axis=1).where(near == 1, "undecided")


# ── Figure 7 as printed


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

    counts: the rows of one k, with n, size and p. SEPARATE: a line for each N, then the means of α and R² (of a line
    through equal values 0 and 1, as in scikit-learn). POOLED: one line through ln(−ln p/N), as equation 7 reads.
    COMMON: one slope, an intercept for each N. zero: what stands for p = 0; None leaves it out.
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
    agree (how many of the printed numbers come out to all three digits), numbers (how many there are), and off (the
    largest difference).
    """
    rows = []
    for combination, zero in product(COMBINATIONS, ZEROS):
        found = np.array([recipe(counts[counts["k"] == k], combination, zero) for k in PRINTED])
        off = np.abs(found - [*PRINTED.values()])
        agree = int((off <= 0.0005 + 1e-5).sum())
        rows.append((combination, np.nan if zero is None else zero, agree, off.size, off.max()))
    table = pd.DataFrame(rows, columns=["combination", "zero", "agree", "numbers", "off"])
    return table.sort_values(["agree", "off"], ascending=[False, True], kind="stable", ignore_index=True)


# ── What is recorded


def summary(
    own: pd.DataFrame,
    ratio: pd.DataFrame,
    mean: pd.DataFrame,
    power: pd.DataFrame,
    change: pd.DataFrame,
    laws: pd.DataFrame,
) -> dict[str, Any]:
    """What the page and the ledger say, by key. What cannot be told is left out.

    own: the windows of one family; the others of all: `ratios`, `ratio_by_length`, `powers_of_length`, `by_size`,
    `extrapolations`.
    """
    family, largest = own["family"].iloc[0], own.sort_values("size")["model"].iloc[-1]
    lengths = power[power["family"] == family]
    curve, follows = transitions(own), algebra()
    means = mean[mean["family"] == family].set_index(["k", "n"])
    long = ratio[(ratio["model"] == largest) & (ratio["k"] == 1) & (ratio["n"] == 100) & (ratio["successes"] > 0)]
    alive = runs_alive(own[own["model"] == largest]).query("k == 1 and n == 100 and successes > 0")
    far = laws[laws["n"] == laws["n"].max()]
    best, small = closest(far), far[far["k"] <= 100]
    worst = np.exp(small["factor"].map(np.log).abs()).groupby(small["law"]).max()
    below, above = int((ratio["ratio_high"] < 1).sum()), int((ratio["ratio_low"] > 1).sum())
    return {
        "algebra.power": follows["equation_6"],
        "algebra.sigmoid": follows["sigmoid"],
        "algebra.sharper": follows["sharper"],
        "ratio.cells": len(ratio),
        "ratio.below": below,
        "ratio.above": above,
        "ratio.inside": len(ratio) - below - above,
        "ratio.zeros": int((ratio["successes"] == 0).sum()),
        "ratio.k1.n10": means["ratio"].get((1, 10), np.nan),
        "effective.k10.n100": means["effective"].get((10, 100), np.nan),
        "gain.k1.n100": long["log10_gain"].mean(),
        "runs.k1.n100": alive["runs"].mean(),
        "power.fits": len(lengths),
        "power.below": int((lengths["length_high"] < 1).sum()),
        **{f"power.k{k}": lengths.set_index("k")["length"].get(k, np.nan) for k in (1, 10_000)},
        "curves": len(curve),
        **{f"curves.{name}": int(curve[name].sum()) for name in ("visible", "turns", "steps", "rises")},
        "rise.tests": len(change),
        "rise.sharper": int((change["low"] > 0).sum()),
        "rise.duller": int((change["high"] < 0).sum()),
        "models": own["model"].nunique(),
        "worst_independent": worst.get("independence", np.nan),
        "worst_beta_binomial": worst.get("beta-binomial", np.nan),
        "judged": len(best),
        **{f"closest.{law}": int((best == law).sum()) for law in LAWS},
    }


# ── Figures and tables: what `Page.figure` and `Page.table` take besides a name


#: law → (colour, marker)
LAWS = {
    "independence": ("#7F7F7F", "s"),
    "markov": ("#D55E00", "^"),
    "beta-binomial": ("#2A7FC0", "o"),
}


def success_figure(own: pd.DataFrame) -> dict[str, Any]:
    """p(N) against S, a panel for each of four k, a colour for each of five N: measured points, and RBP_k^N."""
    rows = own[own["k"].isin(spread(own["k"], 4)) & own["n"].isin(spread(own["n"], 5))]
    single = own.loc[own["n"] == 1, ["model", "k", "p"]].rename(columns={"p": "rbp"})
    rows = rows.merge(single, on=["model", "k"]).assign(independent=lambda each: each["rbp"] ** each["n"])
    panels = curves(
        rows.assign(hollow=rows["p"] == 0), "size", "p", labels=(LABELS["size"], "share of windows that succeed"),
        panel="k", line="n", styles={n: (colour, "o", "--") for n, colour in shades(rows["n"].unique()).items()},
        fitted=[rows.assign(p=rows["independent"])], ylim=(-0.03, 1.03), size=(4.6, 4.2),
    )  # fmt: skip
    name = f"{own['family'].iloc[0]} on {dataset_label(own['dataset'].iloc[0])}"
    return {
        "figure": panels,
        "caption": f"<b>Success on N tokens in a row against model size, {name}.</b> Points: measured (hollow: no "
        "success at all). Dashed: equation 6, RBPₖ<sup>N</sup>.",
        "alt": "Success rises smoothly with model size; the longer the window, the farther the points lie above the "
        "dashed lines of independent tokens",
        "data": rows,
    }


def length_figure(power: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """`powers_of_length` against k."""
    rows = power.assign(low=power["length_low"], high=power["length_high"])
    panels = curves(
        rows, "k", "length", labels=("threshold k", "β, the power of N"), panel=None, line="family", at=[1],
        ylim="shared", size=(4.6, 3.4),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": f"<b>The power of N in −ln p</b>, by threshold, with {level:.0%} intervals. Dashed: equation 7.",
        "alt": "The power of N rises with k, from about a half at k = 1 towards 1 at k = 10 000",
        "data": power,
    }


def ratio_figure(mean: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """`ratio_by_length` against N."""
    panels = curves(
        mean, "n", "ratio", labels=("length N of the window (tokens)", "−ln p over its value for independent tokens"),
        panel="family", line="k", at=[1], size=(4.6, 4.4),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": "<b>How far from independence, by N and k.</b> Means over the models of a family, with "
        f"{level:.0%} intervals. Dashed: independent tokens.",
        "alt": "The ratio lies below 1 throughout and falls with N, most at small k; at k = 10 000 it levels off",
        "data": mean,
    }


def laws_figure(laws: pd.DataFrame, *, up_to: int) -> dict[str, Any]:
    """−ln p as each law predicts it, over the measured one, against k: a panel for each family and length."""
    factors = laws.groupby(["family", "n", "k", "law"])["factor"]
    rows = factors.agg(factor="median", low="min", high="max").reset_index()
    rows["of"] = [f"{row.family}, N = {row.n}" for row in rows.itertuples()]
    panels = curves(
        rows, "k", "factor", labels=("threshold k", "−ln p, predicted over measured"), panel="of", line="law",
        styles=LAWS, log="xy", at=[1], size=(4.6, 4.4),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": f"<b>Laws fitted to windows of up to {up_to} tokens, held against longer ones.</b> Predicted −ln p "
        "over the measured one (1 is right): medians over models, and their range.",
        "alt": "Independence and the Markov chain lie far above 1 at small k; the beta-binomial lies near 1",
        "data": laws,
    }


def printed_table(counts: pd.DataFrame, combination: str, zero: float | None) -> dict[str, Any]:
    """Figure 7's printed α and R² beside a `recipe`, and beside one line for all N, as equation 7 has it."""
    rows = []
    for k, (alpha, r_squared) in PRINTED.items():
        own = counts[counts["k"] == k]
        ours, pooled = recipe(own, combination, zero), recipe(own, POOLED, None)
        rows.append((k, int((own["successes"] == 0).sum()), alpha, ours[0], r_squared, ours[1], pooled[1]))
    names = ["k", "zeros", "alpha_printed", "alpha", "r_squared_printed", "r_squared", "r_squared_pooled"]
    columns: Columns = {
        "k": "k",
        "zeros": "zeros",
        "alpha_printed": ("α printed", "{:.3f}"),
        "alpha": ("α recomputed", "{:.3f}"),
        "r_squared_printed": ("R² printed", "{:.3f}"),
        "r_squared": ("R² recomputed", "{:.3f}"),
        "r_squared_pooled": ("R², one line for all N", "{:.3f}"),
    }
    caption = (
        "<b>Figure 7’s printed fits, recomputed.</b> Zeros: lengths and models without a success. The one line for all "
        "N leaves them out."
    )
    return shown(pd.DataFrame(rows, columns=names), columns, caption=caption)
