"""Score the predictions that were made before the ladders were trained (data/predictions/ladders.toml).

A prediction of a number is a density: a normal distribution in two halves that meet at `middle`, each with half of the
probability, so that a tenth lies below `low` and a tenth above `high`. A naive guess is a normal distribution with its
interval. The log score is the logarithm of the density (or of the probability) that was given to the outcome:
higher is better, and their difference does not depend on the unit.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.special import logsumexp
from scipy.stats import binom, norm

from companion.chapters.families import LSTM, TRANSFORMER, exponents, planned, rung_of
from ladder.making import PREDICTIONS
from ladder.shipped import ABLATION, FIRST, counted
from rbp import provenance
from rbp.arrays import Integers, Reals
from rbp.errors import DataError
from rbp.figures.curves import SIGNED
from rbp.figures.style import FAINT, INK, Panels
from rbp.figures.wording import dataset_label, family_label
from rbp.io import label
from rbp.laws.power import curvature
from rbp.measurements import Source
from rbp.measurements.counts import Counts
from rbp.measurements.ranked import Ranked
from rbp.report.display import Columns, shown

EVENT = "event"
MISS = "#C2571A"  # of outcomes outside their interval; no family's colour
_REMEDY = "Restore it: git checkout -- data/predictions."
KINDS = {
    "exponent": "exponent in S",
    "exponent_difference": "difference of exponents",
    "cross_entropy": "cross-entropy",
    "cross_entropy_difference": "difference of cross-entropies",
    "offset": "offset at equal cross-entropy",
    "zigzag": "zigzag",
    "curvature": "curvature",
    ABLATION: "ablation of heads",
    "budgets": "exponents and budgets",
    "slope_in_cross_entropy": "slope in cross-entropy",
    "sister_law": "terms of the sister law",
    "seeds": "seeds",
    EVENT: "event",
}


def read_predictions(path: Path = PREDICTIONS) -> tuple[pd.DataFrame, float]:
    """Read the predictions in their order, and the probability of their intervals.

    Columns kind, family, than, k, dataset, rung, cross_entropy, seed, run, what, middle, low, high, naive_low,
    naive_high, probability, naive, sure, reason; missing where a kind has none. Raises DataError for a malformed file.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        level = float(content.pop("level"))
        rows = [{"kind": kind, **row} for kind, entries in content.items() for row in entries]
        for row in rows:
            if row["kind"] != EVENT:
                row["naive_low"], row["naive_high"] = row.pop("naive")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"these are no predictions: {error}", label(path), _REMEDY) from None
    provenance.note(path)
    named = ["kind", "family", "than", "k", "dataset", "rung", "cross_entropy", "seed", "run", "what"]
    numbers = ["middle", "low", "high", "naive_low", "naive_high", "probability", "naive", "sure", "reason"]
    table = pd.DataFrame(rows).reindex(columns=[*named, *numbers])
    return table.assign(sure=table["sure"].eq(True)), level


@dataclass(frozen=True)
class Findings:
    """The measurements that the predictions are compared with.

    texts: the counts of all models of the ladder on each text; stores: the rank stores of each family at its largest
    budget; ablated: rungs of the first ladder with their ablations (`companion.chapters.families.with_ablations`).
    """

    texts: Sequence[Counts]
    stores: Mapping[str, Source]
    ablated: Sequence[Counts]

    @property
    def datasets(self) -> list[str]:
        """The texts."""
        return [text.dataset for text in self.texts]

    def on(self, dataset: str) -> Counts:
        """Return the counts of a text."""
        return self.texts[self.datasets.index(dataset)]

    def budgets(self, family: str) -> list[int]:
        """List the budgets of a family; none where it is not available."""
        return self.texts[0].budgets(family)

    def line(
        self, family: str, dataset: str, budget: int | None = None
    ) -> dict[str, tuple[float, dict[int | None, float]]]:
        """Map a family's rungs on a text to size, and ln y by k (None: cross-entropy); budget None: the largest."""
        counts = self.on(dataset).of(family, budget, seed=0)
        values = np.column_stack([np.log(counts.cross_entropy), counts.log_neg_log_rbp])
        rows = [dict(zip((None, *counts.thresholds), y.tolist(), strict=True)) for y in values]
        return dict(zip(counts.models["rung"], zip(counts.sizes.astype(float), rows, strict=True), strict=True))

    def arrays(
        self, family: str, dataset: str, k: int | None, *, rungs: set[str] | None = None, budget: int | None = None
    ) -> tuple[Reals, Reals]:
        """Return sizes and ln y of a family's rungs."""
        line = self.line(family, dataset, budget)
        chosen = [line[rung] for rung in line if rungs is None or rung in rungs]
        return np.array([size for size, _ in chosen]), np.array([y[k] for _, y in chosen])

    def exponent(
        self, family: str, dataset: str, k: int, *, rungs: set[str] | None = None, budget: int | None = None
    ) -> float:
        """Fit α over the rungs."""
        sizes, y = self.arrays(family, dataset, k, rungs=rungs, budget=budget)
        return float(exponents(sizes, y[None])[0])

    def residuals(self, family: str, k: int) -> dict[str, Reals]:
        """Subtract the line through all rungs from ln y, by text."""
        by_text = {}
        for dataset in self.datasets:
            sizes, y = self.arrays(family, dataset, k)
            x = np.log(sizes)
            by_text[dataset] = y - np.polyval(np.polyfit(x, y, 1), x)
        return by_text


