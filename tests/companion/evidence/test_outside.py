import math

import pandas as pd
import pytest
from test_published import READERS as PUBLISHED

from companion.evidence import outside, published
from companion.project import Project
from rbp import provenance
from rbp.errors import DataError, ParameterError
from rbp.measurements import open_source, select

READERS = {
    "xlstm_runs.csv": (outside.xlstm_runs, 429),
    "lambada.csv": (outside.lambada, 685),
    "image_models.csv": (outside.image_models, 4668),
    "image_models_blind.csv": (outside.blind_image_models, 4668),
    "pythia_math_tries.csv": (outside.problem_tries, 9097),
}
FILES = sorted(path.name for module in (outside, published) for path in module.FOLDER.glob("*.csv"))


@pytest.mark.parametrize("name", FILES)
def test_every_file_has_a_reader_of_all_its_rows_which_notes_it(name):
    reader, rows = (READERS | PUBLISHED)[name]
    with provenance.recording() as read:
        assert len(reader()) == rows
    beside = {"data/published/models.csv"} if name in PUBLISHED else set()
    own = f"data/{'published' if name in PUBLISHED else 'outside'}/{name}"
    assert {own} <= set(map(Project().label, read.files)) <= {own} | beside


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


@pytest.mark.parametrize(
    ("name", "column", "value", "says"),
    [
        ("xlstm_runs.csv", "steps", "1", "training_tokens is not steps × batch × context"),
        ("pythia_math_tries.csv", "correct", "99999999", "more were right than were tried"),
    ],
)
def test_a_line_that_cannot_be_is_named(tmp_path, name, column, value, says):
    lines = [line.split(",") for line in (outside.FOLDER / name).read_text().splitlines()[:20]]
    lines[4][lines[0].index(column)] = value
    (tmp_path / name).write_text("\n".join(map(",".join, lines)) + "\n")
    with pytest.raises(DataError, match=says) as caught:
        READERS[name][0](tmp_path)
    assert "line 5" in caught.value.where
    assert "git checkout -- data/outside" in caught.value.remedy
