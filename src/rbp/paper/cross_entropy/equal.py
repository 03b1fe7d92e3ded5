"""Is −ln RBP_k a function of cross-entropy? At equal cross-entropy, within a family, and ahead in size.

The curve is ln(−ln RBP_k) against ln CE: a line, which is a power law in CE, or a parabola, where only a smooth
function is asked for. Scatter about it is what one standard deviation makes of −ln RBP_k, in per cent; divided by the
slope, it is that of CE: how far CE would have to move to explain it, which is comparable over k.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from statsmodels.regression.linear_model import OLS

from rbp.book.figure_style import INK, LABELS, Panels, family_style, legend_below, single_panel
from rbp.core.arrays import Reals, check_level
from rbp.core.errors import DataError, FitError
from rbp.evidence import Source
from rbp.evidence.counts import LeftOut
from rbp.paper.cross_entropy.exponents import pair_metrics
from rbp.paper.curves import curves, in_cells, melted
from rbp.paper.display import INTERVAL_1, shown
from rbp.paper.ladder import counts_at, trained_again
from rbp.paper.wording import dataset_label
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


def at_thresholds(pairs: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """The rows of `pairs_by_k` at `ks`, or where it has none of them, at its smallest k."""
    return pairs[pairs["k"].isin(ks if pairs["k"].isin(ks).any() else [pairs["k"].min()])]


def entropy_curves(pairs: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The curve of each dataset, family and k of `pairs_by_k` that has four models of different cross-entropy.

    Columns dataset, family, k, n; slope, low, high (of ln(−ln RBP_k) on ln CE); scatter, scatter_size (per cent of
    −ln RBP_k, about the power law in CE, and in S); smooth, smooth_size (the same about parabolas in logarithms: what
    any smooth curve leaves); in_entropy (smooth, as per cent of CE). Intervals take models as independent. Raises
    FitError where no cell has four models.
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
            | {"low": -power.alpha_high, "high": -power.alpha_low}
            | {"scatter": per_cent(power.residual_se), "scatter_size": _scatter(own["size"], rank, 1)}
            | {"smooth": smooth, "smooth_size": _scatter(own["size"], rank, 2)}
            | {"in_entropy": per_cent(np.log1p(smooth / 100) / abs(power.slope))}
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
    return per_cent(np.sqrt(fit.ssr / fit.df_resid))


def per_cent(logarithm: Any) -> float:
    """A difference of logarithms in per cent: 0.099 is 10.4 per cent, not 9.9."""
    return float(100 * np.expm1(logarithm))


def straight_lines(pairs: pd.DataFrame, line_of: str = "Pythia") -> pd.DataFrame:
    """Each family on each text: the slope of ln(−ln RBP_1) in ln CE, and RBP_1 as a straight line in CE.

    With h = RBP_1, r = −ln h, C the cross-entropy and b = −dh/dC, the local slope d ln r / d ln C is b·C/(h·r): the
    factor beside b says where a model stands on its text. pairs: of `pair_metrics`. Columns dataset, family, models,
    hit_low, hit_high (RBP_1, smallest and largest), slope; per_nat (b), at_zero (the line at CE = 0), r_squared (of the
    line); expected (the slope that the mean b of the family `line_of` gives; NaN where it is not there). All by least
    squares. Families of fewer than three models are left out, and those in which one is always right or never.
    """
    rows = []
    for key, own in pairs.groupby(CELL[:2]):
        c, r = own["cross_entropy"].to_numpy(), own["neg_log_rbp"].to_numpy()
        h = np.exp(-r)
        if len(own) < 3 or not ((h > 0) & (h < 1)).all() or np.ptp(c) == 0:
            continue
        line = stats.linregress(c, h)
        slope, factor = stats.linregress(np.log(c), np.log(r)).slope, (c / (h * r)).mean()
        rows.append((*key, len(own), h.min(), h.max(), slope, -line.slope, line.intercept, line.rvalue**2, factor))
    names = [*CELL[:2], "models", "hit_low", "hit_high", "slope", "per_nat", "at_zero", "r_squared", "factor"]
    found = pd.DataFrame(rows, columns=names)
    return found.assign(expected=found.loc[found["family"] == line_of, "per_nat"].mean() * found.pop("factor"))


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
            rows.append((*cell, k, documents, low, high, per_cent(np.sqrt(moved))))
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

    Columns `within`, first, second, n_first, n_second; at (the middle of the CE that both have); offset (the second's
    −ln RBP_k over the first's, less 1, per cent), low, high, apart (0 is outside).
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
    return pd.DataFrame(
        rows, columns=[*within, "first", "second", "n_first", "n_second", "at", "offset", "low", "high", "apart"]
    )


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
    ends = fit.conf_int(1 - level)[2]
    row = {"at": at, "offset": per_cent(fit.params[2]), "low": per_cent(ends[0]), "high": per_cent(ends[1])}
    return row | {"apart": bool(ends[0] > 0 or ends[1] < 0)}


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
    """The largest models hidden, and forecast by the law in S: −ln RBP_k, and the control, CE.

    Columns dataset, k, family, model, n (models fitted), ahead (size over the largest fitted), and the relative errors,
    per cent (below 0: too hopeful): direct (−ln RBP_k), control (CE). Raises FitError as `cells.forecasts`.
    """
    told, control = (
        cells.forecasts(pairs.assign(value=pairs[metric]), holdout=holdout, holdout_few=holdout_few, level=level)
        for metric in ("neg_log_rbp", "cross_entropy")
    )
    keys = ["dataset", "k", "family", "model"]
    rows = told.merge(control[[*keys, "error"]], on=keys, suffixes=("", "_control"))
    return rows.assign(direct=100 * rows["error"], control=100 * rows["error_control"])[
        [*keys, "n", "ahead", "direct", "control"]
    ]


# ── What the page says


def equal_told(equal: pd.DataFrame, again: pd.DataFrame, across: pd.DataFrame, by_size: pd.DataFrame) -> dict[str, Any]:
    """What the page says of models at equal cross-entropy.

    equal, again, across, by_size: of `at_equal_entropy`, `seeds`, `sweeps` and `size_at_equal_entropy`.
    """
    alike, same = _alike(across), across["architecture_first"] == across["architecture_second"]
    told = {"runs.offset": alike["offset"].max(), "runs.yardstick": across.loc[same, "offset"].abs().max()}
    told |= {"runs.size.low": by_size["per_tenfold"].min(), "runs.size.high": by_size["per_tenfold"].max()}
    for k in (1, 100):
        own = equal[equal["k"] == k]
        told |= {f"compared.k{k}": len(own), f"apart.k{k}": int(own["apart"].sum())}
    first = again[again["k"] == 1]
    told |= {"offset_max.texts.k1": equal.loc[equal["k"] == 1, "offset"].abs().max()}
    told |= {"seeds.pairs.k1": len(first), "seeds.apart.k1": int(first["apart"].sum())}
    told |= {"seeds.models": _models(first)}
    return told | {"seeds.median.k1": first["offset"].abs().median()}


def _models(again: pd.DataFrame) -> int:
    """How many models `seeds` has: one and the same stands there for each text, more than once if trained often."""
    return int(again.groupby(["family", "size", "dataset"]).size().groupby(["family", "size"]).max().sum())


def _alike(across: pd.DataFrame) -> pd.DataFrame:
    """The sweeps of two architectures trained alike."""
    return across[across["alike"] & (across["architecture_first"] != across["architecture_second"])]


def family_told(curves_in: pd.DataFrame, lines: pd.DataFrame) -> dict[str, Any]:
    """What the page says of one family on one text: `entropy_curves`, and `straight_lines`."""
    first, told = curves_in[curves_in["k"] == 1], dict[str, Any]()
    for row in first[first["family"] == "Pythia"].to_dict("records"):
        told |= {f"{name}.{row['dataset']}.Pythia.k1": row[name] for name in ("scatter", "scatter_size")}
    sized = first.dropna(subset="scatter_size")
    told |= {"told_by_cross_entropy.closer": int((sized["scatter"] < sized["scatter_size"]).sum())}
    told |= {"told_by_cross_entropy.cells": len(sized), "scatter_max.k1": sized["scatter"].max()}
    for row in lines.to_dict("records"):
        if row["family"] == "neox" and row["dataset"] in ("auslegal", "hotpotqa"):
            told |= {f"{name}.{row['dataset']}.neox": row[name] for name in ("slope", "expected")}
        elif row["family"] == "Pythia":
            told |= {f"slope.{row['dataset']}.Pythia": row["slope"]}
    told |= {"per_nat.min": lines["per_nat"].min(), "per_nat.max": lines["per_nat"].max()}
    told |= {f"tightest.{row['dataset']}.{row['family']}": row["k"] for row in tightest(curves_in).to_dict("records")}
    moderate = along_k(curves_in[curves_in["k"] <= 100])
    told |= {"smooth.closer": int((moderate["smooth"] < moderate["smooth_size"]).sum()), "smooth.cells": len(moderate)}
    return told | {"r_squared.min": lines["r_squared"].min()}


def ahead_told(told: pd.DataFrame) -> dict[str, Any]:
    """What the page says of `forecasts`."""
    found = {"forecasts.all": len(told), "hopeful.all": int((told["direct"] < 0).sum())}
    found |= {"control_hopeful.all": int((told["control"] < 0).sum())}
    pythia = told[(told["k"] == 1) & (told["family"] == "Pythia")]
    return found | {f"{way}.Pythia.k1": pythia[way].abs().median() for way in ("direct", "control")}


def claims(
    equal: pd.DataFrame,
    again: pd.DataFrame,
    across: pd.DataFrame,
    by_size: pd.DataFrame,
    curves_in: pd.DataFrame,
    told: pd.DataFrame,
) -> dict[str, dict[str, Any]]:
    """What decides the ledger's claims on rank as a function of cross-entropy, by the claims' names."""
    alike = _alike(across)
    apart = {"runs": len(alike), "runs_apart": int(alike["apart"].sum()), "offset": alike["offset"].max()}
    some = {}
    for name, ks in (("not_deduced", {1}), ("greedy_and_lists", set(told["k"]))):
        texts, trained = (rows[rows["k"].isin(ks)] for rows in (equal, again))
        some[name] = apart | {"texts": len(texts), "texts_apart": int(texts["apart"].sum())}
        some[name] |= {"seeds": len(trained), "seeds_apart": int(trained["apart"].sum())}
    own = equal_told(equal, again, across, by_size)
    some["equal_entropy"] = some["not_deduced"] | {"texts_offset": own["offset_max.texts.k1"]}
    some["equal_entropy"] |= {"seeds_median": own["seeds.median.k1"], "models": own["seeds.models"]}
    sized = curves_in[curves_in["k"] == 1].dropna(subset="scatter_size")
    some["not_deduced"] |= {"closer": int((sized["scatter"] < sized["scatter_size"]).sum()), "cells": len(sized)}
    closest = tightest(curves_in)
    some["tightest"] = {"cells": len(closest), "at_1": int((closest["k"] == 1).sum())}
    some["tightest"] |= {"lowest": closest["k"].min(), "highest": closest["k"].max()}
    at_1, pythia = told[told["k"] == 1], ahead_told(told)
    some["rank_forecasts"] = {"count": len(at_1), "nearer": int((at_1["direct"].abs() < at_1["control"].abs()).sum())}
    some["rank_forecasts"] |= {way: pythia[f"{way}.Pythia.k1"] for way in ("direct", "control")}
    return some


# ── What the page shows

_LOOSE = 30  # per cent: with so much scatter there is no curve left to show


def run_panel(runs: pd.DataFrame) -> Figure:
    """Each run's −ln RBP_1 above the line in CE of the first architecture's runs, against CE; a colour an architecture.

    `runs` as `outside.xlstm_runs` has them, less the diverged.
    """
    names = runs["architecture"].value_counts().index.tolist()

    def draw(ax: Axes) -> None:
        rank = -np.log(runs["accuracy"])
        base = runs["architecture"] == names[0]
        line = fit_power_law(runs.loc[base, "loss"], rank[base]).predict(runs["loss"])["value"].to_numpy()
        above = runs.assign(above=100 * (rank / line - 1))
        styles = {name: family_style(name, names) for name in names}
        for name, own in above.groupby("architecture"):
            colour, marker = styles[str(name)]
            ax.plot(own["loss"], own["above"], marker, color=colour, ms=4, mew=0, alpha=0.55)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xlabel(LABELS["cross_entropy"])
        ax.set_ylabel(f"−ln RBP₁ above the line of {names[0]} (%)")
        legend_below(ax, styles)

    return single_panel(draw, size=(4.6, 3.9))


def runs_shown(runs: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for `run_panel`."""
    return {
        "figure": run_panel(runs),
        "caption": "<b>Two architectures at equal cross-entropy</b> (others’ runs, <i>xLSTM Scaling Laws</i>, "
        "arXiv:2510.02228): each run’s −ln RBP₁ above the line through all Llama runs.",
        "alt": "The runs of mLSTM lie above those of Llama at equal cross-entropy, more so at higher cross-entropy",
        "data": runs,
    }


