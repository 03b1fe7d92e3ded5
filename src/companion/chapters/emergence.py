"""Chapter "Emergence": success on N tokens in a row against size, and how far from independent the tokens are."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import sympy as sp
from matplotlib.axes import Axes
from scipy.special import log_ndtr
from scipy.stats import norm
from scipy.stats import t as t_distribution

from companion.chapters.real import FEWEST
from companion.plots import by_number, spread
from companion.stats.compare import paired_exponents
from companion.stats.window_errors import runs_alive, with_error
from rbp.arrays import Reals
from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import curves, shades
from rbp.figures.style import INK, LABELS, Panels, label_line_ends, log_axis
from rbp.laws.newton import minimum
from rbp.laws.resampling import interval
from rbp.measurements.ranked import Ranked
from rbp.measurements.windows import runs
from rbp.metric import TieRule
from rbp.store import RankStore

CELL = ["dataset", "family", "k"]
RATIO = "ratio to independence"


def select_dataset(windows: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Select the window counts on one dataset. Raises ParameterError where there are none."""
    counts = windows[windows["dataset"] == dataset]
    if counts.empty:
        available = ", ".join(sorted(set(windows["dataset"])))
        raise ParameterError(f"there are no windows of {dataset}", "dataset", f"There is: {available}.")
    return counts


def select_family(windows: pd.DataFrame, family: str = "") -> pd.DataFrame:
    """Select the window counts of `family`; "": of the family with the most models. Raises ParameterError for none."""
    family = family or str(windows.groupby("family")["model"].nunique().idxmax())
    counts = windows[windows["family"] == family]
    if counts.empty:
        available = ", ".join(sorted(set(windows["family"])))
        raise ParameterError(f"there are no windows of {family}", "family", f"On this dataset there is: {available}.")
    return counts


# ── Is p(N, k) = RBP_k^N, as equation 6 has it for independent tokens that are alike?


def compute_ratios(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compute −ln p(N) over N·(−ln RBP_k) for every model, k and N > 1: 1 where the tokens are independent.

    counts: dataset, model, family, size, k, n, successes, windows, with n = 1 for every k. Adds single (−ln RBP_k),
    ratio, ratio_low and ratio_high (normal on ln p, by `window_errors.share_error`). Where no window succeeds,
    ratio and ratio_high are missing, and ratio_low is what one success would give.
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
    ).reset_index(drop=True)


