"""Compute α at k over α at 1 in every ranked prediction, the worth of five guesses, and −ln RBP_k as a power of k."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import chdtrc

from companion.chapters.families import LSTM, OURS, TRANSFORMER, exponents
from companion.evidence import outside
from companion.plots import single_panel
from rbp.arrays import Reals, check_level
from rbp.errors import FitError
from rbp.figures.curves import shades
from rbp.figures.style import INK, Panels, rbp_label
from rbp.figures.wording import dataset_label, dataset_order
from rbp.laws.power import check_points
from rbp.laws.resampling import interval, without_each
from rbp.laws.table import fit_table
from rbp.measurements import open_source
from rbp.measurements.counts import Counts

TEXT, LADDER, TRIES, IMAGES = "Text: published models", f"Text: {OURS}", "Tries at problems", "Images"
LEAST_ALPHA = 0.02  # the ratio to an exponent nearer to 0 says nothing
FEWEST_SIZES, SPAN = 4, 3  # of a family of models of images: so many sizes, over such a factor
STRAIGHT = 0.97  # the paper's bar for R² (4.2)
EXCEPTION = "imagenet-r"  # the test set on which α grows in the smallest share of families
SNAPSHOT = "300B"  # tokens of training of the models that tried
MODEL = ["dataset", "family", "model"]
SHADED = (1, 2, 5, 10, 100, 1_000, 10_000)  # in between, colours are legible on white and in the dark


# ── α at k over α at 1, of every source


def ratios_of_models(points: pd.DataFrame, ks: Sequence[int], *, source: str, level: float = 0.95) -> pd.DataFrame:
    """Fit α_k/α_1 of each family on each dataset, each of its models left out in turn for the interval.

    points: −ln RBP_k of a measurement table. Columns source, dataset, family, k, n, alpha_1, r_squared (at 1), alpha,
    ratio, low, high. Families of fewer than three sizes, or whose α_1 is LEAST_ALPHA or less, are left out.
    """
    check_level(level)
    rows = []
    wide = points.pivot_table(index=["dataset", "family", "size", "model"], columns="k", values="value")
    for (dataset, family), models in wide.groupby(["dataset", "family"]):
        for k in (k for k in ks if {1, k} <= set(wide)):
            both = models[[1, k]].to_numpy(np.float64)
            usable = (both > 0).all(axis=1)  # where both were measured, too: a missing one is no more than 0
            sizes = models.index.get_level_values("size").to_numpy(np.float64)[usable]
            y = np.log(both.T[:, usable])
            if len(np.unique(sizes)) < 3:
                continue
            every = [np.arange(len(sizes)), *(np.delete(np.arange(len(sizes)), i) for i in range(len(sizes)))]
            alpha = np.array([exponents(sizes[places], y[:, places]) for places in every])
            labels = {"source": source, "dataset": dataset, "family": family, "k": k, "n": len(sizes)}
            rows += _ratio(labels, alpha, len(sizes) - 1, float(np.corrcoef(np.log(sizes), y[0])[0, 1] ** 2), level)
    return pd.DataFrame(rows)


def ratios_of_documents(texts: Sequence[Counts], ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """Fit α_k/α_1 of the ladder's transformers and LSTMs, the documents left out in turn (see `ratios_of_models`)."""
    rows = []
    for text in texts:
        for family in (name for name in (TRANSFORMER, LSTM) if name in text.families):
            left = text.of(family, seed=0).left_out()
            sizes, first = left.counts.sizes, left.at(1)
            straight = float(np.corrcoef(np.log(sizes), first[0])[0, 1] ** 2)
            for k in ks:
                alpha = np.column_stack([exponents(sizes, first), exponents(sizes, left.at(k))])
                labels = {"source": LADDER, "dataset": text.dataset, "family": family, "k": k, "n": len(sizes)}
                rows += _ratio(labels, alpha, left.df, straight, level)
    return pd.DataFrame(rows)


