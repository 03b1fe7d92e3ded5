"""What a rerun answers, against tables made by hand."""

from pathlib import Path

import pandas as pd
import pytest

from companion import prose, rerun
from companion.comparison import compare
from companion.parameters import declared, sweeps
from companion.project import Project
from companion.results import Recorded
from companion.run import copied_names, find, with_names
from rbp.report import law

SIZES = (10**6, 10**7, 10**8, 10**9)
VALUES = {
    1: [s**-0.1 for s in SIZES],  # a power law that falls
    10: [s**0.05 for s in SIZES],  # one that rises
    100: [4.0, 3.9, 3.8, 1.5],  # falls, but is bent: R² is 0.71
    1000: [1.0, 0.5, 1.1, 0.9],  # neither
}


def write(path, families, ks=(1, 10, 100, 1000)):
    """A table of one dataset: each family has the VALUES times its factor, and a cross-entropy that falls."""
    rows: list[tuple[object, ...]] = [
        ("text", f"{family}-{size}", family, size, "neg_log_rbp", k, factor * value)
        for family, factor in families.items()
        for k in ks
        for size, value in zip(SIZES, VALUES[k], strict=True)
    ]
    rows += [("text", f"{f}-{s}", f, s, "cross_entropy", None, 9 * s**-0.08) for f in families for s in SIZES]
    columns = ["dataset", "model", "family", "size", "metric", "k", "value"]
    pd.DataFrame(rows, columns=columns).astype({"k": "Int64"}).to_csv(path, index=False)
    return str(path)


def fitted(path, **values):
    chapter = find(Project(), "holds")
    return rerun.fit_laws(chapter, chapter.effective({"measurements": path} | values))


def test_each_family_and_k_has_its_verdict(tmp_path):
    laws = fitted(write(tmp_path / "mine.csv", {"F": 1.0}))
    assert list(law.verdicts(laws.fits)) == [law.HOLDS, law.RISES, law.OPEN, law.OPEN, law.HOLDS]
    assert laws.fits["alpha"].iloc[[0, 1, 4]].tolist() == pytest.approx([0.1, -0.05, 0.08])
    assert law.summary(laws.fits) == [
        "For −ln RBPₖ the law holds in 1 of 4 cases of family, dataset and k. In 1 it fails: larger models are worse. "
        "In 2 it is open: the interval of α contains 0.",
        "For cross-entropy the law holds in 1 of 1 cases of family and dataset.",
    ]
    bent = fitted(write(tmp_path / "mine.csv", {"F": 1.0}), level=0.5).fits
    assert list(law.verdicts(bent))[2] == law.BENT


def test_what_was_not_requested_or_not_measured_is_said(tmp_path):
    path = write(tmp_path / "mine.csv", {"F": 1.0})
    assert fitted(path).notes == ()
    laws = fitted(path, ks=[1, 7])
    assert laws.notes == (
        "k = 7: requested, but not measured.",
        "k = 10, 100, 1000: measured, but not requested by the parameter ks.",
    )
    assert laws.fits["k"].dropna().tolist() == [1]


def test_sentences_that_no_longer_apply_are_counted_and_shown():
    text = "# T\n\nIt is {value}`same`. **Of the fits, {value}`few:of all` hold ({numref}`x`).**"
    text += " In GPT-2 {value}`gone:.1f` rise.\n\n## Exercises\n\n1. Is it {value}`same`?\n"
    cells = [{"cell_type": "markdown", "source": [text]}]
    book = {"one": {"same": Recorded(1), "few": Recorded(3), "all": Recorded(4), "gone": Recorded(0.5)}}
    run = {"same": Recorded(1), "few": Recorded(0, data="yours"), "all": Recorded(4, data="yours")}
    chapter = type("Chapter", (), {"name": "one", "notebook": {"cells": cells}})()
    said = rerun.sentences(chapter, book, run)
    assert "Of the 3 sentences with numbers of this chapter, 1 apply unchanged" in said
    assert "1 have other numbers in this run, and this run lacks 1." in said
    for cell in ("Of the fits, 3 of 4 hold.", "0 of 4", "yours", "not in this run"):
        assert f">{cell}</td>" in said
    assert prose.fill_in(text, "one", book, run).count("this run") == 2
    assert "3 of 4 (this run: 0 of 4)" in prose.fill_in(text, "one", book, run)


def test_several_values_make_several_runs():
    cell = 'measurements: str = "published"  # whose\nlevel: float = 0.95  # level\nks: list[int] = []  # k\n'
    parameters = declared(cell, "one")
    assert sweeps(parameters, [], "one") == [{}]
    assert sweeps(parameters, ["level=0.8,0.9", "ks=1,2"], "one") == [
        {"level": 0.8, "ks": [1, 2]},
        {"level": 0.9, "ks": [1, 2]},
    ]
    both = ["measurements=a.csv,b.csv", "measurements=c.csv"]
    assert sweeps(parameters, both, "one") == [{"measurements": "a.csv,b.csv"}, {"measurements": "c.csv"}]


def test_runs_are_compared_by_family_dataset_and_k(tmp_path):
    one = write(tmp_path / "one.csv", {"F": 1.0, "G": 2.0}, (1, 10))
    other = write(tmp_path / "other.csv", {"G": 3.0, "H": 1.0}, (10,))
    chapter = find(Project(), "holds")
    table = compare(chapter, [{"measurements": one}, {"measurements": other}], tmp_path / "compared.html")
    rows = {tuple(row[:3]): tuple(row[3:]) for row in table.itertuples(index=False)}
    assert rows["G", "text", "k = 10"] == (f"−0.050 [−0.050, −0.050], R² 1.000: {law.RISES}",) * 2
    assert rows["F", "text", "k = 1"][0].startswith("0.100 ")
    assert rows["F", "text", "k = 1"][1] == rows["H", "text", "k = 10"][0] == "–"
    assert pd.read_csv(tmp_path / "compared.csv")["alpha | other.csv"].notna().sum() == 4


def test_a_run_is_named_by_what_its_files_hold_and_takes_them_along(tmp_path):
    chapter = find(Project(), "holds")
    (tmp_path / "uploads").mkdir()
    one, other = (Path(write(tmp_path / p, {"F": 1.0})) for p in ("mine.csv", "uploads/0123abcd-mine.csv"))
    values = {"measurements": f"{one},{other},published", "level": 0.8}
    assert chapter.readers_own(values) == [one, other]
    assert chapter.in_words(values) == "measurements = mine.csv, mine.csv, published; level = 0.8"
    names = copied_names(chapter, values)
    assert names == {one: "inputs/mine.csv", other: "inputs/1-mine.csv"}
    assert with_names(chapter, values, names)["measurements"] == "inputs/mine.csv,inputs/1-mine.csv,published"
    before = chapter.short_hash(values)
    assert chapter.short_hash(values) == before != chapter.short_hash(values, "other code")
    write(one, {"F": 1.5})
    assert chapter.short_hash(values) != before
