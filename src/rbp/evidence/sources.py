"""The one door to every source of measurements: the authors', the ladders', others', a file, or your own ranks.

What a text such as "published", "ladder:lstm", "mine.csv" or "runs/ranks" means is decided in `open_source`, nowhere
else. Every source has the one table that all fits read: `rbp.evidence.table`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from rbp.core import provenance
from rbp.core.errors import DataError, ParameterError
from rbp.core.files import canonical_json, exists
from rbp.core.names import split_names
from rbp.core.paths import CARRIED, LADDER, ROOT, label
from rbp.evidence import outside, published
from rbp.evidence.checkpoints import CHECKPOINT, apart, differ, must_agree, one_each
from rbp.evidence.counts import Counts, of_stores, store_table
from rbp.evidence.histograms import MeasuredRanks, of_figure_8c, of_store
from rbp.evidence.published import all_readings, compare_readings
from rbp.evidence.ranked import USUAL, Ranked, usual
from rbp.evidence.shipped import RANKS, counted, how_to_make, measurements
from rbp.evidence.table import KEYS, read_table, sort_table
from rbp.evidence.tokens import WINDOWS, published_windows, tokens_behind
from rbp.ranks.entropies import Entropies, has_entropies
from rbp.ranks.metric import TieRule
from rbp.ranks.store import MANIFEST, RankStore, is_store, open_store, store_folders


@dataclass(frozen=True)
class _Part(ABC):
    """One of the sources that are joined. Each kind has a table; what else it has it says, and the rest it lacks."""

    name: str
    folders: tuple[Path, ...]  # or files: what it is read from

    @abstractmethod
    def table(self) -> pd.DataFrame:
        """The measurement table."""

    def apart(self, table: pd.DataFrame) -> pd.DataFrame:
        """Its rows with a family for each time in training: see `apart`."""
        return apart(table)

    def stores(self) -> list[RankStore]:
        raise self._lacking("rank stores", '"ladder" or rank stores')

    def windows(self) -> pd.DataFrame:
        raise self._lacking("counts of windows", '"published", "ladder" or rank stores')

    def histograms(self) -> list[MeasuredRanks]:
        raise self._lacking("histograms of ranks", '"published", "ladder" or rank stores')

    def entropies(self) -> list[Entropies]:
        raise self._lacking("entropies of predictions", '"ladder"', "rbp ladder rank measures them.")

    def _lacking(self, what: str, others: str, how: str = "rbp extract makes rank stores.") -> DataError:
        return DataError(f"this source has no {what}", self.name, f"Give {others}; {how}")


class _File(_Part):
    def table(self) -> pd.DataFrame:
        return read_table(self.folders[0])


class _Published(_Part):
    def table(self) -> pd.DataFrame:
        folder = self.folders[0]
        every = all_readings(folder)
        pairs = compare_readings(every)
        if not pairs["ok"].all():
            bad = pairs[~pairs["ok"]].iloc[0]
            what = (
                f"{bad['first']} and {bad['second']} disagree on −ln RBP_{bad['k']} of {bad['model']} on "
                f"{bad['dataset']}: {bad['first_value']:.8g} and {bad['second_value']:.8g}"
            )
            raise DataError(what, label(folder), "Restore the files: git checkout -- data/published.")
        ranks = every.drop_duplicates(["dataset", "model", "k"]).drop(columns="error")
        pythia = published.cross_entropy_vs_rbp1(folder)
        pythia = pythia[(pythia["kind"] == "empirical") & (pythia["metric"] == "cross_entropy")]
        gpt2 = published.gpt2_cross_entropy(folder).rename(columns={"cross_entropy": "value"})
        entropy = pd.concat([pythia.assign(source="figure 8a"), gpt2.assign(source="repository")])
        table = pd.concat([ranks.assign(metric="neg_log_rbp"), entropy.assign(metric="cross_entropy")])
        models = published.models(folder).set_index("model")
        return table.assign(
            family=table["model"].map(models["family"]), size=table["model"].map(models["non_embedding_params"])
        )

    def windows(self) -> pd.DataFrame:
        return published_windows(self.folders[0])

    def histograms(self) -> list[MeasuredRanks]:
        return list(of_figure_8c(self.table(), self.folders[0]))


@dataclass(frozen=True)
class _Outside(_Part):
    """One of the files of others' measurements."""

    read: Callable[[Path], pd.DataFrame]

    def table(self) -> pd.DataFrame:
        return self.read(self.folders[0])

    def apart(self, table: pd.DataFrame) -> pd.DataFrame:
        return table  # few of its runs share their training tokens


