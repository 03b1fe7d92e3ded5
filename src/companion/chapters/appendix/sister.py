"""Cross-entropy as error-entropy, self-alignment and confidence: "What Scales in Cross-Entropy Scaling Law?".

That paper (arXiv:2510.04067) counts the tokens that score higher than the truth, e = rank − 1. With p_e the share of
tokens at error e, Q_e the geometric mean of their probabilities, C = Σ Q_e and q_e = Q_e/C,

    CE = −Σ p_e ln p_e   +   Σ p_e ln(p_e/q_e)   +   (−ln C)
       =  error-entropy  +    self-alignment     +  confidence,

for any text, model and tie rule: −ln Q_e is the mean of −ln p at error e.

Measured on few tokens, error-entropy is too small, because rare errors are missing, and self-alignment too large; the
sum is not biased. `without_bias` extrapolates all terms alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import t as t_distribution

from companion.stats.compare import paired_exponents
from rbp.arrays import Integers, Reals, check_level
from rbp.errors import DataError, FitError
from rbp.extract.store import RankStore
from rbp.figures.curves import curves, in_cells, melted
from rbp.figures.style import INK, LABELS, Panels
from rbp.figures.wording import dataset_order
from rbp.laws.resampling import interval
from rbp.laws.table import fit_table
from rbp.measurements import Source
from rbp.measurements.counts import Counts
from rbp.measurements.histograms import MeasuredRanks, entropy
from rbp.measurements.rank_counts import RankCounts
from rbp.measurements.ranked import Ranked
from rbp.metric import TieRule
from rbp.report.display import INTERVAL, Columns, shown

TERMS = ("error_entropy", "self_alignment", "confidence")
CELL = ["dataset", "family"]

#: parts of the documents → their weight: the limit of a + b/T + c/T² from T, T/2 and T/4 tokens. They sum to 1.
WEIGHTS = {1: 8 / 3, 2: -2.0, 4: 1 / 3}
AVERAGED = 16  # parts over which a mean is taken at least: documents are dealt out to two parts eight times
SHORTEST = 500  # tokens of a part, below which the curve against tokens is not followed


def contributions(errors: npt.ArrayLike, nll: npt.ArrayLike) -> Reals:
    """What each token adds to each of TERMS, shape (T, 3), in nats.

    errors: shape (T,), whole numbers from 0; nll: shape (T,), −ln p of the truth. The means over the tokens are the
    terms, each row adds up to the token's −ln p, and a row less the means is the token's influence: the derivative of
    the terms when the token is given more weight. Raises DataError for no tokens, or an infinite −ln p.
    """
    e, value = _checked(errors, nll)
    count = np.bincount(e)
    seen = count > 0
    log_p, mean = np.zeros(len(count)), np.zeros(len(count))
    log_p[seen] = np.log(count[seen] / len(e))
    mean[seen] = np.bincount(e, value)[seen] / count[seen]
    log_c = _log_sum(-mean[seen])
    surprise = -log_p[e]
    # more weight on a token at e moves ln Q_e by its distance from the mean, over p_e; and C by q_e of that
    confidence = -log_c + np.exp(-mean[e] - log_c + surprise) * (value - mean[e])
    # with each term in one piece of memory, so that numpy adds it up pairwise
    return np.stack([surprise, value - surprise - confidence, confidence]).T


def terms(errors: npt.ArrayLike, nll: npt.ArrayLike, parts: npt.ArrayLike | None = None) -> Reals:
    """Error-entropy, self-alignment and confidence, shape (3,), as they are measured (see `contributions`).

    parts: shape (T,), whole numbers from 0; the terms are then taken in each part by itself, and averaged with the
    parts' numbers of tokens as weights, so that the sum is the cross-entropy of all tokens whatever the parts are.
    """
    e, value = _checked(errors, nll)
    part = np.zeros(len(e), dtype=np.int64) if parts is None else np.asarray(parts, dtype=np.int64)
    width, number = int(e.max()) + 1, int(part.max()) + 1
    place = part * width + e
    shape = (number, width)
    count = np.bincount(place, minlength=number * width).reshape(shape)
    total = np.bincount(place, value, minlength=number * width).reshape(shape)
    tokens = count.sum(axis=1)
    full = tokens > 0
    count, total, tokens = count[full], total[full], tokens[full]
    seen = count > 0
    log_p, log_q = np.zeros(count.shape), np.full(count.shape, -np.inf)
    np.log(count / tokens[:, None], out=log_p, where=seen)
    np.divide(-total, count, out=log_q, where=seen)
    entropy_ = -(count * log_p).sum(axis=1) / tokens
    confidence = -np.array([_log_sum(row[some]) for row, some in zip(log_q, seen, strict=True)])
    alignment = total.sum(axis=1) / tokens - entropy_ - confidence
    share = tokens / tokens.sum()
    return np.array([share @ entropy_, share @ alignment, share @ confidence])


def deal(tokens: Integers, parts: int, rng: np.random.Generator) -> Integers:
    """Deal documents of so many tokens out to parts of about as many tokens each: the part of each, shape (D,)."""
    order = rng.permutation(len(tokens))
    middle = np.cumsum(tokens[order]) - tokens[order] / 2
    part = np.empty(len(tokens), dtype=np.int64)
    part[order] = (middle * parts / tokens.sum()).astype(np.int64)
    return part


def in_parts(
    errors: npt.ArrayLike, nll: npt.ArrayLike, documents: npt.ArrayLike, parts: int, *, seed: int = 0
) -> Reals:
    """The terms measured on one of `parts` parts of the documents, shape (3,): the mean over AVERAGED parts or more."""
    if parts == 1:
        return terms(errors, nll)
    place, tokens = _places(documents)
    rng = np.random.default_rng((seed, parts))
    times = -(-AVERAGED // parts)
    found: Reals = np.mean([terms(errors, nll, deal(tokens, parts, rng)[place]) for _ in range(times)], axis=0)
    return found


def without_bias(errors: npt.ArrayLike, nll: npt.ArrayLike, documents: npt.ArrayLike, *, seed: int = 0) -> Reals:
    """The terms extrapolated to infinitely many tokens, shape (3,), by WEIGHTS of the whole, halves and quarters.

    All terms have the same weights, and the mean over parts leaves cross-entropy as it is: so their sum is the measured
    cross-entropy. Raises DataError for fewer documents than the most parts.
    """
    number = len(_places(documents)[1])
    if number < max(WEIGHTS):
        what = f"{number} documents are too few to extrapolate from parts of them"
        raise DataError(what, "documents", f"Give at least {max(WEIGHTS)} documents of each text.")
    each = [weight * in_parts(errors, nll, documents, parts, seed=seed) for parts, weight in WEIGHTS.items()]
    found: Reals = np.sum(each, axis=0)
    return found


def _places(documents: npt.ArrayLike) -> tuple[Integers, Integers]:
    """The document of each token by its place among the documents, and the tokens of each."""
    given = np.asarray(documents)
    starts = np.flatnonzero(np.append(True, given[1:] != given[:-1]))  # as tokens lie in a store, without sorting
    if len(np.unique(given[starts])) == len(starts):
        tokens = np.diff(np.append(starts, len(given)))
        return np.repeat(np.arange(len(starts)), tokens), tokens
    _, place, tokens = np.unique(given, return_inverse=True, return_counts=True)
    return place.astype(np.int64), tokens.astype(np.int64)


def _checked(errors: npt.ArrayLike, nll: npt.ArrayLike) -> tuple[Integers, Reals]:
    e, value = np.asarray(errors), np.asarray(nll, dtype=np.float64)
    if not e.size or e.shape != value.shape or not np.issubdtype(e.dtype, np.integer) or e.min() < 0:
        raise DataError("each token needs an error, a whole number from 0, and its −ln p", "ranks", "Check the ranks.")
    if not np.isfinite(value).all():
        remedy = "Rank with float32 logits: cross-entropy is infinite where a probability underflows."
        raise DataError("a token has no finite −ln p", "nll", remedy)
    return e.astype(np.int64), value


def _log_sum(logs: Reals) -> float:
    """ln Σ exp(logs)."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))


