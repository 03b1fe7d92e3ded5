"""What nine laws foretold of runs of 16 and 32 million tokens (data/predictions/tokens.toml), and what came.

`companion.chapters.training.longer` made the file; the rule of scoring is in it.
"""

import tomllib
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from companion.chapters.families import TRANSFORMER, measure_label
from companion.chapters.training.longer import (
    ASKED,
    CELL,
    KNOWN,
    KS,
    LAWS,
    RUNGS,
    SAID,
    cells,
    grids,
    rejected,
    table_of,
)
from companion.steps import step
from ladder.making import LONGER
from ladder.shipped import TRIALS, counted
from rbp import provenance
from rbp.errors import DataError, FitError
from rbp.figures.curves import curves
from rbp.figures.style import neg_log_rbp_label
from rbp.figures.wording import dataset_label
from rbp.io import label
from rbp.laws.misfit import ADDITIVE, KAPLAN, PRODUCT
from rbp.laws.resampling import interval, without_each
from rbp.laws.rivals import OF_BOTH, percent
from rbp.laws.rivals import parameters as left_out
from rbp.laws.surface import profile
from rbp.measurements.counts import Counts
from rbp.report.display import INTERVAL, Columns, shown

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

KEY = [*CELL, "rung", "training_tokens"]


def read(path: Path = LONGER) -> pd.DataFrame:
    """What the file says, a row for each model, text, k and law: KEY, law, low, middle, high.

    Raises DataError for a malformed file.
    """
    content = _content(path)
    try:
        rows = [
            (*(row[name] for name in CELL), row["rung"], row["tokens"], law, *row[law])
            for row in content["target"]
            for law in content["laws"]
            if law in row
        ]
    except (KeyError, TypeError) as error:
        raise DataError(f"these are no predictions: {error}", label(path), _REMEDY) from None
    return pd.DataFrame(rows, columns=[*KEY, "law", "low", "middle", "high"])


def _content(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"these are no predictions: {error}", label(path), _REMEDY) from None
    provenance.note(path)
    return content


_REMEDY = "Restore it: git checkout -- data/predictions."


def measured() -> pd.DataFrame:
    """The longer runs whose sums are shipped, as `cells` has the shorter ones, of seed 0: KEY, seed, size, value."""
    return came(counted(KS, families=[family + TRIALS for family in RUNGS]))


def came(texts: Sequence[Counts]) -> pd.DataFrame:
    """`measured`, of the sums of trials: those beyond KNOWN and of seed 0, as the grid's recipe has them."""
    table = table_of(texts)
    table = table[(table["training_tokens"] > KNOWN) & (table["seed"] == 0)]
    return table.assign(family=table["family"].str.removesuffix(TRIALS))[[*KEY, "seed", "size", "value"]]