@dataclass(frozen=True)
class _Ranks(_Part):
    """Rank stores, in one folder or several.

    how: the protocol and the length that are chosen, or None; ks: thresholds of the table beside the usual ones.
    """

    rule: TieRule
    how: tuple[str | None, int | None] = (None, None)
    ks: tuple[int, ...] = ()

    @cached_property
    def measured(self) -> list[RankStore]:
        """The stores, one for each measurement."""
        return one_each(_opened(self.folders), *self.how)

    def stores(self) -> list[RankStore]:
        about = [
            {"family": store.family, "model": store.model, "size": store.size, **store.training.known}
            for store in self.measured
        ]
        names = apart(pd.DataFrame(about, columns=["family", "model", "size", *CHECKPOINT]))
        both = zip(self.measured, names["family"], names["model"], strict=True)
        return [replace(store, family=family, model=model) for store, family, model in both]

    def table(self) -> pd.DataFrame:
        tables = [_table(*self._now(store), self.ks).assign(dataset=store.dataset) for store in self.measured]
        return pd.concat(tables, ignore_index=True)

    def windows(self) -> pd.DataFrame:
        counted = [
            _windows(*self._now(store)).assign(
                **{name: getattr(store, name) for name in ("dataset", "model", "family", "size")}, basis="counted"
            )
            for store in self.stores()
        ]
        return pd.concat(counted, ignore_index=True)[WINDOWS].astype({"successes": "int64", "windows": "int64"})

    def histograms(self) -> list[MeasuredRanks]:
        return [of_store(store, self.rule) for store in self.stores()]

    def entropies(self) -> list[Entropies]:
        return [Entropies(store) for store in self.stores() if has_entropies(store.folder)] or super().entropies()

    def counts(self, thresholds: Sequence[int]) -> list[Counts]:
        return of_stores(self.stores(), thresholds, self.rule)

    def _now(self, store: RankStore) -> tuple[Path, str, TieRule]:
        return store.folder, canonical_json(store.manifest), self.rule


class _Family(_Ranks):
    """A family trained here, at its largest budget: rank stores of seed 0, and sums of all its models."""

    def counts(self, thresholds: Sequence[int]) -> list[Counts]:
        name = self.folders[0].name
        return [one.of(name) for one in counted(thresholds, families=[name], rule=self.rule, folder=LADDER)]


class _Families(_Ranks):
    """All models of the families: the folders are those of their rank stores, which the largest budgets have."""

    def table(self) -> pd.DataFrame:
        return measurements(self.rule, self.ks, folder=LADDER)


_OF_FAMILIES = {"ladder": "neox", "ladder:lstm": "lstm"}
_OF_OTHERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "outside": outside.measurements,
    "images": outside.images,
    "tries": outside.tries,
    "detectors": outside.detectors,
    "gltr": outside.gltr,
}


def _shipped(word: str, rule: TieRule) -> _Part:
    """What comes with the project, by the word that asks for it, which is the part's name."""
    if word == "published":
        return _Published(word, (published.FOLDER,))
    if word in _OF_OTHERS:
        return _Outside(word, (outside.FOLDER,), _OF_OTHERS[word])
    if word in _OF_FAMILIES:
        return _Family(word, (LADDER / RANKS / _OF_FAMILIES[word],), rule)
    if word == "ladder:ngrams":
        return _Ranks(word, (LADDER / RANKS / "ngrams",), rule)
    return _Families(word, tuple(sorted((LADDER / RANKS).glob("*"))), rule)


#: the words of `_shipped`, each with what it means to a reader
SHIPPED = {
    "published": "the authors' published numbers",
    "ladder": "the ladder: transformers of 10k to 2.7m parameters trained here, 8 M tokens",
    "ladder:lstm": "the LSTMs trained here, 8 M tokens",
    "ladder:ngrams": "n-grams of the ladder's text",
    "ladder:all": "all families trained here, 0.5 to 8 M tokens",
    "outside": "training runs by others",
    "images": "models of images by others: top-1 and top-5 accuracy",
    "tries": "Pythia's tries at problems, by others: pass@k, no ranks",
    "detectors": "documents read by five models of up to 20 billion parameters, by others: averages of ranks",
    "gltr": "six texts ranked by GPT-2, by others",
}


