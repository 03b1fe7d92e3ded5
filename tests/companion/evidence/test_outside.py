"""Published tables, of the paper and of others: what their rows mean, and lines that cannot be."""

import math
import shutil

import pandas as pd
import pytest

from companion.evidence import outside, published
from rbp.errors import DataError, ParameterError
from rbp.measurements import open_source, select


def test_the_door_gives_both_metrics_of_each_run():
    table = open_source("outside").table
    run = table.query("model == 'r8uk96gf'").set_index("metric")["value"]
    assert run["neg_log_rbp"] == pytest.approx(-math.log(0.3793020259277952))
    assert run["cross_entropy"] == pytest.approx(3.3882310479235365)
    assert len(table) == 2 * (429 - 3)
    assert set(table["k"].dropna()) == {1}


def test_a_chance_in_k_tries_is_that_of_drawing_without_putting_back():
    n, c = pd.Series([10, 10, 4, 128]), pd.Series([3, 0, 4, 1])
    by_hand = [1 - math.comb(7, 4) / math.comb(10, 4), 0.0, 1.0, 4 / 128]
    assert outside.pass_at(4, n, c) == pytest.approx(by_hand)
    assert math.isnan(outside.pass_at(11, n, c)[0])  # ten samples do not tell


def test_tries_are_no_ranks():
    table = open_source("tries").table
    assert set(table.metric) == {"neg_log_pass"}
    raw = outside.problem_tries().query("model == 'pythia-1b' and training_tokens == '300B'")
    mean = (raw.correct / raw.samples).sum() / 128
    own = table.query("model == 'EleutherAI/pythia-1b@300B' and k == 1")
    assert own.value.item() == pytest.approx(-math.log(mean))
    with pytest.raises(ParameterError, match="no measurement with metric neg_log_rbp"):
        select(table, metric="neg_log_rbp")


IMPOSSIBLE = [
    (published.rbp, "rbp.csv", "neg_log_rbp", "-0.4", "neg_log_rbp -0.4 must be above 0"),
    (published.rbp, "rbp.csv", "model", "gpt2", "unknown model 'gpt2'"),
    (published.gpt2_window_counts, "gpt2_window_counts.csv", "successes", "999999999", "more successes than windows"),
    (published.models, "models.csv", "non_embedding_params", "85056001", "do not add up"),
    (outside.xlstm_runs, "xlstm_runs.csv", "steps", "1", "training_tokens is not steps × batch × context"),
    (outside.problem_tries, "pythia_math_tries.csv", "correct", "99999999", "more were right than were tried"),
]


@pytest.mark.parametrize(("reader", "name", "column", "value", "says"), IMPOSSIBLE)
def test_a_line_that_cannot_be_is_named(tmp_path, monkeypatch, reader, name, column, value, says):
    folder = outside.FOLDER if reader.__module__ == outside.__name__ else published.FOLDER
    shutil.copy(published.FOLDER / "models.csv", tmp_path)
    lines = [line.split(",") for line in (folder / name).read_text().splitlines()[:20]]
    lines[4][lines[0].index(column)] = value
    (tmp_path / name).write_text("\n".join(map(",".join, lines)) + "\n")
    for module in (outside, published):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(DataError, match=says) as caught:
        reader()
    assert f"{name}, line 5" in str(caught.value)
    assert f"git checkout -- data/{folder.name}" in caught.value.remedy
