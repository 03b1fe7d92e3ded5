"""The missed tokens at large k, looked at one by one: do models miss the same, in which documents, and which tokens?"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.counting.clustering import design_effect
from rbp.counting.paired import discordance
from rbp.errors import DataError
from rbp.extraction.reader import RankStore
from rbp.extraction.tables import Ranked
from rbp.metric import Integers, Reals, TieRule

#: shares of missed tokens at which the large k of the paper lie: GPT-2 misses 0.4% at k = 10 000
RATES = (0.05, 0.02, 0.01, 0.004, 0.002)
PIECE = 511  # ranked tokens of a document, at most, by the authors' protocol
SEEN = (0, 1, 10, 100, 1_000, 10_000)  # times that a token stood in the training text: edges of the classes


def aligned(stores: Sequence[RankStore], rule: TieRule = "paper") -> tuple[pd.DataFrame, Reals]:
    """The tokens that several models ranked, and their ranks: (document, position, token), shape (T, models).

    Raises DataError where two stores do not hold the same tokens in the same places.
    """
    places, ranks = None, []
    for store in stores:
        ranked = Ranked(store, rule)
        own = ranked.tokens[["document", "position", "token"]]
        if places is not None and not places.equals(own):
            what = f"{store.model} and {stores[0].model} did not rank the same tokens of {store.dataset}"
            raise DataError(what, str(store.folder), "Extract both with one tokenizer, corpus and protocol.")
        places = own
        ranks.append(np.asarray(ranked.ranks, dtype=float))
    if places is None:
        raise DataError("there is no rank store", "stores", "Give one at least.")
    return places, np.column_stack(ranks)


def pieces(places: pd.DataFrame, length: int = PIECE) -> Integers:
    """The documents cut into pieces of at most `length` tokens: the number of the piece of each token, shape (T,).

    A design effect grows with the length of what is drawn as a whole. Taking pieces for documents gives that of a
    text of many short documents of these kinds, such as the authors'.
    """
    name = places["document"].to_numpy(np.int64) * 1_000_000 + places["position"].to_numpy(np.int64) // length
    return np.unique(name, return_inverse=True)[1].astype(np.int64)


def threshold_for(ranks: npt.ArrayLike, rate: float) -> int:
    """The k at which about `rate` of all ranks lie above it (models pooled)."""
    return max(1, int(np.quantile(np.asarray(ranks, dtype=float), 1 - rate, method="lower")))


def clustering_table(stores: Sequence[RankStore], rates: Sequence[float] = RATES) -> pd.DataFrame:
    """The design effects of misses, and of the differences between models, for stores of one dataset.

    One row for each model and rate (other missing), and for each pair of models (model the smaller, other the larger):
    dataset, model, other, size, other_size, rate (asked for), k, tokens, documents, misses, other_misses, shared
    (missed by both), z (McNemar's, tokens taken as independent), effect (the design effect of the misses, or of the
    difference), effect_pieces (the same with `pieces` in place of documents), z_documents, top (the share of the
    misses that lie in the document with most of them).
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
    documents = places["document"].to_numpy()
    _, place = np.unique(documents, return_inverse=True)
    piece = pieces(places)
    rows = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        missed = ranks > k
        base = {"dataset": ordered[0].dataset, "rate": rate, "k": k, "tokens": len(ranks), "documents": place.max() + 1}
        for i, store in enumerate(ordered):
            misses = int(missed[:, i].sum())
            top = np.bincount(place, missed[:, i]).max() / misses if misses else np.nan
            row: dict[str, Any] = {"model": store.model, "size": store.size, "misses": misses, "top": top}
            row |= {
                name: design_effect(missed[:, i], each)
                for name, each in (("effect", documents), ("effect_pieces", piece))
            }
            rows.append(base | row)
        for i, j in combinations(range(len(ordered)), 2):
            if not (missed[:, i] != missed[:, j]).any():
                continue
            found = discordance(missed[:, i], missed[:, j], documents)
            row = {"model": ordered[i].model, "size": ordered[i].size, "other": ordered[j].model}
            row |= {"other_size": ordered[j].size, "misses": found.first_only + found.both}
            row |= {"other_misses": found.second_only + found.both, "shared": found.both, "z": found.z}
            row |= {"effect": found.design_effect, "z_documents": found.z_documents}
            row["effect_pieces"] = discordance(missed[:, i], missed[:, j], piece).design_effect
            rows.append(base | row)
    columns = ["dataset", "model", "other", "size", "other_size", "rate", "k", "tokens", "documents", "misses"]
    columns += ["other_misses", "shared", "z", "effect", "effect_pieces", "z_documents", "top"]
    table = pd.DataFrame(rows).reindex(columns=columns)
    return table.astype({"other_size": "Int64", "other_misses": "Int64", "shared": "Int64"})


