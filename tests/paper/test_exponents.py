"""Exponents over training, and over S and D: others' measurements, asked in more than one way."""

import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import ParameterError
from rbp.paper import exponents
from rbp.paper.figures.exponents import local_panels, training_panels


@pytest.fixture(scope="module")
def snapshots() -> pd.DataFrame:
    return exponents.snapshots()


def test_snapshots_are_whole_numbers_of_words_and_pythias_tokens(snapshots: pd.DataFrame) -> None:
    words = snapshots["accuracy"] * exponents.ITEMS
    assert words.to_numpy() == pytest.approx(words.round().to_numpy(), abs=1e-6)
    assert snapshots["training_tokens"].max() == 299_892_736_000  # the 300 B of the paper's Pythia
    assert snapshots.groupby("family")["model"].nunique().to_dict() == {"Pythia": 7, "Pythia deduped": 8}


def test_a_snapshot_without_a_success_has_no_exponent(snapshots: pd.DataFrame) -> None:
    fits = exponents.by_snapshot(snapshots)
    assert fits["step"].min() == 512  # where one of the deduplicated models knows two words, and the others none
    assert fits.loc[fits["family"] == "Pythia", "step"].min() == 1000


def test_a_change_compares_each_model_with_itself() -> None:
    size = np.geomspace(1e7, 1e10, 6)
    own = np.exp(np.random.default_rng(0).normal(0, 0.3, 6))  # what each model keeps
    y = {100: own * (size / 1e8) ** -0.1, 900: own * 0.5 * (size / 1e8) ** -0.25}
    rows = [pd.DataFrame({"size": size, "step": step, "accuracy": np.exp(-each)}) for step, each in y.items()]
    table = pd.concat(rows, ignore_index=True)
    grown = exponents.change(table, 100, 900)
    assert (grown.alpha, grown.alpha_low, grown.alpha_high) == pytest.approx((0.15, 0.15, 0.15), abs=1e-9)
    with pytest.raises(ParameterError, match="step 500"):
        exponents.change(table, 100, 500)


def test_intervals_of_the_runs_are_wider_by_sweeps_than_by_runs() -> None:
    llama = exponents.runs()
    found = {unit: exponents.with_intervals(llama, unit, ["rank"]).set_index("quantity") for unit in ("sweep", "width")}
    assert found["sweep"].loc["rank.alpha", "estimate"] == found["width"].loc["rank.alpha", "estimate"]
    assert found["sweep"].loc["rank.alpha", "units"] == 4
    with pytest.raises(ParameterError, match="no runs of 'GPT'"):
        exponents.runs("GPT")


def test_figures_have_a_panel_for_each_question(snapshots: pd.DataFrame) -> None:
    fits = exponents.by_snapshot(snapshots)
    panels = training_panels(snapshots, fits, "Pythia deduped", [3000, 7, 143000])  # there is no step 7
    left, right = (panels.single(key).axes[0] for key in panels.keys)
    assert len(left.lines) == 2 * 2
    assert {text.get_text() for text in left.texts} == {"3,000", "143,000"}
    assert "Pythia" in {text.get_text() for text in right.get_legend().get_texts()}
    runs = exponents.openlm()
    curves = {"OpenLM": exponents.local_exponents(runs, "lambada", [1e8], exponents.ITEMS)}
    (ax,) = local_panels(curves, {"OpenLM": exponents.at_ratios(runs)}).single("OpenLM").axes
    assert ax.lines[0].get_ydata() == pytest.approx(curves["OpenLM"]["at_d"])
