"""Is −ln RBP_k a function of cross-entropy? Within a family, at equal cross-entropy between models, and ahead in size.

The curve is ln(−ln RBP_k) against ln CE: a line, which is a power law in CE, or a parabola, where only a smooth
function is asked for. Scatter about it is given in per cent of −ln RBP_k, and divided by the slope, in per cent of CE:
how far CE would have to move to explain it. That is comparable over k.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from statsmodels.regression.linear_model import OLS

from rbp.core.arrays import Reals, check_level
from rbp.core.errors import DataError, FitError
from rbp.evidence import Source
from rbp.evidence.counts import LeftOut
from rbp.paper.ladder import counts_at, trained_again
from rbp.paper.two_metrics import pair_metrics
from rbp.stats import cells
from rbp.stats.power_law import fit_power_law
from rbp.stats.resampling import interval, student, variance

CELL = ["dataset", "family", "k"]
SWEEP = ["context", "batch"]


def pairs_by_k(table: pd.DataFrame) -> pd.DataFrame:
    """`pair_metrics` at every k of a measurement table, a row for each model and k: its columns, and k.

    A k whose models have no cross-entropy is left out, and so is a −ln RBP_k of zero, which has no logarithm. Raises
    DataError where nothing is left.
    """
    parts = []
    for k in sorted(table["k"].dropna().unique()):
        try:
            parts.append(pair_metrics(table, int(k)).assign(k=int(k)))
        except DataError:
            continue
    pairs = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if pairs.empty or not (pairs["neg_log_rbp"] > 0).any():
        raise DataError(
            "no model has both its cross-entropy and a −ln RBP_k on one dataset",
            "measurements",
            "Give a source that holds rows of both metrics for the same models.",
        )
    return pairs[pairs["neg_log_rbp"] > 0].sort_values([*CELL, "size", "model"], ignore_index=True)


def entropy_curves(pairs: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The curve of each dataset, family and k of `pairs_by_k` that has four models of different cross-entropy.

    Columns dataset, family, k, n; slope, low, high (of ln(−ln RBP_k) on ln CE), r_squared; scatter, scatter_size (per
    cent of −ln RBP_k, about the power law in CE, and in S); smooth, smooth_size (the same about parabolas in
    logarithms: what any smooth curve leaves); in_entropy (smooth over slope: per cent of CE). Intervals take models as
    independent. Raises FitError where no cell has four models.
    """
    rows = []
    for (dataset, family, k), own in pairs.groupby(CELL):
        entropy, rank = own["cross_entropy"], own["neg_log_rbp"]
        if entropy.nunique() < 4:
            continue
        try:
            power = fit_power_law(entropy, rank, level=level)
        except FitError:
            continue
        smooth = _scatter(entropy, rank, 2)
        rows.append(
            {"dataset": dataset, "family": family, "k": k, "n": power.n, "slope": power.slope}
            | {"low": -power.alpha_high, "high": -power.alpha_low, "r_squared": power.r_squared}
            | {"scatter": 100 * power.residual_se, "scatter_size": _scatter(own["size"], rank, 1)}
            | {"smooth": smooth, "smooth_size": _scatter(own["size"], rank, 2), "in_entropy": smooth / abs(power.slope)}
        )
    if not rows:
        remedy = "Give a source that holds both metrics of more models."
        raise FitError("no family has both metrics of four models", "measurements", remedy)
    return pd.DataFrame(rows)


