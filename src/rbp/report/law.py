"""The results of `rbp law` for a user's models: the law at each k, in words and on one page that opens offline."""

import html
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import curves, scaling_panels
from rbp.figures.style import FAMILIES, LABELS, SPARE, Panels, label_line_ends, log_axis, neg_log_rbp_label
from rbp.figures.wording import model_label
from rbp.laws.misfit import ADDITIVE, FORMULAS
from rbp.laws.power import direction, formula
from rbp.laws.rivals import Rivals, side_by_side
from rbp.laws.table import fit_table
from rbp.measurements import Source
from rbp.measurements.checkpoints import AXES, against, split_by_checkpoint
from rbp.measurements.counts import store_table
from rbp.measurements.ranked import Ranked, every_k, pieces_of, with_intervals
from rbp.measurements.table import check_dataset
from rbp.report.display import INTERVAL, coloured_text, shown
from rbp.report.page import HERE, write_page

log = logging.getLogger(__name__)

NEEDED = 3  # sizes of a family, below which there is no line
STRAIGHT = 0.97  # R² of a line that the paper takes for a law (section 4.2)
HOLDS, RISES, BENT, OPEN, NONE = (
    "holds",
    "fails: larger models are worse",
    f"fails: it falls, but R² is below {STRAIGHT}",
    "is open: the interval of α contains 0",
    "has no line",
)
PASSAGE = 160  # tokens that are shown coloured


def chosen(
    table: pd.DataFrame, dataset: str | None, ks: Sequence[int], families: Collection[str] | None = None
) -> pd.DataFrame:
    """Select the measurements of one dataset at `ks`, and its cross-entropy; of some families, where they are named.

    Raises ParameterError if there are several datasets, or where nothing of what is chosen is there.
    """
    if families is not None:
        table = table[table["family"].isin(families)]
    table = table[table["metric"].isin(["neg_log_rbp", "cross_entropy"])]
    datasets = list(dict.fromkeys(table["dataset"]))
    if not datasets:
        fault = "there is neither an RBP_k nor a cross-entropy in it"
        raise DataError(fault, "measurements", "Give a source that has ranks, such as rbp extract makes.")
    if dataset is None and len(datasets) > 1:
        fault = f"there are several datasets: {', '.join(datasets)}"
        raise ParameterError(fault, "--dataset", "Give one of them.")
    dataset = dataset or datasets[0]
    check_dataset(dataset, table, "--dataset")
    if dataset not in datasets:
        raise ParameterError(f"there is no dataset {dataset!r}", "--dataset", f"There is: {', '.join(datasets)}.")
    rows = table[table["dataset"] == dataset]
    found = rows[rows["k"].isna() | rows["k"].isin(ks)]
    if found.empty:
        have = ", ".join(map(str, sorted(rows["k"].dropna().unique())))
        raise ParameterError(_missing(ks, dataset), "-k", f"There is: {have}.")
    return found


def warn_of_missing(table: pd.DataFrame, ks: Sequence[int]) -> None:
    """Say at which of `ks` the table that `chosen` gave has nothing."""
    if missing := [k for k in ks if k not in set(table["k"].dropna())]:
        log.warning("%s: there is no law of it", _missing(missing, table["dataset"].iloc[0]))


def _missing(ks: Sequence[int], dataset: str) -> str:
    return f"there is no RBP_k at k = {', '.join(map(str, ks))} on {dataset}: not measured, or 0 for all"


