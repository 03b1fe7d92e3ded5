"""Fit laws against the threshold k, each on a stated set of models: a changing set would bend the curve itself."""

from itertools import pairwise

import pandas as pd

from companion.stats.compare import paired_exponents
from rbp.errors import FitError
from rbp.laws.table import fit_table

#: "common" models were measured at every threshold up to here
UP_TO = 100

CELL = ["dataset", "family"]
CHAIN = ["models", *CELL]


def set_points(table: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of `table` (dataset, family, model, k, size, value) into sets, in a new column `models`.

    "all": the thresholds at which every model of the dataset and family was measured. "common": the models that were
    measured at every k ≤ 100 of the table, at those thresholds, where these are not all models. A row of both sets
    appears twice; a row of neither is left out.
    """
    parts = []
    for _, cell in table.groupby(CELL):
        every = set(cell["model"])
        complete = [k for k, rows in cell.groupby("k") if set(rows["model"]) == every]
        parts.append(cell[cell["k"].isin(complete)].assign(models="all"))
        low = cell[cell["k"] <= UP_TO]
        common = every.intersection(*(set(rows["model"]) for _, rows in low.groupby("k")))
        if common != every:
            parts.append(low[low["model"].isin(common)].assign(models="common"))
    return pd.concat(parts, ignore_index=True) if parts else table.assign(models="all")


def fit_thresholds(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit a power law at each threshold and to each set of models: `fit_table` by models, dataset, family and k.

    `table` is a measurement table of −ln RBP_k.
    """
    return fit_table(set_points(table), [*CHAIN, "k"], level=level)


def compare_steps(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compute the change of α from each threshold to the next, for each set of models, dataset and family.

    Columns models, dataset, family, k, next_k, difference (α at next_k less α at k), low, high: the interval is
    paired, as both thresholds are measured on the same models (`paired_exponents`). Thresholds without a fit are
    left out, and so is a step at which all values change by one factor: it leaves no scatter to make an interval of.
    """
    rows = []
    sets = set_points(table)
    points = sets.set_index([*CHAIN, "k"]).sort_index()
    fits = fit_table(sets, [*CHAIN, "k"], level=level, required=False).dropna(subset=["alpha"])
    for key, chain in fits.groupby(CHAIN):
        for k, following in pairwise(sorted(chain["k"])):
            before, after = (points.loc[(*key, threshold)].sort_values("model") for threshold in (k, following))
            try:
                paired = paired_exponents(after["size"], after["value"], before["value"], level=level)
            except FitError:
                continue
            rows.append((*key, k, following, paired.difference, paired.low, paired.high))
    columns = [*CHAIN, "k", "next_k", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns).astype({"k": "int64", "next_k": "int64"})


def find_chains(changes: pd.DataFrame) -> pd.DataFrame:
    """Count `compare_steps` by models, dataset and family.

    Columns steps, falling (of these, α does not rise).
    """
    marked = changes.assign(falling=changes["difference"] <= 0)
    return marked.groupby(CHAIN, as_index=False).agg(steps=("k", "size"), falling=("falling", "sum"))
