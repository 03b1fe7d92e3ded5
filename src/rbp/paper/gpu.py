"""What `make gpu` found on a machine with a GPU, if it was run on one: a table for the book."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.core.paths import ROOT, label
from rbp.paper.display import shown

GPU = ROOT / "bench" / "results" / "gpu.json"
AIMS = {(4096, 128256): 1.05, (768, 50304): 1.3}  # ranks take at most so many times the bare product, by (d, V)

Found = dict[str, Any]
Lines = list[tuple[str, str]]


def read_gpu(path: Path = GPU) -> Found | None:
    """What `bench.gpu` wrote: device, date, versions, and parts by name; None if it has not been run.

    Raises DataError for another file, and for one that Triton's interpreter made: it holds no figures of a GPU.
    """
    if not path.exists():
        return None
    provenance.note(path)
    try:
        found: Found = json.loads(path.read_bytes())
        interpreter, parts = found["interpreter"], found["parts"]
        _ = found["device"] + found["date"], [part.keys() for part in parts.values()]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("this is no result of make gpu", label(path), "Write it again: make gpu.") from None
    if interpreter:
        raise DataError("these figures are the interpreter's, not a GPU's", label(path), "Remove the file.")
    return found


def worked(part: Found | None) -> bool:
    """Whether a part is done, and found nothing that must not be."""
    return part is not None and "error" not in part and not part.get("failed")


def measured_on(run: Found | None) -> str:
    """The card and the date, in words."""
    return f"Measured on a GPU: {run['device']}, {run['date']}" if run else "No GPU was measured"


def gpu_shown(run: Found) -> Found:
    """`read_gpu` as a page shows it: a row for each figure, or for why there is none.

    Raises DataError for a part that lacks what it should hold.
    """
    try:
        rows = [(name, *line) for name, part in run["parts"].items() for line in _lines(name, part)]
    except (KeyError, TypeError, ValueError):
        raise DataError("a part of what make gpu found is malformed", label(GPU), "Write it again: make gpu.") from None
    return shown(
        pd.DataFrame(rows, columns=["part", "what", "figure"]),
        {"part": "part", "what": "what", "figure": "figure"},
        caption=f"<b>What a GPU gave,</b> from <code>make gpu</code>: {run['device']}, {run['date']}. Ratios are to "
        "the fastest bare matrix product of the same round.",
    )


def aim_of(row: Found) -> float | None:
    """What the ratio of a row of the ranking's benchmark should not exceed; None for others than ours."""
    return AIMS.get((row["d"], row["vocabulary"])) if row["way"].startswith("ours") else None


def _lines(name: str, part: Found) -> Lines:
    if not worked(part):
        return [("failed", part.get("error") or "; ".join(part["failed"]))]
    if isinstance(part.get("left_out"), str):
        return [("left out", part["left_out"])]
    return _extraction(part) if name.startswith("extraction") else _FIGURES[name](part)


def _ranking(part: Found) -> Lines:
    lines = []
    for row in [*part["rows"], *part["left_out"]]:
        aim, size = aim_of(row), f"{row['rows']} × {row['d']} × {row['vocabulary']}"
        figure = row["why"] if "why" in row else f"{row['ratio']:.2f}" + (f" (aim: at most {aim})" if aim else "")
        lines.append((f"{size}: {row['way']}", figure))
    return lines


def _extraction(part: Found) -> Lines:
    ours = [row for row in part["rows"] if row["way"].startswith("ours")]
    return [
        (row["way"], f"{row['tokens_per_second']:,.0f} tokens/s, {1 / row['ratio']:.0%} of the rate allowed")
        for row in ours
    ]


_FIGURES: dict[str, Callable[[Found], Lines]] = {
    "exactness": lambda part: [
        (f"wrong ranks in {len(part['answers'])} problems", str(sum(each["wrong"] for each in part["answers"])))
    ],
    "ranking": _ranking,
    "devices": lambda part: [("ranks unlike the CPU’s, in float32", f"{part['differ']:.4%}")],
    "memory": lambda part: [
        (
            "rows at a time, as memory ran short",
            " → ".join(map(str, [part["batch"], *(n for n, _ in part["halvings"])])),
        )
    ],
    "two processes": lambda part: [("the same ranks: seconds by one, by two", f"{part['one']:.1f}, {part['two']:.1f}")],
    "ladder": lambda part: [(run["name"], f"{run['tokens_per_second']:,} tokens/s") for run in part["runs"]],
    "tests": lambda part: [("the kernel’s own", part["said"])],
}
