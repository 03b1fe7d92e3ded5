"""Open every source of measurements: a file, your own ranks, or what an installed package brings.

What a text such as "published", "ladder:lstm", "mine.csv" or "runs/ranks" means is decided in `open_source`, nowhere
else. Every source has the one table that all fits read: `rbp.measurements.table`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd

from rbp import registry
from rbp.arrays import Reals
from rbp.errors import DataError, ParameterError
from rbp.io import exists
from rbp.laws.counting import neg_log_rbp_variance
from rbp.measurements.checkpoints import CHECKPOINT, differ, must_agree
from rbp.measurements.counts import Counts, of_stores
from rbp.measurements.histograms import MeasuredRanks
from rbp.measurements.parts import File, Part, Ranks
from rbp.measurements.ranked import USUAL
from rbp.measurements.table import KEYS, sort_table
from rbp.metric import TieRule
from rbp.names import split_names
from rbp.store import RankStore, is_store


@dataclass(frozen=True)
class Named:
    """A source of an installed package. meaning: of its word, for a reader; open: by that word and a tie rule."""

    meaning: str
    open: Callable[[str, TieRule], Part]


@cache
def named_sources() -> dict[str, Named]:
    """Return the sources of the installed packages by their words (`rbp.registry`)."""
    named: dict[str, Named] = {}
    for entry in registry.entries("sources").values():
        sources: Mapping[str, Named] = entry.load()
        named.update(sources)
    return named


def available_sources() -> dict[str, str]:
    """Return the words of `named_sources` whose data are there, each with what it means to a reader."""
    opened = {word: source.open(word, "paper") for word, source in named_sources().items()}
    return {
        word: named_sources()[word].meaning for word, part in opened.items() if any(map(Path.is_dir, part.folders[:1]))
    }


@dataclass(frozen=True)
class Source:
    """The contents of one source, or of several joined; each thing is read when it is first needed.

    What one of the sources lacks raises DataError, and so does what is malformed, or stands in two of them.
    name: as requested. rule: how equal scores count in ranks. shipped: which of its sources were opened by a
    word of `named_sources`: a folder of that name elsewhere is none of them.
    """

    name: str
    rule: TieRule
    shipped: frozenset[str]
    _parts: tuple[Part, ...]

    def is_only(self, *shipped: str) -> bool:
        """Return whether it is these shipped sources alone, under the paper's tie rule, as the steps read them."""
        return self.shipped == set(shipped) and len(self._parts) == len(shipped) and self.rule == "paper"

    def with_thresholds(self, ks: Sequence[int]) -> "Source":
        """Return the source with tables at these k too, as far as it has ranks to count; a table of numbers stays.

        Raises ParameterError for a k that is no rank of any model, where all of it is ranks.
        """
        ranks = [part for part in self._parts if isinstance(part, Ranks)]
        if len(ranks) == len(self._parts):
            most = max(store.vocabulary for part in ranks for store in part.opened())
            if wrong := [k for k in ks if not 1 <= k <= most]:
                fault = f"k = {wrong[0]} is not among the ranks 1 to {most}"
                raise ParameterError(fault, "k", f"Give k from 1 to {most}.")
        beside = tuple(sorted({*ks} - {*USUAL}))
        if not beside:
            return self
        parts = [replace(part, ks=beside) if isinstance(part, Ranks) else part for part in self._parts]
        return replace(self, _parts=tuple(parts))

    @property
    def parts(self) -> "list[Source]":
        """Return each of the joined sources by itself."""
        return [Source(part.name, self.rule, self.shipped & {part.name}, (part,)) for part in self._parts]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return the measurement table: `rbp.measurements.table`, by metric, dataset, family, size, model, k.

        Each time in training is a family of its own (`split_by_checkpoint`), as a law in S is of one.
        """
        return self._joined(
            [part.split_by_checkpoint(rows) for part, rows in zip(self._parts, self._tables, strict=True)]
        )

    @cached_property
    def checkpoints(self) -> pd.DataFrame:
        """Return `table`, but with all checkpoints of a model under its name and family."""
        return self._joined(self._tables)

    @cached_property
    def _tables(self) -> list[pd.DataFrame]:
        return [part.table() for part in self._parts]

    def _joined(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        table = pd.concat(parts, ignore_index=True)
        table = table.assign(**{name: None for name in CHECKPOINT if name not in table})
        origin: list[str] = []
        for part, part_rows in zip(self._parts, parts, strict=True):
            several = isinstance(part, Ranks) or len(part.folders) > 1
            origin += part_rows["source"].tolist() if several else [part.name] * len(part_rows)
        # within one part nothing is there twice: see `drop_repeated_measurements`, and the keys of a file
        number = np.repeat(range(len(parts)), [len(part) for part in parts]).tolist()
        seen: dict[tuple[object, ...], list[tuple[int, tuple[object, ...], str]]] = {}
        rows = (table[list(names)].itertuples(index=False, name=None) for names in (KEYS, CHECKPOINT))
        for key, checkpoint, part_number, name in zip(*rows, number, origin, strict=True) if len(parts) > 1 else ():
            for place, other, earlier in seen.setdefault(key, []):
                if place != part_number and not differ(checkpoint, other):
                    dataset, model, metric, k = key
                    measured = "the cross-entropy" if metric == "cross_entropy" else f"−ln RBP_{k}"
                    fault = f"{measured} of {model} on {dataset} is in two sources"
                    raise DataError(fault, f"{earlier} and {name}", _TWICE)
            seen[key].append((part_number, checkpoint, name))
        must_agree(table, origin.__getitem__)
        return sort_table(table)

    @cached_property
    def stores(self) -> list[RankStore]:
        """Return the rank stores, by dataset, size and model; of the ladder, one of each rung and dataset."""
        parts = [part.stores() for part in self._parts]
        self._all_once([(store.model, store.dataset) for store in stores] for stores in parts)
        return sorted(chain.from_iterable(parts), key=attrgetter("dataset", "size", "model"))

    @cached_property
    def windows(self) -> pd.DataFrame:
        """Count windows of n successive tokens that have every token in the top k (figure 7), as whole numbers.

        Columns dataset, model, family, size, k, n, successes, windows, p (the share), basis ("counted", or "recovered"
        from a published share), by dataset, family, size, k and n.
        """
        parts = [part.windows() for part in self._parts]
        self._all_once(zip(part["model"], part["dataset"], strict=True) for part in parts)
        return pd.concat(parts).sort_values(["dataset", "family", "size", "k", "n"], ignore_index=True)

    @cached_property
    def histograms(self) -> list[MeasuredRanks]:
        """Return the measured ranks of each model on each dataset, by family, dataset, size and model (figure 8c)."""
        parts = [part.histograms() for part in self._parts]
        self._all_once([(ranks.model, ranks.dataset) for ranks in part] for part in parts)
        return sorted(chain.from_iterable(parts), key=attrgetter("family", "dataset", "size", "model"))

    def counting_variance(self, points: pd.DataFrame) -> Reals:
        """Return the variance of each −ln RBP_k by counting alone (`counting.neg_log_rbp_variance`), shape (n,).

        points: n rows of its table, of −ln RBP_k. Raises DataError where it is not known how many tokens were ranked.
        """
        tokens = self._parts[0].tokens(points)
        for part in self._parts[1:]:
            tokens = tokens.fillna(part.tokens(points))
        if tokens.isna().any():
            row = points[tokens.isna()].iloc[0]
            fault = f"it is not known how many tokens {row['model']} was measured on"
            raise DataError(fault, f"{row['family']} on {row['dataset']}", "Fit without weights.")
        return neg_log_rbp_variance(tokens * np.exp(-points["value"]), tokens)

    @cached_property
    def ranked(self) -> "Source":
        """Join the sources that have rank stores; where none has, its `stores` are none."""
        parts = tuple(part for part in self._parts if isinstance(part, Ranks))
        names = [part.name for part in parts]
        return replace(self, name=", ".join(names), shipped=self.shipped & set(names), _parts=parts)

    def counts(self, thresholds: Sequence[int]) -> list[Counts]:
        """Count its models on each text, by document and k; of a ladder by itself, with its rungs' other seeds.

        Raises what `counts.of_stores` raises.
        """
        if len(self._parts) == 1 and isinstance(part := self._parts[0], Ranks):
            return part.counts(thresholds)
        return of_stores(self.stores, thresholds, self.rule)

    def _all_once(self, parts: Iterable[Iterable[tuple[str, str]]]) -> None:
        """Raise DataError if a model is measured on a dataset in two parts: of each, models and datasets."""
        seen: dict[tuple[str, str], str] = {}
        for part, cells in zip(self._parts, parts, strict=True):
            for model, dataset in dict.fromkeys(cells):
                if earlier := seen.get((model, dataset)):
                    raise DataError(f"{model} on {dataset} is in two sources", f"{earlier}; {part.name}", _TWICE)
                seen[model, dataset] = part.name


def open_source(
    source: str | Path | Sequence[str | Path],
    rule: TieRule = "paper",
    *,
    protocol: str | None = None,
    length: int | None = None,
) -> Source:
    """Open the source of measurements that a text or a path names, or several of them joined.

        >>> import rbp
        >>> table = rbp.open_source("published").table
        >>> sorted(set(table["family"]))
        ['GPT-2', 'OPT', 'Pythia', 'Qwen2.5']

    A source is a CSV or Parquet file of the measurement table, a rank store, or a folder of them; or one of the words
    of installed packages, such as "published" or "ladder" of the book's checkout. Several are a sequence, or one text
    with commas. A Path, or a text with a slash such as "./ladder", is never a word.

    rule: how equal scores count in ranks. protocol, length: choose among the user's own rank stores those read so. What
    is inside is read later (see `Source`). Raises ParameterError for an unknown source, DataError for a folder without
    measurements.
    """
    items: Sequence[str | Path] = [source] if isinstance(source, str | Path) else source
    if isinstance(source, str) and "," in source and not exists(source):
        items = split_names(source)
    if not items:
        raise ParameterError("no source of measurements is given", "measurements", known_sources())
    parts = [_part(item, rule) for item in items]
    shipped = frozenset(part.name for part in parts if part.folders != (Path(part.name),))
    if any(type(part) is Ranks for part in parts):
        parts = _with_one_of_ranks(parts, (protocol, length))
    return Source(", ".join(part.name for part in parts), rule, shipped, tuple(parts))


def _with_one_of_ranks(parts: Sequence[Part], how: tuple[str | None, int | None]) -> list[Part]:
    """Join the user's own rank stores into one of the parts, so that they are distinguished and chosen together."""
    ranks = [part for part in parts if type(part) is Ranks]
    if not ranks:
        return list(parts)
    folders = tuple(dict.fromkeys(folder for part in ranks for folder in part.folders))
    joined = replace(
        ranks[0], name=", ".join(dict.fromkeys(part.name for part in ranks)), folders=folders, protocol_and_length=how
    )
    return [joined if part is ranks[0] else part for part in parts if part is ranks[0] or part not in ranks]


