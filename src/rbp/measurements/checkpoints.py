"""Checkpoints of one model, and stores of one text: what tells them apart, and which of several are meant."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rbp.errors import DataError, ParameterError
from rbp.extract.store import RankStore
from rbp.names import nearest

log = logging.getLogger(__name__)

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
    """The rows of `Source.checkpoints` for a law against something else than size: that stands in `size`.

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
        option = "--" + needed.replace("_", "-")
        remedy = f"Rank it again with {option}, write checkpoints.csv beside it, or take another family: --family."
        raise ParameterError(f"{needed} of {model} is not known", f"--against {axis}", remedy)
    rows = table[table[column] > 0]
    rows = rows.assign(x=rows[column].astype("float64"), model=apart(rows)["model"])
    if axis == "compute":
        cell = ["dataset", "metric", "k", "family"]
        several = rows.groupby(["family", "size"])["x"].transform("nunique") > 1
        ordered = rows.sort_values(["x", "value"], kind="stable")
        before = ordered.groupby(cell, dropna=False)["value"].transform(lambda own: own.cummin().shift())
        beaten = (ordered["value"] >= before).reindex(rows.index)
        rows = rows[~(beaten & several.groupby(rows["family"]).transform("any"))]
    elif axis != "size":
        rows = rows.assign(family=runs(table.loc[rows.index]))
    return rows.assign(size=rows["x"]).drop(columns="x")


def runs(table: pd.DataFrame) -> "pd.Series[str]":
    """The training that each row is of, in words: a model, or, where each time has its own name, a size of a family."""
    seed = table["seed"].fillna(0)
    of_seed = ("-seed" + seed.astype("str")).where(seed > 0, "")
    one = table.groupby([table["family"], table["size"], seed])["model"].transform("nunique") == 1
    by_size = table["family"] + " of " + table["size"].map("{:,}".format)
    return table["model"].str.rpartition("/")[2].where(one, by_size) + of_seed


