"""−ln RBP_k by the position in the window: what more context does, beside what more parameters do."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rbp.book.figure_style import neg_log_rbp_label
from rbp.core.arrays import Reals
from rbp.core.errors import FitError
from rbp.paper.curves import curves, ramp
from rbp.paper.display import INTERVAL, Columns, shown
from rbp.paper.families import LSTM, TRANSFORMER, exponents, measure_label, of_measure
from rbp.paper.wording import dataset_label, dataset_order, family_label
from rbp.stats.resampling import interval, without_each
from rbp.stats.surface import OFFSET, POWER, fit_surface

LATE = -3  # the local exponent late in the window is that from this bin to the last: two octaves


class Curve(NamedTuple):
    """A model on a text by position: `position`, the geometric mean of each bin, shape (bins,); `y` by k (None:
    cross-entropy), ln y of the text and of it without each of its U units, shape (1 + U, bins).
    """

    dataset: str
    family: str
    rung: str
    size: int
    position: Reals
    y: dict[int | None, Reals]


def by_position(sums: pd.DataFrame, models: pd.DataFrame) -> list[Curve]:
    """The curves of some models: sums as `rbp.ladder.positions` has them, models with model, family, rung and size."""
    about, found = models.set_index("model").to_dict("index"), []
    ks = [int(name.removeprefix("hits_")) for name in sums.columns if name.startswith("hits_")]
    columns = ["tokens", "positions", "nll", *(f"hits_{k}" for k in ks)]
    for (dataset, model), own in sums[sums["model"].isin(list(about))].groupby(["dataset", "model"], sort=False):
        wide = own.pivot_table(index="unit", columns="first", values=columns, aggfunc="sum", fill_value=0)
        total = {name: without_each(wide[name].to_numpy(np.float64)) for name in columns}
        with np.errstate(divide="ignore"):
            y: dict[int | None, Reals] = {None: np.log(total["nll"] / total["tokens"])}
            y |= {k: np.log(np.log(total["tokens"] / total[f"hits_{k}"])) for k in ks}
        row = about[model]
        position = np.exp(total["positions"][0] / total["tokens"][0])
        found.append(Curve(str(dataset), row["family"], row["rung"], int(row["size"]), position, y))
    return sorted(found, key=lambda each: (dataset_order({c.dataset for c in found}).index(each.dataset), each.size))


def in_position(found: Sequence[Curve], *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in position of each curve, a row for each: dataset, family, rung, size, k (missing: cross-entropy).

    alpha, low, high: of the power law through all bins, units left out in turn; late, late_low, late_high: of the last
    two octaves alone. above: the exponent of E + A·p^(−above), E ≥ 0; share: E over y at the last bin; explained: what
    share that explains of the squares that the power law leaves. NaN where such a law is not determined.
    """
    rows = []
    for curve in found:
        for k, y in curve.y.items():
            row: dict[str, Any] = {name: getattr(curve, name) for name in ("dataset", "family", "rung", "size")}
            row |= dict(zip(("alpha", "low", "high"), interval(exponents(curve.position, y), level=level), strict=True))
            late = interval(_late(curve.position, y), level=level)
            row |= {"k": k, **dict(zip(("late", "late_low", "late_high"), late, strict=True))}
            row |= dict.fromkeys(("above", "share", "explained"), np.nan)
            table = pd.DataFrame({"size": curve.position, "training_tokens": 1.0, "value": np.exp(y[0])})
            with suppress(FitError):  # the position stands in the place of S
                law, bare = fit_surface(table, OFFSET), fit_surface(table, POWER)
                row |= {"above": law.alpha, "share": law.offset / table["value"].iloc[-1]}
                row["explained"] = 1 - law.deviance / bare.deviance
            rows.append(row)
    return pd.DataFrame(rows).astype({"k": "Int64"})


