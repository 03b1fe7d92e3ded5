"""How much of a scatter counting alone would make: a share of N tokens is only known to its binomial error."""

import numpy as np
import numpy.typing as npt
import pandas as pd


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
    columns stay); `tokens` is a `counting.tokens.tokens_behind`. Adds tokens, basis, misses_min and misses_max (tokens
    of rank above k, of the best and the worst model), counting_error (root mean square over the models), noise_share =
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
