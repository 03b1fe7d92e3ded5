"""Checkpoints of one model, and stores of one text: what distinguishes them, and which of several are meant."""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from rbp.errors import DataError, ParameterError
from rbp.models.training import Training
from rbp.names import nearest
from rbp.store import RankStore

log = logging.getLogger(__name__)
Item = TypeVar("Item")

CHECKPOINT = ("revision", "training_tokens", "step", "seed")  # what tells checkpoints of one model apart


#: what a law can be against: the column, its letter, and what it is called
AXES = {
    "size": ("size", "S", "model size"),
    "tokens": ("training_tokens", "D", "training tokens"),
    "compute": ("compute", "C", "compute"),
    "step": ("step", "t", "steps"),
}


def check_axis(axis: str) -> None:
    """Raise ParameterError for an axis that is not in AXES."""
    if axis not in AXES:
        raise ParameterError(f"there is no law against {axis!r}", "--against", f"There is: {', '.join(AXES)}.")


def against(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Select and relabel the rows of `Source.checkpoints` for a law against another axis than size, put in `size`.

    Against tokens or steps the lines (`family`) are runs (`runs`). Against compute they are the families, each by the
    checkpoints that none of as little compute beats, where there are several of a size. What was not trained yet has no
    place on a logarithmic axis, and is left out. Raises ParameterError for an axis that is not in AXES, or where its
    column is missing for a model.
    """
    check_axis(axis)
    column = AXES[axis][0]
    if table[column].isna().any():
        needed = "training_tokens" if axis == "compute" else column
        model = table.loc[table[column].isna(), "model"].iloc[0]
        remedy = f"Say it by a column {needed} of checkpoints.csv beside the model, or take another family: --family."
        raise ParameterError(f"{needed} of {model} is not known", f"--against {axis}", remedy)
    rows = table[table[column] > 0]
    rows = rows.assign(x=rows[column].astype("float64"), model=split_by_checkpoint(rows)["model"])
    if axis == "compute":
        cell = ["dataset", "metric", "k", "family"]
        several = rows.groupby(["family", "size"])["x"].transform("nunique") > 1
        ordered = rows.sort_values(["x", "value"], kind="stable")
        before = ordered.groupby(cell, dropna=False)["value"].transform(lambda values: values.cummin().shift())
        beaten = (ordered["value"] >= before).reindex(rows.index)
        rows = rows[~(beaten & several.groupby(rows["family"]).transform("any"))]
    elif axis != "size":
        rows = rows.assign(family=runs(table.loc[rows.index]))
    return rows.assign(size=rows["x"]).drop(columns="x")


def runs(table: pd.DataFrame) -> "pd.Series[str]":
    """Name the training that each row is of: a model, or, where each time has its own name, a size of a family."""
    seed = table["seed"].fillna(0)
    of_seed = ("-seed" + seed.astype("str")).where(seed > 0, "")
    one_model = table.groupby([table["family"], table["size"], seed])["model"].transform("nunique") == 1
    by_size = table["family"] + " of " + table["size"].map("{:,}".format)
    return table["model"].str.rpartition("/")[2].where(one_model, by_size) + of_seed


def differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether something known of both distinguishes two checkpoints (their CHECKPOINT)."""
    return any(not pd.isna(a) and not pd.isna(b) and a != b for a, b in zip(first, second, strict=True))


def drop_repeated_measurements(
    stores: Sequence[RankStore], protocol: str | None = None, length: int | None = None
) -> list[RankStore]:
    """Return the stores of a protocol and length, without those that are copies of others; a warning names these.

    protocol, length: which is meant, where a text was measured in several ways. Texts of one name get the code of each
    after it. Raises DataError where nothing was measured so, or a checkpoint of a model is in several stores.
    """
    wanted = {name: value for name, value in (("name", protocol), ("length", length)) if value is not None}
    candidates = [store for store in stores if wanted.items() <= store.protocol.items()]
    if stores and not candidates:
        words = " of length ".join(map(str, wanted.values()))
        ways = "; ".join(sorted({_way(store) for store in stores}))
        raise DataError(f"there are no ranks by {words}", str(stores[0].folder.parent), f"There is: {ways}.")
    renamed: dict[str, RankStore] = {}
    for same in _grouped(candidates, lambda store: store.dataset):
        texts = _grouped(same, lambda store: store.text)
        for group in texts:
            name = f"{group[0].dataset}-{group[0].text}" if len(texts) > 1 and group[0].text else group[0].dataset
            _must_be_once(group)
            renamed |= {str(store.folder): replace(store, dataset=name) for store in group}
    chosen = [renamed[str(store.folder)] for store in candidates]
    _must_compare(chosen)
    stays = independent(list(map(_claim, chosen)))
    return [store for store, stay in zip(chosen, stays, strict=True) if stay]


class Claim(NamedTuple):
    """The labels of a store, or of a model's rows in a table, and the identity that its copies share.

    identity: a digest of weights, or all measured values; None where nothing is known. place: where it is, for errors.
    """

    dataset: str
    identity: Hashable
    model: str
    family: str
    size: int
    training: Training
    place: str

    @property
    def name(self) -> str:
        """Name the model, and its checkpoint."""
        training = self.training
        checkpoint = _called(training.revision, training.training_tokens, training.step, training.seed)
        return f"{self.model}@{checkpoint}" if checkpoint else self.model

    def contradicts(self, other: "Claim", *, seeds: bool = True) -> bool:
        """Return whether the two cannot be of one model, whatever it is called."""
        names = ("training_tokens", "step", *(["seed"] if seeds else []))
        pairs = [(getattr(self.training, name), getattr(other.training, name)) for name in names]
        return self.size != other.size or any(None not in pair and pair[0] != pair[1] for pair in pairs)


def independent(claims: Sequence[Claim]) -> list[bool]:
    """Return which claims stay: claims on one dataset with one identity are copies of one another.

    Of copies that differ in their names alone, the first stays. Where they claim to be of several sizes, steps,
    numbers of training tokens or seeds, at most one can be right, and none stays; a seed that begins as another one is
    no independent run, and goes as a whole. A warning names them. Raises DataError where nothing stays.
    """
    identified = [i for i, claim in enumerate(claims) if claim.identity is not None]
    left_out: set[int] = set()
    for places in _grouped(identified, lambda i: (claims[i].dataset, claims[i].identity)):
        if len(places) == 1:
            continue
        copies = [claims[i] for i in places]
        first, seeds = copies[0], {claim.training.seed for claim in copies} - {None}
        if len(seeds) > 1 and not any(first.contradicts(claim, seeds=False) for claim in copies):
            runs = [(claim.family, claim.size, claim.training.seed) for claim in claims]
            left_out |= {i for i, run in enumerate(runs) if run != runs[places[0]] and run in {runs[j] for j in places}}
            fault = "begin alike, so they are not independent runs, and only the first seed is kept"
        elif any(first.contradicts(claim) for claim in copies):
            left_out |= {*places}
            fault = "are copies of one another, and cannot all be what they are called: left out"
        else:
            left_out |= {*places[1:]}
            fault = "are copies of one another: the first stays"
        log.warning("on %s, %s %s", first.dataset, ", ".join(dict.fromkeys(claim.name for claim in copies)), fault)
    if claims and len(left_out) == len(claims):
        fault = "all that is measured are copies of one another, and cannot all be what they are called"
        where = "; ".join(dict.fromkeys(claim.place for claim in claims))
        raise DataError(fault, where, "Remove the wrong ones: rbp ranks rm STORE.")
    return [i not in left_out for i in range(len(claims))]


def _grouped(items: Sequence[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    """Group items by a key, in the order of the first of each."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _claim(store: RankStore) -> Claim:
    """Identify a store: the model by its weights and ordinal, or the file that its ranks were imported from."""
    key = store.manifest["key"]
    of = key.get("weights") or key.get("imported")
    identity = (of, key.get("tokenizer"), key.get("ordinal")) if of else None
    return Claim(store.dataset, identity, store.model, store.family, store.size, store.training, str(store.folder))


# how many digits of a value say something, at most: shares say little, those of few problems nothing
_DIGITS, _BY_CHANCE = {"neg_log_rbp": 3, "neg_log_pass": 0}, 8


def without_copied_rows(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return a measurement table without what `independent` leaves out. where: its place, for errors.

    Rows of a model on a dataset are copies of another's if all values are the same, in more digits than by chance.
    """
    names = ["dataset", "model", *CHECKPOINT]
    rows = table.reindex(columns=list(dict.fromkeys([*table.columns, *names])))
    groups = rows.groupby(names, dropna=False, sort=False).ngroup().to_numpy()
    firsts = rows.drop_duplicates(names)
    values: list[set[Any]] = [set() for _ in range(len(firsts))]
    measured = rows[["metric", "k", "value"]].fillna(0).itertuples(index=False, name=None)
    for group, cells in zip(groups.tolist(), measured, strict=True):
        values[group].add(cells)
    contents = list(zip(firsts["dataset"], map(frozenset, values), strict=True))
    if len({*contents}) == len(contents):
        return table
    claims = []
    for row, (dataset, content) in zip(firsts.to_dict("records"), contents, strict=True):
        training = Training(**{name: None if pd.isna(row[name]) else row[name] for name in CHECKPOINT})
        labels = row["model"], row["family"], int(row["size"]), training, f"{row['model']} in {where}"
        claims.append(Claim(dataset, content if _digits(content) > _BY_CHANCE else None, *labels))
    return table[np.array(independent(claims))[groups]]


def _digits(values: Iterable[tuple[str, float, float]]) -> int:
    """Count the significant digits of some values (metric, k, value)."""
    written = ((name, f"{value:.12g}".replace(".", "").strip("0")) for name, _, value in values)
    return sum(min(len(digits), _DIGITS.get(name, 12)) for name, digits in written)


def _must_compare(stores: Sequence[RankStore]) -> None:
    """Raise DataError where the models of a family did not rank a text alike, by their logits or what was before it.

    A warning says where they did not read the same of it.
    """
    for group in _grouped(stores, lambda store: (store.dataset, store.family)):
        family, dataset = group[0].family, group[0].dataset
        # of rounded logits many are equal
        rounded = {store.logits not in ("float32", "float64"): store for store in group if store.logits is not None}
        if len(rounded) > 1:
            fault = f"of {family} on {dataset}, {rounded[True].model} was ranked by logits rounded to "
            fault += f"{rounded[True].logits}, and {rounded[False].model} was not: their ranks do not compare"
            remedy = "Rank all in float32 (--dtype float32), or all with --round-logits bfloat16."
            raise DataError(fault, f"{rounded[True].folder}; {rounded[False].folder}", remedy)
        fronts = {tuple(store.manifest["key"].get("bos", ())): store for store in group}
        if len(fronts) > 1:
            starts = (f"{store.model} with {' '.join(front) or 'nothing'}" for front, store in fronts.items())
            fault = f"of {family}, models read {dataset} with different tokens before every window: {', '.join(starts)}"
            places = "; ".join(str(store.folder) for store in fronts.values())
            raise DataError(fault, places, "Rank all with one --bos: auto, always or never.")
        readings: dict[str, list[str]] = {}
        for store in group:
            readings.setdefault(f"{_reading(store)}, {store.tokens:,} tokens ranked", []).append(store.model)
        if len(readings) > 1:
            listed = "; ".join(f"{way} ({', '.join(dict.fromkeys(models))})" for way, models in readings.items())
            remedy = "their ranks compare if all have one --length, --protocol and tokenizer"
            log.warning("the models of %s did not read %s alike: %s: %s", family, dataset, listed, remedy)


def _must_be_once(stores: Sequence[RankStore]) -> None:
    """Raise DataError where one checkpoint of a model is in several stores of a text."""
    models = _grouped(stores, lambda store: store.model)
    pairs = ((second, first) for group in models for i, first in enumerate(group) for second in group[:i])
    twice = next((pair for pair in pairs if _same(*pair)), None)
    if twice is None:
        return
    first, second = twice
    fault = f"{first.model} on {first.dataset} is in two stores"
    remedy = (
        f"Take one away: rbp ranks rm {first.folder}; or name it anew: rbp ranks rename {first.folder} --model NAME."
    )
    if (first_way := _way(first)) != (second_way := _way(second)):
        fault += f", measured in several ways: {first_way}; {second_way}"
        protocols = (store.protocol for store in twice)
        options = {f"--protocol {way.get('name')} --length {way.get('length')}" for way in protocols}
        if len(options) > 1:
            remedy = f"Say which: rbp law … {' or '.join(sorted(options))}. {remedy}"
    raise DataError(fault, f"{first.folder}; {second.folder}", remedy)


def _same(first: RankStore, second: RankStore) -> bool:
    return first.model == second.model and not first.training.is_other_than(second.training)


def _way(store: RankStore) -> str:
    """Describe how a text was read and ranked."""
    key = store.manifest["key"]
    words = [str(key[name]) for name in ("dtype", "vocabulary", "round_logits", "backend", "device") if key.get(name)]
    return ", ".join([_reading(store), *words])


def _reading(store: RankStore) -> str:
    """Describe how a text was read."""
    chosen, options = store.protocol, ("documents", "tokens", "context", "bos", "special", "score")
    words = [f"{name} {chosen[name]}" for name in options if chosen.get(name) is not None]
    return ", ".join([f"{chosen.get('name')} of {chosen.get('length')} tokens", *words])


def split_by_checkpoint(table: pd.DataFrame) -> pd.DataFrame:
    """Return a measurement table with a family for each time in training, where a size was measured at several.

    At the last a family keeps its name, "neox"; earlier ones add it: "neox at 0.5 M" training tokens, or "neox
    at step 1000". Where only revisions distinguish times, none is the last: "neox at early". And a model of
    several checkpoints has a name for each: "pythia-70m@step1000".
    """
    columns = ["family", "size", "model", *CHECKPOINT]
    rows = table.reindex(columns=columns).astype(dict.fromkeys(CHECKPOINT[1:], "Int64"))  # some unknown: no "step1.0"
    checkpoints = rows.drop_duplicates()  # a checkpoint has many rows, one of each threshold
    place = rows.groupby(columns, dropna=False, sort=False).ngroup().to_numpy()  # in `known`: as they first appear
    tokens, step = (checkpoints[name].astype("Float64") for name in ("training_tokens", "step"))
    progress = tokens.fillna(step)
    undated = checkpoints["revision"].where(progress.isna())
    last = progress.groupby(checkpoints["family"]).transform("max")
    moved = pd.Series(False, checkpoints.index)
    for time, early in ((progress, (progress < last).fillna(False)), (undated, undated.notna())):
        several = time.groupby([checkpoints["family"], checkpoints["size"]]).transform("nunique") > 1
        moved |= several.groupby(checkpoints["family"]).transform("any") & early
    times = [
        amount(D) if pd.notna(D) else f"step {n:.0f}" if pd.notna(n) else str(revision)
        for D, n, revision in zip(tokens, step, checkpoints["revision"], strict=True)
    ]
    families = checkpoints["family"].where(~moved, checkpoints["family"] + " at " + pd.Series(times, checkpoints.index))
    single = checkpoints[["model", *CHECKPOINT]].drop_duplicates().groupby("model")["model"].size().eq(1)
    named = checkpoints[["model", *CHECKPOINT]].itertuples(index=False, name=None)
    models = pd.Series([row[0] if single[row[0]] else f"{row[0]}@{_called(*row[1:])}" for row in named], dtype="str")
    return table.assign(family=families.array.take(place), model=models.array.take(place))


def names_in_time(table: pd.DataFrame, family: str) -> set[str]:
    """Return the names that `split_by_checkpoint` gives a family of `Source.checkpoints`, its own among them.

    Raises ParameterError for a family that is not there.
    """
    rows = table[table["family"] == family]
    if rows.empty:
        names = nearest(family, dict.fromkeys(table["family"]))
        raise ParameterError(f"there is no family {family!r}", "--family", names)
    return {family, *split_by_checkpoint(rows)["family"]}


def _called(revision: Any, tokens: Any, step: Any, seed: Any) -> str:
    """Return the part of a checkpoint's name after its model's."""
    names = [revision, f"step{step}", amount(tokens).replace(" ", "") if pd.notna(tokens) else ""]
    first = next((name for name, value in zip(names, (revision, step, tokens), strict=True) if pd.notna(value)), "")
    return "-".join(filter(None, [first, f"seed{seed}" if pd.notna(seed) and (seed or not first) else ""]))


def amount(tokens: float) -> str:
    """Write a number of training tokens in words: 0.5 M, 299.9 B."""
    size, unit = next((scale for scale in ((1e12, "T"), (1e9, "B")) if tokens >= scale[0]), (1e6, "M"))
    return f"{tokens / size:.4g} {unit}"


def must_agree(table: pd.DataFrame, where: Callable[[int], str]) -> None:
    """Raise DataError if statements on a model or its checkpoints contradict each other, or are missing for some.

    where: gives the place of a row, which are counted from 0.
    """
    kinds = table[["model", "family", "size"]].reset_index(drop=True).drop_duplicates()
    for model, group in kinds[kinds.duplicated("model", keep=False)].groupby("model", sort=False):
        claims = group["family"] + " of size " + group["size"].astype("str")
        remedy = "A model has one size and one family; rbp ranks rename STORE --family NAME gives a store another."
        raise DataError(f"{model} is given as {' and as '.join(claims)}", "; ".join(map(where, group.index)), remedy)
    checkpoints = table.reindex(columns=["model", *CHECKPOINT]).reset_index(drop=True).drop_duplicates()
    for model, group in checkpoints[checkpoints.duplicated("model", keep=False)].groupby("model", sort=False):
        for name in CHECKPOINT:
            if group[name].isna().any() and group[name].notna().any():
                places = (where(group.index[group[name].isna() == missing][0]) for missing in (False, True))
                fault = f"{name} of {model} is known of one checkpoint, and missing for another"
                raise DataError(fault, "; ".join(places), "Give it for all of them, or for none.")
        for _, run in group.groupby("seed", dropna=False):
            for column, other in (("revision", "step"), ("revision", "training_tokens"), ("step", "training_tokens")):
                ordered = run.dropna(subset=[column, other]).sort_values([column, other])
                _must_rise(str(model), ordered, column, other, where)


def _must_rise(model: str, run: pd.DataFrame, column: str, other: str, where: Callable[[int], str]) -> None:
    """Raise DataError if the same `column` has several of the `other`, or a later step has not read more."""
    before = run[[column, other]].shift()
    same = run[column].eq(before[column]).fillna(False)
    wrong = same & run[other].ne(before[other])
    if column == "step":
        wrong |= ~same & run[other].le(before[other]).fillna(False)
    if wrong.any():
        place = int(np.flatnonzero(wrong.to_numpy(bool))[0])
        pair = run.iloc[[place - 1, place]]
        values = " and ".join(f"{row[other]} at {column} {row[column]}" for row in pair.to_dict("records"))
        remedy = "A checkpoint has one of each, and a later one has read more: correct one."
        raise DataError(f"{model} has {other} {values}", "; ".join(map(where, pair.index)), remedy)
