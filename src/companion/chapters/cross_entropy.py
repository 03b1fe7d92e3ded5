"""Rank and cross-entropy: within a family, between models of one cross-entropy, and in their exponents.

Everything is on logarithmic axes: ln(−ln RBP_k) against ln CE, as a line, which is a power law in CE, or as a parabola,
where only a smooth curve is needed. Scatter about it is one standard deviation, in per cent of −ln RBP_k; divided by
the slope, it is the scatter of CE, which is comparable over k.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats
from statsmodels.regression.linear_model import OLS

from companion.chapters.families import counts_at
from companion.evidence import published
from companion.plots import in_cells, melted
from companion.stats import cells
from companion.stats.compare import Equivalence
from rbp.arrays import Reals, check_level
from rbp.errors import DataError, FitError
from rbp.figures.curves import curves
from rbp.figures.style import OURS
from rbp.figures.wording import cell_label, dataset_label
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import covariance, student, variance
from rbp.measurements import Source
from rbp.measurements.counts import LeftOut

CELL = ["dataset", "family", "k"]
SMALLEST = "smallest models"
ROUNDING = 0.001  # a difference of two slopes, each printed to three digits, is known to this

# ── Both metrics of the same models


def pair_metrics(table: pd.DataFrame, k: int = 1) -> pd.DataFrame:
    """Pair cross-entropy and −ln RBP_k of the models of a measurement table for which both are known.

    Columns dataset, family, model, size, cross_entropy, neg_log_rbp. Raises DataError where there is no such model.
    """
    keys = [*CELL[:2], "model", "size"]
    of_k = (table["metric"] == "neg_log_rbp") & (table["k"] == k).fillna(False)
    chosen = table[(table["metric"] == "cross_entropy") | of_k]
    wide = chosen.pivot_table(index=keys, columns="metric", values="value", observed=True)
    if not {"cross_entropy", "neg_log_rbp"} <= set(wide.columns) or wide.dropna().empty:
        raise DataError(
            f"no model has both its cross-entropy and −ln RBP_{k} on one dataset",
            "measurements",
            "Give a source that holds rows of both metrics for the same models.",
        )
    return wide.dropna().reset_index().rename_axis(columns=None)


def pairs_by_k(table: pd.DataFrame) -> pd.DataFrame:
    """Pair both metrics (`pair_metrics`) at every k of a measurement table: a row for each model and k.

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
    """Select the rows of `pairs_by_k` at `ks`, or where it has none of them, at its smallest k."""
    return pairs[pairs["k"].isin(ks if pairs["k"].isin(ks).any() else [pairs["k"].min()])]


def by_document(source: Source, ks: Sequence[int]) -> list[LeftOut]:
    """Open the documents behind the rank stores of a source, a text each; none where it has no store.

    Models of infinite cross-entropy are left out, and so are texts of one document, and those of fewer than three
    sizes. Raises what `Source.counts` raises.
    """
    if not source.ranked.stores:
        return []
    vocabulary = min(store.vocabulary for store in source.ranked.stores)
    counts, _ = counts_at(source.ranked, [k for k in ks if k <= vocabulary], [])
    with_entropy = [text.keep(np.isfinite(text.cross_entropy)) for text in counts]
    return [text.left_out() for text in with_entropy if text.documents > 1 and len(text.firsts) > 2]


# ── Within a family on one dataset