def differ(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two checkpoints (their CHECKPOINT) are told apart by something that is known of both."""
    return any(not pd.isna(a) and not pd.isna(b) and a != b for a, b in zip(one, other, strict=True))


def one_each(stores: Sequence[RankStore], protocol: str | None = None, length: int | None = None) -> list[RankStore]:
    """One store for each checkpoint of a model on a text, the others left out; a warning says which way was chosen.

    Texts of one name get the code of each after it. Where something was measured in several ways (protocol, length, …),
    the way that everything on that text was measured in is chosen; protocol, length: which is meant. Raises DataError
    where none is, or several are, and where one measurement is there twice.
    """
    wanted = {name: value for name, value in (("name", protocol), ("length", length)) if value is not None}
    asked = [store for store in stores if wanted.items() <= store.protocol.items()]
    if stores and not asked:
        words = " of length ".join(map(str, wanted.values()))
        there = "; ".join(sorted({_way(store) for store in stores}))
        raise DataError(f"there are no ranks by {words}", str(stores[0].folder.parent), f"There is: {there}.")
    texts: dict[str, list[str | None]] = {}
    for store in asked:
        if store.text not in texts.setdefault(store.dataset, []):
            texts[store.dataset].append(store.text)
    found: dict[str, RankStore] = {}
    for dataset, codes in texts.items():
        for code in codes:
            own = [store for store in asked if (store.dataset, store.text) == (dataset, code)]
            name = f"{dataset}-{code}" if len(codes) > 1 and code else dataset
            found |= {str(store.folder): replace(store, dataset=name) for store in _by_one_way(own)}
    chosen = [found[str(store.folder)] for store in asked if str(store.folder) in found]
    _must_rank_alike(chosen)
    _must_begin_alike(chosen)
    _warn_of_readings(chosen)
    return without_copies(chosen)


def _must_begin_alike(stores: Sequence[RankStore]) -> None:
    """Raise DataError where models of a family read a text with BOS before every window, and others without."""
    kinds: dict[tuple[str, str], dict[tuple[str, ...], RankStore]] = {}
    for store in stores:
        kinds.setdefault((store.dataset, store.family), {})[tuple(store.manifest["key"].get("bos", ()))] = store
    for (dataset, family), ways in kinds.items():
        if len(ways) > 1:
            said = (f"{store.model} with {' '.join(front) or 'nothing'}" for front, store in ways.items())
            what = f"of {family}, models read {dataset} with different tokens before every window: {', '.join(said)}"
            places = "; ".join(str(store.folder) for store in ways.values())
            raise DataError(what, places, "Rank all with one --bos: auto, always or never.")


def without_copies(stores: Sequence[RankStore]) -> list[RankStore]:
    """The stores without copies: those of one text that have the same weights, or were imported from the same file.

    Of copies that are told apart by their names alone, the first stays. Where they claim to be of several sizes, steps,
    numbers of training tokens or seeds, at most one can be right, and none stays; a seed that begins with the weights
    of another one is no independent run, and goes as a whole. A warning names them.
    """
    groups: dict[tuple[str, str], list[RankStore]] = {}
    for store in stores:
        key = store.manifest["key"]
        if identity := key.get("weights") or key.get("imported"):
            groups.setdefault((store.dataset, f"{identity} {key.get('tokenizer')}"), []).append(store)
    left_out: set[Path] = set()
    for (dataset, _), copies in groups.items():
        if len(copies) == 1:
            continue
        first, names = copies[0], [_name(store) for store in copies]
        seeds = {store.training.seed for store in copies if store.training.seed is not None}
        if len(seeds) > 1 and not any(_contradict(first, store, seeds=False) for store in copies):
            runs = {(store.family, store.size, store.training.seed) for store in copies[1:]}
            runs -= {(first.family, first.size, first.training.seed)}
            left_out |= {one.folder for one in stores if (one.family, one.size, one.training.seed) in runs}
            what = "begin with the same weights, so they are no independent runs: the first seed stays"
        elif any(_contradict(first, store) for store in copies):
            left_out |= {store.folder for store in copies}
            what = "are copies of one another, and cannot all be what they are called: left out"
        else:
            left_out |= {store.folder for store in copies[1:]}
            what = "are copies of one another: the first stays"
        log.warning("on %s, %s %s", dataset, ", ".join(dict.fromkeys(names)), what)
    chosen = [store for store in stores if store.folder not in left_out]
    if stores and not chosen:
        what = "all of the stores are copies of one another, and cannot all be what they are called"
        remedy = "Take the wrong ones away: rbp ranks rm STORE."
        raise DataError(what, "; ".join(str(store.folder) for store in stores), remedy)
    return chosen


def _must_rank_alike(stores: Sequence[RankStore]) -> None:
    """Raise DataError where ranks of rounded logits, of which many are equal, stand beside ranks of others."""
    kinds: dict[tuple[str, str], dict[bool, RankStore]] = {}
    for store in stores:
        if store.logits is not None:
            rounded = store.logits not in ("float32", "float64")
            kinds.setdefault((store.dataset, store.family), {})[rounded] = store
    for (dataset, family), each in kinds.items():
        if len(each) > 1:
            what = f"of {family} on {dataset}, {each[True].model} was ranked by logits rounded to {each[True].logits}, "
            what += f"and {each[False].model} was not: their ranks do not compare"
            remedy = "Rank all in float32 (--dtype float32), or all with --round-logits bfloat16."
            raise DataError(what, f"{each[True].folder}; {each[False].folder}", remedy)


def _name(store: RankStore) -> str:
    known = store.training
    at = _called(known.revision, known.training_tokens, known.step, known.seed) if known.known else ""
    return f"{store.model}@{at}" if at else store.model


def _contradict(one: RankStore, other: RankStore, *, seeds: bool = True) -> bool:
    """Whether two stores claim to be of different models, beside their names."""
    names = ("training_tokens", "step", *(["seed"] if seeds else []))
    known = [(getattr(one.training, name), getattr(other.training, name)) for name in names]
    return one.size != other.size or any(None not in pair and pair[0] != pair[1] for pair in known)


def _warn_of_readings(stores: Sequence[RankStore]) -> None:
    """Say so where the models of a family did not read a text alike: their ranks do not compare."""
    readings: dict[tuple[str, str], dict[str, list[str]]] = {}
    for store in stores:
        how = f"{_reading(store)}, {store.tokens:,} tokens ranked"
        readings.setdefault((store.dataset, store.family), {}).setdefault(how, []).append(store.model)
    for (dataset, family), ways in readings.items():
        if len(ways) > 1:
            listed = "; ".join(f"{way} ({', '.join(dict.fromkeys(models))})" for way, models in ways.items())
            remedy = "their ranks compare if all have one --length, --protocol and tokenizer"
            log.warning("the models of %s did not read %s alike: %s: %s", family, dataset, listed, remedy)


def _by_one_way(stores: Sequence[RankStore]) -> Sequence[RankStore]:
    """Of the stores of one text, those of one way of measuring, if something was measured in several.

    Of ways that differ in how much was to be read alone, it is the one that ranked most.
    """
    models: dict[str, list[RankStore]] = {}
    for store in stores:
        models.setdefault(store.model, []).append(store)
    pairs = ((other, one) for own in models.values() for i, one in enumerate(own) for other in own[:i])
    twice = [pair for pair in pairs if _same(*pair)]
    if not twice:
        return stores
    ways: dict[str, list[RankStore]] = {}
    for store in stores:
        ways.setdefault(_way(store), []).append(store)
    whole = [way for way, own in ways.items() if all(any(_same(store, one) for one in own) for store in stores)]
    alike = [pair for pair in twice if _way(pair[0]) == _way(pair[1])]
    most = max(whole, key=lambda way: sum(store.tokens for store in ways[way]), default="")
    one_but_for_budget = len({_way(ways[way][0], budget=False) for way in whole}) == 1
    if one_but_for_budget and not any(_way(one) == most for one, _ in alike):
        log.warning("%s was read in several ways; taken is one of all models: %s", stores[0].dataset, most)
        return ways[most]
    first, second = (alike or twice)[0]
    what = f"{first.model} on {first.dataset} is in two stores"
    remedy = (
        f"Take one away: rbp ranks rm {first.folder}; or name it anew: rbp ranks rename {first.folder} --model NAME."
    )
    if not alike:
        what += f", and it is not clear which of several ways is meant: {'; '.join(ways)}"
        options = {f"--protocol {each.protocol.get('name')} --length {each.protocol.get('length')}" for each in stores}
        if len(options) == len(ways):
            remedy = f"Say which: rbp law … {' or '.join(sorted(options))}. {remedy}"
    raise DataError(what, f"{first.folder}; {second.folder}", remedy)


def _same(one: RankStore, other: RankStore) -> bool:
    return one.model == other.model and not one.training.is_other_than(other.training)


def _way(store: RankStore, *, budget: bool = True) -> str:
    """How a text was read and ranked, in words; budget: with how much of it was to be read."""
    key = store.manifest["key"]
    words = [str(key[name]) for name in ("dtype", "vocabulary", "round_logits", "backend", "device") if key.get(name)]
    return ", ".join([_reading(store, budget=budget), *words])


def _reading(store: RankStore, *, budget: bool = True) -> str:
    """How a text was read, in words."""
    chosen, asked = store.protocol, ("documents", "tokens", "context") if budget else ("context",)
    words = [f"{name} {chosen[name]}" for name in (*asked, "bos", "special") if chosen.get(name) is not None]
    return ", ".join([f"{chosen.get('name')} of {chosen.get('length')} tokens", *words])


def apart(table: pd.DataFrame) -> pd.DataFrame:
    """A measurement table with a family for each time in training, where some size of a family was measured at several.

    At its last a family keeps its name, "neox"; before it has that as well: "neox at 0.5 M" training tokens, or "neox
    at step 1000". Where nothing but revisions tells times apart, none is the last: "neox at early". And a model of
    several checkpoints has a name for each: "pythia-70m@step1000".
    """
    columns = ["family", "size", "model", *CHECKPOINT]
    rows = table.reindex(columns=columns)
    known = rows.drop_duplicates()  # a checkpoint has many rows, one of each threshold
    place = rows.groupby(columns, dropna=False, sort=False).ngroup().to_numpy()  # in `known`: as they first appear
    tokens, step = (known[name].astype("Float64") for name in ("training_tokens", "step"))
    at = tokens.fillna(step)
    undated = known["revision"].where(at.isna())
    last = at.groupby(known["family"]).transform("max")
    moved = pd.Series(False, known.index)
    for time, early in ((at, (at < last).fillna(False)), (undated, undated.notna())):
        several = time.groupby([known["family"], known["size"]]).transform("nunique") > 1
        moved |= several.groupby(known["family"]).transform("any") & early
    times = [
        amount(D) if pd.notna(D) else f"step {n:.0f}" if pd.notna(n) else str(revision)
        for D, n, revision in zip(tokens, step, known["revision"], strict=True)
    ]
    families = known["family"].where(~moved, known["family"] + " at " + pd.Series(times, known.index))
    one = known[["model", *CHECKPOINT]].drop_duplicates().groupby("model")["model"].size().eq(1)
    each = known[["model", *CHECKPOINT]].itertuples(index=False, name=None)
    models = pd.Series([row[0] if one[row[0]] else f"{row[0]}@{_called(*row[1:])}" for row in each], dtype="str")
    return table.assign(family=families.array.take(place), model=models.array.take(place))


def names_in_time(table: pd.DataFrame, family: str) -> set[str]:
    """The names that `apart` gives a family of `Source.checkpoints`, its own among them: not "A at home" to "A".

    Raises ParameterError for a family that is not there.
    """
    rows = table[table["family"] == family]
    if rows.empty:
        names = nearest(family, dict.fromkeys(table["family"]))
        raise ParameterError(f"there is no family {family!r}", "--family", names)
    return {family, *apart(rows)["family"]}


def _called(revision: Any, tokens: Any, step: Any, seed: Any) -> str:
    """A checkpoint's name behind its model's."""
    known = [revision, f"step{step}", amount(tokens).replace(" ", "") if pd.notna(tokens) else ""]
    first = next((name for name, value in zip(known, (revision, step, tokens), strict=True) if pd.notna(value)), "")
    return "-".join(filter(None, [first, f"seed{seed}" if pd.notna(seed) and (seed or not first) else ""]))


def amount(tokens: float) -> str:
    """A number of training tokens in words: 0.5 M, 299.9 B."""
    size, unit = next((each for each in ((1e12, "T"), (1e9, "B")) if tokens >= each[0]), (1e6, "M"))
    return f"{tokens / size:.4g} {unit}"


def must_agree(table: pd.DataFrame, where: Callable[[int], str]) -> None:
    """Raise DataError if what is said of a model or its checkpoints contradicts itself, or is missing for some of them.

    where: gives the place of a row, which are counted from 0.
    """
    kinds = table[["model", "family", "size"]].reset_index(drop=True).drop_duplicates()
    for model, own in kinds[kinds.duplicated("model", keep=False)].groupby("model", sort=False):
        said = own["family"] + " of size " + own["size"].astype("str")
        remedy = "A model has one size and one family; rbp ranks rename STORE --family NAME gives a store another."
        raise DataError(f"{model} is given as {' and as '.join(said)}", "; ".join(map(where, own.index)), remedy)
    known = table.reindex(columns=["model", *CHECKPOINT]).reset_index(drop=True).drop_duplicates()
    for model, own in known[known.duplicated("model", keep=False)].groupby("model", sort=False):
        for name in CHECKPOINT:
            if own[name].isna().any() and own[name].notna().any():
                places = (where(own.index[own[name].isna() == missing][0]) for missing in (False, True))
                what = f"{name} of {model} is known of one checkpoint, and missing for another"
                raise DataError(what, "; ".join(places), "Give it for all of them, or for none.")
        for _, run in own.groupby("seed", dropna=False):
            for one, other in (("revision", "step"), ("revision", "training_tokens"), ("step", "training_tokens")):
                _must_rise(str(model), run.dropna(subset=[one, other]).sort_values([one, other]), one, other, where)


def _must_rise(model: str, run: pd.DataFrame, one: str, other: str, where: Callable[[int], str]) -> None:
    """Raise DataError if the same `one` has several of the `other`, or a later step has not read more."""
    before = run[[one, other]].shift()
    same = run[one].eq(before[one]).fillna(False)
    wrong = same & run[other].ne(before[other])
    if one == "step":
        wrong |= ~same & run[other].le(before[other]).fillna(False)
    if wrong.any():
        place = int(np.flatnonzero(wrong.to_numpy(bool))[0])
        pair = run.iloc[[place - 1, place]]
        said = " and ".join(f"{row[other]} at {one} {row[one]}" for row in pair.to_dict("records"))
        remedy = "A checkpoint has one of each, and a later one has read more: correct one."
        raise DataError(f"{model} has {other} {said}", "; ".join(map(where, pair.index)), remedy)
