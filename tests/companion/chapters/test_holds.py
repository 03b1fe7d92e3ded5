import numpy as np
import pandas as pd
import pytest

from companion.chapters import holds
from rbp.laws.table import fit_table

SIZES = [10**6, 10**7, 10**8, 10**9]


def points(alphas, family="Toy"):
    """Exact laws, −ln RBP_k = 2·S^(−α), at the k of `alphas`."""
    rows = [("new", family, f"m{s}", s, "neg_log_rbp", k, 2 * s**-alpha) for k, alpha in alphas.items() for s in SIZES]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "metric", "k", "value"])


def test_a_summary_of_fits_is_counted_by_hand():
    bent = points({1: 0.1, 100: 0.2}).assign(family="Bent")
    bent = bent.assign(value=bent["value"] * np.where(bent["k"] == 100, [1, 2, 1, 2, 1, 2, 1, 2], 1))
    own = pd.concat([points({1: 0.1, 100: 0.2, 20_000: -0.1}), bent])
    values = holds.fit_summary(own, fit_table(own))
    assert [values[key] for key in ("fits", "high", "large.fits", "large.low")] == [4, 3, 1, 0]
    assert [values[key] for key in ("steps.k1", "falls.k1", "steps.to_100", "falls.to_100")] == [6, 6, 6, 4]
    assert values["cut_min"] == pytest.approx(100 * (1 - 10**-0.1))
    assert [values[key] for key in ("moderate.high", "moderate.fits")] == [1, 2]
    assert not any(key.startswith("large.") for key in holds.fit_summary(bent, fit_table(bent)))


def test_the_rival_is_a_line_in_the_logarithm_of_size():
    own = points({1: 0.2})
    line = own.assign(value=3 - 0.1 * np.log(own["size"]))
    assert holds.fit_logarithms(line)["r_squared"].item() == pytest.approx(1)
    assert holds.fit_summary(line, fit_table(line))["beats_logarithm"] == 0
    steep = own.assign(value=[1, 0.01, 0.001, 0.0001])  # the line falls below 0, where there is no logarithm
    assert holds.fit_logarithms(steep)["r_squared"].isna().all()
    assert holds.fit_summary(steep, fit_table(steep))["beats_logarithm"] == 1
