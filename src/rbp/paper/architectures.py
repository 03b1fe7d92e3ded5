"""Families of other architectures beside the transformer: exponents, ranks at equal cross-entropy, tokens, and ties."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rbp.book.steps import step
from rbp.core.arrays import Integers, Reals, check_level
from rbp.core.errors import DataError, ParameterError
from rbp.evidence.counts import THRESHOLDS, Counts, LeftOut
from rbp.evidence.ranked import Ranked
from rbp.evidence.shipped import models, rank_sums
from rbp.paper.families import TRANSFORMER
from rbp.paper.ladder import exponents
from rbp.ranks.metric import TieRule, rank
from rbp.stats.power_law import fit_power_law
from rbp.stats.resampling import document_sums, interval, without_each

RULES: tuple[TieRule, ...] = ("paper", "expected", "strict")
TIED_UP_TO = 1000  # the largest k at which rules are compared


def on_shared_rungs(text: Counts, family: str, ks: Sequence[int]) -> list[LeftOut]:
    """The transformer and a family on a text, at their largest budgets: the rungs that both have, by size."""
    both = [text.of(name, seed=0) for name in (TRANSFORMER, family)]
    shared = [rung for rung in both[0].models["rung"] if rung in set(both[1].models["rung"])]
    if len(shared) < 3:
        what = f"{len(shared)} rungs of {family} are the transformer's as well"
        raise DataError(what, text.dataset, "Three are needed for a law: train them: rbp ladder train --family.")
    places = [[one.models["rung"].tolist().index(rung) for rung in shared] for one in both]
    return [one.keep(at, ks).left_out() for one, at in zip(both, places, strict=True)]


def check_rung(text: Counts, families: Sequence[str], rung: str) -> None:
    """Raise ParameterError unless the transformer and one of the families have the rung at their largest budgets."""
    own, *others = (text.of(name, seed=0).models["rung"].tolist() for name in (TRANSFORMER, *families))
    there = [name for name in own if any(name in other for other in others)]
    if rung not in there:
        raise ParameterError(f"there is no rung {rung!r} to compare", "rung", f"There is: {', '.join(there)}.")


def exponents_beside(texts: Sequence[Counts], family: str, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """The exponents in S of the transformer and of a family, on the rungs that both have, at their largest budgets.

    Columns dataset, k (missing for the cross-entropy), family, n, alpha_transformer, r_squared_transformer, alpha,
    r_squared, difference (the family's less the transformer's); low, high: by documents, the same for both;
    scatter_low, scatter_high: from the scatter about the two lines, whose rungs are taken as pairs: the line of the
    ratio.
    """
    check_level(level)
    rows = []
    for text in texts:
        first, second = on_shared_rungs(text, family, ks)
        sizes = [one.counts.sizes for one in (first, second)]
        for k, their in first.each():
            both = (their, second.at(k))
            fits = [fit_power_law(size, np.exp(y[0]), level=level) for size, y in zip(sizes, both, strict=True)]
            slopes = [exponents(size, y) for size, y in zip(sizes, both, strict=True)]
            difference, low, high = interval(slopes[1] - slopes[0], level=level)
            # sizes of a rung differ by few per cent: the ratio is taken along the transformer's
            ratio = fit_power_law(sizes[0], np.exp(both[1][0] - both[0][0]), level=level)
            half = (ratio.alpha_high - ratio.alpha_low) / 2
            rows.append(
                {"dataset": text.dataset, "k": k, "family": family, "n": fits[1].n}
                | {"alpha_transformer": fits[0].alpha, "r_squared_transformer": fits[0].r_squared}
                | {"alpha": fits[1].alpha, "r_squared": fits[1].r_squared, "difference": difference}
                | {"low": low, "high": high, "scatter_low": difference - half, "scatter_high": difference + half}
            )
    return pd.DataFrame(rows).astype({"k": "Int64"})


def offsets(texts: Sequence[Counts], family: str, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """−ln RBP_k of each model of a family beside a transformer's of the same cross-entropy, at their largest budgets.

    The transformer's is interpolated in logarithms between its two neighbours in cross-entropy; models outside its
    range, or outside it without one of the documents, are left out. Columns dataset, k, family, model, cross_entropy,
    offset (per cent of the transformer's), low, high (by documents, the same for all).
    """
    check_level(level)
    parts = []
    for text in texts:
        theirs, own = (text.of(name, seed=0).keep(ks=ks).left_out() for name in (TRANSFORMER, family))
        for k in ks:
            apart = _apart(own.at(k), own.x, theirs.at(k), theirs.x)
            cells = {"dataset": text.dataset, "k": k, "family": family, "model": own.counts.names}
            offset, low, high = 100 * np.expm1(interval(apart, level=level))
            values = {"cross_entropy": np.exp(own.x[0]), "offset": offset, "low": low, "high": high}
            parts.append(pd.DataFrame(cells | values).dropna(subset=["low"]))
    return pd.concat(parts, ignore_index=True)


def _apart(y: Reals, entropy: Reals, their_y: Reals, their_entropy: Reals) -> Reals:
    """ln y less the transformer's at the same cross-entropy, shape (1 + D, models); NaN outside its range."""
    found = np.empty_like(y)
    for i in range(len(y)):
        order = np.argsort(their_entropy[i])
        at = np.interp(entropy[i], their_entropy[i][order], their_y[i][order], left=np.nan, right=np.nan)
        found[i] = y[i] - at
    return found


class View(NamedTuple):
    """One way to tell tokens apart: what it is called, the lower ends of its bins, and their labels."""

    title: str
    edges: tuple[int, ...]
    labels: tuple[str, ...]


NEVER = 10**9
FEWEST = 50  # tokens of a bin
#: by name; a distance of more than 128 tokens may lie outside what a model reads
VIEWS = {
    "read": View(
        "tokens of the document read before", (0, 16, 64, 256, 1024), ("<16", "16–63", "64–255", "256–1023", "more")
    ),
    "since": View(
        "tokens since this pair of tokens stood there",
        (0, 16, 64, 129, NEVER),
        ("<16", "16–63", "64–128", "more", "never"),
    ),
    "seen": View(
        "how often the token was trained on",
        (0, 300, 1_000, 3_000, 10_000, 30_000),
        ("<300", "–1k", "–3k", "–10k", "–30k", "more"),
    ),
}


def classes(tokens: pd.DataFrame, seen: Integers) -> dict[str, Integers]:
    """The bin of each token in each of VIEWS, shape (tokens,).

    tokens: of a rank store, with document, position (0 the first of the document, which is not ranked) and token, in
    order; seen: how often each token of the vocabulary stands in the training text.
    """
    document, position, token = (tokens[name].to_numpy(np.int64) for name in ("document", "position", "token"))
    follows = np.append(False, (document[1:] == document[:-1]) & (position[1:] == position[:-1] + 1))
    before = np.where(follows, np.roll(token, 1), -1)
    pairs = pd.DataFrame({"document": document, "before": before, "token": token, "position": position})
    last = pairs.groupby(["document", "before", "token"], sort=False)["position"].shift()
    since = (pairs["position"] - last).where(before >= 0).fillna(NEVER).to_numpy(np.int64)
    values = {"read": position, "since": since, "seen": seen[token]}
    return {name: np.searchsorted(VIEWS[name].edges, value, side="right") - 1 for name, value in values.items()}


def by_token(
    first: Ranked,
    second: Ranked,
    seen: Integers,
    k: int = 1,
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """How much larger RBP_k of the second model is than that of the first, on tokens of each kind (VIEWS) of a text.

    Columns dataset, view, bin (its number), kind (its label), tokens, documents, first, second (the two RBP_k),
    difference (percentage points), low, high (by documents). Bins of fewer than FEWEST tokens, or of one
    document, are left out.
    Raises DataError where the two did not rank the same tokens.
    """
    check_level(level)
    columns = ["document", "position", "token"]
    if not first.tokens[columns].equals(second.tokens[columns]):
        what = f"{second.store.model} and {first.store.model} did not rank the same tokens of {first.store.dataset}"
        raise DataError(what, str(second.store.folder), "Rank both with one tokenizer, corpus and protocol.")
    hits = [np.asarray(each.ranks <= k, dtype=np.float64) for each in (first, second)]
    document, rows = first.tokens["document"].to_numpy(), []
    for name, bins in classes(first.tokens, seen).items():
        for number, kind in enumerate(VIEWS[name].labels):
            own = bins == number
            if own.sum() < FEWEST or len(np.unique(document[own])) < 2:
                continue
            columns_ = np.column_stack([own[own], *(hit[own] for hit in hits)])
            total = without_each(document_sums(columns_, document[own]))
            both = total[:, 1:] / total[:, :1]
            difference, low, high = interval(100 * (both[:, 1] - both[:, 0]), level=level)
            rows.append(
                {"dataset": first.store.dataset, "view": name, "bin": number, "kind": kind}
                | {"tokens": int(total[0, 0]), "documents": len(total) - 1, "first": both[0, 0], "second": both[0, 1]}
                | {"difference": difference, "low": low, "high": high}
            )
    return pd.DataFrame(rows)


def ties(about: pd.DataFrame, sums: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """How many tokens tie with others, and RBP_k by each tie rule, of each model on each text.

    about: model, family, size; sums: model, dataset, greater, equal, tokens (`rbp.evidence.shipped.rank_sums`). Columns
    dataset, family, model, size, tied (the share of tokens whose score others have as well), rule, k, value.
    """
    rows = []
    for one in about[["family", "model", "size"]].to_dict("records"):
        for dataset, own in sums[sums["model"] == one["model"]].groupby("dataset", sort=False):
            weight = own["tokens"].to_numpy(np.float64)
            tied = float(weight @ (own["equal"] > 1) / weight.sum())
            for rule in RULES:
                place = np.asarray(rank(own["greater"], own["equal"], rule), dtype=np.float64)
                for k in ks:
                    share = float(weight @ (place <= k) / weight.sum())
                    rows.append({"dataset": dataset, **one, "tied": tied, "rule": rule, "k": k, "value": share})
    return pd.DataFrame(rows)


@step("ladder_ties", reads=["data/ladder/families.json", "data/ladder/families-sums"], seconds=5)
def shipped_ties() -> pd.DataFrame:
    """`ties` of the shipped models at the largest budget, up to k = 1000."""
    about = models()
    last = about[(about["seed"] == 0) & (about["budget"] == about["budget"].max())]
    return ties(last, rank_sums(), [k for k in THRESHOLDS if k <= TIED_UP_TO])


def spread_by_rule(table: pd.DataFrame) -> pd.DataFrame:
    """Of each model on each text: tied, and the largest distance of any RBP_k between two rules (`moved`), at which k.

    table: `ties`. Columns dataset, family, model, size, tied, moved, k.
    """
    cell = ["dataset", "family", "model", "size", "tied"]
    ends = table.groupby([*cell, "k"], sort=False)["value"].agg(["min", "max"])
    moved = (ends["max"] - ends["min"]).rename("moved").reset_index()
    most = moved.sort_values("moved", ascending=False, kind="stable").drop_duplicates(["dataset", "model"])
    return most.sort_values(["dataset", "size"], ignore_index=True)[[*cell, "moved", "k"]]
