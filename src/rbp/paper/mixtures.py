"""Why −ln RBP_1 goes as another power of the cross-entropy on each text: lines of RBP_1 in CE, and hits and misses.

With h = RBP_1, r = −ln h, C the cross-entropy and b = −dh/dC, the local slope is d ln r / d ln C = b·C/(h·r). Where a
model stands on its text is the factor beside b. Exactly, b = λ/(L_m − L_h): λ is the share of the fall in CE that comes
from misses that become hits, at L_m − L_h nats each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.arrays import Integers, Reals
from rbp.core.errors import DataError
from rbp.evidence.ranked import Ranked
from rbp.paper.display import shown
from rbp.ranks.store import RankStore
from rbp.stats.resampling import interval, without_each

FEWEST = 3  # models that a slope is taken through
CELL = ["dataset", "family"]
TURNED = [*CELL, "quantity", "value", "low", "high"]


# What is measured: a slope for each family on each text


def points(table: pd.DataFrame) -> pd.DataFrame:
    """RBP_1 and the cross-entropy of each model that has both, from a measurement table.

    Columns dataset, family, size, model, hit (RBP_1), cost (CE, nats), by these. Raises DataError if no model has both.
    """
    some = table[table["k"].eq(1).fillna(False) | (table["metric"] == "cross_entropy")]
    wide = some.pivot_table(index=[*CELL, "size", "model"], columns="metric", values="value")
    if not {"neg_log_rbp", "cross_entropy"} <= set(wide) or wide.dropna().empty:
        what = "no model has both −ln RBP_1 and a cross-entropy"
        raise DataError(what, "measurements", 'Give "published", "ladder" or rank stores.')
    found = wide.dropna().reset_index()
    return found.assign(hit=np.exp(-found["neg_log_rbp"]), cost=found["cross_entropy"])[
        [*CELL, "size", "model", "hit", "cost"]
    ]


def slopes(found: pd.DataFrame) -> pd.DataFrame:
    """The slope of ln(−ln RBP_1) in ln CE of each family on each text, and the straight line of RBP_1 in CE.

    found: of `points`. Columns dataset, family, models, hit_low and hit_high (RBP_1, smallest and largest), slope;
    per_nat (b: what RBP_1 loses for each nat), at_zero (the line at CE = 0), r_squared (of the line); factor (the mean
    of CE/(h·r), by which b is to be multiplied). All by least squares. Families of fewer than FEWEST models, and those
    in which one is always right or never, are left out.
    """
    rows = []
    for key, own in found.groupby(CELL):
        h, c = own["hit"].to_numpy(), own["cost"].to_numpy()
        if len(own) < FEWEST or not ((h > 0) & (h < 1)).all() or np.ptp(c) == 0:
            continue
        per_nat, at_zero = _line(c, h)
        missed = h - at_zero + per_nat * c
        r_squared = 1 - missed @ missed / max(float(((h - h.mean()) ** 2).sum()), 1e-300)
        line = (per_nat, at_zero, r_squared, factor(h, c).mean())
        rows.append((*key, len(own), h.min(), h.max(), float(local_slope(h, c)), *line))
    names = [*CELL, "models", "hit_low", "hit_high", "slope", "per_nat", "at_zero", "r_squared", "factor"]
    return pd.DataFrame(rows, columns=names)


def factor(hit: npt.ArrayLike, cost: npt.ArrayLike) -> Reals:
    """CE/(RBP_1·(−ln RBP_1)): the local slope for each unit of b."""
    h = np.asarray(hit, dtype=np.float64)
    return np.asarray(cost, dtype=np.float64) / (h * -np.log(h))


def from_one_line(lines: pd.DataFrame, family: str) -> pd.DataFrame:
    """`lines`, of `slopes`, with `expected`: the slope that the b of one family gives; NaN if that is not there.

    Of a family on several texts it is the mean b.
    """
    return lines.assign(expected=lines.loc[lines["family"] == family, "per_nat"].mean() * lines["factor"])


def _line(x: Reals, y: Reals) -> tuple[Any, Any]:
    """−slope and intercept of the least-squares line along the last axis."""
    away = x - x.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # one x has no slope: NaN
        slope = (away * y).sum(-1) / (away * away).sum(-1)
    return -slope, y.mean(-1) - slope * x.mean(-1)


def local_slope(h: Reals, c: Reals) -> Any:
    """d ln(−ln h)/d ln c by least squares along the last axis."""
    return -_line(np.log(c), np.log(-np.log(h)))[0]


# Hits and misses, from ranks


@dataclass(frozen=True)
class Costs:
    """What hits and misses of a family cost on one text.

    models, sizes: by S; sums: tokens, hits, Σ −ln p and that of the hits, shape (documents, models, 4).
    """

    dataset: str
    family: str
    models: tuple[str, ...]
    sizes: Integers
    sums: Reals


def count_costs(stores: Sequence[RankStore]) -> list[Costs]:
    """The costs of each family on each text. Raises DataError where two models ranked other tokens of a text."""
    found = []
    for key in dict.fromkeys((store.dataset, store.family) for store in stores):
        own = sorted((s for s in stores if (s.dataset, s.family) == key), key=lambda s: (s.size, s.model))
        each = [_costs(store) for store in own]
        if any(not np.array_equal(sums[:, 0], each[0][:, 0]) for sums in each):
            what = f"two models did not rank the same tokens of {key[0]}"
            raise DataError(what, str(own[0].folder), "Extract both with one tokenizer, corpus and protocol.")
        sizes = np.array([store.size for store in own], dtype=np.int64)
        found.append(Costs(*key, tuple(store.model for store in own), sizes, np.stack(each, axis=1)))
    return found


def _costs(store: RankStore) -> Reals:
    ranked = Ranked(store)
    hit, nll = np.asarray(ranked.ranks <= 1), ranked.tokens["nll"].to_numpy(np.float64)
    _, place = np.unique(ranked.tokens["document"], return_inverse=True)
    sums = np.column_stack([np.bincount(place, w) for w in (np.ones_like(nll), hit, nll, nll * hit)])
    return sums.astype(np.float64)


def turned(costs: Costs, *, level: float = 0.95) -> pd.DataFrame:
    """How CE falls from the smallest to the largest model: misses that become hits, and hits and misses that cost less.

    One row for each quantity, with its interval (low, high) by documents, the same for all models:
    slope (of ln(−ln RBP_1) in ln CE), per_nat (b), share (λ: of the fall in CE that comes from misses turned into hits;
    between neighbouring models at the mean of their costs), gap (what such a token saves: L_m − L_h, mean over models,
    nats), hit_cost and miss_cost (L_h, L_m of the largest model).
    Columns dataset, family, quantity, value, low, high. Intervals are NaN for a single document.
    """
    rows = [
        (costs.dataset, costs.family, name, *map(float, interval(values, level=level)))
        for name, values in _quantities(without_each(costs.sums)).items()
    ]
    return pd.DataFrame(rows, columns=TURNED)


def comparable(costs: Costs) -> bool:
    """Whether a slope can be taken: FEWEST models, none always right or never, with more than one cross-entropy."""
    tokens, hits, nll, _ = costs.sums.sum(axis=0).T
    return len(costs.models) >= FEWEST and bool(((hits > 0) & (hits < tokens)).all()) and bool(np.ptp(nll) > 0)


def turned_by_all(costs: Sequence[Costs], *, level: float = 0.95) -> pd.DataFrame:
    """`turned` of all that are comparable."""
    parts = [turned(one, level=level) for one in costs if comparable(one)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=TURNED)


def _quantities(sums: Reals) -> dict[str, Reals]:
    """The quantities of `turned` from sums over documents, shape (1 + D, models, 4)."""
    tokens, hits, nll, of_hits = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        h, c, hit_cost, miss_cost = hits / tokens, nll / tokens, of_hits / hits, (nll - of_hits) / (tokens - hits)
        gap = miss_cost - hit_cost
        saved = np.diff(h, axis=1) * (gap[:, 1:] + gap[:, :-1]) / 2
        return {
            "slope": local_slope(h, c),
            "per_nat": _line(c, h)[0],
            "share": saved.sum(1) / (c[:, 0] - c[:, -1]),
            "gap": gap.mean(1),
            "hit_cost": hit_cost[:, -1],
            "miss_cost": miss_cost[:, -1],
        }


def slopes_shown(lines: pd.DataFrame, label: str) -> dict[str, Any]:
    """`from_one_line` as a page shows it; label: whose b it is."""
    return shown(
        lines,
        {
            "dataset": "text",
            "family": "family",
            "models": "models",
            ("hit_low", "hit_high"): ("RBP₁", "{:.2f} to {:.2f}"),
            "per_nat": ("b per nat", "{:.3f}"),
            "at_zero": ("line at CE = 0", "{:.2f}"),
            "r_squared": ("R² of the line", "{:.3f}"),
            "slope": ("slope", "{:.2f}"),
            "expected": (f"with {label} b", "{:.2f}"),
        },
        caption="<b>The slope d ln(−ln RBP₁)/d ln CE, and the straight line of RBP₁ in CE.</b> "
        f"“With {label} b”: the slope that this b gives.",
    )


def turned_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`turned` of several texts as a page shows it."""
    names: dict[Any, Any] = {
        "share": "λ",
        "gap": "miss less hit, nats",
        "per_nat": "b",
    }
    cells = zip(table["value"], table["low"], table["high"], strict=True)
    texts = [f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if np.isfinite(low) else "") for value, low, high in cells]
    rows = table.assign(text=texts)
    wide = rows.pivot_table(index=CELL, columns="quantity", values="text", aggfunc="first").reset_index()
    return shown(
        wide,
        {"dataset": "text", "family": "family"} | names,
        caption="<b>What a fall of the cross-entropy is made of.</b> λ: its share from misses that become hits, "
        f"at so many nats each as a miss costs more than a hit. b is λ over that. {level:.0%} intervals by documents.",
        data=table,
    )
