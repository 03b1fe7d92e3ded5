"""Figures and tables of the ladder's families: their surface, exponents, architectures, and predictions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from rbp.book.figure_style import (
    FAINT,
    INK,
    LABELS,
    Panels,
    legend_below,
    neg_log_rbp_label,
    rbp_label,
    single_panel,
)
from rbp.paper.architectures import VIEWS
from rbp.paper.curves import K_SHADES, LINES, MARKERS, SIGNED, curves, melted, off_the_line
from rbp.paper.display import INTERVAL_1, Columns, shown
from rbp.paper.families import family_label, measure_label
from rbp.paper.wording import dataset_label, dataset_order


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """With the column measure, what is shown for k."""
    return table.assign(measure=[measure_label(k) for k in table["k"]])


def entropy_panels(points: pd.DataFrame, k: int) -> Panels:
    """−ln RBP_k against cross-entropy, by text, a colour and a marker for each family.

    points: `pair_metrics` at k; a family's points are joined in the order of its cross-entropies.
    """
    labels = (LABELS["cross_entropy"], neg_log_rbp_label(k))
    return curves(points, "cross_entropy", "neg_log_rbp", labels=labels, line="family", log="xy", size=(4.6, 3.9))


def token_panels(table: pd.DataFrame, *, second: str) -> Panels:
    """How much larger one model's RBP_k is than the other's on tokens of each kind, a panel for each view.

    table: `architectures.by_token` of several texts, a line each; second: whose RBP_k is larger above zero.
    """
    datasets = dataset_order(table["dataset"])
    ends = 1.15 * float(np.nanmax(np.abs(table[["low", "high"]].to_numpy())))

    def draw(ax: Axes, view: str) -> None:
        labels = VIEWS[view].labels
        for i, dataset in enumerate(datasets):
            own = table[(table["view"] == view) & (table["dataset"] == dataset)]
            x = own["bin"].to_numpy(float) + 0.12 * (i - (len(datasets) - 1) / 2)
            colour, marker = K_SHADES[i % len(K_SHADES)], MARKERS[i % len(MARKERS)]
            ax.plot(
                x, own["difference"], marker, ls="-", lw=0.9, color=colour, ms=5, mew=0, label=dataset_label(dataset)
            )
            ax.vlines(x, own["low"], own["high"], color=colour, lw=1.3)
        ax.axhline(0, color=INK, lw=0.9)
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlim(-0.5, len(labels) - 0.5)
        ax.set_ylim(-ends, ends)
        ax.yaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel(VIEWS[view].title)
        ax.set_ylabel(f"{second}: percentage points more")
        legend_below(ax)
        sns.despine(ax=ax)

    return Panels([view for view in VIEWS if view in set(table["view"])], draw, size=(4.6, 4.1), columns=3)


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
        sns.despine(ax=ax, left=True)

    return single_panel(draw, size=(6.4, 0.9 + 0.42 * len(rows)))


def ties_figure(table: pd.DataFrame) -> Panels:
    """RBP_k against k by each tie rule less that by the paper's rule, in percentage points, by text.

    table: `architectures.ties` of one model.
    """
    rules = {"strict": "placed first (strict)", "expected": "mean place (expected)"}
    wide = table.pivot_table(index=["dataset", "k"], columns="rule", values="value").reset_index()
    wide[list(rules)] = 100 * wide[list(rules)].sub(wide["paper"], axis=0)
    labels = ("threshold k", f"percentage points of {rbp_label()} more")
    styles = dict(zip(rules.values(), (LINES[0], LINES[2]), strict=True))
    rows = melted(wide, rules, "k", by=["dataset"])
    return curves(rows, "k", "value", labels=labels, styles=styles, ylim="shared", size=(4.6, 3.5))


def costs_shown(costs: pd.DataFrame) -> dict[str, Any]:
    """What training the families took, and how large they are (`rbp.paper.families.costs`)."""
    sizes = ["weights", "ranks", "sums"]
    rows = costs.assign(family=costs["family"].map(family_label), **{name: costs[name] / 1e6 for name in sizes})
    columns: Columns = {
        "family": "Family",
        "models": "models",
        "core_hours": ("core-hours", "{:.1f}"),
        ("slowest", "fastest"): ("tokens/s", "{:,.0f} – {:,.0f}"),
        **{name: (f"{name}, MB", "{:.1f}") for name in sizes},
    }
    caption = (
        "<b>What it took.</b> Core-hours of training, in which budgets of one size share what they have read. "
        "Tokens/s: of one core, by the slowest model and the fastest."
    )
    return shown(rows, columns, caption=caption, data=costs)


def beside_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponents of families side by side (`architectures.exponents_beside`)."""
    columns: Columns = {
        "dataset": "Text",
        "measure": "of",
        "family": "family",
        "alpha_transformer": ("α, transformer", "{:.3f}"),
        "alpha": ("α, family", "{:.3f}"),
        "difference": ("difference", "{:+.3f}"),
        ("low", "high"): ("from the text, paired", "[{:+.3f}, {:+.3f}]"),
        ("scatter_low", "scatter_high"): ("from the scatter", "[{:+.3f}, {:+.3f}]"),
        "r_squared_transformer": ("R², transformer", "{:.4f}"),
        "r_squared": ("R², family", "{:.4f}"),
    }
    caption = (
        f"<b>Exponents in S side by side,</b> on the rungs that both families have, with {level:.0%} intervals of the "
        "difference: from the documents, the same for both, and from the scatter about the line of the ratio."
    )
    rows = _labelled(table).assign(family=table["family"].map(family_label))
    return shown(rows, columns, caption=caption, data=table)


def offsets_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """−ln RBP_k at equal cross-entropy (`architectures.offsets`)."""
    columns: Columns = {
        "dataset": "Text",
        "k": "k",
        "model": "model",
        "cross_entropy": ("cross-entropy", "{:.2f}"),
        "offset": ("offset, %", "{:+.1f}"),
        ("low", "high"): (f"{level:.0%} interval", INTERVAL_1),
    }
    caption = (
        "<b>−ln RBPₖ beside a transformer’s of the same cross-entropy,</b> in per cent of it; below 0 the "
        "family ranks better. The transformer’s is interpolated between its models; intervals by documents."
    )
    return shown(table, columns, caption=caption)


def ties_shown(table: pd.DataFrame) -> dict[str, Any]:
    """How many tokens tie, and what the tie rule moves (`architectures.spread_by_rule`)."""
    percent = table.assign(tied=100 * table["tied"], moved=100 * table["moved"])
    columns: Columns = {
        "dataset": "Text",
        "model": "model",
        "tied": ("tokens that tie, %", "{:.2f}"),
        "moved": ("RBP moves by, points", "{:.3f}"),
        "k": "at k",
    }
    caption = (
        "<b>Ties.</b> The share of tokens whose score other tokens have as well, and the largest change of any "
        "RBPₖ up to k = 1000 between two of the three tie rules."
    )
    return shown(percent, columns, caption=caption, data=table)


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
