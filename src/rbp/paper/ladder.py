"""What several chapters ask of the ladder's counts: exponents, what was trained again, the first ladder."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.arrays import Integers, Reals
from rbp.evidence import Source
from rbp.evidence.counts import THRESHOLDS, Counts
from rbp.evidence.ranked import large
from rbp.evidence.shipped import ABLATION, FIRST, counted
from rbp.paper.families import TRANSFORMER, shipped_counts
from rbp.stats.resampling import interval


def counts_at(source: Source, ks: Sequence[int], shares: Sequence[float]) -> tuple[list[Counts], dict[int, str]]:
    """The counts at THRESHOLDS, ks and shares, and the names of the last two."""

    def names(vocabulary: int) -> dict[int, str]:
        found = {large(share, vocabulary): f"{share:g} V" for share in shares}
        return dict(sorted((found | {k: str(k) for k in ks}).items()))

    if source.is_exactly("ladder"):
        counts = [text.of(TRANSFORMER) for text in sorted(shipped_counts(), key=lambda text: text.dataset)]
        shown = names(counts[0].vocabulary)
        if set(shown) <= set(counts[0].thresholds):
            return counts, shown
    vocabulary = min(store.vocabulary for store in source.stores)
    shown = names(vocabulary)
    return source.counts(sorted({k for k in THRESHOLDS if k <= vocabulary / 2} | set(shown))), shown


def exponents(sizes: npt.ArrayLike, y: Reals) -> Reals:
    """α of the least-squares line through each row of `y` [rows, rungs] against ln S; NaN where a y is infinite."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    known = np.where(np.isfinite(y), y, np.nan)
    slope: Reals = -(known @ x) / (x @ x)
    return slope


def trained_again(one: Counts) -> tuple[Integers, Integers]:
    """The places of the models that share their size with one before them, and the places of the first of each size."""
    firsts = one.firsts[np.unique(one.sizes, return_inverse=True)[1]]
    again = np.flatnonzero(firsts != np.arange(len(firsts)))
    return again, firsts[again]


def pairs_again(one: Counts) -> pd.DataFrame:
    """The models trained again, each with the first of its size: columns model, first, size."""
    again, firsts = trained_again(one)
    names = np.array(one.names)
    return pd.DataFrame({"model": names[again], "first": names[firsts], "size": one.sizes[again]})


def reruns(texts: Sequence[Counts], k: int, *, level: float = 0.95) -> pd.DataFrame:
    """How far a rung that was trained again lies from its first training, a row for each text and model.

    Columns dataset, model, first (its name), size, difference (of ln(−ln RBP_k), times 100: nearly per cent of
    −ln RBP_k), low, high (by documents, the same for both).
    """
    parts = []
    for text in texts:
        again, firsts = trained_again(text)
        y = text.keep(ks=[k]).left_out().at(k)
        difference, low, high = interval(100 * (y[:, again] - y[:, firsts]), level=level)
        parts.append(pairs_again(text).assign(dataset=text.dataset, difference=difference, low=low, high=high))
    columns = ["dataset", "model", "first", "size", "difference", "low", "high"]
    return pd.concat(parts, ignore_index=True)[columns]


def first_ladder(k: int, datasets: Sequence[str] = ()) -> list[Counts]:
    """The counts at k of the ladder before this one, other seeds included, and of its ablations; of some texts, or all.

    `text.of(FIRST)` is the ladder alone.
    """
    return counted([k], families=[FIRST, ABLATION], datasets=datasets)


def with_ablations(first: Sequence[Counts]) -> list[Counts]:
    """The first ladder's rungs that were trained again with one thing changed, and after each those trainings.

    first: see `first_ladder`; its other seeds are left out.
    """
    found = []
    for text in first:
        about = text.models
        changed = about["family"] == ABLATION
        rungs = (about["family"] == FIRST) & (about["seed"] == 0) & about["size"].isin(about["size"][changed])
        chosen = about.assign(changed=changed)[rungs | changed].sort_values(["size", "changed"], kind="stable")
        found.append(text.keep(chosen.index))
    return found
