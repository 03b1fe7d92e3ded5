"""Compare two rank stores of one text, token by token: did quantizing, pruning or tuning hurt?

B is compared with A: differences are B − A, and above 0 B is worse. Both have ranked the same tokens, so that what is
hard in the text is hard for both, and intervals are of differences within documents (`rbp.laws.resampling`). Where few
tokens are lost or gained, documents tell too little of those that might have been: intervals of differences of RBP_k
are made with one lost and one gained token more, each a unit of its own, after Bonett and Price (2012).
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit

from rbp.arrays import Integers, Reals, check_level
from rbp.errors import DataError, ParameterError
from rbp.laws.resampling import Units, document_sums, independent_units, interval, mean, without_each
from rbp.metric import TieRule, rank
from rbp.store import RankStore

KS = (1, 10, 100, 1000)
QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
PASSAGE = 32  # tokens of a document, counted from its beginning
TOKENS, PASSAGES = 10, 5  # that are shown
CHANCES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)  # quantiles of Δp that llama.cpp shows
POWER = 0.8  # with which the difference of `detectable` is found


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
        rank_a, rank_b = (rank(side["greater"], side["equal"], self.rule) for side in (self.before, self.after))
        return rank_a, rank_b

    @cached_property
    def rise(self) -> Reals:
        """Return how far −ln p of each token rose, in nats; 0 where both are infinite."""
        nll_a, nll_b = (side["nll"].to_numpy(np.float64) for side in (self.before, self.after))
        rise: Reals = np.subtract(nll_b, nll_a, out=np.zeros(len(nll_a)), where=nll_a != nll_b)
        return rise

    @cached_property
    def table(self) -> pd.DataFrame:
        """Tabulate the cross-entropy, and −ln RBP_k at each k, a row each.

        Columns metric, k, a, b (the values), difference, low, high (of the difference, by `units`; NaN of a single one,
        and where every token has the same −ln p), lost (tokens of rank ≤ k under A alone) and gained (under B alone).
        """
        rank_a, rank_b = self.ranks
        hits = np.stack([np.column_stack([rank_a <= k, rank_b <= k]) for k in self.ks], axis=1).astype(np.float64)
        nll = np.column_stack([side["nll"].to_numpy(np.float64) for side in (self.before, self.after)])
        tokens, unit = len(nll), self.units.unit
        counts = without_each(document_sums(np.ones((tokens, 1)), unit))
        entropy = interval(
            without_each(document_sums(self.rise[:, None], unit)) / counts, self.units.df, level=self.level
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = -np.log(hits.mean(axis=0)) + 0.0
            unit_hits = document_sums(hits.reshape(tokens, -1), unit).reshape(-1, len(self.ks), 2)
            unseen = np.broadcast_to(np.eye(2)[:, None], (2, len(self.ks), 2))
            logs = np.log(without_each(np.concatenate([unit_hits, unseen])))
            differences = logs[..., 0] - logs[..., 1]
            differences[0] = shares[:, 1] - shares[:, 0]
            rbp = interval(differences, self.units.df, level=self.level)
        values = np.vstack([nll.mean(axis=0), shares])
        lost, gained = ((hits[..., i] > hits[..., 1 - i]).sum(axis=0).tolist() for i in (0, 1))
        return pd.DataFrame(
            {
                "metric": ["cross_entropy", *["neg_log_rbp"] * len(self.ks)],
                "k": pd.array([None, *self.ks], dtype="Int64"),
                "a": values[:, 0],
                "b": values[:, 1],
                **{
                    name: np.concatenate(parts)
                    for name, parts in zip(("difference", "low", "high"), zip(entropy, rbp, strict=True), strict=True)
                },
                "lost": pd.array([None, *lost], dtype="Int64"),
                "gained": pd.array([None, *gained], dtype="Int64"),
                "flips": np.append(np.nan, (np.array(lost) + gained) / tokens),
            }
        )

    @cached_property
    def probability_change(self) -> Reals:
        """Return Δp of each token: its probability under B minus that under A."""
        p_a, p_b = (np.exp(-side["nll"].to_numpy(np.float64)) for side in (self.before, self.after))
        return np.asarray(p_b - p_a)

    @cached_property
    def same_top(self) -> npt.NDArray[np.bool_] | None:
        """Return at which tokens both models rank the same token first; None where a store does not say which it is."""
        tops = [side["top"] for side in (self.before, self.after) if "top" in side and side["top"].notna().all()]
        return None if len(tops) < 2 else (tops[0] == tops[1]).to_numpy(bool)

    @cached_property
    def measures(self) -> pd.DataFrame:
        """Tabulate what those who quantize compare: columns metric, a, b, difference, low, high.

        perplexity (its difference is a ratio, minus 1); bits: of all tokens; mean_dp, rms_dp: of `probability_change`;
        same_top: a share of the tokens, where the stores know it. Values of A or B alone are NaN where there is none.
        """
        entropy = self.table.iloc[0]
        ratio = np.expm1(entropy[["difference", "low", "high"]].to_numpy(float))
        a, b = (float(entropy[side]) for side in ("a", "b"))
        rows: list[tuple[Any, ...]] = [("perplexity", np.exp(a), np.exp(b), *ratio)]
        bits = len(self.rise) / np.log(2)
        rows.append(("bits", a * bits, b * bits, *(bits * entropy[["difference", "low", "high"]].to_numpy(float))))
        change, nan = self.probability_change, (np.nan, np.nan)
        rows.append(("mean_dp", *nan, *self._mean(change)))
        with np.errstate(invalid="ignore"):
            rows.append(("rms_dp", *nan, *np.sqrt(np.maximum(self._mean(change**2), 0))))
        if self.same_top is not None:
            rows.append(("same_top", *nan, *self._mean(self.same_top)))
        return pd.DataFrame(rows, columns=["metric", "a", "b", "difference", "low", "high"])

    def _mean(self, column: npt.ArrayLike) -> tuple[float, float, float]:
        """Return the mean of a column over the tokens, and its interval by the units."""
        sums = document_sums(np.column_stack([column, np.ones(len(self.rise))]), self.units.unit)
        return interval(mean(without_each(sums)), self.units.df, level=self.level)

    @property
    def detectable(self) -> pd.DataFrame:
        """Tabulate the smallest difference that a comparison of so many tokens finds with a probability of `POWER`.

        Columns metric, k, difference: as `table`, from the errors of these two models' differences.
        """
        df = self.units.df
        times = (stdtrit(df, (1 + self.level) / 2) + stdtrit(df, POWER)) / stdtrit(df, (1 + self.level) / 2)
        half = (self.table["high"] - self.table["low"]) / 2
        return self.table[["metric", "k"]].assign(difference=times * half)

    @cached_property
    def log_rank_change(self) -> Reals:
        """Return ln of each token's rank under B minus ln of its rank under A."""
        rank_a, rank_b = self.ranks
        return np.log(rank_b) - np.log(rank_a)

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
        names = [store_name(store) + ("" if alike else f" in {_dtype(store)}") for store in (self.b, self.a)]
        return f"{names[0]} (B) against {names[1]} (A) on {self.a.dataset}"

    @property
    def texts_read(self) -> list[str]:
        """Say which tokens were compared, and what the intervals are by, a sentence each."""
        documents = f"{self.units.documents:,} document{'s' * (self.units.documents > 1)}"
        notes = [f"{self.units.repeats}, and count once."] if self.units.repeats else []
        common, ranked = len(self.units.once), [store.tokens for store in (self.a, self.b)]
        if max(ranked) > common:
            both = f"A has {ranked[0]:,} tokens and B {ranked[1]:,}: compared are the {common:,} that both have."
            notes.insert(0, both)
        for side, store in (("A", self.a), ("B", self.b)):
            if "imported" in store.manifest["key"]:
                notes.append(f"{side} was ranked by another program: its windows and start token are not known.")
        counts = f"{len(self.rise):,} tokens of {documents}, which both ranked; tie rule {self.rule}."
        return [
            counts,
            f"Above 0, B is worse; {self.level:.0%} intervals by {self.units.kind}.",
            *notes,
            *self.units.notes,
        ]

    @property
    def answer(self) -> str:
        """Answer in a sentence whether B is worse: by perplexity, by the first k, by flips, and where most."""
        ratio = self.measures.iloc[0]
        if (self.rise == 0).all():
            word = "The same"
        elif not ratio["low"] * ratio["high"] > 0:
            word = "No certain difference"
        else:
            word = "Worse" if ratio["low"] > 0 else "Better"
        interval_words = "" if np.isnan(ratio["low"]) else f" ({ratio['low']:+.1%} to {ratio['high']:+.1%})"
        parts = [f"{word}: perplexity {ratio['difference']:+.1%}{interval_words}"]
        if self.ks:
            row = self.table.iloc[1]
            parts.append(f"RBP_{row['k']} {np.exp(-row['a']):.4f} → {np.exp(-row['b']):.4f}")
            parts.append(f"{row['flips']:.1%} of the tokens flipped")
        if word == "Worse":
            most = self.passages.iloc[0]
            parts.append(f"most in document {most['document']:.0f}, tokens {most['first']:.0f} to {most['last']:.0f}")
        return "; ".join(parts) + "."

    def as_dict(self) -> dict[str, Any]:
        """Return all that is printed, for JSON: the sentences, and the rows of the tables; null where there is none."""
        tables = {
            "table": self.table,
            "measures": self.measures,
            "ln_rank_quantiles": self.quantiles,
            "dp_quantiles": self.chances,
            "tokens": worst(self.tokens, TOKENS),
            "passages": worst(self.passages, PASSAGES).drop(columns=["start", "stop"]),
        }
        rows = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        return {"title": self.title, "answer": self.answer, "read": self.texts_read, **rows}

    @property
    def chances(self) -> pd.DataFrame:
        """Tabulate quantiles of `probability_change`: columns share (of the tokens, at or below) and change."""
        return pd.DataFrame({"share": CHANCES, "change": np.quantile(self.probability_change, CHANCES)})

    @property
    def verdict(self) -> list[str]:
        """Say what the differences show, a sentence for each."""
        return [_sentence(row, self.level) for row in self.table.itertuples()]

    def __str__(self) -> str:
        row: Any
        lines, named = [self.answer, self.title, *self.texts_read], self.measures.set_index("metric")
        heads = "".join(f"{head:>10}" for head in ("A", "B", "B − A"))
        lines += ["", f"{'':16}{heads}{'interval':>22}{'lost':>8}{'gained':>8}{'flips':>8}"]
        for row in self.table.itertuples():
            changes = "" if pd.isna(row.k) else f"{row.lost:8,}{row.gained:8,}{row.flips:8.1%}"
            values = f"{row.a:10.4f}{row.b:10.4f}{row.difference:+10.4f}"
            lines.append(f"{label(row.k):16}{values}{interval_text(row, '{:+.4f}'):>22}{changes}".rstrip())
        for name, heading, value, change in SHOWN:
            if name in named.index:
                row = named.loc[name]
                sides = "".join(" " * 10 if np.isnan(side) else f"{value.format(side):>10}" for side in row[["a", "b"]])
                difference = change.format(row["difference"])
                lines.append(f"{heading:16}{sides}{difference:>10}{interval_text(row, change):>22}")
        if self.same_top is None:
            lines.append("same top token: not known, as the stores do not say which token is first")
        lines += ["", "change in probability, Δp"]
        lines.append("  share of tokens " + "".join(f"{share:>8.1%}" for share in CHANCES))
        lines.append("  at or below     " + "".join(f"{quantile:>+8.1%}" for quantile in self.chances["change"]))
        lines += ["", "change in ln rank, " + self.moved]
        lines.append("  share of tokens " + "".join(f"{share:>8.0%}" for share in QUANTILES))
        lines.append("  at or below     " + "".join(f"{quantile:>+8.2f}" for quantile in self.quantiles["change"]))
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
        fault = f"k = {wrong[0]} is not among the ranks 1 to {a.vocabulary}"
        raise ParameterError(fault, "k", f"Give k from 1 to {a.vocabulary}.")
    counted = next((stated for stated in (_tie_rule(a), _tie_rule(b)) if stated), None)
    if rule and counted and rule != counted:
        fault = f"ranks were counted under the tie rule {counted}, and are asked for under {rule}"
        raise ParameterError(fault, "tie_rule", f"Give {counted}.")
    before, after = _common(a, b)
    units = independent_units(before)
    before, after = (side[units.once].reset_index(drop=True) for side in (before, after))
    chosen = tuple(sorted({k for k in ks if k <= a.vocabulary}))
    comparison = Comparison(a, b, rule or counted or "paper", chosen, level, units, before, after)
    comparison.ranks  # noqa: B018  # raises for an unknown rule
    return comparison


