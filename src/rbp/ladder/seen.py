"""How often each token of the vocabulary stands in the ladder's training text: data/ladder/token_counts.csv."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa

from rbp import published
from rbp.errors import DataError
from rbp.ladder.recipe import FOLDER
from rbp.metric import Integers
from rbp.tables import checked, label, read_csv

NAME = "token_counts.csv"
_NUMBER = pa.Column("int64", pa.Check.ge(0, error="must not be negative"))
_REMEDY = "Make it of the training tokens: rbp ladder ship; or restore it: git checkout -- data/ladder."


def count(rows: npt.NDArray[np.uint16], vocabulary: int) -> pd.DataFrame:
    """Count the tokens of the training rows, an array of any shape: columns token, count."""
    counts = np.bincount(rows.ravel(), minlength=vocabulary)
    return pd.DataFrame({"token": np.arange(vocabulary), "count": counts})


def read(folder: Path = FOLDER) -> Integers:
    """The count of every token, shape (vocabulary,). Raises DataError if the file is missing or not such a table."""
    path = folder / NAME
    schema = pa.DataFrameSchema({"token": _NUMBER, "count": _NUMBER})
    table = checked(read_csv(path), schema, path, keys=["token"], remedy=_REMEDY)
    published.opened.add(label(path))
    if not np.array_equal(table["token"], np.arange(len(table))):
        raise DataError("the tokens must be numbered from 0 on, none left out", label(path), _REMEDY)
    return table["count"].to_numpy(np.int64)