# ── How many failures


def tail_exponents(texts: Sequence[Counts], low: int, high: int, *, level: float = 0.95) -> pd.DataFrame:
    """Estimate the tail exponent of the number of failures before success, e = rank − 1, as Survival Game counts them.

    If the density falls as e^(−β), P(e ≥ n) falls as n^(1 − β): so β = 1 + ln(P(e ≥ low)/P(e ≥ high))/ln(high/low), and
    P(e ≥ n) = 1 − RBP_n. The mean is finite for β > 2, the variance for β > 3 (arXiv:2502.18858), were the tail
    endless; a vocabulary ends it.

    One row a model, the first of its size: dataset, model, size, exponent, and its interval low, high (documents).
    """
    rows = []
    for text in texts:
        one = text.keep(text.firsts)
        left = one.left_out()
        missed = [np.log(-np.expm1(-np.exp(left.at(k)))) for k in (low, high)]
        found = interval(1 + (missed[0] - missed[1]) / np.log(high / low), level=level)
        about = {"dataset": one.dataset, "model": one.names, "size": one.sizes}
        rows.append(pd.DataFrame(about | {"exponent": found.estimate, "low": found.low, "high": found.high}))
    return pd.concat(rows, ignore_index=True)


# ── Of a source


@dataclass(frozen=True)
class Terms:
    """The three terms of a model on a text, in nats.

    measured, free: as they are measured, and extrapolated (`without_bias`), shape (3,). influence: what each document
    moves the terms by, shape (documents, 3). counts: of the ranks.
    """

    dataset: str
    model: str
    family: str
    size: int
    tokens: int
    document_tokens: Integers
    measured: Reals
    free: Reals
    influence: Reals
    counts: RankCounts

    @property
    def cross_entropy(self) -> float:
        """The mean of −ln p."""
        return float(self.measured.sum())

    @property
    def share(self) -> float:
        """Error-entropy, extrapolated, over cross-entropy."""
        return float(self.free[0]) / self.cross_entropy


