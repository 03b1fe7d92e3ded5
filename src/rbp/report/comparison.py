"""The results of `rbp compare`, on one page that opens offline."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from rbp.figures.curves import curves
from rbp.laws.comparison import PASSAGES, TOKENS, Comparison, label, worst
from rbp.measurements.ranked import pieces_of, usual
from rbp.report.display import Columns, coloured_text, shown
from rbp.report.leaf import Leaf


def write_page(comparison: Comparison, path: Path, command: str) -> None:
    """Write the page: the differences, over k, in ranks, by token and by passage; and the command."""
    leaf = Leaf(comparison.title)
    leaf.text(" ".join(comparison.read))
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
    }
    caption = (
        "<b>What changed.</b> Intervals are of differences within documents. Lost: tokens that A ranked among its "
        "first k and B does not; gained: the other way round."
    )
    _table(leaf, rows, columns, caption)
    over_k = replace(comparison, ks=tuple(usual(comparison.a.vocabulary))).table.dropna(subset=["k", "difference"])
    leaf.figure(
        curves(
            over_k.assign(line="B − A"),
            "k",
            "difference",
            labels=("threshold k", "change in −ln RBPₖ"),
            panel=None,
            styles={"B − A": ("#0072B2", "")},
            at=[0],
            band=True,
        ),
        caption=f"<b>The change in −ln RBP<sub>k</sub> over k,</b> with its {interval}.",
        alt="Difference of −ln RBP at each k",
    )
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
    leaf.heading("The same again")
    leaf.code(command)
    leaf.write(path)


def _table(leaf: Leaf, rows: pd.DataFrame, columns: Columns, caption: str) -> None:
    leaf.table(**{name: each for name, each in shown(rows, columns, caption=caption).items() if name != "data"})
