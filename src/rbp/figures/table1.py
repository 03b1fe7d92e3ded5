"""Table 1 of the paper as a picture: which of its cells have been recomputed, and how straight each line is."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from rbp.figures.style import GRID, INK, Panels
from rbp.names import dataset_label

FILLS = {"agrees": "#1F6FB0", "differs": "#B34700"}  # dark enough for white numbers
LOW = "#D55E00"


def metric_label(metric: str, k: int | None) -> str:
    """The row's name: "CE", or the threshold k."""
    return "CE" if metric == "cross_entropy" else f"{k}"


def cell_panels(cells: pd.DataFrame, *, low: float = 0.9) -> Panels:
    """The printed R² of every cell, by dataset: filled where recomputed, open where no points were published.

    `cells` is a table of `table1.recompute`. An R² below `low` in an open cell is set in colour.
    """

    def draw(ax: Axes, dataset: str) -> None:
        own = cells[cells["dataset"] == dataset]
        rows = [metric_label(metric, k) for metric, k in own[["metric", "k"]].drop_duplicates().itertuples(index=False)]
        families = list(dict.fromkeys(own["family"]))
        for cell in own.to_dict("records"):
            x, y = families.index(cell["family"]), rows.index(metric_label(cell["metric"], cell["k"]))
            fill = FILLS.get(cell["verdict"])
            box = Rectangle((x - 0.46, y - 0.42), 0.92, 0.84, fc=fill or "none", ec=fill or GRID, lw=1)
            ax.add_patch(box)
            is_low = cell["printed_r_squared"] < low
            colour = "#FFFFFF" if fill else LOW if is_low else INK
            text = f"{cell['printed_r_squared']:.3f}"
            ax.text(x, y, text, ha="center", va="center", color=colour, fontsize=9.5, weight="bold" if is_low else None)
        ax.set_xlim(-0.5, len(families) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xticks(range(len(families)), families)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylabel("k, or cross-entropy")
        ax.set_title(dataset_label(dataset))
        ax.tick_params(length=0)
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)

    return Panels(list(dict.fromkeys(cells["dataset"])), draw, size=(4.2, 3.1))
