"""A text whose floor is known (data/ladder/known.toml): is what is above it a power, does a fit find it, who foretells?

Of each y, the cross-entropy or −ln RBP_k, the floor E is what the text's own source has; the excess is y − E.
"""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.chapters.families import measure_label, of_measure
from companion.chapters.training.grid import millions
from ladder import known
from ladder.recipe import read_known
from rbp import provenance
from rbp.arrays import Reals
from rbp.errors import DataError, FitError
from rbp.figures.curves import ramp
from rbp.figures.style import INK, Panels, label_line_ends, legend_below, log_axis
from rbp.io import label
from rbp.laws.misfit import ADDITIVE, KAPLAN, OFFSET, POWER, PRODUCT, SUM
from rbp.laws.resampling import interval, log_neg_log_share, without_each
from rbp.laws.rivals import percent
from rbp.laws.surface import fit_surface, profile
from rbp.report.display import Columns, shown

KS: tuple[int | None, ...] = (None, 1, 10, 100, 1000)  # the cross-entropy first
KNOWN_TOKENS, KNOWN_RUNG = 2_000_000, "59k"  # up to which a forecast knows the cells, by the rules of floor.toml
TOKENS, SIZE = "tokens", "size"
ALONG = {TOKENS: ("training_tokens", "size"), SIZE: ("size", "training_tokens")}  # a line's variable, and what it holds
NONE, FITTED, TRUE = "none", "fitted", "true"
NEAR = 0.5  # of the true floor: so long may an interval be that tells it
STRAIGHT = 1.0  # per cent: a line's root mean square residual up to which its excess counts as a power


def points(folder: Path = known.SHIPPED) -> pd.DataFrame:
    """The models by measure: columns model, rung, size, training_tokens, k (missing: cross-entropy), value, floor.

    floor_low, floor_high: the interval of 95 per cent of E over other such texts. excess: value − floor.
    """
    models, table = known.shipped(folder)
    totals = {name: own.drop(columns=["model", "document"]) for name, own in table.groupby("model", sort=False)}
    source = totals[known.SOURCE]
    parts = []
    for k in KS:
        of_source = without_each(source[[_column(k), "tokens"]])
        logs = np.log(of_source[:, 0] / of_source[:, 1]) if k is None else log_neg_log_share(of_source)
        floor, low, high = (float(np.exp(end)) for end in interval(logs))
        rows = models[models["name"] != known.SOURCE]
        values = [float(_value(totals[name], k)) for name in rows["name"]]
        found = pd.DataFrame({"model": rows["name"], "rung": rows["rung"], "size": rows["size"].astype(float)})
        found = found.assign(training_tokens=rows["budget"].astype(float), k=k, value=values, floor=floor)
        parts.append(found.assign(floor_low=low, floor_high=high, excess=found["value"] - floor))
    return pd.concat(parts, ignore_index=True).astype({"k": "Int64"})


def _column(k: int | None) -> str:
    return "cross_entropy" if k is None else f"mass_{k}"


def _value(table: pd.DataFrame, k: int | None) -> float:
    mean = table[_column(k)].sum() / table["tokens"].sum()
    return float(mean if k is None else -np.log(mean))


def _each(table: pd.DataFrame) -> Iterator[tuple[int | None, float, pd.DataFrame]]:
    """k, the true floor, and the rows of each measure that is there."""
    for k in KS:
        if len(own := of_measure(table, k)):
            yield k, float(own["floor"].iloc[0]), own


def _labels(ks: "pd.Series[int]") -> list[str]:
    return [measure_label(None if pd.isna(k) else int(k)) for k in ks]


# ── Is the excess a power?


def lines(table: pd.DataFrame) -> pd.DataFrame:
    """Each line of ln(excess): of a rung against ln D, of a budget against ln S; of three points or more.

    Columns k, along (TOKENS, SIZE), rung (of a line of tokens), training_tokens (of one of sizes), n, exponent, bend
    (the coefficient of the square; missing for three points), away (root mean square residual of the straight line, %).
    """
    rows = []
    for k, _, own in _each(table):
        for along, (x, held) in ALONG.items():
            for at, line in own.groupby(held):
                if len(line) < 3:
                    continue
                z, y = np.log(line[x].to_numpy(float)), np.log(line["excess"].to_numpy(float))
                slope, level = np.polyfit(z, y, 1)
                row = {"k": k, "along": along, "n": len(line), "exponent": -slope}
                row |= {"rung": line["rung"].iloc[0]} if along == TOKENS else {"training_tokens": at}
                if len(line) > 3:
                    row |= {"bend": np.polyfit(z - z.mean(), y, 2)[0], "away": percent(y - slope * z - level)}
                rows.append(row)
    columns = ["k", "along", "rung", "training_tokens", "n", "exponent", "bend", "away"]
    return pd.DataFrame(rows, columns=columns).astype({"k": "Int64"})


