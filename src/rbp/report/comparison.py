"""The results of `rbp compare`, on one page that opens offline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from rbp.figures.curves import curves
from rbp.figures.style import FAMILIES, SPARE
from rbp.laws.comparison import PASSAGES, TOKENS, Comparison, label, overview, store_name, worst
from rbp.measurements.ranked import pieces_of, usual
from rbp.report.display import Columns, coloured_text, shown
from rbp.report.leaf import Leaf


def write_page(comparisons: Sequence[Comparison], path: Path, command: str) -> None:
    """Write the page: of one comparison the differences, over k, in ranks, by token and by passage; of several a table.

    Several are of one model with others: a row for each, and their changes over k in one figure. And the command.
    """
    if len(comparisons) == 1:
        leaf = _of_one(comparisons[0])
    else:
        leaf = Leaf(f"{len(comparisons)} models against {store_name(comparisons[0].a)} on {comparisons[0].a.dataset}")
        leaf.text(" ".join(comparisons[0].read))
        leaf.code(overview(comparisons))
        _over_k(leaf, {store_name(each.b): each for each in comparisons})
    leaf.heading("The same again")
    leaf.code(command)
    leaf.write(path)


def _over_k(leaf: Leaf, comparisons: Mapping[str, Comparison]) -> None:
    """Add the figure of the change in −ln RBP_k over k, a line for each name."""
    (first, *_), several = comparisons.values(), len(comparisons) > 1
    ks = tuple(usual(first.a.vocabulary))
    lines = [replace(each, ks=ks).table.assign(line=name) for name, each in comparisons.items()]
    styles = [style[:2] for style in (*FAMILIES.values(), *SPARE)]
    leaf.figure(
        curves(
            pd.concat(lines).dropna(subset=["k", "difference"]),
            "k",
            "difference",
            labels=("threshold k", "change in −ln RBPₖ"),
            panel=None,
            styles=dict(zip(comparisons, styles * len(comparisons), strict=False))
            if several
            else {"B − A": ("#0072B2", "")},
            at=[0],
            band=True,
        ),
        caption=f"<b>The change in −ln RBP<sub>k</sub> over k,</b> with its {first.level:.0%} interval.",
        alt="Difference of −ln RBP at each k",
    )


def _of_one(comparison: Comparison) -> Leaf:
    leaf = Leaf(comparison.title)
    leaf.text(comparison.answer, " ".join(comparison.read))
    leaf.text(*comparison.verdict)
    interval = f"{comparison.level:.0%} interval"
    rows = comparison.table.assign(what=[label(k) for k in comparison.table["k"]])
    columns: dict[Any, Any] = {
        "what": "",
        "a": ("A", "{:.4f}"),
        "b": ("B", "{:.4f}"),
        "difference": ("B − A", "{:+.4f}"),
        ("low", "high"): (interval, "{:+.4f} to {:+.4f}"),
        "lost": ("lost", "{:,}"),
        "gained": ("gained", "{:,}"),
        "flips": ("flips", "{:.1%}"),
    }
    caption = (
        "<b>What changed.</b> Intervals are of differences within documents. Lost: tokens that A ranked among its "
        "first k and B does not; gained: the other way round."
    )
    _table(leaf, rows, columns, caption)
    _over_k(leaf, {"B − A": comparison})
    quantiles = comparison.quantiles.assign(factor=lambda table: table["change"].map("{:+.2f}".format))
    caption = f"<b>The change in ln rank:</b> {comparison.moved}. Each column: this share changed so much or less."
    wide = pd.DataFrame([quantiles["factor"].to_list()], columns=[f"{share:.0%}" for share in quantiles["share"]])
    leaf.table(wide, caption=caption)
    leaf.heading("Tokens that lost most")
    tokens = worst(comparison.tokens, TOKENS)
    columns = {
        "text": "token",
        "times": ("times", "{:,}"),
        "rise": ("nats in all", "{:+.2f}"),
        "each": ("nats each", "{:+.3f}"),
    }
    caption = "<b>By how much −ln p rose,</b> over all places where the token stands."
    _table(leaf, tokens.assign(text=[comparison.text([token]) for token in tokens["token"]]), columns, caption)
    leaf.heading("Passages that lost most")
    for row in worst(comparison.passages, PASSAGES).itertuples():
        leaf.text(f"Document {row.document}, tokens {row.first} to {row.last}: {row.rise:+.2f} nats. Under A, then B:")
        for side in (comparison.before, comparison.after):
            some = side.iloc[row.start : row.stop]
            if comparison.tokenizer is None:
                leaf.code(comparison.text(some["token"]))
                break
            leaf.markup(coloured_text(pieces_of(some, comparison.tokenizer, comparison.rule)))
    return leaf


def _table(leaf: Leaf, rows: pd.DataFrame, columns: Columns, caption: str) -> None:
    leaf.table(**{name: each for name, each in shown(rows, columns, caption=caption).items() if name != "data"})
