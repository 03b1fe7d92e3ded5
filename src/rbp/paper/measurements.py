"""What the published measurements are: how far their sizes and thresholds reach, and what the paper says of them."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa

from rbp.book.steps import step
from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.core.paths import LADDER
from rbp.core.tables import checked, read_csv
from rbp.evidence import open_source, published, select
from rbp.evidence.sources import Source
from rbp.evidence.tokens import STATED, recovered_tokens
from rbp.paper.display import Column, shown
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


def setup_claims(points: pd.DataFrame, sizes: pd.DataFrame, recovered: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """What decides the ledger's claims on models, thresholds, tokens and vocabularies; `sizes` has a row a model."""
    known, widths = recovered[recovered["basis"] != "likely"], vocabularies()
    tokens, fewer = recovered.set_index(["dataset", "family"])["tokens"], int((known["tokens"] < STATED).sum())
    low, high = int(points["k"].min()), int(points["k"].max())
    agree = [family for family in ("Pythia", "OPT", "GPT-2") if tuple(widths[family]) == VOCABULARIES[family]]
    qwen = published.models().query("family == 'Qwen2.5'")
    larger = qwen.loc[qwen["vocab_size"] == qwen["vocab_size"].max(), "name"]
    pythia = [f"{width:,}" for width in widths["Pythia"]]
    spans = {family: orders(own["size"]) for family, own in sizes.groupby("family")}
    return {
        "models_and_sizes": {
            "models": len(sizes),
            "orders": orders(sizes["size"]),
            **{str(family).lower().replace("-", "").replace(".", ""): span for family, span in spans.items()},
        },
        "orders_of_k": {"orders": orders(points["k"]), "low": low, "high": high}
        | {"decades": len(str(high)) - len(str(low)) + 1},
        "half_a_million": {"known": len(known), "reach": len(known) - fewer, "fewer": fewer, "cells": len(recovered)}
        | {"wikipedia": int(tokens["wikipedia", "GPT-2"]), "least": int(recovered["tokens"].min())},
        "vocabularies": {"agree": len(agree), "families": " and ".join(agree)}
        | {"pythia": f"{', '.join(pythia[:-1])} or {pythia[-1]}"},
        "qwen_vocabularies": {"sizes": widths["Qwen2.5"], "larger": " and ".join(larger)},
        "covers_vocabulary": {"entries": high / widths["GPT-2"][-1], "covered": least_covered(points, 20_000)},
    }


def training_shown(table: pd.DataFrame) -> dict[str, Any]:
    """`published.training` as a page shows it."""
    return shown(
        table.assign(billions=table["tokens"] / 1e9),
        {
            "family": "Family",
            "billions": ("tokens, in 10⁹", "{:,.0f}"),
            "counts": "what they count",
            "fixed": "one D for all sizes",
            "source": "source",
        },
        caption="<b>Training tokens D of the paper’s families,</b> as far as their own sources state them; GPT-2’s "
        "(Radford et al. 2019) gives 40 GB of text, and no tokens.",
        data=table,
    )


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


_COVERAGE = ("text", "documents", "statistic", "level", "kind", "covered", "width", "score")


def coverage() -> pd.DataFrame:
    """How often each kind of interval over documents covers the truth, on the ladder's own: data/ladder/coverage.csv.

    One row for each kind: at 95%, of statistics that are no design effects, covered_10, covered_20, covered_24 (the
    judgments), covered_32 (Wikipedia), covered_40 and covered_164, by the number of documents, width and score (the
    narrowest's, and the best's, is 1); covered_80: of 80%, all numbers of documents; covered_effect: of design effects.
    Means over texts and statistics.
    """
    path, names = LADDER / "coverage.csv", ["text", "statistic", "kind"]
    columns = {name: pa.Column(str if name in names else int if name == "documents" else float) for name in _COVERAGE}
    keys, remedy = _COVERAGE[:5], "Restore it: git checkout -- data/ladder."
    table = checked(read_csv(path), pa.DataFrameSchema(columns), path, keys=keys, remedy=remedy)
    provenance.note(path)
    effect = table["statistic"].str.contains("design effect")
    wide, narrow = (table[~effect & (table["level"] == level)] for level in (0.95, 0.8))
    by_size = wide.pivot_table(index="kind", columns="documents", values="covered").add_prefix("covered_")
    found = by_size.join(wide.groupby("kind")[["width", "score"]].mean())
    found["covered_80"] = narrow.groupby("kind")["covered"].mean()
    found["covered_effect"] = table[effect & (table["level"] == 0.95)].groupby("kind")["covered"].mean()
    return found.reindex(table["kind"].unique()).reset_index().rename_axis(columns=None)


def coverage_shown(found: pd.DataFrame) -> dict[str, Any]:
    """`coverage` as a page shows it."""
    columns: dict[str | tuple[str, ...], Column] = {"kind": "interval", "covered_10": ("10 documents", "{:.1%}")}
    columns |= {f"covered_{count}": (str(count), "{:.1%}") for count in (20, 24, 32, 40, 164)}
    columns |= {"covered_80": ("80%, all", "{:.1%}"), "covered_effect": ("design effects", "{:.1%}")}
    columns |= {"width": ("width", "{:.2f}"), "score": ("score", "{:.2f}")}
    return shown(
        found,
        columns,
        caption="<b>How often 95% intervals over documents cover the truth,</b> by kind and number of documents, and "
        "80% intervals. The truth is the whole text’s value; documents are drawn from it. Width: mean, the narrowest "
        "kind’s is 1. Score: width and a penalty for each miss; the best kind’s is 1.",
        data=found,
    )
