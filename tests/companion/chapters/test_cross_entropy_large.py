"""Lines over models, of documents made by hand."""

import numpy as np
import pandas as pd
import pytest

from companion.chapters.cross_entropy import large
from companion.evidence import outside

NAMES = list(outside.READERS)


def documents(slope=0.6, entropy=0.0, author="human", count=30, bump=0.0):
    rng = np.random.default_rng(2)
    hard = rng.normal(2.5, 0.4, count)
    rows = []
    for i, model in enumerate(NAMES):
        nats = hard - 0.1 * i
        sure = nats + rng.normal(0, 0.2, count)
        ranks = slope * nats + entropy * sure - 0.2 + (bump if model == "gpt-neox-20b" else 0)
        rows += [("xsum", model, author, d, nats[d], ranks[d], 50.0, sure[d]) for d in range(count)]
    columns = ["dataset", "model", "written_by", "document", "cross_entropy", "mean_log_rank", "mean_rank", "entropy"]
    return pd.DataFrame(rows, columns=columns)


def test_models_on_one_line_are_on_one_line():
    (row,) = large.lines(documents()).to_dict("records")
    assert (row["slope"], row["r_squared"], row["models"]) == pytest.approx((0.6, 1.0, 5))
    assert row["low"] == pytest.approx(0.6)
    assert row["largest"] < 1e-9


def test_a_line_and_its_interval_are_those_of_the_means():
    made = documents(entropy=0.1, bump=0.02)
    (row,) = large.lines(made).to_dict("records")
    means = made.groupby("model")[["cross_entropy", "mean_log_rank", "entropy"]].mean()
    x, y = means.cross_entropy, means.mean_log_rank
    slope, origin = np.polyfit(x, y, 1)
    left = y - slope * x - origin
    assert row["slope"] == pytest.approx(slope)
    assert row["r_squared"] == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)
    assert row["other"] == pytest.approx(100 * (left / y)["gpt-neox-20b"])
    assert row["largest"] == pytest.approx(100 * (left / y).abs().max())
    ratio = x / means.entropy
    assert (row["tilt_low"], row["tilt_high"]) == pytest.approx((ratio.min(), ratio.max()))
    without = [
        np.polyfit(*own.groupby("model")[["cross_entropy", "mean_log_rank"]].mean().to_numpy().T, 1)[0]
        for own in (made[made.document != d] for d in range(30))
    ]
    half = 2.0452 * np.sqrt(29 / 30 * np.sum((np.array(without) - np.mean(without)) ** 2))  # t of 29
    assert (row["low"], row["high"]) == pytest.approx((slope - half, slope + half), rel=1e-4)
