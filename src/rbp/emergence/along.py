"""Hits along documents: are they more alike near each other, and in one document, than chance makes them?"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.errors import DataError
from rbp.metric import runs


def autocorrelation(
    hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike, lags: Sequence[int]
) -> pd.DataFrame:
    """The correlation of a token's hit with that of the token `lag` places on, in the same stretch of a document.

    hit, documents, positions: shape (T,), a row per token, ordered by document and position. Columns lag, pairs,
    correlation (deviations from the share of hits in all tokens: what documents share is in it, so it stays above 0
    at any lag where documents differ) and within (deviations from the document's own share: dependence beyond that.
    A document's share is made of its own tokens, which pulls this down by about one over its length). NaN where
    there are no pairs. Raises DataError where hits do not vary.
    """
    good = np.asarray(hit, dtype=float)
    if good.size == 0 or good.min() == good.max():
        raise DataError("every token is a hit, or none is: nothing varies", "k", "Choose another k.")
    _, document = np.unique(np.asarray(documents), return_inverse=True)
    own = np.bincount(document, good) / np.bincount(document)
    overall, inside = good - good.mean(), good - own[document]
    variance = overall.var()
    place = runs(np.ones(good.size, dtype=bool), documents, positions)
    rows = []
    for lag in lags:
        later = place[lag:] > lag
        pairs = int(later.sum())
        row: tuple[float, ...] = (lag, pairs, np.nan, np.nan)
        if pairs:
            both = [float((x[lag:] * later) @ x[: len(x) - lag]) / pairs for x in (overall, inside)]
            row = (lag, pairs, both[0] / variance, both[1] / max(float((inside**2).mean()), 1e-300))
        rows.append(row)
    table = pd.DataFrame(rows, columns=["lag", "pairs", "correlation", "within"])
    return table.astype({"lag": "int64", "pairs": "int64"})


def run_counts(
    hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike, lengths: Sequence[int]
) -> pd.DataFrame:
    """How many runs of hits are at least so long, beside how many independent tokens of that share would make.

    A run is a longest stretch of hits in a row within a document. Columns length, runs, independent: a stretch of L
    tokens with hit rate π is expected to hold π^m·(1 + (L − m)·(1 − π)) runs of m and more.
    """
    good = np.asarray(hit, dtype=bool)
    share = float(good.mean())
    reached = runs(good, documents, positions)
    place = runs(np.ones_like(good), documents, positions)
    stretches = place[np.append(place[1:] == 1, True)]
    rows = []
    for length in lengths:
        fits = stretches[stretches >= length]
        expected = share**length * float((1 + (fits - length) * (1 - share)).sum())
        rows.append((length, int((reached == length).sum()), expected))
    return pd.DataFrame(rows, columns=["length", "runs", "independent"])
