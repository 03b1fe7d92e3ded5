"""Rank and cross-entropy up to 20 billion parameters: documents that five models of detectors have read."""

from typing import Any

import numpy as np
import pandas as pd

from rbp.arrays import Reals, check_level
from rbp.figures.wording import dataset_label
from rbp.laws.resampling import interval, without_each
from rbp.report.display import INTERVAL, Columns, shown

CELL = ["dataset", "written_by"]


def lines(documents: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """E ln R of each text against its cross-entropy over the models: a line through as many points as models.

    documents: `outside.detector_documents`. Columns dataset, written_by, models, slope, low, high (documents, by their
    number, left out of all models at once), r_squared, largest (residual, per cent of E ln R), other (that of the model
    with a tokenizer of its own), tilt_low, tilt_high: cross-entropy over entropy of the predictions, over the models.
    """
    check_level(level)
    rows = []
    for (dataset, author), own in documents.groupby(CELL):
        names = sorted(own["model"].unique())
        columns = ["cross_entropy", "mean_log_rank", "entropy"]
        each = [own[own["model"] == name].sort_values("document")[columns].to_numpy(np.float64) for name in names]
        count = min(map(len, each))  # documents are paired by number
        without = without_each(np.stack([one[:count] for one in each], axis=1))
        means = without / np.append(count, np.full(count, count - 1))[:, None, None]
        x, y = means[:, :, 0], means[:, :, 1]
        slope, residual = _line(x, y)
        _, low, high = interval(slope, level=level)
        tilt = means[0, :, 0] / means[0, :, 2]
        away = dict(zip(names, 100 * residual[0] / y[0], strict=True))
        rows.append(
            {
                "dataset": dataset,
                "written_by": author,
                "models": len(names),
                "slope": slope[0],
                "low": low,
                "high": high,
            }
            | {"r_squared": 1 - np.sum(residual[0] ** 2) / np.sum((y[0] - y[0].mean()) ** 2)}
            | {"largest": max(map(abs, away.values())), "other": away.get("gpt-neox-20b", np.nan)}
            | {"tilt_low": tilt.min(), "tilt_high": tilt.max()}
        )
    return pd.DataFrame(rows)


def _line(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    """The slope of least squares in each row, and what it leaves."""
    away = x - x.mean(axis=1, keepdims=True)
    slope = (away * y).sum(axis=1) / (away**2).sum(axis=1)
    left: Reals = y - y.mean(axis=1, keepdims=True) - slope[:, None] * away
    return slope, left


def told(over_models: pd.DataFrame) -> dict[str, Any]:
    """What the page says of `lines`, of people's texts."""
    return {"people.r_squared_min": over_models.loc[over_models["written_by"] == "human", "r_squared"].min()}


def lines_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The lines over models (`lines`)."""
    columns: Columns = {
        "name": "Text",
        "written_by": "written by",
        "slope": ("slope", "{:.3f}"),
        ("low", "high"): (f"{level:.0%}, by documents", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "largest": ("largest residual, %", "{:.2f}"),
        "other": ("NeoX’s, %", "{:+.2f}"),
        ("tilt_low", "tilt_high"): ("cross-entropy over entropy", "{:.2f} – {:.2f}"),
    }
    names = {"human": "people", "model": "the model itself"}
    rows = table.assign(name=table["dataset"].map(dataset_label), written_by=table["written_by"].map(names))
    caption = (
        "<b>The mean of ln R against cross-entropy,</b> a line over five models for each text. NeoX’s "
        "tokenizer is its own. Cross-entropy over entropy is 1 where a model is as sure as it should be."
    )
    return shown(rows, columns, caption=caption, data=table)
