"""Others' measurements (`companion.evidence.outside`): Pythia's snapshots on LAMBADA, and the runs of xLSTM Scaling
Laws and OpenLM over S and D; and k tries beside lists of k.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.chapters.families import OURS
from companion.chapters.training.grid import KEYS
from companion.evidence import outside, published
from rbp.errors import DataError, ParameterError
from rbp.extract.store import RankStore
from rbp.extract.training import PYTHIA_STEP
from rbp.figures.curves import ramp
from rbp.figures.style import INK, LABELS, Panels, label_line_ends, log_axis
from rbp.laws.misfit import ADDITIVE, FORMS, KAPLAN
from rbp.laws.power import PowerLawFit, fit_power_law
from rbp.laws.resampling import student
from rbp.laws.rivals import OF_BOTH, log_errors
from rbp.laws.surface import fit_surface, missed_elsewhere
from rbp.metric import TieRule, rank
from rbp.report.display import Columns, shown

# ── Others’ runs: sweeps over S and D, and snapshots of one training


ITEMS = 5153
"""The passages of LAMBADA, all answered by every model: each accuracy here is a whole number over it."""
MEASURES = ("rank", "loss")
TWIN = ("Pythia deduped", "pythia-2.8b")
"""The family and the model that are left out: almost the same run as Pythia's own 2.8b (`gaps_to_deduplicated`)."""
SUBJECTS = {"rank": "−ln RBP₁", "loss": "loss", "lambada": "−ln accuracy (LAMBADA)"}


def snapshots() -> pd.DataFrame:
    """Pythia's accuracy on LAMBADA without examples, at each step that was kept, of models trained in its own
    precision. TWIN is left out.

    Columns family ("Pythia", "Pythia deduped"), model, size, step, training_tokens, accuracy, by these.
    """
    table = outside.lambada()
    own = table[table["family"].isin(["Pythia", "Pythia deduped"]) & (table["shots"] == 0)]
    own = own[(own["family"] != TWIN[0]) | (own["model"] != TWIN[1])]
    size = own["model"].map(published.models().set_index("name")["non_embedding_params"])
    own = own.assign(size=size.astype("int64"), step=own["step"].astype("int64"))
    own["training_tokens"] = own["step"] * PYTHIA_STEP
    columns = ["family", "model", "size", "step", "training_tokens", "accuracy"]
    return own[columns].sort_values(["family", "step", "size"], ignore_index=True)


def gaps_to_deduplicated() -> "pd.Series[float]":
    """Compute how far apart Pythia and its deduplicated twin of each size are on LAMBADA, in per cent.

    The median over the snapshots from step 1,000 on (before it, a size has the same first weights in both) of the
    difference in ln perplexity, without examples. Index: model.
    """
    table = outside.lambada()
    table = table[(table["shots"] == 0) & (table["step"] >= 1000)]
    wide = table.pivot_table(index=["model", "step"], columns="family", values="perplexity")
    gaps: pd.Series[float] = 100 * (np.log(wide["Pythia"]) - np.log(wide["Pythia deduped"])).abs().dropna()
    return gaps.groupby("model").median()


def twins_statistics() -> dict[str, float]:
    """Summarise `gaps_to_deduplicated`: that of TWIN's size, and the least and the largest of the other sizes."""
    gaps = gaps_to_deduplicated()
    others = gaps.drop(TWIN[1])
    return {"twins.gap": gaps[TWIN[1]], "twins.least": others.min(), "twins.most": others.max()}


