"""Models at equal cross-entropy: two architectures, two texts, two sizes, or one model trained again.

What they are held against is the line of ln(−ln RBP_k) on ln CE.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from statsmodels.regression.linear_model import OLS

from companion.chapters.cross_entropy.family import line_of_rungs, per_cent
from rbp.arrays import Reals, check_level
from rbp.figures.style import INK, LABELS, family_style, legend_below, single_panel
from rbp.figures.wording import dataset_label
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import covariance, student, variance
from rbp.measurements.counts import LeftOut
from rbp.report.display import INTERVAL_1, Columns, shown

SWEEP = ["context", "batch"]
SMALLEST = "smallest models"


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
    lines = [line_of_rungs(one, k) for one in (first, second)]
    there = [at_0 + slope * np.log(entropy) for at_0, slope in lines]
    fewer = min(len(one.counts.tokens) for one in (first, second))
    by_text = variance(there[0]) + variance(there[1])
    _, low, high = 100 * np.expm1(student(there[1][0] - there[0][0], by_text, fewer - 1, level=level))
    return float(low), float(high)


def trainings(texts: Sequence[LeftOut]) -> pd.DataFrame:
    """How far training a model again moves −ln RBP_k at equal CE: a mixed model over models and texts.

    Of models that share their size, ln(−ln RBP_k) less the curve's part. A size on a text has a fixed effect; a
    training has two random ones, one on all texts alike and one of each text.

    Columns family, k, models (trained again), texts; in per cent, as standard deviations, moved (of a training, on a
    text), common (its part on all texts alike; NaN for one text), documents (what other documents would make of
    `moved`); share: the largest of one text in their squares; p: F test that documents make all of it (Satterthwaite).
    """
    rows = []
    for family in sorted({one.counts.families[0] for one in texts}):
        own = [one for one in texts if one.counts.families[0] == family]
        names = sorted(set.intersection(*({*one.counts.names} for one in own)))
        sizes = own[0].counts.models.set_index("model")["size"].loc[names]
        again = sizes[sizes.duplicated(keep=False)]
        for k in sorted(set.intersection(*({*one.counts.thresholds} for one in own))) if len(again) else ():
            left = []
            for one in own:
                at = pd.Index(one.counts.names).get_indexer(again.index)
                left.append((one.at(k) - line_of_rungs(one, k)[1][:, None] * one.x)[:, at])
            if all(np.isfinite(each).all() for each in left):
                rows.append({"family": family, "k": k} | _spread(again, left))
    return pd.DataFrame(rows, columns=["family", "k", "models", "texts", "moved", "common", "documents", "share", "p"])


def trainings_without(texts: Sequence[LeftOut]) -> pd.DataFrame:
    """`trainings` of all, without each text in turn, and without the smallest models, by the column `without`.

    A dataset's name, SMALLEST, or "" for all: one odd text, or models of a few thousand parameters, may make the whole.
    """
    some = {"": list(texts), SMALLEST: [one.keep(one.counts.sizes > one.counts.sizes.min()) for one in texts]}
    for name in sorted({one.counts.dataset for one in texts}):
        some[name] = [one for one in texts if one.counts.dataset != name]
    found = [trainings(own).assign(without=name) for name, own in some.items() if own or not name]
    return pd.concat([found[0], *(each for each in found[1:] if len(each))], ignore_index=True)


def _spread(sizes: "pd.Series[int]", left: Sequence[Reals]) -> dict[str, Any]:
    """What `trainings` says of one k; left: of each text, and of it without each document, shape (1 + D, models)."""
    member = pd.get_dummies(sizes).to_numpy(float)
    within = np.eye(len(sizes)) - member @ (member / member.sum(axis=0)).T
    number, df = len(left), len(sizes) - member.shape[1]
    away = np.array([within @ each[0] for each in left])
    noise = [within @ covariance(each) @ within for each in left]  # of documents

    squares = float((away**2).sum())
    shared = number * float((away.mean(axis=0) ** 2).sum())  # of that, the shifts that all texts have alike
    common = (shared - (squares - shared) / (number - 1)) / (df * number) if number > 1 else np.nan
    parts = np.trace(noise, axis1=1, axis2=2)
    by_text = np.array([len(each) - 2 for each in left])
    test = stats.f(parts.sum() ** 2 / np.square(noise).sum(), parts.sum() ** 2 / (parts**2 / by_text).sum())
    return {
        "models": df,
        "texts": number,
        "moved": per_cent(np.sqrt(squares / (df * number))),
        "common": per_cent(np.sqrt(np.maximum(common, 0))),
        "documents": per_cent(np.sqrt(parts.sum() / (df * number))),
        "share": float((away**2).sum(axis=1).max() / squares),
        "p": float(test.sf(squares / parts.sum())),
    }


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


# ── What the page says


def equal_told(texts: pd.DataFrame, again: pd.DataFrame, across: pd.DataFrame, by_size: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of models at equal cross-entropy.

    texts, again, across, by_size: of `at_equal_entropy`, `trainings_without`, `sweeps` and `size_at_equal_entropy`.
    """
    first_again = again[again["k"] == 1]
    same = across["architecture_first"] == across["architecture_second"]
    told = {"runs.offset": _alike(across)["offset"].max(), "runs.yardstick": across.loc[same, "offset"].abs().max()}
    told |= {"runs.size.low": by_size["per_tenfold"].min(), "runs.size.high": by_size["per_tenfold"].max()}
    first = texts[texts["k"] == 1]
    told |= {"compared.k1": len(first), "apart.k1": int(first["apart"].sum())}
    told |= {"offset_max.texts.k1": first["offset"].abs().max()}
    for row in first_again[first_again["without"] == ""].to_dict("records"):  # one: of the family that is read
        told |= {f"seeds.{name}": row[name] for name in ("models", "moved", "documents")}
    small = first_again["without"] == SMALLEST
    if small.any():
        told["seeds.moved.small"] = first_again.loc[small, "moved"].iloc[0]
    one_less = first_again[~small & (first_again["without"] != "")]
    if len(one_less):
        odd = one_less.sort_values("moved").iloc[0]
        told |= {"seeds.moved.text": odd["moved"], "seeds.odd_text": dataset_label(odd["without"])}
    # a model counts once, on however many texts and at however many k; a pair is apart if it is at every k
    alike = _alike(across)
    told |= {"equal.runs": len(alike), "equal.runs_apart": int(alike["apart"].sum())}
    for name, ks in (("k1", [1]), ("every_k", texts["k"].unique().tolist())):
        pairs = texts[texts["k"].isin(ks)].groupby(["family", "first", "second"])["apart"].all()
        told |= {f"equal.texts.{name}": len(pairs), f"equal.texts_apart.{name}": int(pairs.sum())}
        told[f"seeds.p.{name}"] = again.loc[again["k"].isin(ks), "p"].max()  # whatever is left out
    return told


def _alike(across: pd.DataFrame) -> pd.DataFrame:
    """The sweeps of two architectures trained alike."""
    return across[across["alike"] & (across["architecture_first"] != across["architecture_second"])]


# ── What the page shows


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


def trainings_shown(table: pd.DataFrame) -> dict[str, Any]:
    """`trainings` as a page shows it, at the k of the tables."""
    columns: Columns = {
        "k": "k",
        "models": "models trained again",
        "texts": "texts",
        "moved": ("a training moves (%)", "{:.2f}"),
        "common": ("on all texts alike (%)", "{:.2f}"),
        "documents": ("documents alone (%)", "{:.2f}"),
        "share": ("most on one text", "{:.0%}"),
        "p": ("p", "{:.2g}"),
    }
    caption = (
        "<b>Models trained again, at equal cross-entropy</b>: standard deviations of −ln RBPₖ, by a mixed model over "
        "models and texts. Most on one text: its share in their squares. p: of no more than documents make (F test)."
    )
    return shown(table, columns, caption=caption)