# ── Does a fitted floor find it?


def floors(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """E of the sum E + A·S^(−a) + B·D^(−b), fitted to all cells, beside the true one.

    Columns k, cells, floor, floor_low, floor_high (true), fitted, low, high (`profile`), ratio (fitted to true),
    inside (whether the interval holds the true one), told (it does, and is no longer than NEAR of it), least (the
    smallest y), away (of the fit; root mean square of ln y, %), away_true (of the sum above the true floor). Measures
    of which no sum can be fitted are left out.
    """
    rows = []
    for k, floor, own in _each(table):
        with suppress(FitError):
            best, low, high = profile(own, ADDITIVE, "offset", level=level)
            held = fit_surface(own, SUM, above=floor)
            row = {"k": k, "cells": len(own), "floor": floor, "fitted": best.offset, "low": low, "high": high}
            row |= {name: own[name].iloc[0] for name in ("floor_low", "floor_high")}
            inside = low <= floor <= high
            row |= {"ratio": best.offset / floor, "inside": inside, "told": inside and high - low <= NEAR * floor}
            row |= {"least": own["value"].min()}
            away = {"away": best, "away_true": held}
            rows.append(row | {name: percent([np.sqrt(fit.deviance / len(own))]) for name, fit in away.items()})
    if not rows:
        raise DataError("no law of size and tokens can be fitted to so few models", label(known.SHIPPED))
    return pd.DataFrame(rows).astype({"k": "Int64"})


# ── How far off are forecasts?


class Law(NamedTuple):
    """A law as it is asked to foretell: its form, and which floor it has."""

    form: str
    floor: str

    @property
    def above(self) -> bool:
        """Whether it is fitted above the true floor."""
        return self.floor == TRUE


LAWS = {
    "power": Law(POWER, NONE),
    "power with a fitted floor": Law(OFFSET, FITTED),
    "power above the true floor": Law(POWER, TRUE),
    "product": Law(PRODUCT, NONE),
    "product above the true floor": Law(PRODUCT, TRUE),
    "sum": Law(SUM, NONE),
    "sum with a fitted floor": Law(ADDITIVE, FITTED),
    "sum above the true floor": Law(SUM, TRUE),
    "Kaplan": Law(KAPLAN, NONE),
    "Kaplan above the true floor": Law(KAPLAN, TRUE),
}


def forecasts(table: pd.DataFrame) -> pd.DataFrame:
    """Each law's error where the larger budgets are hidden (TOKENS), or the larger rungs (SIZE).

    Columns cut, law (of LAWS), k, cells (hidden), error (root mean square of ln told − ln measured, %), bias (their
    mean, %). A law of one variable is fitted to each line by itself. What cannot be fitted to what is known has no row.
    """
    sizes = table.loc[table["rung"] == KNOWN_RUNG, "size"]
    largest = {TOKENS: float(KNOWN_TOKENS), SIZE: float(sizes.iloc[0]) if len(sizes) else np.inf}
    rows = []
    for k, floor, own in _each(table):
        for cut, (x, held) in ALONG.items():
            seen = own[x] <= largest[cut]
            for name, law in LAWS.items():
                with suppress(FitError):
                    told = _told(own[seen], own[~seen], law, floor, x, held)
                    away = told - np.log(own.loc[~seen, "value"].to_numpy(float))
                    row = {"cut": cut, "law": name, "k": k, "cells": len(away)}
                    rows.append(row | {"error": percent(away), "bias": 100 * np.expm1(away.mean())})
    columns = ["cut", "law", "k", "cells", "error", "bias"]
    return pd.DataFrame(rows, columns=columns).astype({"k": "Int64"})


def _told(seen: pd.DataFrame, asked: pd.DataFrame, law: Law, floor: float, x: str, held: str) -> Reals:
    """ln y of the rows that are asked for. Raises FitError where none is, or the law cannot be fitted."""
    if asked.empty:
        raise FitError("nothing is hidden", x)
    above = floor if law.above else 0.0
    if law.form not in (POWER, OFFSET):
        return np.log(fit_surface(seen, law.form, above=above).predict(asked["size"], asked["training_tokens"]))
    found: Reals = np.full(len(asked), np.nan)
    for at in asked[held].unique():
        own, line = (asked[held] == at).to_numpy(), seen[seen[held] == at]
        line = line.assign(size=line[x], training_tokens=1.0)  # x in the place of S
        found[own] = np.log(fit_surface(line, law.form, above=above).predict(asked.loc[own, x], 1.0))
    return found


def by_law(table: pd.DataFrame) -> pd.DataFrame:
    """The middle of `forecasts` over the measures: columns form, floor, then for each cut its error and cells."""
    middle = table.groupby(["cut", "law"]).agg(error=("error", "median"), cells=("cells", "max"))
    rows = []
    for name, law in LAWS.items():
        row: dict[str, Any] = {"law": name, "form": law.form, "floor": law.floor}
        for cut in ALONG:
            there = (cut, name) in middle.index
            row |= {cut: middle.loc[(cut, name), "error"] if there else np.nan}
        rows.append(row)
    return pd.DataFrame(rows)


# ── What was foretold


_KINDS = ("value", "exponent", "bend", "floor", "missed", "event")
_REMEDY = "Restore it: git checkout -- data/predictions."


def foretold(
    table: pd.DataFrame,
    bent: pd.DataFrame,
    found: pd.DataFrame,
    laws: pd.DataFrame,
    *,
    path: Path = known.PREDICTIONS,
) -> pd.DataFrame:
    """The predictions of floor.toml and what came of them: kind, what, low, middle, high, found, inside.

    Of `points`, `lines`, `floors` and `by_law`. Of an event middle is its probability, found whether it came (1 or 0),
    and inside is missing. What cannot be judged yet has no `found`. Raises DataError for a malformed file.
    """
    outcome = _Outcome(table, bent, found, laws.set_index("law"))
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = [{"kind": kind, **row} for kind in _KINDS for row in content[kind]]
        for row in rows:
            event = row["kind"] == "event"
            row["found"] = outcome.event(row["name"]) if event else outcome.number(row)
            row["middle"] = row["probability"] if event else row["middle"]
            row["what"] = row["what"] if event else _described(row)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"these are no predictions: {error}", label(path), _REMEDY) from None
    provenance.note(path)
    judged = pd.DataFrame(rows).reindex(columns=["kind", "what", "low", "middle", "high", "found"])
    inside = (judged["low"] <= judged["found"]) & (judged["found"] <= judged["high"])
    return judged.assign(inside=inside.astype(object).where(judged["found"].notna() & judged["low"].notna()))


