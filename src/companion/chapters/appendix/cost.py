"""The cost of ranking, compared with the plain route: a table for the book."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from companion.chapters.appendix.gpu import GPU, PRODUCTS, Record, read_gpu
from companion.project import ROOT
from rbp import provenance
from rbp.errors import DataError
from rbp.io import label
from rbp.report.display import Columns, shown

FOLDER = ROOT / "bench" / "results"
OURS, PLAIN = "ours", "plain route"  # how the names of the two ways begin
_COLUMNS = ["dtype", "rows", "d", "vocabulary", "way", "ratio", "ratio_low", "ratio_high", "extra_memory_mb"]


def read_costs(folder: Path = FOLDER) -> pd.DataFrame:
    """Read every result of the ranking's benchmark in `folder`, a GPU's last; none if there is no such file.

    Columns device, date, gpu (bool), dtype, rows (positions), d (width), vocabulary, way, ratio (the median, against
    the bare product of the same round), ratio_low, ratio_high, extra_memory_mb. Raises DataError for a malformed file.
    """
    files: list[tuple[str, bool, Any]] = []
    for path in sorted(folder.glob("ranking*.json")):
        try:
            files.append((label(path), False, json.loads(path.read_text(encoding="utf-8"))))
        except ValueError:
            files.append((label(path), False, None))
        provenance.note(path)
    if run := read_gpu(folder / GPU.name):
        answers = run["parts"].get("ranking", {"answers": []})["answers"]
        rows = [
            row for answer in answers for row in answer.get("rows", []) if (row["d"], row["vocabulary"]) in PRODUCTS
        ]
        rows = [row for row in rows if row["dtype"] != "float16"]  # as models are run there
        if rows:
            files.append((label(folder / GPU.name), True, run | {"rows": rows}))
    tables = []
    for where, gpu, content in files:
        try:
            table = pd.DataFrame(content["rows"])[_COLUMNS]
            about = {name: content[name] for name in ("device", "date")}
        except (ValueError, KeyError, TypeError):
            remedy = "Write it again: python -m bench.ranking --json FILE."
            raise DataError("this is no result of the ranking's benchmark", where, remedy) from None
        tables.append(table.assign(**about, gpu=gpu))
    columns = ["device", "date", "gpu", *_COLUMNS]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def ranges(costs: pd.DataFrame) -> pd.DataFrame:
    """Summarize the cost of ranks by `device`, from `read_costs`, for the two ways `ours` and `plain`.

    Columns device, and for each way WAY_min and WAY_max (times the bare product) and WAY_memory (the most, in MB).
    """
    rows, columns = [], [f"{name}_{of}" for name in ("ours", "plain") for of in ("min", "max", "memory")]
    for device, group in costs.groupby("device"):
        row = {"device": device}
        for name, start in (("ours", OURS), ("plain", PLAIN)):
            way = group[group["way"].str.startswith(start)]
            row |= {f"{name}_min": way["ratio"].min(), f"{name}_max": way["ratio"].max()}
            row |= {f"{name}_memory": way["extra_memory_mb"].max()}
        rows.append(row)
    return pd.DataFrame(rows, columns=["device", *columns])


def costs_table(costs: pd.DataFrame) -> dict[str, Any]:
    """Show the ways `ours` and `plain` of `read_costs`, a row for each device, dtype and shape."""
    ways = {"ours": costs["way"].str.startswith(OURS), "plain": costs["way"].str.startswith(PLAIN)}
    shape = ["device", "dtype", "rows", "d", "vocabulary"]
    parts = [
        costs[which].groupby(shape, sort=False)[["ratio", "extra_memory_mb"]].first().add_prefix(f"{name}_")
        for name, which in ways.items()
    ]
    columns: Columns = {
        ("device", "dtype"): ("device", "{}, {}"),
        ("rows", "d", "vocabulary"): ("T × d × V", "{:,} × {:,} × {:,}"),
        "ours_ratio": ("ours, times", "{:.2f}"),
        "plain_ratio": ("plain route, times", "{:.2f}"),
        "ours_extra_memory_mb": ("ours, MB", "{:,.0f}"),
        "plain_extra_memory_mb": ("plain route, MB", "{:,.0f}"),
    }
    caption = (
        "<b>What ranks cost</b> (<code>make bench</code> measures anew). T tokens, hidden states d wide, V logits for "
        "each. Times are medians, as multiples of the bare product in the same round. MB: extra memory."
    )
    return shown(pd.concat(parts, axis=1).reset_index(), columns, caption=caption, data=costs)


def measured_on(run: Record | None) -> str:
    """Name the card and the date of the measurements."""
    return f"Measured on a GPU: {run['device']}, {run['date']}" if run else "No GPU was measured"
