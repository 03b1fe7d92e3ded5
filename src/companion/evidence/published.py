"""Read the authors' published numbers, one validated reader for each file of data/published, with their precision."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa

from companion.project import DATA
from rbp.errors import DataError
from rbp.io import label
from rbp.tables import AT_LEAST_1, COUNT, COUNT_FROM_0, NAME, POSITIVE, SHARE, among, checked, read_csv

FOLDER = DATA / "published"
FAMILIES = ("GPT-2", "OPT", "Pythia", "Qwen2.5")
FIGURES = ("figure 3", "figure 4", "figure 5", "figure 9")  # of rbp.csv
#: what the column `source` of the measurement table says of the authors' numbers
SOURCES = ("repository", *FIGURES, "figure 7", "figure 8a")
DATASETS = ("wikipedia", "humaneval", "hotpotqa", "auslegal", "c4", "pile-github")


_REAL, _DATASET, _FAMILY = pa.Column("float64"), among(DATASETS), among(FAMILIES)

_MODEL = {"dataset": _DATASET, "model": NAME}
#: the columns of each file, those that no two rows agree in, and what holds of a row
_FILES: dict[str, tuple[dict[str, pa.Column], tuple[str, ...], tuple[pa.Check, ...]]] = {
    # total_ = embedding_ + non_embedding_params (S)
    "models.csv": (
        {"model": NAME, "family": _FAMILY, "name": NAME}
        | dict.fromkeys(("total_params", "embedding_params", "non_embedding_params", "vocab_size"), COUNT),
        ("model",),
        (
            pa.Check(
                lambda t: t["embedding_params"] + t["non_embedding_params"] == t["total_params"],
                error="embedding_params and non_embedding_params do not add up to total_params",
            ),
        ),
    ),
    # −ln RBP_k (figures 3, 4, 5 and the preprint's 9)
    "rbp.csv": (
        _MODEL | {"k": COUNT, "neg_log_rbp": POSITIVE, "source": among(FIGURES)},
        ("dataset", "model", "k"),
        (),
    ),
    # the printed Table 1; slope = −α
    "table1.csv": (
        {
            "dataset": _DATASET,
            "metric": among(("cross_entropy", "neg_log_rbp")),
            "k": pa.Column("Int64", AT_LEAST_1, nullable=True),
            "family": _FAMILY,
            "r_squared": SHARE,
            "slope": _REAL,
        },
        ("dataset", "metric", "k", "family"),
        (
            pa.Check(
                lambda t: t["k"].notna() == (t["metric"] == "neg_log_rbp"),
                error="k belongs to neg_log_rbp, and to neg_log_rbp only",
            ),
        ),
    ),
    # R² and slope against k (figure 6); slope is missing for the largest k
    "fit_by_k.csv": (
        {
            "family": _FAMILY,
            "dataset": _DATASET,
            "k": COUNT,
            "r_squared": SHARE,
            "slope": pa.Column("float64", nullable=True),
        },
        ("family", "dataset", "k"),
        (),
    ),
    # p_{N,k}, share of windows with every token in the top k (figure 7)
    "sequence_success.csv": (
        _MODEL | {"k": COUNT, "n": COUNT, "p_success": SHARE},
        ("dataset", "model", "k", "n"),
        (),
    ),
    # cross-entropy (nats) and −ln RBP_1 (figures 8a, 8b)
    "cross_entropy_vs_rbp1.csv": (
        _MODEL
        | {
            "kind": among(("empirical", "simulated")),
            "metric": among(("cross_entropy", "neg_log_rbp1")),
            "value": POSITIVE,
        },
        ("dataset", "model", "kind", "metric"),
        (),
    ),
    # the density of the ranks from 2 up (figure 8c); frequency: per rank
    "rank_frequency.csv": (
        _MODEL
        | {
            "rank_bin_center": pa.Column("float64", pa.Check.ge(2, error="must be at least 2")),
            "frequency": pa.Column("float64", [*POSITIVE.checks, *SHARE.checks]),
        },
        ("dataset", "model", "rank_bin_center"),
        (),
    ),
    # the authors' lognormal fits of the ranks (repository): mu, sigma of ln R
    "lognormal_parameters.csv": (_MODEL | {"mu": _REAL, "sigma": POSITIVE}, ("dataset", "model"), ()),
    # exact counts of windows of n tokens (repository)
    "gpt2_window_counts.csv": (
        _MODEL | {"k": COUNT, "n": COUNT, "successes": COUNT_FROM_0, "windows": COUNT},
        ("dataset", "model", "k", "n"),
        (pa.Check(lambda t: t["successes"] <= t["windows"], error="more successes than windows"),),
    ),
    # GPT-2 (repository): cross_entropy (nats), mean_p_truth (its mean probability)
    "gpt2_cross_entropy.csv": (_MODEL | {"cross_entropy": POSITIVE, "mean_p_truth": SHARE}, ("dataset", "model"), ()),
}

#: what was checked before, by the file and its bytes: a chapter reads some files twenty times
_tables: dict[tuple[Path, bytes], pd.DataFrame] = {}


def read_published(name: str) -> pd.DataFrame:
    """Read one of _FILES, checked. Raises DataError for one that is not right."""
    path, (columns, keys, checks) = FOLDER / name, _FILES[name]
    remedy = "Restore the file: git checkout -- data/published."
    try:
        raw = read_csv(path)
    except DataError as error:
        raise DataError(error.what, error.where, remedy) from None
    content = path, path.read_bytes()
    if content not in _tables:
        _tables[content] = checked(raw, pa.DataFrameSchema(columns, list(checks)), path, keys=keys, remedy=remedy)
    table = _tables[content].copy()
    if name != "models.csv" and "model" in table:
        listed = set(models()["model"])
        for line, model in table["model"].items():
            if model not in listed:
                fault = f"unknown model {model!r}: models.csv does not list it"
                raise DataError(fault, f"{label(path)}, line {line}", remedy)
    return table


models = partial(read_published, "models.csv")
rbp = partial(read_published, "rbp.csv")
table1 = partial(read_published, "table1.csv")
fit_by_k = partial(read_published, "fit_by_k.csv")
sequence_success = partial(read_published, "sequence_success.csv")
cross_entropy_vs_rbp1 = partial(read_published, "cross_entropy_vs_rbp1.csv")
rank_frequency = partial(read_published, "rank_frequency.csv")
lognormal_parameters = partial(read_published, "lognormal_parameters.csv")
gpt2_window_counts = partial(read_published, "gpt2_window_counts.csv")
gpt2_cross_entropy = partial(read_published, "gpt2_cross_entropy.csv")


# How closely the published numbers were read (data/published/README.md), relative or absolute.
_READING = 8e-6  # of −ln RBP_k on the logarithmic axes of figures 3, 4, 8a and 9: between two readings
_LINEAR = 1e-6  # of the shares on the linear axes of figure 7


def all_readings() -> pd.DataFrame:
    """Collect every published −ln RBP_k, the most exact source of each first, with its reading precision."""
    counts = gpt2_window_counts().query("n == 1")
    exact = counts.rename(columns={"successes": "hits", "windows": "tokens"}).drop(columns="n")
    exact["value"] = -np.log(exact["hits"] / exact["tokens"])
    exact["error"] = 1e-15 * exact["value"]

    figures = rbp().rename(columns={"neg_log_rbp": "value"})
    # Figure 5 plots shares that had been rounded to six decimals.
    rounded = 5e-7 * np.exp(figures["value"]) * (figures["source"] == "figure 5")
    figures["error"] = _READING * figures["value"] + rounded

    single = sequence_success().query("n == 1 and p_success > 0").drop(columns="n")
    single["value"] = -np.log(single["p_success"])
    single["error"] = _LINEAR / single["p_success"]

    measured = cross_entropy_vs_rbp1()
    measured = measured[(measured["kind"] == "empirical") & (measured["metric"] == "neg_log_rbp1")]
    measured = measured.assign(k=1, error=_READING * measured["value"])

    sources = [
        exact.assign(source="repository"),
        figures,
        single.assign(source="figure 7"),
        measured.assign(source="figure 8a"),
    ]
    table = pd.concat(sources, ignore_index=True)
    return table[["dataset", "model", "k", "value", "tokens", "hits", "source", "error"]]


def agreement() -> pd.DataFrame:
    """Compare every −ln RBP_k that two published sources give, with their reading precision.

    Columns dataset, model, k, first, second (the sources; the first is believed), first_value,
    second_value, difference, tolerance (the sum of what either reading may be off), ok.
    """
    return compare_readings(all_readings())


def compare_readings(readings: pd.DataFrame) -> pd.DataFrame:
    """Compute `agreement` of a table of `all_readings`."""
    key = ["dataset", "model", "k"]
    believed = readings.drop_duplicates(key)
    others = readings[readings.duplicated(key)].sort_values(key, kind="stable")
    both = others.merge(believed, on=key, suffixes=("_second", "_first"))
    table = both[key].assign(
        first=both["source_first"],
        second=both["source_second"],
        first_value=both["value_first"],
        second_value=both["value_second"],
        difference=both["value_second"] - both["value_first"],
        tolerance=both["error_first"] + both["error_second"],
    )
    table["ok"] = table["difference"].abs() <= table["tolerance"]
    return table


def rank_bins() -> pd.DataFrame:
    """Read the rank histogram of figure 8c: dataset, model, low, high (ranks, both included), mass.

    The bins are half-open, [edge, next edge), with whole edges from 2 on: a bin's centre is half the sum of
    its edges, so each edge follows from the one before. Mass is density × width: a share of the tokens with
    rank 2 or more. Raises DataError if an edge is not whole within the reading precision.
    """
    frequency = rank_frequency()
    bins = []
    for (dataset, model), rows in frequency.groupby(["dataset", "model"], sort=True):
        edge = 2
        for line, center, density in rows[["rank_bin_center", "frequency"]].itertuples(name=None):
            exact = 2 * center - edge
            following = round(exact)
            if following <= edge or abs(exact - following) > 1e-6 + 2e-5 * center:
                where = f"{label(FOLDER / 'rank_frequency.csv')}, line {line}"
                remedy = "Restore the file: git checkout -- data/published."
                raise DataError("the bins do not follow one another at whole ranks", where, remedy)
            mass = density * (following - edge)
            bins.append((dataset, model, edge, following - 1, mass))
            edge = following
    return pd.DataFrame(bins, columns=["dataset", "model", "low", "high", "mass"])