def by_snapshot(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S of −ln accuracy at each step: `fit_power_law`, with all models and `without` the smallest.

    Columns family, step, training_tokens, alpha, alpha_low, alpha_high, prefactor, r_squared, n, without. Steps at
    which a model has no success are left out: its −ln accuracy is infinite.
    """
    rows = []
    for (family, step), own in table.groupby(["family", "step"]):
        if own["accuracy"].min() == 0 or own["size"].nunique() < 4:
            continue
        own = own.assign(value=-np.log(own["accuracy"].to_numpy(float)))
        law = fit_power_law(own["size"], own["value"], level=level)
        larger = own[own["size"] > own["size"].min()]
        row = {"family": family, "step": step, "training_tokens": own["training_tokens"].iloc[0]}
        row |= {
            name: getattr(law, name) for name in ("alpha", "alpha_low", "alpha_high", "prefactor", "r_squared", "n")
        }
        rows.append(row | {"without": fit_power_law(larger["size"], larger["value"]).alpha})
    return pd.DataFrame(rows)


def change(table: pd.DataFrame, early: int, late: int, *, level: float = 0.95) -> PowerLawFit:
    """By how much the exponent grew between two steps of the same models: `alpha` of the law of y_late/y_early in S.

    table: the snapshots of one family. Each model is compared with itself, so what it keeps of its own drops out.
    Raises ParameterError for a step without a success of every model.
    """
    known = table[table["accuracy"] > 0]
    known = known.assign(y=-np.log(known["accuracy"].to_numpy(float)))
    wide = known.pivot_table(index="size", columns="step", values="y").dropna(axis="columns")
    if missing := [step for step in (early, late) if step not in wide]:
        there = ", ".join(map(str, wide.columns))
        raise ParameterError(f"not all models have a success at step {missing[0]}", "step", f"They have at: {there}.")
    return fit_power_law(wide.index.to_numpy(float), wide[late] / wide[early], level=level)


ABOVE = {"all": 0.0, "above 10⁸": 1e8, "above 10⁹": 1e9}
"""Groups of models by the least number of parameters."""


def changes(table: pd.DataFrame, steps: Sequence[int], late: int, *, level: float = 0.95) -> pd.DataFrame:
    """`change` from each of `steps` to `late`, for all models of a family and for its large ones (ABOVE).

    Columns models (the group), n, step, alpha, alpha_low, alpha_high, r_squared (of the group's law at that step),
    change, low, high. Groups of fewer than three models are left out.
    """
    rows = []
    for group, least in ABOVE.items():
        own = table[table["size"] > least]
        if own["size"].nunique() < 3:
            continue
        for step in steps:
            grown = change(own, step, late, level=level)
            there = own[own["step"] == step]
            law = fit_power_law(there["size"], -np.log(there["accuracy"].to_numpy(float)), level=level)
            row = {"models": group, "n": law.n, "step": step}
            row |= {name: getattr(law, name) for name in ("alpha", "alpha_low", "alpha_high", "r_squared")}
            rows.append(row | {"change": grown.alpha, "low": grown.alpha_low, "high": grown.alpha_high})
    return pd.DataFrame(rows)


def changes_shown(table: pd.DataFrame, late: int, *, level: float) -> dict[str, Any]:
    """The rows of `changes`, for `Page.table`."""
    columns: Columns = {
        "models": "models",
        "n": "n",
        "step": ("from step", "{:,}"),
        ("alpha", "alpha_low", "alpha_high"): ("α there", "{:.3f} [{:.3f}, {:.3f}]"),
        "r_squared": ("R² there", "{:.2f}"),
        ("change", "low", "high"): (f"change of α to step {late:,}", "{:.3f} [{:.3f}, {:.3f}]"),
    }
    caption = (
        f"<b>The exponent changes most early in training.</b> All models, and those above 10⁸ and 10⁹ parameters, with "
        f"{level:.0%} intervals over models. Each model is compared with itself."
    )
    return shown(table, columns, caption=caption)


def runs(architecture: str = "Llama") -> pd.DataFrame:
    """The xLSTM runs of one architecture that did not diverge, with `rank` (−ln RBP_1) beside `loss`.

    Raises ParameterError for an architecture that is not there.
    """
    table = outside.xlstm_runs().query("~diverged")
    own = table[table["architecture"] == architecture]
    if own.empty:
        there = ", ".join(sorted(table["architecture"].unique()))
        raise ParameterError(f"there are no runs of {architecture!r}", "architecture", f"There is: {there}.")
    return own.assign(rank=-np.log(own["accuracy"]))


def openlm() -> pd.DataFrame:
    """OpenLM's runs with `lambada`, the share of LAMBADA's items that they get right; some get none."""
    return outside.openlm().rename(columns={"lambada_openai": "lambada"})


def left_out(tables: Mapping[str, tuple[pd.DataFrame, str, Sequence[str], int | None]]) -> pd.DataFrame:
    """Every form of S and D on each of `tables`: name → (table, unit, measures, trials).

    Columns name, measure, unit, form, n, units; missed: of the deviance of units left out in turn, per cent, in all and
    by_unit (see `missed_elsewhere`); fitted: of the rows fitted, per cent; and two local exponents in S of y at the
    geometric means of S and D: at_d, at fixed D, and at_ratio, along constant tokens per parameter.
    """
    rows = []
    for name, (table, unit, measures, trials) in tables.items():
        at = (_middle(table["size"]), _middle(table["training_tokens"]))
        for measure in measures:
            own = table.assign(value=table[measure])
            for form in OF_BOTH:
                law = fit_surface(own, form, trials=trials)
                row = {"name": name, "measure": measure, "unit": unit, "form": form, "n": law.n}
                row |= {"units": own[unit].nunique(), "fitted": 100 * (1 - law.explained)}
                missed = 100 * missed_elsewhere(own, unit, form, trials=trials)
                row |= {"missed": missed.sum(), "by_unit": tuple(missed)}
                rows.append(row | {"at_d": law.exponent(*at).item(), "at_ratio": law.exponent(*at, 1.0).item()})
    return pd.DataFrame(rows)


def _middle(column: "pd.Series[Any]") -> float:
    return float(np.exp(np.log(column.to_numpy(float)).mean()))


def largest_foretold(table: pd.DataFrame, early: int, late: int, hidden: int = 2) -> pd.DataFrame:
    """What each form says of the largest models' −ln accuracy at step `late`, fitted to the others.

    table: the snapshots of one family. A law of S alone is fitted to step `late`, others to all steps from `early` to
    it, by least squares of ln y. Columns form, model, size, told (over measured).
    """
    sizes = np.sort(table["size"].unique())
    seen = table[(table["accuracy"] > 0) & table["step"].between(early, late)]
    seen = seen.assign(value=-np.log(seen["accuracy"].to_numpy(float)))
    known, asked = (
        seen["size"] <= sizes[-1 - hidden],
        seen[(seen["size"] > sizes[-1 - hidden]) & (seen["step"] == late)],
    )
    parts = []
    for form in FORMS:
        own = known if form in OF_BOTH else known & (seen["step"] == late)
        share = np.exp(log_errors(seen[own], asked, form))
        parts.append(asked[["model", "size"]].assign(form=form, told=share))
    found: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return found


def others_told(table: pd.DataFrame, foretold: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """What the page and the ledger say of `left_out` and `largest_foretold`."""
    found: dict[str, Any] = {}
    for row in table.to_dict("records"):
        found[f"missed.{row['name'].split()[-1].lower()}.{row['measure']}.{KEYS[row['form']]}"] = row["missed"]
    for name, own in table.groupby("name", sort=False):
        found[f"{str(name).split()[-1].lower()}.n"] = int(own["n"].iloc[0])
    for row in foretold[foretold["size"] == foretold["size"].max()].to_dict("records"):
        found[f"told.largest.{KEYS[row['form']]}"] = row["told"]
    llama = table[(table["measure"] == "rank")].set_index("form").loc[KAPLAN]
    found |= {f"llama.rank.{name}.{KEYS[KAPLAN]}": llama[name] for name in ("at_d", "at_ratio")}
    return found | sum_statistics(table, level=level)


def sum_statistics(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Whether S and D act as a sum in `left_out` of the Llama runs: for how many measures it errs least, and by what

    its error is larger than Kaplan's.
    """
    found: dict[str, Any] = {"llama.sum_closest": 0}
    for measure in MEASURES:
        missed = table[table["measure"] == measure].set_index("form")["missed"]
        found["llama.sum_closest"] += int(missed[ADDITIVE] == missed.min())
        by_unit = table[table["measure"] == measure].set_index("form")["by_unit"]
        # sweeps are the units: ln of the sum's error over Kaplan's in each, and its mean
        ratio = np.log(np.array(by_unit[ADDITIVE]) / np.array(by_unit[KAPLAN])) / 2
        ends = student(ratio.mean(), ratio.var(ddof=1) / len(ratio), len(ratio) - 1, level=level)
        names = (f"llama.{measure}.{name}" for name in ("ratio", "ratio_low", "ratio_high"))
        found |= dict(zip(names, map(float, np.exp(ends)), strict=True)) | {"llama.sweeps": len(ratio)}
    return found


def left_out_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The rows of `left_out`, for `Page.table`."""
    columns: Columns = {
        "name": "runs",
        "measure": "y",
        "form": "form",
        "n": "n",
        "fitted": ("missed, %", "{:.1f}"),
        "missed": ("missed where left out, %", "{:.1f}"),
        "at_d": ("exponent in S, D fixed", "{:.3f}"),
        "at_ratio": ("along D ∝ S", "{:.3f}"),
    }
    caption = (
        "<b>Others’ runs.</b> Missed: the share of the deviance, of the rows fitted and of units (whole sweeps, or all "
        "runs of a size) left out in turn. Exponents: at the geometric means of S and D."
    )
    rows = table.drop(columns="by_unit").assign(measure=table["measure"].map(SUBJECTS))
    return shown(rows, columns, caption=caption)


_LAWS, _OVER = "the lines", "their exponents"
SERIES = (("#2A7FC0", "o"), ("#D55E00", "s"))


def training_told(fits: pd.DataFrame, own: pd.DataFrame, moves: pd.DataFrame, late: int) -> dict[str, Any]:
    """What the page says of one family: its `by_snapshot`, its snapshots, and its `changes` up to step `late`.

    Of the steps in `moves` the first is called early, the last between, and the one after the first earlier.
    """
    steps = sorted(int(step) for step in moves["step"].unique())
    named = {"early": steps[0], "earlier": steps[min(1, len(steps) - 1)], "between": steps[-1]}
    at, peak = fits.set_index("step"), own.loc[own.groupby("model")["accuracy"].idxmax()].sort_values("size").iloc[0]
    found: dict[str, Any] = {f"step.{name}": step for name, step in named.items()}
    found |= {"step.late": late, "smallest": peak["model"]}
    for name, at_step in (("early", named["early"]), ("late", late)):
        found |= {f"{column}.{name}": at[column][at_step] for column in ("alpha", "without")}
    found["r_squared.early"] = at["r_squared"][named["early"]]
    rows = {(row["models"], row["step"]): row for row in moves.to_dict("records")}
    whole, large, largest = ABOVE
    for name, group, step in (("", whole, "early"), ("large.earlier.", large, "earlier"), ("large.", large, "between")):
        if row := rows.get((group, named[step])):
            found |= {
                f"{name}change": row["change"],
                f"{name}change_low": row["low"],
                f"{name}change_high": row["high"],
            }
    if row := rows.get((largest, named["early"])):
        found |= {f"largest.{name}": row[name] for name in ("alpha", "alpha_low", "alpha_high")}
    return found


def training_shown(
    snapshots: pd.DataFrame,
    fits: pd.DataFrame,
    family: str,
    steps: Sequence[int],
    twins: Mapping[str, float],
    *,
    level: float,
) -> dict[str, Any]:
    """What `Page.figure` takes for a family over its training: points and laws at some steps, exponents at all.

    snapshots: `snapshots`; fits: `by_snapshot`, whose other families are in the right panel too; twins:
    `twins_statistics`.
    """
    own = snapshots[(snapshots["family"] == family) & (snapshots["accuracy"] > 0)]
    laws = fits[fits["family"] == family].set_index("step")
    there = [step for step in steps if step in laws.index]
    colours = dict(zip(there, ramp(len(there)), strict=True))

    def lines(ax: Axes) -> None:
        ends = {}
        for step, colour in colours.items():
            points = own[own["step"] == step].sort_values("size")
            size = points["size"].to_numpy(float)
            fit = laws.loc[step]
            law = fit["prefactor"] * size ** -fit["alpha"]
            ax.plot(size, law, color=colour, lw=1.3)
            ax.plot(size, -np.log(points["accuracy"].to_numpy(float)), "o", color=colour, ms=4.5, mew=0)
            ends[f"{step:,}"] = (float(size[-1]), float(law[-1]), colour)
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("−ln accuracy on LAMBADA")
        ax.set_title(f"{family}, after so many steps")
        label_line_ends(ax, ends)

    def exponents(ax: Axes) -> None:
        seen = fits[fits["step"] >= 1000]
        for (name, rows), (colour, marker) in zip(seen.groupby("family"), SERIES, strict=False):
            main = name == family
            style: dict[str, Any] = {"lw": 1.4 if main else 0.9, "alpha": 1.0 if main else 0.75}
            ax.plot(rows["step"], rows["alpha"], marker=marker, color=colour, ms=4.5, mew=0, label=name, **style)
            ax.vlines(rows["step"], rows["alpha_low"], rows["alpha_high"], color=colour, **style)
            if main:
                ax.plot(rows["step"], rows["without"], ":", color=colour, lw=1.2, label=f"{name}, smallest left out")
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xscale("log")
        log_axis(ax, "x")
        ax.set_xlabel("training step")
        ax.set_ylabel("exponent α in S")
        ax.set_title("The exponent over training")
        ax.legend(loc="lower right")

    draw = {_LAWS: lines, _OVER: exponents}
    return {
        "figure": Panels(list(draw), lambda ax, key: draw[key](ax), size=(4.6, 4.0)),
        "caption": "<b>One family over its training.</b> Left: −ln accuracy against size, at some steps. Right: the "
        f"exponent at each step, with {level:.0%} intervals over models; dotted: without the smallest. The "
        "deduplicated 2.8b is left out: it is almost the same run as Pythia’s own. Their perplexities differ by "
        f"{twins['twins.gap']:.1f}% at the median, those of other sizes by {twins['twins.least']:.1f}% to "
        f"{twins['twins.most']:.0f}%.",
        "alt": "Left, lines of −ln accuracy against size that get steeper with training; right, the rising exponent",
        "data": fits,
    }


# ── Lists of k, and k tries


LIST, TRIES = "list of k", "k tries"


def lists_and_tries(stores: Iterable[RankStore], ks: Sequence[int], rule: TieRule = "paper") -> pd.DataFrame:
    """−ln of the share of tokens hit by a list of k and by k tries, of each store: exact, by the tokens' own
    probabilities.

    Columns way (LIST, TRIES), dataset, family, model, size, k, value. Raises DataError where a k exceeds a vocabulary.
    """
    rows = []
    for store in stores:
        if max(ks) > store.vocabulary:
            what = f"k = {max(ks)} exceeds the vocabulary of {store.vocabulary}"
            raise DataError(what, str(store.folder), "Give smaller thresholds.")
        tokens = store.ranks()
        ranks = rank(tokens["greater"], tokens["equal"], rule)
        with np.errstate(divide="ignore"):  # a token that is sure to be drawn
            log_miss = np.log(-np.expm1(-tokens["nll"].to_numpy(np.float64)))
        about = (store.dataset, store.family, store.model, store.size)
        for k in ks:
            hit = {LIST: float((ranks <= k).mean()), TRIES: float(-np.expm1(k * log_miss).mean())}
            rows += [(way, *about, k, -np.log(share)) for way, share in hit.items()]
    return pd.DataFrame(rows, columns=["way", "dataset", "family", "model", "size", "k", "value"])


def change_in_k(points: pd.DataFrame, k: int, *, level: float = 0.95) -> pd.DataFrame:
    """By how much the exponent in S at `k` exceeds that at 1: change, low, high, by way, dataset and family.

    points: as of `lists_and_tries`. Each model is compared with itself. Raises FitError for fewer than three sizes.
    """
    both = points[points["k"] == 1].merge(points[points["k"] == k], on=["way", "dataset", "family", "model", "size"])
    rows = []
    for key, own in both.groupby(["way", "dataset", "family"]):
        fit = fit_power_law(own["size"], own["value_y"] / own["value_x"], level=level)
        rows.append((*key, fit.alpha, fit.alpha_low, fit.alpha_high))
    return pd.DataFrame(rows, columns=["way", "dataset", "family", "change", "low", "high"])


def changes_in_k(points: pd.DataFrame, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """`change_in_k` at several k, a row each, with the column k."""
    return pd.concat([change_in_k(points, k, level=level).assign(k=k) for k in ks], ignore_index=True)


def tries_told(table: pd.DataFrame) -> dict[str, Any]:
    """What stands beside the claim on pass@k: of `changes_in_k` at two k."""
    middle, last = sorted(int(k) for k in table["k"].unique())
    of = {way: table[table["way"] == way] for way in (LIST, TRIES)}
    ends = {way: own[own["k"] == last] for way, own in of.items()}
    rise = int((of[TRIES].loc[of[TRIES]["k"] == middle, "change"] > 0).sum())
    return {
        "tries.k_middle": middle,
        "tries.k_last": last,
        "tries.texts": len(ends[TRIES]),
        "tries.rise": rise,
        "tries.lower": int((ends[TRIES]["change"] < 0).sum()),
        "tries.surely_lower": int((ends[TRIES]["high"] < 0).sum()),
        "tries.lists_higher": int((ends[LIST]["change"] > 0).sum()),
    }


def tries_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The rows of `changes_in_k`, for `Page.table`."""
    columns: Columns = {
        "way": "of",
        "dataset": "Text",
        "k": "k",
        "change": ("exponent less that at k = 1", "{:+.3f}"),
        ("low", "high"): (f"{level:.0%} interval", "[{:+.3f}, {:+.3f}]"),
    }
    caption = f"<b>The exponent in S with k,</b> of lists of k guesses (RBPₖ) and of k tries (pass@k), in {OURS}."
    return shown(table, columns, caption=caption)
