"""Elsewhere: other architectures beside the transformer, by size, at equal cross-entropy, by tokens, and ties."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rbp.book.figure_style import INK, LABELS, Panels, legend_below, neg_log_rbp_label, rbp_label
from rbp.book.steps import step
from rbp.core.arrays import Integers, Reals, check_level
from rbp.core.errors import DataError, ParameterError
from rbp.evidence.counts import THRESHOLDS, Counts, LeftOut
from rbp.evidence.ranked import Ranked
from rbp.evidence.shipped import models, rank_sums
from rbp.paper.curves import K_SHADES, LINES, MARKERS, SIGNED, curves, melted, scaling_panels
from rbp.paper.display import INTERVAL_1, Columns, shown
from rbp.paper.families import NGRAMS, TRANSFORMER, family_label, measure_label, rung_of
from rbp.paper.ladder import exponents
from rbp.paper.wording import dataset_label, dataset_order
from rbp.ranks.metric import TieRule, rank
from rbp.stats.power_law import fit_power_law
from rbp.stats.resampling import document_sums, interval, without_each

RULES: tuple[TieRule, ...] = ("paper", "expected", "strict")
TIED_UP_TO = 1000  # the largest k at which rules are compared


def on_shared_rungs(text: Counts, family: str, ks: Sequence[int]) -> list[LeftOut]:
    """The transformer and a family on a text, at their largest budgets: the rungs that both have, by size."""
    both = [text.of(name, seed=0) for name in (TRANSFORMER, family)]
    shared = [rung for rung in both[0].models["rung"] if rung in set(both[1].models["rung"])]
    if len(shared) < 3:
        what = f"{len(shared)} rungs of {family} are the transformer's as well"
        raise DataError(what, text.dataset, "Three are needed for a law: train them: rbp ladder train --family.")
    places = [[one.models["rung"].tolist().index(rung) for rung in shared] for one in both]
    return [one.keep(at, ks).left_out() for one, at in zip(both, places, strict=True)]


def check_rung(text: Counts, families: Sequence[str], rung: str) -> None:
    """Raise ParameterError unless the transformer and one of the families have the rung at their largest budgets."""
    own, *others = (text.of(name, seed=0).models["rung"].tolist() for name in (TRANSFORMER, *families))
    there = [name for name in own if any(name in other for other in others)]
    if rung not in there:
        raise ParameterError(f"there is no rung {rung!r} to compare", "rung", f"There is: {', '.join(there)}.")


def exponents_beside(texts: Sequence[Counts], family: str, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """The exponents in S of the transformer and of a family, on the rungs that both have, at their largest budgets.

    Columns dataset, k (missing for the cross-entropy), family, n, alpha_transformer, r_squared_transformer, alpha,
    r_squared, difference (the family's less the transformer's); low, high: by documents, the same for both;
    scatter_low, scatter_high: from the scatter about the two lines, whose rungs are taken as pairs: the line of the
    ratio.
    """
    check_level(level)
    rows = []
    for text in texts:
        first, second = on_shared_rungs(text, family, ks)
        sizes = [one.counts.sizes for one in (first, second)]
        for k, their in first.each():
            both = (their, second.at(k))
            fits = [fit_power_law(size, np.exp(y[0]), level=level) for size, y in zip(sizes, both, strict=True)]
            slopes = [exponents(size, y) for size, y in zip(sizes, both, strict=True)]
            difference, low, high = interval(slopes[1] - slopes[0], level=level)
            # sizes of a rung differ by few per cent: the ratio is taken along the transformer's
            ratio = fit_power_law(sizes[0], np.exp(both[1][0] - both[0][0]), level=level)
            half = (ratio.alpha_high - ratio.alpha_low) / 2
            rows.append(
                {"dataset": text.dataset, "k": k, "family": family, "n": fits[1].n}
                | {"alpha_transformer": fits[0].alpha, "r_squared_transformer": fits[0].r_squared}
                | {"alpha": fits[1].alpha, "r_squared": fits[1].r_squared, "difference": difference}
                | {"low": low, "high": high, "scatter_low": difference - half, "scatter_high": difference + half}
            )
    return pd.DataFrame(rows).astype({"k": "Int64"})


def offsets(texts: Sequence[Counts], family: str, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """−ln RBP_k of each model of a family beside a transformer's of the same cross-entropy, at their largest budgets.

    The transformer's is interpolated in logarithms between its two neighbours in cross-entropy; models outside its
    range, or outside it without one of the documents, are left out. Columns dataset, k, family, model, cross_entropy,
    offset (per cent of the transformer's), low, high (by documents, the same for all).
    """
    check_level(level)
    parts = []
    for text in texts:
        theirs, own = (text.of(name, seed=0).keep(ks=ks).left_out() for name in (TRANSFORMER, family))
        for k in ks:
            apart = _apart(own.at(k), own.x, theirs.at(k), theirs.x)
            cells = {"dataset": text.dataset, "k": k, "family": family, "model": own.counts.names}
            offset, low, high = 100 * np.expm1(interval(apart, level=level))
            values = {"cross_entropy": np.exp(own.x[0]), "offset": offset, "low": low, "high": high}
            parts.append(pd.DataFrame(cells | values).dropna(subset=["low"]))
    return pd.concat(parts, ignore_index=True)


def _apart(y: Reals, entropy: Reals, their_y: Reals, their_entropy: Reals) -> Reals:
    """ln y less the transformer's at the same cross-entropy, shape (1 + D, models); NaN outside its range."""
    found = np.empty_like(y)
    for i in range(len(y)):
        order = np.argsort(their_entropy[i])
        at = np.interp(entropy[i], their_entropy[i][order], their_y[i][order], left=np.nan, right=np.nan)
        found[i] = y[i] - at
    return found


class View(NamedTuple):
    """One way to tell tokens apart: what it is called, the lower ends of its bins, and their labels."""

    title: str
    edges: tuple[int, ...]
    labels: tuple[str, ...]


NEVER = 10**9
FEWEST = 50  # tokens of a bin
#: by name; a distance of more than 128 tokens may lie outside what a model reads
VIEWS = {
    "read": View(
        "tokens of the document read before", (0, 16, 64, 256, 1024), ("<16", "16–63", "64–255", "256–1023", "more")
    ),
    "since": View(
        "tokens since this pair of tokens stood there",
        (0, 16, 64, 129, NEVER),
        ("<16", "16–63", "64–128", "more", "never"),
    ),
    "seen": View(
        "how often the token was trained on",
        (0, 300, 1_000, 3_000, 10_000, 30_000),
        ("<300", "–1k", "–3k", "–10k", "–30k", "more"),
    ),
}


def classes(tokens: pd.DataFrame, seen: Integers) -> dict[str, Integers]:
    """The bin of each token in each of VIEWS, shape (tokens,).

    tokens: of a rank store, with document, position (0 the first of the document, which is not ranked) and token, in
    order; seen: how often each token of the vocabulary stands in the training text.
    """
    document, position, token = (tokens[name].to_numpy(np.int64) for name in ("document", "position", "token"))
    follows = np.append(False, (document[1:] == document[:-1]) & (position[1:] == position[:-1] + 1))
    before = np.where(follows, np.roll(token, 1), -1)
    pairs = pd.DataFrame({"document": document, "before": before, "token": token, "position": position})
    last = pairs.groupby(["document", "before", "token"], sort=False)["position"].shift()
    since = (pairs["position"] - last).where(before >= 0).fillna(NEVER).to_numpy(np.int64)
    values = {"read": position, "since": since, "seen": seen[token]}
    return {name: np.searchsorted(VIEWS[name].edges, value, side="right") - 1 for name, value in values.items()}


def by_token(
    first: Ranked,
    second: Ranked,
    seen: Integers,
    k: int = 1,
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """How much larger RBP_k of the second model is than that of the first, on tokens of each kind (VIEWS) of a text.

    Columns dataset, view, bin (its number), kind (its label), tokens, documents, first, second (the two RBP_k),
    difference (percentage points), low, high (by documents). Bins of fewer than FEWEST tokens, or of one
    document, are left out.
    Raises DataError where the two did not rank the same tokens.
    """
    check_level(level)
    columns = ["document", "position", "token"]
    if not first.tokens[columns].equals(second.tokens[columns]):
        what = f"{second.store.model} and {first.store.model} did not rank the same tokens of {first.store.dataset}"
        raise DataError(what, str(second.store.folder), "Rank both with one tokenizer, corpus and protocol.")
    hits = [np.asarray(each.ranks <= k, dtype=np.float64) for each in (first, second)]
    document, rows = first.tokens["document"].to_numpy(), []
    for name, bins in classes(first.tokens, seen).items():
        for number, kind in enumerate(VIEWS[name].labels):
            own = bins == number
            if own.sum() < FEWEST or len(np.unique(document[own])) < 2:
                continue
            columns_ = np.column_stack([own[own], *(hit[own] for hit in hits)])
            total = without_each(document_sums(columns_, document[own]))
            both = total[:, 1:] / total[:, :1]
            difference, low, high = interval(100 * (both[:, 1] - both[:, 0]), level=level)
            rows.append(
                {"dataset": first.store.dataset, "view": name, "bin": number, "kind": kind}
                | {"tokens": int(total[0, 0]), "documents": len(total) - 1, "first": both[0, 0], "second": both[0, 1]}
                | {"difference": difference, "low": low, "high": high}
            )
    return pd.DataFrame(rows)


def ties(about: pd.DataFrame, sums: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """How many tokens tie with others, and RBP_k by each tie rule, of each model on each text.

    about: model, family, size; sums: model, dataset, greater, equal, tokens (`rbp.evidence.shipped.rank_sums`). Columns
    dataset, family, model, size, tied (the share of tokens whose score others have as well), rule, k, value.
    """
    rows = []
    for one in about[["family", "model", "size"]].to_dict("records"):
        for dataset, own in sums[sums["model"] == one["model"]].groupby("dataset", sort=False):
            weight = own["tokens"].to_numpy(np.float64)
            tied = float(weight @ (own["equal"] > 1) / weight.sum())
            for rule in RULES:
                place = np.asarray(rank(own["greater"], own["equal"], rule), dtype=np.float64)
                for k in ks:
                    share = float(weight @ (place <= k) / weight.sum())
                    rows.append({"dataset": dataset, **one, "tied": tied, "rule": rule, "k": k, "value": share})
    return pd.DataFrame(rows)


@step("ladder_ties", reads=["data/ladder/families.json", "data/ladder/families-sums"], seconds=5)
def shipped_ties() -> pd.DataFrame:
    """`ties` of the shipped models at the largest budget, up to k = 1000."""
    about = models()
    last = about[(about["seed"] == 0) & (about["budget"] == about["budget"].max())]
    return ties(last, rank_sums(), [k for k in THRESHOLDS if k <= TIED_UP_TO])


def spread_by_rule(table: pd.DataFrame) -> pd.DataFrame:
    """Of each model on each text: tied, and the largest distance of any RBP_k between two rules (`moved`), at which k.

    table: `ties`. Columns dataset, family, model, size, tied, moved, k.
    """
    cell = ["dataset", "family", "model", "size", "tied"]
    ends = table.groupby([*cell, "k"], sort=False)["value"].agg(["min", "max"])
    moved = (ends["max"] - ends["min"]).rename("moved").reset_index()
    most = moved.sort_values("moved", ascending=False, kind="stable").drop_duplicates(["dataset", "model"])
    return most.sort_values(["dataset", "size"], ignore_index=True)[[*cell, "moved", "k"]]


# ── What the page says and shows


def told(beside: pd.DataFrame, apart: pd.DataFrame, networks: Sequence[str], k: int) -> dict[str, float]:
    """What the page says of `exponents_beside` and of `offsets`, of networks and of n-grams, at k."""
    ranks, at_k = beside[beside["k"].notna()], beside[beside["k"] == k]
    found: dict[str, float] = {"lines": len(ranks), "rungs": int(ranks["n"].max())}
    found |= {
        "r_squared_min": ranks["r_squared"].min(),
        "r_squared_transformer_min": ranks["r_squared_transformer"].min(),
    }
    found |= {"difference_min": at_k["difference"].min(), "difference_max": at_k["difference"].max()}
    found |= {"text_apart": int(((ranks["low"] > 0) | (ranks["high"] < 0)).sum())}
    found |= {"scatter_apart": int(((ranks["scatter_low"] > 0) | (ranks["scatter_high"] < 0)).sum())}
    first = apart[apart["k"] == k]
    neural, counted = first[first["family"].isin(networks)], first[first["family"] == NGRAMS]
    found |= {"offsets": len(neural), "offsets_apart": int(((neural["low"] > 0) | (neural["high"] < 0)).sum())}
    for name, own in (("offset", neural), ("ngram_offset", counted)):
        found |= {f"{name}_min": own["offset"].min(), f"{name}_max": own["offset"].max()} if len(own) else {}
    return found


def tokens_told(tokens: pd.DataFrame) -> dict[str, float]:
    """What the page says of `by_token`: of pairs that stood near, or never, and of the first tokens of a document."""
    found: dict[str, float] = {}
    for name, view, kind in (("near", "since", "16–63"), ("never", "since", "never"), ("early", "read", "<16")):
        own = tokens.loc[(tokens["view"] == view) & (tokens["kind"] == kind), "difference"]
        found |= {f"tokens.{name}.min": own.min(), f"tokens.{name}.max": own.max()}
    return found


def ties_told(table: pd.DataFrame, moved: pd.DataFrame, rung: str) -> dict[str, float]:
    """What the page says of `ties` and `spread_by_rule`: of the longest n-grams, and RBP_1 of each family's rung."""
    counted, networks = moved[moved["family"] == NGRAMS], moved[moved["family"] != NGRAMS]
    longest = counted[counted["size"] == counted["size"].max()]
    found = {"tied_min": 100 * longest["tied"].min(), "tied_max": 100 * longest["tied"].max()}
    found |= {"moved_max": 100 * longest["moved"].max(), "tied_networks": 100 * networks["tied"].max()}
    at_1 = table[(table["rule"] == "paper") & (table["k"] == 1) & (table["dataset"] == "wikipedia")]
    for one in at_1.to_dict("records"):
        if one["model"] == longest["model"].iloc[0] or rung_of(one["model"], one["family"]) == rung:
            found[f"rbp1.{one['family']}"] = one["value"]
    return found


def law_shown(points: pd.DataFrame, k: int, *, level: float) -> dict[str, Any]:
    """What `Page.figure` takes for −ln RBP_k against S, by text and family, with each family's law."""
    return {
        "figure": scaling_panels(points, ylabel=neg_log_rbp_label(k), level=level),
        "caption": f"<b>−ln {rbp_label(k)} against size, by architecture,</b> all at the largest number of training "
        f"tokens, with the {level:.0%} confidence band of each line.",
        "alt": "Log-log plots of −ln RBP against model size with a line for each architecture, one panel a text",
        "data": points,
    }


def equal_shown(points: pd.DataFrame, k: int) -> dict[str, Any]:
    """What `Page.figure` takes for −ln RBP_k against cross-entropy, by text and family.

    points: `pair_metrics` at k; a family's points are joined in the order of its cross-entropies.
    """
    labels = (LABELS["cross_entropy"], neg_log_rbp_label(k))
    size = (4.6, 3.9)
    return {
        "figure": curves(points, "cross_entropy", "neg_log_rbp", labels=labels, line="family", log="xy", size=size),
        "caption": f"<b>−ln {rbp_label(k)} against cross-entropy.</b> On one curve, families would differ in "
        "cross-entropy alone.",
        "alt": "Log-log plots of −ln RBP against cross-entropy, one line for each family, one panel a text",
        "data": points,
    }


def tokens_shown(table: pd.DataFrame, k: int, second: str, *, level: float) -> dict[str, Any]:
    """What `Page.figure` takes for how much larger one model's RBP_k is than the transformer's, a panel for each view.

    table: `by_token` of several texts, a line each; second: the model whose RBP_k is larger above zero.
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

    views = [view for view in VIEWS if view in set(table["view"])]
    return {
        "figure": Panels(views, draw, size=(4.6, 4.1), columns=3),
        "caption": f"<b>How much larger {rbp_label(k)} of the {second} is than the transformer’s,</b> by kinds of "
        f"tokens; bars: {level:.0%} intervals by documents. A pair that stood there over 128 tokens ago may be out "
        "of sight.",
        "alt": "Differences of RBP between two models by tokens read before, distance of the last such pair, frequency",
        "data": table,
    }


def rules_shown(table: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for RBP_k by each tie rule less that by the paper's, in percentage points, by text.

    table: `ties` of one model.
    """
    rules = {"strict": "placed first (strict)", "expected": "mean place (expected)"}
    wide = table.pivot_table(index=["dataset", "k"], columns="rule", values="value").reset_index()
    wide[list(rules)] = 100 * wide[list(rules)].sub(wide["paper"], axis=0)
    labels = ("threshold k", f"percentage points of {rbp_label()} more")
    styles = dict(zip(rules.values(), (LINES[0], LINES[2]), strict=True))
    rows = melted(wide, rules, "k", by=["dataset"])
    panels = curves(rows, "k", "value", labels=labels, styles=styles, ylim="shared", size=(4.6, 3.5))
    return {
        "figure": panels,
        "caption": "<b>What the tie rule does to 5-grams:</b> RBPₖ by two other rules, less the paper’s, which places "
        "the truth last among its equals.",
        "alt": "Differences of RBP by tie rules against the threshold, one panel a text",
        "data": table,
    }


def costs_shown(costs: pd.DataFrame) -> dict[str, Any]:
    """What training the families took, and how large they are (`families.costs`)."""
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


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """With the column measure, what is shown for k."""
    return table.assign(measure=[measure_label(k) for k in table["k"]])


def beside_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponents of families side by side (`exponents_beside`)."""
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
    """−ln RBP_k at equal cross-entropy (`offsets`)."""
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
    """How many tokens tie, and what the tie rule moves (`spread_by_rule`)."""
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
