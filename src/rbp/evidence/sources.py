"""The one table that every fit reads, whoever measured: the authors, this project, or you.

Columns: dataset; model; family; size (S, non-embedding parameters); metric (neg_log_rbp, that is −ln RBP_k,
or cross_entropy in nats); k (the threshold, missing for cross_entropy); value; tokens (how many were ranked)
and hits (how many of them had rank ≤ k), where known; source.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pandera.pandas as pa

from rbp.core import tables
from rbp.core.errors import DataError, ParameterError
from rbp.core.files import canonical_json, exists
from rbp.core.paths import DATA
from rbp.core.tables import checked, label, read_csv, read_parquet
from rbp.evidence import published
from rbp.evidence.published import all_readings, compare_readings, rank_bins
from rbp.evidence.ranked import Ranked, all_once
from rbp.ranks.metric import TieRule
from rbp.ranks.store import is_store, open_store, store_folders

METRICS = ("neg_log_rbp", "cross_entropy")
KEYS = ("dataset", "model", "metric", "k")

_AT_LEAST_1 = pa.Check.ge(1, error="must be at least 1")
_SCHEMA = pa.DataFrameSchema(
    {
        "dataset": pa.Column("str"),
        "model": pa.Column("str"),
        "family": pa.Column("str"),
        "size": pa.Column("int64", _AT_LEAST_1),
        "metric": pa.Column("str", pa.Check.isin(METRICS, error=f"must be one of {', '.join(METRICS)}")),
        "k": pa.Column("Int64", _AT_LEAST_1, nullable=True),
        "value": pa.Column("float64", pa.Check.ge(0, error="must not be negative")),
        "tokens": pa.Column("Int64", _AT_LEAST_1, nullable=True, required=False),
        "hits": pa.Column("Int64", _AT_LEAST_1, nullable=True, required=False),
        "source": pa.Column("str", nullable=True, required=False),
    },
    checks=[
        pa.Check(
            lambda t: t["k"].notna() == (t["metric"] == "neg_log_rbp"),
            error="neg_log_rbp needs a threshold k, and cross_entropy has none",
        ),
        pa.Check(
            lambda t: t["hits"].isna() | (t["tokens"].notna() & (t["metric"] == "neg_log_rbp")),
            error="hits needs tokens beside it, and belongs to neg_log_rbp only",
        ),
        pa.Check(lambda t: (t["hits"] <= t["tokens"]).fillna(True), error="more hits than tokens"),
        pa.Check(
            lambda t: _agrees_with_counts(t),
            error="value is not −ln(hits/tokens): correct it, or leave hits out",
        ),
    ],
)
COLUMNS = tuple(_SCHEMA.columns)


Counting: TypeAlias = Callable[[], pd.DataFrame | None]


@dataclass(frozen=True)
class Measurements:
    """What one source (or several) holds.

    table: the columns of this module's docstring, sorted by metric, dataset, family, size, model and k.
    name: the source as it was asked for.
    count_windows, count_histogram: make `windows` and `histogram`, which takes a while for ranks.
    """

    table: pd.DataFrame
    name: str
    count_windows: Counting = lambda: None
    count_histogram: Counting = lambda: None

    @cached_property
    def windows(self) -> pd.DataFrame | None:
        """Columns dataset, model, k, n, successes, windows, p; None where the source does not know.

        The share p of windows of n successive tokens with every token in the top k (figure 7), and the counts.
        """
        return self.count_windows()

    @cached_property
    def histogram(self) -> pd.DataFrame | None:
        """Columns dataset, model, low, high, mass; None where the source does not know.

        The share of the tokens with rank 2 or more whose rank lies in low … high, both included (figure 8c).
        """
        return self.count_histogram()


def load(source: str | Path | Sequence[str | Path] = "published", rule: TieRule = "paper") -> Measurements:
    """The measurements of one source, or of several joined.

    A source is "published", "ladder" (the ranks of the ladder, data/ladder/ranks), a folder that holds the
    published files, a CSV or Parquet file of the columns above (tokens, hits and source may be left out), a rank
    store, or a folder of rank stores, whose ranks are taken by the tie rule `rule`. Several are given as a sequence,
    or as one string with commas. Raises ParameterError for an unknown source; DataError for a file or a store that
    is malformed, for a measurement that stands in two sources, and for a model with two sizes or two families.
    """
    if isinstance(source, str | Path):
        whole = str(source)
        names = [whole] if exists(whole) else [name.strip() for name in whole.split(",")]
    else:
        names = [str(name) for name in source]
    if not names:
        raise ParameterError("no source of measurements is given", "measurements", _REMEDY)
    parts = [_load_one(name, rule) for name in names]
    table = pd.concat([part.table for part in parts], ignore_index=True)
    origin = np.repeat(names, [len(part.table) for part in parts]).tolist()
    seen: dict[tuple[object, ...], str] = {}
    for key, name in zip(table[list(KEYS)].itertuples(index=False, name=None), origin, strict=True):
        if key in seen:
            dataset, model, metric, k = key
            measured = "the cross-entropy" if metric == "cross_entropy" else f"−ln RBP_{k}"
            remedy = "Leave it out of one of them: which to believe is yours to say."
            raise DataError(f"{measured} of {model} on {dataset} is in two sources", f"{seen[key]} and {name}", remedy)
        seen[key] = name
    _one_per_model(table, origin)
    return Measurements(
        table=_sorted(table),
        name=", ".join(names),
        count_windows=lambda: _joined([part.windows for part in parts]),
        count_histogram=lambda: _joined([part.histogram for part in parts]),
    )


def select(
    table: pd.DataFrame,
    *,
    dataset: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    metric: str | None = None,
    k: int | Sequence[int] | None = None,
) -> pd.DataFrame:
    """The rows of `table` that match every condition given, sorted by size.

    A condition is one name or several; None, or a sequence without names, sets no condition. Raises
    ParameterError for a name that the table does not hold, or not beside the other conditions; it lists what
    there is, with the nearest name.
    """
    for column, wanted in {"dataset": dataset, "family": family, "metric": metric, "k": k}.items():
        names = [wanted] if isinstance(wanted, str | int) else list(wanted or [])
        there = sorted(table[column].dropna().unique())
        for name in names:
            if name not in there:
                near = get_close_matches(str(name), map(str, there), 1, 0.5) if column != "k" else []
                hint = f"Is {near[0]} meant? " if near else ""
                listed = ", ".join(map(str, there)) or "none"
                raise ParameterError(f"no measurement with {column} {name}", column, f"{hint}There is: {listed}.")
        if names:
            table = table[table[column].isin(names).fillna(False)]
    return table.sort_values(["size", "model", "dataset", "metric", "k"], ignore_index=True)


_LADDER = DATA / "ladder" / "ranks"
_REMEDY = 'Give "published", "ladder", a folder with the published files, a CSV or Parquet file, or a folder of ranks.'


def _load_one(name: str, rule: TieRule) -> Measurements:
    path = Path(name)
    if not name or "\0" in name:
        raise ParameterError("a source of measurements without a name", "measurements", _REMEDY)
    if name == "published":
        return _published(name, published.FOLDER)
    if name == "ladder":
        if not _LADDER.is_dir():
            remedy = "Restore it: git checkout -- data/ladder; or make your own: rbp ladder train, rbp ladder rank."
            raise DataError("the ladder has no ranks", label(_LADDER), remedy)
        return _ranked(name, _LADDER, rule)
    if exists(path) and path.is_dir():
        if is_store(path) or any(is_store(folder) for folder in path.iterdir()):
            return _ranked(name, path, rule)
        if not (path / "models.csv").exists():
            raise DataError("the folder holds no measurements: no models.csv and no rank store", name, _REMEDY)
        return _published(name, path)
    if path.suffix.lower() in (".csv", ".parquet"):
        return Measurements(_from_file(path), name)
    raise ParameterError(f"unknown source of measurements {name!r}", "measurements", _REMEDY)


def _ranked(name: str, path: Path, rule: TieRule) -> Measurements:
    stores = [open_store(folder) for folder in store_folders([path])]
    all_once(stores)
    tables.opened.update(f"{label(store.folder)}/manifest.json" for store in stores)
    places = [(store.folder, canonical_json(store.manifest), rule) for store in stores]
    return Measurements(
        pd.concat([_table(*place) for place in places], ignore_index=True),
        name,
        lambda: _joined([_windows(*place) for place in places]),
        lambda: _joined([_histogram(*place) for place in places]),
    )


# What is counted of a store, once. manifest: as it is now, so that a store that has changed is counted anew.


@lru_cache(maxsize=1024)
def _table(folder: Path, manifest: str, rule: TieRule) -> pd.DataFrame:
    return Ranked(open_store(folder), rule).table()


@lru_cache(maxsize=1024)
def _windows(folder: Path, manifest: str, rule: TieRule) -> pd.DataFrame:
    return Ranked(open_store(folder), rule).windows()


@lru_cache(maxsize=1024)
def _histogram(folder: Path, manifest: str, rule: TieRule) -> pd.DataFrame:
    return Ranked(open_store(folder), rule).histogram()


def _from_file(path: Path) -> pd.DataFrame:
    raw = read_csv(path) if path.suffix.lower() == ".csv" else read_parquet(path)
    tables.opened.add(label(path))
    table = checked(raw, _SCHEMA, path, keys=KEYS, remedy="Correct the file.")
    table["source"] = table["source"].fillna(path.name)
    _one_per_model(table, [f"{label(path)}, {raw.index.name} {row}" for row in table.index])
    return table


def _published(name: str, folder: Path) -> Measurements:
    every = all_readings(folder)
    pairs = compare_readings(every)
    if not pairs["ok"].all():
        bad = pairs[~pairs["ok"]].iloc[0]
        what = (
            f"{bad['first']} and {bad['second']} disagree on −ln RBP_{bad['k']} of {bad['model']} on "
            f"{bad['dataset']}: {bad['first_value']:.8g} and {bad['second_value']:.8g}"
        )
        raise DataError(what, label(folder), "Restore the files: git checkout -- data/published.")
    ranks = every.drop_duplicates(["dataset", "model", "k"]).drop(columns="error")
    pythia = published.cross_entropy_vs_rbp1(folder)
    pythia = pythia[(pythia["kind"] == "empirical") & (pythia["metric"] == "cross_entropy")]
    gpt2 = published.gpt2_cross_entropy(folder).rename(columns={"cross_entropy": "value"})
    entropy = pd.concat([pythia.assign(source="figure 8a"), gpt2.assign(source="repository")])
    table = pd.concat([ranks.assign(metric="neg_log_rbp"), entropy.assign(metric="cross_entropy")])
    models = published.models(folder).set_index("model")
    table["family"] = table["model"].map(models["family"])
    table["size"] = table["model"].map(models["non_embedding_params"])
    shares = published.sequence_success(folder).rename(columns={"p_success": "p"})
    counts = published.gpt2_window_counts(folder)
    counts["p"] = counts["successes"] / counts["windows"]
    windows = pd.concat([shares, counts])
    windows = windows.astype({"successes": "Int64", "windows": "Int64"})
    windows = windows[["dataset", "model", "k", "n", "successes", "windows", "p"]]
    windows = windows.sort_values(["dataset", "model", "k", "n"], ignore_index=True)
    bins = rank_bins(folder)
    return Measurements(_sorted(table), name, lambda: windows, lambda: bins)


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    table = table[list(COLUMNS)].astype({"size": "int64", "k": "Int64", "tokens": "Int64", "hits": "Int64"})
    table = table.astype(dict.fromkeys(("dataset", "model", "family", "metric", "source"), "str"))
    order = pd.Categorical(table["metric"], METRICS)
    return table.assign(order=order).sort_values(
        ["order", "dataset", "family", "size", "model", "k"], ignore_index=True
    )[list(COLUMNS)]


def _joined(parts: Sequence[pd.DataFrame | None]) -> pd.DataFrame | None:
    there = [part for part in parts if part is not None]
    return pd.concat(there, ignore_index=True) if there else None


def _agrees_with_counts(table: pd.DataFrame) -> "pd.Series[bool]":
    share = table["hits"].astype("Float64").to_numpy(float, na_value=np.nan)
    exact = -np.log(share / table["tokens"].astype("Float64").to_numpy(float, na_value=np.nan))
    off = np.abs(table["value"].to_numpy() - exact)
    return pd.Series(np.isnan(exact) | (off <= 1e-9 + 1e-5 * exact), table.index)


def _one_per_model(table: pd.DataFrame, where: Sequence[str]) -> None:
    """Raise DataError if a model has two sizes or two families, naming the two places."""
    seen: dict[str, tuple[tuple[str, int], str]] = {}
    rows = zip(table["model"], table["family"], table["size"], where, strict=True)
    for model, family, size, place in rows:
        first, first_place = seen.setdefault(model, ((family, size), place))
        if first != (family, size):
            what = f"{model} is given as {first[0]} of size {first[1]} and as {family} of size {size}"
            raise DataError(what, f"{first_place}; {place}", "A model has one size and one family.")