Model = TypeVar("Model", Terms, RankStore)


def measure(source: Source) -> list[Terms]:
    """The terms of each of the source's rank stores, under its tie rule, by dataset, size and model.

    Raises DataError where there are no rank stores, for fewer documents than `without_bias` needs, and what reading
    ranks raises.
    """
    return [_rung(store, source.rule) for store in source.stores]


def _rung(store: RankStore, rule: TieRule) -> Terms:
    ranked = Ranked(store, rule)
    errors, nll, documents = _tokens(ranked)
    added = contributions(errors, nll)
    mean = added.mean(axis=0)
    place, tokens = _places(documents)
    influence = np.column_stack([np.bincount(place, column) for column in (added - mean).T]) / len(errors)
    return Terms(
        dataset=store.dataset,
        model=store.model,
        family=store.family,
        size=store.size,
        tokens=len(errors),
        document_tokens=tokens,
        measured=mean,
        free=without_bias(errors, nll, documents),
        influence=influence,
        counts=RankCounts.of_ranks(ranked.ranks, store.vocabulary),
    )


def _tokens(ranked: Ranked) -> tuple[Integers, Reals, Integers]:
    """errors, nll and document of each token."""
    tokens = ranked.tokens
    errors = np.asarray(ranked.ranks, dtype=np.int64) - 1
    return errors, tokens["nll"].to_numpy(np.float64), tokens["document"].to_numpy(np.int64)


def half_width(influence: Reals, level: float) -> float:
    """Half of the interval of a number that documents move by `influence`, shape (D,): Student's t of D − 1.

    The documents are drawn from many; each moves the number by its own, as D/(D − 1)·Σ influence² says. The terms of a
    tail are no sums over documents, so none can be left out: this is `resampling.interval` to first order, which covers
    a point or two less where documents are few (data/ladder/coverage.csv, “linearised”).
    """
    count = len(influence)
    error = np.sqrt(count / (count - 1) * float(influence @ influence))
    return float(t_distribution.ppf((1 + level) / 2, count - 1) * error)


