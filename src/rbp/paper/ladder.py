"""What the chapter on the ladder asks of a family's rank stores: the law, its intervals, its scatter, and Pythia's."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from rbp.book.steps import step
from rbp.core.arrays import Reals
from rbp.core.errors import DataError, FitError, ParameterError
from rbp.evidence import Source, grid, open_source, select
from rbp.evidence.document_hits import GRID, Hits, as_table, from_table
from rbp.evidence.published import models
from rbp.evidence.ranked import SHARES, large
from rbp.paper.wording import dataset_order
from rbp.stats.cells import fit_table, with_holm
from rbp.stats.clustering import draws
from rbp.stats.power_law import curvature, fit_power_law

_AT_ONCE = 100  # draws in memory at once: a domain can have thousands of documents


def log_neg_log_rbp(hits: Hits) -> Reals:
    """y = ln(−ln RBP_k) on the text as it is, shape (models, thresholds); −inf where every token is a hit."""
    found: Reals = _log_neg_log(np.array([hits.tokens.sum()]), hits.hits.sum(axis=0)[None])[0]
    return found


def resample(hits: Hits, *, resamples: int = 2000, seed: int = 0) -> Reals:
    """`log_neg_log_rbp` on corpora drawn anew, shape (resamples, models, thresholds).

    Whole documents are drawn with replacement, as many as there are, and the same ones for all models at all k: an
    easy document is easy for all. −inf where all tokens of a draw are hits.
    """
    return resample_both(hits, resamples=resamples, seed=seed)[0]


def resample_both(hits: Hits, *, resamples: int = 2000, seed: int = 0) -> tuple[Reals, Reals]:
    """`resample`, and the cross-entropy of every model on the same draws, shape (resamples, models)."""
    documents, models = hits.nll.shape
    flat = np.column_stack([hits.tokens, hits.hits.reshape(documents, -1), hits.nll]).astype(np.float64)
    drawn = draws(documents, resamples, at_once=_AT_ONCE, seed=seed)
    with np.errstate(invalid="ignore"):  # 0·∞: a document that is not drawn, of infinite loss
        sums = np.concatenate([times @ flat for times in drawn])
    tokens, hit, nll = np.split(sums, [1, -models], axis=1)
    return _log_neg_log(tokens[:, 0], hit.reshape(resamples, *hits.hits.shape[1:])), nll / tokens


def _log_neg_log(tokens: npt.NDArray[Any], hits: npt.NDArray[Any]) -> Reals:
    with np.errstate(divide="ignore"):
        found: Reals = np.log(np.log(tokens[:, None, None] / hits))
    return found


def resampled_points(hits: Hits, draws: Reals, *, level: float = 0.95) -> pd.DataFrame:
    """−ln RBP_k of every model at every k, with the percentile interval of `draws` (from `resample`).

    Columns dataset, family, model, size, k, value, low, high (NaN where too many draws have no logarithm). An
    interval says what other documents of the kind could have given this very model.
    """
    values, rows = np.exp(log_neg_log_rbp(hits)), []
    for m, model in enumerate(hits.models):
        for i, k in enumerate(hits.thresholds):
            low, high = np.exp(_percentiles(draws[:, m, i], level))
            cell = (hits.dataset, hits.family, model, int(hits.sizes[m]), k)
            rows.append((*cell, values[m, i], low, high))
    columns = ["dataset", "family", "model", "size", "k", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def resampled_laws(hits: Hits, draws: Reals, *, level: float = 0.95) -> pd.DataFrame:
    """The power law through the rungs at each k, with two intervals of α that answer different questions.

    alpha_low, alpha_high: ordinary least squares, from the scatter about the line. It covers what moves single rungs:
    seeds, lack of fit, and noise of documents that rungs do not share. text_low, text_high: percentiles over `draws`,
    each fitted anew. It covers which documents were drawn, and takes the rungs as they are; of 24 documents, that of
    95% covers about 91%.

    One row for each k: dataset, family, k, documents, tokens, misses (fewest of a rung), n, alpha, alpha_low,
    alpha_high, alpha_se, df, text_low, text_high, lost (draws without a logarithm), r_squared, residual_se, note (why
    there is no fit; its numbers are then NaN).
    """
    values, rungs = np.exp(log_neg_log_rbp(hits)), hits.rungs
    total = int(hits.tokens.sum())
    rows = []
    for i, k in enumerate(hits.thresholds):
        row: dict[str, Any] = {
            "dataset": hits.dataset,
            "family": hits.family,
            "k": k,
            "documents": len(hits.tokens),
            "tokens": total,
            "misses": total - int(hits.hits[:, rungs, i].sum(axis=0).max()),
            "n": len(rungs),
        }
        slopes = exponents(hits.sizes[rungs], draws[:, rungs, i])
        low, high = _percentiles(slopes, level)
        try:
            fit = fit_power_law(hits.sizes[rungs], values[rungs, i], level=level)
        except FitError as error:
            row["note"] = error.what
        else:
            names = ("alpha", "alpha_low", "alpha_high", "alpha_se", "r_squared", "residual_se", "df")
            row |= {name: getattr(fit, name) for name in names}
            row |= {"text_low": low, "text_high": high, "lost": int((~np.isfinite(slopes)).sum()), "note": ""}
        rows.append(row)
    columns = ["alpha", "alpha_low", "alpha_high", "alpha_se", "df", "text_low", "text_high", "lost", "r_squared"]
    wanted = ["dataset", "family", "k", "documents", "tokens", "misses", "n", *columns, "residual_se", "note"]
    return pd.DataFrame(rows, columns=wanted)


def exponents(sizes: npt.ArrayLike, y: Reals) -> Reals:
    """α of the least-squares line through each row of `y` [draws, rungs] against ln S; NaN where a y is infinite."""
    x = np.log(np.asarray(sizes, dtype=np.float64))
    x = x - x.mean()
    known = np.where(np.isfinite(y), y, np.nan)
    slope: Reals = -(known @ x) / (x @ x)
    return slope


def _percentiles(values: Reals, level: float) -> tuple[float, float]:
    """The interval of `level` over the finite values; NaN where those without a logarithm would fill a tail."""
    finite = values[np.isfinite(values)]
    if len(values) - len(finite) > (1 - level) / 2 * len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class ScatterParts:
    """Variances of ln(−ln RBP_k) about the line: total = document + seed + lack, of which the last two can be negative.

    total: the squared scatter of the fit, over n − 2 degrees of freedom.
    document: what drawing other documents moves the rungs apart by.
    seed, seed_low, seed_high: the variance between seeds of one size, less what documents add to it, with an interval;
    seed_df: its degrees of freedom. NaN without repeated sizes; their part is then in lack.
    lack: the rest.
    f, df_num, df_den, p: the F test of lack = 0, with Satterthwaite's degrees of freedom. It is cautious, as the first
    seeds are on both sides: a true line is rejected more rarely than p says.
    """

    total: float
    document: float
    seed: float
    seed_low: float
    seed_high: float
    lack: float
    n: int
    seed_df: int
    f: float
    df_num: float
    df_den: float
    p: float


def split_scatter(sizes: npt.ArrayLike, y: Reals, draws: Reals, documents: int, *, level: float = 0.95) -> ScatterParts:
    """Split the scatter of y, shape (models,), about the line through the first model of each of `sizes`.

    Models of one size stand side by side and differ in their seed. draws: y on resampled corpora of `documents`
    documents, shape (resamples, models), all finite; at least three different sizes, and two documents.
    """
    size, rung = np.unique(np.asarray(sizes, dtype=np.float64), return_inverse=True)
    first = np.unique(rung, return_index=True)[1]
    design = np.column_stack([np.ones(len(size)), np.log(size)])
    residual = np.eye(len(size)) - design @ np.linalg.pinv(design)
    df = len(size) - 2
    member = np.eye(len(size))[rung]
    within = np.eye(len(rung)) - member @ (member / member.sum(axis=0)).T
    seed_df = len(rung) - len(size)

    text = documents / (documents - 1) * np.atleast_2d(np.cov(draws, rowvar=False))
    moved = residual @ text[np.ix_(first, first)] @ residual  # the residuals' covariance by documents
    total = float(np.sum((residual @ y[first]) ** 2)) / df
    document = float(np.trace(moved)) / df
    seed = low = high = nan
    kept, between = 0.0, 0.0  # the seeds' part where it is known and positive
    if seed_df:
        between = float(np.sum((within @ y) ** 2)) / seed_df
        shared = float(np.trace(within @ text @ within)) / seed_df
        seed = between - shared
        tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], seed_df)
        low, high = np.maximum(seed_df * between / tails - shared, 0)
        kept = max(seed, 0.0)
    noise = moved + kept * residual
    expected = document + kept
    df_num = float(np.trace(noise) ** 2 / np.sum(noise**2))
    df_den = expected**2 / (document**2 / (documents - 1) + (between**2 / seed_df if seed_df else 0))
    f = total / expected
    return ScatterParts(
        total=total,
        document=document,
        seed=seed,
        seed_low=float(low),
        seed_high=float(high),
        lack=total - document - (seed if seed_df else 0),
        n=len(size),
        seed_df=seed_df,
        f=f,
        df_num=df_num,
        df_den=df_den,
        p=float(stats.f.sf(f, df_num, df_den)),
    )


def scatter_parts(hits: Hits, draws: Reals, *, level: float = 0.95) -> pd.DataFrame:
    """The `ScatterParts` of a dataset at every k (draws from `resample`): dataset, family, k and its fields.

    Draws in which a model misses no token are left out; a k at which most are, or the text itself is one, has no row.
    """
    y, rows = log_neg_log_rbp(hits), []
    for i, k in enumerate(hits.thresholds):
        whole = draws[np.isfinite(draws[:, :, i]).all(axis=1), :, i]
        if 2 * len(whole) > len(draws) and np.isfinite(y[:, i]).all():
            found = split_scatter(hits.sizes, y[:, i], whole, len(hits.tokens), level=level)
            rows.append({"dataset": hits.dataset, "family": hits.family, "k": k} | asdict(found))
    return pd.DataFrame(rows, columns=["dataset", "family", "k", *(field.name for field in fields(ScatterParts))])


_NEAR = np.log(1.1)  # a published threshold within ten per cent of a share of the vocabulary stands for it


@dataclass(frozen=True)
class LadderLaws:
    """A family's law on each dataset.

    counted: the hits behind it; shown: the thresholds asked for, k → its name ("10", "0.4 V"); points: see
    `resampled_points`, of the first model of each size; laws: see `resampled_laws`; splits: see `scatter_parts`.
    The tables hold the thresholds of `document_hits.GRID` as well.
    """

    counted: list[Hits]
    shown: dict[int, str]
    points: pd.DataFrame
    laws: pd.DataFrame
    splits: pd.DataFrame

    def at(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of one of the tables at the thresholds asked for, with the column `threshold`, their names."""
        own = table[table["k"].isin(list(self.shown))]
        return own.assign(threshold=own["k"].map(self.shown))


