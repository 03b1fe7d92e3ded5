"""Rank the packs of rows that a store lacks, and verify a sample of them by the model's own logits."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError
from rbp.extract.forward import Ranker
from rbp.extract.verify import Stored, WrongRank, choose_sample, plain_logits, verify_sample, wrong_ranks_error
from rbp.processes import board
from rbp.store import SampleCheck, Store, read_part
from rbp.texts.protocol import Row, RowPlan

log = logging.getLogger(__name__)


def prepare_store(store: Store, ranker: Ranker, label: str, packs: Sequence[int], *, all_packs: bool) -> None:
    """Make a store ready to go on: remove what is damaged among `packs`; all_packs: and all else that is.

    Raises DataError if its ranks are of logits in another dtype than the ranker's.
    """
    if all_packs:
        store.clear()
    _must_go_on_alike(store, ranker.rounding_of_logits)
    for path in store.parts()[1]:
        if not all_packs and not any(path.name.startswith(f"{pack:05d}-") for pack in packs):
            continue
        log.warning("%s: %s is damaged or left over: done again", label, path.name)
        path.unlink()


def _must_go_on_alike(store: Store, logits: str) -> None:
    """Say so if a store that goes on was begun with another PyTorch or transformers.

    Raises DataError if its ranks are of logits in another dtype than `logits`.
    """
    try:
        notes = store.manifest["about"]
    except DataError:  # it begins
        return
    if (rounding := notes["logits"]) != logits:
        fault = f"the store was begun with ranks of {rounding} logits, and would go on with ranks of {logits} ones"
        raise DataError(fault, str(store.folder), "Remove it, and extract anew.")
    for name in ("torch", "transformers"):
        if (before := notes["versions"][name]) != version(name):
            log.warning("begun with %s %s, going on with %s: last bits may differ", name, before, version(name))


def rank_missing_packs(
    store: Store, ranker: Ranker, rows: RowPlan, packs: Sequence[int], label: str, verify_files: Callable[[], None]
) -> int:
    """Rank those of `packs` that the store lacks, and write them; return the tokens ranked in a second.

    verify_files: raises DataError if the model's files are no longer those that were loaded; called before a write.
    """
    there = store.parts()[0]
    missing = [pack for pack in packs if pack not in there]
    scored = {pack: sum(len(row.scored) for row in rows.rows_of(pack)) for pack in packs}
    before = sum(scored[pack] for pack in packs if pack in there)
    if before and missing:
        log.info("%s: %d of %d packs are there: going on", label, len(packs) - len(missing), len(packs))
    tokens, done, start, speed = sum(scored.values()), before, time.monotonic(), 0.0
    with (
        board() if log.isEnabledFor(logging.INFO) else nullcontext() as show,  # a program that calls us may be quiet
        ThreadPoolExecutor(1) as writer,  # it compresses and writes a part while the next one is ranked
    ):
        written: Future[None] | None = None
        for pack, ranks in zip(missing, ranker.rank_packs(map(rows.rows_of, missing)), strict=True):
            verify_files()
            columns = {**_places(rows.rows_of(pack)), **ranks._asdict()}
            if written:
                written.result()
            written = writer.submit(store.write, pack, columns)
            done += scored[pack]
            speed = (done - before) / max(time.monotonic() - start, 1e-9)
            if show:
                minutes, seconds = divmod((tokens - done) / speed, 60)
                left = f"{minutes:.0f} min {seconds:.0f} s left"
                show(label, f"{done:,} of {tokens:,} tokens  {speed:,.0f} tokens/s  {left}")
        if written:
            written.result()
    return round(speed)


def _places(rows: Sequence[Row]) -> dict[str, npt.NDArray[np.int64]]:
    """Return where the scored tokens of some rows stand, and which they are."""
    return {
        "document": np.concatenate([np.full(len(row.scored), row.document) for row in rows]),
        "position": np.concatenate([row.start + row.scored for row in rows]),
        "token": np.concatenate([row.ids[row.scored] for row in rows]),
    }


def verify_new_packs(
    store: Store, ranker: Ranker, rows: RowPlan, packs: Sequence[int], shard: tuple[int, int] | None
) -> dict[str, float]:
    """Verify a sample of those of `packs` that no run has verified, and note it; return how long it took.

    Raises DataError if a stored rank is not the rank by the model's own logits.
    """
    start, parts, noted = time.monotonic(), store.parts()[0], store.noted()
    unchecked = [pack for pack in packs if parts[pack].name not in noted]
    if not unchecked:
        return {}
    earlier = {name: noted[name] for pack in packs if (name := parts[pack].name) in noted}  # which stays
    checks = earlier | _verify_sample_of(store, ranker, rows, unchecked)
    store.note("all" if shard is None else f"{shard[0]}-of-{shard[1]}", checks)
    return {"check_seconds": round(time.monotonic() - start, 3)}


def _verify_sample_of(store: Store, ranker: Ranker, rows: RowPlan, packs: Sequence[int]) -> dict[str, SampleCheck]:
    """Rank a sample of the rows of some packs again; return what was found, by the names of the parts.

    Raises DataError if a stored rank is not the rank by the model's own logits.
    """
    places = [(pack, row) for pack in packs for row in rows.rows_of(pack)]
    sample = [places[i] for i in choose_sample([row for _, row in places], store.manifest["digest"])]
    parts, wrong = store.parts()[0], list[WrongRank]()
    checks = {parts[pack].name: SampleCheck() for pack in packs}
    columns = [read_part(parts[pack]) for pack in sorted({pack for pack, _ in sample})]
    ranks = Stored({name: np.concatenate([part[name] for part in columns]) for name in columns[0]}, str(store.folder))
    for (pack, _), (sampled, bad) in zip(sample, rank_again(ranker, [row for _, row in sample], ranks), strict=True):
        checks[parts[pack].name] += sampled
        wrong += bad
    if wrong:
        raise wrong_ranks_error(wrong, sum(checks.values(), SampleCheck()), str(store.folder))
    return checks


def rank_again(
    ranker: Ranker, rows: Sequence[Row], ranks: Stored, *, elsewhere: bool = False, cross_entropies: bool = True
) -> Iterator[tuple[SampleCheck, list[WrongRank]]]:
    """Rank rows again by `verify_sample`, side by side where that is exact.

    elsewhere: whether another machine may have made the ranks.
    """
    alone = ranker.language.device.type == "cpu" and not ranker.language.one_at_a_time  # as rows are ranked there
    forward = plain_logits(ranker, apart=elsewhere or not alone)
    return verify_sample(forward, rows, ranks, threads=alone, cross_entropies=cross_entropies)


def answers_alike(store: Store, ranker: Ranker, rows: RowPlan) -> bool:
    """Return whether a model reproduces the ranks of a store's shortest and longest row."""
    manifest, (stored, _) = store.manifest, store.parts()
    if (manifest["packs"], manifest["tokens"]) != (rows.packs, rows.tokens):
        return False
    places = sorted(((pack, row) for pack in stored for row in rows.rows_of(pack)), key=lambda place: len(place[1].ids))
    extremes = [places[0], places[-1]]
    parts = [read_part(stored[pack]) for pack in sorted({pack for pack, _ in extremes})]
    ranks = Stored({column: np.concatenate([part[column] for part in parts]) for column in parts[0]}, str(store.folder))
    try:
        return not any(wrong for _, wrong in rank_again(ranker, [row for _, row in extremes], ranks))
    except DataError:  # other tokens, or a model that cannot read them
        return False
