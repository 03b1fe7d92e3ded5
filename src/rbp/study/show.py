"""How a study stands and what it would cost, as text and as numbers."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rbp.study.file import Study
from rbp.study.jobs import Job, State, all_jobs, log_file, state
from rbp.study.plan import Plan, disk_per_token
from rbp.study.stores import model_label, progress


@dataclass(frozen=True)
class Summary:
    """Every job with its state; packs: done and known of all stores."""

    jobs: tuple[tuple[Job, State], ...]
    packs: tuple[int, int]

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are done, running, failed, left."""
        found = Counter(state.stand for _, state in self.jobs)
        return {stand: found.get(stand, 0) for stand in ("done", "running", "failed", "left")}


def summary(study: Study) -> Summary:
    """How a study stands now."""
    there = [progress(study, cell) for cell in study.cells]
    packs = sum(one.done for one in there), sum(one.packs for one in there)
    return Summary(tuple((job, state(study, job)) for job in all_jobs(study)), packs)


def lines_of(study: Study, now: Summary) -> list[str]:
    """How a study stands: a line of counts, and one for each job that runs or failed."""
    counts = ", ".join(f"{count} {stand}" for stand, count in now.counts.items())
    done, packs = now.packs
    bar = f"{_bar(done / packs)} {done:,} of {packs:,} packs; " if packs else ""
    lines = [f"{bar}{len(now.jobs)} jobs: {counts}"]
    for job, how in now.jobs:
        where = f" on {how.where}" if how.where else ""
        if how.stand == "running":
            lines.append(f"  running  {job.name}  {how.seconds or 0:.0f} s{where}")
        if how.stand == "failed":
            lines += [f"  failed   {job.name}{where}: {how.reason}", f"           log: {log_file(study, job)}"]
    return lines


def status_json(study: Study) -> dict[str, Any]:
    """The same as numbers."""
    now = summary(study)
    jobs = [
        {
            "job": job.name,
            "kind": job.kind,
            "state": how.stand,
            "reason": how.reason,
            "seconds": how.seconds,
            "where": how.where,
            "log": str(log_file(study, job)),
        }
        for job, how in now.jobs
    ]
    return {"counts": now.counts, "packs": {"done": now.packs[0], "known": now.packs[1]}, "jobs": jobs}


_CALLED = {"fetch": "download"}  # what a kind of job is called, if not as it is


def job_counts(study: Study) -> dict[str, int]:
    """How many jobs of each kind a study has, in the order of the work."""
    return dict(Counter(job.kind for job in all_jobs(study)))


def _bar(share: float, width: int = 20) -> str:
    full = round(width * share)
    return "█" * full + "░" * (width - full)


def plan_json(plan: Plan, gpus: list[int]) -> dict[str, Any]:
    """A plan as numbers: one entry for each model on each corpus, the totals, the hours on some numbers of GPUs."""
    cells = [
        {
            "model": cost.cell.model.name,
            "corpus": cost.cell.corpus.name,
            "size": cost.size.non_embedding if cost.size else None,
            "tokens": cost.tokens,
            "flops": cost.flops,
            "gpu_memory": cost.memory,
            "gpu_seconds": cost.seconds,
            "extra_seconds": cost.extra,
            "disk": cost.disk,
            "shards": cost.shards,
            "there": {"packs": cost.there.packs, "done": cost.there.done, "whole": cost.there.whole},
        }
        for cost in plan.costs
    ]
    hours = {str(count): plan.hours(count) for count in gpus}
    reckoned = {"rates": plan.rates.__dict__, "hours": hours, "disk_per_token": disk_per_token()}
    return {"jobs": job_counts(plan.study), "cells": cells, **reckoned}


def plan_lines(plan: Plan, gpus: list[int]) -> list[str]:
    """A plan as people read it: a line for each model, the totals, and what they are reckoned with."""
    study, content = plan.study, plan.study.content
    counts = job_counts(study)
    jobs = ", ".join(f"{count} {_CALLED.get(kind, kind)}{'s' if count > 1 else ''}" for kind, count in counts.items())
    lines = [
        f"{study.title}: {len(study.models)} models × {len(study.corpora)} corpora "
        f"({', '.join(corpus.name for corpus in study.corpora)})",
        f"protocol {study.protocol.name}, windows of {study.protocol.length} tokens, {content.dtype}",
        f"{sum(counts.values())} jobs: {jobs}",
        "",
        f"{'model':34} {'S':>14} {'GPU memory':>11} {'tokens':>12} {'operations':>11} {'GPU hours':>10} "
        f"{'disk':>8}  there",
    ]
    for model in study.models:
        mine = [cost for cost in plan.costs if cost.cell.model == model]
        size, memory = mine[0].size, mine[0].memory
        tokens = _total([cost.tokens for cost in mine])
        flops = _total([cost.flops for cost in mine])
        seconds = _total([cost.shards * cost.shard_seconds if cost.shard_seconds else None for cost in mine])
        disk = _total([cost.disk for cost in mine])
        whole = sum(cost.there.whole for cost in mine)
        parts = sum(cost.there.done for cost in mine)
        there = f"{whole} of {len(mine)} stores" + (f", {parts} packs" if parts and whole < len(mine) else "")
        name = model_label(mine[0].cell)
        name = name if len(name) <= 34 else "…" + name[-33:]
        lines.append(
            f"{name:34} {_of(size.non_embedding if size else None, ',d'):>14} {_of(memory, '.1f', 1e9, ' GB'):>11} "
            f"{_of(tokens, ',.0f'):>12} {_of(flops, '.2e'):>11} {_of(seconds, '.2f', 3600):>10} "
            f"{_of(disk, ',.0f', 1e6, ' MB'):>8}  {there}"
        )
    lines += ["", *_reckoned(plan, gpus)]
    return lines


def _reckoned(plan: Plan, gpus: list[int]) -> list[str]:
    content, used = plan.study.content, plan.rates
    tokens, flops = _total([cost.tokens for cost in plan.costs]), _total([cost.flops for cost in plan.costs])
    disk = _total([cost.disk for cost in plan.costs])
    lines = [
        f"in all: {_of(tokens, ',.0f')} tokens at most, {_of(flops, '.2e')} operations, {_of(disk, ',.2f', 1e9)} GB"
    ]
    for count in gpus:
        lines.append(f"on {count} GPU{'s' if count > 1 else ''}: {_of(plan.hours(count), ',.2f')} hours")
    for name, need in plan.too_large:
        lines.append(f"too large: {name} needs {need / 1e9:.0f} GB, {content.gpu.name} has {content.gpu.memory:.0f}")
    lines += [
        "",
        f"Assumed: {content.gpu.name} at {used.flops / 1e12:.1f} TFLOP/s in {content.dtype} "
        f"({content.gpu.share:.0%} of its data sheet; no GPU was measured), "
        f"weights read at {used.read / 1e9:.1f} GB/s.",
        f"Measured on a CPU: weights checked at {used.digest / 1e9:.2f} GB/s, {used.tokenize:,.0f} tokens/s tokenized, "
        f"{used.start:.1f} s to start a job;",
        f"{disk_per_token():.2f} bytes a token in the ladder's stores.",
        "Operations: 2·S for each token read, 2·V·d for each ranked. Tokens and disk: at most. ?: not known here.",
    ]
    return lines


def _total(values: "list[int | None] | list[float | None]") -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _of(value: float | None, how: str, unit: float = 1, ending: str = "") -> str:
    return "?" if value is None else format(value / unit if unit != 1 else value, how) + ending
