"""Findings: a caption, a heading or a bold sentence stands where the run's numbers bear it out."""

import ast
import json
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest

from companion.chapters import cross_entropy, holds
from companion.execute import prose
from companion.execute.findings import judge, place_of, written
from companion.execute.page import Page
from companion.execute.results import Recorded, read_book, read_chapter
from companion.project import ROOT, Project
from companion.stats import subsets
from rbp.laws.table import fit_table

TEXT = {ast.Assign, ast.Name, ast.Store, ast.Load, ast.Constant, ast.Tuple, ast.JoinedStr, ast.FormattedValue}
ACCEPTED = read_book(Project().expected)


class Anything(MagicMock):
    """Whatever a cell computes: it has no items, and can be printed."""

    def __format__(self, how):
        return "0"


class Cell(dict[str, object]):
    """The names of a code cell: what is no text, and no finding, is nothing in particular."""

    def __missing__(self, name):
        return Anything()


def stated(path):
    """The findings of a notebook: text, rule, and whether a caption takes it."""
    every, names = [], Cell(page=(page := MagicMock()))
    for cell in json.loads(path.read_bytes())["cells"]:
        if cell["cell_type"] != "code" or "page.finding(" not in (source := "".join(cell["source"])):
            continue
        for statement in ast.parse(source).body:
            texts = isinstance(statement, ast.Assign) and {type(node) for node in ast.walk(statement)} <= TEXT
            if texts or "page.finding(" in ast.unparse(statement):
                exec(compile(ast.Module([statement], []), path.name, "exec"), {}, names)  # noqa: S102 (our own)
                for call in page.finding.call_args_list:
                    every.append((call.args[0], call.kwargs["when"], isinstance(statement, ast.Assign)))
                page.finding.reset_mock()
    return every


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem)
def test_the_books_findings_stand_and_are_those_of_its_prose(path):
    text = "\n".join(
        "".join(c["source"]) for c in json.loads(path.read_bytes())["cells"] if c["cell_type"] == "markdown"
    )
    for finding, rule, of_caption in stated(path):
        assert of_caption or place_of(finding).search(text), finding
        assert judge(rule, ACCEPTED[path.stem]) is not False, finding


def test_what_a_run_does_not_bear_out_is_replaced_in_captions_headings_and_sentences(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    page = Page("holds")
    page.record({"high": 9, "fits": 10, "large.low": 1, "large.fits": 0})
    assert page.finding("It holds", when="high / fits >= 0.9", otherwise="It fails") == "<b>It holds.</b> "
    few = "In {value}`high:of fits` it is > 2"
    assert page.finding("It always\nholds", when="high == fits", otherwise=few) == "<b>In 9 of 10 it is &gt; 2.</b> "
    assert page.finding("Lines break", when="large.low / large.fits > 0.5", otherwise="They hold") == ""
    assert page.finding("Few rise", when="rising <= 1", otherwise="{value}`rising` rise", rising=3) == "<b>3 rise.</b> "
    with pytest.raises(ValueError, match="not a condition"):
        page.finding("It holds", when="high +", otherwise="")
    page.close()
    findings = read_chapter(tmp_path / "results.json").findings
    assert {text: each.value for text, each in findings.items()} == {
        "It always\nholds": "In 9 of 10 it is > 2", "Lines break": "", "Few rise": "3 rise",
    }  # fmt: skip
    text = "## Lines break\n\n**It\nalways holds.** It holds. **Few rise:** so."
    assert written(text, findings, " (this run)") == (
        "## Lines break (in the book; not in this run)\n\n**In 9 of 10 it is \\> 2 (this run).** It holds. "
        "**3 rise (this run):** so."
    )


def rising(sign):
    """Two families whose −ln RBP_k is a power of size that falls (sign −1), more so at k = 100, or rises."""
    sizes, rng = 10.0 ** np.arange(6, 11), np.random.default_rng(0)
    rows = [
        ("d", family, f"{family}-{size:g}", int(size), k, k**-0.5 * size ** (sign * power) * rng.lognormal(0, 1e-3))
        for family, more in (("F", 0.0), ("G", 0.02))
        for k, power in ((1, 0.08 + more), (100, 0.12 + more))
        for size in sizes
    ]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "value"]).assign(metric="neg_log_rbp")


@pytest.mark.parametrize(("sign", "lines"), [(-1, 2), (1, 0)])
def test_lines_that_rise_are_not_counted_as_the_laws(sign, lines):
    points = rising(sign)
    fits = fit_table(points, ["dataset", "metric", "k", "family"])
    assert (fits["r_squared"] > 0.99).all()
    summary = holds.fit_summary(points, fits)
    assert (summary["fits"], summary["high"], summary["first.high"]) == (4, 2 * lines, lines)
    assert ("cut_min" in summary) is bool(lines)
    assert holds.line_counts(fits, [1]) == {"lines": 2, "straight": lines, "rising": 2 - lines}
    ends = subsets.steps(points)
    summary = holds.threshold_summary(points, subsets.fit_thresholds(points), ends)
    assert len(ends) == 2
    assert (summary["rise_cells"], summary["gain_cells"]) == (lines, lines)


@pytest.mark.parametrize(("sign", "falls"), [(-1, 2), (1, 0)])
def test_cross_entropy_predicts_ranks_only_where_they_fall_together(sign, falls):
    points = rising(sign).rename(columns={"value": "neg_log_rbp"})
    points["cross_entropy"] = 9 * points["size"] ** -0.08
    curves = cross_entropy.entropy_curves(points)
    counts = cross_entropy.entropy_counts(curves)
    assert (counts["cells"], counts["falls"]) == (2, falls)
    assert counts["most"] < 1  # it is close to a line all the same
    assert "scatter_max.k1" not in {k for k, v in cross_entropy.family_summary(curves).items() if v == v}  # of ours
    ours = cross_entropy.family_summary(curves.replace({"family": {"F": "neox"}}))
    assert ours["scatter_max.k1"] == curves.query("k == 1 and family == 'F'")["scatter"].item()


def test_a_reruns_page_lists_what_does_not_stand():
    assert prose.RERUN in written("It holds", {"It holds": Recorded("It fails")}, prose.RERUN)
    from companion.execute.rerun import overturned

    shown = overturned({"It holds": Recorded("It fails", data="yours"), "Lines break": Recorded("")})
    assert "do not stand in this run (2)" in shown
    assert ">It fails</td>" in shown
    assert ">not in this run</td>" in shown
    assert overturned({}) == ""
