"""What the published measurements are: how far their sizes and thresholds reach, and what the paper says of them."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rbp.book.steps import step
from rbp.core.errors import DataError
from rbp.evidence import open_source, published, select
from rbp.evidence.sources import Source
from rbp.evidence.tokens import recovered_tokens
from rbp.paper.display import shown
from rbp.stats import counting

VOCABULARIES = {"Pythia": (50256,), "OPT": (50272,), "GPT-2": (50257,), "Qwen2.5": (151936, 152064)}
"""How many entries the paper's footnote 2 gives each family's vocabulary."""


def least_covered(points: pd.DataFrame, k: int) -> float:
    """The least share of a text's tokens that are among the first k, over all models and texts."""
    return float(np.exp(-points["value"][points["k"] == k].max()))


def orders(values: "pd.Series[Any]") -> float:
    """How many orders of magnitude lie between the smallest and the largest value."""
    return float(np.log10(values.max() / values.min()))


def published_points(table: pd.DataFrame) -> pd.DataFrame:
    """The −ln RBP_k of a measurement table. Raises DataError where none of its families is one that the paper has."""
    points = select(table, metric="neg_log_rbp")
    if not set(points["family"]) & set(published.models()["family"]):
        raise DataError(
            "this chapter is about the published measurements, and none of their families is here",
            "measurements",
            'Use "published", or rows of its families.',
        )
    return points


def published_tokens(table: pd.DataFrame) -> pd.DataFrame | None:
    """For `tokens.tokens_behind`: the tokens found from the published shares, by the step; None for others' points."""
    return _recovered() if table["source"].isin(published.SOURCES).any() else None


@step("published_tokens", reads=["data/published"], seconds=3)
def _recovered() -> pd.DataFrame:
    return recovered_tokens()


@step("published_windows", of=partial(open_source, "published"), reads=["data/published"], seconds=2)
def windows_of(source: Source) -> pd.DataFrame:
    """The source's `windows`: counted, or with totals that are recovered."""
    return source.windows


def with_counting_error(points: pd.DataFrame, tokens: pd.DataFrame) -> pd.DataFrame:
    """The points (a measurement table) whose number of tokens is known (`tokens.tokens_behind`), with what follows.

    Adds basis, relative_se (of −ln RBP_k, by counting independent tokens) and misses (tokens of rank above k).
    Raises DataError where no number of tokens is known.
    """
    known = points.drop(columns="tokens").merge(tokens, on=["dataset", "family"])
    if known.empty:
        raise DataError("no number of tokens is known for these points", "measurements", "Add the column tokens.")
    n = known["tokens"].to_numpy(dtype=float)
    relative_se = counting.counting_error(known["value"], n)
    return known.assign(relative_se=relative_se, misses=-np.expm1(-known["value"]) * n)


def checks_shown(checked: pd.DataFrame) -> dict[str, Any]:
    """The checks of the published files (`against_print.checks`), for `Page.table`."""
    return shown(
        checked,
        {
            "what": "check",
            "compared": "numbers",
            "agree": "agree",
            "worst": ("largest difference", "{:.1e}"),
            "unit": "of which kind",
        },
        caption="<b>The checks of the published files.</b> Table 1 is printed to three digits, so half a unit of the "
        "third is the most that a correct number can differ.",
    )


def vocabularies() -> dict[str, list[int]]:
    """The widths of the output layers of each family's models, by the parameter file of the authors' repository."""
    return {str(name): sorted(set(own)) for name, own in published.models().groupby("family")["vocab_size"]}


def setup_shown(points: pd.DataFrame, sizes: pd.DataFrame, recovered: pd.DataFrame) -> dict[str, Any]:
    """What the paper says of its setup beside the published numbers, for `Page.table`; `sizes` has a row a model."""

    def either(values: Iterable[int]) -> str:
        return " or ".join(f"{value:,}" for value in values)

    ours: Mapping[str, Iterable[int]] = vocabularies()
    total, tokens = orders(published.models()["total_params"]), recovered["tokens"]
    rows = [
        ("introduction", "models", "24", f"{len(sizes)}"),
        (
            "introduction",
            "orders of size",
            "over 5",
            f"{orders(sizes['size']):.2f} (S), {total:.2f} (all)",
        ),
        ("appendix A", "orders of size", "over four", "the same"),
        (
            "appendix A",
            "orders of k",
            "over five",
            f"{orders(points['k']):.2f} ({points['k'].min()} to {points['k'].max():,})",
        ),
        ("appendix A", "tokens behind a point", "at least 5·10⁵", f"{tokens.min():,} to {tokens.max():,}"),
        *(
            ("footnote 2", f"vocabulary, {family}", either(printed), either(ours[family]))
            for family, printed in VOCABULARIES.items()
        ),
    ]
    return {
        "table": pd.DataFrame(rows, columns=["where", "what", "printed", "ours"])[["what", "printed", "ours", "where"]],
        "caption": "<b>The paper’s setup beside the published numbers.</b> Orders: of magnitude. Our "
        "vocabularies: how wide the models’ output layers are.",
    }
