"""The results of `rbp compare`, on one page that opens offline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from rbp.figures.curves import curves
from rbp.figures.style import FAMILIES, SPARE, Panels
from rbp.laws.comparison import PASSAGES, TOKENS, Comparison, label, overview, store_name, worst
from rbp.measurements.ranked import pieces_of, usual
from rbp.report.display import coloured_text, shown
from rbp.report.page import HERE, write_page


def write_comparison(comparisons: Sequence[Comparison], path: Path, command: str) -> None:
    """Write the page: of one comparison the differences, over k, in ranks, by token and by passage; of several a table.

    Several are of one model with others: a row for each, and their changes over k in one figure. And the command.
    """
    first = comparisons[0]
    if len(comparisons) == 1:
        content = _of_one(first) | {"overview": None, "over_k": _over_k({"B − A": first})}
    else:
        content = {
            "title": f"{len(comparisons)} models against {store_name(first.a)} on {first.a.dataset}",
            "paragraphs": [" ".join(first.texts_read)],
            "overview": overview(comparisons),
            "over_k": _over_k({store_name(comparison.b): comparison for comparison in comparisons}),
        }
    write_page(path, HERE / "comparison.html", **content, level=f"{first.level:.0%}", command=command)


def _over_k(comparisons: Mapping[str, Comparison]) -> Panels:
    """Plot the change in −ln RBP_k over k, a line for each name."""
    (first, *_), several = comparisons.values(), len(comparisons) > 1
    ks = tuple(usual(first.a.vocabulary))
    lines = [replace(comparison, ks=ks).table.assign(line=name) for name, comparison in comparisons.items()]
    styles = [style[:2] for style in (*FAMILIES.values(), *SPARE)]
    return curves(
        pd.concat(lines).dropna(subset=["k", "difference"]),
        "k",
        "difference",
        labels=("threshold k", "change in −ln RBPₖ"),
        panel=None,
        styles=dict(zip(comparisons, styles * len(comparisons), strict=False))
        if several
        else {"B − A": ("#0072B2", "")},
        heights=[0],
        band=True,
    )


def _of_one(comparison: Comparison) -> dict[str, Any]:
    """Return what the page of one comparison shows, by the names of its template."""
    interval = f"{comparison.level:.0%} interval"
    columns: dict[Any, Any] = {
        "measure": "",
        "a": ("A", "{:.4f}"),
        "b": ("B", "{:.4f}"),
        "difference": ("B − A", "{:+.4f}"),
        ("low", "high"): (interval, "{:+.4f} to {:+.4f}"),
        "lost": ("lost", "{:,}"),
        "gained": ("gained", "{:,}"),
        "flips": ("flips", "{:.1%}"),
    }
    rows = comparison.table.assign(measure=[label(k) for k in comparison.table["k"]])
    caption = (
        "<b>What changed.</b> Intervals are of differences within documents. Lost: tokens that A ranked among its "
        "first k and B does not; gained: the other way round."
    )
    by_token: dict[Any, Any] = {
        "text": "token",
        "times": ("times", "{:,}"),
        "rise": ("nats in all", "{:+.2f}"),
        "each": ("nats each", "{:+.3f}"),
    }
    tokens = worst(comparison.tokens, TOKENS)
    tokens = tokens.assign(text=[comparison.text([token]) for token in tokens["token"]])
    quantiles = [f"{change:+.2f}" for change in comparison.quantiles["change"]]
    return {
        "title": comparison.title,
        "paragraphs": [comparison.answer, " ".join(comparison.texts_read), *comparison.verdict],
        "differences": shown(rows, columns, caption=caption),
        "quantiles": pd.DataFrame([quantiles], columns=[f"{share:.0%}" for share in comparison.quantiles["share"]]),
        "moved": comparison.moved,
        "tokens": shown(
            tokens, by_token, caption="<b>By how much −ln p rose,</b> over all places where the token stands."
        ),
        "passages": list(_passages(comparison)),
    }


def _passages(comparison: Comparison) -> Iterator[tuple[str, list[Markup]]]:
    """Yield where each of the passages that lost most stands, and its text, coloured by the ranks of each model."""
    for row in worst(comparison.passages, PASSAGES).itertuples():
        place = f"Document {row.document}, tokens {row.first} to {row.last}: {row.rise:+.2f} nats."
        sides = [side.iloc[row.start : row.stop] for side in (comparison.before, comparison.after)]
        if comparison.tokenizer is None:
            yield place, [Markup(f"<pre>{escape(comparison.text(sides[0]['token']))}</pre>")]  # noqa: S704
        else:
            pieces = [pieces_of(some, comparison.tokenizer, comparison.rule) for some in sides]
            yield place, [Markup(coloured_text(piece)) for piece in pieces]  # noqa: S704
