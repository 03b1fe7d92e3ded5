"""Compare two rank stores of one text, token by token: did quantizing, pruning or tuning hurt?

B is compared with A: differences are B − A, and above 0 B is worse. Both have ranked the same tokens, so that what is
hard in the text is hard for both, and intervals are of differences within documents (`rbp.laws.resampling`). Where few
tokens are lost or gained, documents tell too little of those that might have been: intervals of differences of RBP_k
are made with one lost and one gained token more, each a unit of its own, after Bonett and Price (2012).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rbp.arrays import Integers, Reals, check_level
from rbp.errors import DataError, ParameterError
from rbp.extract.store import RankStore
from rbp.laws.resampling import Units, document_sums, independent_units, interval, without_each
from rbp.metric import TieRule, rank

KS = (1, 10, 100, 1000)
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
PASSAGE = 32  # tokens of a document, counted from its beginning
TOKENS, PASSAGES = 10, 5  # that are shown


@dataclass(frozen=True, repr=False)
class Comparison:
    """The result of `compare`, B against A on the same tokens; it prints itself.

    a, b: the stores; rule: how equal scores count; ks: the thresholds; level: the confidence of intervals; units: of
    all tokens, which count once, and what intervals are by; before, after: a row per token that counts under A and
    under B, as `RankStore.ranks`; tokenizer: what turns tokens into text, or None.
    """

    a: RankStore
    b: RankStore
    rule: TieRule
    ks: tuple[int, ...]
    level: float
    units: Units
    before: pd.DataFrame
    after: pd.DataFrame
    tokenizer: Any = None

    @cached_property
    def ranks(self) -> tuple[Integers | Reals, Integers | Reals]:
        """Return the rank of each token under A and under B."""
        one, other = (rank(each["greater"], each["equal"], self.rule) for each in (self.before, self.after))
        return one, other

    @cached_property
    def rise(self) -> Reals:
        """Return how far −ln p of each token rose, in nats; 0 where both are infinite."""
        one, other = (each["nll"].to_numpy(np.float64) for each in (self.before, self.after))
        rise: Reals = np.subtract(other, one, out=np.zeros(len(one)), where=one != other)
        return rise

    @cached_property
    def table(self) -> pd.DataFrame:
        """Tabulate the cross-entropy, and −ln RBP_k at each k, a row each.

        Columns metric, k, a, b (the values), difference, low, high (of the difference, by `units`; NaN of a single one,
        and where every token has the same −ln p), lost (tokens of rank ≤ k under A alone) and gained (under B alone).
        """
        one, other = self.ranks
        hits = np.stack([np.column_stack([one <= k, other <= k]) for k in self.ks], axis=1).astype(np.float64)
        nll = np.column_stack([each["nll"].to_numpy(np.float64) for each in (self.before, self.after)])
        tokens, unit = len(nll), self.units.unit
        counts = without_each(document_sums(np.ones((tokens, 1)), unit))
        entropy = interval(
            without_each(document_sums(self.rise[:, None], unit)) / counts, level=self.level, df=self.units.df
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = -np.log(hits.mean(axis=0)) + 0.0
            unit_hits = document_sums(hits.reshape(tokens, -1), unit).reshape(-1, len(self.ks), 2)
            unseen = np.broadcast_to(np.eye(2)[:, None], (2, len(self.ks), 2))
            logs = np.log(without_each(np.concatenate([unit_hits, unseen])))
            differences = logs[..., 0] - logs[..., 1]
            differences[0] = shares[:, 1] - shares[:, 0]
            rbp = interval(differences, level=self.level, df=self.units.df)
        values = np.vstack([nll.mean(axis=0), shares])
        lost, gained = ((hits[..., i] > hits[..., 1 - i]).sum(axis=0).tolist() for i in (0, 1))
        return pd.DataFrame(
            {
                "metric": ["cross_entropy", *["neg_log_rbp"] * len(self.ks)],
                "k": pd.array([None, *self.ks], dtype="Int64"),
                "a": values[:, 0],
                "b": values[:, 1],
                **{
                    name: np.concatenate(ends)
                    for name, ends in zip(("difference", "low", "high"), zip(entropy, rbp, strict=True), strict=True)
                },
                "lost": pd.array([None, *lost], dtype="Int64"),
                "gained": pd.array([None, *gained], dtype="Int64"),
            }
        )

    @cached_property
    def log_rank_change(self) -> Reals:
        """Return ln of each token's rank under B minus ln of its rank under A."""
        one, other = self.ranks
        return np.log(other) - np.log(one)

    @property
    def quantiles(self) -> pd.DataFrame:
        """Tabulate quantiles of `log_rank_change`: columns share (of the tokens, at or below) and change."""
        return pd.DataFrame({"share": QUANTILES, "change": np.quantile(self.log_rank_change, QUANTILES)})

    @cached_property
    def tokens(self) -> pd.DataFrame:
        """Tabulate the vocabulary's tokens by how much they lost over all places where they stand, the worst first.

        Columns token, times, rise (the sum of its `rise`, nats) and each (the mean).
        """
        rows = pd.DataFrame({"token": self.before["token"], "rise": self.rise}).groupby("token")["rise"]
        table = rows.agg(times="count", rise="sum", each="mean").reset_index()
        return table.sort_values("rise", ascending=False, kind="stable", ignore_index=True)

    @cached_property
    def passages(self) -> pd.DataFrame:
        """Tabulate every `PASSAGE` tokens of each document, the passages that lost most first.

        Columns document, first, last (positions of tokens), tokens (that were ranked), rise (their sum, nats),
        and start, stop: the rows of `before` and `after`.
        """
        place = self.before[["document", "position"]].assign(rise=self.rise, row=np.arange(len(self.rise)))
        rows = place.groupby(["document", place["position"] // PASSAGE])
        table = rows.agg(
            first=("position", "min"),
            last=("position", "max"),
            tokens=("rise", "count"),
            rise=("rise", "sum"),
            start=("row", "min"),
            stop=("row", "max"),
        )
        table = table.droplevel(1).reset_index().assign(stop=table["stop"].to_numpy() + 1)
        return table.sort_values("rise", ascending=False, kind="stable", ignore_index=True)

    def text(self, tokens: Iterable[Any]) -> str:
        """Write tokens as text, as Python writes it; without a tokenizer, their numbers."""
        numbers = list(tokens)
        return " ".join(map(str, numbers)) if self.tokenizer is None else repr(self.tokenizer.decode(numbers))

    @property
    def title(self) -> str:
        """Name what is compared with what, on what."""
        alike = _dtype(self.a) == _dtype(self.b)
        names = [_name(store) + ("" if alike else f" in {_dtype(store)}") for store in (self.b, self.a)]
        return f"{names[0]} (B) against {names[1]} (A) on {self.a.dataset}"

    @property
    def read(self) -> list[str]:
        """Say which tokens were compared, and what the intervals are by, a sentence each."""
        documents = f"{self.units.documents:,} document{'s' * (self.units.documents > 1)}"
        repeats = [f"{self.units.repeats}, and count once."] if self.units.repeats else []
        counts = f"{len(self.rise):,} tokens of {documents}, which both ranked; tie rule {self.rule}."
        return [
            counts,
            f"Above 0, B is worse; {self.level:.0%} intervals by {self.units.kind}.",
            *repeats,
            *self.units.notes,
        ]

    @property
    def verdict(self) -> list[str]:
        """Say what the differences show, a sentence for each."""
        return [_sentence(row, self.level) for row in self.table.itertuples()]

    def __str__(self) -> str:
        lines = [self.title, *self.read]
        row: Any
        lines += ["", f"{'':14}{'A':>10}{'B':>10}{'B − A':>10}{'interval':>22}{'lost':>8}{'gained':>8}"]
        for row in self.table.itertuples():
            ends = f"{row.low:+.4f} to {row.high:+.4f}" if np.isfinite(row.low) else "–"
            counts = "" if pd.isna(row.k) else f"{row.lost:8,}{row.gained:8,}"
            lines.append(
                f"{label(row.k):14}{row.a:10.4f}{row.b:10.4f}{row.difference:+10.4f}{ends:>22}{counts}".rstrip()
            )
        lines += ["", "change in ln rank, " + self.moved]
        lines.append("  share of tokens " + "".join(f"{share:>8.0%}" for share in QUANTILES))
        lines.append("  at or below     " + "".join(f"{each:>+8.2f}" for each in self.quantiles["change"]))
        lines += ["", f"{'tokens that lost most':24}{'times':>8}{'nats in all':>13}{'nats each':>11}"]
        for row in worst(self.tokens, TOKENS).itertuples():
            lines.append(f"  {self.text([row.token]):22}{row.times:8,}{row.rise:+13.2f}{row.each:+11.3f}")
        lines += ["", "passages that lost most, in nats"]
        for row in worst(self.passages, PASSAGES).itertuples():
            words = self.text(self.before["token"].iloc[row.start : row.stop])
            lines.append(f"  {row.rise:+8.2f}  document {row.document}, tokens {row.first} to {row.last}: {words}")
        return "\n".join(lines)

    @property
    def moved(self) -> str:
        """Say how many ranks are the same, worse and better."""
        change = self.log_rank_change
        return f"{np.mean(change == 0):.1%} the same, {np.mean(change > 0):.1%} worse, {np.mean(change < 0):.1%} better"

    __repr__ = __str__


def compare(
    a: RankStore,
    b: RankStore,
    *,
    ks: Sequence[int] = KS,
    rule: TieRule | None = None,
    level: float = 0.95,
) -> Comparison:
    """Compare two models on one text, by rank stores of the same tokens.

    ks: thresholds, as far as the vocabulary reaches; rule: how equal scores count (None: as they were counted by
    another program, or the paper's). Raises DataError for stores that cannot be compared (`must_compare`), or that are
    damaged; ParameterError for a threshold that is no rank.
    """
    check_level(level)
    must_compare(a, b)
    if wrong := [k for k in ks if k < 1 or (k > a.vocabulary and tuple(ks) != KS)]:
        what = f"k = {wrong[0]} is not among the ranks 1 to {a.vocabulary}"
        raise ParameterError(what, "k", f"Give k from 1 to {a.vocabulary}.")
    counted = next((each for each in (_tie_rule(a), _tie_rule(b)) if each), None)
    if rule and counted and rule != counted:
        what = f"ranks were counted under the tie rule {counted}, and are asked for under {rule}"
        raise ParameterError(what, "tie_rule", f"Give {counted}.")
    before, after = a.ranks(), b.ranks()
    _must_score_alike(a, b, before, after)
    units = independent_units(before)
    before, after = (each[units.once].reset_index(drop=True) for each in (before, after))
    chosen = tuple(sorted({k for k in ks if k <= a.vocabulary}))
    comparison = Comparison(a, b, rule or counted or "paper", chosen, level, units, before, after)
    comparison.ranks  # noqa: B018  # raises for an unknown rule
    return comparison


def must_compare(a: RankStore, b: RankStore) -> None:
    """Raise DataError unless two stores say that they hold ranks of one text, read and counted alike."""
    for noun, value, remedy in _ALIKE:
        one, other = value(a), value(b)
        if one != other and None not in (one, other):
            raise DataError(f"they cannot be compared: {noun}, {one} and {other}", f"{a.folder}; {b.folder}", remedy)


def _must_score_alike(a: RankStore, b: RankStore, before: pd.DataFrame, after: pd.DataFrame) -> None:
    """Raise DataError unless the tokens that were ranked are the same, one for one."""
    columns = ["document", "position", "token"]
    if before[columns].equals(after[columns]):
        return
    common = min(len(before), len(after))
    differ = (before[columns][:common].to_numpy() != after[columns][:common].to_numpy()).any(axis=1)
    at = before.iloc[int(differ.argmax())] if differ.any() else None
    if len({store.manifest["key"].get("tokenizer") for store in (a, b)}) > 1 and at is not None:
        what = "their tokenizers cut the text into other tokens"
        remedy = "Ranks compare among models of one tokenizer. Bits per byte compare others: rbp ranks summary."
    else:
        what = f"other tokens of the text were ranked, {len(before):,} and {len(after):,}"
        remedy = "Extract both with the same --tokens, --documents and --special."
    place = "" if at is None else f", first in document {at['document']:.0f} at position {at['position']:.0f}"
    raise DataError(f"they cannot be compared: {what}{place}", f"{a.folder}; {b.folder}", remedy)


def _tie_rule(store: RankStore) -> Any:
    """Return the tie rule under which another program counted; None where ties are stored separately."""
    return store.manifest["key"].get("tie_rule")


def _name(store: RankStore) -> str:
    at = f"@{store.training.revision}" if store.training.revision else ""
    return store.model.rsplit("/", 1)[-1] + at


def _dtype(store: RankStore) -> Any:
    return store.manifest["key"].get("dtype")


def _rounding(store: RankStore) -> str | None:
    """Return what the ranked logits are rounded to; None where that is not known."""
    dtype = store.logits or _dtype(store)
    return "none" if dtype in ("float32", "float64") else dtype


def _reading(store: RankStore) -> str | None:
    protocol = store.protocol
    context = f" with {protocol['context']} before each" if protocol.get("context") else ""
    return f"{protocol['name']} of {protocol.get('length')}{context}" if "name" in protocol else None


_ALIKE: tuple[tuple[str, Callable[[RankStore], Any], str], ...] = (
    ("their texts differ", lambda s: s.text and f"{s.dataset}-{s.text}", "Rank both models on the same file."),
    ("they were read in other windows", _reading, "Extract both with the same --protocol, --length and --context."),
    (
        "another start token stands before their windows",
        lambda s: " ".join(s.manifest["key"].get("bos", ["none"])),
        "Extract both with the same --bos.",
    ),
    (
        "special tokens in the text were read differently",
        lambda s: s.protocol.get("special", "token"),
        "Extract both with the same --special.",
    ),
    ("they count other logits", lambda s: f"{s.vocabulary:,}", "Extract both with the same --vocab N."),
    (
        "their logits are rounded differently, so that more of one's are equal",
        _rounding,
        "Rank both in float32 (--dtype float32), or both with --round-logits bfloat16.",
    ),
    ("equal scores were counted under two tie rules", _tie_rule, "Import both with the same --tie-rule."),
)


def label(k: Any) -> str:
    """Name what a row of `Comparison.table` is about."""
    return "cross-entropy" if pd.isna(k) else f"−ln RBP_{k}"


def worst(table: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the first rows of `Comparison.tokens` or `passages`, as far as they lost."""
    return table[table["rise"] > 0].head(most)


def _sentence(row: Any, level: float) -> str:
    """Write a row of `Comparison.table` in words."""
    what = label(row.k)
    if not np.isfinite(row.low):
        why = "every token is predicted alike" if row.difference == 0 else "there are too few tokens for an interval"
        return f"{what}: {row.difference:+.4f}; {why}."
    ends = f"{row.difference:+.4f} ({row.low:+.4f} to {row.high:+.4f}, {level:.0%})"
    if row.low <= 0 <= row.high:
        return f"{what}: {ends}; that it changed is not certain."
    return f"{what}: {ends}; B is {'worse' if row.low > 0 else 'better'}."
