"""A made-up grid of ladders with known laws: independent tokens in documents, at every size, budget and family."""

import numpy as np
import pandas as pd

from rbp.paper.families import Grid, from_rows

SIZES = {
    "10k": 9_872,
    "22k": 21_720,
    "59k": 59_240,
    "150k": 150_080,
    "390k": 393_640,
    "1m": 1_022_952,
    "2.7m": 2_674_576,
}
BUDGETS = (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
KS = (1, 10, 100)
TEXTS = {"wikipedia": 12, "auslegal": 10, "humaneval": 20, "hotpotqa": 60}
TOKENS = 400_000  # of a document: so many that counting leaves the law as it is


def additive(size, tokens, k=1):
    """−ln RBP_k of the made-up models."""
    return (0.4 + 6.0 * size**-0.3 + 900.0 * tokens**-0.6) / k**0.4


def rows(value=additive, *, families=("neox", "lstm", "ngrams"), texts=TEXTS, tokens=TOKENS, ks=KS, spread=0.1):
    """What `families.as_rows` gives: hits are expectations, rounded; a document is easier or harder for all models."""
    parts = []
    for dataset, documents in texts.items():
        ease = np.exp(np.random.default_rng(len(dataset)).normal(0, spread, documents))
        for family in families:
            rungs = {"1": 4_096, "2": 400_000, "5": 9_000_000} if family == "ngrams" else SIZES
            for rung, size in rungs.items():
                for budget in BUDGETS if family != "ngrams" else BUDGETS[-1:]:
                    y = value(size, budget)
                    own = {f"k{k}": np.round(tokens * np.exp(-value(size, budget, k) * ease)).astype(int) for k in ks}
                    about = {"dataset": dataset, "family": family, "model": f"{family}-{rung}-at-{budget / 1e6:g}m"}
                    about |= {"size": size, "budget": budget, "vocabulary": 4096, "tokens": tokens}
                    loss = {"document": np.arange(documents), "nll": tokens * (2 * y + 1) * ease}
                    parts.append(pd.DataFrame({**about, **loss, **own}))
    return pd.concat(parts, ignore_index=True)


def make(value=additive, **options) -> Grid:
    return from_rows(rows(value, **options))
