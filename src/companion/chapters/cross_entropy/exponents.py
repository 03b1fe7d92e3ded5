"""The exponents of cross-entropy and of −ln RBP_k: on the same models, and as Table 1 prints them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as t_distribution

from companion.evidence import published
from companion.stats.compare import equivalence, paired_exponents
from rbp.arrays import Reals
from rbp.errors import DataError, FitError
from rbp.extract.store import RankStore
from rbp.figures.wording import cell_label
from rbp.laws.resampling import covariance, without_each
from rbp.measurements.counts import of_stores
from rbp.metric import TieRule
from rbp.report.display import INTERVAL, INTERVAL_1, shown

#: exponents count as near if one differs from the other by no more than this share of α of −ln RBP_k
NEAR = 0.1

#: a difference of two slopes, each printed to three digits, is known to this
ROUNDING = 0.001

CELL = ["dataset", "family"]


def pair_metrics(table: pd.DataFrame, k: int = 1) -> pd.DataFrame:
    """The models of a measurement table for which both cross-entropy and −ln RBP_k are known.

    Columns dataset, family, model, size, cross_entropy, neg_log_rbp. Raises DataError where there is no such model.
    """
    keys = [*CELL, "model", "size"]
    of_k = (table["metric"] == "neg_log_rbp") & (table["k"] == k).fillna(False)
    chosen = table[(table["metric"] == "cross_entropy") | of_k]
    wide = chosen.pivot_table(index=keys, columns="metric", values="value", observed=True)
    if not {"cross_entropy", "neg_log_rbp"} <= set(wide.columns) or wide.dropna().empty:
        raise DataError(
            f"no model has both its cross-entropy and −ln RBP_{k} on one dataset",
            "measurements",
            "Give a source that holds rows of both metrics for the same models.",
        )
    return wide.dropna().reset_index().rename_axis(columns=None)


Text = dict[tuple[str, str], tuple[Reals, int]]
"""By dataset and family: what drawing other documents does to the two exponents, covariance and degrees of freedom."""


def exponents_by_document(
    sizes: npt.ArrayLike, tokens: npt.ArrayLike, losses: npt.ArrayLike, hits: npt.ArrayLike
) -> Reals:
    """The covariance, shape (2, 2), of α of cross-entropy and α of −ln RBP_k over corpora of other documents.

    sizes: shape (models,); tokens of each document, shape (documents,); losses, the sum of −ln p over them, and hits,
    shape (documents, models). By leaving out each document (`resampling.covariance`).
    """
    x = np.log(np.asarray(sizes, float))
    x -= x.mean()
    tokens, losses, hits = without_each(tokens)[:, None], without_each(losses), without_each(hits)
    y = np.stack([np.log(losses / tokens), np.log(-np.log(hits / tokens))], axis=1)
    return covariance(-y @ x / (x @ x))


def by_text(stores: Sequence[RankStore], pairs: pd.DataFrame, k: int, rule: TieRule = "paper") -> Text:
    """`exponents_by_document` of each dataset and family of `pairs` whose models all have a rank store in `stores`.

    With D documents, D − 1 degrees of freedom. A text of one document is left out. Raises what
    `counts.of_stores` raises.
    """
    found: Text = {}
    for (dataset, family), own in pairs.groupby(CELL):
        these = {s.model: s for s in stores if s.dataset == dataset and s.model in set(own["model"])}
        if len(these) < len(own) or own["size"].nunique() < 3:
            continue
        (one,) = of_stores(list(these.values()), [k], rule)
        if len(one.tokens) > 1:
            both = exponents_by_document(one.sizes, one.tokens, one.nll, one.hits[:, :, 0])
            found[str(dataset), str(family)] = both, len(one.tokens) - 1
    return found


def paired_table(pairs: pd.DataFrame, *, level: float = 0.95, text: Text | None = None) -> pd.DataFrame:
    """The paired test of α of cross-entropy against α of −ln RBP_k, for each dataset and family of `pairs`.

    Columns dataset, family, n (models), size_min, size_max, difference, low, high, alpha_first, alpha_second
    (`PairedExponents`), text_low, text_high (over other documents, from `text`, a `by_text`), relative, relative_low,
    relative_high (`equivalence`, per cent), verdict ("near", inside ±NEAR; "outside"; or "not decided"), note (why
    there is no test). What is not known is missing. Raises DataError where there is no test at all.
    """
    relative = ["relative", "relative_low", "relative_high"]
    rows = []
    for (dataset, family), own in pairs.groupby(CELL):
        cell = {"dataset": dataset, "family": family, "n": len(own), "note": ""}
        cell |= {"size_min": own["size"].min(), "size_max": own["size"].max()}
        drawn = (text or {}).get((str(dataset), str(family)))
        metrics = own["size"], own["cross_entropy"], own["neg_log_rbp"]
        try:
            test = paired_exponents(*metrics, level=level)
            tost = equivalence(*metrics, margin=NEAR, level=level, text=drawn)
        except FitError as error:
            rows.append(cell | {"note": error.what})
            continue
        row = vars(test) | dict(
            zip(relative, (100 * each for each in (tost.relative, tost.low, tost.high)), strict=True)
        )
        row["verdict"] = "near" if tost.within else "outside" if tost.outside else "not decided"
        if drawn:
            (ours, both), (_, others) = drawn[0]
            reach = t_distribution.ppf((1 + level) / 2, drawn[1]) * np.sqrt(ours + others - 2 * both)
            row |= {"text_low": test.difference - reach, "text_high": test.difference + reach}
        rows.append(cell | row)
    columns = [*CELL, "n", "size_min", "size_max", "difference", "low", "high", "alpha_first", "alpha_second"]
    tests = pd.DataFrame(rows, columns=[*columns, "text_low", "text_high", *relative, "verdict", "note"])
    if tests["difference"].isna().all():
        raise DataError("no family has both metrics at three sizes", "measurements", "Give a source with more models.")
    return tests


def printed_differences() -> pd.DataFrame:
    """Table 1: in each cell and for each k, the printed exponent of cross-entropy minus that of −ln RBP_k.

    Columns dataset, family, k, alpha_ce, alpha_rbp, difference, r_squared_ce, r_squared_rbp, within: whether the
    rounding of the two printed slopes can be all of their difference; relative, relative_low, relative_high: the
    difference in per cent of alpha_rbp, and the least and the most that rounding leaves.
    """
    printed = published.table1().assign(alpha=lambda table: -table["slope"])
    columns = [*CELL, "alpha", "r_squared"]
    entropy = printed.loc[printed["metric"] == "cross_entropy", columns]
    ranks = printed.loc[printed["metric"] == "neg_log_rbp", [*columns, "k"]]
    table = entropy.merge(ranks, on=CELL, suffixes=("_ce", "_rbp"))
    table["difference"] = (table["alpha_ce"] - table["alpha_rbp"]).round(3)
    table["within"] = table["difference"].abs() <= ROUNDING + 1e-9
    for name, off in (("relative", 0.0), ("relative_low", -ROUNDING / 2), ("relative_high", ROUNDING / 2)):
        table[name] = (100 * ((table["alpha_ce"] + off) / (table["alpha_rbp"] - off) - 1)).round(9)
    return table.sort_values([*CELL, "k"], ignore_index=True)


# ── What the page says, and shows


def tests_told(tests: pd.DataFrame, printed: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of `paired_table`, in per cent; `widest`: the family whose sizes span most;

    table1: of the cells that `printed_differences` has at k = 1.
    """
    tested = tests.dropna(subset="difference")
    widest = tested.iloc[int((tested["size_max"] / tested["size_min"]).argmax())]
    verdicts = tested["verdict"].value_counts()
    told: dict[str, Any] = {"widest": cell_label(widest)}
    told |= {f"{end}.widest": widest[end] for end in ("relative", "relative_low", "relative_high")}
    told |= {"tested": len(tested)} | {name: int(verdicts.get(name, 0)) for name in ("near", "outside")}
    of_table_1 = tested.merge(printed.loc[printed["k"] == 1, CELL])["verdict"]
    told |= {"table1.tested": len(of_table_1)}
    told |= {f"table1.{name}": int((of_table_1 == name).sum()) for name in ("near", "outside")}
    return told | {"undecided": int(verdicts.get("not decided", 0))}