def at_hand() -> dict[str, str]:
    """Those of SHIPPED whose data are there."""
    return {word: what for word, what in SHIPPED.items() if any(map(Path.is_dir, _shipped(word, "paper").folders[:1]))}


@dataclass(frozen=True)
class Source:
    """What one source holds, or several joined; each thing is read when it is first asked for.

    What one of the sources lacks raises DataError, and so does what is malformed, or stands in two of them.
    name: as it was asked for. rule: how equal scores count in ranks. shipped: which of its sources come with the
    project (words of SHIPPED), by what was opened: a folder of that name elsewhere is none of them.
    """

    name: str
    rule: TieRule
    shipped: frozenset[str]
    _parts: tuple[_Part, ...]

    def is_exactly(self, *shipped: str) -> bool:
        """Whether it is these shipped sources, nothing else, under the paper's tie rule, as the steps read them."""
        return self.shipped == set(shipped) and len(self._parts) == len(shipped) and self.rule == "paper"

    def at(self, ks: Sequence[int]) -> "Source":
        """The same with tables at these k too, as far as it has ranks to count; a table of numbers has what it has.

        Raises ParameterError for a k that is no rank of any model, where all of it is ranks.
        """
        if all(isinstance(part, _Ranks) for part in self._parts):
            most = max(store.vocabulary for part in self._parts for store in _opened(part.folders))
            if wrong := [k for k in ks if not 1 <= k <= most]:
                what = f"k = {wrong[0]} is not among the ranks 1 to {most}"
                raise ParameterError(what, "k", f"Give k from 1 to {most}.")
        beside = tuple(sorted({*ks} - {*USUAL}))
        if not beside:
            return self
        parts = [replace(part, ks=beside) if isinstance(part, _Ranks) else part for part in self._parts]
        return replace(self, _parts=tuple(parts))

    @property
    def parts(self) -> "list[Source]":
        """Each of the joined sources by itself."""
        return [Source(part.name, self.rule, self.shipped & {part.name}, (part,)) for part in self._parts]

    @property
    def files(self) -> tuple[str, ...]:
        """The files and folders that it is read from, relative to the project where they lie inside it."""
        return tuple(label(path) for part in self._parts for path in part.folders)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The measurement table: the columns of `rbp.evidence.table`, by metric, dataset, family, size, model, k.

        Checkpoints stand apart, each time in training a family of its own (`apart`): a law in S is of one.
        """
        return self._joined([part.apart(part.table()) for part in self._parts])

    @cached_property
    def checkpoints(self) -> pd.DataFrame:
        """The same with the checkpoints of a model under its one name, and those of a family under its own."""
        return self._joined([part.table() for part in self._parts])

    def _joined(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        table = pd.concat(parts, ignore_index=True)
        table = table.assign(**{name: None for name in CHECKPOINT if name not in table})
        origin: list[str] = []
        for part, own in zip(self._parts, parts, strict=True):
            several = isinstance(part, _Ranks) or len(part.folders) > 1
            origin += own["source"].tolist() if several else [part.name] * len(own)
        # within one part nothing is there twice: see `one_each`, and the keys of a file
        number = np.repeat(range(len(parts)), [len(part) for part in parts]).tolist()
        seen: dict[tuple[object, ...], list[tuple[int, tuple[object, ...], str]]] = {}
        rows = (table[list(names)].itertuples(index=False, name=None) for names in (KEYS, CHECKPOINT))
        for key, checkpoint, at, name in zip(*rows, number, origin, strict=True) if len(parts) > 1 else ():
            for place, other, there in seen.setdefault(key, []):
                if place != at and not differ(checkpoint, other):
                    dataset, model, metric, k = key
                    measured = "the cross-entropy" if metric == "cross_entropy" else f"−ln RBP_{k}"
                    what = f"{measured} of {model} on {dataset} is in two sources"
                    raise DataError(what, f"{there} and {name}", _TWICE)
            seen[key].append((at, checkpoint, name))
        must_agree(table, origin)
        return sort_table(table)

    @cached_property
    def stores(self) -> list[RankStore]:
        """The rank stores, by dataset, size and model; of the ladder, one of each rung and dataset."""
        parts = [part.stores() for part in self._parts]
        self._all_once([(store.model, store.dataset) for store in stores] for stores in parts)
        return sorted(chain.from_iterable(parts), key=lambda store: (store.dataset, store.size, store.model))

    @cached_property
    def windows(self) -> pd.DataFrame:
        """How many windows of n successive tokens have every token in the top k (figure 7), as whole numbers.

        Columns dataset, model, family, size, k, n, successes, windows, p (the share), basis ("counted", or "recovered"
        from a published share), by dataset, family, size, k and n.
        """
        parts = [part.windows() for part in self._parts]
        self._all_once(zip(part["model"], part["dataset"], strict=True) for part in parts)
        return pd.concat(parts).sort_values(["dataset", "family", "size", "k", "n"], ignore_index=True)

    @cached_property
    def histograms(self) -> list[MeasuredRanks]:
        """The measured ranks of each model on each dataset, by family, dataset, size and model (figure 8c)."""
        parts = [part.histograms() for part in self._parts]
        self._all_once([(one.model, one.dataset) for one in ranks] for ranks in parts)
        return sorted(chain.from_iterable(parts), key=lambda one: (one.family, one.dataset, one.size, one.model))

    @cached_property
    def entropies(self) -> list[Entropies]:
        """The entropies of predictions, and −ln p at other temperatures, of the stores that have them; as `stores`."""
        parts = [part.entropies() for part in self._parts]
        self._all_once([(one.store.model, one.store.dataset) for one in found] for found in parts)
        order = {(store.model, store.dataset): i for i, store in enumerate(self.stores)}
        return sorted(chain.from_iterable(parts), key=lambda one: order[one.store.model, one.store.dataset])

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """How many tokens stand behind the −ln RBP_k of each dataset and family: `tokens.tokens_behind`."""
        return tokens_behind(self.table)

    @cached_property
    def ranked(self) -> "Source":
        """Those of its sources that have rank stores, joined; where none has, its `stores` are none."""
        parts = tuple(part for part in self._parts if isinstance(part, _Ranks))
        names = [part.name for part in parts]
        return replace(self, name=", ".join(names), shipped=self.shipped & set(names), _parts=parts)

    def counts(self, thresholds: Sequence[int]) -> list[Counts]:
        """What its models make of each text, by document and k; of a ladder by itself, with its rungs' other seeds.

        Raises what `counts.of_stores` raises.
        """
        if len(self._parts) == 1 and isinstance(part := self._parts[0], _Ranks):
            return part.counts(thresholds)
        return of_stores(self.stores, thresholds, self.rule)

    def _all_once(self, parts: Iterable[Iterable[tuple[str, str]]]) -> None:
        named = zip(self._parts, parts, strict=True)
        _all_once(((*cell, part.name) for part, cells in named for cell in dict.fromkeys(cells)), "sources")


def open_source(
    source: str | Path | Sequence[str | Path],
    rule: TieRule = "paper",
    *,
    protocol: str | None = None,
    length: int | None = None,
) -> Source:
    """The source of measurements that is meant by a text or a path, or several of them joined.

        >>> import rbp
        >>> table = rbp.open_source("published").table
        >>> sorted(set(table["family"]))
        ['GPT-2', 'OPT', 'Pythia', 'Qwen2.5']

    A source is one of the words "published"; "ladder", "ladder:lstm", "ladder:ngrams", "ladder:all" (of data/ladder);
    "outside", "images", "tries", "detectors", "gltr" (of data/outside). Or it is a CSV or Parquet file of the
    measurement table, a folder with the published files, a rank store, or a folder of them. Several are a sequence, or
    one text with commas. A Path, or a text with a slash such as "./ladder", is never a word.

    rule: how equal scores count in ranks. protocol, length: of rank stores of one's own, those that were read so. What
    is inside is read later (see `Source`). Raises ParameterError for an unknown source, DataError for a folder without
    measurements.
    """
    if isinstance(source, str | Path):
        whole = isinstance(source, Path) or exists(source)
        given: list[str | Path] = [source] if whole else [*split_names(str(source))]
    else:
        given = list(source)
    if not given:
        raise ParameterError("no source of measurements is given", "measurements", _REMEDY)
    parts = _with_one_of_ranks([_part(one, rule) for one in given], (protocol, length))
    shipped = frozenset(str(one) for one in given if _is_word(one))
    return Source(", ".join(part.name for part in parts), rule, shipped, tuple(parts))


def _with_one_of_ranks(parts: Sequence[_Part], how: tuple[str | None, int | None]) -> list[_Part]:
    """The parts with the user's own rank stores as one of them: they are told apart and chosen together."""
    own = [part for part in parts if type(part) is _Ranks and part.name not in SHIPPED]
    if not own:
        return list(parts)
    folders = tuple(dict.fromkeys(folder for part in own for folder in part.folders))
    joined = replace(own[0], name=", ".join(dict.fromkeys(part.name for part in own)), folders=folders, how=how)
    return [joined if part is own[0] else part for part in parts if part is own[0] or part not in own]


