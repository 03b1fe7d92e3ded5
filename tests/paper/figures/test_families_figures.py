"""Figures and tables of the families can be drawn and shown, of made-up ones."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rbp.book.figure_style import Panels
from rbp.paper import elsewhere
from rbp.paper.appendix import predictions
from rbp.paper.families import TRANSFORMER
from rbp.paper.families import points as points_of
from rbp.paper.figures import families as figures
from rbp.paper.two_metrics import pair_metrics

sys.path.append(str(Path(__file__).parents[1]))
from made_grid import additive, make


@pytest.fixture(scope="module")
def texts():
    documents = {"wikipedia": 4, "humaneval": 5}

    def steeper(size, tokens, k=1):
        return additive(size, tokens, k) * (size / 1e5) ** -0.01

    return make({TRANSFORMER: additive, "lstm": steeper}, families=(TRANSFORMER, "lstm"), texts=documents)


def drawn(panels: Panels, keys: list[str]) -> None:
    assert list(panels.keys) == keys
    assert all(panels.single(key).axes for key in panels.keys)


def test_families_side_by_side(texts):
    beside = elsewhere.exponents_beside(texts, "lstm", [1])
    apart = elsewhere.offsets(texts, "lstm", [1])
    assert len(elsewhere.beside_shown(beside, level=0.95)["table"]) == 4
    assert len(elsewhere.offsets_shown(apart, level=0.95)["table"]) == len(apart)
    curve = pair_metrics(pd.concat([points_of(texts, [1], family) for family in (TRANSFORMER, "lstm")]))
    drawn(elsewhere.equal_shown(curve, 1)["figure"], ["wikipedia", "humaneval"])
    kinds = {"view": "since", "bin": [0, 4], "kind": ["<16", "never"], "difference": [1.0, -2.0]}
    tokens = pd.DataFrame({"dataset": "wikipedia", **kinds, "low": [0.5, -3.0], "high": [1.5, -1.0]})
    drawn(elsewhere.tokens_shown(tokens, 1, "LSTM", level=0.95)["figure"], ["since"])
    sums = {"greater": [0, 0, 9], "equal": [1, 4, 1], "tokens": [5, 3, 2]}
    sums = pd.DataFrame({"model": "ngrams-2-at-8m", "dataset": "wikipedia", **sums})
    ties = elsewhere.ties(pd.DataFrame([{"model": "ngrams-2-at-8m", "family": "ngrams", "size": 7}]), sums, [1, 3])
    drawn(elsewhere.rules_shown(ties)["figure"], ["wikipedia"])
    assert elsewhere.ties_shown(elsewhere.spread_by_rule(ties))["table"].iloc[0, 2] == pytest.approx(30)


def test_two_ladders_beside_one_another():
    sizes = np.geomspace(1e4, 1e6, 5)
    rows = {"dataset": "wikipedia", "size": [*sizes, *sizes], "residual": np.tile([0.01, -0.02, 0.02, -0.01, 0], 2)}
    drawn(figures.zigzag_panels(pd.DataFrame({**rows, "ladder": ["first"] * 5 + ["this"] * 5})), ["wikipedia"])


def test_the_score(texts):
    table, level = predictions.read_predictions()
    middle = table.middle.where(table.index % 3 > 0, table.high + 1)
    came = table.assign(outcome=middle.where(table.kind != predictions.EVENT, 1.0), untested="")
    tested, names = predictions.scored(came, level), predictions.described(table)
    assert figures.score_figure(tested, predictions.KINDS, level).axes
    assert len(figures.predictions_shown(tested, names)["table"]) == len(table)
    assert len(figures.untested_shown(came[:3], names)["table"]) == 3
    assert len(figures.kinds_shown(predictions.by_kind(came, tested))["table"]) == table.kind.nunique()
