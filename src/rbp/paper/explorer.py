"""The points of the fit explorer and of hide the largest. What they do with them: book/_static/explorer.js, hide.js."""

import json
from typing import Any

import pandas as pd

from rbp.book.figure_style import SPARE, family_style
from rbp.evidence import Source
from rbp.evidence.tokens import known_tokens
from rbp.paper.wording import DATASETS, dataset_order


def explorer(source: Source) -> str:
    """The explorer of all points of `source`, as HTML: it needs its scripts, and draws itself in the browser.

    A point knows the part of the source that it is from, for the command that makes the same fit, and its tokens
    where they are known, for the weights.
    """
    parts = {(row.dataset, row.model): part.name for part in source.parts for row in part.table.itertuples()}
    table = source.table
    named = [parts[key] for key in zip(table["dataset"], table["model"], strict=True)]
    data = _points(table.assign(source=named, tokens=known_tokens(table)))
    return _page("rbp-explorer", data | {"sources": [part.name for part in source.parts]})


def hide_the_largest(table: pd.DataFrame, *, level: float, **start: Any) -> str:
    """A slider over how many of a family's models a law is fitted to, and where the hidden ones fall, as HTML.

    `table` holds −ln RBP_k, and cross-entropy where it is known; `level` is that of the intervals. `start` is what is
    shown first: dataset, family, k, and how many models are seen.
    """
    return _page(
        "rbp-hide rbp-explorer", _points(table.assign(source="", tokens=None)) | {"level": level, "start": start}
    )


def _points(table: pd.DataFrame) -> dict[str, Any]:
    datasets = dataset_order(table["dataset"])
    models: dict[tuple[str, str, int, str], int] = {}
    points = []
    for row in table.to_dict("records"):
        place = models.setdefault((row["model"], row["family"], row["size"], row["source"]), len(models))
        points.append([datasets.index(row["dataset"]), place, _whole(row["k"]), row["value"], _whole(row["tokens"])])
    families = sorted(set(table["family"]))
    styles = {family: family_style(family, families) for family in families}
    data = {"datasets": datasets, "models": list(models), "points": points, "labels": DATASETS, "styles": styles}
    return data | {"spare": [style for style in SPARE if style not in styles.values()] or SPARE}


def _page(kind: str, data: dict[str, Any]) -> str:
    # Within a page, a script ends at the first "</script", wherever it stands.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f'<div class="{kind}"><noscript><p>The explorer needs JavaScript.</p></noscript>'
        f'<script type="application/json">{text}</script></div>'
    )


def _whole(number: Any) -> int | None:
    return None if pd.isna(number) else int(number)
