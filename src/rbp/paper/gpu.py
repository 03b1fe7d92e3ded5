"""What `make gpu` found, if it was run on a machine with a GPU: a table for the book."""

from collections.abc import Callable

import pandas as pd

from rbp.core.errors import DataError
from rbp.core.paths import label
from rbp.paper.display import shown
from rbp.study.gpu import GPU, Found, aim_of, failure

Lines = list[tuple[str, str]]


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
        "what is named, or the bare matrix product, of the same round.",
    )


def _lines(name: str, part: Found) -> Lines:
    lines: Lines = [("left out", part["left_out"])] if "left_out" in part else []
    for answer in part["answers"]:
        if what := failure(answer):
            lines.append((f"{answer['question']}: failed", what))
        elif "left_out" in answer and isinstance(answer["left_out"], str):
            lines.append((f"{answer['question']}: left out", answer["left_out"]))
        else:
            lines += _FIGURES[name.split()[0]](answer)
    if left := part.get("left"):
        lines.append(("not asked yet", "; ".join(left)))
    if "error" in part:
        lines.append(("failed", part["error"]))
    return lines


def _ranking(answer: Found) -> Lines:
    lines = []
    for row in [*answer["rows"], *answer["left_out"]]:
        aim, size = aim_of(row), f"{row['rows']} × {row['d']} × {row['vocabulary']} in {row['dtype']}"
        if "why" in row:
            figure = row["why"]
        else:
            share = "" if row["share_of_peak"] is None else f", {row['share_of_peak']:.0%} of the data sheet’s rate"
            figure = f"{row['ratio']:.2f}" + (f" (aim: at most {aim})" if aim else "")
            figure += f"{share}, {row['extra_memory_mb']:,.0f} MB"
        lines.append((f"{size}: {row['way']}", figure))
    return lines


def _extraction(answer: Found) -> Lines:
    return [
        (
            f"{answer['question']}: {row['way']}",
            f"{row['tokens_per_second']:,.0f} tokens/s, {row['ratio']:.2f} times the {answer['reference']}",
        )
        for row in answer["rows"]
    ]


_FIGURES: dict[str, Callable[[Found], Lines]] = {
    "kernels": lambda answer: [("kernels compiled, on how many cores", f"{answer['kernels']}, {answer['processes']}")],
    "exactness": lambda answer: [(f"wrong ranks, {answer['question']}", str(answer["wrong"]))],
    "ranking": _ranking,
    "extraction": _extraction,
    "devices": lambda answer: [("ranks unlike the CPU’s, in float32", f"{answer['differ']:.4%}")],
    "memory": lambda answer: [
        (
            "rows at a time, as memory ran short",
            " → ".join(map(str, [answer["batch"], *(n for n, _ in answer["halvings"])])),
        )
    ],
    "two": lambda answer: [("the same ranks: seconds by one, by two", f"{answer['one']:.1f}, {answer['two']:.1f}")],
    "ladder": lambda answer: [(answer["name"], f"{answer['tokens_per_second']:,} tokens/s")],
    "tests": lambda answer: [("the kernel’s own", answer["said"])],
}
