"""The published readings of −ln RBP_k and of the rank histogram: how exact each is, which one is believed.

The same quantity stands in several places. Exact counts come before figures 3, 4, 5 and 9 (rbp.csv), these
before figure 7 (sequence_success.csv), and that before figure 8a (cross_entropy_vs_rbp1.csv); `agreement`
holds the sources against each other.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from rbp import published
from rbp.errors import DataError
from rbp.tables import label

# How closely the published numbers were read (data/published/README.md), relative or absolute.
_READING = 8e-6  # of −ln RBP_k on the logarithmic axes of figures 3, 4, 8a and 9: between two readings
_LINEAR = 1e-6  # of the shares on the linear axes of figure 7


def all_readings(folder: Path | None) -> pd.DataFrame:
    """Every published −ln RBP_k, the most exact source of each first, with how far its reading may be off."""
    counts = published.gpt2_window_counts(folder).query("n == 1")
    exact = counts.rename(columns={"successes": "hits", "windows": "tokens"}).drop(columns="n")
    exact["value"] = -np.log(exact["hits"] / exact["tokens"])
    exact["error"] = 1e-15 * exact["value"]

    figures = published.rbp(folder).rename(columns={"neg_log_rbp": "value"})
    # Figure 5 plots shares that had been rounded to six decimals.
    rounded = 5e-7 * np.exp(figures["value"]) * (figures["source"] == "figure 5")
    figures["error"] = _READING * figures["value"] + rounded

    single = published.sequence_success(folder).query("n == 1 and p_success > 0").drop(columns="n")
    single["value"] = -np.log(single["p_success"])
    single["error"] = _LINEAR / single["p_success"]

    measured = published.cross_entropy_vs_rbp1(folder)
    measured = measured[(measured["kind"] == "empirical") & (measured["metric"] == "neg_log_rbp1")]
    measured = measured.assign(k=1, error=_READING * measured["value"])

    sources = [
        exact.assign(source="repository"),
        figures,
        single.assign(source="figure 7"),
        measured.assign(source="figure 8a"),
    ]
    table = pd.concat(sources, ignore_index=True)
    return table[["dataset", "model", "k", "value", "tokens", "hits", "source", "error"]]


def agreement(folder: Path | None = None) -> pd.DataFrame:
    """Every −ln RBP_k that two published sources give, held against their reading precision.

    Columns dataset, model, k, first, second (the sources; the first is the one believed), first_value,
    second_value, difference, tolerance (the sum of what either reading may be off), ok.
    """
    return compare(all_readings(folder))


def compare(readings: pd.DataFrame) -> pd.DataFrame:
    """`agreement` of a table of `all_readings`."""
    key = ["dataset", "model", "k"]
    believed = readings.drop_duplicates(key)
    others = readings[readings.duplicated(key)].sort_values(key, kind="stable")
    both = others.merge(believed, on=key, suffixes=("_second", "_first"))
    table = both[key].assign(
        first=both["source_first"],
        second=both["source_second"],
        first_value=both["value_first"],
        second_value=both["value_second"],
        difference=both["value_second"] - both["value_first"],
        tolerance=both["error_first"] + both["error_second"],
    )
    table["ok"] = table["difference"].abs() <= table["tolerance"]
    return table


def rank_bins(folder: Path | None = None) -> pd.DataFrame:
    """The rank histogram of figure 8c: dataset, model, low, high (ranks, both included), mass.

    The bins are half-open, [edge, next edge), with whole edges from 2 on: a bin's centre is half the sum of
    its edges, so each edge follows from the one before. Mass is density × width: a share of the tokens with
    rank 2 or more. Raises DataError if an edge is not whole within the reading precision.
    """
    frequency = published.rank_frequency(folder)
    bins = []
    for (dataset, model), rows in frequency.groupby(["dataset", "model"], sort=True):
        edge = 2
        for line, center, density in rows[["rank_bin_center", "frequency"]].itertuples(name=None):
            exact = 2 * center - edge
            following = round(exact)
            if following <= edge or abs(exact - following) > 1e-6 + 2e-5 * center:
                where = f"{label((folder or published.FOLDER) / 'rank_frequency.csv')}, line {line}"
                remedy = "Restore the file: git checkout -- data/published."
                raise DataError("the bins do not follow one another at whole ranks", where, remedy)
            mass = density * (following - edge)
            bins.append((dataset, model, edge, following - 1, mass))
            edge = following
    return pd.DataFrame(bins, columns=["dataset", "model", "low", "high", "mass"])