def shares(rungs: Sequence[Terms], *, level: float = 0.95) -> pd.DataFrame:
    """One row a rung: dataset, family, model, size, tokens, documents, cross_entropy, the extrapolated TERMS, and
    error-entropy over cross-entropy: share, with low and high (documents as units).
    """
    check_level(level)
    rows = []
    for one in rungs:
        entropy_ = one.cross_entropy
        half = half_width((one.influence[:, 0] - one.share * one.influence.sum(axis=1)) / entropy_, level)
        row = _about(one) | {"tokens": one.tokens, "documents": len(one.document_tokens), "cross_entropy": entropy_}
        row |= dict(zip(TERMS, one.free.tolist(), strict=True))
        row |= {"share": one.share, "low": one.share - half, "high": one.share + half}
        rows.append(row)
    return pd.DataFrame(rows).sort_values([*CELL, "size", "model"], ignore_index=True)


#: what is fitted → the weights of TERMS in it. Confidence is −ln C; its sign is turned, as ln C is above 0 mostly.
QUANTITIES = {
    "cross_entropy": (1, 1, 1),
    "error_entropy": (1, 0, 0),
    "self_alignment": (0, 1, 0),
    "log_c": (0, 0, -1),
}


def fits(rungs: Sequence[Terms], *, level: float = 0.95) -> pd.DataFrame:
    """A power law in S of each of QUANTITIES, extrapolated: `fit_table` by dataset, family and metric.

    Adds text_low, text_high: the interval of α from the documents, the same for all rungs; missing where rungs have
    different documents. Where a quantity is not above 0 at every rung there is no fit, and `note` says so.
    Raises FitError where there is none at all.
    """
    rows = [
        _about(one) | {"metric": name, "value": float(one.free @ weights)}
        for one in rungs
        for name, weights in QUANTITIES.items()
    ]
    table = pd.DataFrame(rows)
    found = fit_table(table, [*CELL, "metric"], level=level)
    halves = [_half_of_alpha(rungs, row, level) for row in found.itertuples()]
    return found.assign(text_low=found["alpha"] - halves, text_high=found["alpha"] + halves)


def _half_of_alpha(rungs: Sequence[Terms], row: Any, level: float) -> float:
    own = [one for one in rungs if (one.dataset, one.family) == (row.dataset, row.family)]
    same = all(np.array_equal(one.document_tokens, own[0].document_tokens) for one in own)
    if not same or pd.isna(row.alpha):
        return float("nan")
    weights = QUANTITIES[row.metric]
    x = np.log([one.size for one in own])
    x -= x.mean()
    slope = x / (x @ x)
    moved = [each * (one.influence @ weights) / (one.free @ weights) for each, one in zip(slope, own, strict=True)]
    return half_width(np.sum(moved, axis=0), level)


def exponents(rungs: Sequence[Terms], *, level: float = 0.95) -> pd.DataFrame:
    """α of cross-entropy less α of error-entropy, by dataset and family: difference, low, high, paired by rung.

    Cells that `paired_exponents` cannot fit are left out.
    """
    rows = []
    for (dataset, family), own in shares(rungs).groupby(CELL):
        try:
            test = paired_exponents(own["size"], own["cross_entropy"], own["error_entropy"], level=level)
        except FitError:
            continue
        rows.append((dataset, family, test.difference, test.low, test.high))
    return pd.DataFrame(rows, columns=[*CELL, "difference", "low", "high"])


def changes(rungs: Sequence[Terms], *, level: float = 0.95) -> pd.DataFrame:
    """From the smallest rung to the largest, by dataset and family: smallest, largest (models), fall (of cross-entropy,
    nats), and the part of that fall that is each of TERMS, with NAME_low and NAME_high from the documents.

    The parts sum to 1; a part below 0 is a term that rises. The interval is missing where the two have different
    documents. Cells of one size are left out.
    """
    rows = []
    for (dataset, family), own in _cells(rungs).items():
        first, last = own[0], own[-1]
        if first.size == last.size:
            continue
        change = first.free - last.free
        fall = float(change.sum())
        row = {"dataset": dataset, "family": family, "smallest": first.model, "largest": last.model, "fall": fall}
        same = np.array_equal(first.document_tokens, last.document_tokens)
        moved = first.influence - last.influence if same else None
        for i, name in enumerate(TERMS):
            part = float(change[i]) / fall
            half = np.nan if moved is None else half_width((moved[:, i] - part * moved.sum(axis=1)) / fall, level)
            row |= {name: part, f"{name}_low": part - half, f"{name}_high": part + half}
        rows.append(row)
    return pd.DataFrame(rows)


