"""The ladder's families as the chapters take them: what every model makes of each text, by document (`Counts`).

All models rank the same documents, and a document is left out of all alike: what is compared is compared on the same.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from rbp.book.steps import step
from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.core.files import bytes_below, parse_json
from rbp.core.paths import LADDER, label
from rbp.evidence.counts import THRESHOLDS, Counts, from_table, to_table
from rbp.evidence.ranked import SHARES, large
from rbp.evidence.shipped import ABLATION, FIRST, RANKS, RECORDS, SUMS, TRIALS, counted, models
from rbp.ladder.recipe import LADDERS, Ladders, read_ladders
from rbp.paper.wording import dataset_order

TRANSFORMER, LSTM, NGRAMS = "neox", "lstm", "ngrams"
FAMILY_LABELS = {
    TRANSFORMER: "Transformer",
    LSTM: "LSTM",
    NGRAMS: "n-grams",
    "mamba2": "Mamba-2",
    ABLATION: "other heads",
}


def family_label(family: str) -> str:
    """The name of a family as a title shows it."""
    return FAMILY_LABELS.get(family, family)


def measure_label(k: int | None) -> str:
    """What is shown for −ln RBP_k, or for the cross-entropy (None)."""
    return "CE" if pd.isna(k) else f"k = {k}"


def rung_of(model: str, family: str) -> str:
    """The rung of one of the ladder's models: "150k" of neox-150k-at-8m."""
    return model.removeprefix(f"{family}-").partition("-at-")[0]


def what_differs(models: Iterable[str]) -> list[str]:
    """What each model trained again has of its own by the recipe, beside its first training: "weights" or "order"."""
    repeats = _recipe().repeats
    seeds = [int(model.rpartition("-seed")[2]) for model in models]
    return ["weights" if repeats[seed].weights else "order" for seed in seeds]


def planned() -> tuple[dict[str, tuple[str, ...]], tuple[int, ...]]:
    """What the recipe would train: the rungs of each family, by size, and the budgets. Not all of it need be there."""
    ladders = _recipe()
    return {family.name: family.rungs for family in ladders.families}, tuple(ladders.training.budgets)


def _recipe() -> Ladders:
    ladders, _ = read_ladders()
    provenance.note(LADDERS, LADDERS.parent / ladders.text)
    return ladders


def points(texts: Sequence[Counts], ks: Sequence[int], family: str = TRANSFORMER) -> pd.DataFrame:
    """A family's models of seed 0 as a measurement table, of each text the cross-entropy, then each k.

    With training_tokens, the budget.
    """
    parts = []
    for text in texts:
        own = text.keep((text.models["family"] == family) & (text.models["seed"] == 0), ks).table()
        parts.append(own.sort_values("k", na_position="first", kind="stable"))
    return pd.concat(parts, ignore_index=True).rename(columns={"budget": "training_tokens"})


def of_measure(table: pd.DataFrame, k: int | None) -> pd.DataFrame:
    """The rows at k, or those of the cross-entropy (None), which have none."""
    return table[table["k"].isna() if k is None else table["k"].eq(k).fillna(False)]


@step("ladder_counts", reads=["data/ladder/families.json", "data/ladder/families-sums"], seconds=20)
def _counts() -> pd.DataFrame:
    """What all shipped models make of each text, at the usual thresholds and SHARES, as `to_table` gives it."""
    vocabulary = int(models()["vocabulary"].max())
    return to_table(counted([*THRESHOLDS, *(large(share, vocabulary) for share in SHARES)]))


def shipped_counts() -> list[Counts]:
    """What all shipped models make of each text, in the texts' order, at THRESHOLDS and SHARES: from its step."""
    found = {one.dataset: one for one in from_table(_counts())}
    return [found[name] for name in dataset_order(found)]


def costs(folder: Path = LADDER) -> pd.DataFrame:
    """What the shipped families took to train, and how large they are, a row for each, in the order of the records.

    Columns family; models (trained); core_hours: of training, where budgets of a line share the trunk up to where they
    branch off; slowest, fastest: tokens per second of one core, over the models (of n-grams: counted); weights, ranks,
    sums: bytes. Raises DataError for a missing or malformed file.
    """
    try:
        entries = parse_json((folder / RECORDS).read_bytes())
        table = pd.DataFrame(e for e in entries if e["family"] != FIRST and not e["family"].endswith(TRIALS))
        cooldown = read_ladders(folder / LADDERS.name)[0].training.cooldown
        rate = table["tokens"] / table["cpu_seconds"].clip(lower=0.1)
        last = table["budget"] == table.groupby(["family", "rung", "seed"])["budget"].transform("max")
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError("this is no list of the families' models", label(folder / RECORDS), None) from None
    provenance.note(folder / RECORDS)
    branched = table["family"] != NGRAMS
    share = (~branched).astype(float).mask(branched, cooldown + (1 - cooldown) * last)
    whole = table.assign(core_hours=table["cpu_seconds"] * share / 3600, rate=rate).groupby("family", sort=False)
    found = whole.agg(
        models=("name", "size"), core_hours=("core_hours", "sum"), slowest=("rate", "min"), fastest=("rate", "max")
    ).reset_index()
    for column, place in (("weights", "families"), ("ranks", RANKS), ("sums", SUMS)):
        found[column] = [bytes_below(folder / place / name) for name in found["family"]]
    return found