def laws(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Fit each family at each k, then its cross-entropy: `fit_table`, impossible fits included."""
    fits = fit_table(table, by=("dataset", "metric", "family", "k"), level=level, required=False)
    return fits.sort_values("metric", ascending=False, kind="stable", ignore_index=True)


def in_words(fits: pd.DataFrame, level: float, axis: str = "size") -> list[str]:
    """Write the fits as lines of text, against an axis of AXES; of a line with too few points, what it would take."""
    letter, by_size = AXES[axis][1], axis == "size"
    counted, needs = ("models", "sizes of one family") if by_size else ("checkpoints", "checkpoints of one run")
    lines = []
    for row in fits.to_dict("records"):
        measure = "cross-entropy" if row["metric"] == "cross_entropy" else f"−ln RBP_{row['k']}"
        where = f"{row['family']} on {row['dataset']}"
        if row["note"]:
            need = f" (a line needs {NEEDED} {needs})" if row["n"] < NEEDED else ""
            lines.append(f"{measure}, {where}: no law: {row['note']}{need}")
            continue
        few = f"; few {'sizes' if by_size else 'points'}: read it with care" if row["weak"] else ""
        rises = direction(row["alpha"], row["alpha_low"], row["alpha_high"], letter)
        lines.append(
            f"{measure} = {formula(row['prefactor'], row['alpha'], letter)}, {where}: α {row['alpha_low']:.4f} to "
            f"{row['alpha_high']:.4f} ({level:.0%}), R² {row['r_squared']:.4f}, {row['n']} {counted}{few}{rises}"
        )
    return lines


def verdicts(fits: pd.DataFrame) -> "pd.Series[str]":
    """Say whether the law holds in each row of `laws`: HOLDS, RISES, BENT, OPEN or NONE."""
    open_ended = (fits["alpha_low"] <= 0) & (fits["alpha_high"] >= 0)
    cases = [fits["alpha"].isna(), open_ended, fits["alpha"] < 0, fits["r_squared"] < STRAIGHT]
    return pd.Series(np.select(cases, [NONE, OPEN, RISES, BENT], HOLDS), fits.index, dtype="str")


def summary(fits: pd.DataFrame) -> list[str]:
    """Say in how many cases the law holds, and in how many not: a sentence for −ln RBP_k, one for cross-entropy."""
    sentences = []
    for metric, name, cases in (
        ("neg_log_rbp", "−ln RBPₖ", "cases of family, dataset and k"),
        ("cross_entropy", "cross-entropy", "cases of family and dataset"),
    ):
        counts = verdicts(fits[fits["metric"] == metric]).value_counts()
        if count := int(counts.sum()):
            failed = (verdict for verdict in (RISES, BENT, OPEN, NONE) if verdict in counts)
            others = "".join(f" In {counts[verdict]} it {verdict}." for verdict in failed)
            sentences.append(f"For {name} the law holds in {counts.get(HOLDS, 0)} of {count} {cases}.{others}")
    return sentences


def verdict_table(fits: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Format the rows of `laws` with their verdicts, as `shown` gives them."""
    rows = fits.assign(
        measure=["cross-entropy" if pd.isna(k) else f"k = {k:,}" for k in fits["k"]],
        verdict=verdicts(fits) + fits["note"].where(fits["note"] == "", ": " + fits["note"]),
    )
    rows["verdict"] += rows["weak"].fillna(False).astype(bool).map({True: " (few sizes)", False: ""})
    columns: dict[Any, Any] = {
        "family": "Family",
        "dataset": "Dataset",
        "measure": "Measure",
        "n": "sizes",
        ("alpha", "alpha_low", "alpha_high"): (f"α and its {level:.0%} interval", f"{{:.3f}} {INTERVAL}"),
        "r_squared": ("R²", "{:.3f}"),
        "verdict": "The law",
    }
    caption = (
        "<b>Does the law hold?</b> It does where the measure falls with size (the interval of α is above 0) on a line "
        f"of R² ≥ {STRAIGHT}, the paper’s bar. Where α is negative it rises, so larger models are worse."
    )
    return shown(rows, columns, caption=caption, ranked=True)


def compared(table: pd.DataFrame, level: float) -> dict[str, Rivals | str]:
    """Compare laws in S and D (`laws.rivals`) by cell; where there are none, say why.

    table: rows of `Source.checkpoints`. Raises ParameterError where the training tokens are not known.
    """
    runs = against(table, "tokens")["family"]
    rows = table.loc[runs.index].assign(run=runs)
    comparisons: dict[str, Rivals | str] = {}
    for (dataset, metric, k, family), points in rows.groupby(
        ["dataset", "metric", "k", "family"], dropna=False, sort=False
    ):
        measure = "cross-entropy" if metric == "cross_entropy" else f"−ln RBP_{k}"
        try:
            rivals: Rivals | str = side_by_side(points, level=level)
        except (FitError, DataError) as error:
            rivals = error.what
        comparisons[f"{measure}, {family} on {dataset}"] = rivals
    return comparisons


def _left_out(sizes: int, budgets: int) -> dict[str, str]:
    """Name so many hidden sizes and numbers of training tokens, by the names of `Rivals.errors`."""
    words = {}
    if sizes:
        words["size"] = "the largest size" if sizes == 1 else f"the {sizes} largest sizes"
    if budgets:
        words["budget"] = "the most training tokens" if budgets == 1 else f"the {budgets} largest numbers of tokens"
    return words | {"both": " and ".join(words.values())}


def compared_in_words(comparisons: Mapping[str, Rivals | str], level: float) -> list[str]:
    """Write the results of `compared` as lines of text."""
    lines = []
    for cell, rivals in comparisons.items():
        if isinstance(rivals, str):
            lines.append(f"{cell}: no laws in S and D: {rivals}")
            continue
        left_out = _left_out(*rivals.hidden)
        without = " or ".join(left_out[name] for name in left_out if name != "both")
        lines.append(
            f"{cell}: {rivals.runs} runs; each law is fitted without {without}, and forecasts what is left out"
        )
        for hidden, errors in rivals.errors.groupby("hidden", sort=False):
            ordered = errors.sort_values("error")
            scores = ", ".join(f"{row.form} {row.error:.1f}%" for row in ordered.itertuples())
            lines.append(f"  without {left_out[str(hidden)]}, error: {scores}")
            if ordered["tied"].sum() > 1:
                tied = ", ".join(ordered.loc[ordered["tied"], "form"])
                lines.append(f"    these runs cannot distinguish ({level:.0%}): {tied}")
        for row in rivals.laws.itertuples():
            exponents = [f"a = {_ended(row, 'alpha')}", f"b = {_ended(row, 'beta')}"]
            exponents += [f"E = {_ended(row, 'offset')}"] if row.form == ADDITIVE else []
            lines.append(f"  {row.form}, {FORMULAS[str(row.form)]}: {', '.join(exponents)}")
        for form in rivals.errors.loc[~rivals.errors["form"].isin(rivals.laws["form"]), "form"].unique():
            lines.append(f"  {form}, {FORMULAS[form]}: in S, fitted at each D alone, or in D at each S")
        lines += [f"  {sentence}" for sentence in rivals.design]
    return lines


def _ended(row: Any, name: str) -> str:
    value, low, high = (getattr(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return f"{value:.4f}" + (f" ({low:.4f} to {high:.4f})" if np.isfinite(low) else " (too few runs for an interval)")


def over_training(fits: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return exponents in S of families with a law at several numbers of training tokens (column `at`); column `run`.

    fits: of `laws` of `Source.table`, whose rows `table` is: each family is of one time.
    """
    tokens = table.groupby("family")["training_tokens"].agg(["min", "max"]).astype("Float64")
    single_time = tokens["max"][tokens["min"] == tokens["max"]]
    laws_in_time = fits[fits["alpha"].notna() & fits["family"].isin(single_time.index)]
    tokens_read = laws_in_time["family"].map(single_time).astype("float64")
    run = laws_in_time["family"].str.replace(r" at [\d.e+]+ [MBT]$", "", regex=True)  # as `amount` writes the time
    return laws_in_time.assign(at=tokens_read, run=run).loc[tokens_read.groupby(run).transform("nunique") > 1]


def write_law(
    path: Path,
    source: Source,
    table: pd.DataFrame,
    fits: pd.DataFrame,
    *,
    level: float,
    command: str,
    tokenizers: dict[str, Any],
    axis: str = "size",
    plotted: pd.DataFrame,
    surfaces: Mapping[str, Rivals | str],
) -> None:
    """Write the page: the laws, figures, tables, passages coloured for models that have `tokenizers`, the command.

    axis: of AXES, against which the rows `plotted` were fitted (`against`; against size, `table`); surfaces: of
    `compared`.
    """
    fitted, by_size = fits["alpha"].notna().any(), axis == "size"
    later = over_training(fits, table) if fitted and by_size else fits[:0]
    ranks = table[table["metric"] == "neg_log_rbp"]
    ks = sorted(set(ranks["k"]))
    stores = stores_behind(source, set(ranks["dataset"]), set(split_by_checkpoint(ranks)["model"]))
    write_page(
        path,
        HERE / "law.html",
        title=f"{', '.join(dict.fromkeys(table['family']))} on {table['dataset'].iloc[0]}",
        lines=[_typeset(line) for line in in_words(fits, level, axis)],
        surfaces=compared_in_words(surfaces, level),
        axis=AXES[axis][2],
        letter=AXES[axis][1],
        level=f"{level:.0%}",
        against_axis=against_size(plotted, level, axis) if fitted else None,
        over_training=_exponents(later) if len(later) else None,
        verdicts=verdict_table(fits, level=level) if fitted and by_size else None,
        models=_values(table),
        against_k=against_k(stores, max(10, *ks)) if stores else None,
        intervals=_intervals(stores, ks, level) if stores else None,
        passages=[_passage(ranked, tokenizers[ranked.store.model]) for ranked in _readable(stores, tokenizers)],
        command=command,
    )


def _values(table: pd.DataFrame) -> dict[str, Any]:
    """Tabulate every model's measurements, as a page shows them."""
    rows = table.assign(model=split_by_checkpoint(table)["model"], measure=[_label(k) for k in table["k"]])
    wide = rows.pivot_table("value", ["family", "size", "model"], "measure", sort=False)
    columns: dict[Any, Any] = {"family": "Family", "model": "Model", "size": ("S", "{:,}")}
    columns |= {name: (name, "{:.4f}") for name in wide.columns}
    caption = "<b>Each model:</b> −ln RBPₖ, and cross-entropy in nats."
    return shown(wide.reset_index().sort_values(["family", "size"]), columns, caption=caption)


def _readable(stores: Sequence[Ranked], tokenizers: Mapping[str, Any]) -> list[Ranked]:
    """Return the smallest and the largest of the models that have a tokenizer."""
    readable = [ranked for ranked in stores if ranked.store.model in tokenizers]
    return readable[:1] + readable[1:][-1:]


def _passage(ranked: Ranked, tokenizer: Any) -> tuple[str, Markup]:
    """Return a model's name, and the first tokens of its first document, coloured by rank."""
    first = int(ranked.tokens["document"].iloc[0])
    rows = ranked.tokens[ranked.tokens["document"] == first].head(PASSAGE)
    text = coloured_text(pieces_of(rows, tokenizer, ranked.rule))
    return model_label(ranked.store.model), Markup(text)  # noqa: S704


def _typeset(line: str) -> Markup:
    """Write a line of `in_words` as HTML, with the subscripts and superscripts of its formula."""
    low = re.sub(r"RBP_(\d+)", r"RBP<sub>\1</sub>", html.escape(line))
    return Markup(re.sub(r"S\^\(?(−?[\d.]*\d)\)?", r"S<sup>\1</sup>", low))  # noqa: S704


def _label(k: Any) -> str:
    return "cross-entropy" if pd.isna(k) else f"k = {k}"


def _exponents(later: pd.DataFrame) -> Panels:
    """Plot α against training tokens, a panel for each family."""
    rows = later.assign(line=[_label(k) for k in later["k"]]).rename(columns={"alpha_low": "low", "alpha_high": "high"})
    labels = ("training tokens D", "exponent α in S")
    return curves(rows, "at", "alpha", labels=labels, panel="run", heights=[0], size=(4.6, 3.7))


def against_size(table: pd.DataFrame, level: float, axis: str = "size") -> Panels:
    """Plot a panel for each k, and one for cross-entropy."""
    rows = table.sort_values("k", kind="stable")
    names = [LABELS["cross_entropy"] if pd.isna(k) else neg_log_rbp_label(int(k)) for k in rows["k"]]
    xlabel = LABELS["size"] if axis == "size" else f"{AXES[axis][2]} {AXES[axis][1]}"
    return scaling_panels(rows.assign(of=names), xlabel=xlabel, level=level, panel="of")


def stores_behind(source: Source, datasets: set[str], models: set[str]) -> list[Ranked]:
    """Return the rank stores behind the table, where there are any, by family and size."""
    stores = [store for store in source.ranked.stores if store.dataset in datasets and store.model in models]
    return [Ranked(store, source.rule) for store in sorted(stores, key=lambda store: (store.family, store.size))]


def against_k(stores: Sequence[Ranked], most: int) -> Panels:
    """Plot RBP_k of each model up to k = `most`."""
    styles = [style[:2] for style in (*FAMILIES.values(), *SPARE)]

    def draw(ax: Axes, _: str) -> None:
        tips = {}
        for ranked, (colour, _) in zip(stores, styles * len(stores), strict=False):
            curve = every_k(ranked)
            ax.step(curve["k"], curve["rbp"], where="post", color=colour, linewidth=1.4)
            reached = curve[curve["k"] <= most]["rbp"].max()
            tips[model_label(ranked.store.model)] = (float(most), float(reached), colour)
        ax.set_xlim(1, most)
        log_axis(ax, "x")
        ax.set_ylim(0, 1.02)
        ax.set_xlabel("threshold k")
        ax.set_ylabel("RBPₖ")
        label_line_ends(ax, tips)

    return Panels(("RBPₖ",), draw)


def _intervals(stores: Sequence[Ranked], ks: Sequence[int], level: float) -> dict[str, Any]:
    """Tabulate RBP_k of each model with its two intervals, as a page shows them."""
    counted = [store_table(ranked, [k for k in ks if k <= ranked.store.vocabulary]) for ranked in stores]
    both = zip(counted, stores, strict=True)
    tables = [with_intervals(table, ranked, level).dropna(subset="low") for table, ranked in both]
    some = pd.concat(tables, ignore_index=True)
    shares = {f"rbp_{end}": np.exp(-some[end]) for end in ("value", "low", "high", "document_low", "document_high")}
    interval = "{:.4f} to {:.4f}"
    columns: dict[Any, Any] = {
        "model": "Model",
        "k": ("k", "{:,}"),
        "tokens": ("tokens", "{:,}"),
        "rbp_value": ("RBPₖ", "{:.4f}"),
        ("rbp_high", "rbp_low"): ("by tokens", interval),
    }
    kinds = "of independent tokens"
    if some["document_low"].notna().any():
        columns["rbp_document_high", "rbp_document_low"] = "by documents", interval
        kinds += ", and with documents, or blocks of a single long one, as the units"
    return shown(some.assign(**shares), columns, caption=f"<b>RBPₖ</b> with {level:.0%} intervals, {kinds}.")


def tokenizers(models: Sequence[str]) -> dict[str, Any]:
    """Load the tokenizers of models, by the names that their measurements have."""
    if not models:
        return {}
    from rbp.models.find import find_model
    from rbp.models.load import load_tokenizer

    model_files = [find_model(model) for model in models]
    return {files.name: load_tokenizer(files) for files in model_files}
