"""The cost of ranking, compared with the plain route: the results of the benchmarks, as a table for the book."""

import json
from typing import Any

import pandas as pd

from companion.project import ROOT
from rbp import provenance
from rbp.errors import DataError
from rbp.io import label
from rbp.report.display import Columns, shown

FOLDER = ROOT / "bench" / "results"
OURS, PLAIN = "ours", "plain route"  # how the names of the two ways begin
WIDTHS = (768, 50304), (4096, 128256)  # of hidden states, and logits for each: what the page shows of a GPU
_COLUMNS = ["dtype", "rows", "d", "vocabulary", "way", "ratio", "ratio_low", "ratio_high", "extra_memory_mb"]


def read_costs() -> pd.DataFrame:
    """Read every result of the ranking's benchmark, a GPU's last; none if there is no such file.

    Columns device, date, gpu (bool), dtype, rows (positions), d (width), vocabulary, way, ratio (the median, against
    the bare product of the same round), ratio_low, ratio_high, extra_memory_mb. Raises DataError for a malformed file,
    and for one that Triton's interpreter made: it holds no figures of a GPU.
    """
    tables = []
    for path in [*sorted(FOLDER.glob("ranking*.json")), *FOLDER.glob("gpu.json")]:
        provenance.note(path)
        gpu = path.name == "gpu.json"
        try:
            content = json.loads(path.read_bytes())
            rows = pd.DataFrame(_gpu_rows(content) if gpu else content["rows"])
            rows = rows[_COLUMNS] if len(rows) else rows
            origin = {name: content[name] for name in ("device", "date")}
            interpreter = gpu and content["interpreter"]
        except (ValueError, KeyError, TypeError, AttributeError):
            remedy = "Write it again: " + ("make gpu." if gpu else "python -m bench.ranking --json FILE.")
            raise DataError("this is not a result of the ranking benchmark", label(path), remedy) from None
        if interpreter:
            raise DataError(
                "these figures come from Triton's interpreter, not from a GPU", label(path), "Remove the file."
            )
        if len(rows):
            tables.append(rows.assign(**origin, gpu=gpu))
    columns = ["device", "date", "gpu", *_COLUMNS]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def _gpu_rows(content: Any) -> list[dict[str, Any]]:
    """List the rows of a GPU's answers that the page shows, in the dtypes that models are run in there."""
    answers = content["parts"].get("ranking", {"answers": []})["answers"]
    rows = [row for answer in answers for row in answer.get("rows", [])]
    return [row for row in rows if (row["d"], row["vocabulary"]) in WIDTHS and row["dtype"] != "float16"]


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
        "ours_ratio": ("ours, times", "{:.2f}"),
        "plain_ratio": ("plain route, times", "{:.2f}"),
        ("rows", "d", "vocabulary"): ("T × d × V", "{:,} × {:,} × {:,}"),
        "ours_extra_memory_mb": ("ours, MB", "{:,.0f}"),
        "plain_extra_memory_mb": ("plain route, MB", "{:,.0f}"),
    }
    return shown(pd.concat(parts, axis=1).reset_index(), columns, data=costs)


def measured_on(costs: pd.DataFrame) -> str:
    """Name the GPU of `read_costs`, and the date of its measurements."""
    gpu = costs[costs["gpu"].astype(bool)]
    return f"Measured on a GPU: {gpu['device'].iloc[0]}, {gpu['date'].iloc[0]}" if len(gpu) else "No GPU was measured"
