"""Test whether −ln RBP_k is a function of cross-entropy: models made worse in many ways, our own and SmolLM2.

The rules were written, and committed with predictions, before the runs: data/predictions/paths.toml for our small
models, real.toml and real_damaged.toml for SmolLM2-135M-Instruct, of which this module also says where it misses when
it is damaged. Its results are in data/real, as `python -m companion.evidence.real` leaves them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import t as student_t

from companion.chapters.families import OURS
from companion.chapters.real import EARLY, tokens_of
from companion.damage.compare import (
    EARLIER,
    SMALLER,
    THRESHOLDS,
    Curve,
    Worse,
    at_level,
    make_curve,
    offset_table,
    offsets,
    open_paths,
    spread,
    spread_table,
)
from companion.execute.page import keyed
from companion.project import DATA, LADDER
from companion.stats.cells import holm
from ladder.shipped import counted, models
from rbp import provenance
from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.figures.curves import curves
from rbp.figures.style import INK, Panels, Style, family_style, legend_below, log_axis
from rbp.figures.wording import dataset_label, dataset_order, family_label
from rbp.io import home_expanded
from rbp.laws.resampling import degrees_of_freedom, document_sums, interval, variance, without_each

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
        """The offsets at equal cross-entropy (`compare.offsets`), less training among them."""
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


def open_cells(name: str = SHIPPED) -> list[Cell]:
    """List the models that were made worse: the ladder's, or those in a folder of `rbp paths run`.

    A model without smaller ones is left out, since nothing says where to compare. Raises DataError where none is left.
    """
    folder = LADDER / "paths" if name == SHIPPED else home_expanded(name)
    cells_ = []
    for manifest in sorted(folder.glob("*/manifest.json")):
        worse = open_paths(manifest.parent)
        smaller = worse.smaller()
        if smaller:
            family = worse.model.partition("-")[0] if name == SHIPPED else worse.model
            cells_.append(Cell(worse, family, smaller[(len(smaller) - 1) // 2]))
    if not cells_:
        remedy = "Measure one, and smaller models: rbp paths run --smaller …"
        raise DataError("no model was degraded along paths", name, remedy)
    order = dataset_order(cell.worse.dataset for cell in cells_)
    return sorted(cells_, key=lambda cell: (cell.family == "lstm", cell.family, order.index(cell.worse.dataset)))


def _by_sums(worse: Worse) -> list[Curve]:
    shipped = models()
    of_model = shipped[shipped["model"] == worse.model]
    if of_model.empty:
        return []
    model = of_model.iloc[0]
    alike = shipped[(shipped["family"] == model["family"]) & (shipped["seed"] == 0)]
    smaller = alike[(alike["budget"] == model["budget"]) & (alike["size"] <= model["size"])].sort_values("size")
    earlier = alike[(alike["size"] == model["size"]) & (alike["budget"] <= model["budget"])].sort_values("budget")
    (counts,) = counted(worse.thresholds, families=[model["family"]], datasets=[worse.dataset])
    curves_ = []
    for path, rows in ((SMALLER, smaller), (EARLIER, earlier)):
        names = rows["model"].tolist()[::-1]
        kept, places = counts.keep([counts.names.index(name) for name in names]), worse.documents
        curves_.append(make_curve(path, names, kept.tokens[places], kept.hits[places], kept.nll[places]))
    return curves_


def compare_at_equal_entropy(cells_: Sequence[Cell], *, level: float = 0.95) -> pd.DataFrame:
    """Compare every path with fewer parameters: a row for each family, dataset, path and k.

    Columns family, dataset, rung, nats, path, k, offset, low, high, draws, apart (`compare.offset_table`; per cent
    of −ln RBP_k).
    """
    parts = []
    for cell in cells_:
        labels: dict[str, Any] = {"family": cell.family, "dataset": cell.worse.dataset}
        labels |= {"rung": cell.rung, "nats": cell.nats}
        table = offset_table(cell.equal, cell.worse.thresholds, cell.worse.df, level=level).assign(**labels)
        parts.append(table.assign(place=table["path"].map(list(LABELS).index)).sort_values(["place", "k"]))
    joined = pd.concat(parts, ignore_index=True)
    return joined[[*CELL, "rung", "nats", "path", "k", "offset", "low", "high", "draws", "apart"]]


def measure_spreads(cells_: Sequence[Cell], *, level: float = 0.95) -> pd.DataFrame:
    """Measure how far the paths lie apart at each k: a row for each family, dataset and k.

    Columns family, dataset, k, paths (how many reach the level), spread, low, high (their standard deviation, per cent
    of −ln RBP_k), tempered (after the best temperature), least (it is not shown to be larger than at the least k),
    is_least.
    """
    parts = []
    for cell in cells_:
        table = spread_table(cell.spread(), cell.worse.thresholds, cell.worse.df, level=level)
        table["tempered"] = 100 * np.expm1(cell.spread(tempered=True)[0])
        paths = len([path for path in cell.equal if path != EARLIER])
        parts.append(table.assign(family=cell.family, dataset=cell.worse.dataset, paths=paths))
    joined = pd.concat(parts, ignore_index=True)
    return joined[[*CELL, "k", "paths", "spread", "low", "high", "tempered", "least", "is_least"]]


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
        place = cell.worse.thresholds.index(k)
        for path, draws in cell.equal.items():
            offset = draws.mean(axis=0)[:, place]
            if path in (SMALLER, EARLIER) or not np.isfinite(offset).all():
                continue
            squared, df = float(variance(offset)), cell.worse.df
            with_training = squared + moved**2
            both = with_training**2 / (squared**2 / df + moved**4 / models)
            p, p_training = (
                2 * student_t.sf(abs(offset[0]) / np.sqrt(v), d) for v, d in ((squared, df), (with_training, both))
            )
            rows.append((cell.family, cell.worse.dataset, path, offset[0], p, p_training))
    table = pd.DataFrame(rows, columns=[*CELL, "path", "offset", "p", "p_training"])
    table["p_holm"] = holm(table["p_training"])
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
    """Summarise `compare_at_equal_entropy` and `measure_spreads`, without less training, which is no damage."""
    others = equal[~equal["path"].isin([SMALLER, EARLIER])]
    offset = others.dropna(subset="offset").groupby("k")["offset"]
    lowest, highest = offset.min(), offset.max()
    least = spread_at.loc[spread_at["is_least"], [*CELL, "k"]]
    at_least = others.merge(least, on=[*CELL, "k"])
    return {
        "paths.1.lowest": lowest.get(1, np.nan),
        "paths.1.highest": highest.get(1, np.nan),
        "paths.1000.highest": highest.get(1000, np.nan),
        "paths.least.lowest": int(least["k"].min()),
        "paths.least.highest": int(least["k"].max()),
        "paths.least.compared": len(at_least),
        "paths.least.apart": int(at_least["apart"].sum()),
        "paths.least.widest": at_least["offset"].abs().max(),
    }


# ── A real model

DAMAGED = DATA / "real" / "damaged.parquet"


@cache
def read_damaged() -> pd.DataFrame:
    """Read every token that a damaged model ranked: columns way, text, document, position, rank, rare."""
    provenance.note(DAMAGED)
    return pd.read_parquet(DAMAGED)


def damaged_misses(k: int = 1_000, *, level: float = 0.95) -> pd.DataFrame:
    """Compare where damaged models miss with where the whole model does, by way and text.

    Shares of the misses without a start token, of all tokens but a document's first: early and rare, each with _low and
    _high, _whole (the whole model's) and _p (of no difference, paired by documents, Holm over ways, texts and shares).
    """
    rows = []
    for (way, text), tokens in read_damaged().groupby(["way", "text"], sort=False, observed=True):
        undamaged = tokens_of("A", str(text))
        both = undamaged.merge(tokens, on=["document", "position"], suffixes=("_whole", ""), validate="one_to_one")
        kinds = {"early": both["position"] <= EARLY, "rare": both["rare"]}
        misses = [both["rank_whole"] > k, both["rank"] > k]
        columns = [column for miss in misses for column in (miss, *(miss & kind for kind in kinds.values()))]
        by_document = document_sums(np.column_stack([*columns, np.ones(len(both))]), both["document"])
        sums, df = without_each(by_document), degrees_of_freedom(by_document[:, -1])
        row = {"way": way, "dataset": text, "tokens": len(both), "missed_whole": sums[0, 0], "missed": sums[0, 3]}
        for i, name in enumerate(kinds, start=1):
            before, after = sums[:, i] / sums[:, 0], sums[:, 3 + i] / sums[:, 3]
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), interval(after, df, level=level), strict=True))
            z = abs(after[0] - before[0]) / np.sqrt(variance(after - before))
            row |= {f"{name}_whole": before[0], f"{name}_p": 2 * student_t.sf(z, df)}
        rows.append(row)
    table, tested = pd.DataFrame(rows), ["early_p", "rare_p"]
    return table.assign(**dict(zip(tested, holm(table[tested].to_numpy().T.ravel()).reshape(2, -1), strict=True)))


# ── Are its ranks alike at one cross-entropy?

PATHS = DATA / "real" / "paths"
WORSE_ON = ("wikipedia", "auslegal")
DAMAGES = ("layers", "branches", "weights", "logits")  # of the model; the other ways are of what it reads
WAYS = {
    "layers": "layers to 3 bits",
    "branches": "weaker branches",
    "weights": "noise on weights",
    "logits": "noise on logits",
    "restart": "less context",
    "replaced": "context replaced",
}
RISES = (0.3, 0.8)  # nats above the whole model's cross-entropy
PAIRED_AT = (1, 10, 100)
BEYOND = 0.1  # of the level's rise: how far past its last step a way is followed


def damaged_curves(text: str) -> list[Curve]:
    """List the curves of the ways of making the model worse on a text, one for each draw."""
    return open_paths(PATHS / text).curves


def interpolate_at_rise(curves: Sequence[Curve], rise: float) -> dict[str, Reals]:
    """Compute ln(−ln RBP_k) of each way where cross-entropy is `rise` nats above the whole model's (`at_level`).

    Ways that do not reach it are left out; past its last step a way is followed by no more than BEYOND of the rise.
    """
    level = np.log(np.exp(curves[0].x[:, 0]) + rise)
    by_way = {way: [curve for curve in curves if curve.path == way] for way in WAYS}
    reached = {way: at_level(draws, level, beyond=BEYOND * rise) for way, draws in by_way.items() if draws}
    return {way: y for way, y in reached.items() if y is not None}


def real_spreads(curves: Sequence[Curve], *, level: float = 0.95) -> pd.DataFrame:
    """Compute the spread of ways at a cross-entropy: rise, of ("models", "all"), ways, corrected, and `spread_table`.

    corrected: without what sampling alone makes, the mean variance of the ways about their mean; per cent of −ln RBP_k.
    """
    parts = []
    for rise in RISES:
        reached = interpolate_at_rise(curves, rise)
        for of, ways in (("models", DAMAGES), ("all", tuple(WAYS))):
            compared = {way: draws for way, draws in reached.items() if way in ways}
            if len(compared) < 2:
                continue
            values, means = spread(compared), np.stack([draws.mean(axis=0) for draws in compared.values()])
            sampled = np.mean([variance(draws) for draws in means - means.mean(axis=0)], axis=0)
            corrected = 100 * np.expm1(np.sqrt(np.clip(values[0] ** 2 - sampled, 0, None)))
            table = spread_table(values, THRESHOLDS, curves[0].df, level=level)
            parts.append(table.assign(rise=rise, of=of, ways=len(compared), corrected=corrected))
    names = ["rise", "of", "k", "ways", "spread", "low", "high", "corrected", "least", "is_least"]
    return pd.concat(parts, ignore_index=True)[names] if parts else pd.DataFrame(columns=names)


def paired_differences(curves: Sequence[Curve], *, level: float = 0.95) -> pd.DataFrame:
    """Compare any two damages of the model at one cross-entropy: rise, k, first, second, difference, low, high, p_holm.

    difference: of ln(−ln RBP_k), by documents; Holm over pairs, levels and PAIRED_AT.
    """
    rows, df = [], curves[0].df
    for rise in RISES:
        means = {way: draws.mean(axis=0) for way, draws in interpolate_at_rise(curves, rise).items() if way in DAMAGES}
        for first, second in combinations(means, 2):
            for k in PAIRED_AT:
                away = (means[second] - means[first])[:, THRESHOLDS.index(k)]
                p = 2 * student_t.sf(abs(away[0]) / np.sqrt(variance(away)), df)
                rows.append((rise, k, first, second, *interval(away, df, level=level), p))
    table = pd.DataFrame(rows, columns=["rise", "k", "first", "second", "difference", "low", "high", "p"])
    return table.assign(p_holm=holm(table["p"]) if len(table) else [])


def on_each_text(compute: Callable[..., pd.DataFrame], *, level: float) -> pd.DataFrame:
    """Compute a table of curves, `real_spreads` or `paired_differences`, for each text: column dataset."""
    return pd.concat(
        [compute(damaged_curves(text), level=level).assign(dataset=text) for text in WORSE_ON], ignore_index=True
    )


def damaged_summary(table: pd.DataFrame) -> dict[str, Any]:
    """Count the ways and texts of `damaged_misses`, and those whose share of early misses moves significantly."""
    return {"damaged.tests": len(table), "damaged.early.moved": int((table["early_p"] < 0.05).sum())}


#: the spreads that the page gives
QUOTED = pd.DataFrame(
    [("models", 0.3, 1), ("models", 0.8, 100), ("all", 0.8, 1), ("all", 0.8, 100)], columns=["of", "rise", "k"]
)


def real_summary(table: pd.DataFrame, compared: pd.DataFrame) -> dict[str, Any]:
    """Summarise `real_spreads` and `paired_differences` of each text.

    Keys begin with real on Wikipedia, with judgments on these.
    """
    start = {"wikipedia": "real", "auslegal": "judgments"}
    first = compared[compared["k"] == 1].assign(start=lambda rows: rows["dataset"].map(start))
    counts = (first["p_holm"] < 0.05).groupby(first["start"]).agg(["size", "sum"]).reset_index()
    values = keyed("{start}.pairs.k1", counts, "size") | keyed("{start}.pairs_apart.k1", counts, "sum")
    quoted = table.merge(QUOTED).assign(start=lambda rows: rows["dataset"].map(start))
    values |= keyed("{start}.spread.{of}.{rise:g}.k{k}", quoted, "spread")
    models = quoted[(quoted["start"] == "real") & (quoted["of"] == "models")]
    values |= keyed("real.low.models.{rise:g}.k{k}", models, "low")
    values |= keyed("real.high.models.{rise:g}.k{k}", models, "high")
    values |= keyed("real.corrected.models.0.3.k1", models[models["k"] == 1], "corrected")
    least = table[(table["dataset"] == "wikipedia") & (table["of"] == "all") & table["is_least"].astype(bool)]
    return values | keyed("real.least.all.{rise:g}", least, "k")


def real_figure(*, level: float) -> dict[str, Any]:
    """Plot each way against the mean of the damages of the model, over k, for each text at the higher level.

    The data have both levels.
    """
    rows = []
    for text, rise in product(WORSE_ON, RISES):
        ways = damaged_curves(text)
        means = {way: draws.mean(axis=0) for way, draws in interpolate_at_rise(ways, rise).items()}
        middle = np.mean([mean for way, mean in means.items() if way in DAMAGES], axis=0)
        panel = f"{dataset_label(text)}, CE + {rise} nats"
        for way, mean in means.items():
            intervals = 100 * np.expm1(np.array(interval(mean - middle, ways[0].df, level=level)))
            rows += [(panel, WAYS[way], k, *values) for k, values in zip(THRESHOLDS, intervals.T, strict=True)]
    table = pd.DataFrame(rows, columns=["cell", "line", "k", "offset", "low", "high"])
    looks = {
        label: ("#9457C0" if way in DAMAGES else "#5C8A2E", marker)
        for (way, label), marker in zip(WAYS.items(), "os^DvP", strict=True)
    }
    return {
        "figure": curves(
            table[table["cell"].str.endswith(f"{max(RISES)} nats")], "k", "offset",
            labels=("k", "difference in −ln RBPₖ (%)"), panel="cell", styles=looks, name_ends=True, band=True,
            heights=[0], size=(4.6, 3.1),
        ),
        "alt": "Lines over k that lie near zero for damaged models, and apart for damaged input at large k",
        "data": table,
    }  # fmt: skip


# ── Figures

_VIEW = (-13.0, 26.0)  # per cent: what lies beyond is at k of hundreds, and in the CSV
_SHORT = {"neox": "our transformer", "lstm": "our LSTM"}


def fingerprint_figure(equal: pd.DataFrame) -> dict[str, Any]:
    """Plot the offsets against k, a panel for each path and a line for each model and dataset."""
    rows = equal[equal["path"] != SMALLER].dropna(subset="offset")
    shorter = {family: _SHORT.get(family, family_label(family)) for family in rows["family"].unique()}
    rows = rows.assign(line=rows["family"].map(shorter) + ", " + rows["dataset"].map(dataset_label))
    rows["title"] = rows["path"].map(LABELS)
    looks = {}
    for family, dataset, line in rows[[*CELL, "line"]].drop_duplicates().to_numpy():
        colour, _ = family_style(family, list(shorter))
        looks[line] = Style(colour, "", "-" if dataset == "wikipedia" else "--", 1.8)

    def draw(ax: Axes, title: str) -> None:
        for line, points in rows[rows["title"] == title].groupby("line", sort=False):
            style = looks[line]
            ax.fill_between(points["k"], points["low"], points["high"], color=style.colour, alpha=0.17, lw=0, zorder=2)
            ax.plot(points["k"], points["offset"], ls=style.dash, lw=style.width, color=style.colour, zorder=3)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_ylim(*_VIEW)
        log_axis(ax, "x")
        ax.set_xlabel("k")
        ax.set_ylabel("difference (%)")
        ax.set_title(title)
        legend_below(ax, looks)

    titles = [label for path, label in LABELS.items() if path in set(rows["path"])]
    return {
        "figure": Panels(titles, draw, size=(3.0, 1.75), columns=3),
        "alt": "Lines that differ from zero at k = 1, cross near k = 10, and differ more at k = 1000",
        "data": equal,
    }


def name_owner(equal: pd.DataFrame) -> str:
    """Say whose the models of `compare_at_equal_entropy` are, for a caption: "" where they are not all ours."""
    families = equal.loc[equal["path"] != SMALLER].dropna(subset="offset")["family"]
    return f"of two of {OURS} " if set(families) == set(_SHORT) else ""


FRONT = {"replaced": ("#9457C0", "D"), "context": ("#C2447A", "o"), "depth": ("#5C8A2E", "s")}
"""The paths that the front page shows, where they are there, in colour and marker: their curves are the most unlike."""


def _front_cell(reached: pd.DataFrame) -> "pd.Series[Any]":
    """Choose a model and dataset: judgments, if they are there."""
    cell: pd.Series[Any] = reached[CELL].iloc[int((reached["dataset"] != "auslegal").to_numpy().argmin())]
    return cell


def name_front_owner(equal: pd.DataFrame) -> str:
    """Say whose the model of `front_figure` is, for a caption."""
    return f"One of {OURS}" if _front_cell(equal.dropna(subset="offset"))["family"] in _SHORT else "A model"


def front_figure(equal: pd.DataFrame) -> dict[str, Any]:
    """Plot a few paths of one model on one dataset: judgments, if they are there."""
    reached = equal.dropna(subset="offset")
    cell = _front_cell(reached)
    rows = reached[(reached[CELL] == cell).all(axis=1) & (reached["path"] != SMALLER)]
    rows = rows.assign(line=rows["path"].map(LABELS))
    chosen = [path for path in FRONT if path in set(rows["path"])] or rows["path"].unique()[: len(FRONT)].tolist()
    rows = rows[rows["path"].isin(chosen)]
    looks = zip(chosen, FRONT.values(), strict=False)
    return {
        "figure": curves(
            rows, "k", "offset", labels=("k", "−ln RBPₖ, difference (%)"), panel=None,
            styles={LABELS[path]: FRONT.get(path, spare) for path, spare in looks}, band=True, heights=[0], ylim=_VIEW,
            name_ends=True, size=(4.6, 3.7),
        ),
        "alt": "Three curves over k: with context replaced the ranks are better at k = 1 and far worse at large k; "
        "with fewer layers it is the other way round",
        "data": rows,
    }  # fmt: skip
