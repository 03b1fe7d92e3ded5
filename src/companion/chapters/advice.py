"""What the last chapter's figure shows: a law in size, its forecasts, cross-entropy beside it, tokens in a row."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from companion.chapters.cross_entropy import forecasts, pairs_by_k
from rbp.figures.style import FAMILIES, INK, LABELS, Panels, family_style, log_axis, rbp_label
from rbp.figures.wording import family_label
from rbp.laws.power import fit_power_law
from rbp.measurements import select

CELL = ["family", "k"]
SMALL_K = (1, 10, 100)


def lines(table: pd.DataFrame, cells: dict[str, tuple[int, ...]], dataset: str = "wikipedia") -> pd.DataFrame:
    """−ln RBP_k of the models of some families on one text, as a share of what it is for the family's smallest model.

    table: measurements; cells: the thresholds k of each family. Columns family, k, size, model, share, line (the power
    law at that size), alpha, r_squared; sorted by family, k and size. Raises FitError where a family has fewer than
    three sizes.
    """
    rows = []
    for family, ks in cells.items():
        for k in ks:
            own = select(table, dataset=dataset, family=family, metric="neg_log_rbp", k=k).sort_values("size")
            fit, first = fit_power_law(own["size"], own["value"]), own["value"].iloc[0]
            line = fit.predict(own["size"])["value"].to_numpy() / first
            rows.append(own.assign(share=own["value"] / first, line=line, alpha=fit.alpha, r_squared=fit.r_squared))
    return pd.concat(rows)[[*CELL, "size", "model", "share", "line", "alpha", "r_squared"]].reset_index(drop=True)


def ahead(table: pd.DataFrame) -> pd.DataFrame:
    """The two largest models of each family and text, hidden and forecast by the law in S: RBP_k, and CE beside it.

    Columns dataset, family, hidden (how many of the family's models were), model, k (missing for CE), error: forecast
    over measured, less one, in per cent; below 0, the forecast was too optimistic. Only of models with both metrics, at
    SMALL_K.
    """
    pairs = pairs_by_k(table)
    told = forecasts(pairs[pairs["k"].isin(SMALL_K)], holdout=2, holdout_few=1)
    told = told.assign(hidden=told.groupby(["dataset", "family"])["model"].transform("nunique"))
    keys = ["dataset", "family", "hidden", "model"]
    control = told.drop_duplicates(keys).assign(k=None, error=lambda rows: rows["control"])
    both = pd.concat([control.astype({"k": "Int64"}), told.assign(error=told["direct"]).astype({"k": "Int64"})])
    return both[[*keys, "k", "error"]].reset_index(drop=True)


def in_a_row(windows: pd.DataFrame, model: str) -> pd.DataFrame:
    """−ln p of a model for N tokens in a row at SMALL_K, measured and for independent tokens.

    windows: of a source, on one text. Columns k, n, measured, independent (N·(−ln RBP_k)); lengths without a success
    are left out, since they have no −ln p.
    """
    own = windows[(windows["model"] == model) & windows["k"].isin(SMALL_K) & (windows["p"] > 0)]
    measured = own.assign(measured=-np.log(own["p"].astype(float)))
    single = measured[measured["n"] == 1].set_index("k")["measured"]
    table = measured.assign(independent=measured["n"] * measured["k"].map(single))
    return table[["k", "n", "measured", "independent"]].sort_values(["k", "n"]).reset_index(drop=True)


def times_as_often(row: pd.DataFrame, k: int, n: int) -> float:
    """How many times as often as independent tokens n in a row succeed. row: of `in_a_row`, with this k and n."""
    own = row[(row["k"] == k) & (row["n"] == n)].iloc[0]
    return float(np.exp(own["independent"] - own["measured"]))


def drawn(**panels: pd.DataFrame) -> pd.DataFrame:
    """The tables of several panels below each other, with a column that names the panel."""
    return pd.concat([table.assign(panel=name) for name, table in panels.items()], ignore_index=True)


HOLDS, NEARLY, FAILS = "✓", "≈", "✗"
STRAIGHT = 0.97  # the paper's bar for R² (section 4.2)
MANY = 50  # so many models of a family are drawn small and pale
LENGTH = 10  # the tokens in a row whose success is told in numbers


def argument(
    lines: pd.DataFrame, ahead: pd.DataFrame, pairs: pd.DataFrame, curves: pd.DataFrame, row: pd.DataFrame
) -> Panels:
    """Four panels: −ln RBP_k by size, forecasts of hidden models, RBP_1 by cross-entropy, N tokens in a row.

    pairs and curves: of `pair_metrics` and `straight_lines` of the chapter on cross-entropy. Each panel's
    title has its verdict, which follows from what it draws.
    """
    panels = {
        "size": lambda ax: _size(ax, lines),
        "ahead in size": lambda ax: _ahead(ax, ahead),
        "cross-entropy": lambda ax: _entropy(ax, pairs, curves),
        "tokens in a row": lambda ax: _in_a_row(ax, row),
    }

    def draw(ax: Axes, key: str) -> None:
        panels[key](ax)

    return Panels(list(panels), draw, size=(4.6, 3.9))


def _size(ax: Axes, lines: pd.DataFrame) -> None:
    ax.set_xscale("log")
    for (family, k), own in lines.groupby(CELL):
        colour, marker = family_style(str(family))
        ax.plot(own["size"], own["line"], color=colour, lw=1.2)
        ax.plot(own["size"], own["share"], marker, color=colour, ms=5, mew=0)
        end, rising = own.iloc[-1], own["alpha"].iloc[0] < 0
        name = f"k = {k:,}: rises" if rising else f"k = {k:,}"
        _label(ax, name, (end["size"], end["line"]), (6, 0), color=colour)
    names = list(dict.fromkeys(lines["family"]))
    ax.legend(handles=[_handle(family, *family_style(family)) for family in names], loc="lower left")
    ax.set_xlim(right=float(lines["size"].max()) * 10)
    log_axis(ax, "x", plain=False)
    log_axis(ax, "y")
    ax.set_xlabel(LABELS["size"])
    ax.set_ylabel("−ln RBP, smallest model = 1")
    straight = lines.loc[lines["k"].isin(SMALL_K), "r_squared"].min() >= STRAIGHT
    title, large = f"{HOLDS if straight else NEARLY} Small k: nearly a power", lines[~lines["k"].isin(SMALL_K)]
    ax.set_title(title + (f"; {FAILS} large k" if (large["alpha"] < 0).any() else ""))


def _ahead(ax: Axes, ahead: pd.DataFrame) -> None:
    metrics = ["CE", *map(rbp_label, SMALL_K)]
    families = sorted(ahead["family"].unique())
    for i, family in enumerate(families):
        colour, marker = family_style(family, families)
        own = ahead[ahead["family"] == family]
        place = np.array([0 if pd.isna(k) else 1 + SMALL_K.index(k) for k in own["k"]])
        place = place + 0.17 * (i - (len(families) - 1) / 2)
        ax.plot(place, own["error"], marker, color=colour, ms=6, mew=0, alpha=0.85, label=family_label(family))
    ax.axhline(0, color=INK, lw=0.9)
    ax.set_xticks(range(len(metrics)), metrics)
    ax.set_xlim(-0.5, len(metrics) - 0.5)
    low, high = ahead["error"].min(), ahead["error"].max()
    ax.set_ylim(low - 0.12 * (high - low), high + 0.32 * (high - low))
    ax.grid(axis="x", visible=False)
    hopeful, count = int((ahead["error"] < 0).sum()), len(ahead)
    cut = " or ".join(map(str, sorted(ahead["hidden"].unique())))
    ax.text(0.02, 0.03, "below 0: too optimistic", transform=ax.transAxes)
    ax.set_ylabel("forecast less measured (%)")
    ax.set_title(
        f"{FAILS} Largest {cut} hidden: too optimistic" if 2 * hopeful > count else f"{NEARLY} Largest {cut} hidden"
    )
    ax.legend(loc="upper right", ncols=2, columnspacing=0.9, handletextpad=0.2)


def _entropy(ax: Axes, pairs: pd.DataFrame, curves: pd.DataFrame) -> None:
    families = sorted(curves["family"].unique())
    cells: list[Any] = list(curves.itertuples())
    for cell in cells:
        own = pairs[(pairs["dataset"] == cell.dataset) & (pairs["family"] == cell.family)]
        colour, marker = family_style(cell.family, families)
        few = len(own) < MANY
        costs, hits = own["cross_entropy"], np.exp(-own["neg_log_rbp"])
        ax.plot(costs, hits, marker, color=colour, ms=5 if few else 2, mew=0, alpha=0.9 if few else 0.35)
        ends = np.array([costs.min(), costs.max()])
        ax.plot(ends, cell.at_zero - cell.per_nat * ends, color=colour, lw=1)
    texts = curves.groupby("family")["dataset"].nunique()
    names = {
        family: family_label(family) + (f", {texts[family]} texts" if texts[family] > 1 else "") for family in families
    }
    ax.legend(handles=[_handle(names[family], *family_style(family, families)) for family in families])
    ax.set_xlabel(LABELS["cross_entropy"])
    ax.set_ylabel("RBP₁")
    straight = curves["r_squared"].min() >= STRAIGHT
    ax.set_title(f"{HOLDS if straight else NEARLY} Family and text: a line in CE")


def _in_a_row(ax: Axes, row: pd.DataFrame) -> None:
    ax.set_xscale("log")
    for k, own in row.groupby("k"):
        colour, marker = FAMILIES["Pythia"]
        ax.plot(own["n"], own["measured"], marker=marker, color=colour, ms=4.5, mew=0, lw=1.2)
        ax.plot(own["n"], own["independent"], ":", color=colour, lw=1.4)
        _label(ax, f"k = {k}", (own["n"].iloc[1], own["measured"].iloc[1]), (8, -7), color=colour)
    log_axis(ax, "x")
    log_axis(ax, "y")
    times = times_as_often(row, 1, LENGTH)
    ax.text(0.98, 0.03, f"{LENGTH} first guesses right: {times:.0f} times as often", transform=ax.transAxes, ha="right")
    ax.set_xlabel("tokens in a row")
    ax.set_ylabel("−ln p (dotted: if independent)")
    ax.set_title(f"{FAILS} In a row: not independent" if times > 1.1 else f"{NEARLY} In a row")


def _label(ax: Axes, text: str, place: tuple[float, float], away: tuple[float, float], *, color: str) -> None:
    """A name beside a line, so many points away."""
    ax.annotate(text, place, xytext=away, textcoords="offset points", color=color, fontweight="bold", va="center")


def _handle(name: str, colour: str, marker: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, ms=5, mew=0, lw=1.1, label=name)
