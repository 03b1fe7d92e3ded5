"""Score the forecasts that nine laws made of runs of 16 and 32 million tokens (data/predictions/tokens.toml).

The head of the file has the rule of scoring.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import t as student

from companion.chapters.appendix import predictions
from companion.chapters.families import LSTM, TRANSFORMER
from companion.execute.page import keyed
from companion.plots import name_rows
from companion.stats.separability import interaction
from ladder.shipped import TRIALS, counted
from rbp.arrays import Reals
from rbp.figures.curves import SCALE
from rbp.figures.style import INK, Panels
from rbp.laws.misfit import ADDITIVE, KAPLAN, PRODUCT
from rbp.laws.resampling import interval, without_each
from rbp.laws.rivals import OF_BOTH, percent
from rbp.laws.rivals import parameters as left_out
from rbp.laws.surface import profile
from rbp.measurements.counts import Counts

KNOWN = 8_000_000  # the laws were fitted to budgets up to it
AHEAD = (16_000_000, 32_000_000)
RUNGS = {TRANSFORMER: ("10k", "22k", "59k", "150k", "390k", "1m"), LSTM: ("10k", "59k")}
KS = (1, 10, 100)
ALPHA = 0.05  # of the separability test
CELL = ["family", "dataset", "k"]
KEY = [*CELL, "rung", "training_tokens"]
COLUMNS = [*KEY, "law", "low", "middle", "high", "ahead"]  # of `read_forecasts`
SHORT = {
    "power": "a power of D for each size",
    "offset_in_tokens": "a power of D above a floor for each size",
    "offset_in_size": "a power of S above a floor for each budget",
    "product": "the product",
    "bare_sum": "the sum without a floor",
    "sum": "the sum above a floor",
    "kaplan": "Kaplan’s bottleneck",
    "quadratic": "a quadratic in logarithms",
    "box_cox": "the Box–Cox family",
}


def read_forecasts() -> pd.DataFrame:
    """Read the forecasts of each model, text, k and law: `predictions.read_forecasts`, KEY, law, and ahead.

    ahead: how many times the tokens of the longest run that the laws are fitted to.
    """
    table = predictions.read_forecasts("tokens").query("function == 'value'")
    table = table.iloc[np.argsort([int(name.rpartition(".")[2]) for name in table.index], kind="stable")]  # by model
    targets = pd.DataFrame(table["fields"].tolist(), table.index)[[*CELL, "rung", "tokens"]]
    targets = targets.rename(columns={"tokens": "training_tokens"})
    return table.join(targets).assign(law=table["kind"], ahead=targets["training_tokens"] / KNOWN)


def select_cells(texts: Sequence[Counts]) -> pd.DataFrame:
    """Select the models of the families in RUNGS up to KNOWN, other seeds included.

    Columns KEY (k 0: cross-entropy), seed, size, value.
    """
    table = table_of([text.keep(text.models["family"].isin(list(RUNGS))) for text in texts])
    return table.loc[table["training_tokens"] <= KNOWN, [*KEY, "seed", "size", "value"]]


def table_of(texts: Sequence[Counts]) -> pd.DataFrame:
    """Return `Counts.table` of all texts at KS, with training_tokens for the budget, and k 0 for the cross-entropy."""
    parts = [text.keep(None, KS).table() for text in texts]
    table = pd.concat(parts, ignore_index=True).rename(columns={"budget": "training_tokens"})
    return table.assign(k=table["k"].fillna(0).astype(int))


def count_trials(ks: Sequence[int] = ()) -> list[Counts]:
    """Count the hits of the families' shipped trials, longer runs among them, at KS and `ks`."""
    return counted([*KS, *ks], families=[family + TRIALS for family in RUNGS])


def select_longer_runs(texts: Sequence[Counts]) -> pd.DataFrame:
    """Select the trials beyond KNOWN and of seed 0, under the names of the grid's families: KEY, seed, size, value."""
    table = table_of(texts)
    table = table[(table["training_tokens"] > KNOWN) & (table["seed"] == 0)]
    return table.assign(family=table["family"].str.removesuffix(TRIALS))[[*KEY, "seed", "size", "value"]]


