"""How sure a measured −ln RBP_k is: by tokens taken as independent, and by whole documents."""

import pandas as pd

from rbp.extraction.tables import Ranked
from rbp.metric import neg_log_rbp_document_interval, neg_log_rbp_interval


def with_intervals(table: pd.DataFrame, ranked: Ranked, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """`table` of `ranked` with columns low, high, document_low, document_high for its −ln RBP_k.

    low, high: the binomial interval; document_low, document_high: whole documents resampled (seeded).
    """
    rows: list[tuple[float | None, ...]] = []
    for k, hits in table[["k", "hits"]].itertuples(index=False):
        if pd.isna(k):
            rows.append((None,) * 4)
            continue
        low, high = neg_log_rbp_interval(int(hits), len(ranked.ranks), level)
        within = neg_log_rbp_document_interval(ranked.ranks, ranked.tokens["document"], int(k), level, seed=seed)
        rows.append((float(low), float(high), *within))
    return table.join(pd.DataFrame(rows, columns=["low", "high", "document_low", "document_high"], dtype="float64"))
