"""Windows of n tokens in a row that all have rank ≤ k: counted from ranks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Integers
from rbp.errors import ParameterError


def runs(hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike) -> Integers:
    """Count at each token how many successive tokens of its document up to it are hits; 0 where it is none.

    All of shape (T,), a row per token, ordered by document and position. A window of n tokens that ends here
    succeeds where this is at least n.
    """
    good, document, position = np.asarray(hit, dtype=bool), np.asarray(documents), np.asarray(positions)
    index = np.arange(len(good))
    goes_on = np.zeros(len(good), dtype=bool)
    goes_on[1:] = (document[1:] == document[:-1]) & (position[1:] == position[:-1] + 1) & good[:-1]
    # where the run began: at the last token that did not go on; a miss begins its run just after itself
    begins = np.where(good, np.where(goes_on, 0, index), index + 1)
    return index + 1 - np.maximum.accumulate(begins)


def window_counts(
    hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike, n: Sequence[int]
) -> pd.DataFrame:
    """Count, for each length of `n`, the windows, and the windows in which every token is a hit.

    hit, documents, positions: shape (T,), a row per token, ordered by document and position. Windows overlap, as the
    authors count them: a stretch of L tokens has max(0, L − n + 1). It ends with its document, or at a gap in the
    positions. Columns n, successes, windows. Raises ParameterError for a length below 1.
    """
    if min(n, default=1) < 1:
        raise ParameterError(f"a window has at least 1 token, not {min(n)}", "n", "Give lengths of 1 and more.")
    good = np.asarray(hit, dtype=bool)
    reached = runs(good, documents, positions)
    place = runs(np.ones_like(good), documents, positions)  # 1, 2, 3 … within the stretch
    rows = [(length, int((reached >= length).sum()), int((place >= length).sum())) for length in n]
    return pd.DataFrame(rows, columns=["n", "successes", "windows"])
