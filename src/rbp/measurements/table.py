"""The measurement table that all fits read, whoever measured: its columns, what a file of it must hold, chosen rows.

Its columns: dataset; model; family; size (S, non-embedding parameters); metric (neg_log_rbp; cross_entropy,
mean_log_rank or entropy (of the predictions), in nats; or neg_log_pass, −ln of the share of problems solved in k
tries); k (the threshold, or the tries, else missing); value; tokens (how many were ranked) and hits (of rank ≤ k),
where known; source; and, where known, how the model was trained: revision, training_tokens (D), step, seed, compute
(6·S·D if not given).
"""

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa

from rbp.errors import ParameterError
from rbp.io import label
from rbp.measurements.checkpoints import CHECKPOINT, must_agree
from rbp.measurements.wide import tidied, warn_of_slips
from rbp.models.training import step_of
from rbp.names import nearest
from rbp.tables import (
    AT_LEAST_1,
    COUNT,
    NAME,
    NOT_NEGATIVE,
    among,
    checked,
    known_columns,
    read_csv,
    read_parquet,
    spelled,
)

log = logging.getLogger(__name__)

#: what is measured; the k of a neg_log_pass counts tries, and is no threshold of ranks
METRICS = ("neg_log_rbp", "cross_entropy", "mean_log_rank", "entropy", "neg_log_pass")
WITH_K = ("neg_log_rbp", "neg_log_pass")
KEYS = ("dataset", "model", "metric", "k")

