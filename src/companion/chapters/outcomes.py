"""The outcomes of registered forecasts: the functions that data/predictions/registry.csv names, file by file.

A function's parameters are fields of the forecast's entry in its file, "text" by the name of "dataset"; where the
outcomes of many entries are a column of a table, it stands for their function, indexed by these fields.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from companion.chapters import damage, openings, real
from companion.chapters.appendix.predictions import Outcomes, count_inside, find_outcome, measure, read_forecasts, score
from companion.chapters.elsewhere import IMAGES, image_families, ratios_of_models
from companion.chapters.families import LSTM, TRANSFORMER, exponents, rung_of
from companion.damage.compare import EARLIER, SMALLER
from companion.evidence import outside
from companion.execute.page import keyed
from rbp.arrays import Integers, Reals
from rbp.errors import DataError
from rbp.io import label
from rbp.laws.power import Curvature, curvature
from rbp.measurements import Source
from rbp.measurements.counts import Counts
from rbp.measurements.ranked import Ranked


def small_models(texts: Sequence[Counts], stores: Mapping[str, Source], ablated: Sequence[Counts]) -> Outcomes:
    """Outcomes of ladders.toml, of seed 0 at the largest budget unless a function says otherwise.

    texts: the counts of all models of the ladder on each text; stores: the rank stores of each family at its largest
    budget; ablated: rungs of the first ladder with their ablations (`companion.chapters.families.with_ablations`).
    """
    by_text, ablated_by_text = ({text.dataset: text for text in counted} for counted in (texts, ablated))

    def rungs(family: str, dataset: str, budget: int | None = None) -> pd.DataFrame:
        """Tabulate size and ln y of a family's rungs: a column for each k, and CE for cross-entropy."""
        counts = by_text[dataset].of(family, budget, seed=0)
        table = pd.DataFrame(counts.log_neg_log_rbp, counts.models["rung"].to_numpy(), list(counts.thresholds))
        return table.assign(size=counts.sizes).rename(columns=str).assign(CE=np.log(counts.cross_entropy))

    def at_ends(family: str, dataset: str) -> list[pd.DataFrame]:
        budgets = by_text[dataset].budgets(family)
        return [rungs(family, dataset, budget) for budget in (budgets[0], budgets[-1])]

    def alphas(k: int, *tables: pd.DataFrame) -> list[float]:
        """Fit α of each table over the rungs that all have."""
        both = set.intersection(*(set(rows.index) for rows in tables))
        chosen = [rows[rows.index.isin(both)] for rows in tables]
        return [float(exponents(rows["size"], rows[str(k)].to_numpy()[None])[0]) for rows in chosen]

    def exponent_in_tokens(family: str, dataset: str, k: int) -> float:
        budgets = by_text[dataset].budgets(family)
        y = [rungs(family, dataset, budget)[str(k)]["150k"] for budget in budgets]
        return float(exponents(np.array(budgets), np.array([y]))[0])

    def cross_entropy(family: str, dataset: str, rung: str) -> float:
        return float(np.exp(rungs(family, dataset)["CE"][rung]))

    def at_cross_entropy(family: str, dataset: str, k: int, nats: float) -> float:
        """Interpolate −ln RBP_k between rungs; NaN beyond them."""
        rows = rungs(family, dataset).sort_values("CE")
        return float(np.interp(nats, np.exp(rows["CE"]), np.exp(rows[str(k)]), left=np.nan, right=np.nan))

    def residuals(k: int) -> pd.DataFrame:
        """Subtract the line through the transformer's rungs from ln y: a column for each text."""
        columns = {}
        for dataset in by_text:
            rows = rungs(TRANSFORMER, dataset)
            x = np.log(rows["size"])
            columns[dataset] = rows[str(k)] - np.polyval(np.polyfit(x, rows[str(k)], 1), x)
        return pd.DataFrame(columns)

    def bend(family: str, dataset: str, k: int) -> Curvature:
        rows = rungs(family, dataset)
        return curvature(rows["size"], np.exp(rows[str(k)]))

    def loss_shares(family: str, dataset: str, rung: str) -> Reals:
        on_text = (store for store in stores[family].stores if store.dataset == dataset)
        ranked = Ranked(next(store for store in on_text if rung_of(store.model, family) == rung))
        errors = np.asarray(ranked.ranks, dtype=np.int64) - 1
        terms = loss_terms(errors, ranked.tokens["nll"].to_numpy(np.float64))
        return np.asarray(terms / terms.sum())

    def by_model(counts: Counts, k: int) -> "pd.Series[float]":
        return pd.Series(counts.log_neg_log_rbp[:, counts.place(k)], list(counts.names))

    def seed_scatter(seed: int, dataset: str, k: int) -> float:
        y, ending = by_model(by_text[dataset].of(TRANSFORMER), k), f"-seed{seed}"
        away = [y[name] - y[name.removesuffix(ending)] for name in y.index if name.endswith(ending)]
        return float(np.sqrt(np.mean(np.square(away))))

    def ablation(run: str, than: str, dataset: str, k: int) -> float:
        y = by_model(ablated_by_text[dataset], k)
        return float(y[f"ladder-{run}"] - y[f"ladder-{than}"])

    def difference(k: int, first: pd.DataFrame, second: pd.DataFrame) -> float:
        alpha, other = alphas(k, first, second)
        return alpha - other

    def change(family: str, dataset: str, k: int) -> float:
        return -difference(k, *at_ends(family, dataset))

    def slope(family: str, dataset: str, k: int) -> float:
        rows = rungs(family, dataset)
        return float(np.polyfit(rows["CE"], rows[str(k)], 1)[0])

    def lower(family: str, than: str, dataset: str, rung: str) -> float:
        return cross_entropy(family, dataset, rung) - cross_entropy(than, dataset, rung)

    main = bend(TRANSFORMER, "wikipedia", 1)
    return {
        "exponent": lambda family, dataset, k: alphas(k, rungs(family, dataset))[0],
        "exponent_difference": lambda family, than, dataset, k: difference(
            k, rungs(family, dataset), rungs(than, dataset)
        ),
        "exponent_at_first_budget": lambda family, dataset, k: alphas(k, *at_ends(family, dataset))[0],
        "exponent_change": change,
        "exponent_in_tokens": exponent_in_tokens,
        "cross_entropy": cross_entropy,
        "cross_entropy_difference": lower,
        "offset": lambda family, than, dataset, k, cross_entropy: (
            at_cross_entropy(family, dataset, k, cross_entropy) - at_cross_entropy(than, dataset, k, cross_entropy)
        ),
        "residual_step": lambda k: (residuals(k).loc["59k"] - residuals(k).loc["150k"]).mean(),
        "residual_scatter": lambda k: np.sqrt((residuals(k) ** 2).sum() / (len(residuals(k)) - 2)).mean(),
        "curvature": lambda family, k: np.mean([bend(family, dataset, k).coefficient for dataset in by_text]),
        "slope_in_cross_entropy": slope,
        "error_entropy_share": lambda family, dataset, rung: loss_shares(family, dataset, rung)[0],
        "self_alignment_share": lambda family, dataset, rung: loss_shares(family, dataset, rung)[1],
        "seed_scatter": seed_scatter,
        "ablation": ablation,
        "exponent_grows": lambda: all(change(TRANSFORMER, dataset, 1) > 0 for dataset in by_text),
        "bend_includes_0": lambda: main.low <= 0 <= main.high,
        "lstm_is_lower": lambda: lower(LSTM, TRANSFORMER, "wikipedia", "1m") < 0,
    }


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


