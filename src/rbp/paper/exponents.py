"""What an exponent in S depends on: how far training has come, how D goes with S, and which models are compared.

Three sets of others' measurements (`rbp.evidence.outside`): Pythia's snapshots on LAMBADA, the runs of xLSTM Scaling
Laws (−ln RBP_1 and loss over S and D), and OpenLM's (LAMBADA over S and D).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.errors import FitError, ParameterError
from rbp.evidence import outside, published
from rbp.paper.display import INTERVAL, shown
from rbp.stats.power_law import PowerLawFit, fit_power_law
from rbp.stats.surface import COLUMNS, FORMS, explained_elsewhere, fit_shares, fit_surface, leave_one_out

ITEMS = 5153
"""The passages of LAMBADA, all answered by every model: each accuracy here is a whole number over it."""
TOKENS_PER_STEP = 1024 * 2048
"""Pythia's batch: every model reads the same 143 000 of them, in the same order (arXiv:2304.01373)."""
STANDARD = "Pythia"
MEASURES = ("rank", "loss")
SUBJECTS = {"rank": "−ln RBP₁", "loss": "loss", "lambada": "−ln accuracy (LAMBADA)"}


def snapshots() -> pd.DataFrame:
    """Pythia's accuracy on LAMBADA without examples, at each step that was kept, of models trained in its own
    precision.

    Columns family ("Pythia", "Pythia deduped"), model, size, step, training_tokens, accuracy, by these.
    """
    table = outside.lambada()
    own = table[table["family"].isin([STANDARD, "Pythia deduped"]) & (table["shots"] == 0)]
    size = own["model"].map(published.models().set_index("name")["non_embedding_params"])
    own = own.assign(size=size.astype("int64"), step=own["step"].astype("int64"))
    own["training_tokens"] = own["step"] * TOKENS_PER_STEP
    columns = ["family", "model", "size", "step", "training_tokens", "accuracy"]
    return own[columns].sort_values(["family", "step", "size"], ignore_index=True)