def at_cross_entropy(y: Reals, entropy: Reals, at: float) -> float:
    """Interpolate y at a cross-entropy, linear between the neighbours; NaN outside. Shapes (models,)."""
    order = np.argsort(entropy)
    inside = entropy[order][0] <= at <= entropy[order][-1]
    return float(np.interp(at, entropy[order], y[order])) if inside else float("nan")


def _exponent(row: Any, findings: Findings) -> float:
    return findings.exponent(row.family, row.dataset, int(row.k))


def _exponent_difference(row: Any, findings: Findings) -> float:
    shared = set(findings.line(row.family, row.dataset)) & set(findings.line(row.than, row.dataset))
    return findings.exponent(row.family, row.dataset, int(row.k), rungs=shared) - findings.exponent(
        row.than, row.dataset, int(row.k), rungs=shared
    )


def _cross_entropy(row: Any, findings: Findings) -> float:
    return float(np.exp(findings.line(row.family, row.dataset)[row.rung][1][None]))


def _cross_entropy_difference(row: Any, findings: Findings) -> float:
    ends = [np.exp(findings.line(family, row.dataset)[row.rung][1][None]) for family in (row.family, row.than)]
    return float(ends[0] - ends[1])


def _offset(row: Any, findings: Findings) -> float:
    ends = []
    for family in (row.family, row.than):
        entropy = np.exp(findings.arrays(family, row.dataset, None)[1])
        y = np.exp(findings.arrays(family, row.dataset, int(row.k))[1])
        ends.append(at_cross_entropy(y, entropy, row.cross_entropy))
    return ends[0] - ends[1]


def _zigzag(row: Any, findings: Findings) -> float:
    residuals = findings.residuals(TRANSFORMER, int(row.k))
    if row.what.startswith("root mean square"):
        return float(np.mean([np.sqrt(np.sum(residual**2) / (len(residual) - 2)) for residual in residuals.values()]))
    rungs = list(findings.line(TRANSFORMER, findings.datasets[0]))
    smaller, larger = rungs.index("59k"), rungs.index("150k")
    return float(np.mean([residual[smaller] - residual[larger] for residual in residuals.values()]))


def _curvature(row: Any, findings: Findings) -> float:
    lines = [findings.arrays(row.family, dataset, int(row.k)) for dataset in findings.datasets]
    return float(np.mean([curvature(sizes, np.exp(y)).coefficient for sizes, y in lines]))


def _budgets(row: Any, findings: Findings) -> float:
    budgets = findings.budgets(row.family)
    if row.what == "exponent in D from 0.5 to 8 M tokens at 150k":
        y = [findings.line(row.family, row.dataset, b)["150k"][1][int(row.k)] for b in budgets]
        return float(exponents(np.array(budgets, dtype=np.float64), np.array(y)[None])[0])
    # the rungs that both budgets have
    rungs = set(findings.line(row.family, row.dataset, budgets[0])) & set(findings.line(row.family, row.dataset))
    first = findings.exponent(row.family, row.dataset, int(row.k), rungs=rungs, budget=budgets[0])
    if row.what == "exponent in S at 0.5 M tokens":
        return first
    if len(budgets) < 2:
        return float("nan")
    return findings.exponent(row.family, row.dataset, int(row.k), rungs=rungs) - first


