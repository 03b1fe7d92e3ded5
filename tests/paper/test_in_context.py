"""Exponents in position, of made-up sums whose laws are known, and by hand."""

import numpy as np
import pandas as pd
import pytest

from rbp.ladder.positions import edges
from rbp.paper.training import in_context

UNITS, TOKENS, KS = 7, 1e9, (1, 100)
RUNGS = {"10k": 1e4, "59k": 6e4, "390k": 4e5}
FIRST = edges(256)[:-1]
PLACE = np.sqrt(FIRST * (edges(256)[1:] - 1.0))


def sums(law, families=("neox", "lstm"), texts=("wikipedia", "auslegal")) -> pd.DataFrame:
    """Expected sums where y = law(family, size, position, k); a unit is easier or harder for all."""
    ease = np.exp(np.random.default_rng(0).normal(0, 0.05, UNITS))
    rows = []
    for text in texts:
        for family in families:
            for rung, size in RUNGS.items():
                for unit in range(UNITS):
                    for first, place in zip(FIRST, PLACE, strict=True):
                        y = {k: law(family, size, place, k) * ease[unit] for k in (None, *KS)}
                        row = {"model": f"{family}-{rung}-at-8m", "dataset": text, "unit": unit, "first": int(first)}
                        row |= {"tokens": TOKENS, "positions": TOKENS * np.log(place), "nll": TOKENS * y[None]}
                        rows.append(row | {f"hits_{k}": TOKENS * np.exp(-y[k]) for k in KS})
    return pd.DataFrame(rows)


def models(families=("neox", "lstm")) -> pd.DataFrame:
    each = [(f"{f}-{rung}-at-8m", f, rung, int(size)) for f in families for rung, size in RUNGS.items()]
    return pd.DataFrame(each, columns=["model", "family", "rung", "size"])


def power(family, size, place, k):
    steeper = 1 if k is None else k**0.1
    return 3 * size ** (-0.08 * steeper) * place ** (-0.05 * steeper)


def floored(family, size, place, k):
    """Transformers go on falling; what an LSTM remembers ends at once."""
    return size**-0.08 * (1 + 2 * place**-0.7) if family == "neox" else size**-0.08 * (2 + 9 * place**-2.5)


@pytest.mark.parametrize("law", [power, floored])
def test_the_exponents_are_those_of_the_law_that_made_the_curves(law) -> None:
    found = in_context.by_position(sums(law), models())
    assert [curve.dataset for curve in found[:6]] == ["wikipedia"] * 6
    table = in_context.in_position(found)
    assert len(table) == len(found) * 3 == 36
    for row in table.itertuples():
        k = None if pd.isna(row.k) else int(row.k)
        if law is power:
            wanted = 0.05 * (1 if k is None else k**0.1)
            np.testing.assert_allclose([row.alpha, row.late], wanted, rtol=2e-2)
            assert row.share < 0.02 or row.above < 0.2
        else:
            a, share = (0.7, 1 / (1 + 2 * PLACE[-1] ** -0.7)) if row.family == "neox" else (2.5, 1)
            np.testing.assert_allclose([row.above, row.share], [a, share], rtol=1e-2)
            assert row.explained > 0.99
        assert row.low <= row.alpha <= row.high
        assert row.late_low <= row.late <= row.late_high
    size = in_context.in_size(found).set_index(["dataset", "family", "k"])["alpha"]
    assert len(size) == 12
    for (_, _, k), alpha in size.items():
        assert alpha == pytest.approx(0.08 * (k**0.1 if pd.notna(k) and law is power else 1), rel=1e-2)


def test_a_curve_and_its_intervals_are_those_counted_by_hand() -> None:
    table = sums(power, texts=("wikipedia",))
    table["tokens"] *= 1 + table["unit"]  # and so easier or harder than before
    (curve, *_) = in_context.by_position(table, models(["lstm"]))
    own = table[(table["model"] == "lstm-10k-at-8m") & (table["first"] == FIRST[-1])]
    y = [
        np.log(-np.log(s["hits_100"].sum() / s["tokens"].sum()))
        for s in (own, *(own[own["unit"] != u] for u in range(UNITS)))
    ]
    np.testing.assert_allclose(curve.y[100][:, -1], y)
    ce = np.log(own["nll"].sum() / own["tokens"].sum())
    assert curve.y[None][0, -1] == pytest.approx(ce)
    assert {each.rung for each in in_context.by_position(table, models(["lstm"]))} == set(RUNGS)


def test_what_decides_the_claims_follows_from_the_curves() -> None:
    found = in_context.by_position(sums(power), models())
    table, size = in_context.in_position(found), in_context.in_size(found)
    told = in_context.k_decides(table, size)
    assert {name: told[name] for name in ("cells", "alike", "position_grows", "size_grows")} == {
        "cells": 4, "alike": 4, "position_grows": 4, "size_grows": 4,
    }  # fmt: skip
    assert told["position_times"] == pytest.approx(100**0.1, rel=0.02)
    swapped = size.assign(alpha=-size["alpha"])
    assert in_context.k_decides(table, swapped) | {"alike": 0, "size_grows": 0, "cells": 4} == in_context.k_decides(
        table, swapped
    )
    same = in_context.memory_decides(in_context.late_apart(found, 1), table, 1)
    assert (same["pairs"], same["surely"]) == (6, 0)
    found = in_context.by_position(sums(floored), models())
    apart = in_context.late_apart(found, 1)
    told = in_context.memory_decides(apart, in_context.in_position(found), 1)
    assert (told["pairs"], told["flatter"], told["surely"]) == (6, 6, 6)
    late = [np.log(floored(f, 1, PLACE[-3], 1) / floored(f, 1, PLACE[-1], 1)) for f in ("lstm", "neox")]
    wanted = np.array(late) / np.log(PLACE[-1] / PLACE[-3])
    np.testing.assert_allclose([told["lstm"], told["transformer"]], wanted, rtol=0.02)
    assert apart["estimate"].to_numpy() == pytest.approx(wanted[0] - wanted[1], rel=0.02)


def test_a_page_shows_every_curve_and_exponent() -> None:
    found = in_context.by_position(sums(floored), models())
    table, size = in_context.in_position(found), in_context.in_size(found)
    shown = in_context.positions_shown(found, 1)
    panels = shown["figure"].keys
    assert len(panels) == 4
    assert len(shown["figure"].single(panels[0]).axes[0].lines) >= 3
    assert len(in_context.exponents_shown(table, size, level=0.95)["table"]) == len(table)
    told = in_context.told(table, size)
    assert told["curves"] == 36
    assert told["position.neox.k1"] > 0 < told["late.lstm.ce"] + 1