_WORDS = ", ".join(f'"{word}"' for word in SHIPPED)
_REMEDY = f"Give {_WORDS}, a folder with the published files, a CSV or Parquet file, or a folder of ranks."
_TWICE = "Leave it out of one of them: which to believe is yours to say."


def is_measured(text: str) -> bool:
    """Whether a text names what `open_source` could open, by its look: a shipped word, a table, a folder of ranks."""
    path = Path(text)
    if _is_word(text) or path.suffix.lower() in (".csv", ".parquet"):
        return True
    return exists(path) and path.is_dir() and _holds_stores(path)


def _holds_stores(folder: Path) -> bool:
    return is_store(folder) or any(map(is_store, folder.iterdir()))


def _is_word(one: str | Path) -> bool:
    return isinstance(one, str) and one in SHIPPED


def _part(one: str | Path, rule: TieRule) -> _Part:
    name, path = str(one), Path(one)
    if not name or "\0" in name:
        raise ParameterError("a source of measurements without a name", "measurements", _REMEDY)
    if _is_word(one):
        if ROOT == CARRIED and name != "published":
            remedy = 'Clone the project, or give "published", a table or rank stores of your own.'
            raise DataError(f'"{name}" is part of a checkout of the project', "rbp is installed without one", remedy)
        return _shipped(name, rule)
    if exists(path) and path.is_dir():
        if _holds_stores(path):
            return _Ranks(name, (path,), rule)
        if not (path / "models.csv").exists():
            raise DataError("the folder holds no measurements: no models.csv and no rank store", name, _REMEDY)
        return _Published(name, (path,))
    if path.suffix.lower() in (".csv", ".parquet"):
        return _File(name, (path,))
    raise ParameterError(f"unknown source of measurements {name!r}", "measurements", _REMEDY)