def tightest(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `entropy_curves` at the k up to 1000 where −ln RBP_k is most nearly a smooth function of CE.

    That is where `in_entropy` is least; one for each dataset and family that has five models at several k.
    """
    several = along_k(table[table["k"] <= 1000])
    return table.loc[several.groupby(CELL[:2])["in_entropy"].idxmin()].reset_index(drop=True)


def along_k(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `entropy_curves` of five models and more, as many as at any k, of families and texts of several k."""
    kept = table[(table["n"] > 4) & table["smooth_size"].notna()]
    kept = kept[kept["n"] == kept.groupby(CELL[:2])["n"].transform("max")]
    return kept[kept.groupby(CELL[:2])["k"].transform("size") > 1]


def _scatter(x: npt.ArrayLike, y: npt.ArrayLike, degree: int) -> float:
    """The scatter of ln y about a polynomial in ln x, per cent; NaN for fewer different x than twice its degree + 1."""
    at = np.log(np.asarray(x, dtype=np.float64))
    design = np.vander(at - at.mean(), degree + 1)
    if len(np.unique(at)) < 2 * degree + 1:
        return float("nan")
    fit = OLS(np.log(np.asarray(y, dtype=np.float64)), design).fit()
    return float(100 * np.sqrt(fit.ssr / fit.df_resid))


# --- By documents, the same ones for both metrics of all models


def _line(left: LeftOut, k: int) -> tuple[Reals, Reals]:
    """Intercept and slope of the line through the rungs, of ln(−ln RBP_k) on ln CE.

    Both have shape (1 + D,): of the text as it is, and of it without each document.
    """
    rungs = left.keep(left.counts.firsts)
    x, y = rungs.x, rungs.at(k)
    away = x - x.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # where there is no miss there is no logarithm
        slope: Reals = (away * y).sum(axis=1) / (away**2).sum(axis=1)
        return y.mean(axis=1) - slope * x.mean(axis=1), slope


def by_document(source: Source, ks: Sequence[int]) -> list[LeftOut]:
    """The documents behind those of its sources that have rank stores, a text each; none where none has.

    Models of infinite cross-entropy are left out, and so are texts of one document, and those of fewer than three
    sizes. Raises what `Source.counts` raises.
    """
    if not source.ranked.stores:
        return []
    vocabulary = min(store.vocabulary for store in source.ranked.stores)
    counts, _ = counts_at(source.ranked, [k for k in ks if k <= vocabulary], [])
    known = [one.keep(np.isfinite(one.cross_entropy)) for one in counts]
    return [one.left_out() for one in known if len(one.tokens) > 1 and len(one.firsts) > 2]


def text_curves(texts: Sequence[LeftOut], *, level: float = 0.95) -> pd.DataFrame:
    """The slope of each curve with its interval from documents, and how much of its scatter they explain.

    Columns dataset, family, k, documents, text_low, text_high (of the slope), text_scatter (per cent of −ln RBP_k: the
    part of `smooth` that other documents would make on these very models; NaN for three models).
    """
    rows = []
    for left in texts:
        one = left.keep(left.counts.firsts)
        cell, documents = (one.counts.dataset, one.counts.families[0]), len(one.counts.tokens)
        df, x = len(one.counts.sizes) - 3, one.x - one.x[0].mean()
        basis = np.linalg.qr(np.stack([np.ones_like(x), x, x**2], axis=2))[0]
        for k in one.counts.thresholds:
            _, low, high = interval(_line(left, k)[1], level=level)
            if not np.isfinite(low):
                continue
            y = one.at(k)
            away = y - np.einsum("rij,rkj,rk->ri", basis, basis, y)  # about each row's own parabola
            moved = float(variance(away).sum()) / df if df else np.nan
            rows.append((*cell, k, documents, low, high, 100 * np.sqrt(moved)))
    columns = [*CELL, "documents", "text_low", "text_high", "text_scatter"]
    return pd.DataFrame(rows, columns=columns)


def seeds(texts: Sequence[LeftOut], *, level: float = 0.95) -> pd.DataFrame:
    """Models trained again with another seed: how far −ln RBP_k moves beyond what the curve makes of their CE.

    Columns dataset, family, k, size, entropy (change of CE, per cent), offset (of −ln RBP_k at equal CE, per cent),
    low, high (by documents, each left out of the curve's slope too), apart (the interval leaves out 0).
    """
    rows = []
    for left in texts:
        one = left.counts
        for k in one.thresholds:
            slope, ranks = _line(left, k)[1], left.at(k)
            for m, first in zip(*trained_again(one), strict=True):
                x, y = left.x[:, m] - left.x[:, first], ranks[:, m] - ranks[:, first]
                offset, low, high = 100 * np.expm1(interval(y - slope * x, level=level))
                cell = (one.dataset, one.families[0], k, int(one.sizes[m]))
                rows.append((*cell, 100 * np.expm1(x[0]), offset, low, high, low > 0 or high < 0))
    columns = [*CELL, "size", "entropy", "offset", "low", "high", "apart"]
    return pd.DataFrame(rows, columns=columns).dropna(subset=["low"]).reset_index(drop=True)


# --- At equal cross-entropy


def matched(
    points: pd.DataFrame, within: Sequence[str], between: str, *, order: Sequence[str] = (), level: float = 0.95
) -> pd.DataFrame:
    """−ln RBP_k of two groups of models at equal cross-entropy, wherever their ranges of it meet.

    Groups are the values of `between` among the rows of `points` that agree in `within`. Two get a line each,
    ln(−ln RBP_k) on ln CE, of one scatter (analysis of covariance). `first` comes first in `order`, or has more
    models. Groups of fewer than three, or without scatter, have none.

    Columns `within`, first, second, n_first, n_second; from_entropy, to_entropy, at (its middle); offset (the second's
    −ln RBP_k over the first's, less 1, per cent), low, high, apart (0 is outside); offset_from, offset_to (at the
    ends); difference_from, difference, difference_to (of −ln RBP_k); shift (per cent of CE that would explain the
    offset; NaN without a slope).
    """
    check_level(level)
    rows: list[dict[str, Any]] = []
    for key, own in points.groupby(list(within)):
        sizes = own.groupby(between).size()
        groups = sorted(sizes.index[sizes > 2], key=lambda name: (-sizes[name], str(name)))
        groups.sort(key=lambda name: list(order).index(name) if name in order else len(order))
        for first, second in combinations(groups, 2):
            both = [own[own[between] == name] for name in (first, second)]
            low, high = (max(g["cross_entropy"].min() for g in both), min(g["cross_entropy"].max() for g in both))
            if low < high and (row := _offsets(both[0], both[1], low, high, level)):
                cell = dict(zip(within, key, strict=True)) | {"first": first, "second": second}
                rows.append(cell | {"n_first": len(both[0]), "n_second": len(both[1])} | row)
    ends = ["from_entropy", "to_entropy", "at", "offset", "low", "high", "apart", "shift"]
    ends += [f"{what}{where}" for what in ("offset", "difference") for where in ("_from", "_to")] + ["difference"]
    return pd.DataFrame(rows, columns=[*within, "first", "second", "n_first", "n_second", *ends])


def _offsets(first: pd.DataFrame, second: pd.DataFrame, low: float, high: float, level: float) -> dict[str, Any] | None:
    at = (low + high) / 2
    both = pd.concat([first, second])
    x, y = np.log(both["cross_entropy"].to_numpy() / at), np.log(both["neg_log_rbp"].to_numpy())
    other = np.repeat([0.0, 1.0], [len(first), len(second)])
    design = np.column_stack([np.ones_like(x), x, other, other * x])
    if np.linalg.matrix_rank(design) < 4 or len(x) < 5:
        return None
    fit = OLS(y, design).fit()
    if fit.ssr <= len(x) * 1e-24:
        return None
    slope, ends = fit.conf_int(1 - level)[1:3]
    row: dict[str, Any] = {"from_entropy": low, "to_entropy": high, "at": at}
    for where, entropy in {"_from": low, "": at, "_to": high}.items():
        line = fit.params @ np.array([[1, 1], [np.log(entropy / at)] * 2, [0, 1], [0, np.log(entropy / at)]])
        row |= {
            f"offset{where}": 100 * np.expm1(line[1] - line[0]),
            f"difference{where}": float(np.diff(np.exp(line))[0]),
        }
    row |= {"low": 100 * np.expm1(ends[0]), "high": 100 * np.expm1(ends[1])}
    apart = bool(ends[0] > 0 or ends[1] < 0)
    shift = 100 * np.expm1(fit.params[2] / fit.params[1]) if slope[0] > 0 else np.nan
    return row | {"apart": apart, "shift": shift}


def at_equal_entropy(pairs: pd.DataFrame, texts: Sequence[LeftOut], *, level: float = 0.95) -> pd.DataFrame:
    """`matched` between the texts of each family: families may cut a text into other tokens, and nats per token of two
    tokenizers are two units.

    Columns family, those of `matched`, and text_low, text_high: the interval of the offset by the documents of both
    texts, where there are any. There, they are `apart` if that interval leaves out 0 as well.
    """
    found = matched(pairs, ["family", "k"], "dataset", level=level)
    there = {(one.counts.families[0], one.counts.dataset): one for one in texts}
    ends = []
    for row in found.to_dict("records"):
        first, second = (there.get((row["family"], row[which])) for which in ("first", "second"))
        if first and second and row["k"] in {*first.counts.thresholds} & {*second.counts.thresholds}:
            ends.append(_text_offset(first, second, row["k"], row["at"], level))
        else:
            ends.append((np.nan, np.nan))
    low, high = np.array(ends).reshape(-1, 2).T
    return found.assign(text_low=low, text_high=high, apart=found["apart"] & ~((low <= 0) & (high >= 0)))


def _text_offset(first: LeftOut, second: LeftOut, k: int, entropy: float, level: float) -> tuple[float, float]:
    """The interval of the second text's −ln RBP_k over the first's, less 1 (per cent), at one cross-entropy.

    The texts' documents are independent; of the degrees of freedom, those of the text with fewer.
    """
    lines = [_line(one, k) for one in (first, second)]
    there = [at_0 + slope * np.log(entropy) for at_0, slope in lines]
    fewer = min(len(one.counts.tokens) for one in (first, second))
    by_text = variance(there[0]) + variance(there[1])
    _, low, high = 100 * np.expm1(student(there[1][0] - there[0][0], by_text, fewer - 1, level=level))
    return float(low), float(high)


def size_at_equal_entropy(runs: pd.DataFrame) -> pd.DataFrame:
    """Does a larger model of equal cross-entropy, trained on less, rank otherwise? In each sweep of training runs.

    `runs` as `outside.xlstm_runs` has them, less the diverged. Columns sweep, architecture, n, span (the largest size
    over the smallest), effect (d ln(−ln RBP_1)/d ln S at equal cross-entropy, its curve being a parabola), per_tenfold
    (what ten times the size does, per cent). There is no interval: runs of a sweep are no independent draws.
    """
    rows = []
    for sweep, own in runs.groupby("sweep"):
        x, size = np.log(own["loss"].to_numpy()), np.log(own["size"].to_numpy())
        x = x - x.mean()
        fit = OLS(np.log(-np.log(own["accuracy"].to_numpy())), np.column_stack([np.ones_like(x), x, x**2, size])).fit()
        effect, span = float(fit.params[3]), float(np.exp(np.ptp(size)))
        about = {"sweep": sweep, "architecture": own["architecture"].iloc[0], "n": len(own), "span": span}
        rows.append(about | {"effect": effect, "per_tenfold": 100 * (10**effect - 1)})
    return pd.DataFrame(rows)


def sweeps(runs: pd.DataFrame) -> pd.DataFrame:
    """`matched` between the sweeps of `outside.xlstm_runs`, less the diverged, at k = 1; and how alike two sweeps are.

    Adds architecture_first, architecture_second, and alike: whether both have one context and one batch.
    """
    points = runs.assign(cross_entropy=runs["loss"], neg_log_rbp=-np.log(runs["accuracy"]), k=1)
    table = matched(points, ["k"], "sweep", order=_by_architecture(runs))
    about = runs.groupby("sweep").agg(architecture=("architecture", "first"), **{c: (c, "unique") for c in SWEEP})
    for which in ("first", "second"):
        table[f"architecture_{which}"] = table[which].map(about["architecture"])
    settings = about[SWEEP].map(lambda values: tuple(sorted(values)))
    return table.assign(
        alike=(settings.loc[table["first"]].to_numpy() == settings.loc[table["second"]].to_numpy()).all(1)
    )


def _by_architecture(runs: pd.DataFrame) -> list[str]:
    """The sweeps, those of the architecture with most runs first, and by their numbers of runs."""
    counts = runs.groupby(["architecture", "sweep"]).size().reset_index(name="n")
    total = counts.groupby("architecture")["n"].transform("sum")
    return counts.assign(total=total).sort_values(["total", "n"], ascending=False)["sweep"].tolist()


# --- Ahead in size


def forecasts(pairs: pd.DataFrame, *, holdout: int, holdout_few: int, level: float = 0.95) -> pd.DataFrame:
    """The largest models hidden: −ln RBP_k by three ways, and the control, CE from S by the same law.

    direct: −ln RBP_k from S. via: CE from S, then −ln RBP_k from the curve in CE of the smaller models. imputed: that
    curve at the hidden model's own, measured CE, which is no forecast. control: CE from S. Columns dataset, k, family,
    model, n (models fitted), ahead (size over the largest fitted), and for each of the four its relative error, per
    cent (below 0: too hopeful); covered and control_covered (inside their prediction interval). Raises FitError as
    `cells.forecasts`.
    """
    told, control = (
        cells.forecasts(pairs.assign(value=pairs[metric]), holdout=holdout, holdout_few=holdout_few, level=level)
        for metric in ("neg_log_rbp", "cross_entropy")
    )
    keys = ["dataset", "k", "family", "model"]
    rows = told.merge(control, on=keys, suffixes=("", "_control")).merge(
        pairs[[*keys, "cross_entropy", "neg_log_rbp"]], on=keys
    )
    rows[["via", "imputed"]] = np.nan
    for _, hidden in rows.groupby(keys[:3]):
        own = pairs.merge(hidden[keys[:3]].drop_duplicates())
        small = own[own["size"] < hidden["size"].min()]
        try:
            curve = fit_power_law(small["cross_entropy"], small["neg_log_rbp"])
        except FitError:
            continue
        for way, entropy in {"via": hidden["predicted_control"], "imputed": hidden["cross_entropy"]}.items():
            rows.loc[hidden.index, way] = 100 * (
                curve.predict(entropy)["value"].to_numpy() / hidden["neg_log_rbp"].to_numpy() - 1
            )
    rows = rows.assign(direct=100 * rows["error"], control=100 * rows["error_control"])
    rows = rows.rename(columns={"covered_control": "control_covered"}).dropna(subset=["via", "imputed"])
    return rows[[*keys, "n", "ahead", "direct", "via", "imputed", "control", "covered", "control_covered"]]


def summary(told: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """How `forecasts` came out, by the columns `by`.

    Columns `by`, count, hopeful (direct errors below 0), covered, control_hopeful, control_covered, and the medians of
    the errors' sizes, per cent: direct, via, imputed, control.
    """
    ways = ["direct", "via", "imputed", "control"]
    rows = told.assign(hopeful=told["direct"] < 0, control_hopeful=told["control"] < 0)
    rows[ways] = rows[ways].abs()
    counts = {name: (name, "sum") for name in ("hopeful", "covered", "control_hopeful", "control_covered")}
    medians = {way: (way, "median") for way in ways}
    return rows.groupby(list(by), as_index=False).agg(count=("direct", "size"), **counts, **medians)
