"""Fits by threshold: which models serve where, and the steps of the exponent."""

import pandas as pd

from companion.stats.compare import paired_exponents
from companion.stats.subsets import chains, fit_thresholds, set_points, steps
from rbp.laws.power import fit_power_law

SIZES = [10**7, 10**8, 10**9, 10**10, 10**11]


def _table(alpha: dict[int, float], missing: dict[int, set[int]] | None = None) -> pd.DataFrame:
    """One family of five models: −ln RBP_k = S^(−alpha[k]), a little off the line; `missing[k]` are left out."""
    wobble = [1.02, 0.99, 1.01, 0.97, 1.0]
    rows = [
        ("d", "F", f"m{i}", size, k, size**-exponent * wobble[(i * (k + 1)) % 5])
        for k, exponent in alpha.items()
        for i, size in enumerate(SIZES)
        if i not in (missing or {}).get(k, set())
    ]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "value"])


def test_sets_never_mix_models() -> None:
    """k = 2 lacks one model: it serves only the common set, and k = 500 only the set of all."""
    sets = set_points(_table({1: 0.1, 2: 0.12, 10: 0.15, 500: 0.2}, {2: {4}}))
    served = {key: set(rows["model"]) for key, rows in sets.groupby(["models", "k"])}
    every = {f"m{i}" for i in range(5)}
    assert served == {("all", k): every for k in (1, 10, 500)} | {("common", k): every - {"m4"} for k in (1, 2, 10)}


def test_fits_are_those_of_the_set() -> None:
    table = _table({1: 0.1, 2: 0.12}, {2: {4}})
    fits = fit_thresholds(table).set_index(["models", "k"])
    own = table[(table["k"] == 1) & (table["model"] != "m4")]
    assert fits.loc[("common", 1), "alpha"] == fit_power_law(own["size"], own["value"]).alpha
    assert fits.loc[("all", 1), "n"] == 5
    assert ("all", 2) not in fits.index


def test_steps_are_paired_differences() -> None:
    table = _table({1: 0.1, 10: 0.2, 100: 0.15})
    found = steps(table)
    at = {k: rows.sort_values("model") for k, rows in table.groupby("k")}
    paired = paired_exponents(at[10]["size"], at[10]["value"], at[1]["value"])
    first = found.iloc[0]
    assert (first["k"], first["next_k"], first["difference"], first["low"]) == (1, 10, paired.difference, paired.low)
    summed = chains(found).iloc[0]
    assert (summed["steps"], summed["falling"], summed["surely_falling"]) == (2, 1, 1)
    assert chains(steps(table[table["k"] == 1])).empty
    one = table[table["k"] == 1]
    assert steps(pd.concat([one, one.assign(k=10, value=one["value"] / 2)])).empty  # no scatter about no change
