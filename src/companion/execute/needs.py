"""Check a reader's own tables before a chapter runs: that they can be read, and hold what the chapter needs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from companion.execute.run import Chapter
from rbp.errors import DataError, RbpError
from rbp.measurements import Source, open_source, select

SIZES = 4  # of a family, from which a hidden model can be forecast


def check_sources(chapter: Chapter, values: Mapping[str, Any]) -> None:
    """Raise RbpError, with all that is wrong, for sources in the values of parameters that the chapter cannot use.

    Of a table all is read. Of a folder of rank stores it is only seen that it holds some.
    """
    faults: list[RbpError] = []
    for parameter in chapter.parameters:
        if parameter.kind != "source" or not (value := values.get(parameter.name)):
            continue
        open_source(value)  # a wrong name ends it: what is meant is not known
        needs = {"measurements": chapter.declaration.needs, "ranks": ["stores"]}.get(parameter.name, [])
        for path in filter(Path.is_file, parameter.readers_own(value)):
            faults += _faults_of(open_source(path), needs, chapter.effective(values))
    if len(faults) == 1:
        raise faults[0]
    if faults:
        lines = (f"{fault.what} ({fault.where})" if fault.where else fault.what for fault in faults)
        remedies = " ".join(dict.fromkeys(fault.remedy for fault in faults if fault.remedy))
        raise DataError("; ".join(lines), chapter.name, remedies)


def _faults_of(source: Source, needs: list[str], values: Mapping[str, Any]) -> list[RbpError]:
    """List what is wrong with one table; of a table that cannot be read, also what no table has."""
    faults: list[RbpError] = []
    for check in (_read, *(NEEDS[need] for need in needs)):
        try:
            check(source)
        except RbpError as error:
            if error.what not in [fault.what for fault in faults]:
                faults.append(error)
    if not faults:
        try:
            select(source.table, dataset=values.get("datasets"), family=values.get("families"))
        except RbpError as error:
            faults.append(error)
    return faults


def _read(source: Source) -> None:
    select(source.table, metric="neg_log_rbp")


def _tokens(source: Source) -> None:
    if source.table["tokens"].isna().all():
        raise DataError("this chapter needs the tokens behind the values", source.name, "Give tokens and hits.")


def _both_metrics(source: Source) -> None:
    models = [
        set(rows[["dataset", "model"]].itertuples(index=False, name=None))
        for _, rows in source.table[source.table["metric"].isin(["neg_log_rbp", "cross_entropy"])].groupby("metric")
    ]
    if len(models) < 2 or not models[0] & models[1]:
        fault = "this chapter needs models with both their −ln RBP_k and their cross-entropy on one dataset"
        raise DataError(fault, source.name, "Give rows of both metrics for the same models.")


def _sizes(source: Source) -> None:
    ranks = source.table[source.table["metric"] == "neg_log_rbp"]
    if (ranks.groupby(["dataset", "family", "k"])["size"].nunique() < SIZES).all():
        fault = f"this chapter needs a family of {SIZES} sizes at one k"
        raise DataError(fault, source.name, "Give more sizes of a family.")


NEEDS: dict[str, Callable[[Source], object]] = {
    "tokens": _tokens,
    "cross_entropy": _both_metrics,
    "sizes": _sizes,
    "stores": lambda source: source.stores,
    "windows": lambda source: source.windows,
    "histograms": lambda source: source.histograms,
}
"""What a notebook's metadata `rbp.needs` may name."""
