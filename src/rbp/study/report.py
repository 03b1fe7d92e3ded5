"""How a study stands, what it would cost, and its book: as text, as numbers, and as pages that read offline."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rbp.book import standalone
from rbp.book.prose import BookValues
from rbp.core.files import folder_beside, swap_in, write_file, write_json
from rbp.core.paths import Project
from rbp.ranks.protocols import Protocol
from rbp.study.config import Study
from rbp.study.jobs import (
    BOOK,
    TABLE,
    Job,
    State,
    all_jobs,
    chapter_job,
    chapters_of,
    finished_store,
    log_file,
    model_label,
    progress,
    state,
    without,
)
from rbp.study.plan import STORED, Plan


@dataclass(frozen=True)
class Summary:
    """Every job with its state; packs: done and known of all stores; share: of all work, each store counting alike."""

    jobs: tuple[tuple[Job, State], ...]
    packs: tuple[int, int]
    share: float

    @property
    def counts(self) -> dict[str, int]:
        """How many jobs are done, running, failed, left."""
        found = Counter(state.stand for _, state in self.jobs)
        return {stand: found.get(stand, 0) for stand in ("done", "running", "failed", "left")}


def summary(study: Study) -> Summary:
    """How a study stands now."""
    there = [progress(study, cell) for cell in study.cells]
    packs = sum(one.done for one in there), sum(one.packs for one in there)
    # how many packs a store has is known once it is begun: a share of those that are would fall with each new one
    share = sum(1.0 if one.whole else one.done / max(one.packs, 1) for one in there) / len(there)
    return Summary(tuple((job, state(study, job)) for job in all_jobs(study)), packs, share)


def lines_of(study: Study, now: Summary) -> list[str]:
    """How a study stands: a line of counts, and one for each job that runs or failed."""
    counts = ", ".join(f"{count} {stand}" for stand, count in now.counts.items())
    done, packs = now.packs
    bar = f"{_bar(now.share)} {done:,} packs; " if packs else ""
    lines = [f"{bar}{len(now.jobs)} jobs: {counts}"]
    for job, how in now.jobs:
        where = f" on {how.where}" if how.where else ""
        if how.stand == "running":
            lines.append(f"  running  {job.name}  {how.seconds or 0:.0f} s{where}")
        if how.stand == "failed":
            lines.append(f"  failed   {job.name}{where}: {how.reason}")
            lines += [f"           {words}" for words in (how.remedy, f"log: {log_file(study, job)}") if words]
        if how.stand == "done" and how.reason:
            lines.append(f"  without  {job.name}: {how.reason}")
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
            "remedy": how.remedy,
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


def _bar(share: float) -> str:
    full = round(20 * share)
    return "█" * full + "░" * (20 - full)


def plan_json(plan: Plan, at_once: list[int]) -> dict[str, Any]:
    """A plan as numbers: one entry for each model on each corpus, the hours on some numbers of GPUs, or of jobs."""
    device = "gpu" if plan.on_gpu else "cpu"
    cells = [
        {
            "model": cost.cell.model.name,
            "revision": cost.cell.model.revision,
            "corpus": cost.cell.corpus.name,
            "size": cost.size.non_embedding if cost.size else None,
            "tokens": cost.tokens,
            "flops": cost.flops,
            f"{device}_memory": cost.memory,
            f"{device}_seconds": cost.seconds,
            "extra_seconds": cost.extra,
            "disk": cost.disk,
            "shards": cost.shards,
            "there": {"packs": cost.there.packs, "done": cost.there.done, "whole": cost.there.whole},
        }
        for cost in plan.costs
    ]
    hours = {str(count): plan.hours(count) for count in at_once}
    reckoned = {"rates": plan.rates.__dict__, "hours": hours, "disk_per_token": STORED}
    return {"jobs": job_counts(plan.study), "cells": cells, **reckoned}


def plan_lines(plan: Plan, at_once: list[int]) -> list[str]:
    """A plan as people read it: a line for each model, the totals, and what they are reckoned with."""
    study, content = plan.study, plan.study.content
    counts = job_counts(study)
    jobs = ", ".join(_counted(count, _CALLED.get(kind, kind)) for kind, count in counts.items())
    device, cores = ("GPU", 1) if plan.on_gpu else ("CPU", content.threads)
    lines = [
        f"{study.title}: {_counted(len(study.models), 'model')} × {_counted(len(study.corpora), 'corpus', 'corpora')} "
        f"({', '.join(corpus.name for corpus in study.corpora)})",
        f"protocol {study.protocol.name}, windows of {study.protocol.length} tokens, {content.dtype}",
        f"{sum(counts.values())} jobs: {jobs}",
        "",
        f"{'model':34} {'S':>14} {'GPU memory' if plan.on_gpu else 'memory':>11} {'tokens':>12} {'operations':>11} "
        f"{f'{device} hours':>10} "
        f"{'disk':>8}  there",
    ]
    for model in study.models:
        mine = [cost for cost in plan.costs if cost.cell.model == model]
        size, memory = mine[0].size, mine[0].memory
        tokens = _total([cost.tokens for cost in mine])
        flops = _total([cost.flops for cost in mine])
        seconds = _total([cores * cost.shards * cost.shard_seconds if cost.shard_seconds else None for cost in mine])
        disk = _total([cost.disk for cost in mine])
        whole = sum(cost.there.whole for cost in mine)
        parts = sum(cost.there.done for cost in mine)
        there = f"{whole} of {len(mine)} stores" + (f", {parts} packs" if parts and whole < len(mine) else "")
        name = model_label(mine[0].cell) + (f"@{model.revision}" if model.revision else "")
        name = name if len(name) <= 34 else "…" + name[-33:]
        lines.append(
            f"{name:34} {_of(size.non_embedding if size else None, ',d'):>14} {_of(memory, '.1f', 1e9, ' GB'):>11} "
            f"{_of(tokens, ',.0f'):>12} {_of(flops, '.2e'):>11} {_of(seconds, '.2f', 3600):>10} "
            f"{_of(disk, ',.0f', 1e6, ' MB'):>8}  {there}"
        )
    lines += ["", *_reckoned(plan, at_once)]
    return lines


def _counted(count: int, one: str, many: str = "") -> str:
    """So many of a thing: 1 corpus, 2 corpora."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _reckoned(plan: Plan, at_once: list[int]) -> list[str]:
    content, used = plan.study.content, plan.rates
    tokens, flops = _total([cost.tokens for cost in plan.costs]), _total([cost.flops for cost in plan.costs])
    disk = _total([cost.disk for cost in plan.costs])
    lines = [
        f"in all: {_of(tokens, ',.0f')} tokens at most, {_of(flops, '.2e')} operations, {_of(disk, ',.2f', 1e9)} GB"
    ]
    lines += [hours_line(plan, count) for count in at_once]
    for name, need in plan.too_large:
        lines.append(f"too large: {name} needs {need / 1e9:.0f} GB, {content.gpu.name} has {content.gpu.memory:.0f}")
    at, read = f"{used.flops / 1e12:.1f} TFLOP/s in {content.dtype}", f"weights read at {used.read / 1e9:.1f} GB/s."
    if not plan.on_gpu and used.measured:
        rates = f"Measured here: {used.gpu}. Assumed: {read}"
    elif not plan.on_gpu:
        rates = f"Assumed: CPUs at {used.flops / content.threads / 1e9:.0f} GFLOP/s a core, {read}"
    elif used.measured:
        rates = f"Measured: {used.gpu} at {at} (make gpu, {used.measured}). Assumed: {read}"
    else:
        rates = f"Assumed: {used.gpu} at {at} ({content.gpu.share:.0%} of its data sheet; not measured), {read}"
    lines += [
        "",
        rates,
        f"Measured on a CPU: weights checked at {used.digest / 1e9:.2f} GB/s, {used.tokenize:,.0f} tokens/s tokenized, "
        f"{used.start:.1f} s to start a job;",
        f"{STORED:.2f} bytes a token, as measured.",
        "Operations: 2·S for each token read, 2·V·d for each ranked. Tokens and disk: at most. ?: not known here.",
    ]
    return lines


