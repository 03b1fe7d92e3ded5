"""What chapters draw and list beside `rbp.figures.curves`: chosen rows, and figures of one panel."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rbp.figures.style import use_style
from rbp.figures.wording import cell_label, dataset_order, listed


def spread(values: "pd.Series[int]", count: int) -> list[int]:
    """Choose so many of the different values, from smallest to largest, evenly by place; all where there are fewer."""
    every = sorted(int(value) for value in values.unique())
    places = np.linspace(0, len(every) - 1, min(count, len(every))).round().astype(int)
    return [every[place] for place in places]


def by_number(table: pd.DataFrame, column: str) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield the rows of each whole number in `column`, in ascending order."""
    for value in sorted(int(value) for value in table[column].unique()):
        yield value, table[table[column] == value]


def in_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Add the column `cell`, "Pythia on Wikipedia", to a table; sort it in the order of the datasets and by family."""
    order = dataset_order(table["dataset"])
    place = table["dataset"].map(order.index)
    cell = [cell_label(row) for row in table.itertuples()]
    return table.assign(cell=cell, place=place).sort_values(["place", "family"], kind="stable").drop(columns="place")


def melted(table: pd.DataFrame, columns: Mapping[str, str], x: str, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Make a row for each value of some columns: x, `by`, line (what `columns` calls the column) and value."""
    return table[[x, *by, *columns]].rename(columns=columns).melt([x, *by], var_name="line", value_name="value")


SIGNED = FuncFormatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0")


def single_panel(draw: Callable[[Axes], None], size: tuple[float, float]) -> Figure:
    """Draw a figure of one panel, in the book's style."""
    use_style()
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    return figure


def fits_listed(fits: pd.DataFrame, *, r_squared: bool = False, joint: str = ", ") -> str:
    """List the cells of fits in one line: "GPT-2 on HumanEval at k = 100", with R² in brackets if wanted; or "none"."""
    notes = [f" ({r_squared_of_fit:.3f})" for r_squared_of_fit in fits["r_squared"]] if r_squared else [""] * len(fits)
    rows = zip(fits.itertuples(), notes, strict=True)
    return listed((f"{cell_label(row)} at k = {row.k:,}{end}" for row, end in rows), joint=joint)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a panel, the first at the top: y from 0 on, without ticks or lines across."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
