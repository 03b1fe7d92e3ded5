"""Misses by length of context, against loops over made passages."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student_t

from companion.chapters import openings

K = 10_000


@pytest.fixture
def table(monkeypatch):
    """Passages of three texts, four documents each, missed more often where little stands before a token."""
    rng, parts = np.random.default_rng(1), []
    for text in openings.TEXTS:
        for way, first in (("never", 1), ("always", 0)):
            for passage, document in enumerate([0, 0, 1, 1, 2, 2, 2, 3, 3, 3] * 3):
                context = np.arange(first, 129)
                missed = rng.random(len(context)) < 0.05 + 0.5 / (1 + context)
                rank = np.where(missed, 25_000, 3).astype(np.uint16)
                about = {"document": document, "passage": passage, "context": context, "rank": rank}
                parts.append(pd.DataFrame(about).assign(rare=rng.random(len(context)) < 0.3, text=text, bos=way))
    made = pd.concat(parts, ignore_index=True)
    monkeypatch.setattr(openings, "read_passages", lambda: made)
    return made


def bins(low, high, rows):
    return rows[(rows["context"] >= low) & (rows["context"] <= high)]


def rate(rows):
    return (rows["rank"] > K).mean()


def test_statistics_and_intervals_are_those_of_loops(table):
    found = openings.opening_statistics().set_index(["dataset", "k"]).loc[("auslegal", K)]

    def statistics(rows):
        never, always = rows[rows["bos"] == "never"], rows[rows["bos"] == "always"]
        excess = [
            (bins(1, 4, way)["rank"] > K).sum() - 4 / 96 * (bins(33, 128, way)["rank"] > K).sum()
            for way in (never, always)
        ]
        return {
            "fold": rate(bins(1, 1, never)) / rate(bins(33, 128, never)),
            "fold32": rate(bins(1, 1, never)) / rate(bins(9, 32, never)),
            "early": (bins(1, 4, never)["rank"] > K).sum() / (never["rank"] > K).sum(),
            "cured": 1 - excess[1] / excess[0],
        }

    rows = table[table["text"] == "auslegal"]
    whole = statistics(rows)
    without = pd.DataFrame([statistics(rows[rows["document"] != each]) for each in range(4)])
    tokens = rows[rows["bos"] == "never"].groupby("document").size()
    df = tokens.sum() ** 2 / (tokens**2).sum() - 1
    for name, value in whole.items():
        assert found[name] == pytest.approx(value)
        left = (lambda x: 1 - x) if name == "cured" else (lambda x: x)
        logs = np.log(left(without[name]))
        half = student_t.ppf(0.975, df) * np.sqrt(3 / 4 * ((logs - logs.mean()) ** 2).sum())
        ends = sorted(left(left(value) * np.exp([-half, half])))
        np.testing.assert_allclose(found[[f"{name}_low", f"{name}_high"]].astype(float), ends)


def test_rates_cells_and_openings_of_chunks_add_up(table):
    rows = table[(table["text"] == "novels") & (table["bos"] == "never")]
    found = openings.miss_rates([K]).query("dataset == 'novels' and bos == 'never'")
    every = found.set_index("context")
    assert every["rate"]["5–8"] == pytest.approx(100 * rate(bins(5, 8, rows)))
    assert "0" not in every.index
    assert every["missed"].sum() == (rows["rank"] > K).sum()
    missed = rows[rows["rank"] > K]
    cells = openings.early_and_rare("novels", K)
    assert cells["early_rare"] == pytest.approx(100 * ((missed["context"] <= 4) & missed["rare"]).mean())
    assert cells["late_other"] == pytest.approx(100 * ((missed["context"] > 4) & ~missed["rare"]).mean())
    rows = table[(table["text"] == "wikipedia") & (table["bos"] == "never")]
    beyond = [
        (high - low + 1) * (rate(bins(low, high, rows)) - rate(bins(33, 128, rows)))
        for low, high in ((1, 1), (2, 2), (3, 4), (5, 8), (9, 32))
    ]
    assert openings.chunk_openings(51_100, K) == pytest.approx({"least": 100 * sum(beyond), "most": 1000 * sum(beyond)})
