"""Each published fit beside what counting noise alone would make of a perfect law at the same tokens and sizes."""

import numpy as np
import pandas as pd

from rbp.counting.floor import noise_floor, simulated_r_squared
from rbp.counting.paired import log_size_weights, trend_bound

CELL = ["dataset", "family"]


def expected_r_squared(
    points: pd.DataFrame,
    fits: pd.DataFrame,
    tokens: pd.DataFrame,
    *,
    design_effect: float = 1.0,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """R² as measured, and as it would be if the fitted law were exact and counting the only noise.

    points: dataset, family, k, size, value; fits: `scaling.fit_table` of them by dataset, family and k; tokens:
    `counting.tokens.tokens_behind`. Only fits whose number of tokens is known (not "at most"). Columns CELL, k, n,
    alpha, r_squared, tokens, misses (fewest of a model), typical (geometric mean of −ln RBP_k), noise_median,
    noise_low, noise_high (of `floor.simulated_r_squared`), verdict: "noise is enough" (the measured R² is not below
    noise_low), "more than noise" (below), "no test" (half of the simulated measurements have no logarithm).
    """
    known = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    rows = []
    for fit in fits.dropna(subset=["alpha"]).merge(known, on=CELL).to_dict("records"):
        own = points[(points[CELL] == [fit["dataset"], fit["family"]]).all(axis=1) & (points["k"] == fit["k"])]
        typical = float(np.exp(np.log(own["value"]).mean()))
        drawn = simulated_r_squared(
            own["size"],
            fit["alpha"],
            typical,
            fit["tokens"],
            design_effect=design_effect,
            resamples=resamples,
            seed=seed,
        )
        finite = drawn[np.isfinite(drawn)]
        row = {name: fit[name] for name in (*CELL, "k", "n", "alpha", "r_squared", "tokens")}
        row |= {"misses": float((-np.expm1(-own["value"])).min() * fit["tokens"]), "typical": typical}
        row |= dict.fromkeys(("noise_median", "noise_low", "noise_high"), np.nan) | {"verdict": "no test"}
        if 2 * finite.size >= drawn.size:
            low, middle, high = np.quantile(finite, [(1 - level) / 2, 0.5, (1 + level) / 2])
            verdict = "more than noise" if fit["r_squared"] < low else "noise is enough"
            row |= {"noise_median": middle, "noise_low": low, "noise_high": high, "verdict": verdict}
        rows.append(row)
    columns = [*CELL, "k", "n", "alpha", "r_squared", "tokens", "misses", "typical"]
    return pd.DataFrame(rows, columns=[*columns, "noise_median", "noise_low", "noise_high", "verdict"])


def rises(points: pd.DataFrame, tokens: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The families whose missed tokens rise with size, and whether chance can make that: `paired.trend_bound`.

    points, tokens as for `expected_r_squared`. One row for each dataset, family and k where the trend of the missed
    tokens in ln S is positive: CELL, k, models, misses_smallest, misses_largest, and for the ends and for the trend
    over all sizes z, p and needed (ends_z … trend_needed).
    """
    known = tokens[(tokens["basis"] != "at most") & tokens["tokens"].notna()]
    rows = []
    for key, own in points.merge(known, on=CELL, suffixes=("_stated", "")).groupby([*CELL, "k"]):
        own = own.sort_values("size")
        if own["size"].nunique() < 2:
            continue
        misses = np.rint(-np.expm1(-own["value"].to_numpy(float)) * own["tokens"].to_numpy(float))
        trend = trend_bound(misses, log_size_weights(own["size"]), level=level)
        if trend.change <= 0:
            continue
        ends = trend_bound(misses[[0, -1]], [-1, 1], level=level)
        row = (*key, len(own), misses[0], misses[-1], ends.z, ends.p, ends.needed, trend.z, trend.p, trend.needed)
        rows.append(row)
    names = [*CELL, "k", "models", "misses_smallest", "misses_largest"]
    names += [f"{kind}_{name}" for kind in ("ends", "trend") for name in ("z", "p", "needed")]
    return pd.DataFrame(rows, columns=names).sort_values("trend_z", ascending=False, ignore_index=True)


def floors(tokens: pd.DataFrame, precisions: tuple[float, ...], effects: tuple[float, ...]) -> pd.DataFrame:
    """`floor.noise_floor` of each family's tokens, for several precisions and design effects.

    tokens: dataset, family, tokens. Columns CELL, tokens, precision, effect, floor (−ln RBP_k), misses (there).
    """
    rows = []
    for cell in tokens.dropna(subset=["tokens"]).to_dict("records"):
        for precision in precisions:
            for effect in effects:
                total = float(cell["tokens"])
                floor = noise_floor(total, precision=precision, design_effect=effect)
                rows.append(
                    (cell["dataset"], cell["family"], total, precision, effect, floor, -np.expm1(-floor) * total)
                )
    return pd.DataFrame(rows, columns=[*CELL, "tokens", "precision", "effect", "floor", "misses"])
