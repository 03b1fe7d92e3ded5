"""The fits against the paper's printed numbers, read from the files themselves and not through the loaders."""

import numpy as np
import pandas as pd
import pytest

from rbp.core.paths import DATA
from rbp.stats.cells import fit_table
from rbp.stats.power_law import fit_power_law

PUBLISHED = DATA / "published"
THREE_DIGITS = 0.0005 + 1e-9
MODELS = pd.read_csv(PUBLISHED / "models.csv").rename(columns={"non_embedding_params": "size"})
TABLE1 = pd.read_csv(PUBLISHED / "table1.csv")


def with_sizes(points: pd.DataFrame) -> pd.DataFrame:
    return points.merge(MODELS[["model", "family", "size"]], on="model", validate="many_to_one")


def curves() -> pd.DataFrame:
    rbp = pd.read_csv(PUBLISHED / "rbp.csv").rename(columns={"neg_log_rbp": "value"})
    rbp = rbp.sort_values("source").drop_duplicates(["dataset", "model", "k"])
    return with_sizes(rbp)


def added() -> pd.DataFrame:
    """Thresholds above 100 and cross-entropies of Wikipedia, which stand in other files."""
    windows = pd.read_csv(PUBLISHED / "sequence_success.csv").query("n == 1 and k in (500, 2500, 10000)")
    counts = pd.read_csv(PUBLISHED / "gpt2_window_counts.csv").query("n == 1 and k == 10000")
    pythia = pd.read_csv(PUBLISHED / "cross_entropy_vs_rbp1.csv").query(
        "kind == 'empirical' and metric == 'cross_entropy'"
    )
    gpt2 = pd.read_csv(PUBLISHED / "gpt2_cross_entropy.csv")
    parts = [
        windows.assign(value=-np.log(windows["p_success"])),
        counts.assign(value=-np.log(counts["successes"] / counts["windows"])),
        pythia,
        gpt2.assign(value=gpt2["cross_entropy"]),
    ]
    return with_sizes(pd.concat([p[[c for c in ("dataset", "model", "k", "value") if c in p]] for p in parts]))


def beside_table1(points: pd.DataFrame) -> pd.DataFrame:
    ours = fit_table(points).query("alpha.notna()")
    ours["k"] = ours["k"].astype(float)
    return TABLE1.merge(ours, on=["dataset", "family", "k"], suffixes=("_printed", ""))


def missed(cells: pd.DataFrame) -> list[str]:
    """The numbers that do not round to the printed ones, "dataset family k: name"."""
    cells = cells.assign(slope_printed=cells["slope"], slope=-cells["alpha"])
    return [
        f"{cell['dataset']} {cell['family']} {cell['k']:g}: {name}"
        for _, cell in cells.iterrows()
        for name in ("r_squared", "slope")
        if abs(cell[name] - cell[f"{name}_printed"]) > THREE_DIGITS
    ]


def test_all_96_numbers_of_table_1_with_points_are_met() -> None:
    cells = beside_table1(curves().query("k in (1, 10, 100)"))
    assert len(cells) == 48  # 4 datasets × 3 thresholds × 4 families, two numbers each
    assert missed(cells) == []


def test_of_the_12_added_numbers_all_are_met_but_one() -> None:
    cells = beside_table1(added())
    assert len(cells) == 6
    # The exact counts give R² = 0.915511 where 0.915 is printed, 1.1e-5 past the rounding edge. One token more or
    # fewer in the top 10 000 moves it by 0.0015; counts divided and rounded to six digits give 0.91543.
    assert missed(cells) == ["wikipedia GPT-2 10000: r_squared"]
    cell = cells.query("family == 'GPT-2' and k == 10000").iloc[0]
    assert cell["r_squared"] == pytest.approx(0.915511, abs=1e-6)


def test_figure_6_is_met_where_every_pythia_model_was_published() -> None:
    printed = pd.read_csv(PUBLISHED / "fit_by_k.csv").query("k in (1, 10, 50, 100, 20000, 30000)")
    points = curves().query("family == 'Pythia'")
    compared = 0
    for row in printed.itertuples():
        cell = points[(points["dataset"] == row.dataset) & (points["k"] == row.k)]
        if cell.empty:  # HumanEval has no points at k = 20 000 and 30 000
            assert row.dataset == "humaneval"
            continue
        assert len(cell) == 10
        fit = fit_power_law(cell["size"], cell["value"])
        assert fit.r_squared == pytest.approx(row.r_squared, abs=2e-5), row
        if not np.isnan(row.slope):
            assert fit.slope == pytest.approx(row.slope, abs=2e-5), row
        compared += 1
    assert compared == 22