def _described(row: Mapping[str, Any]) -> str:
    y = measure_label(_k(row["measure"])) if "measure" in row else ""
    where = [row["rung"]] if "rung" in row else []
    where += [f"D = {millions(row['budget'])}"] if "budget" in row else []
    kind = {"value": "y", "exponent": f"exponent in {row.get('along')}", "bend": f"bend in {row.get('along')}"}
    kind |= {"floor": "fitted over true floor", "missed": f"error at the cut of {row.get('cut')}, %: {row.get('law')}"}
    return ", ".join(filter(None, [kind[row["kind"]], y, *where]))


def _k(measure: str | int) -> int | None:
    return None if measure == "cross_entropy" else int(measure)


class _Outcome(NamedTuple):
    """What the predictions are judged by."""

    points: pd.DataFrame
    lines: pd.DataFrame
    floors: pd.DataFrame
    laws: pd.DataFrame

    def number(self, row: Mapping[str, Any]) -> float:
        """NaN where the cells that it needs are not all there."""
        if row["kind"] == "missed":
            return float(self.laws.loc[row["law"], row["cut"]])
        k = _k(row["measure"])
        if row["kind"] == "value":
            own = of_measure(self.points, k)
            return _one(own.loc[(own["rung"] == row["rung"]) & (own["training_tokens"] == row["budget"]), "value"])
        if row["kind"] == "floor":
            return _one(of_measure(self.floors, k)["ratio"])
        if row["kind"] == "bend":
            own = of_measure(self.lines, k)
            return float(own.loc[own["along"] == row["along"], "bend"].mean())
        if row["along"] == SIZE:
            own = of_measure(self.lines, k)
            return _one(own.loc[own["training_tokens"] == row["budget"], "exponent"])
        own = of_measure(self.points, k)
        own = own[(own["rung"] == row["rung"]) & (own["training_tokens"] >= KNOWN_TOKENS)]
        if len(own) < 3:
            return np.nan
        return float(-np.polyfit(np.log(own["training_tokens"]), np.log(own["excess"]), 1)[0])

    def event(self, name: str) -> float:
        """1 or 0, NaN where it cannot be judged."""
        inside = self.floors.set_index(self.floors["k"].fillna(0))["inside"]
        if name in ("power_in_tokens", "power_in_size"):
            away = self.lines.loc[self.lines["along"] == name.removeprefix("power_in_"), "away"].dropna()
            return float((away <= STRAIGHT).mean() > 0.5) if len(away) else np.nan
        if name == "covers_cross_entropy":
            return float(inside[0]) if 0 in inside else np.nan
        if name == "covers_rank_1":
            return float(inside[1]) if 1 in inside else np.nan
        if name == "covers_most":
            return float(inside.sum() >= 3)
        if name.startswith("truth_helps_"):
            errors = self.laws[name.removeprefix("truth_helps_")]
            true, fitted = errors["sum above the true floor"], errors["sum with a fitted floor"]
            return float(true < fitted) if true == true and fitted == fitted else np.nan
        if name == "one_law":
            cuts = self.laws[list(ALONG)]
            return float(cuts[TOKENS].idxmin() == cuts[SIZE].idxmin()) if cuts.notna().any().all() else np.nan
        raise KeyError(name)


