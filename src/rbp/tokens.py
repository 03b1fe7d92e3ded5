"""How many tokens stand behind the published points, with the evidence for each number.

The recovery itself is `rbp.counts`; here it is asked for every dataset and family, with figure 5's shares, which
had been rounded to six decimals before they were drawn, among the readings. What sampling does to the points is
`rbp.noise`, which takes the table made here.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from rbp import counts, published, readings

#: what the paper's appendix A states of every point
STATED = 500_000
CELL = ["dataset", "family"]

_FEWEST = 1000  # the smallest number of tokens that the recovery considers
_BIN_ERROR = 2e-6  # relative standard deviation of a bin's mass, read from figure 8c
_ROUNDING = 1e-6 / np.sqrt(12)  # standard deviation of a rounding to six decimals


def recovered_tokens(folder: Path | None = None) -> pd.DataFrame:
    """The number of tokens behind the points of each dataset and family, with how sure it is.

    Columns: dataset, family; tokens (the most likely number); exact (the repository's own count, where it is
    known); basis ("counted", "recovered", or "likely" where `counts.Recovery.identified` is false); bound (the
    most that the protocol allows); readings; log_likelihood, margin, posterior (of `counts.Recovery`); gap (log
    likelihood of `tokens` less that of the best number of at least STATED; missing where `bound` excludes those).
    Exact counts take no part in the recovery: where both are known, they test it.
    """
    families = published.models(folder).set_index("model")["family"]
    table = published.rbp(folder)
    table["family"] = table["model"].map(families)
    counted = published.gpt2_window_counts(folder).query("n == 1")
    exact = counted.assign(family=counted["model"].map(families)).groupby(CELL)["windows"].first()
    rows = []
    for (dataset, family), points in table.groupby(CELL, sort=True):
        cell = (str(dataset), str(family))
        share = np.exp(-points["neg_log_rbp"].to_numpy())
        rounded = _ROUNDING * (points["source"] == "figure 5").to_numpy()
        error = np.hypot(points["neg_log_rbp"].to_numpy() * share * counts.READING_ERROR, rounded)
        bound = counts.protocol_bound(cell[0])
        found = counts.recover_total(share, error, np.arange(_FEWEST, bound + 1))
        gap = np.nan
        if bound > STATED:
            enough = counts.recover_total(share, error, np.arange(STATED, bound + 1))
            gap = found.log_likelihood - enough.log_likelihood
        row = {"dataset": cell[0], "family": cell[1], "tokens": found.tokens, "exact": exact.get(cell, pd.NA)}
        row["basis"] = "counted" if cell in exact else "recovered" if found.identified else "likely"
        row |= {"bound": bound, "readings": found.readings, "log_likelihood": found.log_likelihood}
        rows.append(row | {"margin": found.margin, "posterior": found.posterior, "gap": gap})
    return pd.DataFrame(rows).astype({"exact": "Int64"})


def tokens_of_bins(folder: Path | None = None) -> pd.DataFrame:
    """The number of tokens of each model of figure 8c, found from its rank histogram.

    The histogram's masses are whole numbers over M, the tokens of rank 2 or more that it holds; M is found as N is,
    and M/(1 − RBP_1) is N. Columns dataset, model, ranked_lower (M), identified, tokens (M/(1 − RBP_1), no whole
    number where the histogram left out a few tokens).
    """
    first = readings.all_readings(folder).query("k == 1").drop_duplicates(["dataset", "model"])
    neg_log_rbp = first.set_index(["dataset", "model"])["value"]
    rows = []
    for (dataset, model), bins in readings.rank_bins(folder).groupby(["dataset", "model"], sort=True):
        cell = (str(dataset), str(model))
        mass = bins["mass"] / bins["mass"].sum()
        lower = -np.expm1(-neg_log_rbp[cell])  # the share of tokens with rank 2 or more
        most = int(counts.protocol_bound(cell[0]) * lower)
        found = counts.recover_total(mass, mass * _BIN_ERROR, np.arange(most // 5, most + 1))
        total = found.tokens / lower
        rows.append((*cell, found.tokens, found.identified, total))
    return pd.DataFrame(rows, columns=["dataset", "model", "ranked_lower", "identified", "tokens"])


def tokens_of_points(points: pd.DataFrame, recovered: pd.DataFrame) -> pd.DataFrame:
    """The tokens behind the cells of a measurement table: dataset, family, tokens, basis.

    What the table states comes first ("counted"); then, for points that the authors published, what `recovered` (of
    `recovered_tokens`) found. Cells of which nothing is known are missing.
    """
    stated = points.dropna(subset="tokens").groupby(CELL, as_index=False)["tokens"].first().assign(basis="counted")
    authors = points.loc[points["source"].str.match("figure|repository"), CELL].drop_duplicates()
    found = recovered.merge(authors, on=CELL)[[*CELL, "tokens", "basis"]]
    both: pd.DataFrame = pd.concat([stated, found]).drop_duplicates(CELL).sort_values(CELL, ignore_index=True)
    types = {"tokens": "Int64", "dataset": "str", "family": "str", "basis": "str"}
    return both.astype(types)