def known_sources() -> str:
    """Say what may be given as a source: the end of an error."""
    words = ", ".join(f'"{word}"' for word in named_sources())
    files = "a CSV or Parquet file, or a folder of ranks"
    return f"Give {words}, {files}." if words else f"Give {files}: no installed package brings sources of its own."


_TWICE = "Leave it out of one of them: which to believe is yours to say."


def is_measured(text: str) -> bool:
    """Return whether a text looks like what `open_source` could open: a shipped word, a table, a folder of ranks."""
    path = Path(text)
    if text in named_sources() or path.suffix.lower() in (".csv", ".tsv", ".parquet"):
        return True
    return exists(path) and path.is_dir() and _holds_stores(path)


def _holds_stores(folder: Path) -> bool:
    return is_store(folder) or any(map(is_store, folder.iterdir()))


def _part(source: str | Path, rule: TieRule) -> Part:
    name, path = str(source), Path(source)
    if not name or "\0" in name:
        raise ParameterError("a source of measurements has an empty name", "measurements", known_sources())
    if isinstance(source, str):
        # an entry point that is called as the word brings it: no other package is imported
        entry = registry.entries("sources").get(source.partition(":")[0])
        if named := (entry.load() if entry else named_sources()).get(source):
            return named.open(source, rule)
    if exists(path) and path.is_dir():
        if _holds_stores(path):
            return Ranks(name, (path,), rule)
        raise DataError("the folder holds no measurements: no rank store is in it", name, known_sources())
    if path.suffix.lower() in (".csv", ".tsv", ".parquet"):
        if not exists(path):
            raise DataError("there is no such file of measurements", name, "Check the path.")
        return File(name, (path,))
    raise ParameterError(f"unknown source of measurements {name!r}", "measurements", known_sources())