_NAMED = pa.Column("str", nullable=True, required=False)
_COUNTED = pa.Column("Int64", AT_LEAST_1, nullable=True, required=False)
_SCHEMA = pa.DataFrameSchema(
    {
        **dict.fromkeys(("dataset", "model", "family"), NAME),
        "size": COUNT,
        "metric": among(METRICS),
        "k": pa.Column("Int64", AT_LEAST_1, nullable=True),
        "value": pa.Column("float64", NOT_NEGATIVE),
        **dict.fromkeys(("tokens", "hits"), _COUNTED),
        **dict.fromkeys(("source", "revision"), _NAMED),
        **dict.fromkeys(CHECKPOINT[1:], pa.Column("Int64", NOT_NEGATIVE, nullable=True, required=False)),
        "compute": pa.Column("float64", NOT_NEGATIVE, nullable=True, required=False),
    },
    checks=[
        pa.Check(
            lambda t: t["k"].notna() == t["metric"].isin(WITH_K),
            error="neg_log_rbp needs a threshold k, neg_log_pass a number of tries k, and the others have none",
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
        pa.Check(
            lambda t: ((t.training_tokens >= t.step) & (t.training_tokens.gt(0) == t.step.gt(0))).fillna(True),
            error="training_tokens do not fit step: a step reads one token at least",
        ),
        pa.Check(
            lambda t: (_named_steps(t["revision"]) == t["step"]).fillna(True),
            error="step is not the one that its revision's name says",
        ),
    ],
)
COLUMNS = tuple(_SCHEMA.columns)


def read_table(path: Path) -> pd.DataFrame:
    """Read the measurement table in a CSV or Parquet file, or one that can be read as such (`rbp.measurements.wide`).

    Raises DataError for a table that is malformed, with line or row.
    """
    cells = read_parquet(path) if path.suffix.lower() == ".parquet" else read_csv(path)
    raw = known_columns(tidied(spelled(cells, COLUMNS, path), COLUMNS, path), COLUMNS, path)
    raw = raw[~_infinite(raw)]
    if "revision" in raw:
        steps = raw.get("step", pd.Series(None, raw.index, dtype=object))
        raw["step"] = steps.where(steps.notna(), _named_steps(raw["revision"]))
    keys = [*KEYS, *(name for name in CHECKPOINT if name in raw)]
    table = checked(raw, _SCHEMA, path, keys=keys, remedy="Correct the file.")
    table["source"] = table["source"].fillna(path.name)
    warn_of_slips(table, path)
    must_agree(table, lambda row: f"{label(path)}, {raw.index.name} {table.index[row]}")
    return table


def sort_table(table: pd.DataFrame) -> pd.DataFrame:
    """Sort the table, with all COLUMNS in their types, by metric, dataset, family, size, model, k and training time."""
    table = table.reindex(columns=list(COLUMNS))
    counts = ("k", "tokens", "hits", *CHECKPOINT[1:])
    table = table.astype({"size": "int64", **dict.fromkeys(counts, "Int64"), "compute": "float64"})
    table = table.astype(dict.fromkeys(("dataset", "model", "family", "metric", "source", "revision"), "str"))
    reckoned = 6.0 * table["size"] * table["training_tokens"].astype("Float64").to_numpy(float, na_value=np.nan)
    table["compute"] = table["compute"].fillna(reckoned)
    order = pd.Categorical(table["metric"], METRICS)
    return table.assign(order=order).sort_values(
        ["order", "dataset", "family", "size", "model", "k", "training_tokens", "step"], ignore_index=True
    )[list(COLUMNS)]


def select(
    table: pd.DataFrame,
    *,
    dataset: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    metric: str | None = None,
    k: int | Sequence[int] | None = None,
) -> pd.DataFrame:
    """Select the rows of `table` that match every condition given, sorted by size.

    A condition is one name or several; None, or a sequence without names, sets no condition. Raises
    ParameterError for a name that the table does not hold, or not beside the other conditions; it lists what
    there is, with the nearest name.
    """
    for column, wanted in {"dataset": dataset, "family": family, "metric": metric, "k": k}.items():
        names = [wanted] if isinstance(wanted, str | int) else list(wanted or [])
        available = sorted(table[column].dropna().unique())
        for name in names:
            if name not in available:
                if column == "dataset":
                    check_dataset(str(name), table)
                listed = f"There are: {', '.join(map(str, available))}."
                remedy = listed if column == "k" else nearest(str(name), map(str, available))
                raise ParameterError(f"no measurement with {column} {name}", column, remedy)
        if names:
            table = table[table[column].isin(names).fillna(False)]
    return table.sort_values(["size", "model", "dataset", "metric", "k"], ignore_index=True)


def check_dataset(name: str, table: pd.DataFrame, where: str = "dataset") -> None:
    """Raise ParameterError if several texts have a name, which then has a code added to it; the error lists them."""
    tokens = table.groupby("dataset")["tokens"].max()
    texts = tokens[tokens.index.str.fullmatch(re.escape(name) + "-[0-9a-f]{6}")]
    if name not in tokens and len(texts):
        listed = " or ".join(f"{text} ({count:,} tokens)" for text, count in texts.items())
        raise ParameterError(f"there are {len(texts)} texts called {name}", where, f"Give {listed}.")


def warn_of_no_hits(table: pd.DataFrame, ks: Iterable[int]) -> None:
    """Say which models have no −ln RBP_k, as none of their tokens has a rank of k or less: laws are without them.

    table: the measurements that a law is chosen from, at all thresholds.
    """
    counted = table[(table["metric"] == "neg_log_rbp") & table["tokens"].notna()]
    least = counted.groupby(["dataset", "model", *CHECKPOINT], dropna=False)["k"].min()
    for k in ks:
        for dataset, model in dict.fromkeys(key[:2] for key in least.index[least > k]):
            log.warning("no rank of %s on %s is %d or less: the law is without it", model, dataset, k)


def _named_steps(revisions: pd.Series) -> "pd.Series[int]":
    """Return the steps that the names of revisions say, as "step1000" does."""
    steps = [step_of(name) if isinstance(name, str) else None for name in revisions]
    return pd.Series(pd.array(steps, dtype="Int64"), revisions.index)


def _infinite(raw: pd.DataFrame) -> "pd.Series[bool]":
    """Find the rows that say, as `rbp ranks summary` does, that no token has a rank of k or less, or one has p = 0."""
    value, hits, metric = (
        raw.get(name, pd.Series(None, raw.index, dtype=object)) for name in ("value", "hits", "metric")
    )
    return (value.astype(str) == "inf") & ((hits.astype(str) == "0") | (metric == "cross_entropy"))


def _agrees_with_counts(table: pd.DataFrame) -> "pd.Series[bool]":
    exact = -np.log((table["hits"] / table["tokens"]).to_numpy(float, na_value=np.nan))
    off = np.abs(table["value"].to_numpy() - exact)
    return pd.Series(np.isnan(exact) | (off <= 1e-9 + 1e-5 * exact), table.index)
