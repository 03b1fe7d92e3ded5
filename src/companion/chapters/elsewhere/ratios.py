"""α at k over α at 1 in every ranked prediction, and what one model’s own curve in k foretells of it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import sympy
from matplotlib.axes import Axes

from companion.chapters.families import LSTM, OURS, TRANSFORMER, exponents
from companion.evidence import outside
from companion.stats.difficulty import local_exponent
from rbp.arrays import Reals, check_level
from rbp.figures.curves import curves, ramp
from rbp.figures.style import INK, Panels, legend_below
from rbp.figures.wording import dataset_label
from rbp.laws.resampling import interval, without_each
from rbp.measurements import open_source
from rbp.measurements.counts import Counts
from rbp.report.display import Columns, shown

TEXT, LADDER, TRIES, IMAGES = "Text: published models", f"Text: {OURS}", "Tries at problems", "Images"
LEAST_ALPHA = 0.02  # the ratio to an exponent nearer to 0 says nothing
FEWEST_SIZES, SPAN = 4, 3  # of a family of models of images: so many sizes, over such a factor
STRAIGHT = 0.97  # the paper's bar for R² (4.2)
EXCEPTION = "imagenet-r"  # the test set on which α grows in the smallest share of families
SNAPSHOT = "300B"  # tokens of training of the models that tried


# ── α at k over α at 1, of every source


def of_models(points: pd.DataFrame, ks: Sequence[int], *, source: str, level: float = 0.95) -> pd.DataFrame:
    """α_k/α_1 of each family on each dataset, each of its models left out in turn for the interval.

    points: −ln RBP_k of a measurement table. Columns source, dataset, family, k, n, alpha_1, r_squared (at 1), alpha,
    ratio, low, high. Families of fewer than three sizes, and those whose α_1 is LEAST_ALPHA or less, are left out.
    """
    check_level(level)
    rows = []
    for (dataset, family), own in points.groupby(["dataset", "family"]):
        wide = own.pivot_table(index=["size", "model"], columns="k", values="value")
        for k in ks:
            if not {1, k} <= set(wide):
                continue
            both = wide[[1, k]].dropna()
            both = both[(both > 0).all(axis=1)]
            sizes, y = both.index.get_level_values("size").to_numpy(np.float64), np.log(both.to_numpy(np.float64)).T
            if len(np.unique(sizes)) < 3:
                continue
            every = [np.arange(len(sizes)), *(np.delete(np.arange(len(sizes)), i) for i in range(len(sizes)))]
            alpha = np.array([exponents(sizes[some], y[:, some]) for some in every])
            about = {"source": source, "dataset": dataset, "family": family, "k": k, "n": len(sizes)}
            rows += _ratio(about, alpha, float(np.corrcoef(np.log(sizes), y[0])[0, 1] ** 2), level)
    return pd.DataFrame(rows)


def of_documents(texts: Sequence[Counts], ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """As `of_models`, of the ladder's transformers and LSTMs: the documents are left out in turn."""
    rows = []
    for text in texts:
        for family in (name for name in (TRANSFORMER, LSTM) if name in text.families):
            left = text.of(family, seed=0).left_out()
            sizes, first = left.counts.sizes, left.at(1)
            straight = float(np.corrcoef(np.log(sizes), first[0])[0, 1] ** 2)
            for k in ks:
                alpha = np.column_stack([exponents(sizes, first), exponents(sizes, left.at(k))])
                about = {"source": LADDER, "dataset": text.dataset, "family": family, "k": k, "n": len(sizes)}
                rows += _ratio(about, alpha, straight, level)
    return pd.DataFrame(rows)


