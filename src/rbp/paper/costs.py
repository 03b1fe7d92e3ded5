"""What ranking costs beside other ways, and what a study would take on more GPUs: tables for the book."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from rbp.core import provenance
from rbp.core.errors import DataError, ParameterError
from rbp.core.names import nearest
from rbp.core.paths import ROOT, label
from rbp.paper.display import shown
from rbp.study.config import Dtype, Study, short_name
from rbp.study.gpu import AIMS, GPU, read_gpu
from rbp.study.plan import BYTES, MEASURED, Plan, make_plan

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
