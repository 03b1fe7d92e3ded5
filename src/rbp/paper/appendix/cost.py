"""What ranking costs beside other ways, and what a study would take on more GPUs: tables for the book."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rbp.book.figure_style import FAMILIES, SPARE, Panels, single_panel
from rbp.core import provenance
from rbp.core.errors import DataError, ParameterError
from rbp.core.files import label
from rbp.core.names import nearest
from rbp.core.paths import ROOT
from rbp.paper.curves import curves
from rbp.paper.display import shown
from rbp.ranks.cost import BYTES
from rbp.study.config import Dtype, Study, short_name
from rbp.study.gpu import AIMS, GPU, Found, aim_of, failure, read_gpu
from rbp.study.plan import MEASURED, Plan, make_plan

FOLDER = ROOT / "bench" / "results"
OURS, PLAIN = "ours", "plain route"  # how the names of the two ways begin
_COLUMNS = ["rows", "d", "vocabulary", "way", "ratio", "ratio_low", "ratio_high", "extra_memory_mb"]


def read_costs(folder: Path = FOLDER) -> pd.DataFrame:
    """Every result of the ranking's benchmark in `folder`, a GPU's last; none if there is no such file.

    Columns device, dtype, date, gpu (bool), rows (positions), d (width), vocabulary, way, ratio (the median, against
    the bare product of the same round), ratio_low, ratio_high, extra_memory_mb. Raises DataError for a malformed file.
    """
    found: list[tuple[str, bool, Any]] = []
    for path in sorted(folder.glob("ranking*.json")):
        try:
            found.append((label(path), False, json.loads(path.read_text(encoding="utf-8"))))
        except ValueError:
            found.append((label(path), False, None))
        provenance.note(path)
    if run := read_gpu(folder / GPU.name):
        answers = run["parts"].get("ranking", {"answers": []})["answers"]
        rows = [row for answer in answers for row in answer.get("rows", []) if (row["d"], row["vocabulary"]) in AIMS]
        rows = [row for row in rows if row["dtype"] == "bfloat16"]  # as models are run there; the rest: `gpu_shown`
        if rows:
            found.append((label(folder / GPU.name), True, run | {"dtype": "bfloat16", "rows": rows}))
    tables = []
    for where, gpu, content in found:
        try:
            table = pd.DataFrame(content["rows"])[_COLUMNS]
            about = {name: content[name] for name in ("device", "dtype", "date")}
        except (ValueError, KeyError, TypeError):
            remedy = "Write it again: python -m bench.ranking --json FILE."
            raise DataError("this is no result of the ranking's benchmark", where, remedy) from None
        tables.append(table.assign(**about, gpu=gpu))
    columns = ["device", "dtype", "date", "gpu", *_COLUMNS]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def ranges(costs: pd.DataFrame) -> pd.DataFrame:
    """The cost of ranks by `device`, from `read_costs`, for the two ways `ours` and `plain`.

    Columns device, and for each way WAY_min and WAY_max (times the bare product) and WAY_memory (the most, in MB).
    """
    rows = []
    for device, own in costs.groupby("device"):
        row = {"device": device}
        for name, start in (("ours", OURS), ("plain", PLAIN)):
            way = own[own["way"].str.startswith(start)]
            row |= {f"{name}_min": way["ratio"].min(), f"{name}_max": way["ratio"].max()}
            row |= {f"{name}_memory": way["extra_memory_mb"].max()}
        rows.append(row)
    return pd.DataFrame(rows)


def costs_shown(costs: pd.DataFrame) -> dict[str, Any]:
    """`read_costs` as a page shows it."""
    return shown(
        costs,
        {
            "device": "device",
            ("rows", "d", "vocabulary"): ("T × d × V", "{} × {} × {}"),
            "way": "way",
            "ratio": ("times the product", "{:.2f}"),
            "extra_memory_mb": ("extra MB", "{:,.0f}"),
        },
        caption="<b>What ranks cost</b> (<code>make bench</code> measures anew). T tokens, hidden states d wide, V "
        "logits for each. Times are medians, as multiples of the bare product’s in the same round.",
    )


SLURM = ROOT / "bench" / "results" / "study-slurm.json"
_RUN = ("date", "shards", "same_store", "slots", "seconds", "allowed", "sum_of_shards", "cores")
PARTS = {
    "operations": "the model's operations",
    "read": "reading weights",
    "digest": "checking weights",
    "tokenize": "tokenizing",
    "start": "starting jobs",
}


def check_scale(dtypes: Sequence[str], tokens: int, shards: int, gpus: Sequence[int]) -> None:
    """Raise ParameterError for a dtype that no study has, none at all, or a count below 1."""
    for name, values in {"dtypes": dtypes, "gpus": gpus}.items():
        if not values:
            raise ParameterError("an empty list", f"parameter {name}", "Give one at least.")
    for dtype in dtypes:
        if dtype not in BYTES:
            raise ParameterError(f'there is no dtype "{dtype}"', "parameter dtypes", nearest(dtype, BYTES))
    for name, count in {"tokens": tokens, "shards": shards, "gpus": min(gpus)}.items():
        if count < 1:
            raise ParameterError(f"{count} is below 1", f"parameter {name}", "Give a whole number from 1 on.")


def planned(study: Study, dtype: Dtype, tokens: int, shards: int) -> Plan:
    """The plan of a study in another dtype, with another budget and other shards."""
    provenance.note(MEASURED, study.path)
    return make_plan(replace(study, content=study.content.model_copy(update={"dtype": dtype})), tokens, shards)


def hours_on_gpus(
    study: Study, dtypes: Sequence[Dtype], tokens: int, shards: Sequence[int], gpus: Sequence[int]
) -> pd.DataFrame:
    """Hours on each number of GPUs: columns dtype, shards, gpus, hours, share (of the GPUs' time in operations).

    Raises DataError if the size of a model is not known here.
    """
    rows = []
    for dtype in dtypes:
        for count in shards:
            plan = planned(study, dtype, tokens, count)
            work = sum(cost.seconds or 0.0 for cost in plan.costs) / 3600
            for number in gpus:
                took = plan.hours(number)
                if took is None:
                    unknown = next(cost.cell.model.name for cost in plan.costs if cost.shard_seconds is None)
                    remedy = "Download it once, or leave it out."
                    raise DataError("the cost of a model is not known here", unknown, remedy)
                rows.append((dtype, count, number, took, work / (took * number)))
    return pd.DataFrame(rows, columns=["dtype", "shards", "gpus", "hours", "share"])


def gpus_in_words(number: int) -> str:
    """ "1 GPU", "64 GPUs"."""
    return f"{number} GPU" + ("s" if number > 1 else "")


def rate_in_words(plan: Plan) -> str:
    """The rate that a plan on GPUs reckons with: measured, or assumed."""
    if plan.rates.measured:
        return f"the rate measured on the {plan.rates.gpu} on {plan.rates.measured}"
    return f"an assumed {plan.study.content.gpu.share:.0%} of the rate on the data sheet of the {plan.rates.gpu}"


def evenness(table: pd.DataFrame, dtype: str, shards: int) -> float:
    """How quick the most GPUs of `hours_on_gpus` are, as a share of what an even share of the work would be."""
    hours = table[(table["dtype"] == dtype) & (table["shards"] == shards)].set_index("gpus")["hours"].sort_index()
    fewest, most = hours.index[0], hours.index[-1]
    return float(hours.iloc[0] * fewest / (hours.iloc[-1] * most))


def where_time_goes(plan: Plan) -> pd.DataFrame:
    """GPU hours of all jobs by part: columns part, hours; the parts of PARTS, in that order."""
    used = plan.rates
    seconds = dict.fromkeys(PARTS, 0.0)
    for cost in plan.costs:
        if cost.size is None or cost.seconds is None or cost.tokens is None:
            continue
        weights = cost.size.total * BYTES[plan.study.content.dtype]
        seconds["operations"] += cost.seconds
        seconds["read"] += cost.shards * weights / used.read
        seconds["digest"] += cost.shards * weights / used.digest
        seconds["tokenize"] += cost.shards * cost.tokens / used.tokenize
        seconds["start"] += cost.shards * used.start
    return pd.DataFrame({"part": list(PARTS.values()), "hours": [value / 3600 for value in seconds.values()]})


def share_around(part: pd.DataFrame) -> float:
    """The share of a table of `where_time_goes` that is not the model's operations."""
    operations, around = part["hours"].iloc[0], part["hours"].iloc[1:].sum()
    return float(around / (operations + around))


def costs_by_model(plan: Plan) -> pd.DataFrame:
    """One row per model: model, size, memory_gb (of a GPU), tokens, flops, gpu_hours, disk_mb."""
    rows = []
    for model in plan.study.models:
        mine = [cost for cost in plan.costs if cost.cell.model == model]
        size = mine[0].size
        rows.append(
            {
                "model": short_name(model.name),
                "size": size.non_embedding if size else None,
                "memory_gb": (mine[0].memory or 0.0) / 1e9,
                "tokens": sum(cost.tokens or 0 for cost in mine),
                "flops": sum(cost.flops or 0.0 for cost in mine),
                "gpu_hours": sum(cost.shards * (cost.shard_seconds or 0.0) for cost in mine) / 3600,
                "disk_mb": sum(cost.disk or 0.0 for cost in mine) / 1e6,
            }
        )
    return pd.DataFrame(rows)


def models_shown(models: pd.DataFrame, dtype: str) -> dict[str, Any]:
    """The table of `costs_by_model` for a page."""
    return shown(
        models,
        {
            "model": "model",
            "size": ("S", "{:,}"),
            "memory_gb": ("memory (GB)", "{:.1f}"),
            "tokens": ("tokens", "{:,}"),
            "flops": ("operations", "{:.2e}"),
            "gpu_hours": ("GPU hours", "{:.2f}"),
            "disk_mb": ("disk (MB)", "{:.0f}"),
        },
        caption=f"<b>What each model needs</b> for all datasets, in {dtype}. Tokens: at most.",
    )


def slurm_simulation() -> dict[str, Any] | None:
    """What tests/slow/slurm_shards.py measured on a one-node Slurm; None if it has not been run.

    same_store: whether the shards' merged store is, byte for byte, that of one run; times in seconds. Raises DataError
    for a file that holds something else.
    """
    if not SLURM.exists():
        return None
    provenance.note(SLURM)
    try:
        found: dict[str, Any] = json.loads(SLURM.read_bytes())
        return {name: found[name] for name in _RUN}
    except (ValueError, KeyError, TypeError):
        remedy = "Write it again: python tests/slow/slurm_shards.py --json FILE."
        raise DataError("this is no result of the run on Slurm", label(SLURM), remedy) from None


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
    for row in answer["rows"]:
        aim, size = aim_of(row), f"{row['rows']} × {row['d']} × {row['vocabulary']} in {row['dtype']}"
        share = "" if row["share_of_peak"] is None else f", {row['share_of_peak']:.0%} of the data sheet’s rate"
        figure = f"{row['ratio']:.2f}" + (f" (aim: at most {aim})" if aim else "")
        lines.append((f"{size}: {row['way']}", f"{figure}{share}, {row['extra_memory_mb']:,.0f} MB"))
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
}


