"""The authors' published numbers, one validated reader for each file of data/published.

Each reader takes the folder (the project's own by default), checks types, ranges, models and duplicates, and
raises DataError naming file, line and remedy. The tables' index is the line of the file. `opened` notes every
file that was read, so that a chapter's declared inputs can be held against what it really read.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from rbp.errors import DataError
from rbp.paths import DATA
from rbp.tables import checked, label, read_csv

FOLDER = DATA / "published"
FAMILIES = ("GPT-2", "OPT", "Pythia", "Qwen2.5")
DATASETS = ("wikipedia", "humaneval", "hotpotqa", "auslegal", "c4", "pile-github")

opened: set[str] = set()


def _among(names: Sequence[str]) -> pa.Check:
    return pa.Check.isin(names, error=f"must be one of {', '.join(names)}")


def _at_least(low: int) -> pa.Check:
    return pa.Check.ge(low, error=f"must be at least {low}")


_SHARE = pa.Check.in_range(0, 1, error="must lie between 0 and 1")
_POSITIVE = pa.Check.gt(0, error="must be above 0")
_NAME = pa.Column("str")
_COUNT = pa.Column("int64", _at_least(1))
_REAL = pa.Column("float64")
_VALUE = pa.Column("float64", _POSITIVE)
_DATASET = pa.Column("str", _among(DATASETS))
_FAMILY = pa.Column("str", _among(FAMILIES))


def _read(
    folder: Path | None, name: str, columns: dict[str, pa.Column], keys: Sequence[str], *checks: pa.Check
) -> pd.DataFrame:
    path = (folder or FOLDER) / name
    remedy = "Restore the file: git checkout -- data/published."
    try:
        raw = read_csv(path)
    except DataError as error:
        raise DataError(error.what, error.where, remedy) from None
    opened.add(label(path))
    table = checked(raw, pa.DataFrameSchema(columns, list(checks)), path, keys=keys, remedy=remedy)
    if name != "models.csv" and "model" in table:
        known = set(models(folder)["model"])
        for line, model in table["model"].items():
            if model not in known:
                what = f"unknown model {model!r}: models.csv does not list it"
                raise DataError(what, f"{label(path)}, line {line}", remedy)
    return table


def models(folder: Path | None = None) -> pd.DataFrame:
    """The models: model, family, name, total_, embedding_ and non_embedding_params (S), vocab_size."""
    counts = ("total_params", "embedding_params", "non_embedding_params", "vocab_size")
    columns = {"model": _NAME, "family": _FAMILY, "name": _NAME} | dict.fromkeys(counts, _COUNT)
    adds_up = pa.Check(
        lambda t: t["embedding_params"] + t["non_embedding_params"] == t["total_params"],
        error="embedding_params and non_embedding_params do not add up to total_params",
    )
    return _read(folder, "models.csv", columns, ["model"], adds_up)


def rbp(folder: Path | None = None) -> pd.DataFrame:
    """−ln RBP_k (figures 3, 4, 5 and the preprint's 9): dataset, model, k, neg_log_rbp, source."""
    figures = _among(("figure 3", "figure 4", "figure 5", "figure 9"))
    columns = {"dataset": _DATASET, "model": _NAME, "k": _COUNT, "neg_log_rbp": _VALUE}
    columns["source"] = pa.Column("str", figures)
    return _read(folder, "rbp.csv", columns, ["dataset", "model", "k"])


def table1(folder: Path | None = None) -> pd.DataFrame:
    """The printed Table 1: dataset, metric, k (none for cross_entropy), family, r_squared, slope (= −α)."""
    columns = {
        "dataset": _DATASET,
        "metric": pa.Column("str", _among(("cross_entropy", "neg_log_rbp"))),
        "k": pa.Column("Int64", _at_least(1), nullable=True),
        "family": _FAMILY,
        "r_squared": pa.Column("float64", _SHARE),
        "slope": _REAL,
    }
    has_k = pa.Check(
        lambda t: t["k"].notna() == (t["metric"] == "neg_log_rbp"),
        error="k belongs to neg_log_rbp, and to neg_log_rbp only",
    )
    return _read(folder, "table1.csv", columns, ["dataset", "metric", "k", "family"], has_k)


def fit_by_k(folder: Path | None = None) -> pd.DataFrame:
    """R² and slope against k (figure 6): family, dataset, k, r_squared, slope (missing for the largest k)."""
    columns = {
        "family": _FAMILY,
        "dataset": _DATASET,
        "k": _COUNT,
        "r_squared": pa.Column("float64", _SHARE),
        "slope": pa.Column("float64", nullable=True),
    }
    return _read(folder, "fit_by_k.csv", columns, ["family", "dataset", "k"])


def sequence_success(folder: Path | None = None) -> pd.DataFrame:
    """p_{N,k}, share of windows with every token in the top k (figure 7): dataset, model, k, n, p_success."""
    columns = {"dataset": _DATASET, "model": _NAME, "k": _COUNT, "n": _COUNT}
    columns["p_success"] = pa.Column("float64", _SHARE)
    return _read(folder, "sequence_success.csv", columns, ["dataset", "model", "k", "n"])


def cross_entropy_vs_rbp1(folder: Path | None = None) -> pd.DataFrame:
    """Cross-entropy (nats) and −ln RBP_1 (figures 8a, 8b): dataset, model, kind, metric, value."""
    columns = {
        "dataset": _DATASET,
        "model": _NAME,
        "kind": pa.Column("str", _among(("empirical", "simulated"))),
        "metric": pa.Column("str", _among(("cross_entropy", "neg_log_rbp1"))),
        "value": _VALUE,
    }
    return _read(folder, "cross_entropy_vs_rbp1.csv", columns, ["dataset", "model", "kind", "metric"])


def rank_frequency(folder: Path | None = None) -> pd.DataFrame:
    """Density of the ranks from 2 up (figure 8c): dataset, model, rank_bin_center, frequency (per rank)."""
    columns = {"dataset": _DATASET, "model": _NAME}
    columns["rank_bin_center"] = pa.Column("float64", _at_least(2))
    columns["frequency"] = pa.Column("float64", [_POSITIVE, _SHARE])
    return _read(folder, "rank_frequency.csv", columns, ["dataset", "model", "rank_bin_center"])


def lognormal_parameters(folder: Path | None = None) -> pd.DataFrame:
    """The authors' lognormal fits of the ranks (repository): dataset, model, mu, sigma (of ln R)."""
    columns = {"dataset": _DATASET, "model": _NAME, "mu": _REAL, "sigma": _VALUE}
    return _read(folder, "lognormal_parameters.csv", columns, ["dataset", "model"])


def gpt2_window_counts(folder: Path | None = None) -> pd.DataFrame:
    """Exact counts of windows of n tokens (repository): dataset, model, k, n, successes, windows."""
    columns = {"dataset": _DATASET, "model": _NAME, "k": _COUNT, "n": _COUNT}
    columns |= {"successes": pa.Column("int64", _at_least(0)), "windows": _COUNT}
    possible = pa.Check(lambda t: t["successes"] <= t["windows"], error="more successes than windows")
    return _read(folder, "gpt2_window_counts.csv", columns, ["dataset", "model", "k", "n"], possible)


def gpt2_cross_entropy(folder: Path | None = None) -> pd.DataFrame:
    """GPT-2 (repository): dataset, model, cross_entropy (nats), mean_p_truth (its mean probability)."""
    columns = {"dataset": _DATASET, "model": _NAME, "cross_entropy": _VALUE}
    columns["mean_p_truth"] = pa.Column("float64", _SHARE)
    return _read(folder, "gpt2_cross_entropy.csv", columns, ["dataset", "model"])