def made_worse(cells: Sequence[damage.Cell]) -> Outcomes:
    """Outcomes of paths.toml: how −ln RBP_k of our models differs by path at one cross-entropy; events of all cells."""
    spreads = damage.measure_spreads(cells).set_index([*damage.CELL, "k"])
    spread, tempered = (np.log1p(spreads[name] / 100) for name in ("spread", "tempered"))
    least = spreads[spreads["is_least"]].reset_index("k")["k"]
    equal = damage.compare_at_equal_entropy(cells).set_index(["path", *damage.CELL, "k"])
    offset = np.log1p(equal["offset"] / 100)
    wide = offset.rename("y").reset_index().pivot_table(index=damage.CELL, columns=["k", "path"], values="y")
    first, last = wide[1], wide[1000]
    away = first.drop(columns=SMALLER).abs()
    differs = equal["apart"].drop(SMALLER, level="path").xs(1, level="k")
    spread_at = {k: spread.xs(k, level="k") for k in (1, 10, 1000)}
    return {
        "offset": offset,
        "spread": spread,
        "spread_tempered": tempered,
        "least_k": least.map(np.log),
        "some_path_differs": lambda: differs.groupby(damage.CELL).any().all(),
        "replaced_is_lowest": lambda: (first.drop(columns=EARLIER).idxmin(axis=1) == "replaced").all(),
        "input_is_highest": lambda: last.drop(columns=EARLIER).idxmax(axis=1).isin(damage.INPUT).all(),
        "training_is_nearer": lambda: (away[EARLIER] < away.drop(columns=EARLIER).median(axis=1)).all(),
        "temperature_keeps_spread": lambda: (tempered.xs(1, level="k") >= 0.9 * spread_at[1]).all(),
        "spread_grows": lambda: (spread_at[1000] > spread_at[10]).all(),
    }


