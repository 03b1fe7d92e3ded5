"""How much hangs on learning rates, seeds, batches and repeated text: trials on unseen rows, and in ranks."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from companion.chapters.families import TRANSFORMER, measure_label, of_measure
from companion.project import LADDER
from rbp.measurements.counts import Counts
from rbp.report.display import Columns, shown
from rbp.tables import checked, read_csv

TRIALS = LADDER / "trials.csv"
CONTEXT = 256  # tokens of a row
_COUNT = pa.Column("int64", pa.Check.ge(0, error="must not be negative"))
_POSITIVE = pa.Column("float64", pa.Check.gt(0, error="must be positive"))
_SCHEMA = pa.DataFrameSchema(
    {
        **dict.fromkeys(("model", "family", "rung"), pa.Column("str")),
        **dict.fromkeys(("seed", "budget", "batch"), _COUNT),
    }
    | {"rate": _POSITIVE, "distinct": pa.Column("float64", nullable=True), "loss": _POSITIVE}
)


def trials() -> pd.DataFrame:
    """The losses of all trials (data/ladder/README.md). Raises DataError for a missing or malformed file."""
    return checked(read_csv(TRIALS), _SCHEMA, TRIALS, keys=["model"], remedy="Restore it: git checkout -- data/ladder.")


def hangs(table: pd.DataFrame, sizes: "pd.Series[int]", family: str = TRANSFORMER) -> pd.DataFrame:
    """The local exponent of the loss in S between neighbouring sizes, with the grid's rates and with the best tried.

    table: `trials`; sizes: S by rung. Sizes of which the grid's rate and another were tried at a budget. A row for each
    step, and then for each bend, by which the exponent falls from one step to the next: budget, what, grid, best (of
    those tried), seeds: how far two such numbers lie apart by seeds alone, a standard deviation; sure: they lie apart
    by more than twice that. Of the loss on rows that no run reads, ln nats.
    """
    own = _of_the_grid_s_batch(table, family)
    chance, rows = _chance(own), []
    for budget, there in own[own["seed"] == 0].groupby("budget"):
        count = there.groupby("rung")["rate"].nunique()
        rungs = sorted(
            set(count[count >= 2].index) & set(there[~there["changed"]]["rung"]), key=lambda rung: sizes[rung]
        )
        grid = there[~there["changed"]].set_index("rung")["log"]
        best = there.groupby("rung")["log"].min()
        x = np.log([sizes[rung] for rung in rungs])
        steps = np.diff(np.eye(len(rungs)), axis=0) / np.diff(x)[:, None] if len(rungs) > 1 else np.zeros((0, 0))
        weights = np.concatenate([-steps, np.diff(steps, axis=0)]) if len(steps) > 1 else -steps
        names = [f"{a} to {b}" for a, b in pairwise(rungs)]
        names += [f"bend at {rung}" for rung in rungs[1:-1]]
        for name, weight in zip(names, weights, strict=True):
            ends = {kind: float(weight @ logs[rungs]) for kind, logs in (("grid", grid), ("best", best))}
            seeds = chance * float(np.sqrt(weight @ weight))
            sure = abs(ends["best"] - ends["grid"]) > 2 * seeds
            rows.append({"budget": budget, "what": name, **ends, "seeds": seeds, "sure": sure})
    return pd.DataFrame(rows, columns=["budget", "what", "grid", "best", "seeds", "sure"])


def _of_the_grid_s_batch(table: pd.DataFrame, family: str) -> pd.DataFrame:
    own: pd.DataFrame = table[(table["family"] == family) & table["distinct"].isna()]
    own = own[own["batch"] == own["batch"].mode().iloc[0]]
    return own.assign(log=np.log(own["loss"]), changed=own["model"].str.contains("-rate"))


def _chance(own: pd.DataFrame) -> float:
    """The standard deviation of ln loss between seeds of one cell, pooled over cells."""
    cells = own[~own["changed"]].groupby(["rung", "budget"])["log"].agg(["var", "size"]).query("size > 1")
    return float(np.sqrt((cells["var"] * (cells["size"] - 1)).sum() / (cells["size"] - 1).sum()))


def updates(table: pd.DataFrame, family: str = TRANSFORMER) -> pd.DataFrame:
    """Runs with other batches, or over less text again and again, beside the grid's of the same size and budget.

    table: `trials`. Columns rung, budget, batch, distinct (tokens; missing: each once), updates, loss, difference from
    the grid's (nats), seeds: the standard deviation of a difference by seeds alone.
    """
    grid = _of_the_grid_s_batch(table, family)
    chance = _chance(grid)
    grid = grid[~grid["changed"] & (grid["seed"] == 0)]
    own = table[(table["family"] == family) & ~table["model"].isin(grid["model"])]
    own = own[own["distinct"].notna() | ~own["batch"].isin(grid["batch"])]
    found = own.merge(grid[["rung", "budget", "loss"]], on=["rung", "budget"], suffixes=("", "_grid"))
    found["updates"] = found["budget"] // (found["batch"] * CONTEXT)
    found["difference"] = found["loss"] - found["loss_grid"]
    found["seeds"] = chance * np.hypot(found["loss"], found["loss_grid"])
    names = ["rung", "budget", "batch", "distinct", "updates", "loss", "difference", "seeds"]
    return found.sort_values(["budget", "distinct", "batch"])[names].reset_index(drop=True)


def in_ranks(grid: Sequence[Counts], runs: Sequence[Counts], table: pd.DataFrame) -> pd.DataFrame:
    """How far trials that are ranked lie from the grid's runs of the same size and budget, in each measure.

    grid, runs: counts of the family, and of its trials; table: `trials`, which says what a trial does otherwise. A row
    for each trial and measure (k missing: cross-entropy): model, rung, size, budget, what, k, difference (of ln y, its
    mean over the texts), least, most (over the texts), seeds: the standard deviation of such a mean by seeds alone,
    pooled over the cells with several. All four in per cent of y.
    """
    rows = pd.concat([one.table() for one in (*grid, *runs)], ignore_index=True)
    rows = rows.assign(log=100 * np.log(rows["value"]), k=rows["k"].fillna(0).astype(int))
    what = _otherwise(table)
    rows["what"] = rows["model"].map(what).fillna("")
    cell = ["rung", "size", "budget", "k"]
    usual = rows[rows["what"] == ""]
    own = usual.pivot_table(index=[*cell, "seed"], columns="dataset", values="log")
    spread = own.mean(axis=1).groupby(cell).agg(["var", "count"]).query("count > 1").reset_index()
    spread["weight"] = spread["count"] - 1
    sums = spread.assign(sum=spread["var"] * spread["weight"]).groupby("k")[["sum", "weight"]].sum()
    chance = np.sqrt(2 * sums["sum"] / sums["weight"])
    found = []
    key: Any
    for key, texts in rows[rows["what"] != ""].groupby(["model", "what", *cell], sort=False):
        place: dict[str, Any] = dict(zip(["model", "what", *cell], key, strict=True))
        away = texts.set_index("dataset")["log"] - own.loc[(*key[2:], 0)]
        ends = {"difference": away.mean(), "least": away.min(), "most": away.max(), "seeds": chance[place["k"]]}
        found.append(place | ends | {"k": place["k"] or None})
    columns = ["model", "rung", "size", "budget", "what", "k", "difference", "least", "most", "seeds"]
    return (
        pd.DataFrame(found, columns=columns)
        .astype({"k": "Int64"})
        .sort_values(["size", "budget", "what"], kind="stable")
    )


def _otherwise(table: pd.DataFrame) -> "pd.Series[str]":
    """What each of `trials` does otherwise than the grid, in words, by model; without those that do nothing."""
    usual = table.loc[~table["model"].str.contains("-rate")].groupby(["family", "rung"])["rate"].first()
    said: dict[str, str] = {}
    row: Any
    for row in table.itertuples():
        if pd.notna(row.distinct):
            said[row.model] = f"the first {row.distinct / 1e6:g} M, again and again"
        elif "-batch" in row.model:
            said[row.model] = f"batches of {row.batch} rows"
        elif "-rate" in row.model:
            own = usual.get((row.family, row.rung))
            said[row.model] = f"a rate of {row.rate:g}" if own is None else f"{row.rate / own:.3g} × the rate"
    return pd.Series(said, dtype="str")


def hangs_told(found: pd.DataFrame) -> dict[str, Any]:
    """What the page says of `hangs`."""
    moved = (found["best"] - found["grid"]).abs()
    return {"rates.rows": len(found), "rates.sure": int(found["sure"].sum()), "rates.moved": moved.max()}


def hangs_shown(found: pd.DataFrame) -> dict[str, Any]:
    """The rows of `hangs`, for `Page.table`."""
    columns: Columns = {
        "tokens": "D",
        "what": "sizes",
        "grid": ("with the grid’s rates", "{:.4f}"),
        "best": ("with the best of those tried", "{:.4f}"),
        "seeds": ("by seeds alone, ±", "{:.4f}"),
    }
    caption = (
        "<b>How much hangs on rates and seeds.</b> The exponent in S of the cross-entropy between two sizes, and the "
        "bend, by which it falls at a size; on rows of the training text that no run reads. Seeds: a standard "
        "deviation."
    )
    rows = found.assign(tokens=(found["budget"] / 1e6).map("{:g} M".format))
    return shown(rows, columns, caption=caption, data=found)


def in_ranks_told(found: pd.DataFrame, points: pd.DataFrame, k: int = 10) -> dict[str, Any]:
    """What the page says of `in_ranks`, of the trial of half the rate at the largest size and budget that has one.

    At k: by how much y falls, and the exponent in S from the size before it in the grid, by the grid's own run and by
    it. points: `families.points`.
    """
    last = found[(found["k"] == k) & (found["what"] == "0.5 × the rate")].iloc[-1]
    there = of_measure(points, k).query("training_tokens == @last.budget")
    logs = np.log(there.pivot_table(index="size", columns="dataset", values="value")).mean(axis=1)
    (small, large), (before, after) = np.log(logs.index[-2:]), logs.iloc[-2:]
    steps = {
        name: (before - after - by / 100) / (large - small) for name, by in (("grid", 0), ("half", last.difference))
    }
    values = {"falls": -last.difference, "seeds": last.seeds, **{f"step.{name}": x for name, x in steps.items()}}
    return {f"trials.{name}": value for name, value in values.items()}


def in_ranks_shown(found: pd.DataFrame) -> dict[str, Any]:
    """`in_ranks`, a row for each trial, for `Page.table`."""
    rows = found.drop_duplicates("model").set_index("model")[["rung", "budget", "what"]]
    columns: dict[Any, Any] = {"rung": "size", "tokens": "D", "what": "what is otherwise"}
    for k in (None, *found["k"].dropna().unique()):
        own = of_measure(found, k).set_index("model")
        names = f"difference.{k}", f"seeds.{k}"
        rows = rows.join(own[["difference", "seeds"]].set_axis(list(names), axis=1))
        columns[names] = (measure_label(k), "{:+.1f} ± {:.1f}")
    caption = (
        "<b>Trials in ranks.</b> How far y lies from that of the grid’s run of the same size and D, in per cent, as "
        "the mean over the texts. ±: a standard deviation, by seeds alone."
    )
    return shown(rows.assign(tokens=(rows["budget"] / 1e6).map("{:g} M".format)), columns, caption=caption, data=found)


def updates_told(found: pd.DataFrame, table: pd.DataFrame) -> dict[str, Any]:
    """What the page says of `updates` and `trials`: of the gain by further text, which per cent (the mean over sizes)
    comes by reading the first of it again and again.
    """
    again = found.dropna(subset="distinct")
    grid = table.drop_duplicates("model").set_index("model")["loss"]
    first = again.apply(lambda row: grid[f"{TRANSFORMER}-{row.rung}-at-{row.distinct / 1e6:g}m"], axis=1)
    gained = first - again["loss"]
    return {"updates.again": 100 * float((gained / (gained + again["difference"])).mean())}


def updates_shown(found: pd.DataFrame) -> dict[str, Any]:
    """The rows of `updates`, for `Page.table`."""
    columns: Columns = {
        "rung": "size",
        "tokens": "D",
        "what": "what was read",
        "updates": ("updates", "{:,}"),
        "loss": ("cross-entropy", "{:.3f}"),
        ("difference", "seeds"): ("against the grid’s", "{:+.3f} ± {:.3f}"),
    }
    once = "each token once, batches of " + found["batch"].astype(str) + " rows"
    again = "the first " + (found["distinct"].astype(float) / 1e6).map("{:g} M".format) + ", again and again"
    rows = found.assign(
        tokens=(found["budget"] / 1e6).map("{:g} M".format), what=once.where(found["distinct"].isna(), again)
    )
    caption = (
        "<b>Updates or text?</b> The same tokens in more and in fewer updates of the weights, and as many updates over "
        "less text, beside the grid’s runs of batches of 8 rows; in nats, on rows that no run reads. ±: a standard "
        "deviation, by seeds alone."
    )
    return shown(rows, columns, caption=caption, data=found)
