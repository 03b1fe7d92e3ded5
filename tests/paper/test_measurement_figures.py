from rbp.evidence import open_source
from rbp.paper.appendix.data import coverage, coverage_panels
from rbp.paper.see import figure_1_shown


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


def test_coverage_counts_models_and_knows_how_many_there_could_be():
    counted = coverage(open_source("published").table)
    own = counted.query("dataset == 'wikipedia' and family == 'Pythia'")
    assert own[own["k"] == 1][["models", "of"]].to_numpy().tolist() == [[10, 10]]
    assert own[own["k"].isna()]["models"].tolist() == [10]
    assert own[own["k"] == 2][["models", "of"]].to_numpy().tolist() == [[4, 10]]
    assert counted.query("dataset == 'humaneval' and family == 'Pythia' and k == 20000").empty
    grid = coverage_panels(counted).single("humaneval")
    assert sorted(set(texts(grid))) == ["10", "4", "5"]


def test_columns_of_the_grid_are_in_the_order_of_k():
    counted = coverage(open_source("published").table)
    ax = coverage_panels(counted).single("wikipedia").axes[0]
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels[-1] == "CE"
    assert [int(label) for label in labels[:-1]] == sorted(set(open_source("published").table["k"].dropna()))


def test_the_truth_carries_its_rank():
    figure = figure_1_shown()["figure"]
    assert "0.28  truth, rank 3" in texts(figure.single("Outranked"))
    assert "0.28  truth, rank 1" in texts(figure.single("First"))
