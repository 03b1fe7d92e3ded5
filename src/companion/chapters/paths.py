"""Test whether −ln RBP_k is a function of cross-entropy: one model made worse in many ways, on one text.

The rule was written, and committed with predictions, before the run (data/predictions/paths.toml).
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import t as student_t
from statsmodels.stats.multitest import multipletests

from companion.chapters.families import OURS
from companion.damage import equal_loss
from companion.damage.equal_loss import Curve, as_least, offset_table, offsets, spread, spread_interval
from companion.damage.paths import Worse, open_paths
from companion.damage.sums import EARLIER, SMALLER
from companion.project import DATA, LADDER
from ladder.shipped import counted, models
from rbp import provenance
from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.figures.curves import curves
from rbp.figures.style import INK, Panels, Style, family_style, legend_below, log_axis
from rbp.figures.wording import dataset_label, dataset_order, family_label
from rbp.io import home_expanded
from rbp.laws.resampling import variance

PREDICTIONS = DATA / "predictions" / "paths.toml"
SHIPPED = "data/ladder/paths"
CELL = ["family", "dataset"]
#: what the pages call the paths
LABELS = {
    "context": "less context",
    "depth": "fewer layers",
    "bits": "fewer bits",
    "replaced": "context replaced",
    "weights": "noise on weights",
    "logits": "noise on logits",
    EARLIER: "less training",
    SMALLER: "fewer parameters",
}


@dataclass(frozen=True)
class Cell:
    """One model on one text, and its paths at the level of its middle smaller model.

    family: of the ladder, or the model's own name; rung: the smaller model at whose cross-entropy all are compared.
    """

    worse: Worse
    family: str
    rung: str

    @cached_property
    def training(self) -> list[Curve]:
        """Less training and fewer parameters, by the ladder's sums over all tokens of the same documents; or []."""
        return _by_sums(self.worse)

    @cached_property
    def equal(self) -> dict[str, Reals]:
        """The offsets at equal cross-entropy (`equal_loss.offsets`), less training among them."""
        by_path = offsets(self.worse.curves, SMALLER, self.rung)
        if self.training and EARLIER not in by_path:
            by_sums = offsets(self.training, SMALLER, self.rung)
            by_path |= {EARLIER: by_sums[EARLIER]} if EARLIER in by_sums else {}
        return by_path

    @cached_property
    def tempered(self) -> dict[str, Reals]:
        """The offsets at equal cross-entropy after the best temperature."""
        return offsets(self.worse.curves, SMALLER, self.rung, tempered=True)

    def spread(self, *, tempered: bool = False) -> Reals:
        """Compute how far the paths lie apart, without less training, which has no temperatures."""
        return spread(self.tempered if tempered else self.equal, [EARLIER])

    @property
    def nats(self) -> float:
        """The cross-entropy of the level."""
        return float(np.exp(self._reference.x[0, self._reference.names.index(self.rung)]))

    @property
    def _reference(self) -> Curve:
        return next(curve for curve in self.worse.curves if curve.path == SMALLER)


