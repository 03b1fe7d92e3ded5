"""Forecast runs of 16 and 32 million tokens by laws of size and tokens, fitted to runs up to 8 million.

`write` writes data/predictions/tokens.toml (`rbp ladder predict`) from the shipped sums of the grid alone, so that
later trainings do not change the file.

An interval is as wide as the law's errors were in a backtest: fitted up to 2 and 4 million tokens, it forecast twice
and four times as many. Errors of one law are correlated over texts, sizes and cuts, so that few of them are
independent: Student's t has as many degrees of freedom as they are worth (`count_degrees`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import boxcox, inv_boxcox
from scipy.stats import t as t_distribution

from companion.chapters.families import LSTM, TRANSFORMER
from companion.stats.separability import interaction
from ladder.shipped import counted
from rbp.arrays import Reals
from rbp.errors import FitError
from rbp.io import write_file
from rbp.laws.misfit import ADDITIVE, KAPLAN, OFFSET, PRODUCT, SUM
from rbp.laws.surface import fit_surface
from rbp.measurements.counts import Counts

KNOWN = 8_000_000  # the laws are fitted to budgets up to it
AHEAD = (16_000_000, 32_000_000)
RUNGS = {TRANSFORMER: ("10k", "22k", "59k", "150k", "390k", "1m"), LSTM: ("10k", "59k")}
KS = (1, 10, 100)
LEVEL = 0.8
ALPHA = 0.05  # of the separability test
DRAWS, SEED = 200, 0  # of the separability test's outcome
CELL = ["family", "dataset", "k"]

#: from the known rows and the rows to forecast to ln y of the latter
_Law = Callable[[pd.DataFrame, pd.DataFrame], Reals]


# ── Laws: columns size, training_tokens, value


def _each_size(law: Callable[[Reals, Reals, Reals], Reals], known: pd.DataFrame, ahead: pd.DataFrame) -> Reals:
    """Apply a law of D to each size by itself."""
    log_y = pd.Series(np.nan, ahead.index)
    for size, rows in ahead.groupby("size"):
        line = known[known["size"] == size]
        columns = (line["training_tokens"], line["value"], rows["training_tokens"])
        log_y[rows.index] = law(*(column.to_numpy(np.float64) for column in columns))
    return np.asarray(log_y, dtype=np.float64)


def _power(tokens: Reals, value: Reals, ahead: Reals) -> Reals:
    if len(tokens) < 2:
        raise FitError("one budget gives no power", "training_tokens")
    return np.asarray(np.polyval(np.polyfit(np.log(tokens), np.log(value), 1), np.log(ahead)), dtype=np.float64)


def _power_above_floor(tokens: Reals, value: Reals, ahead: Reals) -> Reals:
    table = pd.DataFrame({"size": tokens, "training_tokens": 1.0, "value": value})  # D in the place of S
    return np.log(fit_surface(table, OFFSET).predict(ahead, np.ones_like(ahead)))


def _surface(form: str, known: pd.DataFrame, ahead: pd.DataFrame) -> Reals:
    return np.log(fit_surface(known, form).predict(ahead["size"], ahead["training_tokens"]))


def _scaled(known: pd.DataFrame, rows: pd.DataFrame) -> tuple[Reals, Reals]:
    """Compute ln S and ln D, 0 in the middle of the known models."""
    columns = ("size", "training_tokens")
    x, z = (np.log(rows[c].to_numpy(float)) - np.log(known[c].to_numpy(float)).mean() for c in columns)
    return x, z


def _quadratic(known: pd.DataFrame, ahead: pd.DataFrame) -> Reals:
    def design(rows: pd.DataFrame) -> Reals:
        x, z = _scaled(known, rows)
        return np.column_stack([np.ones_like(x), x, z, x**2, x * z, z**2])

    if len(known) <= 6 or known["training_tokens"].nunique() < 3:
        raise FitError("too few points for a quadratic", "training_tokens")
    coefficients = np.linalg.lstsq(design(known), np.log(known["value"].to_numpy(float)), rcond=None)[0]
    return np.asarray(design(ahead) @ coefficients)


def _floor_in_lines(known: pd.DataFrame, ahead: pd.DataFrame) -> Reals:
    """Fit E + A·S^(−α), with ln A, α and E ≥ 0 linear in ln D."""
    x, z = _scaled(known, known)

    def curve(point: Reals, x: Reals, z: Reals) -> Reals:
        a, more_a, alpha, more_alpha, e, more_e = point
        floor = np.maximum(e + more_e * z, 0)
        return np.asarray(floor + np.exp(a + more_a * z - (alpha + more_alpha * z) * x))

    y = known["value"].to_numpy(float)
    starts = [
        [np.log(y.mean() * (1 - share)), 0, a, 0, share * y.mean(), 0] for share, a in product((0.0, 0.3), _STARTS)
    ]
    bounds = [-10, -5, 0, -1, 0, -5], [10, 5, 3, 1, 20, 5]
    return np.log(
        curve(_minimize(lambda point: np.log(curve(point, x, z) / y), starts, bounds), *_scaled(known, ahead))
    )


_STARTS = (0.1, 0.3, 0.6)


def _box_cox(known: pd.DataFrame, ahead: pd.DataFrame) -> Reals:
    """(y^λ − 1)/λ = c − A·(1 − S^(−a))/a − B·(1 − D^(−b))/b: λ = 1 is a sum above a floor, λ = a = b = 0 the product.

    Kaplan's form is among them too. Where the right side is beyond every y, the law gives the nearest that there is.
    """
    x, z = _scaled(known, known)
    unit = float(np.exp(np.log(known["value"]).mean()))

    def log_y(point: Reals, x: Reals, z: Reals) -> Reals:
        c, a, alpha, b, beta, power = point
        right = c + a * boxcox(np.exp(-x), alpha) + b * boxcox(np.exp(-z), beta)
        inner = 1 + power * right if abs(power) > 1e-6 else np.ones_like(right)
        y = inv_boxcox(np.where(inner > 1e-6, right, (1e-6 - 1) / (power or 1)), power)
        return np.asarray(np.log(np.maximum(y, 1e-6)))

    y = np.log(known["value"].to_numpy(float) / unit)
    starts = [[0, a, a, b, b, power] for a, b, power in product((0.1, 0.4), (0.1, 0.4), (-1.0, 0.0, 1.0, 3.0))]
    bounds = [-5, 0, -1, 0, -1, -10], [5, 5, 3, 5, 3, 10]
    return np.asarray(
        log_y(_minimize(lambda p: log_y(p, x, z) - y, starts, bounds), *_scaled(known, ahead)) + np.log(unit)
    )


def _minimize(away: Callable[[Reals], Reals], starts: Sequence[Sequence[float]], bounds: Any) -> Reals:
    """Find the parameters of the least sum of squares from any of the starts."""
    with np.errstate(all="ignore"):
        fits = [least_squares(away, start, bounds=bounds, x_scale="jac", max_nfev=400) for start in starts]
    point: Reals = min(fits, key=lambda each: float(each.cost)).x
    return point


#: laws by their names in the file
LAWS: dict[str, _Law] = {
    "power": partial(_each_size, _power),
    "offset_in_tokens": partial(_each_size, _power_above_floor),
    "offset_in_size": _floor_in_lines,
    "product": partial(_surface, PRODUCT),
    "bare_sum": partial(_surface, SUM),
    "sum": partial(_surface, ADDITIVE),
    "kaplan": partial(_surface, KAPLAN),
    "quadratic": _quadratic,
    "box_cox": _box_cox,
}
FORMULAS = {
    "power": "a power of D for each size by itself",
    "offset_in_tokens": "E + A·D^(−b) for each size by itself, E ≥ 0",
    "offset_in_size": "E + A·S^(−a) for each budget, of which E ≥ 0, ln A and a go on in straight lines with ln D",
    "product": "A·S^(−a)·D^(−b)",
    "bare_sum": "A·S^(−a) + B·D^(−b)",
    "sum": "E + A·S^(−a) + B·D^(−b), E ≥ 0",
    "kaplan": "((A·S^(−a))^(1/b) + (B·D^(−b))^(1/b))^b",
    "quadratic": "ln y a quadratic in ln S and ln D",
    "box_cox": "(y^λ − 1)/λ = c + A·(S^(−a) − 1)/a + B·(D^(−b) − 1)/b, with λ, a, b free",
}


# ── Their forecasts, and their errors in a backtest


def cells(texts: Sequence[Counts]) -> pd.DataFrame:
    """Select the models of the families in RUNGS up to KNOWN, other seeds included.

    Columns CELL (k 0: cross-entropy), rung, seed, size, training_tokens, value.
    """
    table = table_of([text.keep(text.models["family"].isin(list(RUNGS))) for text in texts])
    return table.loc[table["training_tokens"] <= KNOWN, [*CELL, "rung", "seed", "size", "training_tokens", "value"]]


def table_of(texts: Sequence[Counts]) -> pd.DataFrame:
    """Return `Counts.table` of all texts at KS, with training_tokens for the budget, and k 0 for the cross-entropy."""
    parts = [text.keep(None, KS).table() for text in texts]
    table = pd.concat(parts, ignore_index=True).rename(columns={"budget": "training_tokens"})
    return table.assign(k=table["k"].fillna(0).astype(int))


class Spread(NamedTuple):
    """The error of a law: `sigma` of ln y, and the number of independent errors from which it is known."""

    sigma: float
    df: float


def count_degrees(errors: pd.DataFrame) -> float:
    """Count the independent errors that some correlated ones are worth when their mean square is taken.

    errors: columns dataset, rung, known (the cut), error. Pairs of errors are alike where they share the text, the size
    or the cut: the mean product of each kind of pair over the mean square is their correlation ρ, and n²/Σρ² the
    degrees of freedom (Satterthwaite), 1 at least.
    """
    e = errors["error"].to_numpy(np.float64)
    kind = np.zeros((len(e), len(e)), dtype=np.int64)
    for column in ("dataset", "rung", "known"):
        values = errors[column].to_numpy()
        kind = 2 * kind + (values[:, None] == values)
    products = np.outer(e, e)
    mean = np.bincount(kind.ravel(), products.ravel(), 8) / np.maximum(np.bincount(kind.ravel(), minlength=8), 1)
    rho = np.clip(mean / np.mean(e**2), 0, 1)[kind]
    np.fill_diagonal(rho, 1.0)
    return max(1.0, len(e) ** 2 / float((rho**2).sum()))


def backtest(table: pd.DataFrame) -> pd.DataFrame:
    """Fit each law up to a budget, and forecast all larger ones.

    Columns CELL, law, known (the budget), factor, rung, error (of ln y).
    """
    budgets = sorted(table["training_tokens"].unique())
    rows = []
    for cell, grid in table[table["seed"] == 0].groupby(CELL):
        for last in budgets[2:-1]:
            seen = grid["training_tokens"] <= last
            for law in LAWS:
                with suppress(FitError):
                    hidden = grid[~seen]
                    away = LAWS[law](grid[seen], hidden) - np.log(hidden["value"].to_numpy(float))
                    factors = (hidden["training_tokens"] / last).round().astype(int)
                    each = zip(factors, hidden["rung"], away, strict=True)
                    rows += [(*cell, law, last, factor, rung, float(off)) for factor, rung, off in each]
    rows_of_law = pd.DataFrame(rows, columns=[*CELL, "law", "known", "factor", "rung", "error"])
    return rows_of_law[rows_of_law["rung"].isin(RUNGS[TRANSFORMER])]  # larger ones are not forecast


def measure_seed_scatter(table: pd.DataFrame) -> "pd.Series[float]":
    """Compute the standard deviation of ln y between seeds of a cell, by family and k, pooled over texts and sizes."""
    logs = table.assign(log=np.log(table["value"])).groupby([*CELL, "rung", "training_tokens"])["log"]
    each = logs.agg(["var", "size"]).query("size > 1").reset_index()
    each["weight"] = each["size"] - 1
    sums = each.assign(sum=each["var"] * each["weight"]).groupby(["family", "k"])[["sum", "weight"]].sum()
    return (sums["sum"] / sums["weight"]) ** 0.5


def measure_spreads(errors: pd.DataFrame, seeds: "pd.Series[float]") -> dict[tuple[str, int, str, int], Spread]:
    """Compute the spread of each law by family, k, law and factor; none is below the scatter of seeds.

    A law without forecasts at the larger factor has the spread of the smaller one, widened as the others'.
    """
    spreads_by_key: dict[tuple[str, int, str, int], Spread] = {}
    keys: Any
    for keys, cell in errors.groupby(["family", "k", "law", "factor"]):
        family, k, law, factor = keys
        sigma = max(float(np.sqrt(np.mean(cell["error"] ** 2))), float(seeds[family, k]))
        spreads_by_key[str(family), int(k), str(law), int(factor)] = Spread(sigma, count_degrees(cell))
    for family, k, law in product(RUNGS, (*KS, 0), LAWS):
        if (family, k, law, 4) not in spreads_by_key and (family, k, law, 2) in spreads_by_key:
            pairs = [
                (spreads_by_key[family, k, o, 4].sigma, spreads_by_key[family, k, o, 2].sigma)
                for o in LAWS
                if (family, k, o, 4) in spreads_by_key
            ]
            wider = float(np.median([late / early for late, early in pairs]))
            two = spreads_by_key[family, k, law, 2]
            spreads_by_key[family, k, law, 4] = Spread(two.sigma * wider, two.df)
    return spreads_by_key


Spreads = Mapping[tuple[str, int, str, int], Spread]


def forecast_models(table: pd.DataFrame, wide: Spreads) -> pd.DataFrame:
    """Forecast each model of RUNGS at AHEAD by every law, fitted to all of `cells`.

    Columns CELL, rung, training_tokens, law, low, middle, high (of y; the interval's level is LEVEL).
    """
    rows = []
    keys: Any
    row: Any
    for keys, grid in table[table["seed"] == 0].groupby(CELL):
        family, dataset, k = keys
        sizes = grid.drop_duplicates("rung").set_index("rung")["size"]
        ahead = pd.DataFrame(list(product(RUNGS[str(family)], AHEAD)), columns=["rung", "training_tokens"])
        ahead["size"] = ahead["rung"].map(sizes)
        for law, law_of in LAWS.items():
            with suppress(FitError):
                for row, middle in zip(ahead.itertuples(), law_of(grid, ahead), strict=True):
                    sigma, df = wide[str(family), int(k), law, row.training_tokens // KNOWN]
                    half = float(t_distribution.ppf((1 + LEVEL) / 2, df)) * sigma
                    ends = np.exp(middle + half * np.array([-1, 0, 1]))
                    rows.append((family, dataset, k, row.rung, row.training_tokens, law, *map(float, ends)))
    return pd.DataFrame(rows, columns=[*CELL, "rung", "training_tokens", "law", "low", "middle", "high"])


def forecast_rejections(table: pd.DataFrame, forecasts: pd.DataFrame, wide: Spreads) -> pd.DataFrame:
    """Forecast in how many texts and measures the transformers' grid with the new budgets will reject a sum, a product.

    Simulated DRAWS times from every law alike: its middle, with errors of its spread, half of whose variance all sizes
    and budgets of a cell share. Columns rungs (the smallest so many), of ("sum", "product"), cells, low, middle, high
    (the interval of level LEVEL), now (with the known budgets alone).
    """
    random, counts = np.random.default_rng(SEED), []
    ahead = forecasts[forecasts["family"] == TRANSFORMER]
    for rungs in (3, len(RUNGS[TRANSFORMER])):
        names = RUNGS[TRANSFORMER][:rungs]
        for law in (None, *LAWS):
            tests = []
            for cell, grid, seeds in grids(table, names):
                if law is None:
                    tests.append([reject_shapes(grid, seeds)])
                    continue
                of_law = ahead[(ahead["dataset"] == cell[0]) & (ahead["k"] == cell[1]) & (ahead["law"] == law)]
                middle = of_law.set_index(["rung", "training_tokens"])["middle"]
                if middle.empty:
                    continue
                new = np.array([[middle[name, budget] for budget in AHEAD] for name in names])
                sigma = np.array([wide[TRANSFORMER, int(cell[1]), law, budget // KNOWN].sigma for budget in AHEAD])
                noise = (random.normal(size=(DRAWS, 1, 1)) + random.normal(size=(DRAWS, *new.shape))) * np.sqrt(0.5)
                simulated = new * np.exp(noise * sigma)
                tests.append([reject_shapes(np.hstack([grid, sample]), seeds) for sample in simulated])
            counts.append((rungs, law, len(tests), np.array(tests).sum(axis=0)))
    rows = []
    for rungs, of in product((3, len(RUNGS[TRANSFORMER])), (0, 1)):
        now = next(sums[0][of] for count, law, _, sums in counts if count == rungs and law is None)
        most = max(number for count, _, number, _ in counts if count == rungs)
        simulated = [sums[:, of] for count, law, number, sums in counts if count == rungs and law and number == most]
        low, middle, high = np.quantile(np.concatenate(simulated), [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
        rows.append((rungs, ("sum", "product")[of], most, int(low), int(middle), int(high), int(now)))
    return pd.DataFrame(rows, columns=["rungs", "of", "cells", "low", "middle", "high", "now"])


def grids(
    table: pd.DataFrame, rungs: Sequence[str]
) -> Iterator[tuple[tuple[str, int], npt.NDArray[np.float64], list[Reals]]]:
    """Yield for each text and k y of the transformers' rungs (lines) and budgets (columns), and y of rungs' seeds."""
    transformers = table[(table["family"] == TRANSFORMER) & table["rung"].isin(rungs)]
    cell: Any
    for cell, cell_rows in transformers.groupby(["dataset", "k"]):
        last = transformers[
            (transformers["dataset"] == cell[0])
            & (transformers["k"] == cell[1])
            & (transformers["training_tokens"] == KNOWN)
        ]
        seeds = [values["value"].to_numpy() for _, values in last.groupby("rung") if len(values) > 1]
        grid = cell_rows[cell_rows["seed"] == 0].pivot_table(index="size", columns="training_tokens", values="value")
        yield cell, grid.to_numpy(), seeds


def reject_shapes(grid: npt.NDArray[np.float64], seeds: Sequence[Reals]) -> list[bool]:
    """Return whether a sum is rejected, and a product."""
    return [interaction(grid, seeds, power).p < ALPHA for power in (1, 0)]


# ── The file

HEAD = """\
# What laws of size and training tokens foretell of longer training, written before any run of more than 8 million
# tokens.
#
# Known then: the ladder's runs of 8 million tokens at most (data/ladder/families-sums, seed 0; other seeds for their
# scatter alone), and how such forms do within that grid, as the chapter on size and training has it. Written by
# `rbp ladder foretell`, which does not look at later runs.
#
# Asked: y = −ln RBP_k (k = 1, 10, 100; ranks by greater + equal) and the cross-entropy in nats (k = 0), on all four
# texts, of seed 0 at 16 and 32 million tokens, trained on by the same recipe: the trunk goes on, and cools down there.
# Each law is fitted to each family, text and k by itself, by least squares of ln y, and gives [low, middle, high]: an
# interval of probability 0.8. Its width is the law's own error where it had to do the same before (fitted up to 2 and
# 4 million, and asked for twice and four times as many), but not less than seeds scatter. Errors of one law go
# together over texts, sizes and cuts, so Student's t has as many degrees of freedom as they are worth (`spread`).
#
# The rule of scoring. Of each law: the share of its intervals that hold the measured y, over all that is trained, and
# by k, text, family and tokens; its error, the root mean square of ln(middle/measured), by the same. The law of least
# error over all is said to foretell best only if the interval (95%, sizes left out in turn) of the difference of its
# mean square from that of each other lies below 0. All are reported, whichever is best. None is left out but where a
# model is not trained. Laws that are fitted later to what 16 million tokens gave are another cut, and stand apart.
# `apart`: in how many cells of text and k the transformers' grid of six sizes (or of the smallest three) with the two
# new budgets will reject a sum u(S) + v(D), and a product, at p < 0.05 (rbp.stats.separability.interaction); `now`: the
# same grid with the known budgets alone.
"""


def write(path: Path) -> None:
    """Write the file of forecasts, from the shipped sums."""
    table = cells(counted(KS, families=list(RUNGS)))
    wide = measure_spreads(backtest(table), measure_seed_scatter(table))
    forecasts = forecast_models(table, wide)
    write_file(path, format_file(forecasts, forecast_rejections(table, forecasts, wide), wide))


def format_file(forecasts: pd.DataFrame, rejections: pd.DataFrame, wide: Spreads) -> str:
    """Format `forecast_models` as TOML."""
    lines = [HEAD, f"level = {LEVEL:g}", f"known = {KNOWN}", "", "[laws]"]
    lines += [f'{law} = "{FORMULAS[law]}"' for law in LAWS]
    for row in rejections.itertuples():
        lines += ["", "[[apart]]", f'of = "{row.of}"']
        lines += [f"{name} = {getattr(row, name)}" for name in ("rungs", "cells", "now", "low", "middle", "high")]
    for (family, k, factor), laws in _by_factor(wide):
        lines += ["", "[[spread]]", f'family = "{family}"', f"k = {k}", f"tokens = {factor * KNOWN}"]
        lines += [f"{law} = {{sigma = {spread.sigma:.4f}, degrees = {spread.df:.1f}}}" for law, spread in laws.items()]
    key: Any
    for key, target in forecasts.groupby([*CELL, "rung", "training_tokens"], sort=False):
        family, dataset, k, rung, tokens = key
        lines += ["", "[[target]]", f'family = "{family}"', f'rung = "{rung}"', f"tokens = {tokens}"]
        lines += [f'dataset = "{dataset}"', f"k = {k}"]
        lines += [f"{row.law} = [{row.low:.4f}, {row.middle:.4f}, {row.high:.4f}]" for row in target.itertuples()]
    return "\n".join(lines) + "\n"


def _by_factor(wide: Spreads) -> list[tuple[tuple[str, int, int], dict[str, Spread]]]:
    by_factor: dict[tuple[str, int, int], dict[str, Spread]] = {}
    for (family, k, law, factor), spread in wide.items():
        by_factor.setdefault((family, k, factor), {})[law] = spread
    return sorted((key, {law: laws[law] for law in LAWS if law in laws}) for key, laws in by_factor.items())
