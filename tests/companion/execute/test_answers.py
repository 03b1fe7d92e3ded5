"""What a rerun answers, against tables made by hand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from companion.chapters import noise
from companion.execute import prose, rerun
from companion.execute.comparison import compare, difference
from companion.execute.results import Recorded
from companion.execute.run import copied_names, find, with_names
from companion.project import Project
from rbp import provenance
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
    path = write(tmp_path / "mine.csv", {"F": 1.0, "G": 2.0})
    laws = fitted(path, families=["F"])
    assert list(law.verdicts(laws.fits)) == [law.HOLDS, law.RISES, law.OPEN, law.OPEN, law.HOLDS]
    assert laws.fits["alpha"].iloc[[0, 1, 4]].tolist() == pytest.approx([0.1, -0.05, 0.08])
    assert law.summary(laws.fits) == [
        "For −ln RBPₖ the law holds in 1 of 4 cases of family, dataset and k. In 1 it fails: larger models are worse. "
        "In 2 it is open: the interval of α contains 0.",
        "For cross-entropy the law holds in 1 of 1 cases of family and dataset.",
    ]
    bent = fitted(path, families=["F"], level=0.5).fits
    assert list(law.verdicts(bent))[2] == law.BENT
    both = fitted(path)
    grid, left_out = rerun.verdict_grid(both.fits)
    assert (both.notes, left_out) == ((), 0)
    cells = ["holds 0.100", "rises −0.050", "open 0.129", "open −0.021", "holds 0.080"]
    assert grid.set_index("Family").loc["F"].tolist() == ["text", *cells]
    laws = fitted(path, ks=[1, 7])
    assert laws.notes == (
        "k = 7: requested, but not measured.",
        "k = 10, 100, 1,000: measured, but left out of these fits by the parameter ks.",
    )
    assert set(laws.fits["k"].dropna()) == {1}


def test_sentences_that_no_longer_apply_are_counted_and_shown():
    text = "# T\n\nIt is {value}`same`. **Of the fits, {value}`few:of all` hold ({numref}`x`).**"
    text += " In GPT-2 {value}`gone:.1f` rise.\n\n## Exercises\n\n1. Is it {value}`same`?\n"
    cells = [{"cell_type": "markdown", "source": [text]}]
    book = {"one": {"same": Recorded(1), "few": Recorded(3), "all": Recorded(4), "gone": Recorded(0.5)}}
    run = {"same": Recorded(1), "few": Recorded(0, data="yours"), "all": Recorded(4, data="yours")}
    chapter = type("Chapter", (), {"name": "one", "notebook": {"cells": cells}})()
    said = rerun.sentences(chapter, book, run)
    assert "data: 1. With other numbers in this run: 1. Not in this run: 1." in said
    for cell in ("Of the fits, 3 of 4 hold.", "none of 4", "yours", "not in this run"):
        assert f">{cell}</td>" in said
    assert "3 of 4 (this run: none of 4)" in prose.fill_in(text, "one", book, run)
    nothing = run | {"all": Recorded(0)}
    assert "3 of 4 (not in this run)" in prose.fill_in(text, "one", book, nothing)


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


def test_what_differs_between_runs_is_said_first():
    """One α moves within its interval, the other beyond it, and turns its verdict; a third has one run's fit only."""
    of_a = {"alpha": [0.1, 0.1, 0.1], "alpha_low": [0.05, 0.09, 0.1], "alpha_high": [0.15, 0.11, 0.1]}
    of_b = {"alpha": [0.11, -0.1, np.nan], "alpha_low": [0.06, -0.11, np.nan], "alpha_high": [0.16, -0.09, np.nan]}
    of_a, of_b = of_a | {"verdict": [law.HOLDS] * 3}, of_b | {"verdict": [law.HOLDS, law.RISES, None]}
    table = pd.DataFrame({f"{key} | {run}": rows[key] for run, rows in (("a", of_a), ("b", of_b)) for key in rows})
    assert difference(table, ["a", "b"]) == (
        "2 of 3 cases of family, dataset and measure have a fit in every run. Among them the verdict on the law "
        "differs in 1, and the exponent α in 2; in 1 the intervals of α do not meet."
    )


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


def test_what_a_statement_reads_says_whose_data_it_shows(tmp_path):
    chapter, shell = find(Project(), "forecasts"), SimpleNamespace(ast_transformers=[], user_ns={})
    mine = Path(write(tmp_path / "mine.csv", {"F": 1.0}))
    with provenance.recording():
        run = rerun.Rerun(chapter, chapter.effective({"measurements": str(mine)}), shell)
        shell.user_ns["_begin_statement"]((), ())
        provenance.note(mine)
        assert run.data() == "yours"
        provenance.noted().steps.add("ladder_counts")
        assert run.data() == "yours and the book’s"


@pytest.mark.parametrize(("resamples", "need"), [(100, 480), (478, 480), (480, 0)])
def test_simulations_too_few_to_decide_say_so(resamples, need):
    """The smallest p of n simulations is 1/(n + 1), and Holm multiplies it by the number of tests: 24 here."""
    judged = pd.DataFrame({"range": "large", "verdict": [noise.BEYOND] * 3 + [noise.OPEN] * 21})
    first, *rest = noise.write_answers(judged, level=0.95, resamples=resamples)
    assert "significantly more than counting (Holm) in 3 of 24 fits." in first
    assert [each.endswith(f"Give resamples={need}.") for each in rest] == [True] * bool(need)