def _ways_alike(text: str) -> Outcomes:
    """How far ways of making the real model worse lie apart on a text, in per cent of −ln RBP_k, and what follows."""
    curves = damage.damaged_curves(text)
    table = damage.real_spreads(curves).rename(columns={"rise": "level"}).set_index(["of", "level", "k"])
    models, every = table.loc["models"], table.loc["all"]
    least = every[every["is_least"].astype(bool)].reset_index("k")["k"]
    k = every.index.get_level_values("k")
    alike = bool((models["high"][models.index.get_level_values("k") <= 100] < 1).all())
    differ = bool((damage.paired_differences(curves)["p_holm"] < 0.05).any())
    return {
        "spread_models": models["spread"],
        "spread_all": every["spread"],
        "least_k": least.map(np.log),
        "models_are_alike": lambda: alike,
        "models_differ": lambda: differ and not alike,
        "advice_is_refuted": lambda: not every["least"][(k >= 5) & (k <= 30)].any(),
    }


def real_model() -> Outcomes:
    """Outcomes of real.toml."""
    table = real.miss_table((1_000, 10_000))
    mean, misses = real.mean_removed(table[table["k"] == 1_000]), table.set_index(["dataset", "k"])
    windows = real.window_ratios().query("n == 10").set_index(["kind", "dataset", "k"])
    refuted = (windows["p_explained"].xs(1, level="k") < 0.05).groupby("kind").all()
    new = float(windows["high"][real.NEW, "wikipedia", 1])
    fits = real.rank_fits().set_index(["distribution", "dataset"])
    rounded_up, excess = fits.loc["lognormal_ceiling"], fits["excess"]
    slopes = real.fit_by_position()[1].set_index(["dataset", "k"])
    return _ways_alike("wikipedia") | {
        "early": misses["early"],
        "removed": misses["removed"],
        "rare": misses["rare"],
        "mean_removed": lambda: mean["removed"],
        "ratio": windows["ratio"][real.WHOLE],
        "ratio_within_documents": windows["ratio"][real.DOCUMENTS],
        "ratio_within_blocks": windows["ratio"][real.BLOCKS],
        "ratio_of_new": windows["ratio"][real.NEW],
        "sigma": rounded_up["parameters"].map(lambda parameters: json.loads(parameters)["sigma"]),
        "excess": rounded_up["excess"],
        "slope": slopes["slope"],
        "rare_is_refuted": lambda: misses["p_more"]["humaneval", 1_000] < 0.05,
        "first_is_refuted": lambda: mean["p_fewer"] < 0.05,
        "document_rate_is_refuted": lambda: refuted[real.DOCUMENTS],
        "stretch_rate_is_refuted": lambda: refuted[real.BLOCKS],
        "together_is_refuted": lambda: new >= 1 if np.isfinite(new) else np.nan,  # too few windows succeed
        "density_has_no_best": lambda: fits["at_limit"]["lognormal"].all(),
        "rounded_up_has_a_best": lambda: not rounded_up["at_limit"].any(),
        "cutoff_loses": lambda: (excess["power_law_cutoff"] > excess["zipf_mandelbrot"]).sum() >= 3,
        "context_stops_helping": lambda: (slopes["p"]["novels"] > 0.05).all(),
    }


