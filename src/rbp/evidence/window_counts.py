"""Window counts of any source as whole numbers: the published shares, the repository's counts, rank stores."""

import numpy as np
import pandas as pd

from rbp.core.errors import DataError
from rbp.evidence import published
from rbp.evidence.sources import load
from rbp.stats.recovery import DOCUMENTS, recover_total
from rbp.stats.windows import _TOKENS, READING_ERROR

_FEWEST = 1000  # the smallest number of windows that is tried


def published_counts() -> pd.DataFrame:
    """All published window successes as whole numbers.

    GPT-2's counts were published. Pythia's shares are read from figure 7; each length's number of windows is found as
    the total of which all its shares are whole parts (`recovery.recover_total`), and the successes follow.
    Columns dataset, model, family, size, k, n, successes, windows, p (the share of the two), basis ("counted" or
    "recovered"). Raises DataError where the shares do not identify the total.
    """
    shares = published.sequence_success()
    totals = {key: _total(rows) for key, rows in shares.groupby(["dataset", "n"])}
    windows = [totals[key] for key in zip(shares["dataset"], shares["n"], strict=True)]
    recovered = shares.assign(windows=windows, basis="recovered")
    recovered["successes"] = np.rint(recovered["p_success"] * recovered["windows"]).astype("int64")
    table = pd.concat([recovered, published.gpt2_window_counts().assign(basis="counted")], ignore_index=True)
    models = published.models().set_index("model")
    table["family"] = table["model"].map(models["family"])
    table["size"] = table["model"].map(models["non_embedding_params"])
    table["p"] = table["successes"] / table["windows"]
    columns = ["dataset", "model", "family", "size", "k", "n", "successes", "windows", "p", "basis"]
    return table[columns].sort_values(["dataset", "family", "size", "k", "n"], ignore_index=True)


def _total(rows: pd.DataFrame) -> int:
    dataset, n = str(rows["dataset"].iloc[0]), int(rows["n"].iloc[0])
    share = rows.loc[rows["p_success"] > 0, "p_success"].to_numpy()
    most = DOCUMENTS[dataset] * (_TOKENS - n)
    found = recover_total(share, np.full(share.size, READING_ERROR), np.arange(_FEWEST, most + 1))
    if not found.identified:
        what = f"the shares of windows of {n} tokens do not tell how many windows there are"
        raise DataError(what, f"sequence_success.csv, {dataset}", "Give successes and windows.")
    return found.tokens


def window_table(source: str = "published") -> pd.DataFrame:
    """The window counts of a source that `sources.load` knows, with each model's family and size.

    Columns as `published_counts`, which this is for "published". Shares without counts are left out. Raises DataError
    where none are left.
    """
    if source == "published":
        return published_counts()
    loaded = load(source)
    if loaded.windows is None or loaded.windows["successes"].isna().all():
        remedy = "Give a folder of rank stores, or “published”."
        raise DataError("there are no counts of successful windows", f"measurements {source}", remedy)
    models = loaded.table.drop_duplicates("model").set_index("model")
    table = loaded.windows.dropna(subset=["successes", "windows"]).assign(basis="counted")
    table["family"] = table["model"].map(models["family"])
    table["size"] = table["model"].map(models["size"])
    columns = ["dataset", "model", "family", "size", "k", "n", "successes", "windows", "p", "basis"]
    table = table.astype({"successes": "int64", "windows": "int64"})
    return table[columns].sort_values(["dataset", "family", "size", "k", "n"], ignore_index=True)