def _opened(folders: Sequence[Path]) -> list[RankStore]:
    for folder in folders or [LADDER / RANKS]:
        if not folder.is_dir():  # a ladder's alone: another is there when its source is opened
            what = "the ladder has no ranks"
            remedy = "Restore it: git checkout -- data/ladder; or make your own: rbp ladder train, rbp ladder rank."
            if folder.parent.name == RANKS:
                what, remedy = f"the family {folder.name} is not shipped", how_to_make(folder.name)
            raise DataError(what, label(folder), remedy)
    stores = [open_store(folder) for folder in store_folders(folders)]
    provenance.note(*(store.folder / MANIFEST for store in stores))
    return stores


def _all_once(places: Iterable[tuple[str, str, str]], kind: str) -> None:
    """Raise DataError if a model is measured on a dataset in two places: of each, model, dataset and place."""
    seen: dict[tuple[str, str], str] = {}
    for model, dataset, place in places:
        if (model, dataset) in seen:
            where = f"{seen[model, dataset]}; {place}"
            raise DataError(f"{model} on {dataset} is in two {kind}", where, _TWICE)
        seen[model, dataset] = place


# What is counted of a store, once. manifest: as it is now, so that a store that has changed is counted anew.


@lru_cache(maxsize=1024)
def _table(folder: Path, manifest: str, rule: TieRule, ks: tuple[int, ...]) -> pd.DataFrame:
    store = open_store(folder)
    return store_table(Ranked(store, rule), usual(store.vocabulary, ks))


@lru_cache(maxsize=1024)
def _windows(folder: Path, manifest: str, rule: TieRule) -> pd.DataFrame:
    return Ranked(open_store(folder), rule).windows()
