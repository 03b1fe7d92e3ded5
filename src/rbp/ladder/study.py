"""What the chapter on the ladder asks of a family's rank stores: the law, its intervals, its scatter, and Pythia's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from rbp import steps
from rbp.errors import FitError, ParameterError
from rbp.ladder import hits
from rbp.ladder.hits import Hits, large
from rbp.ladder.resampling import laws, points, resample
from rbp.ladder.scatter import splits
from rbp.measurements import load, select
from rbp.names import dataset_order
from rbp.published import models
from rbp.scaling.cells import fit_table

_NEAR = np.log(1.1)  # a published threshold within ten per cent of a share of the vocabulary stands for it


@dataclass(frozen=True)
class Study:
    """A family's law on each dataset.

    counted: the hits behind it; shown: the thresholds asked for, k → its name ("10", "0.4 V"); points: see
    `resampling.points`, of the first model of each size; laws: see `resampling.laws`; splits: see `scatter.splits`.
    The tables hold the thresholds of `hits.GRID` as well.
    """

    counted: list[Hits]
    shown: dict[int, str]
    points: pd.DataFrame
    laws: pd.DataFrame
    splits: pd.DataFrame

    def at(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of one of the tables at the thresholds asked for, with the column `threshold`, their names."""
        own = table[table["k"].isin(list(self.shown))]
        return own.assign(threshold=own["k"].map(self.shown))


def study(
    measurements: str = "ladder",
    datasets: Sequence[str] = (),
    ks: Sequence[int] = (1, 10, 100),
    shares: Sequence[float] = hits.SHARES,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Study:
    """Read the rank stores, draw their documents anew, and fit.

    measurements: "ladder" or a folder of rank stores of one family; datasets: none named means all; shares: large k,
    as shares of the vocabulary. The ladder's own hits at the usual thresholds come from the step "ladder_hits".
    Raises ParameterError for an unknown dataset and for values that make no sense, FitError for fewer than three
    sizes or two documents; else what `hits.count` raises.
    """
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ParameterError(f"{wrong[0]} is no share of the vocabulary", "shares", "Give shares between 0 and 1.")
    if resamples < 100:
        raise ParameterError(f"{resamples} resamples are too few", "resamples", "Give at least 100.")
    counted, shown = _counted(measurements, ks, shares)
    there = {one.dataset: one for one in counted}
    if unknown := [name for name in datasets if name not in there]:
        raise ParameterError(f"no ranks on {unknown[0]}", "datasets", f"There is: {', '.join(there)}.")
    counted = [there[name] for name in (datasets or dataset_order(there))]
    for one in counted:
        if len(one.rungs) < 3:
            what = f"{len(one.rungs)} sizes are too few for a law"
            raise FitError(what, f"{one.family} on {one.dataset}", "Give the ranks of at least three sizes.")
        if len(one.tokens) < 2:
            raise FitError("one document cannot be drawn anew", one.dataset, "Give a text of several documents.")
    tables: list[list[pd.DataFrame]] = [[], [], []]
    for one in counted:
        draws = resample(one, resamples=resamples, seed=seed)
        first = [one.models[i] for i in one.rungs]
        all_points = points(one, draws, level=level)
        tables[0].append(all_points[all_points["model"].isin(first)])
        tables[1].append(laws(one, draws, level=level))
        tables[2].append(splits(one, draws, level=level))
    return Study(counted, shown, *(pd.concat(parts, ignore_index=True) for parts in tables))


def _counted(measurements: str, ks: Sequence[int], shares: Sequence[float]) -> tuple[list[Hits], dict[int, str]]:
    """The hits at GRID, ks and shares, and the names of the last two."""

    def names(vocabulary: int) -> dict[int, str]:
        found = {large(share, vocabulary): f"{share:g} V" for share in shares}
        return dict(sorted((found | {k: str(k) for k in ks}).items()))

    if measurements == "ladder":
        counted = hits.from_table(steps.table("ladder_hits"))
        shown = names(counted[0].vocabulary)
        if set(shown) <= set(counted[0].thresholds):
            return counted, shown
    stores = hits.find(measurements)
    vocabulary = min(store.vocabulary for store in stores)
    shown = names(vocabulary)
    return hits.count(stores, sorted({k for k in hits.GRID if k <= vocabulary / 2} | set(shown))), shown


def published_laws(datasets: Sequence[str], family: str = "Pythia", *, level: float = 0.95) -> pd.DataFrame:
    """The power laws through a family's published −ln RBP_k on those of `datasets` that have them (`fit_table`).

    Only thresholds at which as many models are published as at any other.
    """
    table = select(load("published").table, metric="neg_log_rbp", family=family)
    fits = fit_table(table[table["dataset"].isin(datasets)], ["dataset", "family", "k"], level=level)
    whole: pd.DataFrame = fits[fits["n"] == fits["n"].max()].reset_index(drop=True)
    return whole


def beside(found: Study, others: pd.DataFrame, shares: Sequence[float], *, level: float = 0.95) -> pd.DataFrame:
    """The laws at the thresholds asked for beside those of `others` (`published_laws`), where both are there.

    The other family's threshold is the same k; or, for a share of the vocabulary, the published one nearest to that
    share of its own smallest vocabulary, if within ten per cent. Columns dataset, k, threshold, other_k, alpha,
    alpha_low, alpha_high, text_low, text_high, r_squared, other_alpha, other_low, other_high, other_r_squared,
    difference (α here − α there), low, high: Welch's interval, from the scatter about the two lines.
    """
    vocabulary = int(
        models().query("family in @families", local_dict={"families": set(others["family"])}).vocab_size.min()
    )
    named = {f"{share:g} V": share for share in shares}
    rows = []
    for row in found.at(found.laws).dropna(subset="alpha").to_dict("records"):
        there = others[others["dataset"] == row["dataset"]].dropna(subset="alpha")
        wanted = named[row["threshold"]] * vocabulary if row["threshold"] in named else row["k"]
        distance = np.abs(np.log(there["k"].astype(float) / wanted))
        near = distance <= (_NEAR if row["threshold"] in named else 0)
        if not near.any():
            continue
        other = there.loc[distance.idxmin()]
        difference = row["alpha"] - other["alpha"]
        parts = np.array([row["alpha_se"], other["alpha_se"]]) ** 2
        df = parts.sum() ** 2 / (parts[0] ** 2 / row["df"] + parts[1] ** 2 / other["df"])
        reach = stats.t.ppf((1 + level) / 2, df) * np.sqrt(parts.sum())
        kept = ("dataset", "k", "threshold", "alpha", "alpha_low", "alpha_high", "text_low", "text_high", "r_squared")
        rows.append(
            {name: row[name] for name in kept}
            | {"other_k": int(other["k"]), "other_alpha": other["alpha"], "other_low": other["alpha_low"]}
            | {"other_high": other["alpha_high"], "other_r_squared": other["r_squared"], "difference": difference}
            | {"low": difference - reach, "high": difference + reach}
        )
    return pd.DataFrame(rows)
