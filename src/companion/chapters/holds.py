"""The paper's fits at every k, and how the exponent and R² change with k."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.evidence import published
from companion.plots import fits_listed
from companion.stats.subsets import CELL
from rbp.figures.style import INK, Panels, family_style, legend_below, log_axis
from rbp.figures.wording import cell_label, dataset_label, dataset_order
from rbp.report.display import INTERVAL, shown

GOOD, LOW = 0.97, 0.9  # R² of a good fit (section 4.2), and the most at which the law has broken down (4.4)
KS = (1, 10, 50, 100, 20_000, 30_000)  # the paper's, of figures 3 to 5
MANY = 12  # thresholds that each have a figure


# ── One law for each family, dataset and k


def select_thresholds(table: pd.DataFrame, ks: list[int]) -> list[int]:
    """Choose the thresholds k to fit: `ks`; if empty, all of the table, or KS where it has over MANY."""
    available = sorted(table["k"].dropna().unique())
    return ks or (available if len(available) <= MANY else [k for k in KS if k in available] or available)


def thresholds_to_plot(points: pd.DataFrame, ks: list[int]) -> tuple[list[int], list[int]]:
    """Choose the thresholds k that have a figure, up to 100 and beyond: all requested or measured.

    Of the authors' numbers without a request: the smallest k, and the largest up to 20,000, which figure 5 shows.
    """
    measured = pd.Series(sorted(points["k"].unique()), dtype="int64")
    short, long = (measured[part].tolist() for part in (measured <= 100, measured > 100))
    if not ks and set(points["source"]) <= set(published.SOURCES):
        return short[:1], [k for k in long if k <= 20_000][-1:]
    return short, long


def fit_logarithms(points: pd.DataFrame) -> pd.DataFrame:
    """Fit the rival, a line in ln S, −ln RBP_k = a − b·ln S, for each dataset, family and k.

    Column r_squared: of ln(−ln RBP_k), as for the power law; NaN where the line leaves the positive numbers.
    """
    rows = []
    for (dataset, family, k), cell in points[points["value"] > 0].groupby([*CELL, "k"]):
        log_size, log_value = np.log(cell["size"]), np.log(cell["value"])
        fitted = np.polyval(np.polyfit(log_size, cell["value"], 1), log_size)
        with np.errstate(invalid="ignore"):
            rest = ((log_value - np.log(fitted)) ** 2).sum(skipna=False)
        rows.append((dataset, family, k, 1 - rest / ((log_value - log_value.mean()) ** 2).sum()))
    return pd.DataFrame(rows, columns=[*CELL, "k", "r_squared"])


def _falls_straight(fits: pd.DataFrame) -> "pd.Series[bool]":
    """Return which fits are of a law: −ln RBP_k falls with size, and R² reaches GOOD."""
    return (fits["alpha"] > 0) & (fits["r_squared"] >= GOOD)


def line_counts(fits: pd.DataFrame, ks: list[int]) -> dict[str, int]:
    """Count the lines fitted at `ks`: lines, straight (which fall, with R² of GOOD at least) and rising."""
    rows = fits[fits["k"].isin(ks)].dropna(subset="alpha")
    return {"lines": len(rows), "straight": int(_falls_straight(rows).sum()), "rising": int((rows["alpha"] < 0).sum())}


def fit_summary(points: pd.DataFrame, fits: pd.DataFrame) -> dict[str, Any]:
    """Summarise the fits (`fit_table`) up to k = 100, and beyond k = 1,000.

    What a sentence says of lines that fall is not counted of others: high, and cut_min and cut_max, which are left out
    where a line rises.
    """
    fitted = fits.dropna(subset="alpha")
    small, large = fitted[fitted["k"] <= 100], fitted[fitted["k"] > 1000]
    values = _small_summary(points, small) if len(small) else {}
    for name, rows in (("first", small[small["k"] == 1]), ("moderate", small[small["k"] > 1])):
        values |= {f"r_squared.{name}.{cell}": r for cell, r in _r_squared(rows).items()}
        values |= {f"{name}.fits": len(rows), f"{name}.high": int(_falls_straight(rows).sum())}
        if name == "first" and len(rows):
            lowest = rows.sort_values("r_squared").iloc[0]
            values |= {"first.r_squared_min": lowest["r_squared"], "first.lowest_cell": cell_label(lowest)}
    below = small[(small["k"] > 1) & (small["r_squared"] < GOOD)].sort_values("r_squared")
    values |= {"moderate.below": fits_listed(below, r_squared=True)}
    return values | (_large_summary(large) if len(large) else {}) | _step_summary(points)


def _small_summary(points: pd.DataFrame, fits: pd.DataFrame) -> dict[str, Any]:
    first = fits[fits["k"] == fits["k"].min()]
    worst, widest = fits.sort_values("r_squared").iloc[0], fits.sort_values("residual_se").iloc[-1]
    width = 100 * (fits["alpha_high"] - fits["alpha_low"]) / fits["alpha"].abs()
    reduction = 100 * (1 - 10 ** -first["alpha"])  # of −ln RBP_k by ten times the parameters
    rival = fits.merge(fit_logarithms(points[points["k"] <= 100]), on=[*CELL, "k"], suffixes=("", "_rival"))
    values = {
        "fits": len(fits),
        "high": int(_falls_straight(fits).sum()),
        "r_squared_median": fits["r_squared"].median(),
        "r_squared_min": worst["r_squared"],
        "alpha_min": first["alpha"].min(),
        "alpha_max": first["alpha"].max(),
        "width_many": width[fits["n"] > 5].median(),
        "width_few": width[fits["n"] <= 5].median(),
        "logarithm_median": rival["r_squared_rival"].median(),
        "beats_logarithm": int((rival["r_squared"] > rival["r_squared_rival"].fillna(-np.inf)).sum()),
    }
    if (first["alpha"] > 0).all():
        values |= {"cut_min": reduction.min(), "cut_max": reduction.max()}
    cells = {name: f"{cell_label(row)}, k = {row['k']}" for name, row in (("lowest", worst), ("widest", widest))}
    if widest["r_squared"] > worst["r_squared"]:  # else one line is both, and shows nothing about R²
        values |= {f"{name}_cell": cell for name, cell in cells.items()}
    return values


def _large_summary(fits: pd.DataFrame) -> dict[str, Any]:
    best, gpt_2 = fits.sort_values("r_squared").iloc[-1:], fits[fits["family"] == "GPT-2"]
    r_squared_at = [fits[fits["k"] == k].set_index(CELL)["r_squared"] for k in (fits["k"].min(), fits["k"].max())]
    pairs = pd.concat(r_squared_at, axis=1).dropna()
    values = {f"r_squared.{cell}": r for cell, r in _r_squared(fits).items()} | {
        "fits": len(fits),
        "low": int((fits["r_squared"] <= LOW).sum()),
        "r_squared_max": best["r_squared"].item(),
        "best_cell": fits_listed(best),
        "gpt2": len(gpt_2),
        "gpt2_rising": int((gpt_2["alpha"] < 0).sum()),
        "rising_cells": fits_listed(fits[fits["alpha_high"] < 0]),
        "pairs": len(pairs),
        "lower": int((pairs.iloc[:, 1] < pairs.iloc[:, 0]).sum()),
    }
    return {f"large.{name}": value for name, value in values.items()}


def _step_summary(points: pd.DataFrame) -> dict[str, int]:
    """Count the steps from one size to the next, and at how many −ln RBP_k falls."""
    ordered = points.sort_values("size")
    steps = ordered.assign(step=ordered.groupby([*CELL, "k"])["value"].diff()).dropna(subset="step")
    values: dict[str, int] = {}
    for name, rows in (("k1", steps[steps["k"] == 1]), ("to_100", steps[steps["k"].between(2, 100)])):
        values |= {f"steps.{name}": len(rows), f"falls.{name}": int((rows["step"] < 0).sum())}
    return values


def _r_squared(fits: pd.DataFrame) -> dict[str, float]:
    """Return R² of each fit, by the end of its key."""
    return {f"{fit['dataset']}.{fit['family']}.k{fit['k']}": fit["r_squared"] for _, fit in fits.iterrows()}


# ── The exponent at every k

_GAP = 30  # no line crosses a wider gap in k: what happens within is not known


def threshold_panels(fits: pd.DataFrame) -> Panels:
    """Draw α against k: a panel for each dataset, a line for each family.

    `fits` comes from `subsets.fit_thresholds`; of a family and dataset with both sets of models, all models are drawn
    where they are measured.
    """
    rows = fits.dropna(subset="alpha").query("models == 'all'")
    rows = rows if len(rows) else fits.dropna(subset="alpha")
    families = sorted(rows["family"].unique())
    styles = {family: family_style(family, families) for family in families}

    def draw(ax: Axes, dataset: str) -> None:
        for family, cell in rows[rows["dataset"] == dataset].sort_values("k").groupby("family"):
            k, alpha = cell["k"].to_numpy(float), cell["alpha"].to_numpy(float)
            colour, marker = styles[family]
            for stretch in np.split(np.arange(k.size), np.flatnonzero(k[1:] > _GAP * k[:-1]) + 1):
                ax.plot(k[stretch], alpha[stretch], marker, ls="-", lw=0.9, color=colour, ms=3.5, mew=0)
        log_axis(ax, "x", plain=False)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xlabel("threshold k")
        ax.set_ylabel("exponent α")
        ax.set_title(dataset_label(dataset))
        legend_below(ax, styles)

    return Panels(dataset_order(rows["dataset"]), draw, size=(4.6, 2.4))


def select_sets(fits: pd.DataFrame) -> pd.DataFrame:
    """Choose the models to follow over k in each family and dataset: "common", or "all" where both are the same."""
    return fits.dropna(subset="alpha").groupby(CELL, as_index=False).agg(models=("models", "max"))


def threshold_summary(points: pd.DataFrame, fits: pd.DataFrame, rise: pd.DataFrame) -> dict[str, Any]:
    """Summarise the fits at every k (`subsets.fit_thresholds`, `subsets.compare_steps`).

    The exponent rises only where −ln RBP_k falls with size at both ends.
    """
    fitted = fits.dropna(subset="alpha")
    alphas = fitted[fitted["models"] == "all"].pivot_table("alpha", CELL, "k").reindex(columns=[1, 100])
    rise = rise.merge(alphas[(alphas > 0).all(axis=1)].reset_index()[CELL], on=CELL)
    small, hundred = fitted[fitted["k"] < 1000], fitted[(fitted["models"] == "all") & (fitted["k"] == 100)]
    values: dict[str, Any] = {
        "below_1000.fits": len(small),
        "below_1000.low": int((small["r_squared"] <= LOW).sum()),
        "rise_cells": len(rise),
        "rise": int((rise["difference"] > 0).sum()),
        "rise_significantly": int((rise["low"] > 0).sum()),
    }
    if len(hundred):
        values |= {"alpha_100_min": hundred["alpha"].min(), "alpha_100_max": hundred["alpha"].max()}
    return values | compare_gains(points, 1, 100)


def figure_6_difference(fits: pd.DataFrame) -> dict[str, Any]:
    """Measure how far the fits of all Pythias are from the numbers behind the paper's figure 6."""
    curves = published.fit_by_k().assign(alpha=lambda table: -table.slope)
    shared = fits[fits["models"] == "all"].merge(curves, on=[*CELL, "k"], suffixes=("", "_published"))
    if not len(shared):
        return {}
    off = max((shared[name] - shared[f"{name}_published"]).abs().max() for name in ("r_squared", "alpha"))
    return {"figure_6.compared": len(shared), "figure_6.difference": off}


