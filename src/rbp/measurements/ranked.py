"""The ranks of a store under a tie rule: window success, curves over k, intervals. Hits: `rbp.measurements.counts`."""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Integers, Reals
from rbp.errors import DataError, ParameterError
from rbp.io import folder_beside, swap_in
from rbp.laws.counting import neg_log_rbp_interval
from rbp.laws.resampling import (
    Units,
    document_sums,
    independent_units,
    mean,
    neg_log_rbp_document_interval,
)
from rbp.measurements.windows import window_counts
from rbp.metric import TieRule, rank, rbp
from rbp.store import RankStore, Store, full_disk, is_store, open_store

# The thresholds of the paper's figures, and 1-2-5 steps between and beyond them; the lengths of its figure 7.
USUAL = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 20, 30, 50, 78, 100, 200, 336, 500, 886, 1000, 1438, 2000, 2500, 3793),
    *(5000, 6158, 10000, 20000, 30000, 50000, 100000, 200000),
)
SHARES = (0.4, 0.6)  # of the vocabulary: about what 20 000 and 30 000 are of the published models
TIED = 0.01  # of the tokens, above which the tie rule is no detail
WINDOW_THRESHOLDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 2500, 10000)
ROUNDING = 1e-3  # by which −ln p may differ, in nats or relatively, between two measurements of one model
WINDOW_LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

log = logging.getLogger(__name__)


def large(share: float, vocabulary: int) -> int:
    """Return the threshold k that is `share` of a vocabulary, to the nearest whole number, at least 1."""
    return max(1, round(share * vocabulary))


def usual(vocabulary: int, also: Sequence[int] = ()) -> list[int]:
    """Return the usual thresholds and `also` others, up to a vocabulary, and SHARES of it."""
    return sorted({*(k for k in (*USUAL, *also) if k <= vocabulary), *(large(share, vocabulary) for share in SHARES)})