def cells(name: str = SHIPPED) -> list[Cell]:
    """List the models that were made worse: the ladder's, or those in a folder of `rbp paths run`.

    A model without smaller ones is left out, since nothing says where to compare. Raises DataError where none is left.
    """
    folder = LADDER / "paths" if name == SHIPPED else home_expanded(name)
    cells_ = []
    for each in sorted(folder.glob("*/manifest.json")):
        worse = open_paths(each.parent)
        smaller = worse.smaller()
        if smaller:
            family = worse.model.partition("-")[0] if name == SHIPPED else worse.model
            cells_.append(Cell(worse, family, smaller[(len(smaller) - 1) // 2]))
    if not cells_:
        remedy = "Measure one with smaller models beside it: rbp paths run --smaller …"
        raise DataError("there is no model that was made worse along paths", name, remedy)
    order = dataset_order(each.worse.dataset for each in cells_)
    return sorted(cells_, key=lambda each: (each.family == "lstm", each.family, order.index(each.worse.dataset)))


def _by_sums(worse: Worse) -> list[Curve]:
    about = models()
    of_model = about[about["model"] == worse.model]
    if of_model.empty:
        return []
    model = of_model.iloc[0]
    alike = about[(about["family"] == model["family"]) & (about["seed"] == 0)]
    smaller = alike[(alike["budget"] == model["budget"]) & (alike["size"] <= model["size"])].sort_values("size")
    earlier = alike[(alike["size"] == model["size"]) & (alike["budget"] <= model["budget"])].sort_values("budget")
    (counts,) = counted(worse.thresholds, families=[model["family"]], datasets=[worse.dataset])
    curves_ = []
    for path, rows in ((SMALLER, smaller), (EARLIER, earlier)):
        names = rows["model"].tolist()[::-1]
        selected, at = counts.keep([counts.names.index(each) for each in names]), worse.documents
        curves_.append(equal_loss.curve(path, 0, names, selected.tokens[at], selected.hits[at], selected.nll[at]))
    return curves_


def at_equal(cells_: Sequence[Cell], *, level: float = 0.95) -> pd.DataFrame:
    """Compare every path with fewer parameters: a row for each family, dataset, path and k.

    Columns family, dataset, rung, nats, path, k, offset, low, high, draws, apart (`equal_loss.offset_table`; per cent
    of −ln RBP_k).
    """
    parts = []
    for each in cells_:
        about: dict[str, Any] = {"family": each.family, "dataset": each.worse.dataset}
        about |= {"rung": each.rung, "nats": each.nats}
        table = offset_table(each.equal, each.worse.thresholds, each.worse.df, level=level).assign(**about)
        parts.append(table.assign(place=table["path"].map(list(LABELS).index)).sort_values(["place", "k"]))
    whole = pd.concat(parts, ignore_index=True)
    return whole[[*CELL, "rung", "nats", "path", "k", "offset", "low", "high", "draws", "apart"]]


def spreads(cells_: Sequence[Cell], *, level: float = 0.95) -> pd.DataFrame:
    """Measure how far the paths lie apart at each k: a row for each family, dataset and k.

    Columns family, dataset, k, paths (how many reach the level), spread, low, high (their standard deviation, per cent
    of −ln RBP_k), tempered (after the best temperature), least (it is not shown to be larger than at the least k),
    is_least.
    """
    parts = []
    for each in cells_:
        values, df = each.spread(), each.worse.df
        least, same = as_least(values, df, level=level)
        estimate, low, high = spread_interval(values, df, level=level)
        table = pd.DataFrame({"k": each.worse.thresholds, "spread": estimate, "low": low, "high": high, "least": same})
        table["tempered"] = 100 * np.expm1(each.spread(tempered=True)[0])
        table["is_least"] = np.arange(len(table)) == least
        paths = len([path for path in each.equal if path != EARLIER])
        parts.append(table.assign(family=each.family, dataset=each.worse.dataset, paths=paths))
    whole = pd.concat(parts, ignore_index=True)
    return whole[[*CELL, "k", "paths", "spread", "low", "high", "tempered", "least", "is_least"]]


def all_steps(cells_: Sequence[Cell]) -> pd.DataFrame:
    """List every step of every path (`Worse.steps`), with family and dataset."""
    parts = [each.worse.steps.assign(family=each.family, dataset=each.worse.dataset) for each in cells_]
    whole = pd.concat(parts, ignore_index=True)
    return whole[[*CELL, *whole.columns.drop(CELL)]]


#: the paths that damage what a model reads, not the model
INPUT = ("context", "replaced")


def path_tests(cells_: Sequence[Cell], moved: float, models: int, k: int = 1) -> pd.DataFrame:
    """Test whether −ln RBP_k differs from its value for fewer parameters at equal cross-entropy, path by path.

    The smaller model is one training of many: moved, what training a model again does to ln(−ln RBP_k) (standard
    deviation, by so many models; 0 where none was trained again). A model that was trained less is none made worse, and
    is left out.

    Columns CELL, path, offset (of the logarithm), p (documents alone), p_training (and the training; Satterthwaite's
    degrees of freedom; NaN where none was trained again), p_holm (of that, else of p, after Holm's correction).
    """
    rows = []
    for cell in cells_:
        at = cell.worse.thresholds.index(k)
        for path, draws in cell.equal.items():
            offset = draws.mean(axis=0)[:, at]
            if path in (SMALLER, EARLIER) or not np.isfinite(offset).all():
                continue
            squared, df = float(variance(offset)), cell.worse.df
            whole = squared + moved**2
            both = whole**2 / (squared**2 / df + moved**4 / models)
            p, p_training = (
                2 * student_t.sf(abs(offset[0]) / np.sqrt(v), d) for v, d in ((squared, df), (whole, both))
            )
            rows.append((cell.family, cell.worse.dataset, path, offset[0], p, p_training))
    table = pd.DataFrame(rows, columns=[*CELL, "path", "offset", "p", "p_training"])
    table["p_holm"] = multipletests(table["p_training"], method="holm")[1]
    return table if moved else table.assign(p_training=np.nan)


def path_tests_summary(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Count the paths that differ by `path_tests`.

    apart: by documents alone; apart_seeds: with the training; apart_holm: after Holm's correction; apart_input: how
    many of these damage the input.
    """
    apart = table[table["p_holm"] < 1 - level]
    counts = {"path_tests": len(table), "path_tests.apart": int((table["p"] < 1 - level).sum())}
    if table["p_training"].notna().any():
        counts |= {"path_tests.apart_seeds": int((table["p_training"] < 1 - level).sum())}
    apart_input = int(apart["path"].isin(INPUT).sum())
    return counts | {"path_tests.apart_holm": len(apart), "path_tests.apart_input": apart_input}


def paths_summary(equal: pd.DataFrame, spread_at: pd.DataFrame) -> dict[str, Any]:
    """Summarise `at_equal` and `spreads`. Less training is left out: such a model was not made worse."""
    others = equal[~equal["path"].isin([SMALLER, EARLIER])]
    values: dict[str, Any] = {}
    for k, rows in others[others["k"].isin([1, 1000])].dropna(subset="offset").groupby("k"):
        values |= {f"paths.{k}.lowest": rows["offset"].min(), f"paths.{k}.highest": rows["offset"].max()}
    least = spread_at.loc[spread_at["is_least"], [*CELL, "k"]]
    at_least = others.merge(least, on=[*CELL, "k"])
    values |= {"paths.least.lowest": int(least["k"].min()), "paths.least.highest": int(least["k"].max())}
    values |= {"paths.least.compared": len(at_least), "paths.least.apart": int(at_least["apart"].sum())}
    return values | {"paths.least.widest": at_least["offset"].abs().max()}


# ── What was forecast

#: the kinds of prediction, as a figure names them
KINDS = {
    "offset": "offset of a path",
    "spread": "spread of paths",
    "spread_tempered": "spread after the best temperature",
    "least_k": "ln of the least k",
}


def read_predictions(
    path: Path = PREDICTIONS, about: Sequence[str] = ("what", "path", "k", *CELL)
) -> tuple[pd.DataFrame, float]:
    """Read predictions in their order, as the appendix's `scored` takes them, and their probability.

    about: the columns that say what each is of.
    """
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    provenance.note(path)
    rows = [{"kind": kind, **row} for kind, entries in content.items() if isinstance(entries, list) for row in entries]
    for row in rows:
        if row["kind"] != "event":
            row["naive_low"], row["naive_high"] = row.pop("naive")
    numbers = ["middle", "low", "high", "naive_low", "naive_high", "probability", "naive"]
    table = pd.DataFrame(rows)
    return table.reindex(columns=["kind", *about, *numbers, "reason"]).assign(sure=False), float(content["level"])


def described(table: pd.DataFrame) -> "pd.Series[str]":
    """Describe each prediction in a few words."""

    def words(row: Any) -> str:
        if row.kind == "event":
            return str(row.what)
        kind = LABELS[row.path] if row.kind == "offset" else KINDS[row.kind]
        k = "" if pd.isna(row.k) else f", k = {row.k:.0f}"
        return f"{kind}, {family_label(row.family)}{k}, {dataset_label(row.dataset)}"

    return pd.Series([words(row) for row in table.itertuples()], table.index, dtype="str")


def outcomes(table: pd.DataFrame, cells_: Sequence[Cell]) -> pd.DataFrame:
    """Add the outcome to each prediction (`outcome`; missing where a path did not reach the level)."""
    by_name = {(each.family, each.worse.dataset): each for each in cells_}
    values = [
        _event(str(row.what), cells_) if row.kind == "event" else _outcome(row, by_name) for row in table.itertuples()
    ]
    return table.assign(outcome=values)


def _outcome(row: Any, by_name: dict[tuple[str, str], Cell]) -> float:
    cell = by_name.get((row.family, row.dataset))
    if cell is None:
        return float("nan")
    ks = cell.worse.thresholds
    if row.kind == "least_k":
        return float(np.log(ks[int(np.nanargmin(cell.spread()[0]))]))
    at = ks.index(int(row.k))
    if row.kind == "offset":
        return float(cell.equal[row.path][:, 0, at].mean()) if row.path in cell.equal else float("nan")
    return float(cell.spread(tempered=row.kind == "spread_tempered")[0, at])


def _event(what: str, cells_: Sequence[Cell]) -> float:
    """Return whether an event happened in every cell, 1 or 0; missing where a cell has no such path."""

    def ordered(cell: Cell, k: int) -> list[str]:
        """List the paths at the level, the lowest −ln RBP_k first."""
        at = cell.worse.thresholds.index(k)
        means = {path: float(values[:, 0, at].mean()) for path, values in cell.equal.items() if path != EARLIER}
        return sorted(means, key=means.__getitem__)

    def differs(cell: Cell) -> bool:
        table = offset_table(cell.equal, cell.worse.thresholds, cell.worse.df)
        return bool(table.loc[(table["k"] == 1) & (table["path"] != SMALLER), "apart"].any())

    def training_is_near(cell: Cell) -> bool:
        away = {path: abs(float(values[:, 0, 0].mean())) for path, values in cell.equal.items() if path != SMALLER}
        return away.pop(EARLIER) < float(np.median([*away.values()]))

    def before(cell: Cell, k: int, *, tempered: bool = False) -> float:
        return float(cell.spread(tempered=tempered)[0, cell.worse.thresholds.index(k)])

    rules: dict[str, Callable[[Cell], bool]] = {
        "some path parts": differs,
        "on every text, in both families, replaced has the lowest": lambda cell: ordered(cell, 1)[0] == "replaced",
        "on every text, in both families, replaced or context": lambda cell: (
            ordered(cell, 1000)[-1] in ("replaced", "context")
        ),
        "training is nearer": training_is_near,
        "the spread at k = 1 after": lambda cell: before(cell, 1, tempered=True) >= 0.9 * before(cell, 1),
        "the spread at k = 1000": lambda cell: before(cell, 1000) > before(cell, 10),
    }
    rule = next(rule for start, rule in rules.items() if what.startswith(start))
    try:
        return float(all(map(rule, cells_)))
    except KeyError:
        return float("nan")


# ── Figures

_VIEW = (-13.0, 26.0)  # per cent: what lies beyond is at k of hundreds, and in the CSV
_GREY = "#75787d"
_SHORT = {"neox": "our transformer", "lstm": "our LSTM"}


def fingerprint_figure(equal: pd.DataFrame, level: float) -> dict[str, Any]:
    """Plot the offsets against k, a panel for each path; the other paths in grey, a line for each model and dataset."""
    rows = equal[equal["path"] != SMALLER].dropna(subset="offset")
    shorter = {family: _SHORT.get(family, family_label(family)) for family in rows["family"].unique()}
    rows = rows.assign(line=rows["family"].map(shorter) + ", " + rows["dataset"].map(dataset_label))
    rows["title"] = rows["path"].map(LABELS)
    looks = {}
    for family, dataset, line in rows[[*CELL, "line"]].drop_duplicates().to_numpy():
        colour, _ = family_style(family, list(shorter))
        looks[line] = Style(colour, "", "-" if dataset == "wikipedia" else "--", 1.8)

    def draw(ax: Axes, title: str) -> None:
        for (line, title_of_curve), curve in rows.groupby(["line", "title"], sort=False):
            if title_of_curve != title:
                ax.plot(curve["k"], curve["offset"], color=_GREY, lw=0.4)
                continue
            style = looks[line]
            ax.fill_between(curve["k"], curve["low"], curve["high"], color=style.colour, alpha=0.17, lw=0, zorder=2)
            ax.plot(curve["k"], curve["offset"], ls=style.dash, lw=style.width, color=style.colour, zorder=3)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_ylim(*_VIEW)
        log_axis(ax, "x")
        ax.set_xlabel("k")
        ax.set_ylabel("difference (%)")
        ax.set_title(title)
        legend_below(ax, looks)

    titles = [label for path, label in LABELS.items() if path in set(rows["path"])]
    whose = f"of two of {OURS} " if set(shorter) == set(_SHORT) else ""
    return {
        "figure": Panels(titles, draw, size=(3.0, 2.6), columns=3),
        "caption": f"<b>Each way to make a model worse, at equal CE:</b> how far −ln RBPₖ {whose}lies above that of a "
        f"smaller model (0). Grey: the other ways. Bands: {level:.0%} by documents. Lines leave the range at large k.",
        "alt": "Lines that differ from zero at k = 1, cross near k = 10, and differ more at k = 1000",
        "data": equal,
    }


FRONT = {"replaced": ("#9457C0", "D"), "context": ("#C2447A", "o"), "depth": ("#5C8A2E", "s")}
"""The paths that the front page shows, where they are there, in colour and marker: their curves are the most unlike."""


def front_figure(equal: pd.DataFrame, level: float) -> dict[str, Any]:
    """Plot a few paths of one model on one dataset: judgments, if they are there."""
    known = equal.dropna(subset="offset")
    cell = known[CELL].iloc[int((known["dataset"] != "auslegal").to_numpy().argmin())]
    rows = known[(known[CELL] == cell).all(axis=1) & (known["path"] != SMALLER)]
    rows = rows.assign(line=rows["path"].map(LABELS))
    chosen = [path for path in FRONT if path in set(rows["path"])] or rows["path"].unique()[: len(FRONT)].tolist()
    rows = rows[rows["path"].isin(chosen)]
    looks = zip(chosen, FRONT.values(), strict=False)
    model = f"One of {OURS}" if cell["family"] in _SHORT else "A model"
    return {
        "figure": curves(
            rows, "k", "offset", labels=("k", "−ln RBPₖ, difference (%)"), panel=None,
            styles={LABELS[path]: FRONT.get(path, spare) for path, spare in looks}, band=True, at=[0], ylim=_VIEW,
            ends=True, size=(4.6, 3.7),
        ),
        "caption": f"<b>One cross-entropy, several curves.</b> {model}, made worse until its cross-entropy is that "
        "of a smaller one (0): above 0 its ranks are the worse ones. Context is what it reads before a guess. "
        f"Bands: {level:.0%} intervals.",
        "alt": "Three curves over k: with context replaced the ranks are better at k = 1 and far worse at large k; "
        "with fewer layers it is the other way round",
        "data": rows,
    }  # fmt: skip