def ladder_laws(
    source: Source,
    datasets: Sequence[str] = (),
    ks: Sequence[int] = (1, 10, 100),
    shares: Sequence[float] = SHARES,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> LadderLaws:
    """Read the rank stores, draw their documents anew, and fit.

    source: rank stores of one family, such as "ladder"; datasets: none named means all; shares: large k, as shares of
    the vocabulary. The ladder's own hits at the usual thresholds come from the step "ladder_hits".
    Raises ParameterError for an unknown dataset and for values that make no sense, FitError for fewer than three
    sizes or two documents; else what `Source.hits` raises.
    """
    if wrong := [share for share in shares if not 0 < share < 1]:
        raise ParameterError(f"{wrong[0]} is no share of the vocabulary", "shares", "Give shares between 0 and 1.")
    if not [*ks, *shares]:
        raise ParameterError("no threshold is asked for", "ks, shares", "Give some, such as ks=1,10,100.")
    if resamples < 100:
        raise ParameterError(f"{resamples} resamples are too few", "resamples", "Give at least 100.")
    counted, shown = counted_hits(source, ks, shares)
    there = {one.dataset: one for one in counted}
    if unknown := [name for name in datasets if name not in there]:
        raise ParameterError(f"no ranks on {unknown[0]}", "datasets", f"There is: {', '.join(there)}.")
    counted = [there[name] for name in (datasets or dataset_order(there))]
    for one in counted:
        if len(one.rungs) < 3:
            what = f"{len(one.rungs)} sizes are too few for a law"
            raise FitError(what, f"{one.family} on {one.dataset}", "Give the ranks of at least three sizes.")
        if len(one.tokens) < 2:
            raise FitError("one document cannot be drawn anew", one.dataset, "Give a text of several documents.")
    tables: list[list[pd.DataFrame]] = [[], [], []]
    for one in counted:
        draws = resample(one, resamples=resamples, seed=seed)
        first = [one.models[i] for i in one.rungs]
        all_points = resampled_points(one, draws, level=level)
        tables[0].append(all_points[all_points["model"].isin(first)])
        tables[1].append(resampled_laws(one, draws, level=level))
        tables[2].append(scatter_parts(one, draws, level=level))
    return LadderLaws(counted, shown, *(pd.concat(parts, ignore_index=True) for parts in tables))


def departures(found: LadderLaws, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """How the rungs leave their lines at the thresholds `ks` (none named: all that were asked for), a row a line.

    Columns dataset, family, k, threshold; farthest: the largest distance of a rung, in per cent of the line.
    p, alarm, p_holm, alarm_holm (`with_holm`, over these lines): the F test of `split_scatter`, whether it is more
    than documents and seeds make, in whatever pattern.
    coefficient, low, high, p_bend, alarm_bend, p_holm_bend, alarm_holm_bend: the coefficient of (ln S)², which asks for
    a bend alone (`curvature`). sag: how far a bend of half that interval's width moves the middle of a line off its
    chord, in per cent. A line without a test has missing numbers, and no alarm.
    """
    small, key = list(ks) or list(found.shown), ["dataset", "family", "k"]
    points, splits = (table[table["k"].isin(small)] for table in (found.at(found.points), found.at(found.splits)))
    rows = []
    for cell, own in points.groupby([*key, "threshold"], sort=False):
        row: dict[str, Any] = dict(zip([*key, "threshold"], cell, strict=True))
        with suppress(FitError):
            law = fit_power_law(own["size"], own["value"]).predict(own["size"])["value"].to_numpy()
            row["farthest"] = 100 * np.abs(own["value"].to_numpy() / law - 1).max()
            bend = curvature(own["size"], own["value"], level=level)
            half = np.log(own["size"].max() / own["size"].min()) / 2
            row |= {name: getattr(bend, name) for name in ("coefficient", "low", "high", "p")}
            row["sag"] = 100 * (bend.high - bend.low) / 2 * half**2
        rows.append(row)
    bends = pd.DataFrame(rows, columns=[*key, "threshold", "farthest", "coefficient", "low", "high", "p", "sag"])
    tests = with_holm(splits, level)[[*key, "p", "alarm", "p_holm", "alarm_holm"]]
    table = with_holm(bends, level).merge(tests, how="left", on=key, suffixes=("_bend", ""))
    return table.assign(**{name: table[name].eq(True) for name in ("alarm", "alarm_holm")})


def bends(points: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The coefficient of (ln S)² of each text and k (`curvature`), corrected over all of these lines by Holm.

    points: dataset, k, size, value (`resampled_points`). Columns dataset, k, n, coefficient, low, high, p, alarm,
    p_holm, alarm_holm. Lines that have no test, of three sizes say, are left out.
    """
    rows = []
    for (dataset, k), own in points.groupby(["dataset", "k"], sort=False):
        with suppress(FitError):
            bend = curvature(own["size"], own["value"], level=level)
            names = ("n", "coefficient", "low", "high", "p")
            rows.append({"dataset": dataset, "k": k} | {name: getattr(bend, name) for name in names})
    return with_holm(pd.DataFrame(rows, columns=["dataset", "k", "n", "coefficient", "low", "high", "p"]), level)


def without_largest(points: pd.DataFrame) -> pd.DataFrame:
    """The points of all sizes but the largest of each text."""
    return points[points["size"] < points.groupby("dataset")["size"].transform("max")]


def seed_variance(counted: Sequence[Hits], k: int) -> tuple[float, int]:
    """The variance between models of one size that differ in their seed, of the mean over the texts of ln y at k.

    Pooled over the sizes with several; and its degrees of freedom, 0 (and NaN) where no size has.
    """
    y = np.mean([log_neg_log_rbp(hits)[:, hits.place(k)] for hits in counted], axis=0)
    size, rung = np.unique(counted[0].sizes, return_inverse=True)
    df = len(rung) - len(size)
    away = y - (np.bincount(rung, y) / np.bincount(rung))[rung]
    return (float(away @ away) / df if df else nan), df


def reruns(
    counted: Sequence[Hits], k: int, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """How far a rung that was trained again lies from its first training, a row for each text and model.

    Columns dataset, model, first (its name), size, difference (of ln(−ln RBP_k), times 100: nearly per cent of
    −ln RBP_k), low, high (with the same documents drawn anew for both).
    """
    rows = []
    for hits in counted:
        place = hits.place(k)
        y, drawn = log_neg_log_rbp(hits)[:, place], resample(hits, resamples=resamples, seed=seed)[:, :, place]
        first = {int(hits.sizes[i]): i for i in hits.rungs}
        for i, size in enumerate(hits.sizes):
            if i != (at := first[int(size)]):
                low, high = _percentiles(100 * (drawn[:, i] - drawn[:, at]), level)
                names = {"dataset": hits.dataset, "model": hits.models[i], "first": hits.models[at], "size": int(size)}
                rows.append(names | {"difference": 100 * (y[i] - y[at]), "low": low, "high": high})
    return pd.DataFrame(rows, columns=["dataset", "model", "first", "size", "difference", "low", "high"])


def zigzag(
    counted: Sequence[Hits],
    sizes: tuple[int, int],
    k: int,
    between: tuple[float, int],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """The residual of one rung less that of another about the law at k, in ln y, mean over the texts; and its interval.

    sizes: S of the two rungs; between: the variance between seeds and its degrees of freedom (`seed_variance`), of
    these or of like models. The interval is Student's with those degrees of freedom, from the seeds and from the
    documents, each text's drawn anew apart from the others'. Raises FitError where a text lacks one of the sizes.
    """
    whole, drawn = [], []
    for i, hits in enumerate(counted):
        rungs = hits.rungs
        size = hits.sizes[rungs]
        if missing := [each for each in sizes if each not in size]:
            raise FitError(f"there is no rung of {missing[0]:,} parameters", hits.dataset, "Give two that are there.")
        x = np.log(size.astype(np.float64))
        design = np.column_stack([np.ones_like(x), x])
        residual = np.eye(len(x)) - design @ np.linalg.pinv(design)
        contrast = residual[np.flatnonzero(size == sizes[0])[0]] - residual[np.flatnonzero(size == sizes[1])[0]]
        place = hits.place(k)
        whole.append(contrast @ log_neg_log_rbp(hits)[rungs, place])
        drawn.append(resample(hits, resamples=resamples, seed=seed + i)[:, rungs, place] @ contrast)
    variance, df = between
    error = np.sqrt(np.var(np.mean(drawn, axis=0)) + variance * float(contrast @ contrast))
    at, half = float(np.mean(whole)), float(stats.t.ppf((1 + level) / 2, df) * error)
    return at, at - half, at + half


def first_ladder(k: int, datasets: Sequence[str] = ()) -> list[Hits]:
    """The hits at k of the ladder before this one, from its sums, other seeds included; of some texts, or of all."""
    return [one.hits_of(grid.FIRST) for one in grid.counted([k], families=[grid.FIRST], datasets=datasets)]


def points_at(counted: Sequence[Hits], k: int) -> pd.DataFrame:
    """−ln RBP_k of the first model of each size on each text: columns dataset, family, model, size, k, value."""
    rows = []
    for hits in counted:
        values = np.exp(log_neg_log_rbp(hits)[:, hits.place(k)])
        rows += [(hits.dataset, hits.family, hits.models[i], int(hits.sizes[i]), k, values[i]) for i in hits.rungs]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "value"])


def with_ablations(first: Sequence[Hits]) -> list[Hits]:
    """The first ladder's rungs that were trained again with one thing changed, and after each those trainings.

    first: see `first_ladder`; its other seeds are left out. Raises DataError where the ablations ranked other tokens;
    else what `rbp.evidence.grid.counted` raises.
    """
    found, counted = [], grid.counted(first[0].thresholds, families=[grid.ABLATION])
    texts = {one.dataset: one.hits_of(grid.ABLATION) for one in counted}
    for hits in first:
        own = texts[hits.dataset]
        if not np.array_equal(hits.tokens, own.tokens):
            raise DataError(f"the ablations did not rank the same tokens of {hits.dataset}", "data/ladder", None)
        rungs = [i for i in hits.rungs if hits.sizes[i] in own.sizes]
        sizes = np.concatenate([hits.sizes[rungs], own.sizes])
        order = np.argsort(sizes, kind="stable")
        found.append(
            replace(
                own,
                family=hits.family,
                models=tuple(np.array([*(hits.models[i] for i in rungs), *own.models])[order].tolist()),
                sizes=sizes[order],
                hits=np.concatenate([hits.hits[:, rungs], own.hits], axis=1)[:, order],
                nll=np.concatenate([hits.nll[:, rungs], own.nll], axis=1)[:, order],
            )
        )
    return found


def moved(
    counted: Sequence[Hits],
    k: int,
    between: tuple[float, int],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """How far each rung that was trained with something changed lies from its first training, mean over the texts.

    counted: see `with_ablations`; between: the variance between seeds (`seed_variance`): each training has its own.
    Columns model, first, size, difference (of ln(−ln RBP_k), times 100), low, high (Student's interval, from seeds and
    from documents, each text's drawn anew apart from the others').
    """
    one, (variance, df) = counted[0], between
    place, firsts = one.place(k), {int(one.sizes[i]): i for i in one.rungs}
    y = np.mean([log_neg_log_rbp(hits)[:, place] for hits in counted], axis=0)
    drawn = np.mean(
        [resample(hits, resamples=resamples, seed=seed + i)[:, :, place] for i, hits in enumerate(counted)], axis=0
    )
    rows = []
    for i, size in enumerate(one.sizes):
        if i != (at := firsts[int(size)]):
            difference = float(y[i] - y[at])
            half = stats.t.ppf((1 + level) / 2, df) * np.sqrt(np.var(drawn[:, i] - drawn[:, at]) + 2 * variance)
            names = {"model": one.models[i], "first": one.models[at], "size": int(size)}
            ends = {"low": 100 * (difference - half), "high": 100 * (difference + half)}
            rows.append({**names, "difference": 100 * difference, **ends})
    return pd.DataFrame(rows)


@step(
    "ladder_hits",
    of=partial(open_source, "ladder"),
    reads=["data/ladder/families.json", "data/ladder/families-sums/neox"],
    seconds=1,
)
def _hits(source: Source) -> pd.DataFrame:
    """The shipped ladder's hits at GRID and SHARES, as `document_hits.as_table` gives them."""
    vocabulary = int(grid.models(["neox"])["vocabulary"].iloc[0])
    return as_table(source.hits([*GRID, *(large(share, vocabulary) for share in SHARES)]))


def counted_hits(source: Source, ks: Sequence[int], shares: Sequence[float]) -> tuple[list[Hits], dict[int, str]]:
    """The hits at GRID, ks and shares, and the names of the last two."""

    def names(vocabulary: int) -> dict[int, str]:
        found = {large(share, vocabulary): f"{share:g} V" for share in shares}
        return dict(sorted((found | {k: str(k) for k in ks}).items()))

    if _hits.has(source):
        counted = from_table(_hits(source))
        shown = names(counted[0].vocabulary)
        if set(shown) <= set(counted[0].thresholds):
            return counted, shown
    vocabulary = min(store.vocabulary for store in source.stores)
    shown = names(vocabulary)
    return source.hits(sorted({k for k in GRID if k <= vocabulary / 2} | set(shown))), shown


def published_laws(datasets: Sequence[str], *, level: float = 0.95) -> pd.DataFrame:
    """The power laws through Pythia's published −ln RBP_k on those of `datasets` that have them (`fit_table`).

    Only thresholds at which as many models are published as at any other; none where no dataset is the authors'.
    """
    table = select(open_source("published").table, metric="neg_log_rbp", family="Pythia")
    fits = fit_table(table[table["dataset"].isin(datasets)], ["dataset", "family", "k"], level=level)
    whole: pd.DataFrame = fits[fits["n"] == fits["n"].max()].reset_index(drop=True)
    return whole


def beside(found: LadderLaws, others: pd.DataFrame, shares: Sequence[float], *, level: float = 0.95) -> pd.DataFrame:
    """The laws at the thresholds asked for beside those of `others` (`published_laws`), where both are there.

    The other family's threshold is the same k; or, for a share of the vocabulary, the published one nearest to that
    share of its own smallest vocabulary, if within ten per cent. Columns dataset, k, threshold, other_k, alpha,
    alpha_low, alpha_high, text_low, text_high, r_squared, other_alpha, other_low, other_high, other_r_squared,
    difference (α here − α there), low, high: Welch's interval, from the scatter about the two lines.
    """
    vocabulary = models().query("family in @families", local_dict={"families": set(others["family"])}).vocab_size.min()
    named = {f"{share:g} V": share for share in shares}
    kept = ["dataset", "k", "threshold", "alpha", "alpha_low", "alpha_high", "text_low", "text_high", "r_squared"]
    rows = []
    for row in found.at(found.laws).dropna(subset="alpha").to_dict("records"):
        there = others[others["dataset"] == row["dataset"]].dropna(subset="alpha")
        wanted = named[row["threshold"]] * vocabulary if row["threshold"] in named else row["k"]
        distance = np.abs(np.log(there["k"].astype(float) / wanted))
        near = distance <= (_NEAR if row["threshold"] in named else 0)
        if not near.any():
            continue
        other = there.loc[distance.idxmin()]
        difference = row["alpha"] - other["alpha"]
        parts = np.array([row["alpha_se"], other["alpha_se"]]) ** 2
        df = parts.sum() ** 2 / (parts[0] ** 2 / row["df"] + parts[1] ** 2 / other["df"])
        reach = stats.t.ppf((1 + level) / 2, df) * np.sqrt(parts.sum())
        rows.append(
            {name: row[name] for name in kept}
            | {"other_k": int(other["k"]), "other_alpha": other["alpha"], "other_low": other["alpha_low"]}
            | {"other_high": other["alpha_high"], "other_r_squared": other["r_squared"], "difference": difference}
            | {"low": difference - reach, "high": difference + reach}
        )
    names = ["other_k", "other_alpha", "other_low", "other_high", "other_r_squared", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=[*kept, *names])
