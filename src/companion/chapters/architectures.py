"""Architectures and sizes at equal cross-entropy, in others’ runs (xLSTM Scaling Laws) of sweeps trained alike."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from statsmodels.regression.linear_model import OLS

from companion.chapters.cross_entropy import compare_groups
from companion.plots import single_panel
from rbp.figures.style import INK, LABELS, family_style, label_line_ends
from rbp.laws.power import fit_power_law

SWEEP = ["context", "batch"]


def size_at_equal_entropy(runs: pd.DataFrame) -> pd.DataFrame:
    """Test in each sweep whether a larger model of equal cross-entropy, trained on less, ranks otherwise.

    `runs` as `outside.xlstm_runs` has them, less the diverged. Columns sweep, architecture, n, span (the largest size
    over the smallest), effect (d ln(−ln RBP_1)/d ln S at equal cross-entropy, its curve being a parabola), per_tenfold
    (what ten times the size does, per cent). There is no interval: runs of a sweep are no independent draws.
    """
    rows = []
    for sweep, sweep_runs in runs.groupby("sweep"):
        x, size = np.log(sweep_runs["loss"].to_numpy()), np.log(sweep_runs["size"].to_numpy())
        x = x - x.mean()
        fit = OLS(
            np.log(-np.log(sweep_runs["accuracy"].to_numpy())), np.column_stack([np.ones_like(x), x, x**2, size])
        ).fit()
        effect, span = float(fit.params[3]), float(np.exp(np.ptp(size)))
        labels = {
            "sweep": sweep,
            "architecture": sweep_runs["architecture"].iloc[0],
            "n": len(sweep_runs),
            "span": span,
        }
        rows.append(labels | {"effect": effect, "per_tenfold": 100 * (10**effect - 1)})
    return pd.DataFrame(rows)


def sweeps(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare the sweeps of `outside.xlstm_runs`, less the diverged, by `compare_groups` at k = 1.

    Adds architecture_first, architecture_second, and alike: whether both have one context and one batch.
    """
    points = runs.assign(cross_entropy=runs["loss"], neg_log_rbp=-np.log(runs["accuracy"]), k=1)
    table = compare_groups(points, ["k"], "sweep", order=_by_architecture(runs))
    settings_of = runs.groupby("sweep").agg(architecture=("architecture", "first"), **{c: (c, "unique") for c in SWEEP})
    for which in ("first", "second"):
        table[f"architecture_{which}"] = table[which].map(settings_of["architecture"])
    settings = settings_of[SWEEP].map(lambda values: tuple(sorted(values)))
    return table.assign(
        alike=(settings.loc[table["first"]].to_numpy() == settings.loc[table["second"]].to_numpy()).all(1)
    )


def _by_architecture(runs: pd.DataFrame) -> list[str]:
    """List the sweeps, the architecture with most runs first, then by their numbers of runs."""
    counts = runs.groupby(["architecture", "sweep"]).size().reset_index(name="n")
    total = counts.groupby("architecture")["n"].transform("sum")
    return counts.assign(total=total).sort_values(["total", "n"], ascending=False)["sweep"].tolist()


def runs_summary(across: pd.DataFrame, by_size: pd.DataFrame) -> dict[str, Any]:
    """Summarise architectures and sizes at equal cross-entropy: of `sweeps` and `size_at_equal_entropy`."""
    same = across["architecture_first"] == across["architecture_second"]
    alike = across[across["alike"] & ~same]  # two architectures, trained alike
    values = {"runs.offset": alike["offset"].max(), "runs.yardstick": across.loc[same, "offset"].abs().max()}
    values |= {"runs.size.low": by_size["per_tenfold"].min(), "runs.size.high": by_size["per_tenfold"].max()}
    return values | {"equal.runs": len(alike), "equal.runs_apart": int(alike["apart"].sum())}


def runs_figure(runs: pd.DataFrame) -> dict[str, Any]:
    """Plot each run’s −ln RBP_1 above the line in CE of the runs of the first architecture, against CE.

    `runs` as `outside.xlstm_runs` has them, less the diverged.
    """
    names = runs["architecture"].value_counts().index.tolist()
    rank = -np.log(runs["accuracy"])
    base = runs["architecture"] == names[0]
    line = fit_power_law(runs.loc[base, "loss"], rank[base]).predict(runs["loss"])["value"].to_numpy()
    above = runs.assign(above=100 * (rank / line - 1))

    def draw(ax: Axes) -> None:
        labels = {}
        for name, rows in above.groupby("architecture"):
            colour, marker = family_style(str(name), names)
            ax.plot(rows["loss"], rows["above"], marker, color=colour, ms=4, mew=0)
            last = rows.nlargest(10, "loss")
            labels[str(name)] = (float(last["loss"].max()), float(last["above"].mean()), colour)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xlabel(LABELS["cross_entropy"])
        ax.set_ylabel(f"above {names[0]} (%)")
        label_line_ends(ax, labels)

    return {
        "figure": single_panel(draw, size=(4.8, 2.1)),
        "alt": "The runs of mLSTM lie above those of Llama at equal cross-entropy, more so at higher cross-entropy",
        "data": runs,
    }
