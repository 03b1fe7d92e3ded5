"""How much of a scatter counting alone would make: a share of N tokens is only known to its binomial error."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp import counts

#: sources whose −ln RBP_k were read so closely that they tell the number of tokens (`counts.recover_tokens`)
_CLOSE_READINGS = ("figure 3", "figure 4", "figure 9")
_SMALLEST = 1000  # no published point can rest on fewer tokens: its shares take more than 1000 values


def tokens_behind(table: pd.DataFrame) -> pd.DataFrame:
    """How many tokens stand behind the −ln RBP_k of each dataset and family: dataset, family, tokens, basis.

    A family shares one tokenizer, so it shares N on a dataset. `basis` is "counted" (the table states N), "recovered"
    (from the published shares, where these identify it), "at most" (the bound of the authors' protocol) or
    "unknown" (tokens is then missing). `table` is a measurement table; give all its thresholds, as each helps.
    """
    rows = []
    ranked = table[table["metric"] == "neg_log_rbp"]
    for (dataset, family), cell in ranked.groupby(["dataset", "family"]):
        tokens, basis = _tokens(str(dataset), cell)
        rows.append({"dataset": dataset, "family": family, "tokens": tokens, "basis": basis})
    found = pd.DataFrame(rows, columns=["dataset", "family", "tokens", "basis"])
    return found.astype({"tokens": "Int64", "dataset": "str", "family": "str"})


def _tokens(dataset: str, cell: pd.DataFrame) -> tuple[int | None, str]:
    stated = cell["tokens"].dropna().unique()
    if stated.size == 1:
        return int(stated[0]), "counted"
    readings = cell[cell["source"].isin(_CLOSE_READINGS)]
    if stated.size or readings.empty or dataset not in counts.DOCUMENTS:
        return None, "unknown"
    bound = counts.protocol_bound(dataset)
    found = counts.recover_tokens(
        readings["value"], relative_error=counts.READING_ERROR, candidates=np.arange(_SMALLEST, bound + 1)
    )
    return (found.tokens, "recovered") if found.identified else (bound, "at most")


def counting_error(value: npt.ArrayLike, tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Standard deviation of ln(−ln RBP_k) by counting alone: a binomial share of N independent tokens.

    The delta method: with p = RBP_k and y = −ln p, sd(ln y) = √((1 − p)/(p·N))/y; near p = 1 this is one over the
    root of the number of missed tokens. `value` is y; shapes broadcast. Neighbouring tokens are not independent,
    which makes the true error larger; models that read the same text miss the same tokens, which makes the scatter
    between them smaller.
    """
    y = np.asarray(value, dtype=np.float64)
    n = np.asarray(tokens, dtype=np.float64)
    return np.sqrt(np.expm1(y) / n) / y


def scatter(points: pd.DataFrame, fits: pd.DataFrame, tokens: pd.DataFrame) -> pd.DataFrame:
    """Each fit's scatter beside that of counting alone.

    `points` has dataset, family, k, size, value; `fits` is a `scaling.fit_table` by dataset, family and k (other
    columns stay); `tokens` comes from `tokens_behind`. Adds tokens, basis, misses_min and misses_max (tokens of rank
    above k, of the best and the worst model), counting_error (root mean square over the models), noise_share =
    (counting_error/residual_se)², and r_squared_counting: the R² to expect of the fitted line were counting the only
    scatter. They are NaN where the number of tokens or the fit is unknown.
    """
    own = points[["dataset", "family", "k", "size", "value"]].merge(tokens, on=["dataset", "family"], how="left")
    n = own["tokens"].to_numpy(dtype=float, na_value=np.nan)
    own["misses"] = -np.expm1(-own["value"]) * n
    own["variance"] = counting_error(own["value"], n) ** 2
    own["log_size"] = np.log(own["size"].astype(float))
    cells = own.groupby(["dataset", "family", "k"], as_index=False).agg(
        misses_min=("misses", "min"),
        misses_max=("misses", "max"),
        variance=("variance", "mean"),
        spread=("log_size", lambda x: float(((x - x.mean()) ** 2).sum())),
    )
    table = fits.merge(tokens, on=["dataset", "family"], how="left").merge(cells, on=["dataset", "family", "k"])
    table["counting_error"] = np.sqrt(table["variance"])
    table["noise_share"] = table["variance"] / table["residual_se"] ** 2
    explained = table["alpha"] ** 2 * table["spread"]
    table["r_squared_counting"] = explained / (explained + table["df"].astype(float) * table["variance"])
    return table.drop(columns=["variance", "spread"])


def ends(points: pd.DataFrame, tokens: pd.DataFrame) -> pd.DataFrame:
    """The missed tokens (rank above k) of the smallest and of the largest model of each dataset, family and k.

    `points` and `tokens` as for `scatter`. Columns dataset, family, k, basis, misses_smallest, misses_largest, and
    deviations: their difference in standard deviations of two independent counts; positive where the larger model
    misses more. Families with an unknown number of tokens are left out.
    """
    own = points.merge(tokens.dropna(subset=["tokens"]), on=["dataset", "family"], suffixes=("_stated", ""))
    own["misses"] = -np.expm1(-own["value"]) * own["tokens"].astype(float)
    cells = own.sort_values("size").groupby(["dataset", "family", "k", "basis"], as_index=False)
    table = cells.agg(misses_smallest=("misses", "first"), misses_largest=("misses", "last"))
    change = table["misses_largest"] - table["misses_smallest"]
    return table.assign(deviations=change / np.sqrt(table["misses_largest"] + table["misses_smallest"]))
