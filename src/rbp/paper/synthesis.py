"""What the last chapter's figure shows: a law in size, its forecasts, cross-entropy beside it, tokens in a row."""

import numpy as np
import pandas as pd

from rbp.evidence import select
from rbp.paper.cross_entropy.equal import forecasts, pairs_by_k
from rbp.stats.power_law import fit_power_law

CELL = ["family", "k"]
SMALL_K = (1, 10, 100)


def lines(table: pd.DataFrame, cells: dict[str, tuple[int, ...]], dataset: str = "wikipedia") -> pd.DataFrame:
    """−ln RBP_k of the models of some families on one text, as a share of what it is for the family's smallest model.

    table: measurements; cells: the thresholds k of each family. Columns family, k, size, model, share, line (the power
    law at that size), alpha, r_squared; sorted by family, k and size. Raises FitError where a family has fewer than
    three sizes.
    """
    rows = []
    for family, ks in cells.items():
        for k in ks:
            own = select(table, dataset=dataset, family=family, metric="neg_log_rbp", k=k).sort_values("size")
            fit, first = fit_power_law(own["size"], own["value"]), own["value"].iloc[0]
            line = fit.predict(own["size"])["value"].to_numpy() / first
            rows.append(own.assign(share=own["value"] / first, line=line, alpha=fit.alpha, r_squared=fit.r_squared))
    return pd.concat(rows)[[*CELL, "size", "model", "share", "line", "alpha", "r_squared"]].reset_index(drop=True)


def ahead(table: pd.DataFrame, *, holdout: int = 2, holdout_few: int = 1) -> pd.DataFrame:
    """The largest models of each family and text, hidden and forecast by the law in S: RBP_k, and CE beside it.

    Columns dataset, family, hidden (how many of the family's models were), model, k (missing for CE), error: forecast
    over measured, less one, in per cent; below 0, the forecast was too hopeful. Only of models with both metrics, at
    SMALL_K.
    """
    pairs = pairs_by_k(table)
    told = forecasts(pairs[pairs["k"].isin(SMALL_K)], holdout=holdout, holdout_few=holdout_few)
    told = told.assign(hidden=told.groupby(["dataset", "family"])["model"].transform("nunique"))
    keys = ["dataset", "family", "hidden", "model"]
    control = told.drop_duplicates(keys).assign(k=None, error=lambda rows: rows["control"])
    both = pd.concat([control.astype({"k": "Int64"}), told.assign(error=told["direct"]).astype({"k": "Int64"})])
    return both[[*keys, "k", "error"]].reset_index(drop=True)


def in_a_row(windows: pd.DataFrame, model: str, ks: tuple[int, ...] = SMALL_K) -> pd.DataFrame:
    """−ln p of a model for N tokens in a row, measured and for independent tokens.

    windows: of a source, on one text. Columns k, n, measured, independent (N·(−ln RBP_k)); lengths without a success
    are left out, since they have no −ln p.
    """
    own = windows[(windows["model"] == model) & windows["k"].isin(ks) & (windows["p"] > 0)]
    measured = own.assign(measured=-np.log(own["p"].astype(float)))
    single = measured[measured["n"] == 1].set_index("k")["measured"]
    table = measured.assign(independent=measured["n"] * measured["k"].map(single))
    return table[["k", "n", "measured", "independent"]].sort_values(["k", "n"]).reset_index(drop=True)


def times_as_often(row: pd.DataFrame, k: int, n: int) -> float:
    """How many times as often as independent tokens n in a row succeed. row: of `in_a_row`, with this k and n."""
    own = row[(row["k"] == k) & (row["n"] == n)].iloc[0]
    return float(np.exp(own["independent"] - own["measured"]))


def drawn(**panels: pd.DataFrame) -> pd.DataFrame:
    """The tables of several panels below each other, with a column that names the panel."""
    return pd.concat([table.assign(panel=name) for name, table in panels.items()], ignore_index=True)
