"""One model, degraded step by step along several paths, and compared with others at equal cross-entropy.

`companion.damage.measure` leaves a folder for one model on one text: manifest.json (what was measured, how, and when it
began) and sums.parquet, a row for each step and document. A path is a curve, ln(−ln RBP_k) over ln of the
cross-entropy, through its steps from the whole model on. All is computed of a text and of it without each of its
documents, so that differences between paths are paired by document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp import provenance
from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.io import label, parse_json
from rbp.laws.resampling import degrees_of_freedom, interval, without_each

THRESHOLDS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000)
#: from 0.5 to 4: with the slope at each, a cubic between neighbours is right to 1e-4 nats a token
TEMPERATURES = (0.5, 0.7071, 1.0, 1.4142, 2.0, 2.8284, 4.0)
CONTEXTS = (1, 2, 4, 8, 16, 32, 64)  # the quick ones first
STEPS: dict[str, tuple[float, ...]] = {
    "context": CONTEXTS,
    "depth": (),  # the model's own
    "bits": (8, 6, 4, 3, 2),
    "replaced": (0.02, 0.05, 0.1, 0.2, 0.4),
    "weights": (0.35, 0.6, 0.9, 1.3),
    "logits": (0.5, 0.8, 1.2, 2.0),
}
WHOLE, SMALLER, EARLIER = "whole", "parameters", "training"  # paths besides STEPS
SUMS, MANIFEST = "sums.parquet", "manifest.json"
CELL = ["path", "step", "draw", "model"]

_REMEDY = "Restore it, or measure it again: rbp paths run."


@dataclass(frozen=True)
class Curve:
    """A path of n steps on a text of D documents, the whole model first, then by rising cross-entropy.

    x: ln of the cross-entropy, shape (1 + D, n), the text as it is first; tempered: the same at the temperature that
    makes it least, NaN where it was not measured; y: ln(−ln RBP_k), shape (1 + D, n, thresholds); names: of the
    steps; df: degrees of freedom of intervals by these documents, which have no tokens to find repeats by.
    """

    path: str
    names: tuple[str, ...]
    x: Reals
    tempered: Reals
    y: Reals
    df: float

    def at(self, level: Reals, *, tempered: bool = False, beyond: float = 0.0) -> Reals | None:
        """Return ln(−ln RBP_k) at a level of ln cross-entropy, (1 + D,), as (1 + D, thresholds); None if not reached.

        Linear between the first two neighbouring steps that enclose the level of the whole text, or along the last two
        up to `beyond` nats past the last; NaN at a k that no token, or each, reaches there.
        """
        x = self.tempered if tempered else self.x
        below = x[0] <= level[0]
        places = np.flatnonzero(below[:-1] != below[1:])
        if below.all() and np.exp(level[0]) - np.exp(x[0, -1]) <= beyond:
            places = np.array([len(below) - 2])
        if not len(places) or not np.isfinite(x[0, places[0] : places[0] + 2]).all():
            return None
        i = int(places[0])
        share = ((level - x[:, i]) / (x[:, i + 1] - x[:, i]))[:, None]
        with np.errstate(invalid="ignore"):  # where nothing has rank ≤ k at one of the two, or everything
            y: Reals = self.y[:, i] + share * (self.y[:, i + 1] - self.y[:, i])
        return np.where(np.isfinite(y), y, np.nan)


def make_curve(
    path: str,
    names: Sequence[str],
    tokens: npt.ArrayLike,
    hits: npt.ArrayLike,
    nll: npt.ArrayLike,
    tempered: npt.ArrayLike | None = None,
) -> Curve:
    """Make a path of sums by document: tokens (D,), hits (D, n, thresholds), nll (D, n); tempered: nats, (1 + D, n)."""
    count = without_each(tokens)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log(without_each(nll) / count[:, None])
        y = np.log(-np.log(without_each(hits) / count[:, None, None]))
        best = np.full_like(x, np.nan) if tempered is None else np.log(np.asarray(tempered, dtype=np.float64))
    return Curve(path, tuple(names), x, best, y, degrees_of_freedom(tokens))


def best_temperature(nll: npt.ArrayLike, slope: npt.ArrayLike, temperatures: npt.ArrayLike) -> tuple[Reals, Reals]:
    """Return the temperature of least Σ −ln p, and that sum: shape (…), of nll and slope (…, temperatures).

    slope: the derivative of nll by 1/T. A cubic in ln T with these values and slopes, between the neighbours where the
    sum stops falling; at an end of the temperatures where it does not.
    """
    t = np.asarray(temperatures, dtype=np.float64)
    x, value = np.log(t), np.asarray(nll, dtype=np.float64)
    fall = -np.asarray(slope, dtype=np.float64) / t  # the derivative by ln T; the sum is convex in 1/T: one change
    last = np.clip((fall < 0).sum(-1) - 1, 0, len(t) - 2)[..., None]
    low, high = (np.take_along_axis(value, last + i, -1)[..., 0] for i in (0, 1))
    step = np.diff(x)[last[..., 0]]
    first, second = (np.take_along_axis(fall, last + i, -1)[..., 0] * step for i in (0, 1))
    # low + first·u + b·u² + a·u³ over u from 0 to 1
    a, b = 2 * (low - high) + first + second, 3 * (high - low) - 2 * first - second
    inside = (first < 0) & (second > 0)
    root = np.sqrt(np.where(inside, b**2 - 3 * a * first, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.where(b >= 0, -first / (b + root), (root - b) / (3 * a))  # neither loses digits
    u = np.where(inside, np.clip(turn, 0, 1), np.where(second <= 0, 1.0, 0.0))
    return np.exp(x[last[..., 0]] + u * step), low + u * (first + u * (b + u * a))


def at_level(draws: Sequence[Curve], level: Reals, *, tempered: bool = False, beyond: float = 0.0) -> Reals | None:
    """Stack `Curve.at` of all draws of a path: shape (draws, 1 + D, thresholds); None unless all reach the level."""
    reached = [y for curve in draws if (y := curve.at(level, tempered=tempered, beyond=beyond)) is not None]
    return np.stack(reached) if len(reached) == len(draws) else None


def offsets(curves: Sequence[Curve], reference: str, rung: str, *, tempered: bool = False) -> dict[str, Reals]:
    """Return by path ln(−ln RBP_k) at the cross-entropy of the reference's step `rung`, less that step's own value.

    Shape (draws, 1 + D, thresholds); the reference itself has zeros. Paths that do not reach that level in all draws
    are left out. Raises KeyError where the rung is not there.
    """
    base = next((curve for curve in curves if curve.path == reference and rung in curve.names), None)
    if base is None:
        raise KeyError(rung)
    place = base.names.index(rung)
    level, y0 = (base.tempered if tempered else base.x)[:, place], base.y[:, place]
    y0 = np.where(np.isfinite(y0), y0, np.nan)
    offsets: dict[str, Reals] = {}
    for path in dict.fromkeys(curve.path for curve in curves):
        draws = [curve for curve in curves if curve.path == path]
        y = y0[None] if path == reference else at_level(draws, level, tempered=tempered)
        if y is not None:
            offsets[path] = y - y0
    return offsets


def spread(offsets: dict[str, Reals], left_out: Sequence[str] = ()) -> Reals:
    """Return the standard deviation over paths of their offsets, draws averaged: shape (1 + D, thresholds)."""
    means = [draws.mean(axis=0) for path, draws in offsets.items() if path not in left_out]
    deviation: Reals = np.std(means, axis=0)
    return deviation


def offset_table(
    offsets: dict[str, Reals], thresholds: Sequence[int], df: float, *, level: float = 0.95
) -> pd.DataFrame:
    """Tabulate the offsets in per cent of −ln RBP_k: a row for each path and k.

    Columns path, k, offset, low, high (by documents, with `df` as of `Curve`), draws (the standard deviation between
    draws; NaN for one), apart (the interval leaves out 0).
    """
    rows: list[tuple[Any, ...]] = []
    for path, draws in offsets.items():
        estimate, low, high = interval(draws.mean(axis=0), df, level=level)
        by_draw = draws[:, 0].std(axis=0, ddof=1) if len(draws) > 1 else np.full(len(thresholds), np.nan)
        percent = (100 * np.expm1(values) for values in (estimate, low, high, by_draw))
        rows += zip([path] * len(thresholds), thresholds, *percent, (low > 0) | (high < 0), strict=True)
    return pd.DataFrame(rows, columns=["path", "k", "offset", "low", "high", "draws", "apart"])


def spread_table(values: Reals, thresholds: Sequence[int], df: float, *, level: float = 0.95) -> pd.DataFrame:
    """Tabulate `spread` by k, in per cent of −ln RBP_k: k, spread, low, high (by documents, of the logarithm).

    least: the spread is not shown to be larger than at the k of the least; is_least: it is that k.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
        estimate, low, high = (100 * np.expm1(np.exp(logarithm)) for logarithm in interval(logs, df, level=level))
        least = int(np.nanargmin(values[0]))
        larger = interval(logs - logs[:, [least]], df, level=level).low > 0
    table = pd.DataFrame({"k": thresholds, "spread": estimate, "low": low, "high": high, "least": ~larger})
    is_least = np.arange(len(table)) == least
    return table.assign(least=table["least"] | is_least, is_least=is_least)


