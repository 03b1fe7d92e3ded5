"""What the chapter on data counts and sets beside the paper."""

import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.evidence import open_source, select
from rbp.evidence.tokens import tokens_behind
from rbp.paper.appendix import data

SIZES = [10**6, 10**7, 10**8, 10**9]


def points(alphas: dict[int, float], family: str = "Toy") -> pd.DataFrame:
    """Exact laws, −ln RBP_k = 2·S^(−α), at the k of `alphas`."""
    rows = [("new", family, f"m{s}", s, "neg_log_rbp", k, 2 * s**-alpha) for k, alpha in alphas.items() for s in SIZES]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "metric", "k", "value"])


def test_counting_knows_a_point_to_one_over_the_root_of_its_misses() -> None:
    own = points({1: 0.5}).assign(tokens=pd.NA, family="Pythia")
    tokens = pd.DataFrame({"dataset": ["new"], "family": ["Pythia"], "tokens": [10**9], "basis": ["counted"]})
    known = data.with_counting_error(data.published_points(own), tokens)
    few = known[known["value"] < 0.001]
    assert few["relative_se"].to_numpy() == pytest.approx(few["misses"].to_numpy() ** -0.5, rel=1e-3)
    with pytest.raises(DataError, match="no number of tokens"):
        data.with_counting_error(own, tokens[:0])
    with pytest.raises(DataError, match="none of their families"):
        data.published_points(own.assign(family="Other"))


def test_the_setup_beside_the_paper() -> None:
    points = select(open_source("published").table, metric="neg_log_rbp")
    recovered = tokens_behind(points[points["dataset"] == "wikipedia"])
    table = data.setup_shown(points, points.drop_duplicates("model"), recovered)["table"].set_index("what")
    assert table.loc["models", "ours"] == "24"
    assert table.loc["vocabulary, OPT", ["printed", "ours"]].tolist() == ["50,272", "50,272"]
    assert table.loc["vocabulary, Pythia", "ours"] == "50,304 or 50,432 or 50,688"
