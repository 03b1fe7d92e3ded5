"""What a study would take on more GPUs, and which part of it is in the way: tables for the book, from plans."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd

from rbp import published
from rbp.errors import DataError, ParameterError
from rbp.parameters import nearest
from rbp.paths import ROOT
from rbp.study.file import Dtype, Study
from rbp.study.names import short
from rbp.study.plan import Plan, make_plan
from rbp.study.rates import BYTES, MEASURED
from rbp.tables import label

SLURM = ROOT / "bench" / "results" / "study-slurm.json"
_RUN = ("date", "shards", "same_store", "slots", "seconds", "allowed", "sum_of_shards", "cores")
PARTS = {
    "operations": "the model's operations",
    "read": "reading weights",
    "digest": "checking weights",
    "tokenize": "tokenizing",
    "start": "starting jobs",
}


def check(dtypes: Sequence[str], tokens: int, shards: int, gpus: Sequence[int]) -> None:
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
    published.opened.update(label(path) for path in (MEASURED, study.path))
    return make_plan(replace(study, content=study.content.model_copy(update={"dtype": dtype})), tokens, shards)


def hours(
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


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `hours` for a page: a row for each dtype and number of shards, the hours, then the shares."""
    found = table.pivot_table(["hours", "share"], ["dtype", "shards"], "gpus", sort=False)
    words = {"hours": "{} GPU{}, hours", "share": "operations, {} GPU{}"}
    pairs = cast("list[tuple[str, int]]", found.columns.to_list())
    found.columns = pd.Index([words[name].format(gpus, "s" if gpus > 1 else "") for name, gpus in pairs])
    return found.reset_index()


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


def by_model(plan: Plan) -> pd.DataFrame:
    """One row per model: model, size, memory_gb (of a GPU), tokens, flops, gpu_hours, disk_mb."""
    rows = []
    for model in plan.study.models:
        mine = [cost for cost in plan.costs if cost.cell.model == model]
        size = mine[0].size
        rows.append(
            {
                "model": short(model.name),
                "size": size.non_embedding if size else None,
                "memory_gb": (mine[0].memory or 0.0) / 1e9,
                "tokens": sum(cost.tokens or 0 for cost in mine),
                "flops": sum(cost.flops or 0.0 for cost in mine),
                "gpu_hours": sum(cost.shards * (cost.shard_seconds or 0.0) for cost in mine) / 3600,
                "disk_mb": sum(cost.disk or 0.0 for cost in mine) / 1e6,
            }
        )
    return pd.DataFrame(rows)


def simulated(path: Path = SLURM) -> dict[str, Any] | None:
    """What tests/slow/slurm_shards.py measured on a one-node Slurm; None if it has not been run.

    same_store: whether the shards' merged store is, byte for byte, that of one run; times in seconds. Raises DataError
    for a file that holds something else.
    """
    if not path.exists():
        return None
    published.opened.add(label(path))
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        return {name: found[name] for name in _RUN}
    except (ValueError, KeyError, TypeError):
        remedy = "Write it again: python tests/slow/slurm_shards.py --json FILE."
        raise DataError("this is no result of the run on Slurm", label(path), remedy) from None
