"""Chapter "Emergence" on every text that we have ranks of: windows counted by document, with intervals by documents."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.extract.store import RankStore
from rbp.figures.curves import curves
from rbp.laws.resampling import document_sums, interval, without_each
from rbp.measurements.ranked import Ranked
from rbp.measurements.windows import runs
from rbp.metric import TieRule
from rbp.report.display import Columns, shown

KS = (1, 10, 100, 1000)
LENGTHS = (2, 5, 10, 20, 50, 100)


def ratios_by_document(
    stores: Iterable[RankStore],
    ks: Sequence[int] = KS,
    lengths: Sequence[int] = LENGTHS,
    *,
    rule: TieRule = "paper",
    level: float = 0.95,
) -> pd.DataFrame:
    """Return −ln p(N) over N·(−ln RBP_k) of every store: 1 where tokens are independent and alike.

    Columns dataset, family, model, size, k, n, successes, ratio, low, high: the interval of ln ratio by leaving out one
    document at a time. Cells without one are left out: those with no success, or with all of them in one document.
    """
    rows = []
    for store in stores:
        ranked = Ranked(store, rule)
        documents, positions = (ranked.tokens[name].to_numpy() for name in ("document", "position"))
        place = runs(np.ones(len(documents), dtype=bool), documents, positions)
        for k in (k for k in ks if k < store.vocabulary):
            reached = runs(np.asarray(ranked.ranks) <= k, documents, positions)
            for n in lengths:
                columns = np.column_stack([reached >= 1, place >= 1, reached >= n, place >= n])
                sums = document_sums(columns, documents)
                hits, tokens, successes, windows = without_each(sums).T
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs = np.log(np.log(successes / windows) / (n * np.log(hits / tokens)))
                    ends = np.exp(interval(logs, level=level))
                if np.isfinite(ends).all():
                    about = (store.dataset, store.family, store.model, store.size, k, n)
                    rows.append((*about, int(successes[0]), *map(float, ends)))
    names = ["dataset", "family", "model", "size", "k", "n", "successes", "ratio", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def by_text(table: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """Count `ratios_by_document` by text and k, over models and lengths.

    Columns dataset, k, cells, below and above (how many have an interval below 1, or above it); ratio, low, high: of
    the largest model at `n` (missing where it has none).
    """
    marked = table.assign(below=table["high"] < 1, above=table["low"] > 1)
    counts = marked.groupby(["dataset", "k"]).agg(cells=("n", "size"), below=("below", "sum"), above=("above", "sum"))
    largest = table[(table["size"] == table["size"].max()) & (table["n"] == n)]
    return counts.join(largest.set_index(["dataset", "k"])[["ratio", "low", "high"]]).reset_index()


def local_powers(windows: pd.DataFrame) -> pd.DataFrame:
    """Return the power of N in −ln p between neighbouring lengths: d ln(−ln p)/d ln N, the mean over a family's models.

    windows: counts of one family, with k, n, model, successes, windows. Only models with a success at both lengths.
    Columns k, n, n_next, models, power: one number at all N if −ln p is a power of N.
    """
    own = windows[(windows["successes"] > 0) & (windows["successes"] < windows["windows"])]
    own = own.assign(y=np.log(-np.log(own["successes"].astype(float) / own["windows"])))
    own = own.sort_values(["model", "k", "n"])
    after = own.groupby(["model", "k"])[["n", "y"]].shift(-1)
    own = own.assign(n_next=after["n"], power=(after["y"] - own["y"]) / np.log(after["n"] / own["n"]))
    found = own.dropna(subset="power").groupby(["k", "n", "n_next"])
    return found.agg(models=("power", "size"), power=("power", "mean")).reset_index().astype({"n_next": "int64"})


#: the text and the k of which the page gives the ratio of the largest model
SHOWN = (("auslegal", 1), ("hotpotqa", 10), ("humaneval", 10), ("wikipedia", 10))


def summary(
    table: pd.DataFrame, power: pd.DataFrame, local: pd.DataFrame, published: pd.DataFrame, curves: pd.DataFrame
) -> dict[str, Any]:
    """Summarize what the texts add, by the keys under which it is recorded.

    table: `ratios_by_document`; power: `emergence.powers_of_length` and curves: `emergence.transitions` of the same
    ranks; local: `local_powers` of the published windows, and published: their `emergence.ratios`.

    inside: the share of cells whose interval holds 1, of the published windows and of each text.
    """
    counted, first = by_text(table), local[local["k"] == 1]
    first = first[first["models"] >= first["models"].max() / 2]  # few models have successes at the longest
    found: dict[str, Any] = {f"texts.{name}": int(counted[name].sum()) for name in ("cells", "below", "above")}
    found["texts"] = counted["dataset"].nunique()
    for row in counted.to_dict("records"):
        if (row["dataset"], row["k"]) in SHOWN:
            key = f"{row['dataset']}.k{row['k']}"
            found |= {f"texts.{name}.{key}": row[name] for name in ("ratio", "low", "high")}
    found |= {"texts.power.fits": len(power), "texts.power.below": int((power["length_high"] < 1).sum())}
    found["texts.power.above"] = int((power["length_low"] > 1).sum())
    if len(first):
        ends = {"first": first.iloc[0], "last": first.iloc[-1]}
        found |= {f"local.{name}": row["power"] for name, row in ends.items()}
        found |= {"local.last_from": int(ends["last"]["n"]), "local.last_to": int(ends["last"]["n_next"])}
        found["local.last_models"] = int(ends["last"]["models"])
    inside = ((table["low"] <= 1) & (table["high"] >= 1)).groupby(table["dataset"])
    outside = (published["ratio_high"] < 1) | (published["ratio_low"] > 1)
    found |= {"inside.published": float(1 - outside.mean())}
    found |= {f"inside.{dataset}": share for dataset, share in inside.mean().items()}
    found |= {"texts.inside": int(inside.sum().sum())}
    return found | {f"texts.{name}": int(curves[name].sum()) for name in ("steps", "rises")}


def texts_figure(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Plot the ratio of the largest model against N, a panel for each text, a colour for each k."""
    own = table[table["size"] == table["size"].max()]
    panels = curves(
        own, "n", "ratio", labels=("length N of the window (tokens)", "−ln p over its value for independent tokens"),
        line="k", at=[1], size=(4.6, 4.0),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": "<b>Near 1 or below, by text and k.</b> The largest of our small models (10k–2.7M) on four texts "
        f"that it was not trained on, with {level:.0%} intervals by documents. Dashed: independent tokens.",
        "alt": "On Wikipedia and HotpotQA the ratio is near 1 or above for short windows; on HumanEval and judgments "
        "it falls well below",
        "data": table,
    }


def texts_table(table: pd.DataFrame, n: int = 5) -> dict[str, Any]:
    """Show the rows of `by_text`, for `Page.table`."""
    columns: Columns = {
        "dataset": "Text",
        "k": "k",
        ("ratio", "low", "high"): (f"ratio at N = {n}, largest model", "{:.3f} [{:.3f}, {:.3f}]"),
        "cells": "cells",
        "below": "below 1",
        "above": "above 1",
    }
    caption = (
        "<b>Our small models (10k–2.7M) on four texts.</b> Cells: models and lengths with an interval; below 1: "
        "windows succeed significantly more often than independent tokens would; above 1: less often."
    )
    return shown(by_text(table, n), columns, caption=caption)