def _cells(models: Sequence[Model]) -> dict[tuple[str, str], list[Model]]:
    """Those of each dataset and family, by size."""
    cells: dict[tuple[str, str], list[Model]] = {}
    for one in sorted(models, key=lambda one: (one.dataset, one.family, one.size, one.model)):
        cells.setdefault((one.dataset, one.family), []).append(one)
    return cells


def _ends(cell: list[Model]) -> list[Model]:
    """The smallest and the largest model, or the only one."""
    return cell[:: max(len(cell) - 1, 1)]


def share_by_tokens(source: Source) -> pd.DataFrame:
    """How the measured terms depend on the number of tokens, for the smallest and largest model of each cell.

    Columns dataset, family, model, size, tokens (of a part), TERMS, share (error-entropy over cross-entropy). The parts
    are halves, quarters … of the documents, down to SHORTEST tokens or to single documents.
    """
    rows = []
    for store in (end for cell in _cells(source.stores).values() for end in _ends(cell)):
        errors, nll, documents = _tokens(Ranked(store, source.rule))
        number, parts = len(np.unique(documents)), 1
        while parts <= number and len(errors) >= parts * SHORTEST:
            found = in_parts(errors, nll, documents, parts)
            row = _about(store) | {"tokens": len(errors) // parts} | dict(zip(TERMS, found.tolist(), strict=True))
            rows.append(row | {"share": found[0] / found.sum()})
            parts *= 2
    return pd.DataFrame(rows).sort_values([*CELL, "size", "tokens"], ignore_index=True)


# ── Of bins


def in_bins(published: Sequence[MeasuredRanks]) -> pd.DataFrame:
    """Error-entropy of models of whom bins of ranks are all that is known, such as those of figure 8c.

    Columns dataset, family, model, size, cross_entropy, filled (bins filled smoothly), least, most (what masses that
    fall with the rank allow). Models without a cross-entropy are left out.
    """
    rows = []
    for one in published:
        if one.cross_entropy is not None:
            filled, least, most = entropy(one.counts)
            bare = {"cross_entropy": one.cross_entropy, "filled": filled, "least": least, "most": most}
            rows.append(_about(one) | bare)
    return pd.DataFrame(rows)


def _about(one: Terms | MeasuredRanks | RankStore) -> dict[str, Any]:
    return {"dataset": one.dataset, "family": one.family, "model": one.model, "size": one.size}


CLAIMED = (80, 90)  # per cent of cross-entropy, in small models: the sister law's paper
COLOURS = dict(zip(TERMS, ("#2A7FC0", "#D55E00", "#009E73"), strict=True))
NAMES = dict(zip(TERMS, ("error-entropy", "self-alignment", "confidence"), strict=True))
_LABELS = {"cross_entropy": "cross-entropy", **NAMES, "log_c": "ln C"}
PERCENT = "[{:.1f}, {:.1f}]"


def share_panels(shares: pd.DataFrame, bins: pd.DataFrame) -> Panels:
    """Error-entropy in per cent of cross-entropy against S, a panel for each family, a line for each text.

    shares: `sister_law.shares`; bins: `sister_law.in_bins`, whose bars are what bins leave open.
    """
    known = bins.assign(share=bins["filled"], low=bins["least"], high=bins["most"])
    known[["share", "low", "high"]] = known[["share", "low", "high"]].div(known["cross_entropy"], axis=0)
    both = pd.concat([shares, known])[["dataset", "family", "size", "share", "low", "high"]]
    both[["share", "low", "high"]] *= 100
    labels = (LABELS["size"], "error-entropy, % of cross-entropy")
    return curves(
        both, "size", "share", labels=labels, panel="family", line="dataset", ends=True, at=[100], zone=CLAIMED,
        ylim="shared",
    )  # fmt: skip


def term_panels(shares: pd.DataFrame) -> Panels:
    """Self-alignment, confidence and their sum against S, in nats: a panel for each text and family."""
    names = {name: NAMES[name] for name in ("self_alignment", "confidence")}
    styles = {names[name]: (COLOURS[name], marker) for name, marker in zip(names, "os", strict=True)}
    both = in_cells(shares.assign(both=shares[[*names]].sum(axis=1)))
    rows = melted(both, {**names, "both": "both"}, "size", by=["cell"])
    return curves(
        rows, "size", "value", labels=(LABELS["size"], "nats"), panel="cell", styles={**styles, "both": (INK, "^")},
        ends=True, at=[0], ylim="shared",
    )  # fmt: skip


def token_panels(shares: pd.DataFrame) -> Panels:
    """Error-entropy in per cent of cross-entropy against the tokens that it is measured on (`share_by_tokens`)."""
    rows = in_cells(shares).assign(share=100 * shares["share"]).sort_values("size", kind="stable")
    return curves(
        rows, "tokens", "share", labels=("tokens", "error-entropy, % of cross-entropy"), panel="cell", line="model",
        ends=True, at=[100], zone=CLAIMED, ylim="shared",
    )  # fmt: skip


def _by_cell(table: pd.DataFrame) -> Any:
    order = dataset_order(table["dataset"])
    return sorted(table.groupby(["dataset", "family"]), key=lambda cell: (order.index(cell[0][0]), cell[0][1]))


# ── Tables: what `Page.table` takes


def shares_shown(shares: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Error-entropy's share of the smallest and the largest model of each text: measured, and without the bias."""
    ends = pd.concat([own.iloc[[0, -1]].drop_duplicates() for _, own in _by_cell(shares.sort_values("size"))])
    percent = ["share", "low", "high"]
    columns: Columns = {
        "dataset": "Text",
        "model": "model",
        "error_entropy": ("error-entropy", "{:.3f}"),
        "self_alignment": ("self-alignment", "{:+.3f}"),
        "confidence": ("confidence", "{:+.3f}"),
        "share": ("share, %", "{:.1f}"),
        ("low", "high"): (f"{level:.0%} interval", PERCENT),
    }
    caption = "<b>The terms of the smallest and the largest model,</b> in nats, and error-entropy’s share of their sum."
    return shown(ends.assign(**{name: 100 * ends[name] for name in percent}), columns, caption=caption, data=shares)


def fits_shown(fits: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The power law of each term, with both intervals of α."""
    order = list(_LABELS)
    place = fits["metric"].map(order.index)
    table = fits.assign(place=place, name=fits["metric"].map(_LABELS)).sort_values(["dataset", "family", "place"])
    columns: Columns = {
        "dataset": "Text",
        "family": "family",
        "name": "of",
        "alpha": ("α", "{:.4f}"),
        ("alpha_low", "alpha_high"): ("from the scatter", INTERVAL),
        ("text_low", "text_high"): ("from the documents", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "note": "note",
    }
    caption = (
        f"<b>A power law of cross-entropy and of each term,</b> with both {level:.0%} intervals of α. A negative α: it "
        "grows with S."
    )
    if not table["note"].any():
        columns = {name: column for name, column in columns.items() if name != "note"}
    return shown(table, columns, caption=caption, data=fits)


def changes_shown(changes: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """What each term contributes to the fall of cross-entropy from the smallest to the largest model, in per cent."""
    parts = [f"{name}{end}" for name in TERMS for end in ("", "_low", "_high")]
    columns: Columns = {
        "dataset": "Text",
        "fall": ("fall, nats", "{:.3f}"),
        **{(name, f"{name}_low", f"{name}_high"): (f"{NAMES[name]}, %", f"{{:.1f}} {PERCENT}") for name in TERMS},
    }
    caption = (
        "<b>The fall of cross-entropy from the smallest model to the largest, and each term’s part of it</b>, with its "
        f"{level:.0%} interval from the documents."
    )
    table = changes.assign(**{name: 100 * changes[name] for name in parts})
    return shown(table, columns, caption=caption, data=changes)