def ratios_of_problems(ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """Fit α_k/α_1 of −ln pass@k of Pythia at SNAPSHOT, the problems left out in turn (see `ratios_of_models`)."""
    tried = outside.problem_tries().sort_values(["model", "prompt"])
    tried = tried[tried["training_tokens"] == SNAPSHOT]
    tries = open_source("tries").table.query("family == @trained", local_dict={"trained": f"Pythia at {SNAPSHOT}"})
    sizes = {model.rpartition("/")[2].partition("@")[0]: size for model, size in tries[["model", "size"]].to_numpy()}
    by_model = [tried[tried["model"] == name] for name in sizes]
    passed = np.array([[outside.pass_at(k, rows["samples"], rows["correct"]) for rows in by_model] for k in (1, *ks)])
    means = without_each(passed.transpose(2, 0, 1))  # (1 + problems, k, models)
    means /= np.append(passed.shape[2], np.full(passed.shape[2], passed.shape[2] - 1))[:, None, None]
    y = np.log(-np.log(means))
    size = np.array(list(sizes.values()), dtype=np.float64)
    alpha = np.stack([exponents(size, y[:, i]) for i in range(y.shape[1])], axis=1)
    straight = float(np.corrcoef(np.log(size), y[0, 0])[0, 1] ** 2)
    rows: list[dict[str, Any]] = []
    for i, k in enumerate(ks):
        named = {"source": TRIES, "dataset": "math", "family": f"Pythia at {SNAPSHOT}", "k": k, "n": len(size)}
        rows += _ratio(named, alpha[:, [0, i + 1]], passed.shape[2] - 1, straight, level)
    return pd.DataFrame(rows)


def _ratio(labels: dict[str, Any], alpha: Reals, df: float, r_squared: float, level: float) -> list[dict[str, Any]]:
    """Make a row from α at 1 and at k, shape (1 + units left out, 2); none where α_1 is too near to 0.

    df: degrees of freedom of intervals by the units.
    """
    if not alpha[0, 0] > LEAST_ALPHA:
        return []
    ratio, low, high = interval(alpha[:, 1] / alpha[:, 0], df, level=level)
    fitted = {"alpha_1": alpha[0, 0], "r_squared": r_squared, "alpha": alpha[0, 1]}
    return [labels | fitted | {"ratio": ratio, "low": low, "high": high}]


def image_families(table: pd.DataFrame) -> pd.DataFrame:
    """Select the families of models of images with at least FEWEST_SIZES sizes over a factor of SPAN."""
    size = table.groupby("family")["size"]
    enough = (size.transform("nunique") >= FEWEST_SIZES) & (size.transform("max") >= SPAN * size.transform("min"))
    return table[enough]


# ── What a list is worth


def compute_worth(points: pd.DataFrame, k: int = 5) -> "pd.Series[float]":
    """Compute how many independent tries k guesses are worth, ln(1 − RBP_k)/ln(1 − RBP_1), for each model and dataset.

    points: −ln RBP_1 and −ln RBP_k.
    """
    wide = points.pivot_table(index=["dataset", "model"], columns="k", values="value")
    wide = wide[[1, k]].dropna().astype("float64")
    first, later = (np.log(-np.expm1(-wide[threshold].to_numpy())) for threshold in (1, k))
    return pd.Series(later / first, wide.index)


# ── −ln RBP_k of one model as a power of k, as the preprint of October 2025 has it


def fits_in_k(points: pd.DataFrame, tokens: pd.DataFrame, *, least: int = 6, level: float = 0.95) -> pd.DataFrame:
    """Fit a power of k to −ln RBP_k of each model on each dataset, by least squares of its logarithm on ln k.

    points: a measurement table up to the largest k wanted; models with fewer than `least` thresholds are left out.
    tokens: of `tokens_behind`. Columns dataset, family, model, size, alpha (in k), r_squared; p: that counting noise
    alone takes the points off their line (`sampling_test`), missing where that cannot be told.
    """
    enough = points[points.groupby(MODEL)["k"].transform("nunique") >= least]
    sizes = enough.drop_duplicates(MODEL)[[*MODEL, "size"]]
    fits = fit_table(enough.assign(size=enough["k"].astype(float)).drop(columns="k"), MODEL, level=level)
    fits = fits.drop(columns="size", errors="ignore").dropna(subset="alpha").merge(sizes, on=MODEL)
    token_counts = tokens[tokens["basis"].isin(["counted", "recovered"])].set_index(["dataset", "family"])["tokens"]
    tests = []
    for row in fits.to_dict("records"):
        curve = enough[(enough["dataset"] == row["dataset"]) & (enough["model"] == row["model"])]
        tests.append(np.nan)
        if (row["dataset"], row["family"]) in token_counts.index:
            with suppress(FitError):  # two thresholds have one RBP_k
                tests[-1] = sampling_test(curve["k"], curve["value"], token_counts[row["dataset"], row["family"]])[1]
    return fits[[*MODEL, "size", "alpha", "r_squared"]].assign(p=tests)


def sampling_covariance(value: npt.ArrayLike, k: npt.ArrayLike, tokens: int) -> Reals:
    """Compute the covariance matrix, shape (n, n), of ln(−ln RBP_k) at n thresholds, from `tokens` independent ranks.

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
    """Test a straight line in ln k by χ² of n − 2 degrees of freedom: a small p says that it leaves more than noise.

    `k` and `value` have shape (n,), n ≥ 3; the line is weighted by what sampling `tokens` tokens allows. Raises
    FitError as `fit_power_law` does, and where two thresholds share one value (nothing ranked between).
    """
    thresholds, values = check_points(k, value)
    covariance = sampling_covariance(values, thresholds, tokens)
    singular = FitError("two thresholds have the same RBP_k: their covariance has no inverse", "k")
    if len(np.unique(values)) < len(values):  # some processors' rounding gives it a root all the same
        raise singular
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise singular from None
    design = np.column_stack([np.ones_like(thresholds), np.log(thresholds)])
    x, y = np.linalg.solve(root, design), np.linalg.solve(root, np.log(values))
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    statistic = float(np.sum((y - x @ coefficients) ** 2))
    return statistic, float(chdtrc(len(values) - 2, statistic))


# ── What is recorded


def ratio_summary(ratios: pd.DataFrame) -> dict[str, Any]:
    """Summarise `ratios_of_models` and its like, of each source at its largest k.

    By source: families, above (how many have α_k above α_1), straight (how many R² reach STRAIGHT at k = 1); of images
    on EXCEPTION families, above and ratio (the median α_k/α_1).
    """
    values: dict[str, Any] = {}
    names = {TEXT: "text", LADDER: "ladder", IMAGES: "images"}
    for source, rows in ratios[ratios["source"].isin(names)].groupby("source") if len(ratios) else ():
        name = names[str(source)]
        last = rows[rows["k"] == rows["k"].max()]
        values |= {f"{name}.families": len(last), f"{name}.above": int((last["ratio"] > 1).sum())}
        if source != LADDER:
            values |= {f"{name}.straight": int((last["r_squared"] >= STRAIGHT).sum())}
        if source == IMAGES:
            values |= {f"{name}.sets": last["dataset"].nunique()}
            for dataset, families in last[last["dataset"] == EXCEPTION].groupby("dataset"):
                values |= {f"families.{dataset}": len(families), f"above.{dataset}": int((families["ratio"] > 1).sum())}
                values |= {f"ratio.{dataset}": families["ratio"].median()}
    return values


def write_answer(ratios: pd.DataFrame, ks: Sequence[int]) -> str:
    """Say whether α grows with k in `ratios_of_models`, at the largest k of each family, or why that cannot be said."""
    if ratios.empty:
        named = ", ".join(map(str, ks))
        why = f"no family of three sizes has lines that fall at k = 1 and k = {named}"
        return f"It is not known whether α grows: {why}."
    rows = ratios[ratios["k"] == ratios.groupby(["dataset", "family"])["k"].transform("max")]
    largest = " or ".join(f"{k:,}" for k in sorted(set(rows["k"])))
    larger = int((rows["ratio"] > 1).sum())
    extent = f", significantly in {(rows['low'] > 1).sum()} of {len(rows)} cases" if larger else ""
    return (
        f"α is larger at k = {largest} than at k = 1 in {larger} of {len(rows)} cases of family and dataset{extent}. "
        f"It is significantly smaller in {(rows['high'] < 1).sum()} of {len(rows)} cases."
    )


def worth_summary(images: pd.DataFrame) -> dict[str, float]:
    """Summarise `compute_worth` by its median, of three test sets of images."""
    of_sets = compute_worth(images).groupby("dataset").median()
    return {f"worth.{name}": of_sets[name] for name in ("imagenet", "imagenet-a", "imagenet-r") if name in of_sets}


def in_k_summary(in_k: pd.DataFrame, in_s: pd.DataFrame, *, level: float = 0.95) -> dict[str, Any]:
    """Summarise `fits_in_k` beside the exponents in S, a `fit_table` by dataset, family and k.

    pairs, r_squared_*: models on datasets; noise_*: tested, and bent by more than counting noise.
    compared, larger, times_*: exponents in k over exponents in S; cells, rising_cells, s_rises: families on datasets,
    whose exponent in k rises with S, and in S with k. exchanged, local_impossible: models, and those for which
    ΔS/S = −(α_k/α_S)·Δk/k has no size left from k = 1 to 2.
    """
    cell = ["dataset", "family"]
    both = in_k.merge(in_s, on=cell, suffixes=("", "_s"))
    times = both["alpha"] / both["alpha_s"]
    rising = in_k.sort_values("size").groupby(cell)["alpha"].apply(lambda alphas: alphas.is_monotonic_increasing)
    alphas_at_ends = in_s.sort_values("k").groupby(cell)["alpha"].agg(["first", "last"])
    first = times[both["k"] == 1]
    return {
        "pairs": len(in_k),
        "r_squared_min": in_k["r_squared"].min(),
        "r_squared_high": int((in_k["r_squared"] >= 0.99).sum()),
        "noise_tested": int(in_k["p"].notna().sum()),
        "noise_rejected": int((in_k["p"] < 1 - level).sum()),
        "compared": len(both),
        "larger": int((times > 1).sum()),
        "times_min": times.min(),
        "times_max": times.max(),
        "cells": len(rising),
        "rising_cells": int(rising.sum()),
        "s_rises": int((alphas_at_ends["last"] > alphas_at_ends["first"]).sum()),
        "exchanged": len(first),
        "local_impossible": int((first >= 1).sum()),
    }


# ── Figures


def ratios_figure(ratios: pd.DataFrame) -> dict[str, Any]:
    """Plot α_k/α_1 as dots: a row for each dataset or test set, a dot for each k, in two panels.

    ratios: `ratios_of_models` and its like. A line holds all families of text, 80% of families of images, and of a
    single family its interval.
    """
    rows = []
    for (source, dataset, k), group in ratios.groupby(["source", "dataset", "k"], sort=False):
        low, high = group["ratio"].quantile([0.1, 0.9] if source == IMAGES else [0, 1])
        if len(group) == 1:
            low, high = group[["low", "high"]].iloc[0]
        summary = {"source": source, "dataset": dataset, "k": k, "ratio": group["ratio"].median()}
        rows.append(
            summary | {"low": low, "high": high, "families": len(group), "above": int((group["ratio"] > 1).sum())}
        )
    table = pd.DataFrame(rows)
    colours = shades({*SHADED, *table["k"]})
    suffix = {TEXT: "", LADDER: " (ours)", TRIES: " (tries)", IMAGES: ""}

    def draw(ax: Axes, panel: str) -> None:
        seen = table[table["source"].isin([IMAGES] if panel == IMAGES else [TEXT, LADDER, TRIES])]
        labels: list[str] = []
        for source, group in seen.groupby("source", sort=False):
            for dataset in dataset_order(group["dataset"]):
                line, ks = -len(labels), group[group["dataset"] == dataset].sort_values("k")
                labels.append(dataset_label(dataset) + suffix[str(source)])
                for place, dot in enumerate(ks.to_dict("records")):
                    y, colour = line + 0.24 * (place - (len(ks) - 1) / 2), colours[dot["k"]]
                    ax.hlines(y, dot["low"], dot["high"], color=colour, lw=1.6)
                    ax.plot(dot["ratio"], y, "o", color=colour, ms=6, mew=0)
                    if not line:
                        side = "center" if place == len(ks) - 1 else "right"  # two dots may be near each other
                        ax.annotate(f"k = {dot['k']}", (dot["ratio"], 0.75), color=INK, ha=side, weight="bold")
                note = f"{ks['above'].iloc[-1]} of {ks['families'].iloc[-1]}"
                ax.annotate(note, (1.02, line), xycoords=("axes fraction", "data"), va="center", annotation_clip=False)
        ax.axvline(1, color=INK, lw=0.8)
        ax.annotate("grew in", (1.02, 0.75), xycoords=("axes fraction", "data"), annotation_clip=False)
        ax.set_yticks([-i for i in range(len(labels))], labels)
        ax.set_ylim(-len(labels) + 0.4, 1.4)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("α at k over α at 1")
        ax.set_title(panel)

    panels = [
        title
        for title, sources in (("Text", [TEXT, LADDER, TRIES]), (IMAGES, [IMAGES]))
        if table["source"].isin(sources).any()
    ]
    return {
        "figure": Panels(panels, draw, size=(4.6, 4.2)),
        "alt": "The ratio of exponents, a row for each dataset and test set, beside a line at 1",
        "data": ratios,
    }  # fmt: skip


def five_figure(images: pd.DataFrame, text: pd.DataFrame) -> dict[str, Any]:
    """Plot RBP_5 against RBP_1 of images and text, with a constant number of independent tries (ImageNet's).

    images, text: −ln RBP_1 and −ln RBP_5; models of images are gathered in bins of 0.05.
    """
    rows = []
    for dataset, rows_of_set in images.groupby("dataset"):
        wide = rows_of_set.pivot_table(index="model", columns="k", values="value").map(lambda y: np.exp(-y))
        for _, group in wide.groupby((wide[1] / 0.05).astype(int)):
            rows.append((dataset, group[1].median(), group[5].median(), len(group)))
    both = text.pivot_table(index=["dataset", "model"], columns="k", values="value")[[1, 5]].dropna()
    rows += [("text", top1, five, 1) for top1, five in np.exp(-both.to_numpy(np.float64))]
    table = pd.DataFrame(rows, columns=["dataset", "one", "five", "models"])
    kappa = compute_worth(images).groupby("dataset").median().get("imagenet", compute_worth(images).median())
    looks = {"imagenet-a": ("#9457C0", "s"), "imagenet-r": ("#C2447A", "D"), "text": ("#5C8A2E", "v")}
    others = [name for name in table["dataset"].unique() if name not in looks]

    def draw(ax: Axes) -> None:
        share = np.linspace(0.02, 0.95, 60)
        ax.plot(share, 1 - (1 - share) ** kappa, color=INK, lw=0.8)
        ax.annotate(f"as {kappa:.2f} tries", (0.16, 0.22), color=INK)
        labels = {"imagenet-a": (0.03, 0.55), "imagenet-r": (0.63, 0.66), "text": (0.42, 0.46)}
        for name, rows_of_set in table.groupby("dataset"):
            colour, marker = looks.get(str(name), (INK, "o"))
            ax.plot(rows_of_set["one"], rows_of_set["five"], marker, color=colour, ms=5, mew=0)
            if name in labels:
                words = "models of text" if name == "text" else dataset_label(str(name))
                ax.plot(*labels[str(name)], marker, color=colour, ms=7, mew=0)
                x, y = labels[str(name)]
                ax.text(x + 0.015, y, words, color=INK, weight="bold", va="center")
        ax.annotate(f"{len(others)} other test sets", (0.48, 0.88), color=INK, ha="right", weight="bold")
        ax.set_xlabel(rbp_label(1))
        ax.set_ylabel(rbp_label(5))

    return {
        "figure": single_panel(draw, size=(4.8, 3.4)),
        "alt": "Text and four test sets of images lie along one curve, ImageNet-A above it and ImageNet-R below",
        "data": table,
    }
