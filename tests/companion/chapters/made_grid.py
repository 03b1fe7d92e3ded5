"""Made-up families with known laws: independent tokens in documents, at every size, budget and family."""

import numpy as np
import pandas as pd

from rbp.measurements.counts import Counts

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


def make(value=additive, *, families=("neox", "lstm"), texts=TEXTS, tokens=TOKENS, ks=KS, spread=0.1):
    """A text's counts each: hits are expectations, rounded; a document is easier or harder for all models.

    value: −ln RBP_k by S, D and k, of all families, or of each by its name.
    """
    laws = value if isinstance(value, dict) else dict.fromkeys(families, value)
    return [_text(name, documents, laws, families, tokens, ks, spread) for name, documents in texts.items()]


def _text(dataset, documents, laws, families, tokens, ks, spread):
    ease = np.exp(np.random.default_rng(len(dataset)).normal(0, spread, documents))
    models, hits, nll = [], [], []
    for family in families:
        value = laws[family]
        for budget in BUDGETS:
            for rung, size in SIZES.items():
                name = f"{family}-{rung}-at-{budget / 1e6:g}m"
                models.append({"model": name, "family": family, "rung": rung, "seed": 0, "size": size})
                models[-1] |= {"budget": budget, "trained": budget}
                hits.append([np.round(tokens * np.exp(-value(size, budget, k) * ease)) for k in ks])
                nll.append(tokens * (2 * value(size, budget) + 1) * ease)
    return Counts(
        dataset=dataset,
        models=pd.DataFrame(models),
        vocabulary=4096,
        thresholds=tuple(ks),
        tokens=np.full(documents, tokens),
        hits=np.array(hits).transpose(2, 0, 1).astype(np.int64),
        nll=np.array(nll).T,
    )
