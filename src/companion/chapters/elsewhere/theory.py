"""Two theories of k, held out, and the registered forecasts of images."""

import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.chapters.families import OURS, exponents
from companion.project import DATA
from companion.stats.difficulty import CURVES, THEORIES, CurveFit, fit_curve
from rbp import provenance
from rbp.errors import DataError
from rbp.figures.curves import curves, ramp
from rbp.figures.style import INK, Style, rbp_label
from rbp.figures.wording import dataset_label
from rbp.io import label, sha256
from rbp.report.display import Columns, shown

ALL_K = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SMALL, SMALL_PUBLISHED = 2e5, 5e8  # the sizes S up to which theories are fitted


def with_entropy(table: pd.DataFrame) -> pd.DataFrame:
    """The −ln RBP_k at ALL_K of models whose cross-entropy on the same text is known: with a column entropy (nats)."""
    ranks = table[(table["metric"] == "neg_log_rbp") & table["k"].isin(ALL_K) & (table["value"] > 0)]
    entropy = table[table["metric"] == "cross_entropy"][["dataset", "model", "value"]]
    both = ranks.merge(entropy.rename(columns={"value": "entropy"}), on=["dataset", "model"])
    return both.astype({"k": "int64"})[["dataset", "family", "model", "size", "k", "value", "entropy"]]


def fits_of(points: pd.DataFrame) -> dict[str, CurveFit]:
    """Each of `difficulty.CURVES`, fitted to `with_entropy` points."""
    return {name: fit_curve(name, points["k"], points["entropy"], points["value"]) for name in CURVES}