def entropy_curves(pairs: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the curves of each dataset, family and k of `pairs_by_k` that has four models of different cross-entropy.

    Columns dataset, family, k, n; slope, low, high (of ln(−ln RBP_k) on ln CE); scatter, scatter_size (per cent of
    −ln RBP_k, about the power law in CE, and in S); smooth, smooth_size (the same about parabolas in logarithms: what
    any smooth curve leaves); in_entropy (smooth, as per cent of CE). Intervals take models as independent. Raises
    FitError where no cell has four models.
    """
    rows = []
    for (dataset, family, k), rows_at_k in pairs.groupby(CELL):
        entropy, rank = rows_at_k["cross_entropy"], rows_at_k["neg_log_rbp"]
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
            | {"scatter": per_cent(power.residual_se), "scatter_size": _scatter(rows_at_k["size"], rank, 1)}
            | {"smooth": smooth, "smooth_size": _scatter(rows_at_k["size"], rank, 2)}
            | {"in_entropy": per_cent(np.log1p(smooth / 100) / abs(power.slope))}
        )
    if not rows:
        remedy = "Give a source that holds both metrics of more models."
        raise FitError("no family has both metrics for four models", "measurements", remedy)
    return pd.DataFrame(rows)


def find_tightest_k(table: pd.DataFrame, by: Sequence[str] = CELL[:2]) -> pd.DataFrame:
    """Find the k up to 1000 where −ln RBP_k is most nearly a smooth function of CE, the mean over what `by` leaves out.

    That is where `in_entropy` of `entropy_curves` is least; one for each dataset and family, or each family, that has
    five models at several k. Columns `by`, k, in_entropy.
    """
    means = select_several_k(table[table["k"] <= 1000]).groupby([*by, "k"], as_index=False)["in_entropy"].mean()
    least: pd.DataFrame = means.loc[means.groupby(list(by))["in_entropy"].idxmin()]
    return least.reset_index(drop=True)


def select_several_k(table: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of `entropy_curves` of five models and more, as many as at any k, where there are several k."""
    rows = table[(table["n"] > 4) & table["smooth_size"].notna()]
    rows = rows[rows["n"] == rows.groupby(CELL[:2])["n"].transform("max")]
    return rows[rows.groupby(CELL[:2])["k"].transform("size") > 1]


def _scatter(x: npt.ArrayLike, y: npt.ArrayLike, degree: int) -> float:
    """Compute the scatter of ln y about a polynomial in ln x, per cent; NaN for fewer x than twice its degree + 1."""
    log_x = np.log(np.asarray(x, dtype=np.float64))
    design = np.vander(log_x - log_x.mean(), degree + 1)
    if len(np.unique(log_x)) < 2 * degree + 1:
        return float("nan")
    fit = OLS(np.log(np.asarray(y, dtype=np.float64)), design).fit()
    return per_cent(np.sqrt(fit.ssr / fit.df_resid))


def per_cent(logarithm: Any) -> float:
    """Convert a difference of logarithms to per cent: 0.099 is 10.4 per cent, not 9.9."""
    return float(100 * np.expm1(logarithm))


def straight_lines(pairs: pd.DataFrame) -> pd.DataFrame:
    """Fit RBP_1 as a straight line in CE, for each family on each text.

    pairs: of `pair_metrics`. Columns dataset, family, models, per_nat (what a nat of CE costs), at_zero (the line at
    CE = 0), r_squared, by least squares. Families of fewer than three models are left out.
    """
    rows = []
    for key, models in pairs.groupby(CELL[:2]):
        c, h = models["cross_entropy"].to_numpy(), np.exp(-models["neg_log_rbp"].to_numpy())
        if len(models) > 2 and np.ptp(c) > 0:
            line = stats.linregress(c, h)
            rows.append((*key, len(models), -line.slope, line.intercept, line.rvalue**2))
    return pd.DataFrame(rows, columns=[*CELL[:2], "models", "per_nat", "at_zero", "r_squared"])


def forecasts(pairs: pd.DataFrame, *, holdout: int, holdout_few: int, level: float = 0.95) -> pd.DataFrame:
    """Hide the largest models, and forecast −ln RBP_k and, as a control, CE by the law in S.

    Columns dataset, k, family, model, n (models fitted), ahead (size over the largest fitted), and the relative errors,
    per cent (below 0: too optimistic): direct (−ln RBP_k), control (CE). Raises FitError as `cells.forecasts`.
    """
    ranks, control = (
        cells.forecasts(pairs.assign(value=pairs[metric]), holdout=holdout, holdout_few=holdout_few, level=level)
        for metric in ("neg_log_rbp", "cross_entropy")
    )
    keys = ["dataset", "k", "family", "model"]
    rows = ranks.merge(control[[*keys, "error"]], on=keys, suffixes=("", "_control"))
    return rows.assign(direct=100 * rows["error"], control=100 * rows["error_control"])[
        [*keys, "n", "ahead", "direct", "control"]
    ]


# ── At equal cross-entropy


def line_of_rungs(left: LeftOut, k: int) -> tuple[Reals, Reals]:
    """Fit the line through the rungs, of ln(−ln RBP_k) on ln CE: its intercept and slope.

    Both have shape (1 + D,): of the text as it is, and of it without each document.
    """
    rungs = left.keep(left.counts.firsts)
    x, y = rungs.x, rungs.at(k)
    away = x - x.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # where there is no miss there is no logarithm
        slope: Reals = (away * y).sum(axis=1) / (away**2).sum(axis=1)
        return y.mean(axis=1) - slope * x.mean(axis=1), slope


def compare_groups(
    points: pd.DataFrame, within: Sequence[str], between: str, *, order: Sequence[str] = (), level: float = 0.95
) -> pd.DataFrame:
    """Compare −ln RBP_k of two groups of models at equal cross-entropy, wherever their ranges of it meet.

    Groups are the values of `between` among the rows of `points` that agree in `within`. Two get a line each,
    ln(−ln RBP_k) on ln CE, of one scatter (analysis of covariance). `first` comes first in `order`, or has more
    models. Groups of fewer than three, or without scatter, have none.

    Columns `within`, first, second, n_first, n_second; at (the middle of the CE that both have); offset (the second's
    −ln RBP_k over the first's, less 1, per cent), low, high, apart (0 is outside).
    """
    check_level(level)
    rows: list[dict[str, Any]] = []
    for key, cell_points in points.groupby(list(within)):
        sizes = cell_points.groupby(between).size()
        groups = sorted(sizes.index[sizes > 2], key=lambda name: (-sizes[name], str(name)))
        groups.sort(key=lambda name: list(order).index(name) if name in order else len(order))
        for first, second in combinations(groups, 2):
            both = [cell_points[cell_points[between] == name] for name in (first, second)]
            low, high = (max(g["cross_entropy"].min() for g in both), min(g["cross_entropy"].max() for g in both))
            if low < high and (row := _offsets(both[0], both[1], low, high, level)):
                cell = dict(zip(within, key, strict=True)) | {"first": first, "second": second}
                rows.append(cell | {"n_first": len(both[0]), "n_second": len(both[1])} | row)
    return pd.DataFrame(
        rows, columns=[*within, "first", "second", "n_first", "n_second", "at", "offset", "low", "high", "apart"]
    )


def _offsets(first: pd.DataFrame, second: pd.DataFrame, low: float, high: float, level: float) -> dict[str, Any] | None:
    middle = (low + high) / 2
    both = pd.concat([first, second])
    x, y = np.log(both["cross_entropy"].to_numpy() / middle), np.log(both["neg_log_rbp"].to_numpy())
    is_second = np.repeat([0.0, 1.0], [len(first), len(second)])
    design = np.column_stack([np.ones_like(x), x, is_second, is_second * x])
    if np.linalg.matrix_rank(design) < 4 or len(x) < 5:
        return None
    fit = OLS(y, design).fit()
    if fit.ssr <= len(x) * 1e-24:
        return None
    below, above = map(per_cent, fit.conf_int(1 - level)[2])
    row = {"at": middle, "offset": per_cent(fit.params[2]), "low": below, "high": above}
    return row | {"apart": below > 0 or above < 0}


def at_equal_entropy(pairs: pd.DataFrame, texts: Sequence[LeftOut], *, level: float = 0.95) -> pd.DataFrame:
    """Compare the texts of each family by `compare_groups`.

    Families may cut a text into other tokens, and nats per token of two tokenizers are two units.

    Columns family, all of `compare_groups`, and text_low, text_high: the interval of the offset by the documents of
    both texts, where `texts` has both. There, they are `apart` if that interval leaves out 0 as well.
    """
    pairs_of_texts = compare_groups(pairs, ["family", "k"], "dataset", level=level)
    by_cell = {(text.counts.families[0], text.counts.dataset): text for text in texts}
    intervals = []
    for row in pairs_of_texts.to_dict("records"):
        first, second = (by_cell.get((row["family"], row[which])) for which in ("first", "second"))
        if first and second and row["k"] in {*first.counts.thresholds} & {*second.counts.thresholds}:
            intervals.append(text_offset(first, second, row["k"], row["at"], level))
        else:
            intervals.append((np.nan, np.nan))
    low, high = np.array(intervals).reshape(-1, 2).T
    return pairs_of_texts.assign(
        text_low=low, text_high=high, apart=pairs_of_texts["apart"] & ~((low <= 0) & (high >= 0))
    )


def text_offset(first: LeftOut, second: LeftOut, k: int, entropy: float, level: float) -> tuple[float, float]:
    """Compute the interval of the second text's −ln RBP_k over the first's, less 1 (per cent), at one cross-entropy.

    The texts' documents are independent; the degrees of freedom are the fewer of the two texts'.
    """
    lines = [line_of_rungs(text, k) for text in (first, second)]
    values = [at_0 + slope * np.log(entropy) for at_0, slope in lines]
    by_text = variance(values[0]) + variance(values[1])
    _, low, high = 100 * np.expm1(student(values[1][0] - values[0][0], by_text, min(first.df, second.df), level=level))
    return float(low), float(high)


def measure_trainings(texts: Sequence[LeftOut]) -> pd.DataFrame:
    """Measure how far training a model again moves −ln RBP_k at equal CE: a mixed model over models and texts.

    Of models that share their size, ln(−ln RBP_k) less the curve's part. A size on a text has a fixed effect; a
    training has two random ones, one on all texts alike and one of each text.

    Columns family, k, models (trained again), texts; in per cent, as standard deviations, moved (of a training, on a
    text), common (its part on all texts alike; NaN for one text), documents (what other documents would make of
    `moved`); share: the largest of one text in their squares; p: F test that documents make all of it (Satterthwaite).
    """
    rows = []
    for family in sorted({text.counts.families[0] for text in texts}):
        in_family = [text for text in texts if text.counts.families[0] == family]
        names = sorted(set.intersection(*({*text.counts.names} for text in in_family)))
        sizes = in_family[0].counts.models.set_index("model")["size"].loc[names]
        again = sizes[sizes.duplicated(keep=False)]
        for k in sorted(set.intersection(*({*text.counts.thresholds} for text in in_family))) if len(again) else ():
            left = []
            for text in in_family:
                places = pd.Index(text.counts.names).get_indexer(again.index)
                left.append((text.at(k) - line_of_rungs(text, k)[1][:, None] * text.x)[:, places])
            if all(np.isfinite(residuals).all() for residuals in left):
                rows.append({"family": family, "k": k} | _spread(again, left, [text.df for text in in_family]))
    return pd.DataFrame(rows, columns=["family", "k", "models", "texts", "moved", "common", "documents", "share", "p"])


def measure_trainings_without(texts: Sequence[LeftOut]) -> pd.DataFrame:
    """Repeat `measure_trainings` without each text in turn, and without the smallest models, by the column `without`.

    A dataset's name, SMALLEST, or "" for all: one odd text, or models of a few thousand parameters, may make the whole.
    """
    selections = {"": list(texts), SMALLEST: [text.keep(text.counts.sizes > text.counts.sizes.min()) for text in texts]}
    for name in sorted({text.counts.dataset for text in texts}):
        selections[name] = [text for text in texts if text.counts.dataset != name]
    tables = [
        measure_trainings(chosen).assign(without=name) for name, chosen in selections.items() if chosen or not name
    ]
    return pd.concat([tables[0], *(table for table in tables[1:] if len(table))], ignore_index=True)


def _spread(sizes: "pd.Series[int]", left: Sequence[Reals], by_text: Sequence[float]) -> dict[str, Any]:
    """Compute `measure_trainings` of one k; left: of each text, and of it without each document, shape (1 + D, models).

    by_text: degrees of freedom of each text's documents.
    """
    member = pd.get_dummies(sizes).to_numpy(float)
    within = np.eye(len(sizes)) - member @ (member / member.sum(axis=0)).T
    number, df = len(left), len(sizes) - member.shape[1]
    away = np.array([within @ residuals[0] for residuals in left])
    noise = [within @ covariance(residuals) @ within for residuals in left]  # of documents

    squares = float((away**2).sum())
    shared = number * float((away.mean(axis=0) ** 2).sum())  # of that, the shifts that all texts have alike
    common = (shared - (squares - shared) / (number - 1)) / (df * number) if number > 1 else np.nan
    parts = np.trace(noise, axis1=1, axis2=2)
    test = stats.f(parts.sum() ** 2 / np.square(noise).sum(), parts.sum() ** 2 / (parts**2 / np.array(by_text)).sum())
    return {
        "models": df,
        "texts": number,
        "moved": per_cent(np.sqrt(squares / (df * number))),
        "common": per_cent(np.sqrt(np.maximum(common, 0))),
        "documents": per_cent(np.sqrt(parts.sum() / (df * number))),
        "share": float((away**2).sum(axis=1).max() / squares),
        "p": float(test.sf(squares / parts.sum())),
    }


# ── The exponents, as Table 1 prints them


def printed_differences() -> pd.DataFrame:
    """Compare the exponents of cross-entropy and of −ln RBP_k that Table 1 prints, in each cell and for each k.

    Columns dataset, family, k, alpha_ce, alpha_rbp, difference, r_squared_ce, r_squared_rbp, within: whether the
    rounding of the two printed slopes can be all of their difference; relative, relative_low, relative_high: the
    difference in per cent of alpha_rbp, and the least and the most that rounding leaves.
    """
    printed = published.table1().assign(alpha=lambda table: -table["slope"])
    columns = ["dataset", "family", "alpha", "r_squared"]
    entropy = printed.loc[printed["metric"] == "cross_entropy", columns]
    ranks = printed.loc[printed["metric"] == "neg_log_rbp", [*columns, "k"]]
    table = entropy.merge(ranks, on=["dataset", "family"], suffixes=("_ce", "_rbp"))
    table["difference"] = (table["alpha_ce"] - table["alpha_rbp"]).round(3)
    table["within"] = table["difference"].abs() <= ROUNDING + 1e-9
    for name, off in (("relative", 0.0), ("relative_low", -ROUNDING / 2), ("relative_high", ROUNDING / 2)):
        table[name] = (100 * ((table["alpha_ce"] + off) / (table["alpha_rbp"] - off) - 1)).round(9)
    return table.sort_values(CELL, ignore_index=True)


# ── What is recorded


def family_summary(curves_in: pd.DataFrame) -> dict[str, Any]:
    """Summarise `entropy_curves`: the scatter about CE and size, in how many cases CE is closer, and at which k."""
    first = curves_in[curves_in["k"] == 1]
    values: dict[str, Any] = {}
    for row in first[first["family"] == "Pythia"].to_dict("records"):
        values |= {f"{name}.{row['dataset']}.Pythia.k1": row[name] for name in ("scatter", "scatter_size")}
    sized = first.dropna(subset="scatter_size")
    values |= {"by_cross_entropy.closer": int((sized["scatter"] < sized["scatter_size"]).sum())}
    values |= {"by_cross_entropy.cells": len(sized)}
    values |= {"scatter_max.k1": sized.loc[sized["family"].isin(OURS), "scatter"].max()}  # of our small models
    lists = curves_in[curves_in["k"].isin([1, 10, 100])].dropna(subset="scatter_size")
    values |= {"by_cross_entropy.lists.closer": int((lists["scatter"] < lists["scatter_size"]).sum())}
    by_text, by_family = find_tightest_k(curves_in), find_tightest_k(curves_in, ["family"])
    values |= {"tightest.families": len(by_family), "tightest.at_1": int((by_family["k"] == 1).sum())}
    values |= {"tightest.k": " and ".join(map(str, by_family["k"]))}
    return values | {"tightest.k_min": by_text["k"].min(), "tightest.k_max": by_text["k"].max()}


def entropy_counts(curves_in: pd.DataFrame, k: int = 1) -> dict[str, Any]:
    """Count the cells of `entropy_curves` at k: cells, falls (where −ln RBP_k falls significantly as CE falls).

    most: the largest scatter of one of them about a power law in CE, per cent; not there where there is none.
    """
    rows = curves_in[curves_in["k"] == k]
    most = {"most": float(rows["scatter"].max())} if len(rows) else {}
    return {"cells": len(rows), "falls": int((rows["low"] > 0).sum())} | most


def write_answers(curves_in: pd.DataFrame) -> list[str]:
    """Say how closely −ln RBP_k follows cross-entropy within a family and dataset (`entropy_curves`)."""
    rows, both = curves_in, curves_in.dropna(subset="scatter_size")
    falls, rises = int((rows["low"] > 0).sum()), int((rows["high"] < 0).sum())
    sentences = [
        f"−ln RBPₖ falls significantly as CE falls in {falls} of {len(rows)} cases of family, dataset and k"
        + (f", and rises significantly in {rises}." if rises else "."),
        f"It scatters about a power law in CE by {rows['scatter'].median():.1f}% (median; "
        f"{rows['scatter'].max():.1f}% at most).",
    ]
    closer = (both["scatter"] < both["scatter_size"]).sum()
    return sentences + [f"CE is a closer guide than size in {closer} of {len(both)} cases."] * bool(len(both))


def forecast_summary(ahead: pd.DataFrame) -> dict[str, Any]:
    """Summarise `forecasts` at k = 1; a model counts once, on however many texts.

    forecasts.models, forecasts.nearer: hidden models, and those whose −ln RBP_1 is forecast more closely than CE, in
    the mean over texts; forecasts.sign_p: of a sign test over the models, two-sided; direct.Pythia.k1,
    control.Pythia.k1: the median errors of both for Pythia.
    """
    first = ahead[ahead["k"] == 1]
    errors = first.set_index("model")[["direct", "control"]].abs().groupby("model").mean()
    nearer = int((errors["direct"] < errors["control"]).sum())
    values: dict[str, Any] = {"forecasts.models": len(errors), "forecasts.nearer": nearer}
    values |= {"forecasts.sign_p": stats.binomtest(nearer, len(errors)).pvalue if len(errors) else np.nan}
    pythia = first[first["family"] == "Pythia"]
    return values | {f"{metric}.Pythia.k1": pythia[metric].abs().median() for metric in ("direct", "control")}


def equal_summary(texts: pd.DataFrame, again: pd.DataFrame) -> dict[str, Any]:
    """Summarise texts at equal cross-entropy, and trainings: `at_equal_entropy`, `measure_trainings_without`."""
    first_again = again[again["k"] == 1]
    values = {"offset_max.texts.k1": texts.loc[texts["k"] == 1, "offset"].abs().max()}
    for row in first_again[first_again["without"] == ""].to_dict("records"):  # one: of the family that is read
        values |= {f"seeds.{name}": row[name] for name in ("models", "moved")}
    small = first_again["without"] == SMALLEST
    if small.any():
        values["seeds.moved.small"] = first_again.loc[small, "moved"].iloc[0]
    one_less = first_again[~small & (first_again["without"] != "")]
    if len(one_less):
        odd = one_less.sort_values("moved").iloc[0]
        values |= {"seeds.moved.text": odd["moved"], "seeds.odd_text": dataset_label(odd["without"])}
    # a model counts once, on however many texts and at however many k; a pair is apart if it is at every k
    for name, ks in (("k1", [1]), ("every_k", texts["k"].unique().tolist())):
        pairs = texts[texts["k"].isin(ks)].groupby(["family", "first", "second"])["apart"].all()
        values |= {f"equal.texts.{name}": len(pairs), f"equal.texts_apart.{name}": int(pairs.sum())}
        values[f"seeds.p.{name}"] = again.loc[again["k"].isin(ks), "p"].max()  # whatever is left out
    return values


def exponents_summary(
    printed: pd.DataFrame, tests: Mapping[tuple[str, str], Equivalence], *, near: float = 0.1
) -> dict[str, Any]:
    """Summarise `printed_differences` at k = 1, and tests of equivalence by dataset and family.

    near: exponents count as near if one differs from the other by no more than this share of α of −ln RBP_1. Cells
    within a tenth and a fifth are those within near and twice near; least, most: what rounding leaves of the first.
    relative.widest: per cent, of the test with most models.
    """
    at_1 = printed[printed["k"] == 1]
    away, tenth = at_1["relative"].abs(), 100 * near
    gap = at_1["r_squared_ce"] - at_1["r_squared_rbp"]
    apart = at_1.iloc[int(gap.abs().argmax())]
    values: dict[str, Any] = {
        "printed_cells": len(at_1),
        "printed_within_tenth": int((away <= tenth).sum()),
        "printed_within_fifth": int((away <= 2 * tenth).sum()),
        "printed_tenth_least": int(((at_1["relative_low"] >= -tenth) & (at_1["relative_high"] <= tenth)).sum()),
        "printed_tenth_most": int(((at_1["relative_low"] <= tenth) & (at_1["relative_high"] >= -tenth)).sum()),
        "printed_r_squared_comparable": int((gap <= 0.01 + 1e-9).sum()),
        "printed_r_squared_apart.cell": cell_label(apart),
    }
    values |= {f"printed_r_squared_apart.{end}": apart[f"r_squared_{end}"] for end in ("ce", "rbp")}
    names = at_1["dataset"] + "." + at_1["family"]
    sides = at_1[["relative_low", "relative_high"]].abs()
    least = sides.min(axis=1).where(at_1["relative_low"] * at_1["relative_high"] > 0, 0.0)
    for end, column in (("relative", away), ("relative_least", least), ("relative_most", sides.max(axis=1))):
        values |= {f"printed_{end}.{name}": value_of_cell for name, value_of_cell in zip(names, column, strict=True)}
    widest = max(tests.values(), key=lambda test: test.df)
    interval_of_widest = {"relative": widest.relative, "relative_low": widest.low, "relative_high": widest.high}
    values |= {f"{name}.widest": 100 * value for name, value in interval_of_widest.items()}
    values |= {"table1.near": sum(test.within for test in tests.values())}
    values |= {"table1.outside": sum(test.outside for test in tests.values())}
    return values | {"table1.tested": len(tests)}


# ── Figures


def scatter_figure(curves_in: pd.DataFrame, dataset: str = "wikipedia") -> dict[str, Any]:
    """Plot the scatter about smooth curves in CE and in S against k, of each family on `dataset` (`select_several_k`).

    Without that dataset all are plotted. Where the scatter is above 30% there is no curve left, and nothing is plotted.
    """
    rows = in_cells(curves_in[curves_in["smooth"] < 30])
    if dataset in set(rows["dataset"]):
        rows = rows[rows["dataset"] == dataset]
    names = {"smooth_size": "size S", "smooth": "CE"}
    styles = {"size S": ("#5C8A2E", "D", "--"), "CE": ("#9457C0", "o", "-")}
    rows = melted(rows, names, "k", by=["cell"])
    return {
        "figure": curves(
            rows, "k", "value", labels=("threshold k", "scatter of −ln RBPₖ (%)"), panel="cell", styles=styles,
            name_ends=True, log="xy", size=(4.6, 2.8),
        ),
        "alt": "The scatter about cross-entropy and about size against k, two lines for each family",
        "data": curves_in,
    }  # fmt: skip