def long_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Join `table` and `measures` of comparisons with one model: a row for each model and measure."""
    parts = []
    for comparison in comparisons:
        rows = pd.concat(
            [comparison.table, comparison.measures.astype({"a": "float64", "b": "float64"})], ignore_index=True
        )
        rows.insert(0, "against", store_name(comparison.a))
        rows.insert(0, "model", store_name(comparison.b))
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def overview(comparisons: Sequence[Comparison]) -> str:
    """Write a line for each model that is compared with the same one, after what was read."""
    measures: Any
    row: Any
    reference = comparisons[0]
    heads = [f"RBP_{reference.ks[0]}", "flips"] if reference.ks else []
    read = dict.fromkeys(line for comparison in comparisons for line in comparison.texts_read)
    widths = max(len(store_name(store)) for comparison in comparisons for store in (comparison.a, comparison.b)) + 2
    lines = [f"Against {store_name(reference.a)} on {reference.a.dataset}", *read, ""]
    columns = "".join(f"{head:>10}" for head in ("perplexity", "", *heads, "mean Δp", "same top"))
    lines.append(f"{'':{widths}}{columns}  {reference.level:.0%} interval of the perplexity's change")
    for number, comparison in enumerate(comparisons):
        measures, row = comparison.measures.set_index("metric"), comparison.table.iloc[1] if comparison.ks else None
        if number == 0:
            own = "" if row is None else f"{np.exp(-row['a']):10.4f}"
            lines.append(f"{store_name(comparison.a):{widths}}{measures.loc['perplexity', 'a']:10.4f}{'':10}{own}")
        ratio = measures.loc["perplexity"]
        counts = "" if row is None else f"{np.exp(-row['b']):10.4f}{row['flips']:10.1%}"
        top = f"{measures.loc['same_top', 'difference']:10.1%}" if "same_top" in measures.index else f"{'–':>10}"
        values = f"{ratio['b']:10.4f}{ratio['difference']:+10.1%}{counts}"
        change = f"{measures.loc['mean_dp', 'difference']:+10.2%}{top}  {interval_text(ratio, '{:+.1%}')}"
        verdict = comparison.answer.partition(":")[0].lower()
        lines.append(f"{store_name(comparison.b):{widths}}{values}{change}: {verdict}")
    return "\n".join(lines)


def plan_lines(comparison: Comparison) -> list[str]:
    """Say which differences so many tokens can show, and what more text would bring, by the errors of these two."""
    lines = [
        comparison.title,
        *comparison.texts_read,
        f"Found with a probability of {POWER:.0%}, at {comparison.level:.0%} confidence, is a difference of",
    ]
    row: Any
    for row in comparison.detectable.itertuples():
        size = f"{row.difference:.4f}" if np.isfinite(row.difference) else "–"
        extra = f" (perplexity: {np.expm1(row.difference):.1%})" if pd.isna(row.k) else ""
        lines.append(f"  {label(row.k):16}{size}{extra}")
    return [*lines, "Four times the documents show differences of half this size."]


def must_compare(a: RankStore, b: RankStore) -> None:
    """Raise DataError unless two stores say that they hold ranks of one text, read and counted alike."""
    for noun, value, remedy in _ALIKE:
        values = value(a), value(b)
        if values[0] != values[1] and None not in values:
            fault = f"they cannot be compared: {noun}, {values[0]} and {values[1]}"
            raise DataError(fault, f"{a.folder}; {b.folder}", remedy)


def _common(a: RankStore, b: RankStore) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the ranks of the tokens that both stores have, row by row.

    Raises DataError where a token of one stands at the place of another token of the other, or where none is common.
    """
    places = ["document", "position"]
    tokens_a, tokens_b = (store.ranks().set_index(places, drop=False).rename_axis([None, None]) for store in (a, b))
    if not tokens_a.index.equals(tokens_b.index):
        both = tokens_a.index.intersection(tokens_b.index)
        tokens_a, tokens_b = tokens_a.loc[both], tokens_b.loc[both]
    before, after = tokens_a.reset_index(drop=True), tokens_b.reset_index(drop=True)
    where = f"{a.folder}; {b.folder}"
    if (differ := (before["token"] != after["token"]).to_numpy()).any():
        token = before.iloc[int(differ.argmax())]
        fault = "their tokenizers cut the text into other tokens"
        if len({store.manifest["key"].get("tokenizer", 0) for store in (a, b)}) == 1:
            fault = "other tokens of the text were ranked"
        place = f"first in document {token['document']:.0f} at position {token['position']:.0f}"
        remedy = "Ranks compare among models of one tokenizer. Bits per byte compare others: rbp ranks summary."
        raise DataError(f"they cannot be compared: {fault}, {place}", where, remedy)
    if before.empty:
        fault = "they cannot be compared: no token was ranked by both"
        raise DataError(fault, where, "Rank the same documents by both models.")
    return before, after