def printed_summary() -> dict[str, Any]:
    """Summarise what the paper prints on R² and exponents at every k: figure 6, and Table 1."""
    printed = published.table1().query("metric == 'neg_log_rbp'")
    figure_6 = published.fit_by_k().sort_values(["dataset", "k"])
    below_1000, at_1, at_100 = (figure_6[rows] for rows in (figure_6.k < 1000, figure_6.k == 1, figure_6.k == 100))
    drops = figure_6[(figure_6.k < 20_000) & (figure_6.r_squared < GOOD)].groupby("dataset", as_index=False).first()
    step = figure_6.dropna(subset="slope").groupby("dataset").slope.diff().dropna()
    low = printed[(printed.k < 1000) & (printed.r_squared <= LOW)].sort_values(["dataset", "k"])
    values: dict[str, Any] = {
        "figure_6.points": len(below_1000),
        "figure_6.low": int((below_1000.r_squared <= LOW).sum()),
        "figure_6.r_squared_min": below_1000.r_squared.min(),
        "figure_6.steps": len(step),
        "figure_6.rising": int((step < 0).sum()),
        "figure_6.curves": len(at_1),
        "figure_6.below_01": int((at_1.slope > -0.1).sum()),
        "figure_6.close_02": int(at_100.slope.between(-0.25, -0.15, inclusive="left").sum()),
        "figure_6.kept": len(at_1) - len(drops),
        "figure_6.drops": fits_listed(drops, r_squared=True, joint="; "),
        "printed.cells": int((printed.k < 1000).sum()),
        "printed.low": len(low),
        "printed.low_cells": fits_listed(low, r_squared=True, joint="; "),
    }
    for name, rows in (("small", printed[printed.k <= 100]), ("large", printed[printed.k > 100])):
        values |= {f"printed.{name}.cells": len(rows), f"printed.{name}.good": int((rows.r_squared >= GOOD).sum())}
    return values