def damaged_model() -> Outcomes:
    """Outcomes of real_damaged.toml: ways on judgments, and misses of damaged models."""
    misses = damage.damaged_misses().set_index(["dataset", "way"])
    code, articles = misses.loc["humaneval"], misses.loc["wikipedia"]
    return _ways_alike("auslegal") | {
        "early": misses["early"],
        "rare": misses["rare"],
        "early_falls": lambda: ((code["early_p"] < 0.05) & (code["early"] < code["early_whole"])).all(),
        "rare_rises": lambda: ((articles["rare_p"] < 0.05) & (articles["rare"] > articles["rare_whole"])).all(),
    }


def misses_by_context() -> Outcomes:
    """Outcomes of openings.toml."""
    ks = (10_000, 20_000)
    table = openings.opening_statistics(ks).set_index(["dataset", "k"])
    rates = openings.miss_rates(ks).query("bos == 'never'").set_index(["dataset", "k", "context"])
    part, cause = table["part"].xs(20_000, level="k"), table["cause"].xs(10_000, level="k")
    return {
        "rate": rates["rate"],
        "fold": table["fold"],
        "fold32": table["fold32"],
        "early": table["early"],
        "cured": table["cured"],
        "openings_stand": lambda: (part == openings.STANDS).all(),
        "context_is_missing": lambda: (cause == openings.NO_CONTEXT).all(),
        "protocol_is_the_cause": lambda: (cause == openings.PROTOCOL).any(),
    }


# ── Models of images

NEAR = 0.01
"""How near a model's RBP_1 must be for its RBP_5 to be the outcome: the registered file leaves that open."""


def read_images(path: Path | None = None) -> pd.DataFrame:
    """Read the three test sets that were forecast, of the shipped file or another with its columns.

    Without models of RBP_1 = 0 or RBP_5 = 1; with x = ln(−ln RBP_1) and z = ln(−ln RBP_5). Raises DataError for a
    malformed file, another test set, and one with too few models.
    """
    if path is None:
        return _with_logs(outside.blind_image_models())
    remedy = f"Give {', '.join(outside.BLIND_PICTURES)}, as data/outside/image_models.csv has others."
    models = _with_logs(outside.read_image_models(path, outside.BLIND_PICTURES, remedy))
    for name, rows in models.groupby("dataset"):
        if rows["top1"].nunique() < 3:
            fault = f"{name} has fewer than three models with RBP_1 above 0 and RBP_5 below 1"
            raise DataError(fault, label(path), "Give more, or leave it out.")
    return models


def known_to_images(table: pd.DataFrame) -> list[list[float]]:
    """Collect what was known to each prediction of images.toml: its number on the three test sets that were known."""
    outcomes, pairs = (
        image_models(_with_logs(outside.image_models())),
        zip(table["function"], table["fields"], strict=True),
    )
    return [
        [find_outcome(outcomes, function, {**fields, "dataset": name}) for name in outside.PICTURES]
        for function, fields in pairs
    ]


def _with_logs(models: pd.DataFrame) -> pd.DataFrame:
    used = models[(models["top1"] > 0) & (models["top5"] < 100)]
    x, z = (np.log(-np.log(used[f"top{k}"] / 100)) for k in outside.TOP)
    return used.assign(x=x, z=z)


def image_models(models: pd.DataFrame) -> Outcomes:
    """Outcomes of images.toml on the test sets of `read_images`; NaN where no family has a ratio α_5/α_1."""
    sets = {str(name): rows for name, rows in models.groupby("dataset")}
    ratios = pd.Series({name: _ratios(rows) for name, rows in sets.items()}).dropna()
    table = pd.DataFrame({name: np.quantile(values, [0, 0.5, 1]) for name, values in ratios.items()}).T
    table = table.reindex(columns=range(3)).rename_axis("dataset")
    outcomes: Outcomes = {
        "ratio_lowest": table[0],
        "ratio_median": table[1],
        "ratio_highest": table[2],
        "share": pd.Series({name: np.mean(values > 1) for name, values in ratios.items()}).rename_axis("dataset"),
        "slope": lambda dataset: np.polyfit(sets[dataset]["x"], sets[dataset]["z"], 1)[0],
        "r_squared": lambda dataset: np.corrcoef(sets[dataset]["x"], sets[dataset]["z"])[0, 1] ** 2,
    }
    return outcomes | image_curves(models)