def _tie_rule(store: RankStore) -> Any:
    """Return the tie rule under which another program counted; None where ties are stored separately."""
    return store.manifest["key"].get("tie_rule")


def store_name(store: RankStore) -> str:
    """Name a store's model, without its owner."""
    checkpoint = f"@{store.training.revision}" if store.training.revision else ""
    return store.model.rsplit("/", 1)[-1] + checkpoint


def _dtype(store: RankStore) -> Any:
    return store.manifest["key"].get("dtype")


def _rounding(store: RankStore) -> str | None:
    """Return what the ranked logits are rounded to; None where that is not known."""
    dtype = store.logits or _dtype(store)
    return "none" if dtype in ("float32", "float64") else dtype


def _reading(store: RankStore) -> str | None:
    protocol = store.protocol
    if "imported" in store.manifest["key"]:
        return None
    context = f" with {protocol['context']} before each" if protocol.get("context") else ""
    return f"{protocol['name']} of {protocol.get('length')}{context}" if "name" in protocol else None


_ALIKE: tuple[tuple[str, Callable[[RankStore], Any], str], ...] = (
    ("their texts differ", lambda s: s.text and f"{s.dataset}-{s.text}", "Rank both models on the same file."),
    ("they were read in other windows", _reading, "Extract both with the same --protocol, --length and --context."),
    (
        "another start token stands before their windows",
        lambda s: None if "imported" in s.manifest["key"] else " ".join(s.manifest["key"].get("bos", ["none"])),
        "Extract both with the same --bos.",
    ),
    (
        "special tokens in the text were read differently",
        lambda s: s.protocol.get("special", "token"),
        "Extract both with the same --special.",
    ),
    (
        "only one scores special or first tokens too",
        lambda s: ", ".join(s.protocol.get("score", ["plain tokens"])),
        "Extract both with the same --score.",
    ),
    ("they count other logits", lambda s: f"{s.vocabulary:,}", "Extract both with the same --vocab N."),
    (
        "their logits are rounded differently, so that more of one's are equal",
        _rounding,
        "Rank both in float32 (--dtype float32), or both with --round-logits bfloat16.",
    ),
    ("equal scores were counted under two tie rules", _tie_rule, "Import both with the same --tie-rule."),
)


