"""The ladder's families, as hits and losses of every model by document (`Counts`), for the chapters.

All models rank the same documents, and a document is left out of all of them together, so that models are compared
on the same tokens.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from companion.execute.steps import step
from ladder.recipe import LADDERS, read_ladders
from ladder.shipped import ABLATION, FIRST, counted, models
from rbp import provenance
from rbp.arrays import Integers, Reals
from rbp.figures.wording import dataset_order
from rbp.laws.resampling import interval
from rbp.measurements import Source
from rbp.measurements.counts import THRESHOLDS, Counts, from_table, to_table
from rbp.measurements.ranked import SHARES, large

TRANSFORMER, LSTM = "neox", "lstm"
OURS = "our small models (10k–2.7M)"
"""What the ladder's models are called in tables, legends and captions."""


def measure_label(k: int | None) -> str:
    """Label −ln RBP_k, or for None the cross-entropy."""
    return "CE" if pd.isna(k) else f"k = {k}"


def rung_of(model: str, family: str) -> str:
    """Return the rung of one of the ladder's models: "150k" of neox-150k-at-8m."""
    return model.removeprefix(f"{family}-").partition("-at-")[0]


def what_differs(models: Iterable[str]) -> list[str]:
    """Name what the recipe changes in each model trained again, against its first training: "weights" or "order"."""
    ladders, _ = read_ladders()
    provenance.note(LADDERS, LADDERS.parent / ladders.text)
    seeds = [int(model.rpartition("-seed")[2]) for model in models]
    return ["weights" if ladders.repeats[seed].weights else "order" for seed in seeds]


def tabulate_points(texts: Sequence[Counts], ks: Sequence[int], family: str = TRANSFORMER) -> pd.DataFrame:
    """Return a family's models of seed 0 as a measurement table, of each text the cross-entropy, then each k.

    With training_tokens, the budget.
    """
    parts = []
    for text in texts:
        table = text.keep((text.models["family"] == family) & (text.models["seed"] == 0), ks).table()
        parts.append(table.sort_values("k", na_position="first", kind="stable"))
    return pd.concat(parts, ignore_index=True).rename(columns={"budget": "training_tokens"})


def of_measure(table: pd.DataFrame, k: int | None) -> pd.DataFrame:
    """Select the rows at k, or for None the rows of the cross-entropy."""
    return table[table["k"].isna() if k is None else table["k"].eq(k).fillna(False)]


@step("ladder_counts", reads=["data/ladder/families.json", "data/ladder/families-sums"], seconds=20)
def _counts() -> pd.DataFrame:
    """Count the hits of all shipped models on each text, at the usual thresholds and SHARES, as by `to_table`."""
    vocabulary = int(models()["vocabulary"].max())
    return to_table(counted([*THRESHOLDS, *(large(share, vocabulary) for share in SHARES)]))


def shipped_counts() -> list[Counts]:
    """Return the counts of all shipped models on each text, in the texts' order, at THRESHOLDS and SHARES."""
    by_text = {counts.dataset: counts for counts in from_table(_counts())}
    return [by_text[name] for name in dataset_order(by_text)]


def counts_at(source: Source, ks: Sequence[int], shares: Sequence[float]) -> tuple[list[Counts], dict[int, str]]:
    """Return the counts at THRESHOLDS, ks and shares, and the names of the last two."""

    def names(vocabulary: int) -> dict[int, str]:
        by_k = {large(share, vocabulary): f"{share:g} V" for share in shares}
        return dict(sorted((by_k | {k: str(k) for k in ks}).items()))

    if source.is_only("ladder"):
        counts = [text.of(TRANSFORMER) for text in sorted(shipped_counts(), key=lambda text: text.dataset)]
        shown = names(counts[0].vocabulary)
        if set(shown) <= set(counts[0].thresholds):
            return counts, shown
    vocabulary = min(store.vocabulary for store in source.stores)
    shown = names(vocabulary)
    return source.counts(sorted({k for k in THRESHOLDS if k <= vocabulary / 2} | set(shown))), shown


def exponents(sizes: npt.ArrayLike, y: Reals) -> Reals:
    """Fit α of the least-squares line of each row of `y` [rows, rungs] on ln S; NaN where a y is infinite."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    finite = np.where(np.isfinite(y), y, np.nan)
    slope: Reals = -(finite @ x) / (x @ x)
    return slope


def trained_again(counts: Counts) -> tuple[Integers, Integers]:
    """Return the places of the models that share their size with an earlier one, and of the first of each size."""
    firsts = counts.firsts[np.unique(counts.sizes, return_inverse=True)[1]]
    again = np.flatnonzero(firsts != np.arange(len(firsts)))
    return again, firsts[again]


def pairs_again(counts: Counts) -> pd.DataFrame:
    """Pair each model trained again with the first of its size: columns model, first, size."""
    again, firsts = trained_again(counts)
    names = np.array(counts.names)
    return pd.DataFrame({"model": names[again], "first": names[firsts], "size": counts.sizes[again]})


def compare_trainings(texts: Sequence[Counts], k: int, *, level: float = 0.95) -> pd.DataFrame:
    """Compare each rung that was trained again with its first training, a row for each text and model.

    Columns dataset, model, first (its name), size, difference (of ln(−ln RBP_k), times 100: nearly per cent of
    −ln RBP_k), low, high (by documents, the same for both).
    """
    parts = []
    for text in texts:
        again, firsts = trained_again(text)
        left = text.keep(ks=[k]).left_out()
        y = left.at(k)
        difference, low, high = interval(100 * (y[:, again] - y[:, firsts]), left.df, level=level)
        parts.append(pairs_again(text).assign(dataset=text.dataset, difference=difference, low=low, high=high))
    columns = ["dataset", "model", "first", "size", "difference", "low", "high"]
    return pd.concat(parts, ignore_index=True)[columns]


def first_ladder(k: int, datasets: Sequence[str] = ()) -> list[Counts]:
    """Count at k the ladder before this one, with other seeds and ablations, on some texts or all.

    `text.of(FIRST)` is the ladder alone.
    """
    return counted([k], families=[FIRST, ABLATION], datasets=datasets)


def with_ablations(first: Sequence[Counts]) -> list[Counts]:
    """Select the first ladder's rungs that were trained again with one thing changed, each followed by these trainings.

    first: see `first_ladder`; its other seeds are left out.
    """
    selected = []
    for text in first:
        models = text.models
        changed = models["family"] == ABLATION
        rungs = (models["family"] == FIRST) & (models["seed"] == 0) & models["size"].isin(models["size"][changed])
        chosen = models.assign(changed=changed)[rungs | changed].sort_values(["size", "changed"], kind="stable")
        selected.append(text.keep(chosen.index))
    return selected