@dataclass(frozen=True, repr=False)
class Ranked:
    """The ranks of a store under one tie rule. Reading raises DataError for a damaged store.

    Raises ParameterError for imported ranks that were counted under another.
    """

    store: RankStore
    rule: TieRule = "paper"

    def __post_init__(self) -> None:
        counted = self.store.manifest["key"].get("tie_rule", self.rule)
        if counted != self.rule:  # another program's, which keeps no ties apart
            fault = f"its ranks were counted under the tie rule {counted}, and are asked for under {self.rule}"
            table = f"rbp ranks summary {self.store.folder} --tie-rule {counted} --out table.csv"
            raise ParameterError(fault, str(self.store.folder), f"A table of them is read everywhere: {table}")

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """Read one row per token: see `RankStore.ranks`."""
        return self.store.ranks()

    @cached_property
    def ranks(self) -> Integers | Reals:
        """Return the rank of each token."""
        return rank(self.tokens["greater"], self.tokens["equal"], self.rule)

    @cached_property
    def units(self) -> Units:
        """Return the units of its intervals, and which tokens count once."""
        return independent_units(self.tokens)

    def notes(self, k: int) -> list[str]:
        """Say what RBP_k is in words, and what makes its tokens or ties unusual, a sentence each."""
        share, first = self.rbp(k), k == 1
        if share:
            place = "rank first" if first else f"are among the first {k:,}"
            notes = [f"{-np.log(share) + 0:.4f} is −ln {share:.4g}: {share:.0%} of the tokens {place}."]
        else:
            notes = [f"No token {'ranks first' if first else f'is among the first {k:,}'}: −ln 0 is inf."]
        greater, equal = self.tokens["greater"], self.tokens["equal"]
        if (tied := (equal > 1).mean()) > TIED:
            bounds = [rbp(rank(greater, equal, rule), k) for rule in ("paper", "strict")]
            notes.append(
                f"{tied:.1%} of the tokens score the same as others: "
                f"RBP_{k} is {bounds[0]:.4f} to {bounds[1]:.4f}, by the tie rule (paper, strict)."
            )
        if alike := int((equal == self.store.vocabulary).sum()):
            places = "every token" if alike == len(equal) else f"{alike:,} of {len(equal):,} tokens"
            notes.append(f"The model is constant at {places}: its logits are all equal there, so it predicts nothing.")
        if self.units.repeats:
            notes.append(f"{self.units.repeats}: intervals by document count them once.")
        return [*notes, *self.units.notes]

    def rbp(self, k: npt.ArrayLike) -> Any:
        """Compute RBP_k, the share of tokens with rank at most k: a float for one k, an array for several."""
        return rbp(self.ranks, k)

    @property
    def cross_entropy(self) -> float:
        """Return the mean of −ln p over the tokens, in nats."""
        return float(self.tokens["nll"].to_numpy(np.float64).mean())

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per token: as `RankStore.ranks`, and its rank."""
        return self.tokens.assign(rank=self.ranks)

    def save(self, folder: str | Path) -> Path:
        """Copy the rank store into a folder of stores, as `rbp extract` leaves them, whole or not at all; where to.

        A store of the same name is replaced if its ranks are the same but for rounding. Else it is another model's, and
        this one gets the next name. Raises DataError where it cannot be written.
        """
        first = self.store.manifest["key"].get("ordinal", 1)
        name = self.store.folder.name.removesuffix(f"-{first}")
        for ordinal in count(first):
            place = Path(folder) / (name if ordinal == 1 else f"{name}-{ordinal}")
            if not is_store(place) or self._is_as(place):
                break
            log.warning("%s: its ranks are another model's, and stay", place)
        with full_disk(place), folder_beside(place) as new:
            shutil.copytree(self.store.folder, new, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lock*"))
            if ordinal > 1:
                Store(new).number(ordinal)
            swap_in(new, place)
        return place

    def _is_as(self, place: Path) -> bool:
        """Return whether a store in another folder holds the same ranks, but for rounding; one that is damaged does."""
        try:
            other = open_store(place).ranks()
        except DataError:
            return True
        names = ["document", "position", "token"]
        same = self.tokens[names].equals(other[names])
        return same and np.allclose(self.tokens["nll"], other["nll"], rtol=ROUNDING, atol=ROUNDING)

    def __repr__(self) -> str:
        store = self.store
        measured = f"RBP_1 {self.rbp(1):.4f}, cross-entropy {self.cross_entropy:.4f}"
        return f"{store.model} (S = {store.size:,}) on {store.dataset}: {store.tokens:,} tokens, {measured}"

    def thresholds(self, k: Sequence[int] | None) -> list[int]:
        """Return `k`, ascending; None: the usual ones. Raises ParameterError for a k that is no possible rank."""
        most = self.store.vocabulary
        if k is None:
            return usual(most)
        if wrong := [threshold for threshold in k if not 1 <= threshold <= most]:
            fault = f"k = {wrong[0]} is not among the ranks 1 to {most}"
            raise ParameterError(fault, str(self.store.folder), f"Give k from 1 to {most}.")
        return sorted(set(k))

    def windows(self) -> pd.DataFrame:
        """Compute window success, for the thresholds and lengths of the paper's figure 7, as far as documents reach.

        Columns dataset, model, k, n, successes, windows, p.
        """
        places = self.tokens["document"], self.tokens["position"]
        ks = [k for k in WINDOW_THRESHOLDS if k <= self.store.vocabulary]
        table = pd.concat([window_counts(self.ranks <= k, *places, WINDOW_LENGTHS).assign(k=k) for k in ks])
        table = table[table["windows"] > 0].astype({"successes": "Int64", "windows": "Int64"}).reset_index(drop=True)
        labels = {"dataset": self.store.dataset, "model": self.store.model}
        table = table.assign(**labels, p=(table["successes"] / table["windows"]).astype("float64"))
        return table[["dataset", "model", "k", "n", "successes", "windows", "p"]]


def with_intervals(table: pd.DataFrame, ranked: Ranked, level: float = 0.95) -> pd.DataFrame:
    """Add columns low, high, document_low, document_high to `table`, of `ranked`.

    low, high: the binomial interval of −ln RBP_k; document_low, document_high: by the units that `independent_units`
    chooses, of −ln RBP_k and of the cross-entropy.
    """
    rows: list[tuple[float | None, ...]] = []
    for k, hits in table[["k", "hits"]].itertuples(index=False):
        if pd.isna(k):
            bounds = ranked.units.interval(lambda sums: np.log(mean(sums)), _summed(ranked.tokens["nll"]), level=level)
            rows.append((None, None, *np.exp(bounds[1:])))
            continue
        low, high = neg_log_rbp_interval(int(hits), len(ranked.ranks), level)
        rows.append(
            (float(low), float(high), *neg_log_rbp_document_interval(ranked.ranks, ranked.units, int(k), level))
        )
    return table.join(pd.DataFrame(rows, columns=["low", "high", "document_low", "document_high"], dtype="float64"))


def with_other_units(table: pd.DataFrame, ranked: Ranked, level: float | None = None) -> pd.DataFrame:
    """Add other measures than −ln RBP_k and cross-entropy to `table`, of `ranked`.

    macro_rbp: the mean over documents of each one's RBP_k. Beside the cross-entropy, perplexity (its exponential), mrr
    (the mean reciprocal rank), mean_log_rank, each with its ends by `Ranked.units` if there is a `level`; and
    bits_per_byte: all −ln p over the bytes of the text that the ranked tokens stand for, in bits, missing where the
    store does not know these (`RankStore.bytes`).
    """
    _, tokens = np.unique(ranked.tokens["document"], return_counts=True)  # in order, as the tokens are
    has_k = table["k"].notna().to_numpy()
    ks, place = np.unique(table["k"].to_numpy(np.float64, na_value=1), return_inverse=True)
    weights = np.repeat(1 / (tokens * len(tokens)), tokens)
    macro = np.cumsum(np.bincount(np.searchsorted(ks, ranked.ranks), weights, len(ks) + 1))[place]
    columns: dict[str, Any] = {"macro_rbp": np.where(has_k, macro, np.nan)}
    for name, column in _of_all_ranks(ranked).items():
        values = np.array(ranked.units.interval(mean, _summed(column), level=level or 0.95))
        values = np.exp(values) if name == "perplexity" else values
        names = [name, f"{name}_low", f"{name}_high"] if level else [name]
        columns |= {column_name: np.where(has_k, np.nan, end) for column_name, end in zip(names, values, strict=False)}
    per_byte = ranked.cross_entropy * ranked.store.tokens / np.log(2) / (ranked.store.bytes or np.nan)
    return table.assign(**columns, bits_per_byte=np.where(has_k, np.nan, per_byte))


def by_document(ranked: Ranked, ks: Sequence[int]) -> pd.DataFrame:
    """Tabulate each document: document, tokens, cross_entropy, perplexity, mrr, mean_log_rank, and RBP_k at each of ks.

    Columns of the last are rbp_1, rbp_10, …
    """
    nll, hits = ranked.tokens["nll"].to_numpy(np.float64), [ranked.ranks <= k for k in ks]
    columns = np.column_stack([np.ones(len(nll)), nll, *_of_all_ranks(ranked).values(), *hits])
    sums = document_sums(columns, ranked.tokens["document"])
    means = sums[:, 1:] / sums[:, :1]
    names = ["cross_entropy", *_of_all_ranks(ranked), *(f"rbp_{k}" for k in ks)]
    table = pd.DataFrame(means, columns=names).assign(perplexity=lambda rows: np.exp(rows["perplexity"]))
    table.insert(0, "document", ranked.tokens["document"].unique())
    table.insert(1, "tokens", sums[:, 0].astype(np.int64))
    return table


def _of_all_ranks(ranked: Ranked) -> dict[str, Reals]:
    """Return what is averaged over tokens, by the names of the averages; of perplexity, its logarithm."""
    nll, ranks = ranked.tokens["nll"].to_numpy(np.float64), ranked.ranks
    return {"perplexity": nll, "mrr": 1 / ranks, "mean_log_rank": np.log(ranks)}


def _summed(column: npt.ArrayLike) -> Reals:
    """Set ones beside a column, so that sums give a mean."""
    return np.column_stack([np.asarray(column, dtype=np.float64), np.ones(np.size(column))])


def every_k(ranked: Ranked) -> pd.DataFrame:
    """Compute RBP_k for every k that is some token's rank: columns k, rbp."""
    counts = pd.Series(ranked.ranks).value_counts().sort_index()
    return pd.DataFrame({"k": counts.index, "rbp": counts.cumsum().to_numpy() / len(ranked.ranks)})


def pieces_of(tokens: pd.DataFrame, tokenizer: Any, rule: TieRule = "paper") -> pd.DataFrame:
    """Return successive ranked tokens of one document: columns text, rank, nll.

    Tokens that hold part of a character only are joined with the next ones: their text is the character's, their rank
    and nll the highest of all.
    """
    rows: list[tuple[str, float, float]] = []
    waiting: list[tuple[int, float, float]] = []
    ranks = rank(tokens.greater, tokens.equal, rule)
    for token, place, nll in zip(tokens.token.tolist(), ranks.tolist(), tokens.nll.tolist(), strict=True):
        waiting.append((token, place, nll))
        text = tokenizer.decode([piece[0] for piece in waiting])
        if not text.endswith("�"):
            rows.append((text, max(piece[1] for piece in waiting), max(piece[2] for piece in waiting)))
            waiting = []
    return pd.DataFrame(rows, columns=["text", "rank", "nll"])
