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
    datasets = dataset_order(table["dataset"])
    models: dict[tuple[str, str, int, str], int] = {}
    points = []
    for row, tokens in zip(table.to_dict("records"), known_tokens(table), strict=True):
        model = (row["model"], row["family"], row["size"], parts[row["dataset"], row["model"]])
        place = models.setdefault(model, len(models))
        points.append([datasets.index(row["dataset"]), place, _whole(row["k"]), row["value"], _whole(tokens)])
    data = {
        "datasets": datasets,
        "models": list(models),
        "points": points,
        "sources": [part.name for part in source.parts],
    }
    data |= {"labels": DATASETS, "styles": FAMILIES, "spare": SPARE}
    # Within a page, a script ends at the first "</script", wherever it stands.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        '<div class="rbp-explorer"><noscript><p>The explorer needs JavaScript.</p></noscript>'
        f'<script type="application/json">{text}</script></div>'
    )


def _whole(number: float) -> int | None:
    return None if pd.isna(number) else int(number)