def _one(values: "pd.Series[float]") -> float:
    return float(values.iloc[0]) if len(values) else np.nan


# ── As the page shows it

_SUMS = {NONE: "sum", FITTED: "sum with a fitted floor", TRUE: "sum above the true floor"}


def told(table: pd.DataFrame, bent: pd.DataFrame, found: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of `points`, `lines` and `floors`."""
    recipe, _, _ = read_known()
    straight, ranks = bent.dropna(subset="away"), found.dropna(subset="k")
    values: dict[str, Any] = {"models": table["model"].nunique(), "cells": len(recipe.rungs) * len(recipe.budgets)}
    values |= {"tokens": table["training_tokens"].max() / 1e6, "away": straight["away"].median()}
    values |= {"lines": len(straight), "straight": int((straight["away"] <= STRAIGHT).sum())}
    for along in ALONG:
        near = straight.loc[straight["along"] == along, "away"] <= STRAIGHT
        values |= {f"{along}.lines": len(near), f"{along}.straight": int(near.sum())}
    values |= {"told": int(found["told"].sum()), "inside": int(found["inside"].sum()), "measures": len(found)}
    values |= {"ratio_min": ranks["ratio"].min(), "ratio_max": ranks["ratio"].max()}
    loss = found[found["k"].isna()].iloc[0]
    values |= {f"loss.{column}": loss[column] for column in ("floor", "fitted", "low", "high")}
    return {f"known.{name}": value for name, value in values.items()} | {"known.loss.told": bool(loss["told"])}


def floor_shown(table: pd.DataFrame, found: pd.DataFrame, laws: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """What `Page.figure` takes for `points`, `floors` and `by_law`: excess, fitted floors, forecasts."""
    own = of_measure(table, None)
    rungs = own.sort_values("size")["rung"].unique()

    def excess(ax: Axes) -> None:
        ends = {}
        for rung, colour in zip(rungs, ramp(len(rungs)), strict=True):
            line = own[own["rung"] == rung].sort_values("training_tokens")
            x, y = (line[name].to_numpy(float) for name in ("training_tokens", "excess"))
            ax.plot(x / 1e6, y, "o-", color=colour, ms=5, mew=0, lw=1.2)
            ends[rung] = (float(x[-1] / 1e6), float(y[-1]), colour)
        ax.set_xscale("log")
        budgets = sorted(own["training_tokens"].unique() / 1e6)
        ax.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
        ax.minorticks_off()
        log_axis(ax, "y")
        ax.set_xlabel("training tokens D (millions)")
        ax.set_ylabel("cross-entropy − true floor, nats")
        ax.set_title("What is above the floor")
        label_line_ends(ax, ends)

    def fitted(ax: Axes) -> None:
        places, true = np.arange(len(found)), found["floor"]
        ax.vlines(places, found["low"] / true, found["high"] / true, color="#2A7FC0", lw=2)
        ax.plot(places, found["ratio"], "o", color="#2A7FC0", ms=7, mew=0, clip_on=False)
        ax.axhline(1, color=INK, lw=1, ls="--")
        ax.set_xticks(range(len(found)), _labels(found["k"]))
        ax.set_ylim(min(0.0, ax.get_ylim()[0]))
        ax.set_ylabel("fitted floor over the true one")
        ax.set_title("The floor by a fit")

    def errors(ax: Axes) -> None:
        forms = list(dict.fromkeys(laws["form"].replace(OFFSET, POWER).replace(ADDITIVE, SUM)))
        styles = {NONE: ("#8a8d91", "o"), FITTED: ("#D55E00", "s"), TRUE: ("#2A7FC0", "D")}
        at = laws.assign(form=laws["form"].replace(OFFSET, POWER).replace(ADDITIVE, SUM))
        for cut, fill in zip(ALONG, ("full", "none"), strict=True):
            for floor, (colour, marker) in styles.items():
                rows = at[(at["floor"] == floor) & at[cut].notna()]
                where = [forms.index(form) + (0.12 if fill == "none" else -0.12) for form in rows["form"]]
                ax.plot(where, rows[cut], marker, color=colour, ms=7, mew=1.4, fillstyle=fill, ls="")
        names = {"power of one": "power", SUM: "sum", KAPLAN: "Kaplan"}
        ax.set_xticks(range(len(forms)), [names.get(form, form) for form in forms])
        ax.set_ylim(0)
        ax.set_ylabel("error of the forecast, % (median of y)")
        ax.set_title("Who foretells")
        legend_below(ax, {f"floor: {name}": style for name, style in styles.items()})

    draw = {"excess": excess, "fitted": fitted, "errors": errors}
    return {
        "figure": Panels(list(draw), lambda ax, key: draw[key](ax), size=(4.6, 4.0), columns=3),
        "caption": "<b>A text whose floor is known.</b> First: cross-entropy less the text’s own entropy, a line for "
        f"each rung; a power would be straight. Second: E of a fitted sum over the true floor, with {level:.0%} "
        "intervals. Third: each law’s error where the larger budgets (filled) or the larger rungs (hollow) are hidden.",
        "alt": "Excess over the floor against tokens; fitted floors beside the true ones; forecasts’ errors by law",
        "data": table,
    }


def laws_shown(table: pd.DataFrame, found: pd.DataFrame, bent: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """What `Page.table` takes for `forecasts`, `floors` and `lines`: a row for each measure."""
    rows = []
    for own in found.to_dict("records"):
        k = None if pd.isna(own["k"]) else int(own["k"])
        away = of_measure(bent, k)["away"].dropna()
        row = own | {"y": measure_label(k), "straight": f"{int((away <= STRAIGHT).sum())} of {len(away)}"}
        for cut in ALONG:
            errors = of_measure(table[table["cut"] == cut], k).set_index("law")["error"]
            for floor, name in _SUMS.items():
                row[f"{cut}_{floor}"] = errors.get(name, np.nan)
        rows.append(row)
    three = "{:.1f} / {:.1f} / {:.1f}"
    columns: Columns = {
        "y": "y",
        "floor": ("true floor", "{:.4g}"),
        "fitted": ("fitted", "{:.4g}"),
        ("low", "high"): (f"{level:.0%} interval", "[{:.4g}, {:.4g}]"),
        "straight": f"lines of the excess within {STRAIGHT:g}%",
        tuple(f"{TOKENS}_{floor}" for floor in _SUMS): ("unseen tokens, %", three),
        tuple(f"{SIZE}_{floor}" for floor in _SUMS): ("unseen sizes, %", three),
    }
    caption = (
        "<b>True and fitted floors, and forecasts.</b> E of the sum E + A·S<sup>−a</sup> + B·D<sup>−b</sup>. Last "
        "columns: the sum’s error without a floor, above a fitted one, and above the true one."
    )
    return shown(pd.DataFrame(rows), columns, caption=caption, data=table)
