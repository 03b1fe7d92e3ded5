"""Why −ln RBP_1 goes as another power of the cross-entropy on each text: what mixtures of easy and hard contexts say.

With h = RBP_1, r = −ln h, C the cross-entropy and b = −dh/dC, the local slope is d ln r / d ln C = b·C/(h·r). A mixture
says what b is; where a model stands on its text says the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import sympy as sp
from scipy.optimize import brentq
from scipy.special import gammainc

from rbp.core.arrays import Integers, Reals, check_level
from rbp.core.errors import DataError
from rbp.evidence.ranked import Ranked
from rbp.paper.appendix_c.notation import formula_list
from rbp.paper.display import shown
from rbp.ranks.entropies import Entropies
from rbp.ranks.store import RankStore

FEWEST = 3  # models that a slope is taken through
CELL = ["dataset", "family"]
TURNED = [*CELL, "quantity", "value", "low", "high"]
_AT_ONCE = 100  # draws in memory at once: a text can have thousands of documents
_WIDTH, _MOST = 0.25, 16.0  # nats: bins of −ln p, the last one open


# What families of mixtures imply


@dataclass(frozen=True)
class Derived:
    """A family of mixtures: what moves with size, the local slope that follows, and whether sympy finds the same."""

    name: str
    moves: str
    slope: sp.Expr
    holds: bool


def derived() -> list[Derived]:
    """The local slope d ln(−ln RBP_1)/d ln CE of four families of mixtures, each differentiated by sympy.

    Contexts of a kind have one hit probability and one expected −ln p; RBP_1 and CE are their means over contexts.

    - two kinds: only the share of the easy kind moves. RBP_1 is then a straight line in CE.
    - solved or not: two kinds, one of which is always hit and costs nothing. The slope is (e^r − 1)/r, at least 1.
    - all alike: −ln p of a token is gamma-distributed with one shape κ and a mean that moves, and a token is a hit if
      that lies below a threshold τ. With x = κ·τ/CE the slope is x^κ·e^(−x)/(Γ(κ)·h·r).
    - hits and misses: the exact identity for any model. λ is the share of the fall in CE that comes from misses that
      become hits, at L_m − L_h nats each; the rest from hits and misses that cost less.
    """
    t = sp.Symbol("t", real=True)
    positive = {"positive": True}
    h, c, lam = sp.symbols("h C lambda", **positive)
    easy, hard, hit_easy, hit_hard = sp.symbols("l_e l_d h_e h_d", **positive)
    share = sp.Function("pi")(t)
    found = []

    def add(name: str, moves: str, hit: sp.Expr, cost: sp.Expr, slope: sp.Expr) -> None:
        """Compare `slope`, given by h = RBP_1 and C, with the derivative of what `hit` and `cost` are in t."""
        change = sp.diff(sp.log(-sp.log(hit)), t) / sp.diff(sp.log(cost), t)
        found.append(Derived(name, moves, slope, _equal(change, slope.subs({h: hit, c: cost}))))

    line = (hit_easy - hit_hard) / (hard - easy) * c / (h * -sp.log(h))
    cost = share * easy + (1 - share) * hard
    add("two kinds", "the share of the easy kind", share * hit_easy + (1 - share) * hit_hard, cost, line)
    solved = (1 / h - 1) / -sp.log(h)
    add("solved or not", "the share that is solved", share + (1 - share) * hit_hard, (1 - share) * hard, solved)
    kappa, tau = sp.symbols("kappa tau", **positive)
    mean, x = sp.Function("mu")(t), kappa * tau / c
    below = sp.lowergamma(kappa, kappa * tau / mean) / sp.gamma(kappa)
    add("all alike", "the mean of −ln p", below, mean, x**kappa * sp.exp(-x) / sp.gamma(kappa) / (h * -sp.log(h)))
    hits, of_hit, of_miss = (sp.Function(name)(t) for name in ("h", "L_h", "L_m"))
    whole = hits * of_hit + (1 - hits) * of_miss
    gap = sp.Symbol("Delta", **positive)
    identity = lam / gap * c / (h * -sp.log(h))
    turned = -(of_miss - of_hit) * sp.diff(hits, t) / sp.diff(whole, t)
    change = sp.diff(sp.log(-sp.log(hits)), t) / sp.diff(sp.log(whole), t)
    ours = identity.subs({lam: turned, gap: of_miss - of_hit, h: hits, c: whole})
    found.append(Derived("hits and misses", "everything", identity, _equal(change, ours)))
    return found


def _equal(one: sp.Expr, other: sp.Expr) -> bool:
    """Whether two expressions in functions of t are the same: their difference simplifies to 0."""
    values = {f: sp.Symbol(f"v{i}", positive=True) for i, f in enumerate(sorted(one.atoms(sp.Function), key=str))}
    slopes = {d: sp.Symbol(f"s{i}") for i, d in enumerate(sorted(one.atoms(sp.Derivative), key=str))}
    logs = {f for f in values if isinstance(f, sp.log)}
    plain = {f: v for f, v in values.items() if f not in logs}
    difference = (one - other).doit().subs(slopes).subs(plain)
    return bool(sp.simplify(difference) == 0)


# What is measured: a slope for each family on each text


def points(table: pd.DataFrame) -> pd.DataFrame:
    """RBP_1 and the cross-entropy of each model that has both, from a measurement table.

    Columns dataset, family, size, model, hit (RBP_1), cost (CE, nats), by these. Raises DataError if no model has both.
    """
    some = table[table["k"].eq(1).fillna(False) | (table["metric"] == "cross_entropy")]
    wide = some.pivot_table(index=[*CELL, "size", "model"], columns="metric", values="value")
    if not {"neg_log_rbp", "cross_entropy"} <= set(wide) or wide.dropna().empty:
        what = "no model has both −ln RBP_1 and a cross-entropy"
        raise DataError(what, "measurements", 'Give "published", "ladder" or rank stores.')
    found = wide.dropna().reset_index()
    return found.assign(hit=np.exp(-found["neg_log_rbp"]), cost=found["cross_entropy"])[
        [*CELL, "size", "model", "hit", "cost"]
    ]


def slopes(found: pd.DataFrame) -> pd.DataFrame:
    """The slope of ln(−ln RBP_1) in ln CE of each family on each text, and the straight line of RBP_1 in CE.

    found: of `points`. Columns dataset, family, models, hit_low and hit_high (RBP_1, smallest and largest), slope;
    per_nat (b: what RBP_1 loses for each nat), at_zero (the line at CE = 0), r_squared (of the line); factor (the mean
    of CE/(h·r), by which b is to be multiplied), solved (the slope if contexts are solved or not). All by least
    squares. Families of fewer than FEWEST models, and those in which one is always right or never, are left out.
    """
    rows = []
    for key, own in found.groupby(CELL):
        h, c = own["hit"].to_numpy(), own["cost"].to_numpy()
        if len(own) < FEWEST or not ((h > 0) & (h < 1)).all() or np.ptp(c) == 0:
            continue
        per_nat, at_zero = _line(c, h)
        missed = h - at_zero + per_nat * c
        r_squared = 1 - missed @ missed / max(float(((h - h.mean()) ** 2).sum()), 1e-300)
        rest = (r_squared, factor(h, c).mean(), (np.expm1(-np.log(h)) / -np.log(h)).mean())
        rows.append((*key, len(own), h.min(), h.max(), float(local_slope(h, c)), per_nat, at_zero, *rest))
    names = [*CELL, "models", "hit_low", "hit_high", "slope", "per_nat", "at_zero", "r_squared", "factor", "solved"]
    return pd.DataFrame(rows, columns=names)


def factor(hit: npt.ArrayLike, cost: npt.ArrayLike) -> Reals:
    """CE/(RBP_1·(−ln RBP_1)): the local slope for each unit of b."""
    h = np.asarray(hit, dtype=np.float64)
    return np.asarray(cost, dtype=np.float64) / (h * -np.log(h))


def from_one_line(lines: pd.DataFrame, family: str) -> pd.DataFrame:
    """`lines`, of `slopes`, with `expected`: the slope that the b of one family gives; NaN if that is not there.

    Of a family on several texts it is the mean b.
    """
    return lines.assign(expected=lines.loc[lines["family"] == family, "per_nat"].mean() * lines["factor"])


def _line(x: Reals, y: Reals) -> tuple[Any, Any]:
    """−slope and intercept of the least-squares line along the last axis."""
    away = x - x.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # one x has no slope: NaN
        slope = (away * y).sum(-1) / (away * away).sum(-1)
    return -slope, y.mean(-1) - slope * x.mean(-1)


def local_slope(h: Reals, c: Reals) -> Any:
    """d ln(−ln h)/d ln c by least squares along the last axis."""
    return -_line(np.log(c), np.log(-np.log(h)))[0]


# Hits and misses, from ranks


@dataclass(frozen=True)
class Costs:
    """What hits and misses of a family cost on one text.

    models, sizes: by S; sums: tokens, hits, Σ −ln p and that of the hits, shape (documents, models, 4); spread: how
    many hits and misses lie in each bin of −ln p, shape (models, 2, bins).
    """

    dataset: str
    family: str
    models: tuple[str, ...]
    sizes: Integers
    sums: Reals
    spread: Reals


def count_costs(stores: Sequence[RankStore]) -> list[Costs]:
    """The costs of each family on each text. Raises DataError where two models ranked other tokens of a text."""
    found = []
    for key in dict.fromkeys((store.dataset, store.family) for store in stores):
        own = sorted((s for s in stores if (s.dataset, s.family) == key), key=lambda s: (s.size, s.model))
        each = [_costs(store) for store in own]
        if any(not np.array_equal(sums[:, 0], each[0][0][:, 0]) for sums, _ in each):
            what = f"two models did not rank the same tokens of {key[0]}"
            raise DataError(what, str(own[0].folder), "Extract both with one tokenizer, corpus and protocol.")
        sizes = np.array([store.size for store in own], dtype=np.int64)
        sums, spread = np.stack([one for one, _ in each], axis=1), np.stack([one for _, one in each])
        found.append(Costs(*key, tuple(store.model for store in own), sizes, sums, spread))
    return found


def _costs(store: RankStore) -> tuple[Reals, Reals]:
    ranked = Ranked(store)
    hit, nll = np.asarray(ranked.ranks <= 1), ranked.tokens["nll"].to_numpy(np.float64)
    _, place = np.unique(ranked.tokens["document"], return_inverse=True)
    sums = np.column_stack([np.bincount(place, w) for w in (np.ones_like(nll), hit, nll, nll * hit)])
    bins = (np.minimum(nll, _MOST) / _WIDTH).astype(np.int64)
    spread = np.stack([np.bincount(bins[hit == of], minlength=int(_MOST / _WIDTH) + 1) for of in (True, False)])
    return sums.astype(np.float64), spread.astype(np.float64)


def turned(costs: Costs, *, resamples: int = 1000, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """How CE falls from the smallest to the largest model: misses that become hits, and hits and misses that cost less.

    One row for each quantity, with its interval (low, high) by documents drawn anew, the same ones for all models:
    slope (of ln(−ln RBP_1) in ln CE), per_nat (b), share (λ: of the fall in CE that comes from misses turned into hits;
    between neighbouring models at the mean of their costs), gap (what such a token saves: L_m − L_h, mean over models,
    nats), hit_cost and miss_cost (L_h, L_m of the largest model).
    Columns dataset, family, quantity, value, low, high. Intervals are NaN for a single document.
    """
    check_level(level)
    whole = _quantities(costs.sums.sum(axis=0)[None])
    documents = len(costs.sums)
    flat = costs.sums.reshape(documents, -1)
    rng, even = np.random.default_rng(seed), np.full(documents, 1 / documents)
    parts = []
    for first in range(0, resamples, _AT_ONCE):
        times = rng.multinomial(documents, even, size=min(_AT_ONCE, resamples - first)).astype(np.float64)
        parts.append(_quantities((times @ flat).reshape(-1, *costs.sums.shape[1:])))
    tails = [(1 - level) / 2, (1 + level) / 2]
    rows = []
    for name, value in whole.items():
        drawn = np.concatenate([part[name] for part in parts])
        low, high = np.quantile(drawn, tails) if documents > 1 and np.isfinite(drawn).all() else (np.nan, np.nan)
        rows.append((costs.dataset, costs.family, name, float(value[0]), float(low), float(high)))
    return pd.DataFrame(rows, columns=TURNED)


def comparable(costs: Costs) -> bool:
    """Whether a slope can be taken: FEWEST models, none always right or never, with more than one cross-entropy."""
    tokens, hits, nll, _ = costs.sums.sum(axis=0).T
    return len(costs.models) >= FEWEST and bool(((hits > 0) & (hits < tokens)).all()) and bool(np.ptp(nll) > 0)


def turned_by_all(costs: Sequence[Costs], *, resamples: int = 1000, level: float = 0.95) -> pd.DataFrame:
    """`turned` of all that are comparable."""
    parts = [turned(one, resamples=resamples, level=level) for one in costs if comparable(one)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=TURNED)


def _quantities(sums: Reals) -> dict[str, Reals]:
    """The quantities of `turned` from sums over documents, shape (draws, models, 4)."""
    tokens, hits, nll, of_hits = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        h, c, hit_cost, miss_cost = hits / tokens, nll / tokens, of_hits / hits, (nll - of_hits) / (tokens - hits)
        gap = miss_cost - hit_cost
        saved = np.diff(h, axis=1) * (gap[:, 1:] + gap[:, :-1]) / 2
        return {
            "slope": local_slope(h, c),
            "per_nat": _line(c, h)[0],
            "share": saved.sum(1) / (c[:, 0] - c[:, -1]),
            "gap": gap.mean(1),
            "hit_cost": hit_cost[:, -1],
            "miss_cost": miss_cost[:, -1],
        }


def expected_slopes(costs: Costs) -> dict[str, float]:
    """The slope of ln(−ln RBP_1) in ln CE that mixtures give a family, fitted to its tokens; see `derived`.

    - two kinds: each model's distribution of hits and misses over −ln p is a mixture of the same two, whose shares
      alone move with size (the best such pair: the first principal component).
    - solved or not: at the models' own RBP_1.
    - all alike: −ln p is gamma-distributed with one shape, the mean of the models' (mean²/variance); a token is a hit
      below one threshold, fitted to the models' mean RBP_1. NaN where −ln p does not vary.
    - left: the share of all change between models' distributions that two kinds do not hold (total variation).
    """
    sums = costs.sums.sum(axis=0)
    h, c = sums[:, 1] / sums[:, 0], sums[:, 2] / sums[:, 0]
    p = costs.spread.reshape(len(h), -1) / sums[:, :1]
    mean = p.mean(0)
    scale = np.sqrt(np.maximum(mean, 1e-12))
    left, size, right = np.linalg.svd((p - mean) / scale, full_matrices=False)
    mixed = mean + np.outer(left[:, 0] * size[0], right[0]) * scale
    centres = np.append((np.arange(costs.spread.shape[-1] - 1) + 0.5) * _WIDTH, _MOST)
    cost = mixed @ np.tile(centres, 2) + c.mean() - (p @ np.tile(centres, 2)).mean()
    hit = mixed[:, : len(centres)].sum(1)
    middle = (np.arange(len(centres)) + 0.5) * _WIDTH
    square = (p @ np.tile(middle, 2) ** 2) - (p @ np.tile(middle, 2)) ** 2
    alike = np.nan
    if (square > 0).all():
        kappa = float((c**2 / square).mean())
        threshold = brentq(lambda tau: float((gammainc(kappa, kappa * tau / c) - h).mean()), 0.0, 100 * c.max())
        alike = float(local_slope(gammainc(kappa, kappa * threshold / c), c))
    return {
        "measured": float(local_slope(h, c)),
        "two kinds": float(local_slope(hit, cost)),
        "solved or not": float((np.expm1(-np.log(h)) / -np.log(h)).mean()),
        "all alike": alike,
        "left": float(np.abs(p - mixed).sum() / np.abs(p - mean).sum()),
    }


def by_entropy(found: Sequence[Entropies], bins: int = 40) -> dict[str, float]:
    """How much of what happens between models of a family on a text is that contexts move between entropies.

    found: of models on one text, by size. A context's kind is its bin of the prediction's entropy. Between neighbouring
    models, the rise of RBP_1 and the fall of CE are split into what the contexts' shares do (at the mean of the two
    models' hit rates and costs in a bin), and what hit rates and costs in the bins do. Gives hits and cost, the shares
    of the first in the whole, and slope: what the first alone gives d ln(−ln RBP_1)/d ln CE.
    """
    edges = np.linspace(0, np.log(found[0].store.vocabulary), bins + 1)[1:-1]
    kinds = []
    for one in found:
        ranked = Ranked(one.store)
        place = np.searchsorted(edges, one.entropy)
        weights = (np.ones(len(place)), np.asarray(ranked.ranks <= 1), ranked.tokens["nll"].to_numpy(np.float64))
        kinds.append(np.stack([np.bincount(place, w, minlength=bins) for w in weights]) / len(place))
    moved = np.zeros((len(found), 2))
    for i, (a, b) in enumerate(pairwise(kinds), 1):
        shares = np.stack([a[0], b[0]])
        with np.errstate(invalid="ignore"):
            rates = np.stack([a[1:] / a[0], b[1:] / b[0]])
        rates = np.where(np.isnan(rates), rates[::-1], rates)  # a kind that one model lacks has the other's rate
        moved[i] = moved[i - 1] + np.nan_to_num(rates.mean(0)) @ (shares[1] - shares[0])
    whole = np.array([[one[1].sum(), one[2].sum()] for one in kinds])
    path = whole.mean(0) + moved - moved.mean(0)
    change = whole[-1] - whole[0]
    hits, cost = moved[-1] / change
    return {"hits": float(hits), "cost": float(cost), "slope": float(local_slope(path[:, 0], path[:, 1]))}


# As a page shows it


FITTED = ("two_kinds", "solved", "alike", "left", "by_entropy", "by_entropy_hits")


def expected_by_all(costs: Sequence[Costs], found: Sequence[Entropies]) -> pd.DataFrame:
    """`expected_slopes` and, where there are entropies, `by_entropy`, of all that are comparable.

    Columns dataset, family, measured, and FITTED: the slope by two kinds, solved or not, all alike; left by two kinds;
    the slope by entropy, and the share of the rise of RBP_1 by entropy, NaN without entropies.
    """
    rows = []
    for one in costs:
        if not comparable(one):
            continue
        own = [e for e in found if (e.store.dataset, e.store.family) == (one.dataset, one.family)]
        by = by_entropy(own) if len(own) == len(one.models) else {"slope": np.nan, "hits": np.nan}
        rows.append((one.dataset, one.family, *expected_slopes(one).values(), by["slope"], by["hits"]))
    return pd.DataFrame(rows, columns=[*CELL, "measured", *FITTED])


def slopes_shown(lines: pd.DataFrame, label: str) -> dict[str, Any]:
    """`from_one_line` as a page shows it; label: whose b it is."""
    return shown(
        lines,
        {
            "dataset": "text",
            "family": "family",
            "models": "models",
            ("hit_low", "hit_high"): ("RBP₁", "{:.2f} to {:.2f}"),
            "per_nat": ("b per nat", "{:.3f}"),
            "at_zero": ("line at CE = 0", "{:.2f}"),
            "r_squared": ("R² of the line", "{:.3f}"),
            "slope": ("slope", "{:.2f}"),
            "expected": (f"with {label} b", "{:.2f}"),
            "solved": ("solved or not", "{:.2f}"),
        },
        caption="<b>The slope d ln(−ln RBP₁)/d ln CE, and the straight line of RBP₁ in CE,</b> by least squares "
        f"through the models of a family. “With {label} b”: the slope that this one b gives at the models’ own "
        "RBP₁ and CE. “Solved or not”: the slope if contexts were either always hit, at no cost, or all alike.",
    )


def turned_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`turned` of several texts as a page shows it."""
    names: dict[Any, Any] = {
        "share": "λ",
        "gap": "L_m − L_h",
        "hit_cost": "L_h",
        "miss_cost": "L_m",
        "per_nat": "b",
        "slope": "slope",
    }
    cells = zip(table["value"], table["low"], table["high"], strict=True)
    texts = [f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if np.isfinite(low) else "") for value, low, high in cells]
    rows = table.assign(text=texts)
    wide = rows.pivot_table(index=CELL, columns="quantity", values="text", aggfunc="first").reset_index()
    return shown(
        wide,
        {"dataset": "text", "family": "family"} | names,
        caption="<b>What a fall of the cross-entropy is made of.</b> λ: its share that comes from misses that become "
        "hits. Such a token saves L_m − L_h nats, the mean −ln p of misses less that of hits. Where that is constant, "
        f"b = λ/(L_m − L_h). {level:.0%} intervals by documents.",
        data=table,
    )


def mixtures_shown(expected: pd.DataFrame) -> dict[str, Any]:
    """`expected_by_all` as a page shows it."""
    return shown(
        expected,
        {
            "dataset": "text",
            "family": "family",
            "measured": ("measured", "{:.2f}"),
            "two_kinds": ("two kinds", "{:.2f}"),
            "solved": ("solved or not", "{:.2f}"),
            "alike": ("all alike", "{:.2f}"),
            "left": ("left by two kinds", "{:.0%}"),
            "by_entropy": ("by entropy", "{:.2f}"),
            "by_entropy_hits": ("hits by entropy", "{:.0%}"),
        },
        caption="<b>The slope that mixtures give</b>, fitted to each text’s tokens. “Left”: the share of the change of "
        "−ln p that two fixed kinds of tokens do not hold. “By entropy”: contexts sorted by entropy, of which only the "
        "shares move; “hits”: how much of the rise of RBP₁ this makes.",
    )


def derived_listed(found: Sequence[Derived]) -> str:
    """`derived` as a page shows it: the slope of each family of mixtures, and what moves."""
    return formula_list((f"{one.name} (what moves: {one.moves})", sp.latex(one.slope)) for one in found)