def _slope(row: Any, findings: Findings) -> float:
    y = findings.arrays(row.family, row.dataset, int(row.k))[1]
    return float(np.polyfit(findings.arrays(row.family, row.dataset, None)[1], y, 1)[0])


def loss_terms(errors: Integers, nll: Reals) -> Reals:
    """Split cross-entropy into error-entropy, self-alignment and confidence, shape (3,), in nats (arXiv:2510.04067).

    errors: rank less 1, shape (T,); nll: −ln p of the correct token. With p_e the share of tokens at error e and
    −ln Q_e their mean −ln p, the terms are −Σ p_e ln p_e, Σ p_e ln(p_e·ΣQ/Q_e) and −ln ΣQ.
    """
    count = np.bincount(errors)
    seen = count > 0
    share = count[seen] / len(errors)
    log_q = -np.bincount(errors, nll)[seen] / count[seen]
    entropy, confidence = -float(share @ np.log(share)), -float(logsumexp(log_q))
    return np.array([entropy, nll.mean() - entropy - confidence, confidence])


def _sister_law(row: Any, findings: Findings) -> float:
    for store in findings.stores[row.family].stores:
        if store.dataset == row.dataset and rung_of(store.model, row.family) == row.rung:
            ranked = Ranked(store)
            errors = np.asarray(ranked.ranks, dtype=np.int64) - 1
            parts = loss_terms(errors, ranked.tokens["nll"].to_numpy(np.float64))
            return float(parts[0 if row.what.startswith("error-entropy") else 1] / parts.sum())
    raise KeyError(row.rung)


def _seeds(row: Any, findings: Findings) -> float:
    """Compute the root mean square over the rungs trained again with this seed. Raises KeyError if there is none."""
    counts, ending = findings.on(row.dataset).of(TRANSFORMER), f"-seed{row.seed:.0f}"
    y = dict(zip(counts.names, counts.log_neg_log_rbp[:, counts.place(int(row.k))], strict=True))
    away = [y[model] - y[model.removesuffix(ending)] for model in y if model.endswith(ending)]
    if not away:
        raise KeyError(row.seed)
    return float(np.sqrt(np.mean(np.square(away))))


def _ablation(row: Any, findings: Findings) -> float:
    for counts in findings.ablated:
        if counts.dataset == row.dataset:
            y = dict(zip(counts.names, counts.log_neg_log_rbp[:, counts.place(int(row.k))], strict=True))
            return float(y[f"ladder-{row.run}"] - y[f"ladder-{row.than}"])
    raise KeyError(row.dataset)


_MEASURES: dict[str, Callable[[Any, Findings], float]] = {
    "exponent": _exponent,
    "exponent_difference": _exponent_difference,
    "cross_entropy": _cross_entropy,
    "cross_entropy_difference": _cross_entropy_difference,
    "offset": _offset,
    "zigzag": _zigzag,
    "curvature": _curvature,
    "budgets": _budgets,
    "slope_in_cross_entropy": _slope,
    "sister_law": _sister_law,
    "seeds": _seeds,
    ABLATION: _ablation,
}


def _grows_with_tokens(findings: Findings) -> bool:
    budgets = findings.budgets(TRANSFORMER)
    pairs = []
    for dataset in findings.datasets:
        rungs = set(findings.line(TRANSFORMER, dataset, budgets[0])) & set(findings.line(TRANSFORMER, dataset))
        pairs.append(
            [findings.exponent(TRANSFORMER, dataset, 1, rungs=rungs, budget=b) for b in (budgets[0], budgets[-1])]
        )
    return all(last > first for first, last in pairs)


def _holds_0(findings: Findings) -> bool:
    sizes, y = findings.arrays(TRANSFORMER, "wikipedia", 1)
    bend = curvature(sizes, np.exp(y), level=0.95)
    return bend.low <= 0 <= bend.high


def _lstm_is_lower(findings: Findings) -> bool:
    return findings.line(LSTM, "wikipedia")["1m"][1][None] < findings.line(TRANSFORMER, "wikipedia")["1m"][1][None]


#: what an event says → the families that it needs, and whether it came true; others need a family that was not trained
_EVENTS: dict[str, tuple[tuple[str, ...], Callable[[Findings], bool]]] = {
    "neox's exponent in S at 8 M tokens is above that at 0.5 M on all four texts, at k = 1": (
        (TRANSFORMER,),
        _grows_with_tokens,
    ),
    "neox's 95% interval of the quadratic term at k = 1 on wikipedia holds 0": ((TRANSFORMER,), _holds_0),
    "the LSTM of 1m has a lower CE than neox of 1m on wikipedia": ((TRANSFORMER, LSTM), _lstm_is_lower),
}

