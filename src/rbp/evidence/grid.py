"""The grid of families: what every model's ranks are, summed by document, over S, training tokens D and architecture.

A chapter on sizes, training or architectures begins with `counted`, a `Counted` for each text: documents × models × k
of hits, and documents × models of Σ −ln p and Σ entropy. Its `points` are the table with intervals by documents; its
`hits_of` a family at one budget, as the functions that take `Hits` want it; `rank_sums` what the sister law's terms
take. Ranks of single tokens are there of seed 0 at the largest budget: `open_source("ladder").stores`, "ladder:lstm", …

In a ladder's folder `rbp ladder ship --family` puts

    families.json          a record for each model
    families-sums/FAMILY/  of all models of a family:
        counts.parquet       model, dataset, document, greater, equal, tokens: how many have this rank
        by_rank.parquet      model, dataset, greater, equal, tokens, nll (their sum, nats)
        by_document.parquet  model, dataset, document, tokens, nll, entropy (sums, nats; of the predictions' entropies)
    families-ranks/FAMILY/ rank stores of seed 0 at the largest budget
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet

from rbp.core import provenance
from rbp.core.arrays import Integers, Reals
from rbp.core.errors import DataError, ParameterError
from rbp.core.files import parse_json
from rbp.core.paths import LADDER, label
from rbp.evidence.document_hits import GRID, Hits
from rbp.evidence.ranked import usual
from rbp.ranks.metric import TieRule, rank
from rbp.stats.clustering import log_neg_log_share, studentized_interval

RECORDS, SUMS, RANKS = "families.json", "families-sums", "families-ranks"
FIRST = "v1"  # the ladder before the families: its heads and depths changed with size
ABLATION = "ablation"  # two of its rungs with other heads
APART = (FIRST, ABLATION)  # no families, and there only where they are named
TABLES = {
    "counts": ("document", "greater", "equal", "tokens"),
    "by_rank": ("greater", "equal", "tokens", "nll"),
    "by_document": ("document", "tokens", "nll", "entropy"),
}  # by name, with the columns beside model and dataset

#: what is known of a model, in this order, wherever models are rows
MODEL = ["model", "family", "rung", "seed", "size", "budget", "trained"]
_COST = ["parameters", "seconds", "cpu_seconds", "tokens_per_second", "processors", "vocabulary"]
_SHAPE = ["layers", "width", "heads"]
_NAMES = {"model": "name", "trained": "tokens"}  # in the records
_REMEDY = "Restore it: git checkout -- data/ladder; or make it: rbp ladder ship --family."


def models(families: Collection[str] = (), *, folder: Path = LADDER) -> pd.DataFrame:
    """The models whose ranks are shipped, a row each, by family (in the recipe's order), budget, S and seed.

    Columns MODEL: model (its name), family ("neox", "lstm", "ngrams", …), rung ("10k"; of n-grams their length), seed
    (0 has all budgets, others the largest), size (S, non-embedding parameters; of n-grams how many are counted), budget
    (D: tokens of training, as planned), trained (as read, whole batches). Then parameters (all), seconds, cpu_seconds,
    tokens_per_second (of training), processors (of what kinds, a list), vocabulary, layers, width, heads (where there
    are such).

    families: some of them; none named: all but APART. Raises ParameterError for a family that is not shipped,
    DataError for a missing or malformed file.
    """
    path = folder / RECORDS
    try:
        entries = [entry for entry in parse_json(path.read_bytes()) if entry.get("ranked")]
        rows = [
            [*(entry[_NAMES.get(column, column)] for column in MODEL + _COST), *map(entry.get, _SHAPE)]
            for entry in entries
        ]
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", label(path), _REMEDY) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("this is no list of the families' models", label(path), _REMEDY) from None
    provenance.note(path)
    columns = MODEL + _COST + _SHAPE
    table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(_SHAPE, "Int64"))
    shipped = [name for name in table["family"].unique() if (folder / SUMS / name).is_dir()]
    for name in families:
        if name not in shipped:
            there = f"There is: {', '.join(shipped) or 'none'}."
            raise ParameterError(f"family {name} is not shipped", "family", f"{there} {how_to_make(name)}")
    chosen = table[table["family"].isin(families or [name for name in shipped if name not in APART])]
    place = chosen["family"].map({name: i for i, name in enumerate(shipped)})
    return chosen.assign(place=place).sort_values(["place", "budget", "size", "seed"], ignore_index=True)[columns]


def how_to_make(family: str) -> str:
    """The commands that make a family and ship it."""
    make = "" if family == "ngrams" else f"rbp ladder train --family {family}, "
    return f"Make it: {make}rbp ladder rank --family {family}, rbp ladder ship --family {family}."


@dataclass(frozen=True)
class Counted:
    """What the grid's models make of one text. All have read the same tokens of the same documents.

    models: a row each, as `models` gives them, in the order of the arrays; vocabulary: how many tokens could be;
    thresholds: k, ascending; tokens: ranked tokens of each document, shape (documents,); hits: those of rank ≤ k, shape
    (documents, models, thresholds); nll, entropy: sums over a document's tokens of −ln p, and of the entropy of the
    prediction, in nats, shape (documents, models).
    """

    dataset: str
    models: pd.DataFrame
    vocabulary: int
    thresholds: tuple[int, ...]
    tokens: Integers
    hits: Integers
    nll: Reals
    entropy: Reals

    def keep(self, chosen: npt.ArrayLike) -> "Counted":
        """The same for some models: chosen is True or False for each, such as `counted.models["seed"] == 0`."""
        own = np.asarray(chosen, dtype=bool)
        return Counted(
            self.dataset,
            self.models[own].reset_index(drop=True),
            self.vocabulary,
            self.thresholds,
            self.tokens,
            self.hits[:, own],
            self.nll[:, own],
            self.entropy[:, own],
        )

    @property
    def neg_log_rbp(self) -> Reals:
        """−ln RBP_k, shape (models, thresholds); infinite where no token has rank ≤ k."""
        with np.errstate(divide="ignore"):
            found: Reals = -np.log(self.hits.sum(axis=0) / self.tokens.sum()) + 0.0
        return found

    @property
    def cross_entropy(self) -> Reals:
        """Nats per token, shape (models,)."""
        found: Reals = self.nll.sum(axis=0) / self.tokens.sum()
        return found

    @property
    def mean_entropy(self) -> Reals:
        """The mean entropy of the predictions, in nats, shape (models,)."""
        found: Reals = self.entropy.sum(axis=0) / self.tokens.sum()
        return found

    def hits_of(self, family: str, budget: int | None = None) -> Hits:
        """A family at one budget (default: its largest) as `Hits`, sizes ascending, other seeds after seed 0.

        Raises ParameterError for a family or a budget that is not there.
        """
        own = self.models["family"] == family
        if not own.any():
            there = ", ".join(self.models["family"].unique())
            raise ParameterError(f"family {family} is not there", "family", f"There is: {there}.")
        budgets = sorted(self.models.loc[own, "budget"].unique())
        if budget is not None and budget not in budgets:
            there = ", ".join(f"{each:,}" for each in budgets)
            raise ParameterError(f"{family} has no budget of {budget:,} tokens", "budget", f"There is: {there}.")
        some = self.keep(own & (self.models["budget"] == (budget or budgets[-1])))
        order = some.models.sort_values(["size", "seed"]).index.to_numpy()
        return Hits(
            dataset=self.dataset,
            family=family,
            vocabulary=self.vocabulary,
            models=tuple(some.models["model"].iloc[order]),
            sizes=some.models["size"].to_numpy(np.int64)[order],
            thresholds=self.thresholds,
            tokens=self.tokens,
            hits=some.hits[:, order],
            nll=some.nll[:, order],
        )

    def points(self, ks: Sequence[int] | None = None, *, level: float = 0.95) -> pd.DataFrame:
        """A row for each model and metric: dataset, MODEL, metric, k, value, low, high, tokens, hits.

        metric: neg_log_rbp at each of `ks` (default: all thresholds), cross_entropy and entropy (nats per token,
        without k and hits). low, high: the interval of `level` with documents drawn anew as wholes
        (`studentized_interval` on the logarithm). A threshold that no token meets has no row. Raises ParameterError for
        a k that was not counted.
        """
        if wrong := [k for k in ks or () if k not in self.thresholds]:
            raise ParameterError(f"k = {wrong[0]} was not counted", "ks", "Name it in the thresholds of counted().")
        value, tokens = self.neg_log_rbp, self.tokens.astype(np.float64)
        rows: list[dict[str, Any]] = []

        def add(m: int, metric: str, k: int | None, value: float, sums: Reals) -> None:
            statistic = log_neg_log_share if k is not None else _log_mean
            low, high = np.exp(studentized_interval(np.column_stack([sums, tokens]), statistic, level=level))
            about = {"metric": metric, "k": k, "value": value, "low": low, "high": high}
            rows.append({"at": m, **about, "hits": None if k is None else int(sums.sum())})

        for m in range(len(self.models)):
            for i, k in enumerate(self.thresholds):
                if (ks is None or k in ks) and np.isfinite(value[m, i]):
                    add(m, "neg_log_rbp", k, float(value[m, i]), self.hits[:, m, i].astype(np.float64))
            add(m, "cross_entropy", None, float(self.cross_entropy[m]), self.nll[:, m])
            add(m, "entropy", None, float(self.mean_entropy[m]), self.entropy[:, m])
        found = pd.DataFrame(rows).astype({"k": "Int64", "hits": "Int64"})
        about = self.models[MODEL].iloc[found.pop("at")].reset_index(drop=True)
        found = pd.concat([about, found], axis=1).assign(dataset=self.dataset, tokens=int(self.tokens.sum()))
        return found[["dataset", *MODEL, "metric", "k", "value", "low", "high", "tokens", "hits"]]


def counted(
    thresholds: Sequence[int] = GRID,
    *,
    families: Collection[str] = (),
    datasets: Collection[str] = (),
    rule: TieRule = "paper",
    folder: Path = LADDER,
) -> list[Counted]:
    """What the models of some families (none named: all that are shipped) make of each text.

    thresholds: k at which hits are counted; rule: how equal scores count. Raises ParameterError for a family, a dataset
    or a k that is not there, DataError for a missing or damaged file, and where models ranked other tokens.
    """
    about = models(families, folder=folder)
    if about.empty:
        raise DataError("no family is shipped", label(folder / SUMS), _REMEDY)
    vocabulary, ks = int(about["vocabulary"].iloc[0]), sorted(set(thresholds))
    if wrong := [k for k in ks if not 1 <= k <= vocabulary]:
        raise ParameterError(f"k = {wrong[0]} is not among the ranks 1 to {vocabulary}", "thresholds", None)
    parts = [_of_family(own, ks, rule, folder) for _, own in about.groupby("family", sort=False)]
    there = sorted(parts[0])
    if unknown := [name for name in datasets if name not in there]:
        raise ParameterError(f"no ranks on {unknown[0]}", "datasets", f"There is: {', '.join(there)}.")
    found = []
    for name in datasets or there:
        tokens = parts[0][name]["tokens"][:, 0]
        arrays = [part.get(name, {"tokens": np.zeros((0, 1))}) for part in parts]
        if not all(np.array_equal(one["tokens"], np.tile(tokens[:, None], one["tokens"].shape[1])) for one in arrays):
            raise DataError(f"the models did not rank the same tokens of {name}", label(folder / SUMS), _REMEDY)
        hits, nll, entropy = (
            np.concatenate([one[key] for one in arrays], axis=1) for key in ("hits", "nll", "entropy")
        )
        whole = hits.astype(np.int64)
        found.append(Counted(name, about, vocabulary, tuple(ks), tokens.astype(np.int64), whole, nll, entropy))
    return found


def measurements(rule: TieRule = "paper", *, folder: Path = LADDER) -> pd.DataFrame:
    """All models of seed 0 as rows of the measurement table (`rbp.evidence.sources`), one family for each budget.

    At its largest budget a family has its own name, "neox"; at another that as well: "neox at 0.5 M".
    """
    vocabulary = int(models(folder=folder)["vocabulary"].max())
    parts = []
    for one in counted(usual(vocabulary), rule=rule, folder=folder):
        own = one.keep(one.models["seed"] == 0)
        hits, total = own.hits.sum(axis=0), int(own.tokens.sum())
        for m, k in zip(*np.nonzero(hits), strict=True):
            parts.append((own.dataset, m, "neg_log_rbp", own.thresholds[k], own.neg_log_rbp[m, k], total, hits[m, k]))
        for m, value in enumerate(own.cross_entropy):
            parts.append((own.dataset, m, "cross_entropy", None, value, total, None))
    found = pd.DataFrame(parts, columns=["dataset", "place", "metric", "k", "value", "tokens", "hits"])
    about = own.models.iloc[found.pop("place")].reset_index(drop=True)
    last = about["budget"] == about.groupby("family")["budget"].transform("max")
    name = about["family"].where(last, about["family"] + " at " + (about["budget"] / 1e6).map("{:g} M".format))
    return found.assign(model=about["model"], family=name, size=about["size"], source=SUMS)


def rank_sums(families: Collection[str] = (), *, folder: Path = LADDER) -> pd.DataFrame:
    """How many tokens have which rank, and their Σ −ln p: model, dataset, greater, equal, tokens, nll (nats).

    A row for each rank that occurs, by greater and equal (`rbp.ranks.metric.rank`). Raises what `counted` raises.
    """
    about = models(families, folder=folder)
    parts = [_table(own, "by_rank", folder) for _, own in about.groupby("family", sort=False)]
    wide = {"model": str, "dataset": str, "greater": np.int64, "equal": np.int64, "tokens": np.int64, "nll": np.float64}
    found: pd.DataFrame = pd.concat([part.astype(wide) for part in parts], ignore_index=True)
    return found


def _of_family(about: pd.DataFrame, ks: list[int], rule: TieRule, folder: Path) -> dict[str, dict[str, Reals]]:
    """The arrays of `Counted` of a family's models, by dataset; tokens with a column for each model as well."""
    counts, sums = (_table(about, name, folder) for name in ("counts", "by_document"))
    level = np.searchsorted(ks, np.asarray(rank(counts["greater"], counts["equal"], rule)))
    found: dict[str, dict[str, Reals]] = {}
    models, model = len(about), counts["model"].cat.codes.to_numpy(np.int64)
    for code, name in enumerate(sums["dataset"].cat.categories):
        own, one = sums[sums["dataset"].cat.codes == code], np.flatnonzero(counts["dataset"].cat.codes == code)
        documents, place = np.unique(own["document"], return_inverse=True)
        shape, cell = (len(documents), models), place * models + own["model"].cat.codes.to_numpy(np.int64)
        arrays = {
            column: np.bincount(cell, own[column], len(documents) * models).reshape(shape).astype(np.float64)
            for column in ("tokens", "nll", "entropy")
        }
        document, tokens = (counts[column].to_numpy()[one] for column in ("document", "tokens"))
        cell = (np.searchsorted(documents, document) * models + model[one]) * (len(ks) + 1) + level[one]
        levels = np.bincount(cell, tokens, len(documents) * models * (len(ks) + 1)).reshape(*shape, -1)
        arrays["hits"] = levels.cumsum(axis=2)[:, :, :-1].astype(np.float64)
        if not np.array_equal(levels.sum(axis=2), arrays["tokens"]):
            raise DataError(f"the tables do not fit together on {name}", label(folder / SUMS), _REMEDY)
        found[str(name)] = arrays
    return found


def _table(about: pd.DataFrame, name: str, folder: Path) -> pd.DataFrame:
    """A table of one family; models in the order of `about` and datasets, sorted, as categories."""
    path, codes = folder / SUMS / str(about["family"].iloc[0]) / f"{name}.parquet", ["model", "dataset"]
    try:
        table: pd.DataFrame = parquet.read_table(
            path, columns=[*codes, *TABLES[name]], read_dictionary=codes
        ).to_pandas()
    except (OSError, arrow.ArrowException) as error:
        what = f"cannot read the file: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(what, label(path), _REMEDY) from None
    provenance.note(path)
    if set(table["model"].cat.categories) != set(about["model"]):
        raise DataError("its models are not those of families.json", label(path), _REMEDY)
    table["model"] = table["model"].cat.set_categories(about["model"])
    table["dataset"] = table["dataset"].cat.set_categories(sorted(table["dataset"].cat.categories))
    return table


def _log_mean(totals: Any) -> Any:
    return np.log(totals[..., 0] / totals[..., 1])
