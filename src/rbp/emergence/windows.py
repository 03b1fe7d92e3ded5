"""Windows of n tokens in a row that all have rank ≤ k: counted from ranks, overlapping or not."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.errors import ParameterError
from rbp.metric import runs


def window_counts(
    hit: npt.ArrayLike,
    documents: npt.ArrayLike,
    positions: npt.ArrayLike,
    n: Sequence[int],
    *,
    overlapping: bool = True,
) -> pd.DataFrame:
    """For each length of `n`: how many windows there are, and in how many every token is a hit.

    hit, documents, positions: shape (T,), a row per token, ordered by document and position. Overlapping windows end
    at every token, as the authors count: a stretch of L tokens has max(0, L − n + 1), and a success of length n holds
    successes of every smaller length. Windows that do not overlap lie end to end from the stretch's first token:
    ⌊L/n⌋ of them, and what is left over is in none. A stretch ends with its document, or at a gap in the positions.
    Columns n, successes, windows. Raises ParameterError for a length below 1.
    """
    if min(n, default=1) < 1:
        raise ParameterError(f"a window has at least 1 token, not {min(n)}", "n", "Give lengths of 1 and more.")
    good = np.asarray(hit, dtype=bool)
    reached = runs(good, documents, positions)
    place = runs(np.ones_like(good), documents, positions)  # 1, 2, 3 … within the stretch
    rows = []
    for length in n:
        ends = place >= length if overlapping else place % length == 0
        rows.append((length, int((ends & (reached >= length)).sum()), int(ends.sum())))
    return pd.DataFrame(rows, columns=["n", "successes", "windows"])
