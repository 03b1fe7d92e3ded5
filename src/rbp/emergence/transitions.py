"""Is success against size a sigmoid, and does a longer N make its rise sharper? (equation 8 of the paper)

With p = exp(−C·N·S^(−α)), p is a fixed curve in x = ln S, moved to the right by ln(N)/α: its rise dp/dx = α·p·(−ln p)
is steepest where p = 1/e, and there it is α/e, whatever N is. In S itself the curve for N is that of 1 stretched by
N^(1/α), so its rise is slower. What grows with N is the relative gain, d ln p/dx = α·(−ln p).
"""

import numpy as np
import pandas as pd

from rbp.errors import FitError
from rbp.scaling import fit_power_law

CELL = ["dataset", "family", "k", "n"]
BOTTOM, TOP = 0.1, 0.9
TURN = float(np.exp(-1))  # where a curve of the law is steepest, in ln S


def transitions(counts: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """What each measured curve of success shows of a transition: one row for each family, k and N.

    Columns CELL; models; zeros (models without a success); p_min, p_max; visible (it runs from below 0.1 to above
    0.9: a whole sigmoid); turns (it passes 1/e, where a curve of the law turns); rises (how many steps to the next
    larger model raise p); idle (how many lead from no
    success to none); alpha, alpha_low, alpha_high of −ln p and constant (ln of its
    prefactor) where all models have a success (else NaN); steepest
    = α·ln(10)/e, the rise of p per tenfold S where the fitted curve is steepest, with steepest_low, steepest_high;
    half: the S at which the fitted p is 1/2.
    """
    rows = []
    for key, own in counts.groupby(CELL):
        own = own.sort_values("size")
        p = (own["successes"].astype(float) / own["windows"]).to_numpy()
        row = dict(zip(CELL, key, strict=True)) | {
            "models": len(p),
            "zeros": int((p == 0).sum()),
            "p_min": p.min(),
            "p_max": p.max(),
            "visible": bool(p.min() < BOTTOM and p.max() > TOP),
            "turns": bool(p.min() < TURN < p.max()),
            "rises": int((np.diff(p) > 0).sum()),
            "idle": int(((p[1:] == 0) & (p[:-1] == 0)).sum()),
        }
        if (p > 0).all():
            try:
                fit = fit_power_law(own["size"], -np.log(p), level=level)
            except FitError:
                pass
            else:
                row |= {"alpha": fit.alpha, "alpha_low": fit.alpha_low, "alpha_high": fit.alpha_high}
                row["constant"] = float(np.log(fit.prefactor))
                row["half"] = float((fit.prefactor / np.log(2)) ** (1 / fit.alpha)) if fit.alpha > 0 else np.nan
        rows.append(row)
    names = [*CELL, "models", "zeros", "p_min", "p_max", "visible", "turns", "rises", "idle"]
    table = pd.DataFrame(rows, columns=[*names, "alpha", "alpha_low", "alpha_high", "constant", "half"])
    for end in ("", "_low", "_high"):
        table[f"steepest{end}"] = table[f"alpha{end}"] * np.log(10) / np.e
    return table
