"""The forecasts of three more test sets of images (data/predictions/images.toml), scored by measurements."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.chapters.appendix import predictions
from companion.chapters.appendix.fair import COLUMNS as FAIR
from companion.chapters.appendix.fair import fair_statistics, with_fair_guess
from companion.chapters.elsewhere import IMAGES, image_families, ratios_of_models
from companion.evidence import outside
from companion.project import DATA
from rbp import provenance
from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.io import label, sha256

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
NEAR = 0.01
"""How near a model's RBP_1 must be for its RBP_5 to be the outcome: the registered file leaves that open."""

BLIND = outside.FOLDER / "image_models_blind.csv"
COLUMNS = ["dataset", "of", "middle", "low", "high", "naive_low", "naive_high", "outcome", "inside", "naive_inside"]
COLUMNS += ["score", "naive_score", "gain", *FAIR]


def read_forecasts(path: Path = FORECASTS) -> pd.DataFrame:
    """Read the forecasts of three test sets of images, registered before anybody here had looked at them.

    Columns dataset, of, middle, low, high, naive_low, naive_high, reason; of a curve, of is "RBP₅ at RBP₁ = …".

    Raises DataError for a malformed file, and for a file without the registered checksum.
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


def scored(path: Path = BLIND) -> pd.DataFrame:
    """Score the forecasts of the test sets that a file has: COLUMNS.

    path: a CSV file with the columns of data/outside/image_models.csv. An outcome is missing where it could not be
    computed, for want of families. score, naive_score: log scores in nats (`predictions.score`); gain: their
    difference; fair_*: Student's t on the three sets that were known (`with_fair_guess`). Raises DataError for a file
    that is not so, and for another test set or one with too few models.
    """
    forecasts, level = read_forecasts(), float(tomllib.loads(FORECASTS.read_text(encoding="utf-8"))["level"])
    sets = _read(path)
    known = [_TestSet(rows) for _, rows in outside.image_models().groupby("dataset")]
    table = forecasts[forecasts["dataset"].isin(sets)].reset_index(drop=True)
    outcomes = [sets[str(row.dataset)].outcome(str(row.of)) for row in table.itertuples()]
    whole = table.assign(outcome=outcomes, kind="", probability=np.nan, naive=np.nan)
    scores = predictions.score(whole, level)
    whole = whole.join(scores[["inside", "naive_inside", "score", "naive_score", "gain"]])
    samples = {of: [each.outcome(of) for each in known] for of in whole["of"].unique()}
    return with_fair_guess(whole, [samples[of] for of in whole["of"]], level)[COLUMNS]


def by_rule(path: Path = BLIND) -> pd.DataFrame:
    """Compute the outcomes of the twelve forecasts of curves by other rules for a model that is near.

    Columns dataset, of, low, high; away (how far the nearest model's RBP_1 is); for each of RULES the outcome, and
    NAME_inside: whether the interval holds it.
    """
    forecasts, sets = read_forecasts(), _read(path)
    table = forecasts[forecasts["of"].str.startswith(AT) & forecasts["dataset"].isin(sets)].reset_index(drop=True)
    rows = []
    row: Any
    for row in table.itertuples():
        share, test_set = float(str(row.of).removeprefix(AT)), sets[str(row.dataset)]
        values = {name: rule(test_set, share) for name, rule in RULES.items()}
        inside = {f"{name}_inside": row.low <= value <= row.high for name, value in values.items()}
        rows.append({"away": test_set.distance(share)} | values | inside)
    return table[["dataset", "of", "low", "high"]].join(pd.DataFrame(rows))


def _read(path: Path) -> "dict[str, _TestSet]":
    """Read the test sets of a file. Raises DataError for one with too few models."""
    names = read_forecasts()["dataset"].unique()
    remedy = f"Give {', '.join(names)}, as data/outside/image_models.csv has others."
    models = outside.read_image_models(path, names, remedy)
    sets = {str(name): _TestSet(rows) for name, rows in models.groupby("dataset")}
    for name, each in sets.items():
        if each.models["top1"].nunique() < 3:
            what = f"{name} has fewer than three models with RBP_1 above 0 and RBP_5 below 1"
            raise DataError(what, label(path), "Give more, or leave it out.")
    return sets


@dataclass(frozen=True)
class _TestSet:
    """The models on one test set; read: the rows of `outside.read_image_models`."""

    read: pd.DataFrame

    @cached_property
    def models(self) -> pd.DataFrame:
        """The models used, with x = ln(−ln RBP_1) and z = ln(−ln RBP_5)."""
        counted = self.read[(self.read["top1"] > 0) & (self.read["top5"] < 100)]
        x, z = (np.log(-np.log(counted[f"top{k}"] / 100)) for k in outside.TOP)
        return counted.assign(x=x, z=z)

    @cached_property
    def ratios(self) -> Reals:
        """α_5/α_1 of the families, shape (families,)."""
        table = self.models
        names = table["model"] + "@" + table["img_size"].astype(str)
        about = table.assign(size=table["param_count"] * 1e6, model=names)
        points = pd.concat([about.assign(k=k, value=-np.log(table[f"top{k}"] / 100)) for k in outside.TOP])
        rows = ratios_of_models(image_families(points), [5], source=IMAGES)
        return rows["ratio"].to_numpy(np.float64) if len(rows) else np.empty(0)

    def outcome(self, of: str) -> float:
        """Compute the outcome of a forecast by the rule of the registered file; NaN where there is no family."""
        if of.startswith(AT):
            return _nearest(self, float(of.removeprefix(AT)))
        if of == "slope":
            return float(np.polyfit(self.models["x"], self.models["z"], 1)[0])
        if of == "r_squared":
            return float(np.corrcoef(self.models["x"], self.models["z"])[0, 1] ** 2)
        if not self.ratios.size:
            return float("nan")
        if of == "share":
            return float(np.mean(self.ratios > 1))
        return float(np.quantile(self.ratios, {"ratio_lowest": 0, "ratio_median": 0.5, "ratio_highest": 1}[of]))

    def nearest(self, share: float) -> "pd.Series[float]":
        """Return z of the two models whose RBP_1 is nearest.

        Models of one RBP_1 count as one; of two that are equally near the lower comes first.
        """
        z = self.models.groupby("top1")["z"].mean()
        distance = np.round(np.abs(z.index / 100 - share), 9)  # printed with three digits: ties are exact
        return z.iloc[np.argsort(distance, kind="stable")[:2]]

    def distance(self, share: float) -> float:
        """Return how far the nearest model's RBP_1 is."""
        return float(abs(self.nearest(share).index[0] / 100 - share))


def _one(test_set: _TestSet, share: float) -> float:
    return _share(test_set.nearest(share).iloc[0])


def _line(test_set: _TestSet, share: float) -> float:
    two = test_set.nearest(share)
    return _share(np.polyval(np.polyfit(np.log(-np.log(two.index / 100)), two, 1), np.log(-np.log(share))))


def _nearest(test_set: _TestSet, share: float) -> float:
    return _one(test_set, share) if test_set.distance(share) <= NEAR else _line(test_set, share)


def _median(test_set: _TestSet, share: float) -> float:
    near = test_set.models[(test_set.models["top1"] / 100 - share).abs() <= NEAR]
    return _share(near["z"].median()) if len(near) else _line(test_set, share)


def _share(z: Any) -> float:
    return float(np.exp(-np.exp(z)))


#: RBP_5 at an RBP_1, by the rule of the score (first: the nearest model, or where none is NEAR the line through the
#: nearest two), and by others
RULES: dict[str, Callable[[_TestSet, float], float]] = {
    "nearest": _nearest,
    "one": _one,
    "line": _line,
    "median": _median,
}


# ── What the pages show


def score_statistics(table: pd.DataFrame, rules: pd.DataFrame) -> dict[str, Any]:
    """Summarise `scored` and `by_rule`: intervals that hold (and by test set), guesses that are beaten.

    by_rule.NAME: how many of all intervals hold if curves are scored by another of RULES. forecast.*: what was
    forecast. table, rules: of all three test sets.
    """
    tested = table.dropna(subset="outcome")
    values: dict[str, Any] = {"intervals": len(tested), "better": int((tested["gain"] > 0).sum())}
    values |= {name: int(tested[name].sum()) for name in ("inside", "naive_inside")}
    values |= fair_statistics(tested)
    values |= {f"inside.{name}": int(each.sum()) for name, each in tested.groupby("dataset")["inside"]}
    others = int(tested.loc[~tested["of"].str.startswith(AT), "inside"].sum())
    values |= {f"by_rule.{name}": others + int(rules[f"{name}_inside"].sum()) for name in ("one", "line", "median")}
    values["forecast.ratio_median.imagenet-r"] = tested.set_index(["dataset", "of"])["middle"][
        "imagenet-r", "ratio_median"
    ]
    return values