def printed_told(printed: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of `printed_differences`, at k = 1."""
    at_1 = printed[printed["k"] == 1]
    away = at_1["relative"].abs()
    gap = at_1["r_squared_ce"] - at_1["r_squared_rbp"]
    tenth = 100 * NEAR
    told: dict[str, Any] = {
        "cells": len(at_1),
        "within_tenth": int((away <= tenth).sum()),
        "within_fifth": int((away <= 2 * tenth).sum()),
        "tenth_least": int(((at_1["relative_low"] >= -tenth) & (at_1["relative_high"] <= tenth)).sum()),
        "tenth_most": int(((at_1["relative_low"] <= tenth) & (at_1["relative_high"] >= -tenth)).sum()),
        "r_squared_comparable": int((gap <= 0.01 + 1e-9).sum()),
    }
    names = at_1["dataset"] + "." + at_1["family"]
    told |= {f"relative.{name}": each for name, each in zip(names, away, strict=True)}
    apart = at_1.iloc[int(gap.abs().argmax())]
    told |= {"r_squared_apart.cell": cell_label(apart)}
    told |= {f"r_squared_apart.{end}": apart[f"r_squared_{end}"] for end in ("ce", "rbp")}
    return {f"printed_{name}": value for name, value in told.items()}


def tests_shown(tests: pd.DataFrame, k: int, level: float) -> dict[str, Any]:
    """`paired_table` as a page shows it, the cells that have a test."""
    return shown(
        tests.dropna(subset="difference"),
        {
            "dataset": "Dataset",
            "family": "Family",
            "relative": ("difference, %", "{:+.1f}"),
            ("relative_low", "relative_high"): (f"{2 * level - 1:.0%} interval, %", INTERVAL_1),
            "verdict": "verdict",
            "difference": ("difference", "{:.4f}"),
            ("low", "high"): ("over models", INTERVAL),
            ("text_low", "text_high"): ("over documents", INTERVAL),
        },
        caption=f"<b>Equal, or near?</b> α of cross-entropy less α of −ln RBP, k = {k}, in per cent of the latter, and "
        f"as it is, with {level:.0%} intervals. Near: all of the first interval lies within ±{NEAR:.0%}; outside: none "
        "of it.",
        data=tests,
    )


def printed_shown(printed: pd.DataFrame) -> dict[str, Any]:
    """`printed_differences` at k = 1 as a page shows them, with the k that is nearest in each cell."""
    least = printed.loc[printed["difference"].abs().groupby([printed["dataset"], printed["family"]]).idxmin()]
    least = least[[*CELL, "k"]].rename(columns={"k": "nearest"})
    table = printed[printed["k"] == 1].merge(least, on=CELL)
    return shown(
        table,
        {
            "dataset": "Dataset",
            "family": "Family",
            "alpha_ce": ("α, cross-entropy", "{:.3f}"),
            "alpha_rbp": ("α, −ln RBP₁", "{:.3f}"),
            "relative": ("difference, %", "{:+.1f}"),
            "nearest": "nearest k",
            "r_squared_ce": ("R², cross-entropy", "{:.3f}"),
            "r_squared_rbp": ("R², −ln RBP₁", "{:.3f}"),
        },
        caption="<b>Cross-entropy and RBP₁ in Table 1 of the paper</b>, as printed.",
        data=table,
    )
