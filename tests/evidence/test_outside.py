import math
import shutil

import pytest

from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.evidence import open_source, outside

READERS = {
    "xlstm_runs.csv": (outside.xlstm_runs, 429),
    "lambada.csv": (outside.lambada, 685),
    "openlm.csv": (outside.openlm, 104),
}


def test_every_file_of_the_folder_has_a_reader():
    assert {path.name for path in outside.FOLDER.glob("*.csv")} == set(READERS)


@pytest.mark.parametrize("name", READERS)
def test_reads_all_rows_and_notes_the_file(name):
    reader, rows = READERS[name]
    with provenance.recording() as read:
        assert len(reader()) == rows
    assert read.files == {f"data/outside/{name}"}


def test_the_diverged_runs_are_those_that_the_readme_names():
    runs = outside.xlstm_runs()
    assert set(runs.loc[runs["diverged"], "run"]) == {"oantrap7", "3xm54vu7", "8sfzhgv2"}


def test_sizes_leave_both_embeddings_out():
    # A Llama block of width d has 4d² in attention, and 3 products of d with the inner width, a multiple of 64.
    runs = outside.xlstm_runs().query("architecture == 'Llama'")
    norms = (2 * runs["layers"] + 1) * runs["width"]
    inner = ((runs["size"] - norms) / runs["layers"] - 4 * runs["width"] ** 2) / (3 * runs["width"])
    assert (inner.round() % 64 == 0).all()
    assert (inner - inner.round()).abs().max() < 1e-9


def test_the_door_gives_both_metrics_of_each_run():
    table = open_source("outside").table
    run = table.query("model == 'r8uk96gf'").set_index("metric")["value"]
    assert run["neg_log_rbp"] == pytest.approx(-math.log(0.3793020259277952))
    assert run["cross_entropy"] == pytest.approx(3.3882310479235365)
    assert len(table) == 2 * (429 - 3)
    assert set(table["k"].dropna()) == {1}


@pytest.mark.parametrize(
    ("column", "change", "says"),
    [
        ("steps", lambda value: int(value) + 1, "training_tokens is not steps × batch × context"),
        ("accuracy", lambda value: float(value) + 1, "must lie between 0 and 1"),
        ("accuracy", lambda value: -float(value), "must lie between 0 and 1"),
        ("loss", lambda value: 0, "must be above 0"),
        ("layers", lambda value: 0, "must be at least 1"),
    ],
)
def test_a_line_that_cannot_be_is_named(tmp_path, column, change, says):
    folder = shutil.copytree(outside.FOLDER, tmp_path / "outside")
    lines = [line.split(",") for line in (folder / "xlstm_runs.csv").read_text().splitlines()]
    at = lines[0].index(column)
    lines[4][at] = str(change(lines[4][at]))
    (folder / "xlstm_runs.csv").write_text("\n".join(map(",".join, lines)) + "\n")
    with pytest.raises(DataError, match=says) as caught:
        outside.xlstm_runs(folder)
    assert "line 5" in caught.value.where
    assert "git checkout -- data/outside" in caught.value.remedy