#: rows of `Comparison.measures` below its table: metric, name, and the formats of values and of differences
SHOWN = (
    ("perplexity", "perplexity", "{:.4f}", "{:+.1%}"),
    ("bits", "total bits", "{:,.0f}", "{:+,.0f}"),
    ("mean_dp", "mean Δp", "", "{:+.2%}"),
    ("rms_dp", "rms Δp", "", "{:.2%}"),
    ("same_top", "same top token", "", "{:.1%}"),
)


def interval_text(row: Any, form: str) -> str:
    """Write the interval of a row, or a dash where it has none."""
    low, high = (float(end) for end in (row.low, row.high))
    return f"{form.format(low)} to {form.format(high)}" if np.isfinite(low + high) else "–"


def label(k: Any) -> str:
    """Name what a row of `Comparison.table` is about."""
    return "cross-entropy" if pd.isna(k) else f"−ln RBP_{k}"


def worst(table: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the first rows of `Comparison.tokens` or `passages`, as far as they lost."""
    return table[table["rise"] > 0].head(most)


def _sentence(row: Any, level: float) -> str:
    """Write a row of `Comparison.table` in words."""
    measure = label(row.k)
    if not np.isfinite(row.low):
        why = "every token is predicted alike" if row.difference == 0 else "there are too few tokens for an interval"
        return f"{measure}: {row.difference:+.4f}; {why}."
    change = f"{row.difference:+.4f} ({row.low:+.4f} to {row.high:+.4f}, {level:.0%})"
    if row.low <= 0 <= row.high:
        return f"{measure}: {change}; the change is not significant."
    return f"{measure}: {change}; B is {'worse' if row.low > 0 else 'better'}."
