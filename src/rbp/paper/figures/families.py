"""Figures and tables of the ladder's families: their zigzag, and predictions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from rbp.book.figure_style import (
    FAINT,
    INK,
    Panels,
    single_panel,
)
from rbp.paper.curves import K_SHADES, LINES, SIGNED, off_the_line
from rbp.paper.display import Columns, shown


def zigzag_panels(residuals: pd.DataFrame) -> Panels:
    """How far each rung lies from its line, by text, a line for each ladder.

    residuals: dataset, ladder (its label), size, residual (a share of the line), all at one k.
    """
    styles = dict(zip(residuals["ladder"].unique(), (LINES[0], LINES[3]), strict=False))
    return off_the_line(residuals, line="ladder", styles=styles)


def score_figure(tested: pd.DataFrame, kinds: Mapping[str, str], level: float) -> Figure:
    """Where the outcomes fell in the predicted distributions, a row for each kind of prediction.

    tested: `predictions.scored`; kinds: the label of each kind. Filled: inside the interval, which is shaded; arrows:
    beyond the view.
    """
    own = tested.dropna(subset="away")
    rows = [kind for kind in kinds if kind in set(own["kind"])]
    reach = min(max(3.0, float(own["away"].abs().max())), 6.0)

    def draw(ax: Axes) -> None:
        wide = norm.ppf((1 + level) / 2)
        ax.axvspan(-wide, wide, color=FAINT, alpha=0.6, lw=0)
        ax.axvline(0, color=INK, lw=0.9)
        for i, kind in enumerate(rows):
            there = own[own["kind"] == kind].sort_values("away")
            spread = np.linspace(-0.28, 0.28, len(there)) if len(there) > 1 else np.zeros(1)
            inside = there["inside"].eq(1).to_numpy()
            x, y = there["away"].to_numpy(float), i + spread
            ax.plot(x[inside], y[inside], "o", color=K_SHADES[1], ms=6, mew=0)
            for seen, marker in ((np.abs(x) <= reach, "o"), (x > reach, ">"), (x < -reach, "<")):
                at = ~inside & seen
                ax.plot(x[at].clip(-reach, reach), y[at], marker, color="#D55E00", mfc="none", mew=1.6, ms=6)
        ax.set_yticks(range(len(rows)), [kinds[kind] for kind in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xlim(-1.08 * reach, 1.08 * reach)
        ax.xaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("predicted standard deviations from the middle")
        ax.tick_params(axis="y", length=0)
        ax.spines.left.set_visible(False)

    return single_panel(draw, size=(6.4, 0.9 + 0.42 * len(rows)))


def predictions_shown(table: pd.DataFrame, names: "pd.Series[str]") -> dict[str, Any]:
    """The tested predictions with their outcomes (`predictions.scored`); names: `predictions.described`."""
    rows = table.assign(name=names.reindex(table.index), held=table["inside"].map({1.0: "yes", 0.0: "no"}))
    rows["said"] = rows["probability"].where(rows["middle"].isna(), rows["middle"])
    columns: Columns = {
        "name": "prediction",
        "said": ("said", "{:.3g}"),
        ("low", "high"): ("80% interval", "[{:.3g}, {:.3g}]"),
        "outcome": ("came", "{:.3g}"),
        "held": "held",
        "gain": ("log score less the naive guess’s", "{:+.2f}"),
    }
    caption = (
        "<b>Every prediction that could be tested.</b> Of events a probability was said; 1 came if it happened. The "
        "last column is in nats; above 0 the prediction beat the naive guess."
    )
    return shown(rows, columns, caption=caption, data=table)


def untested_shown(table: pd.DataFrame, names: "pd.Series[str]") -> dict[str, Any]:
    """The predictions that nothing here tests, and why."""
    rows = table.assign(name=names.reindex(table.index))
    columns: Columns = {"name": "prediction", "middle": ("said", "{:.3g}"), "untested": "not tested, as"}
    return shown(rows, columns, caption="<b>Predictions that cannot be tested yet,</b> and why.", data=table)


def kinds_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The score by kind (`predictions.by_kind`)."""
    columns: Columns = {
        "kind": "kind",
        "made": "made",
        "tested": "tested",
        "inside": ("intervals that held", "{:.0f}"),
        "better": "better than naive",
        "gain": ("log score gained", "{:+.1f}"),
    }
    caption = (
        "<b>The score by kind.</b> Log score gained: the sum over the tested ones, in nats, over the naive guesses."
    )
    return shown(table, columns, caption=caption)
