"""A fair naive guess beside each registered forecast: Student's t on what was known of the same kind.

The naive guesses that were registered are ranges of a few known numbers taken as intervals of 80%, which is too narrow.
Where n numbers are known, mean m and standard deviation s, the next of the same normal distribution follows Student's t
with n − 1 degrees of freedom about m, with the scale s·√(1 + 1/n).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as student

from companion.chapters.families import exponents
from ladder.shipped import FIRST, counted

COLUMNS = ["fair_low", "fair_high", "fair_inside", "fair_score", "fair_gain"]


def with_fair_guess(scored: pd.DataFrame, known: Sequence[npt.ArrayLike]) -> pd.DataFrame:
    """Add the fair guess and its score to forecasts that were scored.

    scored: columns outcome, score (in nats) and level (of the interval). known: for each row, what was known, shape
    (n,). Adds fair_low, fair_high, fair_inside, fair_score (log score in nats) and fair_gain (score less that);
    all are missing where fewer than two different numbers were known.
    """
    rows = [_guess(np.asarray(outcomes, dtype=np.float64)) for outcomes in known]
    guesses = pd.DataFrame(rows, scored.index, columns=["df", "mean", "scale"])
    low, high = student.interval(scored["level"], guesses["df"], guesses["mean"], guesses["scale"])
    outcome = scored["outcome"]
    inside = ((low <= outcome) & (outcome <= high)).astype(float).where(guesses["scale"].notna() & outcome.notna())
    score = pd.Series(student.logpdf(outcome, guesses["df"], guesses["mean"], guesses["scale"]), scored.index)
    values = [low, high, inside, score, scored["score"] - score]
    return scored.assign(**dict(zip(COLUMNS, values, strict=True)))


def _guess(values: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """Compute degrees of freedom, mean and scale; missing where there is no scatter."""
    if len(values) < 2 or not np.ptp(values) > 0:
        return (np.nan, np.nan, np.nan)
    return len(values) - 1, values.mean(), values.std(ddof=1) * np.sqrt(1 + 1 / len(values))


def known_to_ladders(table: pd.DataFrame) -> list[list[float]]:
    """Collect what was known to each prediction of data/predictions/ladders.toml: numbers of its kind.

    They are the first ladder's on its four texts, of exponents in S at the same k, and of slopes of ln(−ln RBP_k) in ln
    CE. Of the other kinds nothing was known, or one number. table: columns function and fields.
    """
    keys = [(function, fields.get("k")) for function, fields in zip(table["function"], table["fields"], strict=True)]
    ks = sorted({k for function, k in keys if function in ("exponent", "slope_in_cross_entropy")})
    outcomes: dict[tuple[str, int], list[float]] = defaultdict(list)
    for text in counted(ks, families=[FIRST]):
        counts = text.of(FIRST, seed=0)
        for k in ks:
            y = counts.log_neg_log_rbp[:, counts.place(k)]
            outcomes["exponent", k].append(float(exponents(counts.sizes, y[None])[0]))
            slope = np.polyfit(np.log(counts.cross_entropy), y, 1)[0]
            outcomes["slope_in_cross_entropy", k].append(float(slope))
    return [outcomes.get(key, []) for key in keys]


#: −ln RBP_k of models made worse and of the smaller model at about the same cross-entropy, on judgments, as the head of
#: data/predictions/paths.toml has them: less context, fewer layers, noise on logits, noise on weights, context replaced
_FIRST_LOOK = {
    1: [(1.336, 1.377), (1.438, 1.377), (1.403, 1.377), (1.642, 1.532), (1.343, 1.458)],
    10: [(0.611, 0.607), (0.590, 0.607), (0.599, 0.607), (0.686, 0.702), (0.623, 0.654)],
    100: [(0.213, 0.213), (0.202, 0.213), (0.211, 0.213), (0.231, 0.254), (0.239, 0.233)],
    1000: [(0.027, 0.022), (0.018, 0.022), (0.022, 0.022), (0.022, 0.030), (0.041, 0.026)],
}


def known_to_paths(table: pd.DataFrame) -> list[list[float]]:
    """Collect what was known to each prediction of data/predictions/paths.toml: five offsets at its k, of a first look.

    Of the other kinds nothing was known. table: columns function and fields.
    """
    offsets = {k: [float(np.log(worse / smaller)) for worse, smaller in pairs] for k, pairs in _FIRST_LOOK.items()}
    pairs = zip(table["function"], table["fields"], strict=True)
    return [offsets[fields["k"]] if function == "offset" else [] for function, fields in pairs]


def fair_statistics(table: pd.DataFrame) -> dict[str, Any]:
    """Count the guesses of `with_fair_guess`: made, holding, beaten by the forecast; and its median gain."""
    guessed = table.dropna(subset="fair_gain")
    counts: dict[str, Any] = {"fair": len(guessed), "fair_inside": int(guessed["fair_inside"].sum())}
    counts["fair_better"] = int((guessed["fair_gain"] > 0).sum())
    return counts | {"fair_gain_median": guessed["fair_gain"].median()}