_STYLES = [(style[0], style[1]) for style in (*FAMILIES.values(), *SPARE)]
_LINES = ("-", "--", ":", "-.")


def hours_panels(table: pd.DataFrame, shards: int) -> Panels:
    """Hours against the number of GPUs: a panel for each dtype, and a line for each number of shards.

    table: columns dtype, shards, gpus, hours; shards: whose line is whole.
    """
    counts = [shards, *(count for count in sorted(table["shards"].unique()) if count != shards)]
    names = {count: f"{count} shard" + ("s" if count > 1 else "") for count in counts}
    styles = {names[count]: (*style, dash) for count, style, dash in zip(counts, _STYLES, _LINES, strict=False)}
    return curves(
        table.assign(line=table["shards"].map(names)), "gpus", "hours", labels=("GPUs", "hours for the whole study"),
        panel="dtype", styles=styles, ends=True, log="xy", ylim="shared",
    )  # fmt: skip


def time_bars(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """The shares of the GPUs' time by what it is spent on, a bar for each dtype.

    tables: dtype -> columns part, hours.
    """

    def draw(ax: Axes) -> None:
        height = 0.8 / len(tables)
        for number, ((dtype, table), (colour, _)) in enumerate(zip(tables.items(), _STYLES, strict=False)):
            places = [place + (number - (len(tables) - 1) / 2) * height for place in range(len(table))]
            shares = table["hours"] / table["hours"].sum()
            ax.barh(places, shares, height=0.9 * height, color=colour, label=dtype)
            for place, share, value in zip(places, shares, table["hours"], strict=True):
                words = f"{value:.2g} h"
                ax.annotate(words, (share, place), (4, 0), textcoords="offset points", va="center")
        ax.set_yticks(range(len(table)), table["part"])
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.xaxis.set_major_formatter(PercentFormatter(1))
        ax.set_xlabel("share of the GPUs' time")
        ax.grid(visible=False, axis="y")
        ax.legend(frameon=False, loc="lower right")

    return single_panel(draw, size=(5.8, 4.0))