def by_snapshot(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S of −ln accuracy at each step: `fit_shares`, with all models and `without` the smallest.

    Columns family, step, training_tokens, the fields of `ShareLaw`, without. Steps at which no model has a success are
    left out.
    """
    rows = []
    for (family, step), own in table.groupby(["family", "step"]):
        try:
            law = fit_shares(own["size"], own["accuracy"], ITEMS, level=level)
        except FitError:
            continue
        larger = own[own["size"] > own["size"].min()]
        without = fit_shares(larger["size"], larger["accuracy"], ITEMS, level=level).alpha
        row = {"family": family, "step": step, "training_tokens": own["training_tokens"].iloc[0]}
        rows.append(row | vars(law) | {"without": without})
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


def at_middle(table: pd.DataFrame) -> tuple[float, float]:
    """The geometric means of S and D: where local exponents are named."""
    size, tokens = (float(np.exp(np.log(table[name].to_numpy(float)).mean())) for name in COLUMNS[:2])
    return size, tokens


def estimates(
    table: pd.DataFrame, measures: Sequence[str], trials: int | None, at: tuple[float, float]
) -> dict[str, float]:
    """The additive form's numbers of each measure, and the differences of the first two, of the same runs.

    By "measure.quantity": alpha, beta, offset; at_d and at_ratio, the local exponents in S at `at`, at fixed D and at
    constant tokens per parameter; "difference.alpha" and "difference.beta".
    """
    found: dict[str, float] = {}
    for measure in measures:
        law = fit_surface(table.assign(value=table[measure]), trials=trials)
        own = {"alpha": law.alpha, "beta": law.beta, "offset": law.offset}
        own |= {name: float(law.exponent(*at, along)) for name, along in (("at_d", 0.0), ("at_ratio", 1.0))}
        found |= {f"{measure}.{name}": value for name, value in own.items()}
    if len(measures) > 1:
        first, second = measures[:2]
        for name in ("alpha", "beta"):
            found[f"difference.{name}"] = found[f"{first}.{name}"] - found[f"{second}.{name}"]
    return found


def with_intervals(
    table: pd.DataFrame, unit: str, measures: Sequence[str], trials: int | None = None, *, level: float = 0.95
) -> pd.DataFrame:
    """`estimates` at the middle of the table, with intervals by leaving out each of `unit`: see `leave_one_out`."""
    own = partial(estimates, measures=measures, trials=trials, at=at_middle(table))
    return leave_one_out(table, unit, own, level=level)


def forms(tables: Mapping[str, tuple[pd.DataFrame, str, Sequence[str], int | None]]) -> pd.DataFrame:
    """Every form on each of `tables`: name → (table, unit, measures, trials).

    Columns name, measure, unit, form, n, units, explained (of the rows fitted), elsewhere (of units left out in turn:
    see `explained_elsewhere`), dispersion.
    """
    rows = []
    for name, (table, unit, measures, trials) in tables.items():
        for measure in measures:
            own = table.assign(value=table[measure])
            for form in FORMS:
                law = fit_surface(own, form, trials=trials)
                row = {"name": name, "measure": measure, "unit": unit, "form": form, "n": law.n}
                row |= {"units": own[unit].nunique(), "explained": law.explained, "dispersion": law.dispersion}
                rows.append(row | {"elsewhere": explained_elsewhere(own, unit, form, trials=trials)})
    return pd.DataFrame(rows)


def at_ratios(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """OpenLM's exponent in S where D is a constant number of tokens per parameter, by no law of D: a line for each
    number.

    Columns ratio (tokens per parameter), training_tokens (geometric mean), and the columns of `leave_one_out`, whose
    units are the sizes. Ratios of fewer than four sizes are left out: without one of them there would be no line.
    """

    def estimate(own: pd.DataFrame) -> dict[str, float]:
        return {"alpha": fit_shares(own["size"], own["lambada"], ITEMS, level=level).alpha}

    parts = []
    for multiplier, own in table.groupby("chinchilla_multiplier"):
        if own["size"].nunique() > 3:
            fit = leave_one_out(own, "size", estimate, level=level)
            parts.append(fit.assign(ratio=20 * float(str(multiplier)), training_tokens=at_middle(own)[1]))
    return pd.concat(parts, ignore_index=True)


def local_exponents(
    table: pd.DataFrame, measure: str, sizes: Sequence[float], trials: int | None = None
) -> pd.DataFrame:
    """The additive form's local exponents over D, from the fewest tokens of `table` to the most.

    Columns measure, size, training_tokens, at_d (D fixed), at_ratio (D in proportion to S), limit (D without end).
    """
    law = fit_surface(table.assign(value=table[measure]), trials=trials)
    tokens = np.geomspace(table["training_tokens"].min(), table["training_tokens"].max(), 60)
    parts = []
    for size in sizes:
        own = {"at_d": law.exponent(size, tokens), "at_ratio": law.exponent(size, tokens, 1.0)}
        limit = float(law.exponent(size, np.inf))
        parts.append(pd.DataFrame({"measure": measure, "size": size, "training_tokens": tokens, **own, "limit": limit}))
    return pd.concat(parts, ignore_index=True)


def forms_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The rows of `forms`, for `Page.table`."""
    rows = table.assign(measure=table["measure"].map(SUBJECTS))
    return shown(
        rows,
        {
            "name": "runs",
            "measure": "y",
            "form": "form",
            "n": "n",
            "explained": ("explained", "{:.3f}"),
            "elsewhere": ("explained, left out", "{:.3f}"),
        },
        caption="<b>Forms of one law of S and D</b>: the sum is called additive. Explained: the share of the deviance, "
        "of the rows fitted and of units left out.",
    )


def estimates_shown(found: Mapping[str, pd.DataFrame], level: float) -> dict[str, Any]:
    """The intervals of `with_intervals`, by the name of the runs, for `Page.table`."""
    named = {
        "alpha": "a",
        "beta": "b",
        "offset": "E",
        "at_d": "exponent in S at fixed D",
        "at_ratio": "exponent in S at constant D/S",
    }
    rows = pd.concat(found, names=["runs"]).reset_index("runs")
    parts = rows["quantity"].str.split(".", n=1, expand=True)
    of = parts[0].map(SUBJECTS | {"difference": f"{SUBJECTS['rank']} less {SUBJECTS['loss']}"})
    return shown(
        rows.assign(of=of, what=parts[1].map(named)),
        {
            "runs": "runs",
            "of": "of",
            "what": "what",
            "estimate": ("estimate", "{:.3f}"),
            ("low", "high"): (f"{level:.0%} interval", INTERVAL),
            "units": "units",
        },
        caption="<b>The sum, with intervals by whole units</b>, left out in turn: sweeps of the xLSTM runs, sizes of "
        "OpenLM’s.",
    )
