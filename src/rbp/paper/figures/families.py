"""Figures and tables of the ladder's families: their surface, exponents, architectures, and predictions."""

from collections.abc import Mapping, Sequence
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
from rbp.paper.curves import K_SHADES, LINES, MARKERS, SIGNED, curves, melted, off_the_line, ramp
from rbp.paper.display import INTERVAL, INTERVAL_1, Columns, shown
from rbp.paper.families import family_label, measure_label, of_measure
from rbp.paper.wording import dataset_label, dataset_order
from rbp.stats.surface import Surface


def millions(tokens: float) -> str:
    """A number of tokens in millions: 0.5 M."""
    return f"{tokens / 1e6:g} M"


def measure_axis(k: int | None) -> str:
    """The axis label of −ln RBP_k, or of the cross-entropy (None)."""
    return LABELS["cross_entropy"] if k is None else neg_log_rbp_label(k)


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """With the column measure, what is shown for k."""
    return table.assign(measure=[measure_label(k) for k in table["k"]])


def surface_panels(points: pd.DataFrame, surfaces: Mapping[tuple[str, int | None], Surface], k: int | None) -> Panels:
    """−ln RBP_k, or the cross-entropy (None), against S, a line of points for each D, by text, with the sum's curves.

    points: `families.points`; surfaces: `size_and_training.surfaces`.
    """
    own = of_measure(points, k).sort_values("training_tokens")
    budgets = {f"D = {millions(budget)}": float(budget) for budget in own["training_tokens"].unique()}
    rows = own.assign(line=own["training_tokens"].map({value: name for name, value in budgets.items()}))
    lines = []
    for dataset, there in rows.groupby("dataset"):
        sizes = np.geomspace(there["size"].min(), there["size"].max(), 60)
        if law := surfaces.get((str(dataset), k)):
            for name in there["line"].unique():
                value = law.predict(sizes, budgets[name])
                lines.append(pd.DataFrame({"dataset": dataset, "line": name, "size": sizes, "value": value}))
    styles = {name: (colour, "o") for name, colour in zip(budgets, ramp(len(budgets)), strict=True)}
    return curves(
        rows, "size", "value", labels=(LABELS["size"], measure_axis(k)), styles=styles,
        fitted=lines, ends=True, log="xy", size=(4.6, 3.9),
    )  # fmt: skip


def exponent_panels(by_budget: pd.DataFrame, along: pd.DataFrame) -> Panels:
    """The exponent in S against D, by text, a line for each measure; apart from them, that along constant D/S.

    by_budget, along: of `size_and_training`. Bars: by documents. Marks beside each other are moved apart.
    """
    by_budget, along = _labelled(by_budget), _labelled(along)
    measures = list(dict.fromkeys(by_budget["measure"]))
    budgets = sorted(by_budget["training_tokens"].unique())
    last = budgets[-1] * 3.2
    low = min(0.0, float(pd.concat([by_budget["low"], along["low"]]).min()))
    high = float(pd.concat([by_budget["high"], along["high"]]).max())

    def draw(ax: Axes, dataset: str) -> None:
        for i, measure in enumerate(measures):
            colour, marker = K_SHADES[i % len(K_SHADES)], MARKERS[i % len(MARKERS)]
            dodge = 1.05 ** (i - (len(measures) - 1) / 2)
            own = by_budget[(by_budget["dataset"] == dataset) & (by_budget["measure"] == measure)]
            x = own["training_tokens"].to_numpy(float) * dodge
            ax.plot(x, own["alpha"], marker, ls="-", lw=1.1, color=colour, ms=5, mew=0, label=measure, zorder=3)
            ax.vlines(x, own["low"], own["high"], color=colour, lw=1.3)
            there = along[(along["dataset"] == dataset) & (along["measure"] == measure)]
            ax.plot(last * dodge, there["alpha"], marker, color=colour, mfc="none", mew=1.4, ms=6, zorder=3)
            ax.vlines(np.full(len(there), last * dodge), there["low"], there["high"], color=colour, lw=1.3)
        ax.axhline(0, color=INK, lw=0.8)
        ax.axvline(np.sqrt(budgets[-1] * last), color=INK, lw=0.4, alpha=0.5)
        ax.set_xscale("log")
        ratio = along["per_parameter"].iloc[0] if len(along) else np.nan
        ax.set_xticks([*budgets, last], [f"{budget / 1e6:g}" for budget in budgets] + [f"{ratio:g}·S"])
        ax.minorticks_off()
        ax.set_ylim(low - 0.05 * (high - low), high + 0.22 * (high - low))
        ax.set_xlabel("training tokens D (millions)")
        ax.set_ylabel("exponent α in S")
        ax.set_title(dataset_label(dataset))
        ax.legend(loc="upper center", ncols=len(measures), handlelength=1.1, columnspacing=0.9, handletextpad=0.4)
        sns.despine(ax=ax)

    return Panels(dataset_order(by_budget["dataset"]), draw, size=(4.6, 3.9))


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