def in_size(found: Sequence[Curve], *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S at the end of the window, of each family: dataset, family, k, alpha, low, high.

    Of families of three sizes at least, by the same units.
    """
    rows = []
    for dataset, family, own in _families(found):
        sizes = np.array([curve.size for curve in own])
        for k in own[0].y if len(own) > 2 else ():
            alpha = interval(exponents(sizes, np.column_stack([curve.y[k][:, -1] for curve in own])), level=level)
            rows.append({"dataset": dataset, "family": family, "k": k} | alpha._asdict())
    table = pd.DataFrame(rows, columns=["dataset", "family", "k", "estimate", "low", "high"])
    return table.rename(columns={"estimate": "alpha"}).astype({"k": "Int64"})


def _families(found: Sequence[Curve]) -> Iterator[tuple[str, str, list[Curve]]]:
    for dataset, family in dict.fromkeys((curve.dataset, curve.family) for curve in found):
        yield dataset, family, [c for c in found if (c.dataset, c.family) == (dataset, family)]


def late_apart(found: Sequence[Curve], k: int, *, level: float = 0.95) -> pd.DataFrame:
    """By how much the LSTM's late exponent exceeds that of the transformer of its rung.

    Columns dataset, rung, estimate, low, high.
    """
    late = {(c.family, c.dataset, c.rung): _late(c.position, c.y[k]) for c in found}
    rows = []
    for (family, dataset, rung), own in late.items():
        if family == LSTM and (other := late.get((TRANSFORMER, dataset, rung))) is not None:
            rows.append({"dataset": dataset, "rung": rung} | interval(own - other, level=level)._asdict())
    return pd.DataFrame(rows, columns=["dataset", "rung", "estimate", "low", "high"])


def _late(position: Reals, y: Reals) -> Reals:
    found: Reals = (y[:, LATE] - y[:, -1]) / np.log(position[-1] / position[LATE])
    return found


def k_decides(position: pd.DataFrame, size: pd.DataFrame, ks: tuple[int, int] = (1, 100)) -> dict[str, Any]:
    """What decides whether the exponent in position goes with k as that in S does: of `in_position` and `in_size`."""
    mean = position.groupby(["dataset", "family", "k"])["alpha"].mean()
    both = pd.DataFrame({"position": mean, "size": size.set_index(["dataset", "family", "k"])["alpha"]}).dropna()
    wide = both.reset_index().pivot_table(index=["dataset", "family"], columns="k")
    found: dict[str, Any] = {"cells": len(wide)}
    grows = {}
    for name in ("position", "size"):
        first, last = (wide[name, k] for k in ks)
        grows[name] = last > first
        found |= {f"{name}_grows": int(grows[name].sum()), f"{name}_times": float((last / first).median())}
    return found | {"alike": int((grows["position"] == grows["size"]).sum())}


def memory_decides(apart: pd.DataFrame, position: pd.DataFrame, k: int) -> dict[str, Any]:
    """What decides whether an LSTM's curve flattens first: of `late_apart` and `in_position`."""
    found: dict[str, Any] = {"pairs": len(apart), "flatter": int((apart["estimate"] < 0).sum())}
    found["surely"] = int((apart["high"] < 0).sum())
    own = of_measure(position, k).groupby("family")["late"].median()
    return found | {"lstm": float(own.get(LSTM, np.nan)), "transformer": float(own.get(TRANSFORMER, np.nan))}


def positions_shown(found: Sequence[Curve], k: int) -> dict[str, Any]:
    """What `Page.figure` takes for −ln RBP_k against the position: a line for each model, panels by text and family."""
    rows = pd.DataFrame(
        {"panel": f"{dataset_label(c.dataset)}, {family_label(c.family)}", "rung": c.rung, "position": p, "value": y}
        for c in sorted(found, key=lambda c: (c.family != TRANSFORMER, c.size))
        for p, y in zip(c.position, np.exp(c.y[k][0]), strict=True)
    )
    order = [f"{dataset_label(d)}, {family_label(f)}" for d, f, _ in _families(found)]
    rows = rows.assign(place=rows["panel"].map(order.index)).sort_values("place", kind="stable").drop(columns="place")
    rungs = dict.fromkeys(curve.rung for curve in sorted(found, key=lambda each: each.size))
    styles = dict(zip(rungs, zip(ramp(len(rungs)), "o" * len(rungs), strict=True), strict=True))
    return {
        "figure": curves(
            rows, "position", "value", panel="panel", line="rung", styles=styles, log="xy", ends=True,
            labels=("tokens before, in the window", neg_log_rbp_label(k)), size=(4.6, 3.7),
        ),
        "caption": f"<b>−ln RBP<sub>{k}</sub> by the position in the window,</b> a line for each size at the largest "
        "number of training tokens. A power law in the position is straight.",
        "alt": "−ln RBP against the position in the window, log-log, a line for each model, falling and flattening",
        "data": rows,
    }  # fmt: skip


def exponents_shown(position: pd.DataFrame, size: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The rows of `in_position` for `Page.table`, with the family's exponent in S at the same k."""
    beside = size.rename(columns={"alpha": "in_size"})[["dataset", "family", "k", "in_size"]]
    rows = position.merge(beside, on=["dataset", "family", "k"], how="left")
    rows = rows.assign(measure=[measure_label(k) for k in rows["k"]])
    columns: Columns = {
        "dataset": "Text",
        "family": "family",
        "rung": "size",
        "measure": "y",
        "alpha": ("exponent in position", "{:.3f}"),
        ("low", "high"): (f"{level:.0%} interval", INTERVAL),
        "late": ("late in the window", "{:+.3f}"),
        "above": ("above a floor", "{:.2f}"),
        "share": ("floor, share of y at the end", "{:.2f}"),
        "in_size": ("exponent in S there", "{:.3f}"),
    }
    caption = (
        "<b>Exponents in position, beside that in size.</b> Of a power law through all positions; of the last two "
        "octaves; of E + A·p<sup>−a</sup>, whose E is given as a share of y at the window’s end. Last: of the family, "
        "over its sizes, at the window’s end."
    )
    return shown(rows, columns, caption=caption, data=position)


def told(position: pd.DataFrame, size: pd.DataFrame) -> dict[str, Any]:
    """What the page says: medians over texts and sizes, by family and k; what a floor explains, at the median."""
    found: dict[str, Any] = {"curves": len(position), "explained": 100 * position["explained"].median()}
    found |= {"above": position["above"].median(), "share": 100 * position["share"].median()}
    for name, table in (("position", position), ("size", size)):
        for key, own in table.assign(k=table["k"].fillna(0)).groupby(["family", "k"])["alpha"]:
            found[f"{name}.{key[0]}.{'ce' if key[1] == 0 else f'k{key[1]}'}"] = own.median()
    for key, rows in position.assign(k=position["k"].fillna(0)).groupby(["family", "k"]):
        label = f"{key[0]}.{'ce' if key[1] == 0 else f'k{key[1]}'}"
        found |= {f"late.{label}": rows["late"].median(), f"above.{label}": rows["above"].median()}
    return found