NO_FAMILY, NO_SEEDS = "its family was not trained", "the seeds are not trained"
NO_RUNG, NOT_REACHED = "a model of it is not there", "the models do not reach it"


def needed_models(row: Any, rungs: Mapping[str, tuple[str, ...]], budgets: Sequence[int]) -> set[tuple[str, str, int]]:
    """List the models that a prediction is about, as the recipe has them: family, rung and budget.

    rungs, budgets: of the recipe (`families.planned`). The offsets at equal cross-entropy need no certain one.
    """
    last, families = budgets[-1], [name for name in (row.family, row.than) if isinstance(name, str)]
    if row.kind == "zigzag" or (row.kind == EVENT and row.what.startswith("neox")):
        families = [TRANSFORMER]
    if row.kind == EVENT and row.what.startswith("the LSTM"):
        return {(family, "1m", last) for family in (TRANSFORMER, LSTM)}
    if row.kind in ("offset", ABLATION, "seeds"):
        return set()
    if isinstance(row.rung, str):
        return {(family, row.rung, last) for family in families}
    shared = set.intersection(*(set(rungs[family]) for family in families)) if families else set()
    if row.what == "exponent in D from 0.5 to 8 M tokens at 150k":
        return {(family, "150k", budget) for family in families for budget in budgets}
    both = row.kind == "budgets" or (row.kind == EVENT and "0.5 M" in row.what)
    return {
        (family, rung, at) for family in families for rung in shared for at in ({budgets[0], last} if both else {last})
    }


def measure_outcomes(table: pd.DataFrame, findings: Findings) -> pd.DataFrame:
    """Add the outcome to each prediction: `outcome` (1 or 0 of an event; missing where none can be measured).

    `untested` says why it is missing: a model that the prediction needs is missing, or no model reaches it.
    """
    rungs, budgets = planned()
    available = {*findings.texts[0].models[["family", "rung", "budget"]].itertuples(index=False, name=None)}
    rows = [_outcome(row, findings, rungs, budgets, available) for row in table.itertuples()]
    return table.assign(outcome=[value for value, _ in rows], untested=[why for _, why in rows])


def _outcome(
    row: Any,
    findings: Findings,
    rungs: Mapping[str, tuple[str, ...]],
    budgets: Sequence[int],
    available: set[tuple[str, str, int]],
) -> tuple[float, str]:
    nothing = float("nan")
    families, happens = _EVENTS.get(row.what, ((), None)) if row.kind == EVENT else ((), None)
    compared = () if row.kind == ABLATION else (row.family, row.than)
    named = {*families, *(name for name in compared if isinstance(name, str))}
    if (row.kind == EVENT and happens is None) or not named <= set(rungs):
        return nothing, NO_FAMILY
    if not needed_models(row, rungs, budgets) <= available or not all(map(findings.budgets, named)):
        return nothing, NO_RUNG
    try:
        value = float(happens(findings)) if happens else _MEASURES[row.kind](row, findings)
    except KeyError:  # of a seed, or of a rung's store
        return nothing, NO_SEEDS if row.kind == "seeds" else NO_RUNG
    return value, "" if np.isfinite(value) else NOT_REACHED


