"""Query rank stores in SQL."""

from collections.abc import Sequence

import duckdb
import pandas as pd

from rbp.errors import DataError, ParameterError
from rbp.models.training import NAMES
from rbp.store import REDO, RankStore

_KINDS = {"revision": "str", **dict.fromkeys(NAMES[1:-1], "Int64"), "compute": "float64"}


def query(stores: Sequence[RankStore], sql: str) -> pd.DataFrame:
    """Answer `sql` over two tables.

    ranks: one row per token: store, model, dataset, family, size, document, position, token, greater, equal,
    nll, and rank (the paper's, greater + equal). stores: store, model, dataset, family, size, tokens,
    vocabulary; revision, training_tokens, step, seed, compute (missing where not known). Raises ParameterError
    for SQL that DuckDB cannot run, or that is no single question (it changes something, or writes a file);
    DataError for a damaged store.
    """
    if not stores:
        raise DataError("there is no finished rank store to ask", None, "Make one with rbp extract.")
    for store in stores:
        if wrong := store.problems():
            raise DataError(f"the store is damaged: {wrong[0]}", str(store.folder), REDO)
    names = ["store", "model", "dataset", "family", "size", "tokens", "vocabulary", *NAMES]
    known = [tuple(getattr(store.training, name) for name in NAMES) for store in stores]
    about = [(s.folder.name, s.model, s.dataset, s.family, s.size, s.tokens, s.vocabulary) for s in stores]
    rows = [(*one, *trained) for one, trained in zip(about, known, strict=True)]
    with duckdb.connect() as connection:
        connection.register("stores", pd.DataFrame(rows, columns=names).astype(_KINDS))
        connection.execute(f"CREATE VIEW ranks AS {' UNION ALL '.join(map(_tokens, stores))}")
        try:
            kinds = [statement.expected_result_type for statement in connection.extract_statements(sql)]
            if kinds != [[duckdb.ExpectedResultType.QUERY_RESULT]]:
                raise ParameterError("this is not one question", "SQL", "Give one statement, such as SELECT ….")
            table: pd.DataFrame = connection.execute(sql).df()
            return table
        except duckdb.Error as error:
            remedy = "Tables: ranks (model, dataset, size, document, position, token, rank, …), stores."
            raise ParameterError(str(error).splitlines()[0], "SQL", remedy) from None


def _tokens(store: RankStore) -> str:
    """Write the rows of one store as SQL; the names come from its manifest, so they are quoted."""
    labels = {"store": store.folder.name, "model": store.model, "dataset": store.dataset, "family": store.family}
    named = ", ".join(f"{_quoted(value)} AS {name}" for name, value in labels.items())
    files = ", ".join(_quoted(str(path)) for path in store.parts)
    columns = f"{named}, {int(store.size)}::BIGINT AS size, *, greater + equal AS rank"
    return f"SELECT {columns} FROM read_parquet([{files}])"  # noqa: S608  # quoted above


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