@dataclass(frozen=True)
class Worse:
    """What was measured of one model on one text: the manifest, and sums by step and document.

    sums: columns CELL, document, tokens, hits_K for each of THRESHOLDS (tokens of rank ≤ K, by
    greater + equal), and for each of TEMPERATURES nll_T (Σ −ln p with all logits divided by T, nats) and slope_T (its
    derivative by 1/T).
    """

    manifest: dict[str, Any]
    sums: pd.DataFrame

    @property
    def model(self) -> str:
        """Return the model's name."""
        return Path(self.manifest["about"]["model"]).name

    @property
    def dataset(self) -> str:
        """Return the text's name."""
        return str(self.manifest["about"]["dataset"])

    @property
    def thresholds(self) -> list[int]:
        """Return the k at which hits were counted, below the vocabulary's size."""
        return [k for k in THRESHOLDS if k < self.manifest["about"]["vocabulary"]]

    @property
    def documents(self) -> list[int]:
        """Return the documents, by their places in the text."""
        return sorted({*self.sums["document"].tolist()})

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Tabulate every step: CELL, tokens, cross_entropy (nats a token), temperature, tempered, k1, k2, …

        temperature: the best one; tempered: the cross-entropy there; k1, k2, …: −ln RBP_k at each threshold.
        """
        total = self.sums.drop(columns="document").astype(
            dict.fromkeys(self.sums.columns.drop([*CELL, "document"]), float)
        )
        total = total.groupby(CELL, sort=False).sum().reset_index()
        tokens = total["tokens"]
        temperature, nll = best_temperature(*_by_temperature(total), TEMPERATURES)
        steps = total[CELL].assign(tokens=tokens.astype(int), cross_entropy=total["nll_1.0"] / tokens)
        steps = steps.assign(temperature=temperature, tempered=nll / tokens)
        with np.errstate(divide="ignore"):
            return steps.assign(**{f"k{k}": -np.log(total[f"hits_{k}"] / tokens) + 0.0 for k in self.thresholds})

    @cached_property
    def curves(self) -> list[Curve]:
        """Return all paths, a curve for each draw."""
        undamaged, curves = self.sums[self.sums["path"] == WHOLE], []
        path: Any
        for (path, _), sums in self.sums[self.sums["path"] != WHOLE].groupby(["path", "draw"], sort=False):
            steps: list[Any] = sorted(sums.groupby(["step", "model"]), key=lambda part: part[1]["nll_1.0"].sum())
            names = [Path(model).name if path == SMALLER else f"{step:g}" for (step, model), _ in steps]
            curves.append(self._curve(path, [self.model, *names], [undamaged, *(part for _, part in steps)]))
        return curves

    def _curve(self, path: str, names: Sequence[str], parts: Sequence[pd.DataFrame]) -> Curve:
        sums = [part.set_index("document").sort_index() for part in parts]
        if any(not part["tokens"].equals(sums[0]["tokens"]) for part in sums):
            raise DataError("its steps are of other tokens", f"{self.model} on {self.dataset}", "Measure it again.")
        tokens = sums[0]["tokens"].to_numpy()
        hits = np.stack([part[[f"hits_{k}" for k in self.thresholds]].to_numpy() for part in sums], axis=1)
        nll = np.stack([part["nll_1.0"].to_numpy() for part in sums], axis=1)
        pairs = [_by_temperature(part) for part in sums]
        least = [best_temperature(without_each(v), without_each(s), TEMPERATURES)[1] for v, s in pairs]
        tempered = np.stack(least, axis=1) / without_each(tokens)[:, None]
        return make_curve(path, names, tokens, hits, nll, tempered)

    @property
    def df(self) -> float:
        """Return the degrees of freedom of intervals by the documents."""
        return self.curves[0].df

    def smaller(self) -> list[str]:
        """Return the models whose cross-entropies are levels, the largest first."""
        return [name for curve in self.curves if curve.path == SMALLER for name in curve.names[1:]]


def _by_temperature(sums: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    nll, slope = (sums[[f"{column}_{t}" for t in TEMPERATURES]].to_numpy(np.float64) for column in ("nll", "slope"))
    return nll, slope


def open_paths(folder: Path) -> Worse:
    """Open what `rbp paths run` measured into a folder. Raises DataError where it is missing or damaged."""
    try:
        worse = Worse(parse_json((folder / MANIFEST).read_bytes()), pd.read_parquet(folder / SUMS))
    except (OSError, ValueError):
        raise DataError("the folder holds no paths of a model", label(folder), _REMEDY) from None
    provenance.note(folder / MANIFEST, folder / SUMS)
    return worse
