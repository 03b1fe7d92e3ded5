"""SmolLM2-135M-Instruct made worse: where it misses then, and whether models of one cross-entropy are alike.

Registered before the runs: data/predictions/real.toml and real_damaged.toml. The results are in data/real, as
`python -m companion.evidence.real` leaves them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from companion.chapters.real import EARLY, tokens_of
from companion.damage.equal_loss import Curve, as_least, spread, spread_interval
from companion.damage.paths import open_paths
from companion.damage.sums import THRESHOLDS
from companion.project import DATA
from companion.stats.cells import holm
from rbp import provenance
from rbp.arrays import Reals
from rbp.figures.curves import curves
from rbp.figures.wording import dataset_label
from rbp.laws.resampling import degrees_of_freedom, document_sums, interval, variance, without_each

DAMAGED = DATA / "real" / "damaged.parquet"

# ── Where does a damaged model miss?


@cache
def damaged() -> pd.DataFrame:
    """Read every token that a damaged model ranked: columns way, text, document, position, rank, rare."""
    provenance.note(DAMAGED)
    return pd.read_parquet(DAMAGED)


def damaged_misses(k: int = 1_000, *, level: float = 0.95) -> pd.DataFrame:
    """Compare where damaged models miss with where the whole model does, by way and text.

    Shares of the misses without a start token, of all tokens but a document's first: early and rare, each with _low and
    _high, _whole (the whole model's) and _p (of no difference, paired by documents, Holm over ways, texts and shares).
    """
    rows = []
    for (way, text), tokens in damaged().groupby(["way", "text"], sort=False, observed=True):
        whole = tokens_of("A", str(text))
        both = whole.merge(tokens, on=["document", "position"], suffixes=("_whole", ""), validate="one_to_one")
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


# ── Are models of one cross-entropy alike in their ranks?

PATHS = DATA / "real" / "paths"
WORSE_ON = {"wikipedia": "real", "auslegal": "judgments"}  # the texts, and how the keys of their values begin
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


def worse(text: str) -> list[Curve]:
    """List the curves of the ways of making the model worse on a text, one for each draw, by rising cross-entropy."""
    ordered = []
    for curve in open_paths(PATHS / text).curves:
        order = np.argsort(curve.x[0])
        names = tuple(curve.names[i] for i in order)
        arrays = {name: getattr(curve, name)[:, order] for name in ("x", "tempered", "y")}
        ordered.append(replace(curve, names=names, **arrays))
    return ordered


def at_rise(curve: Curve, rise: float) -> Reals | None:
    """Interpolate ln(−ln RBP_k) where cross-entropy is `rise` nats above the whole model's: shape (1 + D, thresholds).

    Between two steps; past the last along the last two, by no more than BEYOND of the rise; else None.
    """
    level = np.log(np.exp(curve.x[:, 0]) + rise)
    inside = curve.at(level)
    if inside is not None:
        return inside
    if np.exp(level[0]) - np.exp(curve.x[0, -1]) > BEYOND * rise:
        return None
    share = ((level - curve.x[:, -2]) / (curve.x[:, -1] - curve.x[:, -2]))[:, None]
    return np.asarray(curve.y[:, -2] + share * (curve.y[:, -1] - curve.y[:, -2]))


def at_level(ways: Sequence[Curve], rise: float) -> dict[str, Reals]:
    """Select every way that reaches the level in all of its draws: shape (draws, 1 + D, thresholds)."""
    by_way: dict[str, Reals] = {}
    for way in WAYS:
        draws = [at_rise(curve, rise) for curve in ways if curve.path == way]
        reached = [each for each in draws if each is not None]
        if reached and len(reached) == len(draws):
            by_way[way] = np.stack(reached)
    return by_way


def spread_table(curves: Sequence[Curve], *, level: float = 0.95) -> pd.DataFrame:
    """Compute the spread of ways at a cross-entropy: rise, of ("models", "all"), k, ways, spread, low, high, corrected.

    Per cent of −ln RBP_k. corrected: without what sampling alone makes, the mean variance of the ways about their mean.
    least: of all k, the spread is not shown to be larger than at the least; is_least.
    """
    parts, df = [], curves[0].df
    for rise in RISES:
        reached = at_level(curves, rise)
        for of, ways in (("models", DAMAGES), ("all", tuple(WAYS))):
            compared = {way: draws for way, draws in reached.items() if way in ways}
            if len(compared) < 2:
                continue
            values = spread(compared)
            estimate, low, high = spread_interval(values, df, level=level)
            means = np.stack([draws.mean(axis=0) for draws in compared.values()])
            sampled = np.mean([variance(draws) for draws in means - means.mean(axis=0)], axis=0)
            corrected = 100 * np.expm1(np.sqrt(np.clip(values[0] ** 2 - sampled, 0, None)))
            least, same = as_least(values, df, level=level)
            table = pd.DataFrame({"k": THRESHOLDS, "spread": estimate, "low": low, "high": high, "least": same})
            table = table.assign(corrected=corrected, is_least=np.arange(len(table)) == least)
            parts.append(table.assign(rise=rise, of=of, ways=len(compared)))
    names = ["rise", "of", "k", "ways", "spread", "low", "high", "corrected", "least", "is_least"]
    return pd.concat(parts, ignore_index=True)[names] if parts else pd.DataFrame(columns=names)


def pairs(curves: Sequence[Curve], *, level: float = 0.95) -> pd.DataFrame:
    """Compare any two damages of the model at one cross-entropy: rise, k, first, second, difference, low, high, p_holm.

    difference: of ln(−ln RBP_k), by documents; Holm over pairs, levels and PAIRED_AT.
    """
    rows, df = [], curves[0].df
    for rise in RISES:
        means = {way: draws.mean(axis=0) for way, draws in at_level(curves, rise).items() if way in DAMAGES}
        for first, second in combinations(means, 2):
            for k in PAIRED_AT:
                away = (means[second] - means[first])[:, THRESHOLDS.index(k)]
                p = 2 * student_t.sf(abs(away[0]) / np.sqrt(variance(away)), df)
                rows.append((rise, k, first, second, *interval(away, df, level=level), p))
    table = pd.DataFrame(rows, columns=["rise", "k", "first", "second", "difference", "low", "high", "p"])
    return table.assign(p_holm=holm(table["p"]) if len(table) else [])


# ── What the pages show and say


def summarize_damaged(table: pd.DataFrame) -> dict[str, Any]:
    """Collect what chapter 8 says of `damaged_misses`, by key: counts, per cent, and how many times as many misses."""
    factor, humaneval = table["missed"] / table["missed_whole"], table[table["dataset"] == "humaneval"]
    values: dict[str, Any] = {"damaged.tests": len(table), "damaged.ways": table["way"].nunique()}
    values |= {f"damaged.{share}.moved": int((table[f"{share}_p"] < 0.05).sum()) for share in ("early", "rare")}
    values["damaged.early.whole"] = 100 * humaneval["early_whole"].iloc[0]
    values["damaged.early.least"] = 100 * humaneval["early"].min()
    values["damaged.early.most"] = 100 * humaneval["early"].max()
    return values | {"damaged.factor.least": factor.min(), "damaged.factor.most": factor.max()}


def on_each_text(compute: Callable[..., pd.DataFrame], *, level: float) -> pd.DataFrame:
    """Compute a table of curves, such as `spread_table`, for each text: column dataset."""
    return pd.concat([compute(worse(text), level=level).assign(dataset=text) for text in WORSE_ON], ignore_index=True)


def paths_summary(table: pd.DataFrame, compared: pd.DataFrame) -> dict[str, Any]:
    """Summarise `spread_table` and `pairs` of each text, by the keys that chapter 5 names."""
    values: dict[str, Any] = {}
    for text, start in WORSE_ON.items():
        of_text = compared[compared["dataset"] == text]
        for key, rows in (("", of_text), (".k1", of_text[of_text["k"] == 1])):
            differ = rows["p_holm"] < 0.05
            values |= {f"{start}.pairs{key}": len(differ), f"{start}.pairs_apart{key}": int(differ.sum())}
        for row in table[table["dataset"] == text].to_dict("records"):
            key = f"{row['of']}.{row['rise']:g}"
            if row["of"] == "all" and row["is_least"]:
                values[f"{start}.least.{key}"] = row["k"]
            if (row["rise"], row["k"]) in ((0.3, 1), (0.8, 1), (0.8, 100)):
                values |= {
                    f"{start}.{name}.{key}.k{row['k']}": row[name] for name in ("spread", "low", "high", "corrected")
                }
    return values


def paths_figure(*, level: float) -> dict[str, Any]:
    """Plot each way against the mean of the damages of the model, over k, at both levels, for each text."""
    rows = []
    for text, rise in product(WORSE_ON, RISES):
        ways = worse(text)
        means = {way: draws.mean(axis=0) for way, draws in at_level(ways, rise).items()}
        middle = np.mean([mean for way, mean in means.items() if way in DAMAGES], axis=0)
        panel = f"{dataset_label(text)}, CE + {rise} nats"
        for way, mean in means.items():
            ends = 100 * np.expm1(np.array(interval(mean - middle, ways[0].df, level=level)))
            rows += [(panel, WAYS[way], k, *each) for k, each in zip(THRESHOLDS, ends.T, strict=True)]
    table = pd.DataFrame(rows, columns=["cell", "line", "k", "offset", "low", "high"])
    looks = {
        label: ("#9457C0" if way in DAMAGES else "#5C8A2E", marker)
        for (way, label), marker in zip(WAYS.items(), "os^DvP", strict=True)
    }
    return {
        "figure": curves(
            table, "k", "offset", labels=("k", "difference in −ln RBPₖ (%)"), panel="cell", styles=looks, ends=True,
            band=True, at=[0], size=(4.6, 3.4),
        ),
        "caption": "<b>A real model differs too, more at larger k.</b> SmolLM2-135M-Instruct on 40 "
        "articles and 40 judgments, made worse in six ways to one CE. 0 is the mean of the four ways that damage the "
        f"model. Less context and context replaced damage what it reads. Bands: {level:.0%} by documents.",
        "alt": "Lines over k that lie near zero for damaged models, and apart for damaged input at large k",
        "data": table,
    }  # fmt: skip