def scored(said: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """`read` with what the longer runs came to (`measured`): size, value, inside, and error, ln(middle/value)."""
    found = said.merge(runs[[*KEY, "size", "value"]], on=KEY)
    inside = (found["low"] <= found["value"]) & (found["value"] <= found["high"])
    return found.assign(inside=inside, error=np.log(found["middle"] / found["value"]))


def fair_guess(known: pd.DataFrame, runs: pd.DataFrame, *, level: float = 0.8) -> pd.DataFrame:
    """Forecast the longer runs by Student's t on each model's last doublings of D, as a naive guess beside the laws.

    ln y goes on by the mean of the n known steps in ln y, with their scatter s: m doublings ahead the scale is
    s·√(m + m²/n). known, runs: `cells` and `measured`. Columns KEY, low, middle, high, value, inside, error (`scored`).
    """
    rows = []
    for key, own in known[known["seed"] == 0].groupby([*CELL, "rung"]):
        own = own.sort_values("training_tokens")
        steps = np.diff(np.log(own["value"].to_numpy(np.float64)))
        if len(steps) < 2:
            continue
        for tokens in ASKED:
            ahead = np.log2(tokens / own["training_tokens"].iloc[-1])
            middle = np.log(own["value"].iloc[-1]) + ahead * steps.mean()
            scale = steps.std(ddof=1) * np.sqrt(ahead + ahead**2 / len(steps))
            low, high = student.interval(level, len(steps) - 1, middle, scale)
            rows.append((*key, tokens, *np.exp([low, middle, high])))
    return scored(pd.DataFrame(rows, columns=[*KEY, "low", "middle", "high"]), runs)


def parted(known: pd.DataFrame, runs: pd.DataFrame, path: Path = LONGER) -> pd.DataFrame:
    """The [[apart]] of the file with what came: rungs, of, cells, now, low, middle, high, rejected, inside.

    known, runs: `cells` and `measured`. Without those rungs that are not all trained.
    """
    told, rows = pd.DataFrame(_content(path)["apart"]), []
    trained = runs[runs["family"] == TRANSFORMER].groupby("rung")["training_tokens"].nunique()
    row: Any
    for row in told.itertuples():
        names = RUNGS[TRANSFORMER][: row.rungs]
        if all(trained.get(name, 0) == len(ASKED) for name in names):
            of = ["sum", "product"].index(row.of)
            whole = grids(pd.concat([known, runs]), names)
            rows.append((row.Index, sum(rejected(grid, seeds)[of] for _, grid, seeds in whole)))
    found = told.join(pd.DataFrame(rows, columns=["row", "rejected"]).set_index("row"), how="inner")
    return found.assign(inside=(found["low"] <= found["rejected"]) & (found["rejected"] <= found["high"]))


def refitted(known: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Another cut, which nobody foretold: the laws fitted to 16 million tokens too, and asked for 32: KEY, law, error.

    known, runs: `cells` and `measured`.
    """
    table, rows = pd.concat([known[known["seed"] == 0], runs]), []
    for _, own in table.groupby(CELL):
        later = own["training_tokens"] == max(ASKED)
        for law, told in LAWS.items():
            with suppress(FitError):
                away = told(own[~later], own[later]) - np.log(own.loc[later, "value"].to_numpy(float))
                rows.append(own.loc[later, KEY].assign(law=law, error=away))
    return pd.concat(rows, ignore_index=True)


def by_law(table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """`scored` summed for each law, or each law and value of some columns: law, n, inside (share), mean and error (root
    mean square), both in per cent.
    """
    found = table.groupby([*by, "law"]).agg(
        n=("error", "size"), inside=("inside", "mean"), mean=("error", "mean"), error=("error", percent)
    )
    found["mean"] = 100 * np.expm1(found["mean"])
    place = found.index.get_level_values("law").map([*LAWS].index)
    return found.assign(place=place).sort_values([*by, "place"], kind="stable").drop(columns="place").reset_index()


def best(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The law of least error against each other: law, than, difference of mean squares, low, high.

    Families' sizes are the units that are left out in turn. It foretells best if every high is below 0.
    """
    squares = table.assign(square=table["error"] ** 2, unit=table["family"] + table["rung"])
    wide = squares.pivot_table(index="unit", columns="law", values="square", aggfunc="sum")
    count = squares.pivot_table(index="unit", columns="law", values="square", aggfunc="size")
    means = without_each(wide.to_numpy()) / without_each(count.to_numpy())
    first = int(means[0].argmin())
    rows = []
    for i, law in enumerate(wide.columns):
        if i != first:
            ends = interval(means[:, first] - means[:, i], level=level)
            rows.append((str(wide.columns[first]), str(law), *map(float, ends)))
    return pd.DataFrame(rows, columns=["law", "than", "difference", "low", "high"])


# ── The laws' parameters

NAMES = {"alpha": "a", "beta": "b", "offset": "E"}


@step("law_parameters", reads=["data/ladder/families.json", "data/ladder/families-sums"], seconds=20)
def parameters() -> pd.DataFrame:
    """The parameters of the laws of size and tokens, fitted to all of the transformers that is trained, at 95%.

    Columns dataset, k (0 and 1), form, name, value, low, high (the profile's interval), out_low and out_high (that of
    whole sizes left out in turn).
    """
    known = cells(counted(KS, families=[TRANSFORMER]))
    return _parameters(pd.concat([known[known["seed"] == 0], measured()]))


def _parameters(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    own = table[(table["family"] == TRANSFORMER) & table["k"].isin([0, 1])]
    for (dataset, k), points in own.groupby(["dataset", "k"]):
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


def parameters_told(found: pd.DataFrame) -> dict[str, Any]:
    """What the page says of `parameters`: how many, how many are less sure with sizes left out, and by how much.

    And of the exponent in S by a product and by Kaplan's form: at k = 1 on Wikipedia, and in how many of the texts and
    measures their intervals with sizes left out do not meet.
    """
    ratio = (found["out_high"] - found["out_low"]) / (found["high"] - found["low"])
    values = {"count": len(ratio), "wider": int((ratio > 1).sum()), "ratio": ratio.median()}
    product, kaplan = (
        found[(found["form"] == form) & (found["name"] == "alpha")].set_index(["dataset", "k"])
        for form in (PRODUCT, KAPLAN)
    )
    values |= {"product": product["value"]["wikipedia", 1], "kaplan": kaplan["value"]["wikipedia", 1]}
    apart = (product["out_high"] < kaplan["out_low"]) | (kaplan["out_high"] < product["out_low"])
    values |= {"apart": int(apart.sum()), "measures": len(apart)}
    return {f"parameters.{name}": value for name, value in values.items()}


def parameters_shown(found: pd.DataFrame, dataset: str = "wikipedia") -> dict[str, Any]:
    """The rows of `parameters` on a text, for `Page.table`."""
    rows = found[found["dataset"] == dataset]
    rows = rows.assign(y=rows["k"].map({0: measure_label(None), 1: measure_label(1)}), name=rows["name"].map(NAMES))
    columns: Columns = {
        "y": "y",
        "form": "law",
        "name": "parameter",
        "value": ("value", "{:.3f}"),
        ("low", "high"): ("by its profile", INTERVAL),
        ("out_low", "out_high"): ("sizes left out", INTERVAL),
    }
    caption = (
        f"<b>The laws’ parameters</b> on {dataset_label(dataset)}, fitted to all transformers that have read up to 32 "
        "million tokens, with two intervals of 95%. The first takes all errors for independent, the second leaves out "
        "whole sizes in turn."
    )
    return shown(rows, columns, caption=caption, data=found)


# ── As the page shows it


def longer_told(said: pd.DataFrame, table: pd.DataFrame, grids: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of `read`, `scored` and `parted`: how many models are asked for and trained, the
    errors of laws, which errs least and how many others it surely beats, and in how many grids a sum is rejected.
    """
    models = ["family", "rung", "training_tokens"]
    found: dict[str, Any] = {
        "asked": len(said[models].drop_duplicates()),
        "models": len(table[models].drop_duplicates()),
    }
    found |= {"texts": said["dataset"].nunique(), "laws": said["law"].nunique()}
    found["largest"] = int(table["size"].max())
    scores, other = by_law(table).set_index("law"), best(table)
    laws = ("power", "product", "sum", "kaplan", "offset_in_tokens")
    found |= {f"{law}.error": scores["error"][law] for law in laws}
    found |= {"offset_in_tokens.inside": 100 * scores["inside"]["offset_in_tokens"]}
    found |= {"best": SHORT[str(other["law"].iloc[0])], "others": len(other), "beaten": int((other["high"] < 0).sum())}
    for row in grids.itertuples():
        if row.of == "sum":
            found |= {f"apart.sum{row.rungs}.{name}": getattr(row, name) for name in ("cells", "rejected")}
    return {f"longer.{name}": value for name, value in found.items()}


def said_shown(said: pd.DataFrame, dataset: str = "wikipedia", k: int = 1) -> dict[str, Any]:
    """What the laws say of the transformers' ends on a text, for `Page.table`."""
    own = said[(said["family"] == TRANSFORMER) & (said["dataset"] == dataset) & (said["k"] == k)]
    rows = pd.DataFrame({"law": SAID}).rename_axis("key")
    columns: dict[Any, Any] = {"law": "law"}
    for rung, tokens in product((RUNGS[TRANSFORMER][0], RUNGS[TRANSFORMER][-1]), ASKED):
        one = own[(own["rung"] == rung) & (own["training_tokens"] == tokens)].set_index("law")
        names = tuple(f"{end}.{rung}.{tokens}" for end in ("middle", "low", "high"))
        rows = rows.join(one[["middle", "low", "high"]].set_axis(list(names), axis=1))
        columns[names] = (f"{rung}, {tokens / 1e6:g} M", "{:.2f} [{:.2f}, {:.2f}]")
    caption = (
        f"<b>What each law foretold</b> of −ln RBP<sub>{k}</sub> on {dataset_label(dataset)}, of the smallest "
        "transformer and the largest that is asked for, with its interval of 80%."
    )
    return shown(rows.reset_index(drop=True), columns, caption=caption, data=said)


def longer_shown(
    known: pd.DataFrame,
    came: pd.DataFrame,
    dataset: str,
    k: int,
    laws: Sequence[str] = ("power", "offset_in_tokens", "sum", "kaplan"),
) -> dict[str, Any]:
    """What `Page.figure` takes for the transformers' y over D, with what some laws foretold of it, a panel each.

    known, came: `cells` and `scored`.
    """
    rows, ahead = (
        table[(table["family"] == TRANSFORMER) & (table["dataset"] == dataset) & (table["k"] == k)]
        for table in (known[known["seed"] == 0], came)
    )
    parts, lines = [], []
    for law in laws:
        then = ahead[ahead["law"] == law].drop(columns=["low", "high"])
        own = rows[rows["rung"].isin(then["rung"])]
        measured = pd.concat([own.assign(hollow=False), then.assign(hollow=True)])
        parts.append(measured.assign(law=SHORT[law]))
        last = own[own["training_tokens"] == KNOWN]
        lines.append(pd.concat([last, then.assign(value=then["middle"])]).assign(law=SHORT[law], weak=True))
    table, ahead = (
        pd.concat(each).assign(millions=lambda rows: rows["training_tokens"] / 1e6) for each in (parts, lines)
    )
    heights = pd.concat([table["value"], ahead["value"]]).agg(["min", "max"])
    panels = curves(
        table, "millions", "value", panel="law", line="rung", fitted=[ahead], ends=True, log="xy", size=(4.6, 4.0),
        labels=("training tokens D (millions)", neg_log_rbp_label(k)), ylim=tuple(heights * [0.98, 1.02]),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": f"<b>Foretold, then trained.</b> −ln RBP<sub>{k}</sub> on {dataset_label(dataset)}, a colour for "
        "each size. Dashed: what a law foretold of 16 and 32 million tokens. Hollow: what came.",
        "alt": "Four panels of the same points over training tokens; a pure power’s dashed lines fall below them",
        "data": came,
    }


def laws_shown(table: pd.DataFrame, again: pd.DataFrame, fair: pd.DataFrame) -> dict[str, Any]:
    """`by_law` of `scored`, and the errors of the cross-entropy alone and of `refitted`, for `Page.table`.

    fair: `fair_guess`, the last row.
    """
    rows = by_law(table).set_index("law", drop=False).assign(law=lambda whole: whole["law"].map(SHORT))
    rows["again"] = again.groupby("law")["error"].agg(percent)
    rows["loss"] = table[table["k"] == 0].groupby("law")["error"].agg(percent)
    guess = {"law": "fair naive guess: Student’s t on the last doublings", "inside": fair["inside"].mean()}
    guess |= {"mean": 100 * np.expm1(fair["error"].mean()), "error": percent(fair["error"])}
    rows.loc["fair"] = pd.Series(guess | {"loss": percent(fair.loc[fair["k"] == 0, "error"])})
    columns: dict[Any, Any] = {
        "law": "law",
        "inside": ("intervals that hold", "{:.0%}"),
        "mean": ("mean, %", "{:+.1f}"),
        "error": ("error, %", "{:.1f}"),
        "loss": ("that of CE, %", "{:.1f}"),
        "again": ("by 16 M too, %", "{:.1f}"),
    }
    caption = (
        "<b>What was foretold of longer training, and what came.</b> Laws, fitted up to 8 million tokens: how many of "
        "their intervals of 80% hold, how far they are off in the mean (below 0: too optimistic), and their error "
        "(root mean square). By 16 M too: the error at 32 million, fitted after 16 had come, so not foretold. No model "
        f"above {int(table['size'].max()):,} parameters was trained so long. Last: ln y goes on as it went from "
        "0.5 to 8 million."
    )
    return shown(rows.reset_index(drop=True), columns, caption=caption, data=table)
