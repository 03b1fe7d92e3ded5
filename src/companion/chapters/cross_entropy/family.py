"""Within a family on one text: how closely −ln RBP_k follows cross-entropy, with which slope, and ahead in size.

The curve is ln(−ln RBP_k) against ln CE: a line, which is a power law in CE, or a parabola, where only a smooth
function is asked for. Scatter about it is what one standard deviation makes of −ln RBP_k, in per cent; divided by the
slope, it is that of CE: how far CE would have to move to explain it, which is comparable over k.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from statsmodels.regression.linear_model import OLS

from companion.chapters.cross_entropy.exponents import pair_metrics
from companion.chapters.families import counts_at
from companion.stats import cells
from rbp.arrays import Reals
from rbp.errors import DataError, FitError
from rbp.figures.curves import curves, in_cells, melted
from rbp.figures.style import INK, LABELS, Panels
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import interval, variance
from rbp.measurements import Source
from rbp.measurements.counts import LeftOut
from rbp.report.display import shown

CELL = ["dataset", "family", "k"]


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


def tightest(table: pd.DataFrame, by: Sequence[str] = CELL[:2]) -> pd.DataFrame:
    """The k up to 1000 where −ln RBP_k is most nearly a smooth function of CE, the mean over what `by` leaves out.

    That is where `in_entropy` of `entropy_curves` is least; one for each dataset and family, or each family, that has
    five models at several k. Columns `by`, k, in_entropy.
    """
    means = along_k(table[table["k"] <= 1000]).groupby([*by, "k"], as_index=False)["in_entropy"].mean()
    least: pd.DataFrame = means.loc[means.groupby(list(by))["in_entropy"].idxmin()]
    return least.reset_index(drop=True)


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


def straight_lines(pairs: pd.DataFrame) -> pd.DataFrame:
    """RBP_1 as a straight line in CE, of each family on each text.

    pairs: of `pair_metrics`. Columns dataset, family, models, per_nat (what a nat of CE costs), at_zero (the line at
    CE = 0), r_squared, by least squares. Families of fewer than three models are left out.
    """
    rows = []
    for key, own in pairs.groupby(CELL[:2]):
        c, h = own["cross_entropy"].to_numpy(), np.exp(-own["neg_log_rbp"].to_numpy())
        if len(own) > 2 and np.ptp(c) > 0:
            line = stats.linregress(c, h)
            rows.append((*key, len(own), -line.slope, line.intercept, line.rvalue**2))
    return pd.DataFrame(rows, columns=[*CELL[:2], "models", "per_nat", "at_zero", "r_squared"])


# --- By documents, the same ones for both metrics of all models


def line_of_rungs(left: LeftOut, k: int) -> tuple[Reals, Reals]:
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
            _, low, high = interval(line_of_rungs(left, k)[1], level=level)
            if not np.isfinite(low):
                continue
            y = one.at(k)
            away = y - np.einsum("rij,rkj,rk->ri", basis, basis, y)  # about each row's own parabola
            moved = float(variance(away).sum()) / df if df else np.nan
            rows.append((*cell, k, documents, low, high, per_cent(np.sqrt(moved))))
    columns = [*CELL, "documents", "text_low", "text_high", "text_scatter"]
    return pd.DataFrame(rows, columns=columns)


# --- Ahead in size


def forecasts(pairs: pd.DataFrame, *, holdout: int, holdout_few: int, level: float = 0.95) -> pd.DataFrame:
    """The largest models hidden, and forecast by the law in S: −ln RBP_k, and the control, CE.

    Columns dataset, k, family, model, n (models fitted), ahead (size over the largest fitted), and the relative errors,
    per cent (below 0: too optimistic): direct (−ln RBP_k), control (CE). Raises FitError as `cells.forecasts`.
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


def family_told(curves_in: pd.DataFrame, lines: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of one family on one text: `entropy_curves`, and `straight_lines`."""
    first, told = curves_in[curves_in["k"] == 1], dict[str, Any]()
    for row in first[first["family"] == "Pythia"].to_dict("records"):
        told |= {f"{name}.{row['dataset']}.Pythia.k1": row[name] for name in ("scatter", "scatter_size")}
    sized = first.dropna(subset="scatter_size")
    told |= {"told_by_cross_entropy.closer": int((sized["scatter"] < sized["scatter_size"]).sum())}
    told |= {"told_by_cross_entropy.cells": len(sized), "scatter_max.k1": sized["scatter"].max()}
    told |= {"per_nat.min": lines["per_nat"].min(), "per_nat.max": lines["per_nat"].max()}
    moderate = along_k(curves_in[curves_in["k"] <= 100])
    told |= {"smooth.closer": int((moderate["smooth"] < moderate["smooth_size"]).sum()), "smooth.cells": len(moderate)}
    lists = curves_in[curves_in["k"].isin([1, 10, 100])].dropna(subset="scatter_size")
    told |= {"told_by_cross_entropy.lists.closer": int((lists["scatter"] < lists["scatter_size"]).sum())}
    by_text, by_family = tightest(curves_in), tightest(curves_in, ["family"])
    told |= {"tightest.families": len(by_family), "tightest.at_1": int((by_family["k"] == 1).sum())}
    told |= {"tightest.k": " and ".join(map(str, by_family["k"]))}
    told |= {"tightest.k_min": by_text["k"].min(), "tightest.k_max": by_text["k"].max()}
    return told | {"r_squared.min": lines["r_squared"].min()}


def ahead_told(told: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of `forecasts`; a model counts once, on however many texts."""
    found = {"forecasts.all": len(told), "hopeful.all": int((told["direct"] < 0).sum())}
    found |= {"control_hopeful.all": int((told["control"] < 0).sum())}
    errors = told[told["k"] == 1].set_index("model")[["direct", "control"]].abs().groupby("model").mean()
    found |= {"forecasts.models": len(errors), "forecasts.nearer": int((errors["direct"] < errors["control"]).sum())}
    pythia = told[(told["k"] == 1) & (told["family"] == "Pythia")]
    return found | {f"{way}.Pythia.k1": pythia[way].abs().median() for way in ("direct", "control")}


# ── What the page shows

_LOOSE = 30  # per cent: with so much scatter there is no curve left to show


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
        "alt": "For Pythia the scatter about cross-entropy is far below that about size; for our small models they "
        "are alike, and rise with k as what documents explain does",
        "data": along_k,
    }


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
            "hopeful": "RBP too optimistic",
            "control_hopeful": "CE too optimistic",
        },
        caption="<b>The largest models hidden: median size of the relative error</b>, over the k of the tables. Too "
        "optimistic: lower than was measured. CE is counted once for each k.",
        data=told,
    )
