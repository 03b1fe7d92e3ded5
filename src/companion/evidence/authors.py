"""The authors' published numbers as a source: their points, the windows of figure 7, the histograms of figure 8c."""

import csv
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.evidence import published
from companion.evidence.published import all_readings, compare_readings
from rbp.errors import DataError
from rbp.io import label
from rbp.measurements.histograms import MeasuredRanks
from rbp.measurements.parts import Part
from rbp.measurements.rank_counts import RankCounts
from rbp.measurements.sources import Named

_NEAR = 0.3  # how far a bin's mass times the number of tokens may be from a whole number, or the number is wrong


def known_models() -> dict[str, dict[str, str]]:
    """Return the rows of the paper's models by hub id (data/published/models.csv)."""
    with (published.FOLDER / "models.csv").open(encoding="utf-8", newline="") as lines:  # not noted: it is no number
        return {row["model"]: row for row in csv.DictReader(lines)}


class _Published(Part):
    """The published files."""

    def table(self) -> pd.DataFrame:
        """Return the points of all figures. Raises DataError where they disagree."""
        every = all_readings()
        pairs = compare_readings(every)
        if not pairs["ok"].all():
            bad = pairs[~pairs["ok"]].iloc[0]
            fault = (
                f"{bad['first']} and {bad['second']} disagree on −ln RBP_{bad['k']} of {bad['model']} on "
                f"{bad['dataset']}: {bad['first_value']:.8g} and {bad['second_value']:.8g}"
            )
            raise DataError(fault, label(published.FOLDER), "Restore the files: git checkout -- data/published.")
        ranks = every.drop_duplicates(["dataset", "model", "k"]).drop(columns="error")
        pythia = published.cross_entropy_vs_rbp1()
        pythia = pythia[(pythia["kind"] == "empirical") & (pythia["metric"] == "cross_entropy")]
        gpt2 = published.gpt2_cross_entropy().rename(columns={"cross_entropy": "value"})
        entropy = pd.concat([pythia.assign(source="figure 8a"), gpt2.assign(source="repository")])
        table = pd.concat([ranks.assign(metric="neg_log_rbp"), entropy.assign(metric="cross_entropy")])
        models = published.models().set_index("model")
        return table.assign(
            family=table["model"].map(models["family"]), size=table["model"].map(models["non_embedding_params"])
        )

    def windows(self) -> pd.DataFrame:
        """Return the window counts: published, or recovered."""
        from companion.evidence.tokens import published_windows

        return published_windows()

    def histograms(self) -> list[MeasuredRanks]:
        """Return the histograms of figure 8c."""
        return list(of_figure_8c(self.table()))

    def tokens(self, points: pd.DataFrame) -> "pd.Series[float]":
        """Return the numbers of tokens that were counted or identified: `known_tokens`."""
        from companion.evidence.tokens import known_tokens

        return known_tokens(points)


SOURCES = {
    "published": Named("the authors' published numbers", lambda word, rule: _Published(word, (published.FOLDER,)))
}


def of_figure_8c(table: pd.DataFrame) -> Iterator[MeasuredRanks]:
    """Read figure 8c and add rank 1: N·RBP_1 tokens, N being the number of tokens behind the published shares.

    table: the published measurement table. Raises DataError where the masses are no whole counts.
    """
    from companion.evidence.tokens import recovered_tokens, tokens_of_bins

    totals = recovered_tokens([("wikipedia", "Pythia")]).set_index("dataset")["tokens"]
    models = published.models().set_index("model")
    bins = published.rank_bins()
    for row in tokens_of_bins().to_dict("records"):
        dataset, model = row["dataset"], row["model"]
        readings = table[(table["dataset"] == dataset) & (table["model"] == model)]
        first = readings.loc[(readings["k"] == 1).fillna(False), "value"]
        entropy = readings.loc[readings["metric"] == "cross_entropy", "value"]
        histogram = bins[(bins["dataset"] == dataset) & (bins["model"] == model)]
        count = histogram["mass"].to_numpy() * row["ranked_lower"]
        if (np.abs(count - np.rint(count)) > _NEAR).any():
            raise DataError("the bins' masses are not whole counts", f"{model} on {dataset}", None)
        # the reading of −ln RBP_1 is exact to about one token
        at_1 = np.rint(int(totals[dataset]) * np.exp(-float(first.iloc[0])))
        details = models.loc[model]
        yield MeasuredRanks(
            dataset=dataset,
            model=model,
            family=str(details["family"]),
            size=int(details["non_embedding_params"]),
            counts=RankCounts(
                low=np.append(1, histogram["low"].to_numpy()).astype(np.int64),
                high=np.append(1, histogram["high"].to_numpy()).astype(np.int64),
                count=np.append(at_1, np.rint(count)).astype(np.float64),
                vocabulary=int(details["vocab_size"]),
            ),
            cross_entropy=float(entropy.iloc[0]) if len(entropy) else None,
        )