def lines_shown(pairs: pd.DataFrame, lines: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for RBP_1 against CE: a panel for each text, with each family’s straight line."""
    rows = pairs.assign(hit=np.exp(-pairs["neg_log_rbp"])).merge(lines[CELL[:2]])
    ends = rows.groupby(CELL[:2])["cross_entropy"]
    fitted = pd.concat([ends.min().reset_index(), ends.max().reset_index()]).merge(lines, on=CELL[:2])
    fitted["hit"] = fitted["at_zero"] - fitted["per_nat"] * fitted["cross_entropy"]
    return {
        "figure": curves(
            rows,
            "cross_entropy",
            "hit",
            labels=(LABELS["cross_entropy"], "RBP₁"),
            line="family",
            fitted=[fitted],
            log="",
        ),
        "caption": "<b>RBP₁ against cross-entropy</b>, a point for each model, a line for each family and text. "
        "Families of one panel can be compared at equal cross-entropy where they share a tokenizer: Llama and mLSTM.",
        "alt": "RBP at k = 1 falls with cross-entropy along a straight line for each family and text",
        "data": rows,
    }


def slopes_shown(lines: pd.DataFrame, label: str) -> dict[str, Any]:
    """`straight_lines` as a page shows it; label: whose b it is."""
    return shown(
        lines,
        {
            "dataset": "text",
            "family": "family",
            "models": "models",
            ("hit_low", "hit_high"): ("RBP₁", "{:.2f} to {:.2f}"),
            "per_nat": ("b per nat", "{:.3f}"),
            "r_squared": ("R² of the line", "{:.3f}"),
            "slope": ("slope", "{:.2f}"),
            "expected": (f"with {label} b", "{:.2f}"),
        },
        caption="<b>The slope d ln(−ln RBP₁)/d ln CE, and the straight line of RBP₁ in CE.</b> "
        f"“With {label} b”: the slope that this b gives.",
    )


def scatter_panels(along_k: pd.DataFrame) -> Panels:
    """One panel for each text and family: the scatter about curves in CE, and in S, by k.

    along_k: of the function of that name, with the column text_scatter.
    """
    names = {
        "smooth_size": "about a smooth curve in S",
        "smooth": "about a smooth curve in CE",
        "text_scatter": "what documents explain of it",
    }
    styles = (("#B0457B", "D", "--"), ("#2A7FC0", "o", "-"), (INK, "", "-."))
    rows = melted(in_cells(along_k[along_k["smooth"] < _LOOSE]), names, "k", by=["cell"])
    labels = ("threshold k", "scatter of −ln RBP (%)")
    return curves(
        rows, "k", "value", labels=labels, panel="cell", styles=dict(zip(names.values(), styles, strict=True)), log="xy"
    )


def scatter_shown(along_k: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for `scatter_panels`."""
    return {
        "figure": scatter_panels(along_k),
        "caption": "<b>How closely −ln RBPₖ follows cross-entropy, and size, at each k:</b> the scatter about "
        "parabolas in logarithms, and what documents explain of that about cross-entropy.",
        "alt": "For Pythia the scatter about cross-entropy is far below that about size; on the ladder’s texts they "
        "are alike, and rise with k as what documents explain does",
        "data": along_k,
    }


def equal_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`at_equal_entropy` as a page shows it."""
    names = {which: table[which].map(dataset_label) for which in ("first", "second")}
    return shown(
        table.assign(**names, apart=table["apart"].map({True: "yes", False: "no"})),
        {
            "family": "family",
            ("second", "first"): ("which, over which", "{} over {}"),
            "k": "k",
            "offset": ("offset (%)", "{:.1f}"),
            ("low", "high"): (f"{level:.0%}, models", INTERVAL_1),
            ("text_low", "text_high"): (f"{level:.0%}, documents", INTERVAL_1),
            "apart": "apart",
        },
        caption="<b>Two texts at equal cross-entropy</b>: −ln RBPₖ of a family on one, over that on the other. "
        "Apart: every interval leaves out 0.",
        data=table,
    )


def forecasts_shown(told: pd.DataFrame) -> dict[str, Any]:
    """`forecasts` as a page shows them: median sizes of the errors by family and text, and how many are hopeful."""
    rows = told.assign(hopeful=told["direct"] < 0, control_hopeful=told["control"] < 0)
    rows[["direct", "control"]] = rows[["direct", "control"]].abs()
    medians = {way: (way, "median") for way in ("direct", "control")}
    counts = {name: (name, "sum") for name in ("hopeful", "control_hopeful")}
    return shown(
        rows.groupby(CELL[:2], as_index=False).agg(count=("direct", "size"), **medians, **counts),
        {
            "dataset": "Dataset",
            "family": "Family",
            "count": "forecasts",
            "direct": ("RBP from S (%)", "{:.1f}"),
            "control": ("CE from S (%)", "{:.1f}"),
            "hopeful": "RBP too hopeful",
            "control_hopeful": "CE too hopeful",
        },
        caption="<b>The largest models hidden: median size of the relative error</b>, over the k of the tables. Too "
        "hopeful: lower than was measured. CE is counted once for each k.",
        data=told,
    )