def by_training_count(
    stores: Sequence[RankStore], counts: Integers, rates: Sequence[float] = RATES, edges: Sequence[int] = SEEN
) -> pd.DataFrame:
    """Which tokens are missed: by how often the token stood in the training text.

    counts: shape (vocabulary,), the training count of every token. One row for each model, rate and class of counts
    (from `low` up to the next edge): dataset, model, size, rate, k, low, high (missing: no end), tokens (of the
    evaluation text in the class), misses, share_of_tokens, share_of_misses, miss_rate.
    """
    ordered = sorted(stores, key=lambda store: (store.size, store.model))
    places, ranks = aligned(ordered)
    group = np.searchsorted(np.asarray(edges), counts[places["token"].to_numpy()], side="right") - 1
    tokens = np.bincount(group, minlength=len(edges))
    rows = []
    for rate in rates:
        k = threshold_for(ranks, rate)
        for i, store in enumerate(ordered):
            misses = np.bincount(group[ranks[:, i] > k], minlength=len(edges))
            for c, low in enumerate(edges):
                high = edges[c + 1] - 1 if c + 1 < len(edges) else pd.NA
                shares = (tokens[c] / tokens.sum(), misses[c] / max(misses.sum(), 1), misses[c] / max(tokens[c], 1))
                about = (store.dataset, store.model, store.size, rate, k, low, high)
                rows.append((*about, int(tokens[c]), int(misses[c]), *shares))
    columns = ["dataset", "model", "size", "rate", "k", "low", "high", "tokens", "misses"]
    columns += ["share_of_tokens", "share_of_misses", "miss_rate"]
    return pd.DataFrame(rows, columns=columns).astype({"high": "Int64"})


#: groups of training counts, from … up to the next, by the words that name them
GROUPS = {"fewer than ten times": 0, "10 to 99 times": 10, "100 to 999 times": 100, "a thousand times or more": 1000}


def group_rates(table: pd.DataFrame) -> pd.DataFrame:
    """How the misses of rare and of frequent tokens change from the smallest model to the largest.

    table: `by_training_count` at one rate. One row for each dataset and group of GROUPS: dataset, group, tokens,
    share_of_tokens, share_of_misses (of the largest model's), smallest, largest (their shares of missed tokens, NaN
    without tokens), fall (largest over smallest: 1 where size does not help).
    """
    starts = np.array(list(GROUPS.values()))
    named = table.assign(group=np.searchsorted(starts, table["low"].to_numpy(np.int64), side="right") - 1)
    rows = []
    for dataset, own in named.groupby("dataset"):
        first, last = (_sums(own[own["size"] == size]) for size in (own["size"].min(), own["size"].max()))
        for i, name in enumerate(GROUPS):
            tokens = int(first[i, 0])
            rates = [float(end[i, 1]) / tokens if tokens else np.nan for end in (first, last)]
            shares = tokens / first[:, 0].sum(), last[i, 1] / last[:, 1].sum()
            fall = rates[1] / rates[0] if tokens and rates[0] else np.nan
            rows.append((dataset, name, tokens, *shares, *rates, fall))
    columns = ["dataset", "group", "tokens", "share_of_tokens", "share_of_misses", "smallest", "largest", "fall"]
    return pd.DataFrame(rows, columns=columns)


def _sums(rows: pd.DataFrame) -> Integers:
    """Tokens and misses of each group, shape (groups, 2)."""
    sums = rows.groupby("group")[["tokens", "misses"]].sum().reindex(range(len(GROUPS)), fill_value=0)
    return sums.to_numpy(np.int64)
