"""The forecasts of three more test sets of images (data/predictions/images.toml), scored by measurements."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

from companion.chapters.appendix import predictions
from companion.chapters.elsewhere.ratios import IMAGES, image_families, of_models
from companion.chapters.elsewhere.theory import AT, FORECASTS, read_forecasts
from companion.evidence import outside
from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.io import label

NEAR = 0.01
"""How near a model's RBP_1 must be for its RBP_5 to be what came; the file itself leaves that open."""

COLUMNS = ["dataset", "of", "middle", "low", "high", "naive_low", "naive_high", "outcome", "inside", "naive_inside"]
COLUMNS += ["score", "naive_score", "gain"]


def scored(path: Path) -> pd.DataFrame:
    """The forecasts of the test sets that a file has, with what came and how well it was foretold: COLUMNS.

    path: a CSV file with the columns of data/outside/image_models.csv. An outcome is missing where it could not be
    computed, for want of families. score, naive_score: log scores in nats (`predictions.scored`); gain: their
    difference. Raises DataError for a file that is not so, and for another test set or one with too few models.
    """
    said, level = read_forecasts(), float(tomllib.loads(FORECASTS.read_text(encoding="utf-8"))["level"])
    sets = said["dataset"].unique()
    models = outside.read_image_models(
        path, sets, f"Give {', '.join(sets)}, as data/outside/image_models.csv has others."
    )
    came = {dataset: _came(own, path) for dataset, own in models.groupby("dataset")}
    table = said[said["dataset"].isin(came)].reset_index(drop=True)
    outcomes = [_outcome(came[str(row.dataset)], str(row.of)) for row in table.itertuples()]
    whole = table.assign(outcome=outcomes, kind="", probability=np.nan, naive=np.nan)
    found = predictions.scored(whole, level)
    return whole.join(found[["inside", "naive_inside", "score", "naive_score", "gain"]])[COLUMNS]


def _came(models: pd.DataFrame, path: Path) -> tuple[Reals, Reals, Reals]:
    """Of one test set: ln(−ln RBP_1) and ln(−ln RBP_5) of its models, and α_5/α_1 of its families."""
    own = models[(models["top1"] > 0) & (models["top5"] < 100)]
    if own["top1"].nunique() < 3:
        what = f"{own['dataset'].iloc[0] if len(own) else models['dataset'].iloc[0]} has fewer than three models"
        raise DataError(f"{what} with RBP_1 above 0 and RBP_5 below 1", label(path), "Give more, or leave it out.")
    value = {k: -np.log(own[f"top{k}"] / 100) for k in outside.TOP}
    about = own.assign(size=own["param_count"] * 1e6, model=own["model"] + "@" + own["img_size"].astype(str))
    points = pd.concat([about.assign(k=k, value=value[k]) for k in outside.TOP])
    ratios = of_models(image_families(points), [5], source=IMAGES)
    x, z = (np.log(value[k].to_numpy(np.float64)) for k in outside.TOP)
    return x, z, ratios["ratio"].to_numpy(np.float64) if len(ratios) else np.empty(0)


def _outcome(came: tuple[Reals, Reals, Reals], of: str) -> float:
    """What a forecast is of, as the file says how it is computed; NaN where there is no family."""
    x, z, ratios = came
    if of.startswith(AT):
        return _on_the_curve(x, z, float(of.removeprefix(AT)))
    if of == "slope":
        return float(np.polyfit(x, z, 1)[0])
    if of == "r_squared":
        return float(np.corrcoef(x, z)[0, 1] ** 2)
    if not ratios.size:
        return float("nan")
    if of == "share":
        return float(np.mean(ratios > 1))
    return float(np.quantile(ratios, {"ratio_lowest": 0, "ratio_median": 0.5, "ratio_highest": 1}[of]))


def _on_the_curve(x: Reals, z: Reals, share: float) -> float:
    """RBP_5 at an RBP_1: of the nearest model, or on the line through the nearest two where none is NEAR."""
    own = pd.Series(z).groupby(np.exp(-np.exp(x))).mean()  # models of one RBP_1 count as one
    nearest = own.iloc[np.argsort(np.abs(own.index - share), kind="stable")[:2]]
    at = float(nearest.iloc[0])
    if abs(nearest.index[0] - share) > NEAR:
        at = float(np.polyval(np.polyfit(np.log(-np.log(nearest.index)), nearest, 1), np.log(-np.log(share))))
    return float(np.exp(-np.exp(at)))