def hours_line(plan: Plan, at_once: int) -> str:
    """How long a plan takes on so many GPUs; or with so many jobs at a time here, and the memory of the largest."""
    hours = f"{_of(plan.hours(at_once), ',.2f')} hours"
    if plan.on_gpu:
        return f"on {_counted(at_once, 'GPU')}: {hours}"
    cores = _counted(plan.study.content.threads, "CPU core")
    largest = max((cost.memory for cost in plan.costs if cost.memory is not None), default=None)
    memory = f"up to {_of(largest, '.1f', 1e9, ' GB')} of memory for a job"
    return f"here, on CPUs, {_counted(at_once, 'job')} at a time on {cores} each: {hours}, {memory}"


def _total(values: "list[int | None] | list[float | None]") -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _of(value: float | None, how: str, unit: float = 1, ending: str = "") -> str:
    return "?" if value is None else format(value / unit if unit != 1 else value, how) + ending


FRONT = """# {title}

A study by `rbp study run`. Models: {models}; corpora: {corpora}; tokens ranked in all: {tokens:,}. All numbers on this
page are taken from the manifests of the rank stores.

## What was measured

{model_table}

S is the number of parameters without those of the embedding; the vocabulary is the number of logits that a rank is
found among.

### Tokens ranked, for each model and corpus

{token_table}

### How

- {protocol}
- The models compute in {dtype}; this was done on: {device}.

## The measurements

The table of all measurements, −ln RBP<sub>k</sub> and cross-entropy of each model on each corpus:
<a href="{parquet}" download>Parquet</a>, <a href="{csv}" download>CSV</a>.

## The chapters

{chapters}

## Run it again

```bash
rbp study run {file}
```

This is <a href="study.toml" download>the study's file</a>; paths in it are relative to the folder that it lies in. What
is measured already is kept, and only what is missing is measured.
"""
LISTED = (
    "These are reruns of the companion's chapters, on this study's measurements; a note at the head of each says so."
)
LEFT = "These cannot be made from this study's measurements:"
NONE = "This study's file names none."