def image_curves(models: pd.DataFrame, rule: str = "nearest") -> Outcomes:
    """The outcomes of the curves of images.toml, RBP_5 at an RBP_1, by one of RULES."""
    sets = dict(list(models.groupby("dataset")))
    return {"rbp_5": lambda dataset, rbp_1: RULES[rule](sets[dataset], rbp_1)}


def _ratios(models: pd.DataFrame) -> Reals | None:
    """Compute α_5/α_1 of a test set's families; None without any."""
    names = models["model"] + "@" + models["img_size"].astype(str)
    named = models.assign(size=models["param_count"] * 1e6, model=names)
    points = pd.concat([named.assign(k=k, value=-np.log(named[f"top{k}"] / 100)) for k in outside.TOP])
    rows = ratios_of_models(image_families(points), [5], source=IMAGES)
    return rows["ratio"].to_numpy(np.float64) if len(rows) else None


def _nearest(models: pd.DataFrame, share: float) -> "pd.Series[float]":
    """Return z of the two models whose RBP_1 is nearest, by RBP_1 in per cent.

    Models of one RBP_1 count as one; of two that are equally near the lower comes first.
    """
    z = models.groupby("top1")["z"].mean()
    distance = np.round(np.abs(z.index / 100 - share), 9)  # printed with three digits: ties are exact
    return z.iloc[np.argsort(distance, kind="stable")[:2]]


def _one(models: pd.DataFrame, share: float) -> float:
    return _share(_nearest(models, share).iloc[0])


def _line(models: pd.DataFrame, share: float) -> float:
    two = _nearest(models, share)
    return _share(np.polyval(np.polyfit(np.log(-np.log(two.index / 100)), two, 1), np.log(-np.log(share))))


def _one_or_line(models: pd.DataFrame, share: float) -> float:
    near = abs(_nearest(models, share).index[0] / 100 - share) <= NEAR
    return (_one if near else _line)(models, share)


def _median(models: pd.DataFrame, share: float) -> float:
    near = models[(models["top1"] / 100 - share).abs() <= NEAR]
    return _share(near["z"].median()) if len(near) else _line(models, share)


def _share(z: Any) -> float:
    return float(np.exp(-np.exp(z)))


#: RBP_5 at an RBP_1, by the rule of the score (first: the nearest model, or where none is NEAR the line through the
#: nearest two), and by others
RULES: dict[str, Callable[[pd.DataFrame, float], float]] = {
    "nearest": _one_or_line,
    "one": _one,
    "line": _line,
    "median": _median,
}


def score_rules(models: pd.DataFrame) -> pd.DataFrame:
    """Score the forecasts of curves by each of RULES: prediction, low, high; RULE and RULE_inside."""
    forecasts = read_forecasts("images").query("function == 'rbp_5'")
    table = forecasts[["prediction", "low", "high"]]
    for rule in RULES:
        scores = score(measure(forecasts, image_curves(models, rule)))
        table = table.assign(**{rule: scores["outcome"], f"{rule}_inside": scores["inside"] == 1})
    return table


def images_summary(table: pd.DataFrame, rules: pd.DataFrame) -> dict[str, Any]:
    """Summarise the scores of images.toml and `score_rules`: intervals that hold, of each test set and by other rules.

    by_rule: how many of all intervals hold if curves are scored by another of RULES.
    """
    counts, by_set = count_inside(table), table.assign(dataset=[fields["dataset"] for fields in table["fields"]])
    others = int(table.loc[table["function"] != "rbp_5", "inside"].sum())
    median = by_set[(by_set["dataset"] == "imagenet-r") & (by_set["function"] == "ratio_median")]["middle"].item()
    held = by_set.groupby("dataset")["inside"].sum().astype(int).reset_index()
    return keyed("images.inside.{dataset}", held, "inside") | {
        "images.intervals": counts["intervals"],
        "images.inside": counts["inside"],
        "images.naive_inside": counts["naive_inside"],
        "images.better": counts["better"],
        "images.by_rule.one": others + int(rules["one_inside"].sum()),
        "images.by_rule.line": others + int(rules["line_inside"].sum()),
        "images.by_rule.median": others + int(rules["median_inside"].sum()),
        "images.forecast.ratio_median.imagenet-r": median,
    }
