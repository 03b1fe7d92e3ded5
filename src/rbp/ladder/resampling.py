"""Which text was drawn: the law refitted on corpora drawn anew, the same documents for every rung."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.errors import FitError
from rbp.ladder.hits import Hits
from rbp.metric import Reals
from rbp.scaling.powerlaw import fit_power_law

_AT_ONCE = 100  # draws in memory at once: a domain can have thousands of documents


def heights(hits: Hits) -> Reals:
    """y = ln(−ln RBP_k) on the text as it is, shape (models, thresholds); −inf where every token is a hit."""
    found: Reals = _heights(np.array([hits.tokens.sum()]), hits.hits.sum(axis=0)[None])[0]
    return found


def resample(hits: Hits, *, resamples: int = 2000, seed: int = 0) -> Reals:
    """`heights` on corpora drawn anew, shape (resamples, models, thresholds).

    Whole documents are drawn with replacement, as many as there are, and the same ones for all models at all k: an
    easy document is easy for all. −inf where all tokens of a draw are hits.
    """
    documents = len(hits.tokens)
    flat = np.column_stack([hits.tokens, hits.hits.reshape(documents, -1)]).astype(np.float64)
    even = np.full(documents, 1 / documents)
    rng = np.random.default_rng(seed)
    sizes = [min(_AT_ONCE, resamples - first) for first in range(0, resamples, _AT_ONCE)]
    sums = np.concatenate([rng.multinomial(documents, even, size=size).astype(np.float64) @ flat for size in sizes])
    return _heights(sums[:, 0], sums[:, 1:].reshape(resamples, *hits.hits.shape[1:]))


def _heights(tokens: npt.NDArray[Any], hits: npt.NDArray[Any]) -> Reals:
    with np.errstate(divide="ignore"):
        found: Reals = np.log(np.log(tokens[:, None, None] / hits))
    return found


def points(hits: Hits, draws: Reals, *, level: float = 0.95) -> pd.DataFrame:
    """−ln RBP_k of every model at every k, with the percentile interval of `draws` (from `resample`).

    Columns dataset, family, model, size, k, value, low, high (NaN where too many draws have no logarithm). An
    interval says what other documents of the kind could have given this very model.
    """
    values, rows = np.exp(heights(hits)), []
    for m, model in enumerate(hits.models):
        for i, k in enumerate(hits.thresholds):
            low, high = np.exp(_percentiles(draws[:, m, i], level))
            cell = (hits.dataset, hits.family, model, int(hits.sizes[m]), k)
            rows.append((*cell, values[m, i], low, high))
    columns = ["dataset", "family", "model", "size", "k", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def laws(hits: Hits, draws: Reals, *, level: float = 0.95) -> pd.DataFrame:
    """The power law through the rungs at each k, with two intervals of α that answer different questions.

    alpha_low, alpha_high: ordinary least squares, from the scatter about the line, taken as independent between
    rungs. It covers all that moves single rungs: seeds, lack of fit, and the part of the document noise that rungs
    do not share. text_low, text_high: percentiles over `draws`, each fitted anew. It covers which documents were
    drawn, the shared part included, and takes the rungs as they are. Neither holds the other.

    One row for each k: dataset, family, k, documents, tokens, misses (fewest of a rung), n, alpha, alpha_low,
    alpha_high, alpha_se, df, text_low, text_high, lost (draws without a logarithm), r_squared, residual_se, note (why
    there is no fit; its numbers are then NaN).
    """
    values, rungs = np.exp(heights(hits)), hits.rungs
    total = int(hits.tokens.sum())
    rows = []
    for i, k in enumerate(hits.thresholds):
        row: dict[str, Any] = {
            "dataset": hits.dataset,
            "family": hits.family,
            "k": k,
            "documents": len(hits.tokens),
            "tokens": total,
            "misses": total - int(hits.hits[:, rungs, i].sum(axis=0).max()),
            "n": len(rungs),
        }
        slopes = exponents(hits.sizes[rungs], draws[:, rungs, i])
        low, high = _percentiles(slopes, level)
        try:
            fit = fit_power_law(hits.sizes[rungs], values[rungs, i], level=level)
        except FitError as error:
            row["note"] = error.what
        else:
            names = ("alpha", "alpha_low", "alpha_high", "alpha_se", "r_squared", "residual_se", "df")
            row |= {name: getattr(fit, name) for name in names}
            row |= {"text_low": low, "text_high": high, "lost": int((~np.isfinite(slopes)).sum()), "note": ""}
        rows.append(row)
    columns = ["alpha", "alpha_low", "alpha_high", "alpha_se", "df", "text_low", "text_high", "lost", "r_squared"]
    wanted = ["dataset", "family", "k", "documents", "tokens", "misses", "n", *columns, "residual_se", "note"]
    return pd.DataFrame(rows, columns=wanted)


def exponents(sizes: npt.ArrayLike, y: Reals) -> Reals:
    """α of the least-squares line through each row of `y` [draws, rungs] against ln S; NaN where a y is infinite."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    known = np.where(np.isfinite(y), y, np.nan)
    slope: Reals = -(known @ x) / (x @ x)
    return slope


def _percentiles(values: Reals, level: float) -> tuple[float, float]:
    """The interval of `level` over the finite values; NaN where those without a logarithm would fill a tail."""
    finite = values[np.isfinite(values)]
    if len(values) - len(finite) > (1 - level) / 2 * len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
