"""Success on N tokens in a row: laws that made the counts are found again."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from companion.chapters import emergence

LENGTHS = np.array([1, 2, 5, 10, 50, 100])


def table(neg_log_of, windows=10**15):
    parts = []
    for size in (10**6, 10**7, 10**8, 10**9):
        p = np.exp(-neg_log_of(LENGTHS, size))
        rows = {"model": f"m{size}", "size": size, "n": LENGTHS, "windows": windows}
        parts.append(pd.DataFrame({**rows, "successes": np.rint(windows * p).astype(np.int64)}))
    return pd.concat(parts, ignore_index=True).assign(dataset="wikipedia", family="Toy", k=1)


def single(size):
    return 0.3 * (size / 1e6) ** -0.1


def test_the_ratio_is_one_for_independent_tokens_and_a_closed_form_for_a_chain():
    counts = table(lambda n, size: n * single(size))
    assert emergence.compute_ratios(counts)["ratio"].to_numpy() == pytest.approx(1, rel=1e-3)
    assert emergence.compare_exponents(counts)["difference"].abs().max() < 1e-3
    chain = table(lambda n, size: single(size) * (1 + (n - 1) / 3))  # each after the first is a third as hard
    found = emergence.ratio_by_length(emergence.compute_ratios(chain)).set_index("n")
    assert found.loc[100, "ratio"] == pytest.approx((1 + 99 / 3) / 100, rel=1e-3)
    assert found.loc[100, "effective"] == pytest.approx(34, rel=1e-3)


def test_windows_without_success_give_a_bound_only():
    counts = table(lambda n, size: n * single(size), windows=1000)
    found = emergence.compute_ratios(counts)
    none = found[found["successes"] == 0]
    assert none["ratio"].isna().all()
    assert none["ratio_low"].to_numpy() == pytest.approx(np.log(1000) / (none["n"] * none["single"]).to_numpy())
    assert set(emergence.ratio_by_length(found)["n"]).isdisjoint(none["n"])
    assert set(emergence.compare_exponents(counts)["n"]).isdisjoint(none["n"])


SIZES = np.geomspace(1e6, 1e10, 10)


def law(windows, scatter):
    rng = np.random.default_rng(0)
    parts = []
    for n in (1, 2, 5, 10, 50, 200):
        y = np.exp(2 + 0.6 * np.log(n) - 0.15 * np.log(SIZES) + scatter * rng.standard_normal(10))
        rows = {"model": np.arange(10).astype(str), "size": SIZES, "n": n, "windows": windows, "y": y}
        parts.append(pd.DataFrame(rows))
    table = pd.concat(parts, ignore_index=True).assign(dataset="d", family="f", k=1)
    return table.assign(successes=np.rint(windows * np.exp(-table["y"])).astype(int))


def test_the_power_of_n_is_that_of_least_squares_and_zeros_do_not_bend_it():
    table = law(windows=10**12, scatter=0.02)
    design = np.column_stack([np.ones(len(table)), np.log(table["n"]), -np.log(table["size"])])
    y = np.log(-np.log(table["successes"] / table["windows"]))
    least = np.linalg.lstsq(design, y, rcond=None)[0]
    (fit,) = emergence.powers_of_length(table).itertuples()
    assert (fit.constant, fit.length, fit.alpha) == pytest.approx(tuple(least), rel=1e-9)
    assert fit.length_low < 0.6 < fit.length_high
    assert emergence.powers_of_length(table[table["model"].isin(["0", "1", "2"])]).empty, "too few models"
    few = law(windows=20_000, scatter=0.05)
    assert (few["successes"] == 0).sum() >= 5
    (fit,) = emergence.powers_of_length(few).itertuples()
    assert (fit.alpha, fit.length) == pytest.approx((0.15, 0.6), abs=0.02)


def test_counts_and_ratios_are_those_of_a_loop(tmp_path):
    rng = np.random.default_rng(5)
    lengths = [40, 17, 90, 33, 61, 25, 44, 70, 38, 52, 29, 66]
    easy = np.repeat(rng.random(12), lengths) < 0.5  # documents differ, so windows are not independent
    greater = np.where(rng.random(sum(lengths)) < np.where(easy, 0.9, 0.5), 0, 9)
    store = make_store(tmp_path / "store", greater, lengths)
    found = emergence.ratios_by_document([store], ks=[1], lengths=[3, 12])
    (row,) = found.itertuples()  # 12 in a row succeed in fewer than ten documents
    parts = [greater[begin:end] == 0 for begin, end in pairwise(np.append(0, np.cumsum(lengths)))]
    succeed = sum(all(part[i : i + 3]) for part in parts for i in range(len(part) - 2))
    assert 1 < sum(any(all(part[i : i + 12]) for i in range(len(part) - 11)) for part in parts) < 10
    share = succeed / sum(len(part) - 2 for part in parts)
    assert row.successes == succeed
    assert row.low < row.ratio < row.high
    assert row.ratio == pytest.approx(np.log(share) / (3 * np.log((greater == 0).mean())), rel=1e-12)
