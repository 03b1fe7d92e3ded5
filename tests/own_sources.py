"""Measurements of a reader's own, of every kind that chapters meet: a table, rank stores, models made worse."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from toy_stores import make_store

from companion.damage.compare import TEMPERATURES, THRESHOLDS

SIZES = 1e7, 5e7, 2e8, 1e9, 4e9
KS = 1, 2, 5, 10, 20, 50, 100, 1000


def measured(
    *, families=("A", "B"), datasets=("news", "poems"), sizes=SIZES, ks=KS, entropy=True, tokens=0, change=None
) -> pd.DataFrame:
    """Simulate power laws in size whose exponents grow with k, with 1% of scatter; `tokens`: hits are counted too."""
    rng, rows = np.random.default_rng(len(ks)), []
    for dataset in datasets:
        for family in families:
            factor = rng.uniform(0.8, 1.2)
            for size in map(int, sizes):
                about = {"dataset": dataset, "model": f"{family}-{size}", "family": family, "size": size}
                for k in ks:
                    value = factor * 3 * k**-0.35 * (size / 1e4) ** -(0.05 + 0.01 * np.log(k)) * rng.lognormal(0, 0.01)
                    counts = {}
                    if tokens:
                        counts = {"tokens": tokens, "hits": int(rng.binomial(tokens, np.exp(-value)))}
                        value = -np.log(counts["hits"] / tokens)
                    rows.append(about | {"metric": "neg_log_rbp", "k": k, "value": value} | counts)
                if entropy:
                    value = 6 * factor * (size / 1e4) ** -0.06 * rng.lognormal(0, 0.005)
                    rows.append(about | {"metric": "cross_entropy", "k": None, "value": value})
    table = pd.DataFrame(rows).astype({"k": "Int64"} | ({"hits": "Int64", "tokens": "Int64"} if tokens else {}))
    if change:
        change(table)
    return table


def stores(folder, *, models=6, documents=30, datasets=("wikipedia",), all_hits=False, place="store-{}".format) -> None:
    """Rank stores of one family under `folder`, at `place` for each model; `all_hits`: the largest is never wrong."""
    vocabulary, rng, lengths = 300, np.random.default_rng(1), [60] * documents
    for dataset in datasets:
        for i in range(models):
            near = np.exp(rng.normal(2.0 - 0.3 * i, 1.5, sum(lengths))).astype(int)
            far = rng.integers(0, vocabulary, sum(lengths))
            greater = np.where(rng.random(sum(lengths)) < 0.3 - 0.02 * i, far, near.clip(max=vocabulary - 1))
            if all_hits:
                greater = greater.clip(max=9) * (i < models - 1)
            about = {"model": f"m{i}", "dataset": dataset, "size": 10_000 * 4**i}
            home = folder / (place(i) if len(datasets) == 1 else f"{dataset}-{place(i)}")
            make_store(home, greater, lengths, **about, vocabulary=vocabulary, nll=5 * 0.9**i)


_TOKENS = np.array([4000, 2500, 3000, 5000, 3500])


def _sums(ce: float, tilt: float = 0.0) -> pd.DataFrame:
    """Documents at a cross-entropy, whose −ln RBP_k is 0.3·CE/k^0.4, times 1 + tilt at k = 1, 1 − tilt at 1000."""
    k, easier = np.array(THRESHOLDS), 1 + 0.03 * np.random.default_rng(0).normal(size=len(_TOKENS))
    factor = 1 + tilt * (1 - 2 * np.log(k) / np.log(1000))
    hits = _TOKENS[:, None] * np.exp(-0.3 * np.outer(ce * easier, factor / k**0.4))
    table = pd.DataFrame({"document": np.arange(5), "tokens": _TOKENS})
    for each, column in zip(THRESHOLDS, hits.T, strict=True):
        table[f"hits_{each}"] = column
    for t in TEMPERATURES:  # a parabola in 1/T, least at 1 less 0.1
        beta = 1 / t
        table[f"nll_{t}"] = _TOKENS * ce * easier * (1 + (beta - 0.9) ** 2 - 0.01)
        table[f"slope_{t}"] = _TOKENS * ce * easier * 2 * (beta - 0.9)
    return table


def paths(folder: Path) -> None:
    """A model of 3 nats, its smaller ones, and four paths: one that ranks as they do, two tilted, one that is short."""
    steps = [("whole", 0, 0, _sums(3.0)), ("depth", 1, 0, _sums(3.2))]
    steps += [("bits", step, 0, _sums(ce)) for step, ce in ((8, 3.1), (2, 4.5))]
    for draw, tilt in enumerate((0.10, 0.14, 0.12)):
        steps += [("weights", 0.5, draw, _sums(3.2, 0.12)), ("weights", 1.0, draw, _sums(4.4, tilt))]
    steps += [("replaced", step, 0, _sums(ce, -0.12)) for step, ce in ((0.1, 3.3), (0.4, 4.6))]
    steps += [("parameters", size, 0, _sums(ce)) for size, ce in ((300, 3.3), (200, 3.8), (100, 4.2))]
    models = [f"models/small-{step}" if path == "parameters" else "models/big" for path, step, *_ in steps]
    parts = [
        sums.assign(path=path, step=float(step), draw=draw, model=model)
        for (path, step, draw, sums), model in zip(steps, models, strict=True)
    ]
    place = folder / "big-text"
    place.mkdir(parents=True)
    about = {"model": "models/big", "dataset": "text", "vocabulary": 5000}
    (place / "manifest.json").write_text(json.dumps({"about": about}))
    pd.concat(parts, ignore_index=True).to_parquet(place / "sums.parquet", index=False)