def make_book(study: Study, project: Project) -> None:
    """Build the book into its folder, which is replaced whole.

    Raises DataError if a store is not finished or a chapter not executed, RbpError if a page cannot be built.
    """
    names = [name for name in chapters_of(study) if without(study, name) is None]
    folders = {name: (study.out / chapter_job(name).output).parent for name in names}
    found = [finished_store(study, cell).manifest for cell in study.cells]
    table = study.out / TABLE.output
    files = {path.name: path for path in (table, table.with_suffix(".csv"))} | {"study.toml": study.path}
    pages = {"index.md": front_page(study, found)}
    book = BookValues.read(project)
    for name, folder in folders.items():
        pages[f"notebooks/{name}.ipynb"] = standalone.page_of(folder / f"{name}.ipynb", book)
        if (folder / name).is_dir():
            files[f"notebooks/{name}"] = folder / name
    made = study.out / BOOK.output
    with folder_beside(made.parent) as aside:
        html = standalone.build_pages(project, pages, aside, files, study.title)
        for page in (*html.glob("*.html"), *html.glob("notebooks/*.html")):
            soup = standalone.read_page(page)
            standalone.keep_links(soup, page.parent, html)
            write_file(page, str(soup))
        write_json(html / made.name, {"chapters": names, "stores": [one["digest"] for one in found]})
        swap_in(html, made.parent)


def front_page(study: Study, manifests: Sequence[dict[str, Any]]) -> str:
    """The first page as MyST Markdown; `manifests` are those of the finished stores, in the order of the cells."""
    each = len(study.corpora)
    models = [manifests[at : at + each] for at in range(0, len(manifests), each)]
    abouts, keys = [one["about"] for one in manifests], [one["key"] for one in manifests]
    whys = {name: without(study, name) for name in chapters_of(study)}
    listed = "\n".join(f"- [](notebooks/{name}.ipynb)" for name, why in whys.items() if why is None)
    listed = f"{LISTED}\n\n{listed}" if listed else ""
    left = "\n".join(f"- {plain(name)}: {plain(why)}" for name, why in whys.items() if why is not None)
    left = f"{LEFT}\n\n{left}" if left else ""
    table = study.out / TABLE.output
    return FRONT.format(
        title=plain(study.title),
        models=len(models),
        corpora=each,
        tokens=sum(one["tokens"] for one in manifests),
        model_table=_table(("Model", "Family", "S", "Vocabulary", "Revision"), map(_model_row, models)),
        token_table=_table(("Model", *(one["dataset"] for one in abouts[:each])), map(_token_row, models)),
        protocol=in_words(Protocol(**keys[0]["protocol"])),
        dtype=_each_once(key["dtype"] for key in keys),
        device=_each_once(f"{one['device']} ({key['device']})" for one, key in zip(abouts, keys, strict=True)),
        parquet=table.name,
        csv=table.with_suffix(".csv").name,
        chapters="\n\n".join(filter(None, (listed, left))) or NONE,
        file=shlex.quote(study.path.name),
    )


def in_words(protocol: Protocol) -> str:
    """What a protocol takes of a corpus, and in what context it ranks it, for readers who never ran one."""
    if protocol.name == "authors":
        what = (
            f"The authors' protocol: of each corpus {protocol.documents:,} documents (all, if it has fewer), shuffled "
            f"with seed {protocol.seed} and cut to {protocol.length:,} tokens. Every token of a document but its first "
            "is ranked, with all before it as context."
        )
    else:
        documents = f"the first {protocol.documents:,} documents" if protocol.documents else "every document"
        what = (
            f"Of each corpus {documents}, whole, in windows of {protocol.length:,} tokens. Every token of a document "
            f"but its first is ranked once, with at least {protocol.context:,} tokens before it as context, or all "
            "that there are."
        )
    return what + (f" It ends after {protocol.tokens:,} tokens of a corpus." if protocol.tokens else "")


def plain(text: str) -> str:
    """Any text as Markdown that shows it as it stands, in one line."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", " ".join(text.split()))


def _model_row(stores: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    about = stores[0]["about"]
    size, vocabulary = f"{about['size']:,}", f"{about['vocabulary']:,}"
    return (
        about["model"],
        about["family"],
        size,
        vocabulary,
        about.get("revision") or stores[0]["key"]["revision"] or "–",
    )


def _token_row(stores: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    about = stores[0]["about"]
    at = f"@{about['revision']}" if "revision" in about else ""
    return about["model"] + at, *(f"{one['tokens']:,}" for one in stores)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; columns of numbers stand to the right."""
    cells = list(rows)
    rule = [
        "---:" if all(re.fullmatch(r"[\d,]+", one) for one in column) else "---" for column in zip(*cells, strict=True)
    ]
    lines = [list(map(plain, head)), rule, *([plain(cell) for cell in row] for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _each_once(values: Iterable[str]) -> str:
    return ", ".join(plain(value) for value in dict.fromkeys(values))
