"""Findings: a caption, a heading or a bold sentence stands where the run's numbers bear it out."""

import numpy as np
import pandas as pd
import pytest

from companion.chapters import cross_entropy, holds
from companion.execute.page import Page
from companion.execute.results import read_chapter
from companion.execute.rules import replace_findings
from companion.stats import subsets
from rbp.laws.table import fit_table


def test_what_a_run_does_not_bear_out_is_replaced_in_captions_headings_and_sentences(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    page = Page("holds")
    page.record({"high": 9, "fits": 10, "large.low": 1, "large.fits": 0})
    assert page.finding("It holds", when="high / fits >= 0.9", otherwise="It fails") == "<b>It holds.</b> "
    few = "In {value}`high:of fits` it is > 2"
    assert page.finding("It always\nholds", when="high == fits", otherwise=few) == "<b>In 9 of 10 it is &gt; 2.</b> "
    assert page.finding("Lines break", when="large.low / large.fits > 0.5", otherwise="They hold") == ""
    assert page.finding("Few rise", when="rising <= 1", otherwise="{value}`rising` rise", rising=3) == "<b>3 rise.</b> "
    page.close()
    findings = read_chapter(tmp_path / "results.json").findings
    text = "## Lines break\n\n**It\nalways holds.** It holds. **Few rise:** so."
    assert replace_findings(text, findings, " (this run)") == (
        "## Lines break (in the book; not in this run)\n\n**In 9 of 10 it is \\> 2 (this run).** It holds. "
        "**3 rise (this run):** so."
    )


@pytest.mark.parametrize(("sign", "lines"), [(-1, 2), (1, 0)], ids=["fall", "rise"])
def test_lines_that_rise_are_not_counted_as_the_laws(sign, lines):
    """Two families whose −ln RBP_k is a power of size that falls, more so at k = 100, or rises."""
    sizes, rng = 10.0 ** np.arange(6, 11), np.random.default_rng(0)
    rows = [
        ("d", family, f"{family}-{size:g}", int(size), k, k**-0.5 * size ** (sign * power) * rng.lognormal(0, 1e-3))
        for family, more in (("F", 0.0), ("G", 0.02))
        for k, power in ((1, 0.08 + more), (100, 0.12 + more))
        for size in sizes
    ]
    points = pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "value"])
    points["metric"] = "neg_log_rbp"
    fits = fit_table(points, ["dataset", "metric", "k", "family"])
    summary = holds.fit_summary(points, fits)
    assert (summary["fits"], summary["high"], summary["first.high"]) == (4, 2 * lines, lines)
    assert ("cut_min" in summary) is bool(lines)
    assert holds.line_counts(fits, [1]) == {"lines": 2, "straight": lines, "rising": 2 - lines}
    summary = holds.threshold_summary(points, subsets.fit_thresholds(points), subsets.compare_steps(points))
    assert (summary["rise_cells"], summary["gain_cells"]) == (lines, lines)
    pairs = points.rename(columns={"value": "neg_log_rbp"}).assign(cross_entropy=9 * points["size"] ** -0.08)
    counts = cross_entropy.entropy_counts(cross_entropy.entropy_curves(pairs))
    assert (counts["cells"], counts["falls"]) == (2, lines)