def forms_shown(forms: pd.DataFrame) -> dict[str, Any]:
    """The forms of the surface (`size_and_training.forms`)."""
    columns: Columns = {
        "dataset": "Text",
        "measure": "of",
        "form": "form",
        "alpha": ("a", "{:.3f}"),
        "beta": ("b", "{:.3f}"),
        "offset": ("E", "{:.3f}"),
        "r_squared": ("R²", "{:.4f}"),
        "scatter": ("scatter, %", "{:.1f}"),
        "aicc": ("AICc", "{:.0f}"),
        "unseen_budget": ("error at an unseen D, %", "{:.1f}"),
        "unseen_size": ("at an unseen S, %", "{:.1f}"),
    }
    caption = (
        "<b>Three forms of the surface.</b> Additive: E + A·S<sup>−a</sup> + B·D<sup>−b</sup>; product: "
        "A·S<sup>−a</sup>·D<sup>−b</sup>; and a product above an E. Errors: root mean square of ln y at the largest D, "
        "or S, by a fit that did not see it. Lower AICc is better."
    )
    return shown(_labelled(forms), columns, caption=caption, data=forms)


def exponents_shown(by_budget: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponents at each budget (`size_and_training.by_budget`)."""
    table = _labelled(by_budget).assign(tokens=by_budget["training_tokens"].map(millions))
    columns: Columns = {
        "dataset": "Text",
        "measure": "of",
        "tokens": "D",
        "n": "sizes",
        "alpha": ("α in S", "{:.3f}"),
        ("low", "high"): ("from the text", INTERVAL),
        ("scatter_low", "scatter_high"): ("from the scatter", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "difference": ("less that at the smallest D", "{:+.3f}"),
        ("difference_low", "difference_high"): ("from the text, paired", "[{:+.3f}, {:+.3f}]"),
    }
    caption = (
        f"<b>The exponent in S at each budget,</b> on the sizes that all have, with {level:.0%} intervals: from "
        "the documents, and from the scatter about the line."
    )
    return shown(table, columns, caption=caption, data=by_budget)


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


def bends_shown(parts: Sequence[tuple[str, pd.DataFrame]], *, level: float) -> dict[str, Any]:
    """The curvatures of the same lines over several sets of points (`ladder.bends`), by their labels."""
    whole = pd.concat([table.assign(over=label) for label, table in parts], ignore_index=True)
    columns: Columns = {
        "over": "over",
        "dataset": "Text",
        "k": "k",
        "coefficient": ("curvature", "{:+.4f}"),
        ("low", "high"): (f"{level:.0%} interval", "[{:+.4f}, {:+.4f}]"),
        "p": ("p", "{:.2g}"),
        "p_holm": ("p, Holm", "{:.2g}"),
    }
    caption = (
        "<b>Is the law bent?</b> The coefficient of (ln S)² in ln(−ln RBPₖ): above 0 where the points bend "
        "upwards and growth pays less and less. Holm: corrected over the lines of one set."
    )
    return shown(whole, columns, caption=caption)


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