def of_problems(ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """As `of_models`, of −ln pass@k of Pythia at SNAPSHOT: the problems are left out in turn."""
    tried = outside.problem_tries().sort_values(["model", "prompt"])
    tried = tried[tried["training_tokens"] == SNAPSHOT]
    about = open_source("tries").table.query("family == @trained", local_dict={"trained": f"Pythia at {SNAPSHOT}"})
    sizes = {model.rpartition("/")[2].partition("@")[0]: size for model, size in about[["model", "size"]].to_numpy()}
    own = [tried[tried["model"] == name] for name in sizes]
    passed = np.array([[outside.pass_at(k, one["samples"], one["correct"]) for one in own] for k in (1, *ks)])
    means = without_each(passed.transpose(2, 0, 1))  # (1 + problems, k, models)
    means /= np.append(passed.shape[2], np.full(passed.shape[2], passed.shape[2] - 1))[:, None, None]
    y = np.log(-np.log(means))
    size = np.array(list(sizes.values()), dtype=np.float64)
    alpha = np.stack([exponents(size, y[:, i]) for i in range(y.shape[1])], axis=1)
    straight = float(np.corrcoef(np.log(size), y[0, 0])[0, 1] ** 2)
    rows: list[dict[str, Any]] = []
    for i, k in enumerate(ks):
        named = {"source": TRIES, "dataset": "math", "family": f"Pythia at {SNAPSHOT}", "k": k, "n": len(size)}
        rows += _ratio(named, alpha[:, [0, i + 1]], straight, level)
    return pd.DataFrame(rows)


def _ratio(about: dict[str, Any], alpha: Reals, r_squared: float, level: float) -> list[dict[str, Any]]:
    """A row from α at 1 and at k, shape (1 + units left out, 2); none where α_1 is too near to 0."""
    if not alpha[0, 0] > LEAST_ALPHA:
        return []
    ratio, low, high = interval(alpha[:, 1] / alpha[:, 0], level=level)
    found = {"alpha_1": alpha[0, 0], "r_squared": r_squared, "alpha": alpha[0, 1]}
    return [about | found | {"ratio": ratio, "low": low, "high": high}]


def image_families(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of families of models of images with at least FEWEST_SIZES sizes over a factor of SPAN."""
    size = table.groupby("family")["size"]
    enough = (size.transform("nunique") >= FEWEST_SIZES) & (size.transform("max") >= SPAN * size.transform("min"))
    return table[enough]


# ── What one model's own curve in k foretells of it


def shifted_limits() -> tuple[Any, Any]:
    """The limits of g(u + s)/g(u), with g = −d ln(−ln p)/du and p = 1/(1 + e^(d − u)), by sympy.

    For large u, and, times y(u + s)/y(u) with y = −ln p, for small u: both are 1. A mixture of difficulties d leads to
    the same, as the leading terms of p are those of one difficulty: 1 − B·e^(−u), and A·e^u.
    """
    w, a, d = sympy.symbols("w a d", positive=True)  # w = e^u, a = e^s
    y = -sympy.log(w / (w + d))
    g = -w * sympy.diff(sympy.log(y), w)
    ratio = g.subs(w, a * w) / g
    return sympy.limit(ratio, w, sympy.oo), sympy.limit(ratio * y.subs(w, a * w) / y, w, 0, "+")


def as_tries(first: Any, later: Any) -> Any:
    """α_k/α_1 where 1 − RBP_k = (1 − RBP_1)^κ at one κ for all models, from one model's −ln RBP_1 and −ln RBP_k.

    With x = −ln(1 − RBP_1): −d ln(−ln RBP_k)/d ln x = κ·x·m_k/((1 − m_k)·y_k), m_k = e^(−κx) the misses.
    """
    miss_1, miss_k = -np.expm1(-first), -np.expm1(-later)
    worth = np.log(miss_k) / np.log(miss_1)
    return worth * (miss_k / np.exp(-later) / later) / (miss_1 / np.exp(-first) / first)


def own_curves(points: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """α_k/α_1 as each model's own curve in k has it: the median over a family's models, and the ends.

    points: −ln RBP_k, or −ln pass@k. Columns dataset, family, k; moved, moved_low, moved_high: the exponent in k there
    over that at 1 (`local_exponent`), which is α_k/α_1 if a larger model is the same curve moved along ln k; tried,
    tried_low, tried_high: `as_tries`. NaN where there are no neighbouring k: two k are no curve.
    """
    known = points[points["value"] > 0]
    wide = known.pivot_table(index=["dataset", "family", "model"], columns="k", values="value").astype("float64")
    parts = []
    for k in (k for k in ks if {1, k} <= set(wide)):
        both = wide[wide[1].notna() & wide[k].notna()]
        told = pd.DataFrame({"k": k, "tried": as_tries(both[1], both[k]), "moved": np.nan}, both.index)
        if len(wide.columns) > 2:
            curve = [one.dropna() for _, one in both.iterrows()]
            ends = [[local_exponent(one.index.to_numpy(), one, at) for at in (1, k)] for one in curve]
            told["moved"] = [later / first if first else np.nan for first, later in ends]
        parts.append(told)
    of_each = pd.concat(parts).groupby(["dataset", "family", "k"])
    found = [of_each.agg(how).add_suffix(end) for how, end in (("median", ""), ("min", "_low"), ("max", "_high"))]
    return pd.concat(found, axis=1).reset_index()


def summed(found: pd.DataFrame) -> pd.DataFrame:
    """`of_models` and its like with `own_curves`, summed over the families of each source, dataset and k."""
    rows = []
    for (source, dataset, k), own in found.groupby(["source", "dataset", "k"], sort=False):
        row: dict[str, Any] = {"source": source, "dataset": dataset, "k": k, "families": len(own)}
        row |= {"alpha_1": own["alpha_1"].median(), "straight": int((own["r_squared"] >= STRAIGHT).sum())}
        row |= {"ratio": own["ratio"].median(), "lowest": own["ratio"].min(), "highest": own["ratio"].max()}
        row |= {"above": int((own["ratio"] > 1).sum()), "surely": int((own["low"] > 1).sum())}
        row |= {"beyond": int((own["ratio"] > own["moved_high"]).sum()) if own["moved"].notna().any() else pd.NA}
        rows.append(row | {name: own[name].median() for name in ("moved", "tried")})
    return pd.DataFrame(rows).astype({"beyond": "Int64"})


def off(found: pd.DataFrame, told: str) -> float:
    """How far α_k/α_1 lies from what one curve foretells: root mean square, in per cent."""
    known = found[(found[told] > 0) & (found["ratio"] > 0)]
    return float(100 * np.sqrt((np.log(known["ratio"] / known[told]) ** 2).mean()))


# ── What the page says and shows


_NAMES = {TEXT: "text", LADDER: "ladder", IMAGES: "images"}


def told(found: pd.DataFrame) -> dict[str, Any]:
    """What the page and the ledger say of `of_models` and its like with `own_curves`, of each source at its largest k.

    By source: families, above (how many have α_k above α_1), straight (how many R² reach STRAIGHT at k = 1); of images
    on EXCEPTION families, above and ratio (the median α_k/α_1); and how far what one curve foretells is `off`, at that
    k and at the others together.
    """
    values: dict[str, Any] = {}
    for source, own in found[found["source"].isin(_NAMES)].groupby("source", sort=False):
        name, last = _NAMES[str(source)], own[own["k"] == own["k"].max()]
        values |= {f"{name}.families": len(last), f"{name}.above": int((last["ratio"] > 1).sum())}
        if source != LADDER:
            values |= {f"{name}.straight": int((last["r_squared"] >= STRAIGHT).sum())}
        if source == IMAGES:
            values |= {f"{name}.sets": last["dataset"].nunique()}
            for dataset, each in last[last["dataset"] == EXCEPTION].groupby("dataset"):
                values |= {f"families.{dataset}": len(each), f"above.{dataset}": int((each["ratio"] > 1).sum())}
                values |= {f"ratio.{dataset}": each["ratio"].median()}
        values |= {f"{name}.{way}": off(own, way) for way in ("moved", "tried") if (own[way] > 0).any()}
    return values


def ratios_shown(found: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """What `Page.figure` takes for α_k/α_1 against k, a panel for each source, a line for each dataset.

    found: `of_models` and its like. A band holds all families of published text, and 80 per cent of those of images;
    else the interval of one family.
    """
    rows = []
    for (source, dataset), own in found[found["family"] != LSTM].groupby(["source", "dataset"], sort=False):
        about = {"source": source, "line": dataset_label(str(dataset))}
        rows.append(about | {"k": 1, "ratio": 1.0, "low": 1.0, "high": 1.0})
        for k, at in own.groupby("k"):
            ends = (at["low"].iloc[0], at["high"].iloc[0]) if len(at) == 1 else at["ratio"].quantile([0.1, 0.9])
            if source == TEXT:
                ends = at["ratio"].min(), at["ratio"].max()
            low, high = ends
            rows.append(about | {"k": k, "ratio": at["ratio"].median(), "low": low, "high": high})
    drawn = pd.DataFrame(rows)
    styles: dict[str, tuple[str, str]] = {}
    for _, lines in drawn["line"].groupby(drawn["source"] == IMAGES):  # colours that differ within a panel
        names = lines.unique()
        styles |= dict(zip(names, zip(ramp(len(names)), "osD^vPX*", strict=False), strict=False))
    return {
        "figure": curves(
            drawn, "k", "ratio", labels=("k: guesses, or tries", "α at k over α at 1"), panel="source", styles=styles,
            at=[1], band=True, ylim="shared",
        ),
        "caption": "<b>The exponent in size at k, over that at 1:</b> above 1 it has grown. Lines: the median "
        f"family. Bands: all families (text), 80 per cent of them (images), else the {level:.0%} interval.",
        "alt": "The ratio rises with k above 1 in text, published and ours, and in tries; on ImageNet-R it stays at 1",
        "data": found,
    }  # fmt: skip


_WAYS = {"moved": "one curve, moved along ln k", "tried": "κ(k) independent tries"}
_LOOKS = {TEXT: ("#2A7FC0", "o"), LADDER: ("#8A7A00", "v"), TRIES: ("#D55E00", "s"), IMAGES: ("#B8579A", ".")}


def own_curves_shown(found: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for α_k/α_1 against what the models' own curves foretell, a panel for each way."""
    known = found[found["ratio"] > 0]
    low, high = 0.6, 1.05 * float(known[["ratio", "moved", "tried"]].max().max())

    def draw(ax: Axes, way: str) -> None:
        name = next(key for key, title in _WAYS.items() if title == way)
        for source, (colour, marker) in _LOOKS.items():
            own = known[(known["source"] == source) & (known[name] > 0)]
            if len(own):
                ends = own[f"{name}_low"], own[f"{name}_high"]
                if source != IMAGES:
                    ax.hlines(own["ratio"], *ends, color=colour, lw=1, alpha=0.45)
                ax.plot(own[name], own["ratio"], marker, color=colour, ms=5, mew=0, alpha=0.8, label=source)
        ax.plot([low, high], [low, high], color=INK, lw=0.8)
        ax.set_xlim(low, high)
        ax.set_ylim(low, high)
        ax.set_xlabel("foretold α at k over α at 1")
        ax.set_ylabel("measured")
        ax.set_title(way)
        legend_below(ax)

    ways = [title for name, title in _WAYS.items() if (known[name] > 0).any()]
    return {
        "figure": Panels(ways, draw, size=(4.6, 4.6)),
        "caption": "<b>Measured growth beside what a model’s own curve in k foretells,</b> by the two pictures: on the "
        "line it is right. Points: families, at the median of their models. Images have two k: no curve to move.",
        "alt": "Two panels of measured against foretold ratios: on the left text lies above the diagonal, on the right "
        "near it",
        "data": found,
    }


def summed_shown(table: pd.DataFrame) -> dict[str, Any]:
    """α_k over α_1 of every source (`summed`)."""
    columns: Columns = {
        "source": "Source",
        "dataset": "of",
        "k": "k",
        "families": "families",
        "straight": f"R² ≥ {STRAIGHT}",
        "alpha_1": ("α₁", "{:.3f}"),
        "ratio": ("α at k / α₁", "{:.2f}"),
        ("lowest", "highest"): ("lowest – highest", "{:.2f} – {:.2f}"),
        "above": "above 1",
        "surely": "surely",
        "moved": ("curve moved", "{:.2f}"),
        "tried": ("as tries", "{:.2f}"),
    }
    caption = (
        "<b>α<sub>k</sub>/α₁ of every set,</b> medians over families. Surely: the interval lies above 1. Last: what "
        "the two pictures below foretell."
    )
    return shown(table, columns, caption=caption, ranked=True)
