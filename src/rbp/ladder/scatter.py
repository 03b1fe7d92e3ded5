"""Why rungs lie off their line: which documents were drawn, which seed was drawn, and a law that is no line.

The model of a rung's height y = ln(−ln RBP_k), n rungs with x = ln S:

    y = a − αx + lack + seed + document,

`lack` a fixed number for each rung, `seed` and `document` random. M is the matrix that takes heights to their
residuals about the least-squares line, and everything below is a mean square over its n − 2 degrees of freedom.
"""

from dataclasses import asdict, dataclass
from math import nan

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from rbp.ladder.hits import Hits
from rbp.ladder.resampling import heights
from rbp.metric import Reals


@dataclass(frozen=True)
class Split:
    """Variances of ln(−ln RBP_k) about the line: total = document + seed + lack, of which the last two can be negative.

    total: |M y|²/(n − 2), the squared scatter of the fit.
    document: D/(D − 1) times the mean square of M y over resampled corpora (its variance), D documents. What all
    rungs share, and what is linear in ln S, moves the line and is not in it.
    seed: the variance between seeds of one size on the same text, pooled over the sizes with several (`seed_df`
    degrees of freedom), less what drawing other documents adds to it (estimated like `document`, in which it is
    counted already). Sizes without other seeds are taken to vary as much. NaN without repeated sizes.
    seed_low, seed_high: its interval, from chi-square for the variance on the same text, the rest held fixed.
    lack: what is left. Without repeated sizes it holds the seeds' part as well.
    f, df_num, df_den, p: F = total/(document + seed) tests lack = 0. The residuals are correlated, and the
    denominator is a sum, so both degrees of freedom are Satterthwaite's approximation: df_num of the quadratic form
    |M y|² under that covariance, df_den from the seeds' and the documents' (D − 1). The first seeds are in numerator
    and denominator, which makes the test cautious: it calls a true line bent more rarely than p says.
    """

    total: float
    document: float
    seed: float
    seed_low: float
    seed_high: float
    lack: float
    n: int
    seed_df: int
    f: float
    df_num: float
    df_den: float
    p: float


def split(sizes: npt.ArrayLike, y: Reals, draws: Reals, documents: int, *, level: float = 0.95) -> Split:
    """Split the scatter of y, shape (models,), about the line through the first model of each of `sizes`.

    Models of one size stand side by side and differ in their seed. draws: y on resampled corpora of `documents`
    documents, shape (resamples, models), all finite; at least three different sizes, and two documents.
    """
    size, rung = np.unique(np.asarray(sizes, dtype=np.float64), return_inverse=True)
    first = np.unique(rung, return_index=True)[1]
    design = np.column_stack([np.ones(len(size)), np.log(size)])
    residual = np.eye(len(size)) - design @ np.linalg.pinv(design)
    df = len(size) - 2
    member = np.eye(len(size))[rung]
    within = np.eye(len(rung)) - member @ (member / member.sum(axis=0)).T
    seed_df = len(rung) - len(size)

    text = documents / (documents - 1) * np.atleast_2d(np.cov(draws, rowvar=False))
    moved = residual @ text[np.ix_(first, first)] @ residual  # the residuals' covariance by documents
    total = float(np.sum((residual @ y[first]) ** 2)) / df
    document = float(np.trace(moved)) / df
    seed = low = high = nan
    kept, between = 0.0, 0.0  # the seeds' part where it is known and positive
    if seed_df:
        between = float(np.sum((within @ y) ** 2)) / seed_df
        shared = float(np.trace(within @ text @ within)) / seed_df
        seed = between - shared
        tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], seed_df)
        low, high = np.maximum(seed_df * between / tails - shared, 0)
        kept = max(seed, 0.0)
    noise = moved + kept * residual
    expected = document + kept
    df_num = float(np.trace(noise) ** 2 / np.sum(noise**2))
    df_den = expected**2 / (document**2 / (documents - 1) + (between**2 / seed_df if seed_df else 0))
    f = total / expected
    return Split(
        total=total,
        document=document,
        seed=seed,
        seed_low=float(low),
        seed_high=float(high),
        lack=total - document - (seed if seed_df else 0),
        n=len(size),
        seed_df=seed_df,
        f=f,
        df_num=df_num,
        df_den=df_den,
        p=float(stats.f.sf(f, df_num, df_den)),
    )


def splits(hits: Hits, draws: Reals, *, level: float = 0.95) -> pd.DataFrame:
    """The `Split` of a dataset at every k (draws from `resample`): dataset, family, k and its fields.

    Draws in which a model misses no token are left out; a k at which most are, or the text itself is one, has no row.
    """
    y, rows = heights(hits), []
    for i, k in enumerate(hits.thresholds):
        whole = draws[np.isfinite(draws[:, :, i]).all(axis=1), :, i]
        if 2 * len(whole) > len(draws) and np.isfinite(y[:, i]).all():
            found = split(hits.sizes, y[:, i], whole, len(hits.tokens), level=level)
            rows.append({"dataset": hits.dataset, "family": hits.family, "k": k} | asdict(found))
    return pd.DataFrame(rows)


def made_of(parts: pd.DataFrame) -> str:
    """A sentence on what makes the squared scatter of `splits`, taken over all its rows."""
    total = parts["total"].sum()
    document, seed, lack = (100 * parts[part].sum() / total for part in ("document", "seed", "lack"))
    drawn = f"Of its square, taken over all texts, {document:.0f} per cent come from which documents were drawn"
    if parts["seed"].isna().all():
        return f"{drawn}; the rest is from seeds, which were not repeated, and from a law that is no straight line."
    if lack < 0:
        return (
            "Which documents and which seed were drawn explain all of it: taken over all texts, they would make "
            f"{document:.0f} and {max(seed, 0):.0f} per cent of its square."
        )
    seeds = f"{max(seed, 0):.0f} from which seed was drawn"
    return f"{drawn} and {seeds}; the rest is left for a law that is no straight line."
