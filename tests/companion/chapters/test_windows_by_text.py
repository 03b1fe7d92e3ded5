"""Windows by document: independent ranks have the ratio 1, and counts are those of a loop."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from companion.chapters import windows_by_text
from rbp.measurements import open_source


def test_independent_ranks_have_the_ratio_1_within_their_intervals(tmp_path) -> None:
    rng = np.random.default_rng(3)
    store = make_store(tmp_path / "store", rng.integers(0, 20, 60 * 500), [500] * 60)
    table = windows_by_text.ratios_by_document([store], ks=[5, 10, 15], lengths=[2, 3, 5])
    assert len(table) == 9
    assert ((table["low"] < 1) & (table["high"] > 1)).sum() >= 8
    assert table["ratio"].to_numpy() == pytest.approx(1, abs=0.1)


def test_counts_and_ratios_are_those_of_a_loop(tmp_path) -> None:
    rng = np.random.default_rng(5)
    lengths = [40, 7, 90, 33, 61]
    easy = np.repeat(rng.random(5), lengths) < 0.5  # documents differ, so windows are not independent
    greater = np.where(rng.random(sum(lengths)) < np.where(easy, 0.9, 0.5), 0, 9)
    store = make_store(tmp_path / "store", greater, lengths)
    (row,) = windows_by_text.ratios_by_document([store], ks=[1], lengths=[3]).itertuples()
    parts = [greater[begin:end] == 0 for begin, end in pairwise(np.append(0, np.cumsum(lengths)))]
    succeed = sum(all(part[i : i + 3]) for part in parts for i in range(len(part) - 2))
    share = succeed / sum(len(part) - 2 for part in parts)
    assert row.successes == succeed
    assert row.ratio == pytest.approx(np.log(share) / (3 * np.log((greater == 0).mean())), rel=1e-12)


def test_the_largest_of_our_small_models_has_a_referees_ratios() -> None:
    stores = [store for store in open_source("ladder").stores if "2.7m" in store.model]
    found = windows_by_text.by_text(windows_by_text.ratios_by_document(stores, ks=[1, 10])).set_index(["dataset", "k"])
    given = {("wikipedia", 10): 1.131, ("hotpotqa", 10): 1.091, ("humaneval", 10): 0.880, ("auslegal", 1): 0.736}
    assert {key: found["ratio"][key] for key in given} == pytest.approx(given, abs=6e-4)
    assert found["low"]["wikipedia", 10] > 1
    assert found["high"]["humaneval", 10] < 1


def test_a_power_of_n_has_one_local_power() -> None:
    n = np.array([1, 2, 5, 10, 50])
    parts = [
        pd.DataFrame({"model": f"m{a}", "k": 1, "n": n, "windows": 10**15, "successes": 1e15 * np.exp(-a * n**0.6)})
        for a in (0.2, 0.5)
    ]
    found = windows_by_text.local_powers(pd.concat(parts))
    assert found["power"].to_numpy() == pytest.approx(0.6, abs=1e-9)
    assert found["models"].tolist() == [2] * 4
    assert list(zip(found["n"], found["n_next"], strict=True)) == list(pairwise(n))