def held_out(ladder: pd.DataFrame, lstm: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """What theories and naive curves, fitted on small models of some texts, make of others: a row for each point.

    All three: `with_entropy`. On the ladder they are fitted on each two of the texts in turn, up to S = SMALL; of the
    published models up to SMALL_PUBLISHED. Columns fitted, told (what is foretold), fit (its number), dataset, family,
    size, k, value, and for each of CURVES what it foretells.
    """
    small, parts = ladder["size"] <= SMALL, []
    texts = sorted(ladder["dataset"].unique())
    for number, pair in enumerate(combinations(texts, 2)):
        there = ladder["dataset"].isin(pair)
        told = {
            "fitted on": ladder[there & small],
            "larger models": ladder[there & ~small],
            "other texts": ladder[~there & small],
            "other texts, larger models": ladder[~there & ~small],
            "our LSTMs": lstm,
            "published models": published,
        }
        parts += _foretold(OURS, number, told)
    few = published["size"] <= SMALL_PUBLISHED
    told = {"fitted on": published[few], "larger models": published[~few], OURS: ladder}
    return pd.concat(parts + _foretold("published models", -1, told), ignore_index=True)


def _foretold(fitted: str, number: int, told: dict[str, pd.DataFrame]) -> list[pd.DataFrame]:
    fits = fits_of(told["fitted on"])
    return [
        own.assign(
            fitted=fitted,
            told=name,
            fit=number,
            **{each: np.exp(fit.log_neg_log(own["k"], own["entropy"])) for each, fit in fits.items()},
        )
        for name, own in told.items()
    ]


def scored(points: pd.DataFrame) -> pd.DataFrame:
    """The root mean square error of −ln RBP_k, in per cent, of each curve on what it was fitted on and is held out.

    points: `held_out`. Columns fitted, told, points, and each of CURVES. The last two rows are of α_k/α_1 at k = 10 and
    100 over all sizes of a family: on the texts that were held out, and of the published models.
    """
    rows = []
    for (fitted, told), own in points.groupby(["fitted", "told"], sort=False):
        errors = {name: _rms(np.log(own[name] / own["value"])) for name in CURVES}
        rows.append({"fitted": fitted, "told": told, "points": len(own)} | errors)
    for fitted, words in ((OURS, "other texts"), ("published models", "all sizes")):
        own = points[points["fitted"] == fitted]
        kinds = own["told"].str.startswith(words) if fitted == OURS else own["told"] != OURS
        away = pd.concat([_ratios_apart(one) for _, one in own[kinds].groupby(["fit", "dataset", "family"])])
        errors = {name: _rms(away[name]) for name in CURVES}
        rows.append({"fitted": fitted, "told": f"α₁₀/α₁, α₁₀₀/α₁: {words}", "points": len(away)} | errors)
    return pd.DataFrame(rows)


def _ratios_apart(own: pd.DataFrame) -> pd.DataFrame:
    """ln of foretold over measured α_k/α_1 at k = 10 and 100, of one family on one text: a column for each curve."""
    ratios = {}
    for name in ("value", *CURVES):
        wide = own.pivot_table(index="size", columns="k", values=name)[[1, 10, 100]].dropna()
        alpha = exponents(wide.index, np.log(wide.to_numpy().T))
        ratios[name] = alpha[1:] / alpha[0]
    return pd.DataFrame({name: np.log(ratios[name] / ratios["value"]) for name in CURVES})


def _rms(errors: Any) -> float:
    return float(100 * np.sqrt(np.mean(np.square(errors))))


# ── What the page says and shows


def worth(points: pd.DataFrame, k: int = 5) -> "pd.Series[float]":
    """κ(k) of each model on each dataset, ln(1 − RBP_k)/ln(1 − RBP_1): how many independent tries k guesses are.

    points: −ln RBP_1 and −ln RBP_k.
    """
    wide = points.pivot_table(index=["dataset", "model"], columns="k", values="value")
    wide = wide[[1, k]].dropna().astype("float64")
    first, later = (np.log(-np.expm1(-wide[each].to_numpy())) for each in (1, k))
    return pd.Series(later / first, wide.index)


def told(scores: pd.DataFrame, images: pd.DataFrame, text: pd.DataFrame) -> dict[str, float]:
    """What the page says of `scored`, and of −ln RBP_1 and −ln RBP_5 of images and of published text."""
    of_sets = worth(images).groupby("dataset").median()
    values = {f"worth.{name}": of_sets[name] for name in ("imagenet", "imagenet-a", "imagenet-r") if name in of_sets}
    published = scores[(scores["fitted"] == OURS) & (scores["told"] == "published models")]
    return values | {"worth.text": worth(text).median(), "told.published_models.normal": published["normal"].iloc[0]}


def one_curve_shown(images: pd.DataFrame, text: pd.DataFrame, fits: dict[str, CurveFit]) -> dict[str, Any]:
    """What `Page.figure` takes for RBP_5 against RBP_1 of images and text, and what theories fitted to text say.

    images, text: −ln RBP_1 and −ln RBP_5; models of images are gathered in bins of 0.05.
    """
    rows = []
    for dataset, own in images.groupby("dataset"):
        wide = own.pivot_table(index="model", columns="k", values="value").map(lambda y: np.exp(-y))
        for _, some in wide.groupby((wide[1] / 0.05).astype(int)):
            about = {"line": dataset_label(str(dataset)), "one": some[1].median(), "five": some[5].median()}
            rows.append(about | {"models": len(some)})
    both = text.pivot_table(index=["dataset", "model"], columns="k", values="value")[[1, 5]].dropna()
    shares = np.exp(-both.to_numpy(np.float64))
    rows += [{"line": "Text", "one": one, "five": five, "models": 1} for one, five in shares]
    drawn, share = pd.DataFrame(rows), np.linspace(0.05, 0.92, 60)
    paths = [pd.DataFrame({"line": name, "one": share, "five": fits[name].more_guesses(share, 5)}) for name in THEORIES]
    of_sets = worth(images).groupby("dataset").median()
    worths = ", ".join(f"{kappa:.2f} on {dataset_label(str(name))}" for name, kappa in of_sets.items())
    names = [name for name in dict.fromkeys(drawn["line"]) if name != "Text"]
    styles = {name: Style(colour, "o", "") for name, colour in zip(names, ramp(len(names)), strict=True)}
    styles |= {"Text": Style("#708090", "v", "", hollow=True)}
    styles |= {"tries": Style(INK, "", "-"), "normal": Style(INK, "", ":")}
    return {
        "figure": curves(
            drawn, "one", "five", labels=(rbp_label(1), rbp_label(5)), panel=None, styles=styles, fitted=paths, log="",
            size=(4.6, 3.9),
        ),
        "caption": "<b>The first five guesses beside the first.</b> Circles: models of images, medians of bins. "
        "Triangles: models of text. Lines: both theories, fitted to text alone. "
        f"Five guesses are worth so many tries, at the median: {worths}.",
        "alt": "RBP at 5 against RBP at 1: text and four sets of images lie along the curve of the tries, ImageNet-A "
        "above it and ImageNet-R below",
        "data": drawn,
    }  # fmt: skip


def scored_shown(table: pd.DataFrame) -> dict[str, Any]:
    """What theories and naive curves are off by (`scored`)."""
    names = {"normal": "normal", "tries": "tries", "product": "plain: product", "bent": "plain: bent"}
    columns: Columns = {"fitted": "Fitted on small models of", "told": "foretold", "points": ("points", "{:,}")}
    columns = {**columns, **{name: (title, "{:.1f}") for name, title in names.items()}}
    caption = (
        "<b>What each theory, and two plain curves of as many numbers, are off by</b> where they foretell "
        "−ln RBP<sub>k</sub> or α<sub>k</sub>/α₁ from cross-entropy alone (per cent, root mean square)."
    )
    return shown(table, columns, caption=caption, ranked=True)


# ── What was forecast
FORECASTS = DATA / "predictions" / "images.toml"
_REMEDY = "Restore it: git checkout -- data/predictions."
AT = "RBP₅ at RBP₁ = "
OF = {
    "ratio_median": "α₅/α₁, median family",
    "ratio_lowest": "α₅/α₁, lowest",
    "ratio_highest": "α₅/α₁, highest",
    "share": "families with α₅ > α₁",
    "slope": "slope of ln(−ln RBP₅) on ln(−ln RBP₁)",
    "r_squared": "its R²",
}


def read_forecasts(path: Path = FORECASTS) -> pd.DataFrame:
    """Read the forecasts of three test sets of images, registered before anybody here had looked at them.

    Columns dataset, of, middle, low, high, naive_low, naive_high, reason; of a curve, of is "RBP₅ at RBP₁ = …".

    Raises DataError for a malformed file, and for one that is not the one whose checksum was written down.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        written = path.with_suffix(".toml.sha256").read_text(encoding="utf-8").split()[0]
        rows = [dict(row) for row in content["forecast"]]
        for curve in content["curve"]:
            rows += [
                {"dataset": curve["dataset"], "of": f"{AT}{band['rbp_1']:g}", "reason": ""}
                | {name: band[name] for name in ("middle", "low", "high", "naive")}
                for band in curve["bands"]
            ]
        for row in rows:
            row["naive_low"], row["naive_high"] = row.pop("naive")
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"these are no forecasts: {error}", label(path), _REMEDY) from None
    if sha256(path) != written:
        raise DataError("the forecasts are not those that were registered", label(path), _REMEDY)
    provenance.note(path)
    return pd.DataFrame(rows)