def score(forecasts: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Score forecasts by the longer runs (`select_longer_runs`): COLUMNS, size, value, inside, error.

    error: ln(middle/value). Forecasts of models that were not trained are left out.
    """
    values = runs.rename(columns={"training_tokens": "tokens"}).set_index([*CELL, "rung", "tokens"])["value"]
    table = predictions.score(predictions.measure(forecasts, {"value": values}))
    table = table.rename(columns={"outcome": "value"}).merge(runs[[*KEY, "size"]], on=KEY)
    error = np.log(table["middle"] / table["value"])
    return table[[*COLUMNS, "size", "value", "inside"]].astype({"inside": bool}).assign(error=error)


def fair_guess(known: pd.DataFrame, runs: pd.DataFrame, *, level: float = 0.8) -> pd.DataFrame:
    """Forecast the longer runs by Student's t on each model's last doublings of D, a naive guess to compare laws with.

    ln y goes on by the mean of the n known steps in ln y, with their scatter s: m doublings ahead the scale is
    s·√(m + m²/n). known, runs: `select_cells`, `select_longer_runs`. Columns KEY, low, middle, high, value, inside,
    error.
    """
    rows = []
    for key, line in known[known["seed"] == 0].groupby([*CELL, "rung"]):
        line = line.sort_values("training_tokens")
        steps = np.diff(np.log(line["value"].to_numpy(np.float64)))
        if len(steps) < 2:
            continue
        for tokens in AHEAD:
            ahead = np.log2(tokens / line["training_tokens"].iloc[-1])
            middle = np.log(line["value"].iloc[-1]) + ahead * steps.mean()
            scale = steps.std(ddof=1) * np.sqrt(ahead + ahead**2 / len(steps))
            low, high = student.interval(level, len(steps) - 1, middle, scale)
            rows.append((*key, tokens, *np.exp([low, middle, high])))
    table = pd.DataFrame(rows, columns=[*KEY, "low", "middle", "high"]).merge(runs[[*KEY, "value"]], on=KEY)
    error = np.log(table["middle"] / table["value"])
    return table.assign(inside=table["value"].between(table["low"], table["high"]), error=error)


def count_rejections(known: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Score how many grids reject a sum, and a product, with the longer runs: `predictions.score`, of, rungs, cells.

    known, runs: `select_cells` and `select_longer_runs`. Rungs that are not all trained are left out.
    """
    trained = runs[runs["family"] == TRANSFORMER].groupby("rung")["training_tokens"].nunique()
    table = pd.concat([known, runs])

    def rejections(of: str, rungs: int) -> float:
        names = RUNGS[TRANSFORMER][:rungs]
        if any(trained.get(name, 0) < len(AHEAD) for name in names):
            return np.nan
        power = {"sum": 1, "product": 0}[of]
        return sum(interaction(grid, seeds, power).p < ALPHA for grid, seeds in _grids(table, names))

    forecasts = predictions.read_forecasts("tokens").query("function == 'rejections'")
    grids = pd.DataFrame(forecasts["fields"].tolist(), forecasts.index)[["of", "rungs", "cells"]]
    return predictions.score(predictions.measure(forecasts, {"rejections": rejections})).join(grids)


def _grids(table: pd.DataFrame, rungs: Sequence[str]) -> Iterator[tuple[npt.NDArray[np.float64], list[Reals]]]:
    """Yield for each text and k y of the transformers' rungs (lines) and budgets (columns), and y of rungs' seeds."""
    transformers = table[(table["family"] == TRANSFORMER) & table["rung"].isin(rungs)]
    for _, rows in transformers.groupby(["dataset", "k"]):
        last = rows[rows["training_tokens"] == KNOWN]
        seeds = [values["value"].to_numpy() for _, values in last.groupby("rung") if len(values) > 1]
        grid = rows[rows["seed"] == 0].pivot_table(index="size", columns="training_tokens", values="value")
        yield grid.to_numpy(), seeds


def summarize_laws(table: pd.DataFrame) -> pd.DataFrame:
    """Summarize `score` for each law: law, n, inside (share), mean and error (root mean square), both in per cent."""
    rows = table.groupby("law").agg(
        n=("error", "size"), inside=("inside", "mean"), mean=("error", "mean"), error=("error", percent)
    )
    rows["mean"] = 100 * np.expm1(rows["mean"])
    return rows.loc[[law for law in SHORT if law in rows.index]].reset_index()


def compare_best_law(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compare the law of least error with each other: law, than, difference of mean squares, low, high.

    Families' sizes are the units that are left out in turn. It forecasts best if every high is below 0.
    """
    squares = table.assign(square=table["error"] ** 2, unit=table["family"] + table["rung"])
    wide = squares.pivot_table(index="unit", columns="law", values="square", aggfunc="sum")
    count = squares.pivot_table(index="unit", columns="law", values="square", aggfunc="size")
    means = without_each(wide.to_numpy()) / without_each(count.to_numpy())
    first = int(means[0].argmin())
    rows = []
    for i, law in enumerate(wide.columns):
        if i != first:
            difference_interval = interval(means[:, first] - means[:, i], len(wide) - 1, level=level)
            rows.append((str(wide.columns[first]), str(law), *map(float, difference_interval)))
    return pd.DataFrame(rows, columns=["law", "than", "difference", "low", "high"])


# ── The laws' parameters

NAMES = {"alpha": "a", "beta": "b", "offset": "E"}


def fit_all_parameters(texts: Sequence[Counts]) -> pd.DataFrame:
    """Fit the laws of size and tokens to all trained transformers, with intervals of 95% of their parameters.

    texts: of all shipped models. Columns dataset, k (0 and 1), form, name, value, low, high (the profile's interval),
    out_low and out_high (the interval with whole sizes left out in turn).
    """
    grid = select_cells(texts)
    return fit_parameters(pd.concat([grid[grid["seed"] == 0], select_longer_runs(count_trials())]))


def fit_parameters(table: pd.DataFrame) -> pd.DataFrame:
    """Fit the laws to a table of KEY, size and value: `fit_all_parameters`."""
    rows = []
    transformers = table[(table["family"] == TRANSFORMER) & table["k"].isin([0, 1])]
    for (dataset, k), points in transformers.groupby(["dataset", "k"]):
        parts = [points, *(points[points["size"] != size] for size in points["size"].unique())]
        for form in OF_BOTH:
            out: Any = left_out(form, parts)
            for name in NAMES if form == ADDITIVE else [*NAMES][:2]:
                law, low, high = profile(points, form, name)
                row = {"dataset": dataset, "k": k, "form": form, "name": name, "value": getattr(law, name)}
                rows.append(
                    row | {"low": low, "high": high, "out_low": out[f"{name}_low"], "out_high": out[f"{name}_high"]}
                )
    return pd.DataFrame(rows)


def parameter_statistics(fits: pd.DataFrame) -> dict[str, Any]:
    """Summarise `fit_all_parameters`: how many intervals are wider with sizes left out, and by how much at the median.

    And the exponent in S by a product and by Kaplan's form: at k = 1 on Wikipedia, and in how many datasets and
    measures their intervals with sizes left out do not meet.
    """
    ratio = (fits["out_high"] - fits["out_low"]) / (fits["high"] - fits["low"])
    values = {"count": len(ratio), "wider": int((ratio > 1).sum()), "ratio": ratio.median()}
    product, kaplan = (
        fits[(fits["form"] == form) & (fits["name"] == "alpha")].set_index(["dataset", "k"])
        for form in (PRODUCT, KAPLAN)
    )
    values |= {"product": product["value"]["wikipedia", 1], "kaplan": kaplan["value"]["wikipedia", 1]}
    apart = (product["out_high"] < kaplan["out_low"]) | (kaplan["out_high"] < product["out_low"])
    values |= {"apart": int(apart.sum()), "measures": len(apart)}
    return {f"parameters.{name}": value for name, value in values.items()}


# ── For the page


def score_statistics(forecasts: pd.DataFrame, scores: pd.DataFrame, grids: pd.DataFrame) -> dict[str, Any]:
    """Summarise `read_forecasts`, `score` and `count_rejections`: the models forecast and trained, the errors of laws.

    And which law errs least, how many others it beats significantly, and in how many grids a sum is rejected.
    """
    models = ["family", "rung", "training_tokens"]
    laws, best = summarize_laws(scores).set_index("law"), compare_best_law(scores)
    named = laws.loc[["power", "product", "sum", "offset_in_tokens"]].reset_index()
    sums = grids[grids["of"] == "sum"].astype({"outcome": int})
    values: dict[str, Any] = {
        "longer.forecast": len(forecasts[models].drop_duplicates()),
        "longer.models": len(scores[models].drop_duplicates()),
        "longer.texts": forecasts["dataset"].nunique(),
        "longer.laws": forecasts["law"].nunique(),
        "longer.largest": int(scores["size"].max()),
        "longer.ahead": scores["training_tokens"].max() / KNOWN,
        "longer.offset_in_tokens.inside": 100 * laws["inside"]["offset_in_tokens"],
        "longer.best": SHORT[str(best["law"].iloc[0])],
        "longer.others": len(best),
        "longer.beaten": int((best["high"] < 0).sum()),
    }
    values |= keyed("longer.{law}.error", named, "error")
    values |= keyed("longer.apart.sum{rungs}.cells", sums, "cells")
    return values | keyed("longer.apart.sum{rungs}.rejected", sums, "outcome")


GUESS = "naive guess"
_LABELS = {
    "power": "a power of D, each size",
    "offset_in_tokens": "D above a floor, each size",
    "offset_in_size": "S above a floor, each D",
    "product": "product",
    "bare_sum": "sum",
    "sum": "sum above a floor",
    "kaplan": "bottleneck",
    "quadratic": "quadratic in logs",
    "box_cox": "Box–Cox",
}


def error_panels(scores: pd.DataFrame, guess: pd.DataFrame) -> Panels:
    """Draw each law's absolute errors, a panel for each number of tokens: quantile bars, and the root mean square.

    scores, guess: `score`, and `fair_guess`, the last row. Laws are in the order of their error over all.
    """
    rows = pd.concat([scores.assign(law=scores["law"].map(_LABELS)), guess.assign(law=GUESS)])
    rows["away"] = 100 * np.expm1(rows["error"].abs())
    order = rows[rows["law"] != GUESS].groupby("law")["error"].agg(percent).sort_values().index
    names = [*order, GUESS]
    most = rows.groupby(["law", "training_tokens"])["away"].quantile(0.9).max()

    def draw(ax: Axes, tokens: int) -> None:
        errors = rows[rows["training_tokens"] == tokens]
        for y, law in enumerate(names):
            law_rows = errors[errors["law"] == law]
            quantiles = law_rows["away"].quantile([0.1, 0.25, 0.75, 0.9])
            colour = _GUESSED if law == GUESS else _LAW
            ax.hlines(y, quantiles[0.1], quantiles[0.9], color=colour, lw=1.5)
            ax.hlines(y, quantiles[0.25], quantiles[0.75], color=colour, lw=8)
            ax.plot(percent(law_rows["error"]), y, "o", color=INK, ms=5, mew=0, zorder=3)
        name_rows(ax, names)
        ax.set_xlim(0, 1.05 * most)
        ax.set_xlabel("absolute error (%)")
        ax.set_title(f"{tokens / 1e6:g} M tokens")

    return Panels([int(tokens) for tokens in sorted(rows["training_tokens"].unique())], draw, size=(4.6, 3.0))


_LAW, _GUESSED = SCALE[2], "#708090"