def compare_gains(points: pd.DataFrame, low: int, high: int) -> dict[str, int]:
    """Compare what a family's largest model gains over its smallest at two thresholds.

    points: dataset, family, model, size, k and value (−ln RBP_k). gain_cells: the cells of dataset and family with two
    models or more at both thresholds, where it falls at both; of those, gain_factor: −ln RBP_k falls by the larger
    factor at `high`; gain_points: RBP_k itself gains more there.
    """
    wide = points.pivot_table("value", [*CELL, "size"], "k").reindex(columns=[low, high]).dropna()
    extremes = wide.groupby(CELL).agg(["first", "last", "size"])
    falls = (extremes[low, "last"] < extremes[low, "first"]) & (extremes[high, "last"] < extremes[high, "first"])
    extremes = extremes[(extremes[low, "size"] > 1) & falls]
    factor = {k: extremes[k, "first"] / extremes[k, "last"] for k in (low, high)}
    gained = {k: np.exp(-extremes[k, "last"]) - np.exp(-extremes[k, "first"]) for k in (low, high)}
    values = {"gain_cells": len(extremes), "gain_factor": int((factor[high] > factor[low]).sum())}
    return values | {"gain_points": int((gained[high] > gained[low]).sum())}


def exponent_table(
    fits: pd.DataFrame, rise: pd.DataFrame, chains: pd.DataFrame, *, level: float, caption: str
) -> dict[str, Any]:
    """List the exponent at k = 1 and 100, its rise and its steps, for each dataset and family, for `Page.table`.

    `fits` comes from `subsets.fit_thresholds`, `rise` from `subsets.compare_steps` of these two k, `chains` from
    `subsets.find_chains`.
    """
    alphas = fits[fits["models"] == "all"].pivot_table("alpha", CELL, "k").reindex(columns=[1, 100])
    worst = fits[fits["k"] < 1000].groupby(CELL)["r_squared"].min().rename("worst")
    rows = rise.set_index(CELL)[["difference", "low", "high"]].join(alphas.set_axis(["one", "hundred"], axis=1))
    columns: dict[Any, Any] = {
        ("family", "dataset"): ("family and dataset", "{} on {}"),
        "difference": ("rise of α", "{:+.3f}"),
        ("low", "high"): (f"{level:.0%} interval (paired)", INTERVAL),
        "one": ("α, k = 1", "{:.3f}"),
        "hundred": ("α, k = 100", "{:.3f}"),
        ("falling", "steps"): ("steps without a rise", "{:.0f} of {:.0f}"),
        "worst": ("lowest R², k < 1,000", "{:.3f}"),
    }
    rows = rows.join(chains.set_index(CELL)[["falling", "steps"]]).join(worst).reset_index()
    return shown(rows, columns, caption=caption)