def ratio_by_length(ratio: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Average `compute_ratios` over the models of a family, by k and N: the geometric mean, with a t interval.

    Only cells in which every model has a success. Columns CELL, n, models, ratio, low, high (of
    models drawn anew on this very text), effective (ratio·N: as many independent
    tokens would succeed as rarely).
    """
    rows = []
    for key, models in ratio.groupby([*CELL, "n"]):
        if models["ratio"].isna().any() or len(models) < 2:
            continue
        logs = np.log(models["ratio"].to_numpy())
        half = t_distribution.ppf((1 + level) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        mean, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
        rows.append((*key, len(logs), mean, low, high, mean * key[-1]))
    return pd.DataFrame(rows, columns=[*CELL, "n", "models", "ratio", "low", "high", "effective"])


# ── Does −ln p(N, k) grow in proportion to N, as equation 7 has it?


def powers_of_length(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit β in −ln p = C·N^β·S^(−α) for each family, k and dataset: it is 1 by equation 7 of the paper.

    By maximum likelihood of ln(−ln p) = c + β·ln N − α·ln S + ε, ε normal; a length without success enters by the
    probability that p is below 1/windows. Columns CELL, models, constant (c), alpha, length (β), scatter (of ε),
    length_low, length_high: by leaving out one model at a time. Cells of fewer than four models, or of one length with
    successes, and cells whose points determine no law are left out.
    """
    rows = []
    for key, cell in counts.groupby(CELL):
        models = sorted(set(cell["model"]))
        if len(models) < 4 or cell.loc[cell["successes"] > 0, "n"].nunique() < 2:
            continue
        try:
            best = _likeliest(cell)
            without = [_likeliest(cell[cell["model"] != model])[2] for model in models]
        except FitError:
            continue
        _, low, high = interval([best[2], *without], len(models) - 1, level=level)
        rows.append((*key, len(models), *best, low, high))
    names = [*CELL, "models", "constant", "alpha", "length", "scatter", "length_low", "length_high"]
    return pd.DataFrame(rows, columns=names)


def _likeliest(counts: pd.DataFrame) -> Reals:
    """Find c, α, β and the scatter of the highest likelihood.

    In θ = parameters/σ and h = 1/σ it has one maximum only.
    """
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


def compare_exponents(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compare α of −ln p(N) with α of −ln RBP_k for the same models: they are equal under independence.

    The steepest rise of exp(−C·S^(−α)) in ln S is α/e, so the difference also says whether success rises more steeply
    for windows than for single tokens. Only cells in which every model has a success, and three models at least.
    Columns CELL, n, models, alpha (of −ln p(N)), alpha_single, difference, low, high, p: `compare.paired_exponents`.
    """
    rows = []
    for key, cell in counts.groupby(CELL):
        share = (cell["successes"] / cell["windows"]).where(cell["successes"] > 0)
        wide = cell.assign(y=-np.log(share.astype(float)))
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
            test_row = (len(both), test.alpha_first, test.alpha_second, test.difference, test.low, test.high, test.p)
            rows.append((*key, n, *test_row))
    names = [*CELL, "n", "models", "alpha", "alpha_single", "difference", "low", "high", "p"]
    return pd.DataFrame(rows, columns=names)


def describe_transitions(counts: pd.DataFrame) -> pd.DataFrame:
    """Describe how much of a sigmoid each curve of success against size shows: a row for each family, k and N.

    Columns CELL, n; visible (it runs from below 0.1 to above 0.9); turns (it passes 1/e, where a curve of the law is
    steepest in ln S); steps (to the next larger model, unless neither has a success), and rises (how many raise p).
    """
    rows = []
    for key, cell in counts.groupby([*CELL, "n"]):
        cell = cell.sort_values("size")
        p = (cell["successes"].astype(float) / cell["windows"]).to_numpy()
        low, high = p.min(), p.max()
        steps = int(((p[1:] > 0) | (p[:-1] > 0)).sum())
        rows.append((*key, low < 0.1 and high > 0.9, low < np.exp(-1) < high, steps, int((np.diff(p) > 0).sum())))
    return pd.DataFrame(rows, columns=[*CELL, "n", "visible", "turns", "steps", "rises"])


def power_follows() -> str:
    """Derive p(N) = RBP_k^N (equation 6) for independent tokens that are alike, "yes" or "no", by computer algebra."""
    rate = sp.Symbol("rate", positive=True)
    return "yes" if all(sp.Mul(*[rate] * m) == rate**m for m in range(1, 10)) else "no"


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
ZERO = 1e-12  # stands for p = 0: of all ways that were tried, this one gives every printed digit


def printed_fits(counts: pd.DataFrame) -> pd.DataFrame:
    """Recompute the printed numbers as means over separate lines of ln(−ln p) on ln S, one for each N.

    counts: the published window successes of Pythia, with k, n, size, p. R² of a line through equal values is 1, as in
    scikit-learn. Columns k, alpha, r_squared, alpha_printed, r_squared_printed.
    """
    rows = []
    for k, printed in PRINTED.items():
        points = counts[counts["k"] == k]
        p = points["p"].mask(points["p"] == 0, ZERO)
        points = points.assign(x=np.log(points["size"].astype(float)), y=np.log(-np.log(p)))
        lines = [_line(line["x"].to_numpy(), line["y"].to_numpy()) for _, line in points.groupby("n") if len(line) > 2]
        slope, r_squared = np.mean(lines, axis=0)
        rows.append((k, -slope, r_squared, *printed))
    return pd.DataFrame(rows, columns=["k", "alpha", "r_squared", "alpha_printed", "r_squared_printed"])


def _line(x: Reals, y: Reals) -> tuple[float, float]:
    """Compute slope and R² by least squares."""
    x, off = x - x.mean(), y - y.mean()
    total = float(off @ off)
    if total < 1e-20:
        return 0.0, 1.0
    slope = float(x @ y) / float(x @ x)
    return slope, 1 - float(np.sum((off - slope * x) ** 2)) / total


def count_printed(fits: pd.DataFrame) -> dict[str, int]:
    """Count how many of the printed numbers `printed_fits` gives to all three digits, and how many there are."""
    off = [(fits[name] - fits[f"{name}_printed"]).abs() for name in ("alpha", "r_squared")]
    agree = sum(int((differences <= 0.0005 + 1e-5).sum()) for differences in off)
    return {"agree": agree, "numbers": 2 * len(fits)}


# ── The same on every text that we have ranks of, with intervals by documents


KS = (1, 10, 100, 1000)
LENGTHS = (2, 5, 10, 20, 50, 100)


def ratios_by_document(
    stores: Iterable[RankStore],
    ks: Sequence[int] = KS,
    lengths: Sequence[int] = LENGTHS,
    *,
    rule: TieRule = "paper",
    level: float = 0.95,
) -> pd.DataFrame:
    """Compute −ln p(N) over N·(−ln RBP_k) of every store: 1 where tokens are independent and alike.

    Columns dataset, family, model, size, k, n, successes, ratio, low, high: the interval of ln ratio by leaving out one
    unit of the text at a time (`independent_units`). Cells in which windows succeed in fewer than FEWEST documents are
    left out.
    """
    rows = []
    for store in stores:
        ranked = Ranked(store, rule)
        documents, positions = (ranked.tokens[name].to_numpy() for name in ("document", "position"))
        place = runs(np.ones(len(documents), dtype=bool), documents, positions)
        for k in (k for k in ks if k < store.vocabulary):
            reached = runs(np.asarray(ranked.ranks) <= k, documents, positions)
            for n in lengths:
                columns = np.column_stack([reached >= 1, place >= 1, reached >= n, place >= n])
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio_interval = np.exp(ranked.units.interval(partial(_log_ratio, n=n), columns, level=level))
                if np.isfinite(ratio_interval).all() and len(np.unique(documents[reached >= n])) >= FEWEST:
                    labels = (store.dataset, store.family, store.model, store.size, k, n)
                    rows.append((*labels, int((reached >= n).sum()), *map(float, ratio_interval)))
    names = ["dataset", "family", "model", "size", "k", "n", "successes", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def _log_ratio(sums: Reals, n: int) -> Any:
    hits, tokens, successes, windows = np.moveaxis(sums, -1, 0)
    return np.log(np.log(successes / windows) / (n * np.log(hits / tokens)))


def count_by_text(ratio: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Count `ratios_by_document` by text and k, over models and lengths.

    Columns dataset, k, cells, below and above (how many have an interval below 1, or above it); ratio, low, high: of
    the largest model at `n` (missing where it has none).
    """
    marked = ratio.assign(below=ratio["high"] < 1, above=ratio["low"] > 1)
    counts = marked.groupby(["dataset", "k"]).agg(cells=("n", "size"), below=("below", "sum"), above=("above", "sum"))
    largest = ratio[(ratio["size"] == ratio["size"].max()) & (ratio["n"] == n)]
    return counts.join(largest.set_index(["dataset", "k"])[["ratio", "low", "high"]]).reset_index()


def local_powers(windows: pd.DataFrame) -> pd.DataFrame:
    """Compute the power of N in −ln p between neighbouring lengths: d ln(−ln p)/d ln N.

    The mean over a family's models. windows: counts of one family, with k, n, model, successes, windows. Only models
    with a success at both lengths.
    Columns k, n, n_next, models, power: one number at all N if −ln p is a power of N.
    """
    points = windows[(windows["successes"] > 0) & (windows["successes"] < windows["windows"])]
    points = points.assign(y=np.log(-np.log(points["successes"].astype(float) / points["windows"])))
    points = points.sort_values(["model", "k", "n"])
    after = points.groupby(["model", "k"])[["n", "y"]].shift(-1)
    points = points.assign(n_next=after["n"], power=(after["y"] - points["y"]) / np.log(after["n"] / points["n"]))
    steps = points.dropna(subset="power").groupby(["k", "n", "n_next"])
    return steps.agg(models=("power", "size"), power=("power", "mean")).reset_index().astype({"n_next": "int64"})


# ── What is recorded


def summarize_published(
    counts: pd.DataFrame,
    ratio: pd.DataFrame,
    mean: pd.DataFrame,
    power: pd.DataFrame,
    change: pd.DataFrame,
) -> dict[str, Any]:
    """Collect the numbers on the published windows for page and ledger, by key; missing ones are left out.

    counts: the windows of one family; the others of all: `compute_ratios`, `ratio_by_length`, `powers_of_length`,
    `compare_exponents`.
    """
    family, largest = counts["family"].iloc[0], counts.sort_values("size")["model"].iloc[-1]
    lengths = power[power["family"] == family]
    curve, local = describe_transitions(counts), local_powers(counts)
    means = mean[mean["family"] == family].set_index(["k", "n"])
    alive = runs_alive(counts[counts["model"] == largest]).query("k == 1 and n == 100 and successes > 0")
    below, above = int((ratio["ratio_high"] < 1).sum()), int((ratio["ratio_low"] > 1).sum())
    values = {
        "algebra.power": power_follows(),
        "ratio.cells": len(ratio),
        "ratio.below": below,
        "ratio.above": above,
        "ratio.inside": len(ratio) - below - above,
        "ratio.zeros": int((ratio["successes"] == 0).sum()),
        "ratio.k1.n10": means["ratio"].get((1, 10), np.nan),
        "effective.k10.n100": means["effective"].get((10, 100), np.nan),
        "runs.k1.n100": alive["runs"].mean(),
        "power.fits": len(lengths),
        "power.below": int((lengths["length_high"] < 1).sum()),
        **{f"power.k{k}": lengths.set_index("k")["length"].get(k, np.nan) for k in (1, 10_000)},
        "curves": len(curve),
        **{f"curves.{name}": int(curve[name].sum()) for name in ("visible", "turns", "steps", "rises")},
        "rise.tests": len(change),
        "rise.sharper": int((change["low"] > 0).sum()),
        "rise.duller": int((change["high"] < 0).sum()),
        "models": counts["model"].nunique(),
        "inside.published": float((len(ratio) - below - above) / len(ratio)),
    }
    first = local[local["k"] == 1]
    first = first[first["models"] >= first["models"].max() / 2]  # few models have successes at the longest
    if len(first):
        start, end = first.iloc[0], first.iloc[-1]
        values |= {"local.first": start["power"], "local.last": end["power"], "local.last_models": int(end["models"])}
        values |= {"local.last_from": int(end["n"]), "local.last_to": int(end["n_next"])}
    return values


#: the text and the k of which the page gives the ratio of the largest model
QUOTED = (("auslegal", 1), ("hotpotqa", 10), ("humaneval", 10), ("wikipedia", 10))


def summarize_texts(ratio: pd.DataFrame, power: pd.DataFrame, curve: pd.DataFrame) -> dict[str, Any]:
    """Collect the numbers on the other texts for page and ledger, by key.

    ratio: `ratios_by_document`; power: `powers_of_length` and curve: `describe_transitions` of the same ranks. inside:
    the share of cells whose interval holds 1, of each text.
    """
    counted = count_by_text(ratio)
    values: dict[str, Any] = {f"texts.{name}": int(counted[name].sum()) for name in ("cells", "below", "above")}
    values["texts"] = counted["dataset"].nunique()
    for row in counted.to_dict("records"):
        if (row["dataset"], row["k"]) in QUOTED:
            key = f"{row['dataset']}.k{row['k']}"
            values |= {f"texts.{name}.{key}": row[name] for name in ("ratio", "low", "high")}
    values |= {"texts.power.fits": len(power), "texts.power.below": int((power["length_high"] < 1).sum())}
    values["texts.power.above"] = int((power["length_low"] > 1).sum())
    inside = ((ratio["low"] <= 1) & (ratio["high"] >= 1)).groupby(ratio["dataset"])
    values |= {f"inside.{dataset}": share for dataset, share in inside.mean().items()}
    values["texts.inside"] = int(inside.sum().sum())
    return values | {f"texts.{name}": int(curve[name].sum()) for name in ("steps", "rises")}


# ── Figures: what `Page.figure` takes besides a name


def success_figure(counts: pd.DataFrame) -> dict[str, Any]:
    """Plot p(N) and RBP_k^N against S: a panel for each of the two middle k of four, a line for each of five N."""
    ks = spread(counts["k"], 4)
    rows = counts[counts["k"].isin(ks[1:3] if len(ks) == 4 else ks) & counts["n"].isin(spread(counts["n"], 5))]
    single = counts.loc[counts["n"] == 1, ["model", "k", "p"]].rename(columns={"p": "rbp"})
    rows = rows.merge(single, on=["model", "k"]).assign(independent=lambda table: table["rbp"] ** table["n"])
    colours = shades(rows["n"].unique())

    def draw(ax: Axes, k: int) -> None:
        labels = {}
        for n, points in by_number(rows[rows["k"] == k].sort_values("size"), "n"):
            colour = colours[n]
            for none, face in ((False, colour), (True, "none")):
                subset = points[(points["p"] == 0) == none]
                ax.plot(subset["size"], subset["p"], "o", color=colour, mfc=face, ms=5, mew=1 if none else 0, zorder=3)
            ax.plot(points["size"], points["independent"], "--", color=colour, lw=1.2)
            labels[f"N = {n}"] = (float(points["size"].iloc[-1]), float(points["p"].iloc[-1]), INK)
        ax.set_ylim(-0.03, 1.03)
        log_axis(ax, "x", plain=False)
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("share that succeeds")
        ax.set_title(f"k = {k}")
        label_line_ends(ax, labels)

    return {
        "figure": Panels(sorted(rows["k"].unique().tolist()), draw, size=(4.6, 2.7)),
        "alt": "Success against model size, measured points and dashed lines of independent tokens for each length",
        "data": rows,
    }


def ratio_figure(mean: pd.DataFrame) -> dict[str, Any]:
    """Plot `ratio_by_length` against N, for six of the k."""
    rows = mean[mean["k"].isin(spread(mean["k"], 6))]
    panels = curves(
        rows, "n", "ratio", labels=("length N of the window (tokens)", RATIO), panel="family", line="k", heights=[1],
        ylim="shared", size=(4.6, 2.9),
    )  # fmt: skip
    return {
        "figure": panels,
        "alt": "The ratio against the length of the window, a line for each k, beside a line at 1",
        "data": mean,
    }


def texts_figure(ratio: pd.DataFrame) -> dict[str, Any]:
    """Plot the ratio of the largest model against N, a panel for each text, a colour for each k."""
    largest = ratio[ratio["size"] == ratio["size"].max()]
    panels = curves(
        largest, "n", "ratio", labels=("length N of the window (tokens)", RATIO), line="k", heights=[1], ylim="shared",
        size=(4.6, 2.2),
    )  # fmt: skip
    return {
        "figure": panels,
        "alt": "The ratio against the length of the window, a panel for each text and a line for each k",
        "data": ratio,
    }