def score(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Score the tested predictions of `measure_outcomes`, a row each, whose index is their number in the file.

    inside, naive_inside: whether the interval holds the outcome (missing of events); score, naive_score: log scores, of
    numbers in nats of their own unit; gain: ours less the naive one; away: the outcome in standard deviations from the
    middle, on its side.
    """
    tested = table[table["outcome"].notna()]
    columns = ("outcome", "middle", "low", "high", "naive_low", "naive_high", "probability", "naive")
    outcome, middle, low, high, naive_low, naive_high, chance, naive = tested[list(columns)].to_numpy(np.float64).T
    wide, event = norm.ppf((1 + level) / 2), tested["kind"].eq(EVENT).to_numpy()
    spread = _spread(tested, level)
    density = norm.logpdf(outcome, middle, spread)
    naive_density = norm.logpdf(outcome, (naive_low + naive_high) / 2, (naive_high - naive_low) / 2 / wide)
    tested = tested.assign(
        away=(outcome - middle) / spread,
        inside=np.where(event, np.nan, (low <= outcome) & (outcome <= high)),
        naive_inside=np.where(event, np.nan, (naive_low <= outcome) & (outcome <= naive_high)),
        score=np.where(event, np.log(np.where(outcome == 1, chance, 1 - chance)), density),
        naive_score=np.where(event, np.log(np.where(outcome == 1, naive, 1 - naive)), naive_density),
    )
    gain = tested["score"] - tested["naive_score"]
    return tested.assign(gain=gain, better=gain > 0)


def _spread(table: pd.DataFrame, level: float) -> Reals:
    """Return the standard deviation of each prediction on the side of its outcome."""
    outcome, middle, low, high = table[["outcome", "middle", "low", "high"]].to_numpy(np.float64).T
    return np.asarray(np.where(outcome >= middle, high - middle, middle - low) / norm.ppf((1 + level) / 2))


def add_deviations(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Add how many predicted standard deviations each outcome lies from the middle: `away`."""
    return table.assign(away=(table["outcome"] - table["middle"]) / _spread(table, level))


def count_inside(table: pd.DataFrame, level: float) -> dict[str, float]:
    """Count how many intervals of `score` hold, and how many independent ones of this probability would.

    intervals, inside, naive_inside, better (than the naive guess, in log score); likely_low, likely_high: the central
    95% of the binomial distribution; p: of so few or fewer. Predictions of one set of models are not independent, which
    makes the true range wider, and p larger.
    """
    numbers = table.dropna(subset="inside")
    low, high = binom.interval(0.95, len(numbers), level)
    held = {name: int(numbers[name].sum()) for name in ("inside", "naive_inside")}
    counts: dict[str, float] = {"intervals": len(numbers), **held, "better": int((numbers["gain"] > 0).sum())}
    p = float(binom.cdf(held["inside"], len(numbers), level))
    return counts | {"likely_low": int(low), "likely_high": int(high), "p": p}


def name_extremes(table: pd.DataFrame, names: "pd.Series[str]") -> dict[str, str]:
    """Name the predictions that gained most and least over the naive guess (`score`)."""
    tested = names.reindex(table.index)
    return {"worst": tested.iloc[table["gain"].argmin()], "best": tested.iloc[table["gain"].argmax()]}


def summarize_events(table: pd.DataFrame, likely: float) -> dict[str, int]:
    """Count the events, all, happened, and called nearly certain: given a probability of `likely` or more."""
    events = table[table["kind"] == EVENT]
    sure = table["sure"] | (table["probability"] >= likely) | (table["probability"] <= 1 - likely)
    counts = {"events": len(events), "events_happened": int(events["outcome"].sum())}
    return counts | {"sure_tested": int(sure.sum()), "sure_right": int((table["outcome"][sure] == 1).sum())}


def score_kinds(table: pd.DataFrame, tested: pd.DataFrame) -> pd.DataFrame:
    """Sum the scores of each kind of prediction, a row each.

    Columns key (its name in the file), kind (its label), made, tested, inside (how many intervals hold; missing of
    events), better (than the naive guess), gain (the sum of the log scores over the naive ones).
    """
    rows = []
    for kind, group in table.groupby("kind", sort=False):
        scored = tested[tested["kind"] == kind]
        row = {"key": kind, "kind": KINDS[str(kind)], "made": len(group), "tested": len(scored)}
        inside = scored["inside"].sum() if scored["inside"].notna().any() else np.nan
        rows.append(row | {"inside": inside, "better": int(scored["better"].sum()), "gain": scored["gain"].sum()})
    return pd.DataFrame(rows)


def describe(table: pd.DataFrame) -> "pd.Series[str]":
    """Describe each prediction in a few words, from its fields."""

    def words(row: Any) -> str:
        parts = [row.what if isinstance(row.what, str) else KINDS[row.kind]]
        if isinstance(row.run, str):
            parts.append(f"{row.run} against {row.than}")
        elif isinstance(row.family, str):
            parts.append(" less ".join(family_label(name) for name in (row.family, row.than) if isinstance(name, str)))
        parts += [row.rung] if isinstance(row.rung, str) else []
        parts += [f"k = {row.k:.0f}"] if pd.notna(row.k) else []
        parts += [dataset_label(row.dataset)] if isinstance(row.dataset, str) else []
        parts += [f"at {row.cross_entropy:g} nats"] if pd.notna(row.cross_entropy) else []
        return ", ".join(parts)

    return pd.Series([words(row) for row in table.itertuples()], table.index, dtype="str")


def largest_against_known(texts: Sequence[Counts]) -> float:
    """Divide the largest size trained by the largest of the first ladder, from which the forecasts were made."""
    known = counted([1], families=[FIRST])[0].of(FIRST)
    return float(max(texts[0].of(family).sizes.max() for family in (TRANSFORMER, LSTM)) / known.sizes.max())


# ── What the page shows


def plot_scores(files: Mapping[str, pd.DataFrame], level: float) -> Panels:
    """Plot where the outcomes fell in the predicted distributions: a panel for each file, a row for each label.

    files: label, away and inside of each prediction of a number. Filled: inside the interval, which is shaded; hollow:
    outside; arrows: beyond the view.
    """
    wide, reach = norm.ppf((1 + level) / 2), 4.0

    def draw(ax: Axes, name: str) -> None:
        labels = files[name]["label"].unique().tolist()
        ax.axvspan(-wide, wide, color=FAINT, alpha=0.6, lw=0)
        ax.axvline(0, color=INK, lw=0.9)
        for i, kind in enumerate(labels):
            rows = files[name][files[name]["label"] == kind].sort_values("away")
            offsets = np.linspace(-0.3, 0.3, len(rows)) if len(rows) > 1 else np.zeros(1)
            inside = rows["inside"].eq(1).to_numpy()
            x, y = rows["away"].to_numpy(float), i + offsets
            ax.plot(x[inside], y[inside], "o", color=INK, ms=5, mew=0)
            for seen, marker in ((np.abs(x) <= reach, "o"), (x > reach, ">"), (x < -reach, "<")):
                at = ~inside & seen
                ax.plot(x[at].clip(-reach, reach), y[at], marker, color=MISS, mfc="none", mew=1.4, ms=5.5)
        ax.set_yticks(range(len(labels)), [fill(kind, 22, break_on_hyphens=False) for kind in labels])
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_xlim(-1.08 * reach, 1.08 * reach)
        ax.xaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("predicted standard deviations")
        ax.set_title(name)
        ax.tick_params(axis="y", length=0)
        ax.spines.left.set_visible(False)

    return Panels(list(files), draw, size=(4.6, 5.4))


def score_files(files: Mapping[str, pd.DataFrame], level: float) -> dict[str, Any]:
    """Compare the files' scores with both naive guesses, a row each, for `Page.table`.

    files: tables with the columns of `score` and `with_fair_guess`.
    """
    rows = []
    for name, table in files.items():
        numbers = table.dropna(subset="inside")
        row = {"file": name, **count_inside(numbers, level)}
        fair = numbers.dropna(subset="fair_gain")
        if len(fair):
            row |= {"fair": len(fair), "fair_inside": int(fair["fair_inside"].sum())}
            row |= {"fair_better": int((fair["fair_gain"] > 0).sum())}
        rows.append(row | {"gain": table["gain"].sum()})
    columns: Columns = {
        "file": "registered about",
        ("inside", "intervals"): ("intervals that hold", "{:.0f} of {:.0f}"),
        ("likely_low", "likely_high"): ("likely", "{:.0f} to {:.0f}"),
        "naive_inside": "naive ones",
        ("better", "intervals"): ("beat the naive guess", "{:.0f} of {:.0f}"),
        "gain": ("log score gained", "{:+.1f}"),
        ("fair_inside", "fair"): ("fair guesses that hold", "{:.0f} of {:.0f}"),
        ("fair_better", "fair"): ("beat the fair guess", "{:.0f} of {:.0f}"),
    }
    caption = (
        "<b>For our small models about as many intervals hold as should; for others, fewer.</b> Likely: how many of so "
        f"many independent intervals of {level:.0%} hold (95%). Log score gained: over the naive guess, in nats, of "
        "numbers and events."
    )
    return shown(pd.DataFrame(rows), columns, caption=caption)


def list_predictions(table: pd.DataFrame, names: "pd.Series[str]") -> pd.DataFrame:
    """List predictions with their names first, for a download. names: `describe`."""
    listed = table.assign(prediction=names.reindex(table.index))
    return listed[["prediction", *table.columns]].dropna(axis="columns", how="all")


def stack_files(files: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Stack the predictions of several files, with a column that names the file."""
    columns = ["label", "middle", "low", "high", "outcome", "away", "inside"]
    return pd.concat([table[columns].assign(file=name) for name, table in files.items()], ignore_index=True)
