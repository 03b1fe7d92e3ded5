"""The fit explorer: the points that its page holds. What it does with them is book/_static/explorer.js and fits.js."""

import json

import pandas as pd

from rbp.book.figure_style import FAMILIES, SPARE
from rbp.evidence import Source
from rbp.evidence.tokens import known_tokens
from rbp.paper.wording import DATASETS, dataset_order


def explorer(source: Source) -> str:
    """The explorer of all points of `source`, as HTML: it needs the two scripts, and draws itself in the browser.

    A point knows the part of the source that it is from, for the command that makes the same fit, and its tokens
    where they are known, for the weights.
    """
    table = source.table
    parts = {(row.dataset, row.model): part.name for part in source.parts for row in part.table.itertuples()}
    origin = pd.Series([parts[cell] for cell in zip(table["dataset"], table["model"], strict=True)], table.index)
    tokens = known_tokens(table)
    datasets = dataset_order(table["dataset"])
    about = zip(table["model"], table["family"], table["size"].map(int), origin, strict=True)
    models = {each: i for i, each in enumerate(dict.fromkeys(about))}
    rows = zip(*(table[name] for name in ("dataset", "model", "family", "size", "k", "value")), origin, tokens, strict=True)
    points = [
        [datasets.index(dataset), models[model, family, int(size), part], *map(_plain, (k, value, n))]
        for dataset, model, family, size, k, value, part, n in rows
    ]
    data = {"datasets": datasets, "models": list(models), "points": points, "sources": sorted(set(origin))}
    data |= {"labels": DATASETS, "styles": FAMILIES, "spare": SPARE}
    # Within a page, a script ends at the first "</script", wherever it stands.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        '<div class="rbp-explorer"><noscript><p>The explorer needs JavaScript.</p></noscript>'
        f'<script type="application/json">{text}</script></div>'
    )


def _plain(number: float) -> float | int | None:
    if pd.isna(number):
        return None
    return int(number) if float(number).is_integer() else float(number)
