"""A real model, SmolLM2-135M-Instruct: where it misses, whether hits cluster, and what other chapters need of it.

Its predictions and definitions were registered before (data/predictions/real.toml); the results are in data/real, as
`python -m companion.evidence.real` leaves them.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import t as student_t

from companion.chapters import lognormal
from companion.execute.page import keyed
from companion.execute.steps import step
from companion.plots import name_rows
from companion.project import DATA
from companion.stats.cells import holm
from companion.stats.rank_families import FAMILIES
from rbp import provenance
from rbp.arrays import Reals
from rbp.figures.curves import numbered, shades
from rbp.figures.style import INK, Panels, legend_below
from rbp.figures.wording import dataset_label, dataset_order
from rbp.laws.resampling import degrees_of_freedom, document_sums, interval, student, variance, without_each
from rbp.measurements.histograms import MeasuredRanks
from rbp.measurements.rank_counts import RankCounts
from rbp.measurements.windows import runs
from rbp.report.display import Columns, shown

MODEL, FAMILY, SIZE, VOCABULARY = "SmolLM2-135M-Instruct", "SmolLM2", 106_204_992, 49_152
RANKS = DATA / "real" / "ranks.parquet"
TEXTS = ("humaneval", "wikipedia", "hotpotqa", "auslegal")
EARLY = 3  # the last position of a document's first tokens
THIRD, TENTH = 1 / 3, 1 / 10  # of the misses: the registered bars
LENGTHS = (1, 2, 5, 10, 20, 50)
SHUFFLES, SEED, BLOCK = 20, 52, 64


@cache
def read_ranks() -> pd.DataFrame:
    """Read every ranked token: columns experiment, text, bos, document, position, rank, rare, repeated.

    The shipped table does not say which token it was: openings that documents share cannot be found, and count each
    time in the intervals of this chapter.
    """
    provenance.note(RANKS)
    return pd.read_parquet(RANKS)


def tokens_of(experiment: str, text: str, bos: str = "never") -> pd.DataFrame:
    """Select the tokens of one ranking, by document and position."""
    table = read_ranks()
    chosen = (table["experiment"] == experiment) & (table["text"] == text) & (table["bos"] == bos)
    return table[chosen].reset_index(drop=True)


def _df(tokens: pd.DataFrame) -> float:
    return degrees_of_freedom(tokens.groupby("document").size())


# ── Where are the misses?


def sum_misses(without: pd.DataFrame, start: pd.DataFrame, k: int) -> Reals:
    """Sum by document what `shares_of_misses` counts, shape (D, 6), over all tokens except a document's first.

    without, start: the same tokens ranked without a start token, and with one. Columns: tokens; rare tokens; misses at
    k without it; among these positions up to EARLY, and rare tokens; misses with it.
    """
    both = without.merge(start, on=["document", "position"], suffixes=("", "_start"), validate="one_to_one")
    miss, rare = both["rank"] > k, both["rare"]
    columns: list[Any] = [np.ones(len(both)), rare, miss, miss & (both["position"] <= EARLY), miss & rare]
    columns.append(both["rank_start"] > k)
    return document_sums(np.column_stack(columns), both["document"])


def shares_of_misses(sums: Reals, *, level: float = 0.95) -> dict[str, Any]:
    """Compute shares of the misses of `sum_misses`, with intervals by documents.

    tokens, missed; early, rare, removed, each with _low and _high; rare_tokens: their share of all tokens;
    log_left and its error: ln of the misses with a start token over the misses without; documents; df.
    """
    (tokens, rare_tokens, missed, early, rare, after), df = without_each(sums).T, degrees_of_freedom(sums[:, 0])
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.log(after / missed)
        shares = {"early": early / missed, "rare": rare / missed}
    summary: dict[str, Any] = {"documents": len(sums), "df": df, "tokens": int(tokens[0]), "missed": int(missed[0])}
    for name, share in shares.items():
        summary |= dict(zip((name, f"{name}_low", f"{name}_high"), interval(share, df, level=level), strict=True))
    estimate, low, high = interval(left, df, level=level)
    summary |= {"removed": -np.expm1(estimate), "removed_low": -np.expm1(high), "removed_high": -np.expm1(low)}
    summary["rare_tokens"] = rare_tokens[0] / tokens[0]
    return summary | {"log_left": estimate, "error": float(np.sqrt(variance(left)))}


def miss_table(ks: Sequence[int] = (100, 1_000, 10_000), *, level: float = 0.95) -> pd.DataFrame:
    """Compute `shares_of_misses` of each text and k, with p_more (at most THIRD goes) and p_fewer (at least TENTH).

    One-sided, by Student's t of the documents, after Holm's correction over the texts of one k.
    """
    rows = []
    for text in TEXTS:
        without, start = (tokens_of("A", text, bos) for bos in ("never", "always"))
        rows += [{"dataset": text, "k": k} | shares_of_misses(sum_misses(without, start, k), level=level) for k in ks]
    table = pd.DataFrame(rows)
    z = {bar: (table["log_left"] - np.log1p(-bar)) / table["error"] for bar in (THIRD, TENTH)}
    table = table.assign(p_more=student_t.cdf(z[THIRD], table["df"]), p_fewer=student_t.sf(z[TENTH], table["df"]))
    for name in ("p_more", "p_fewer"):
        table[name] = table.groupby("k")[name].transform(holm)
    return table


def mean_removed(table: pd.DataFrame, *, level: float = 0.95) -> dict[str, float]:
    """Average over texts the share that a start token removes, of `miss_table` at one k.

    removed, removed_low, removed_high; p_fewer: that it is no less than TENTH.
    """
    away = (1 - table["removed"]) * table["error"]
    squared, df = float((away**2).sum() / len(table) ** 2), float(table["df"].min())
    estimate, low, high = student(table["removed"].mean(), squared, df, level=level)
    fewer = float(student_t.cdf((estimate - TENTH) / np.sqrt(squared), df))
    return {"removed": estimate, "removed_low": low, "removed_high": high, "p_fewer": fewer}


# ── Do hits come together?


def log_success(hit: npt.ArrayLike, tokens: pd.DataFrame, among: npt.ArrayLike | None = None) -> Reals:
    """Compute ln of the share of windows that succeed, by length, without each document: shape (1 + D, len(LENGTHS)).

    hit: of every token; among: only windows all of whose tokens are.
    """
    documents, positions = tokens["document"].to_numpy(), tokens["position"].to_numpy()
    good = np.ones(len(tokens), dtype=bool) if among is None else np.asarray(among, dtype=bool)
    place = runs(good, documents, positions)
    reached = runs(np.asarray(hit, dtype=bool) & good, documents, positions)
    columns = [side >= n for n in LENGTHS for side in (reached, place)]
    sums = without_each(document_sums(np.column_stack(columns), documents))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(sums[:, ::2] / sums[:, 1::2]))


def log_ratio(logs: Reals, single: Reals | None = None) -> Reals:
    """Compute ln of ln P_N over N ln P_1, from `log_success`; single: ln P_1 to divide by, shape of logs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(logs / (np.array(LENGTHS) * (logs[:, :1] if single is None else single))))


def log_rate_within(hit: npt.ArrayLike, tokens: pd.DataFrame, among: npt.ArrayLike) -> Reals:
    """Compute ln of the share of hits in windows all of whose tokens are `among`, as `log_success`.

    A token counts once for each window that it is in: the P_1 by which independent tokens would succeed there.
    """
    documents, positions = tokens["document"].to_numpy(), tokens["position"].to_numpy()
    place = runs(among, documents, positions)
    so_far = np.concatenate([[0], np.cumsum(hit)])
    end = np.arange(1, len(tokens) + 1)
    inside = [place >= n for n in LENGTHS]
    hits = [side * (so_far[end] - so_far[np.maximum(end - n, 0)]) / n for side, n in zip(inside, LENGTHS, strict=True)]
    sums = without_each(document_sums(np.column_stack([*hits, *inside]), documents))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(sums[:, : len(LENGTHS)] / sums[:, len(LENGTHS) :]))


def average_shuffles(tokens: pd.DataFrame, k: int, block: int | None) -> Reals:
    """Average `log_success` over SHUFFLES of ranks within documents, or within blocks of so many tokens."""
    draw, hit = np.random.default_rng(SEED), tokens["rank"].to_numpy() <= k
    group = tokens["document"].to_numpy(np.int64) << 32
    if block is not None:
        group = group + (tokens["position"].to_numpy(np.int64) - 1) // block
    place = np.unique(group, return_inverse=True)[1].astype(np.float64)
    order = np.argsort(place, kind="stable")  # tokens stand so: the places of each group
    parts = []
    for _ in range(SHUFFLES):
        mixed = np.argsort(place + draw.random(len(place)))  # by one key, which takes a third of two
        again = np.empty_like(hit)
        again[order] = hit[mixed]
        parts.append(log_success(again, tokens))
    return np.asarray(np.mean(parts, axis=0))


WHOLE, DOCUMENTS, BLOCKS = "as they are", "shuffled within documents", "shuffled within 64 tokens"
#: windows without repetition: against the hit rate of all new tokens, as registered, and of their own tokens. They hold
#: harder tokens, since a new token next to a repeated stretch is easy, so that the first is a fault of the registration
NEW, MATCHED = "new, by all new tokens", "new, by their own tokens"
FEWEST = 10  # documents with a successful window, below which a ratio has no interval

#: of the windows: the texts and thresholds that were registered
WINDOW_TEXTS, WINDOW_KS = ("wikipedia", "auslegal"), (1, 10, 100)


@step("real_windows", reads=["data/real/ranks.parquet"], seconds=6)
def window_log_ratios() -> pd.DataFrame:
    """Compute `log_ratio` for each text, k and kind of windows (WHOLE, DOCUMENTS, BLOCKS, NEW, MATCHED).

    Columns dataset, k, kind, and one for each of LENGTHS. Of each cell the first row is of all documents, the others
    each leave one out.
    """
    parts = []
    for text, k in product(WINDOW_TEXTS, WINDOW_KS):
        tokens = tokens_of("B", text)
        hit, new = tokens["rank"].to_numpy() <= k, ~tokens["repeated"].to_numpy()
        without = log_success(hit, tokens, new)
        kinds = {
            WHOLE: log_ratio(log_success(hit, tokens)),
            DOCUMENTS: log_ratio(average_shuffles(tokens, k, None)),
            BLOCKS: log_ratio(average_shuffles(tokens, k, BLOCK)),
            NEW: log_ratio(without),
            MATCHED: log_ratio(without, log_rate_within(hit, tokens, new)),
        }
        for kind, ratios in kinds.items():
            parts.append(pd.DataFrame(ratios, columns=list(map(str, LENGTHS))).assign(dataset=text, k=k, kind=kind))
    return pd.concat(parts, ignore_index=True)


def documents_with_success(text: str, k: int) -> list[int]:
    """Count the documents in which a window without repetition succeeds, for each of LENGTHS."""
    tokens = tokens_of("B", text)
    good = (tokens["rank"].to_numpy() <= k) & ~tokens["repeated"].to_numpy()
    reached = runs(good, tokens["document"].to_numpy(), tokens["position"].to_numpy())
    return [tokens.loc[reached >= n, "document"].nunique() for n in LENGTHS]


def window_ratios(*, level: float = 0.95) -> pd.DataFrame:
    """Compare windows with independent tokens: dataset, k, kind (as `window_log_ratios`), n, ratio, low, high.

    Without an interval where new windows succeed in fewer than FEWEST documents. With p_explained of DOCUMENTS and
    BLOCKS: that shuffling leaves a quarter of ln ratio or more (one-sided, Holm over texts and k, of each kind at each
    n); explained: by what share MATCHED is nearer to ln ratio = 0 than WHOLE.
    """
    rows: list[tuple[Any, ...]] = []
    text: Any
    k: Any
    for (text, k), cell in window_log_ratios().groupby(["dataset", "k"], sort=False):
        df = _df(tokens_of("B", str(text)))
        ratios = {kind: part[list(map(str, LENGTHS))].to_numpy() for kind, part in cell.groupby("kind", sort=False)}
        as_they_are, few = ratios[WHOLE], [count < FEWEST for count in documents_with_success(text, k)]
        for kind, part in ratios.items():
            estimate, *bounds = np.exp(interval(part, df, level=level))
            if kind in (NEW, MATCHED):
                bounds = [np.where(few, np.nan, end) for end in bounds]
            with np.errstate(divide="ignore", invalid="ignore"):  # no window succeeds
                away = part - as_they_are / 4
                p = student_t.sf(away[0] / np.sqrt(variance(away)), df)
                explained = 1 - part[0] / as_they_are[0]
            p = p if kind in (DOCUMENTS, BLOCKS) else np.full(len(LENGTHS), np.nan)
            explained = explained if kind == MATCHED else np.full(len(LENGTHS), np.nan)
            rows += [(text, k, kind, *values) for values in zip(LENGTHS, estimate, *bounds, p, explained, strict=True)]
    names = ["dataset", "k", "kind", "n", "ratio", "low", "high", "p_explained", "explained"]
    every = pd.DataFrame(rows, columns=names)
    table: pd.DataFrame = every[(every["n"] > 1) & np.isfinite(every["ratio"])].reset_index(drop=True)
    shuffles = table["p_explained"].notna()
    table.loc[shuffles, "p_explained"] = table[shuffles].groupby(["kind", "n"])["p_explained"].transform(holm)
    return table


# ── How are ranks distributed?


def measured_ranks() -> list[MeasuredRanks]:
    """Return the ranks of A without a start token, as the chapter on lognormal ranks takes them."""
    texts = []
    for text in TEXTS:
        tokens = tokens_of("A", text)["rank"].to_numpy(np.int64)
        texts.append(MeasuredRanks(text, MODEL, FAMILY, SIZE, RankCounts.of_ranks(tokens, VOCABULARY), None))
    return texts


# ── Does more context help?

BINS = range(5, 11)  # of positions from 2^j to 2^(j+1) − 1
PLACES = {"novels": "novels", "passages": "auslegal"}


def fit_by_position(ks: Sequence[int] = (1, 10, 100), *, level: float = 0.95) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compute −ln RBP_k by position, and its slopes.

    First: dataset, k, first (position of the bin), tokens, value, low, high. Second: dataset, k, slope (of
    ln(−ln RBP_k) for a doubling of the position) and low, high; last, last_low, last_high: the step to the last bin, in
    ln; p: of that, by Holm over k.
    """
    rows, slopes = [], []
    for name, text in PLACES.items():
        tokens = tokens_of("E", name)
        df = _df(tokens)
        place = np.log2(np.maximum(tokens["position"].to_numpy(), 1)).astype(int)
        inside = [place == j for j in BINS]
        for k in ks:
            hit = tokens["rank"].to_numpy() <= k
            columns = [side for bin_ in inside for side in (bin_ & hit, bin_)]
            sums = without_each(document_sums(np.column_stack(columns), tokens["document"]))
            y = np.log(-np.log(sums[:, ::2] / sums[:, 1::2]))
            for i, j in enumerate(BINS):
                value_interval = np.exp(interval(y[:, i], df, level=level))
                rows.append((text, k, 2**j, int(sums[0, 2 * i + 1]), *map(float, value_interval)))
            slope = np.polyfit(np.array(BINS, dtype=float), y.T, 1)[0]
            last = y[:, -1] - y[:, -2]
            p = 2 * student_t.sf(abs(last[0]) / np.sqrt(variance(last)), df)
            slopes.append((text, k, *interval(slope, df, level=level), *interval(last, df, level=level), p))
    names = ["slope", "low", "high", "last", "last_low", "last_high", "p"]
    second = pd.DataFrame(slopes, columns=["dataset", "k", *names])
    second["p"] = second.groupby("dataset")["p"].transform(holm)
    return pd.DataFrame(rows, columns=["dataset", "k", "first", "tokens", "value", "low", "high"]), second


# ── What the pages show and say


def misses_summary(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise `miss_table` for chapter 8: counts and per cent.

    At k = 1,000, of which the registered rules are; with .k10000, at the k of the chapter's question, without code.
    """
    shares = table.assign(early=100 * table["early"], removed=100 * table["removed"])
    near, far = shares[shares["k"] == 1_000], shares[(shares["k"] == 10_000) & (shares["dataset"] != "humaneval")]
    is_code = near["dataset"] == "humaneval"
    code, others = near[is_code].iloc[0], near.loc[~is_code, "removed"]
    values = {
        "real.texts": len(near),
        "real.tokens": int(near["tokens"].sum()),
        "real.rare_refuted": int((near["p_more"] < 0.05).sum()),
        "real.first_refuted": int((near["p_fewer"] < 0.05).sum()),
        "real.removed.humaneval": code["removed"],
        "real.removed.others.most": others.max(),
    }
    values |= keyed("real.early.{dataset}.k10000", far, "early")
    return values | keyed("real.removed.{dataset}.k10000", far, "removed")


def misses_table(table: pd.DataFrame) -> dict[str, Any]:
    """Show `miss_table` at k = 10,000; the download has every k."""
    names = [f"{name}{end}" for name in ("early", "rare", "removed") for end in ("", "_low", "_high")]
    names.append("rare_tokens")
    columns: Columns = {
        "dataset": "Text",
        ("early", "early_low", "early_high"): ("among the first 3, %", "{:.0f} [{:.0f}, {:.0f}]"),
        ("removed", "removed_low", "removed_high"): ("gone with a start token, %", "{:.0f} [{:.0f}, {:.0f}]"),
        ("rare", "rare_low", "rare_high"): ("rare, %", "{:.0f} [{:.0f}, {:.0f}]"),
        "rare_tokens": ("of all tokens, %", "{:.0f}"),
        "missed": ("missed", "{:,.0f}"),
        "tokens": ("tokens", "{:,.0f}"),
    }
    rows = table[table["k"] == 10_000]
    percent = {name: (100 * rows[name]).round() + 0.0 for name in names}  # no negative zeros
    return shown(rows.assign(**percent), columns, data=table)


def windows_summary(table: pd.DataFrame, n: int = 10) -> dict[str, Any]:
    """Summarise `window_ratios` at one length for chapter 7."""
    at_length = table[table["n"] == n]
    as_they_are = at_length[at_length["kind"] == WHOLE]
    tokens = {text: tokens_of("B", text) for text in as_they_are["dataset"].unique()}
    sizes = pd.DataFrame([(text, len(rows), rows["document"].nunique()) for text, rows in tokens.items()])
    sizes.columns = pd.Index(["dataset", "tokens", "documents"])
    values = keyed("real.tokens.{dataset}", sizes, "tokens") | keyed("real.documents.{dataset}", sizes, "documents")
    first = as_they_are[as_they_are["k"] == 1]
    values |= keyed("real.ratio.whole.{dataset}.k1", first, "ratio")
    values |= keyed("real.low.whole.{dataset}.k1", first, "low") | keyed("real.high.whole.{dataset}.k1", first, "high")
    with_interval = at_length[at_length["kind"].isin((NEW, MATCHED)) & at_length["low"].notna()]
    registered, matched = with_interval[with_interval["kind"] == NEW], with_interval[with_interval["kind"] == MATCHED]
    explained = 100 * matched["explained"]
    hit, new = (tokens["auslegal"]["rank"] == 1).to_numpy(), ~tokens["auslegal"]["repeated"].to_numpy()
    rates = 100 * np.exp(log_rate_within(hit, tokens["auslegal"], new)[0])
    refuted = at_length["p_explained"] < 0.05
    return values | {
        "real.cells": len(as_they_are),
        "real.new.cells": len(registered),
        "real.new.below": int((registered["high"] < 1).sum()),
        "real.new.above": int((registered["low"] > 1).sum()),
        "real.matched.cells": len(matched),
        "real.matched.below": int((matched["high"] < 1).sum()),
        "real.matched.least": matched["ratio"].min(),
        "real.matched.most": matched["ratio"].max(),
        "real.explained.least": explained.min(),
        "real.explained.most": explained.max(),
        "real.rate.new": rates[0],
        "real.rate.windows": rates[LENGTHS.index(n)],
        "real.documents_refuted": int(refuted[at_length["kind"] == DOCUMENTS].sum()),
        "real.blocks_refuted": int(refuted[at_length["kind"] == BLOCKS].sum()),
    }


def windows_figure(table: pd.DataFrame, *, n: int = 10) -> dict[str, Any]:
    """Plot `window_ratios` at one length: a panel for each text, a row for each kind, a colour for each k."""
    at_length, kinds = table[table["n"] == n], [WHOLE, BLOCKS, DOCUMENTS, NEW, MATCHED]
    colours = shades(at_length["k"].unique())
    limits = 0.95 * at_length["low"].min(), 1.05 * at_length["high"].max()

    def draw(ax: Axes, text: str) -> None:
        ax.axvline(1, color=INK, lw=0.8, ls=(0, (5, 3)))
        for place, k in enumerate(colours):
            rows = at_length[(at_length["dataset"] == text) & (at_length["k"] == k)]
            y = rows["kind"].map(kinds.index) + 0.24 * (place - (len(colours) - 1) / 2)
            ax.hlines(y, rows["low"], rows["high"], color=colours[k], lw=1.2)
            ax.plot(rows["ratio"], y, "o", color=colours[k], ms=5, mew=0)
        name_rows(ax, [re.sub(" (?=within|by)", "\n", kind) for kind in kinds])
        ax.set_xlim(*limits)
        ax.set_xlabel(f"ratio at N = {n} (1: independent)")
        ax.set_title(dataset_label(text))
        legend_below(ax, {name: style._replace(marker="o") for name, style in numbered(colours, "k").items()})

    return {
        "figure": Panels(dataset_order(at_length["dataset"]), draw, size=(4.6, 3.2)),
        "alt": "Ratios below 1 that rise towards 1 once ranks are shuffled within documents, or where nothing repeats",
        "data": table,
    }


@step("real_fits", reads=["data/real/ranks.parquet"], seconds=6)
def rank_fits() -> pd.DataFrame:
    """Fit every distribution to the ranks of `measured_ranks` from rank 1 on: `lognormal.fit_distributions`."""
    return lognormal.fit_distributions(measured_ranks(), firsts=(1,))


def fits_summary(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise `rank_fits` for chapter 9.

    behind: nats a token that the lognormal rounded up is less likely than the likeliest distribution of that text.
    """
    up = table[table["distribution"] == "lognormal_ceiling"]
    best = table.loc[table.groupby("dataset")["excess"].idxmin()].set_index("dataset")
    behind = up.set_index("dataset")["excess"] - best["excess"]
    sigma = up.set_index("dataset")["parameters"].map(lambda parameters: json.loads(parameters)["sigma"])
    return {
        "real.texts": len(up),
        "real.up": int((~up["at_limit"]).sum()),
        "real.density_limits": int(table.loc[table["distribution"] == "lognormal", "at_limit"].sum()),
        "real.mandelbrot_best": int((best["distribution"] == "zipf_mandelbrot").sum()),
        "real.behind.least": behind.min(),
        "real.behind.most": behind.max(),
        "real.sigma.humaneval": sigma["humaneval"],
        "real.sigma.hotpotqa": sigma["hotpotqa"],
    }


def fits_table(table: pd.DataFrame) -> dict[str, Any]:
    """Show how far each distribution is behind the likeliest of each text, by `rank_fits`."""
    behind = table["excess"] - table.groupby("dataset")["excess"].transform("min")
    wide = table.assign(behind=behind.mask(table["at_limit"])).pivot_table(
        index="dataset", columns="distribution", values="behind", dropna=False
    )
    likeliest_first = reversed(FAMILIES.items())  # on a phone the first columns are seen
    likelihoods: Columns = {name: (kind.label, "{:.4f}") for name, kind in likeliest_first}
    return shown(wide.reset_index(), {"dataset": "Text", **likelihoods}, data=table)


def positions_summary(slopes: pd.DataFrame) -> dict[str, Any]:
    """Summarise the slopes of `fit_by_position` for chapter 4: per cent for a doubling, and for the last."""
    columns = ["slope", "low", "high", "last", "last_low", "last_high"]
    percent = slopes.assign(**{name: 100 * np.expm1(slopes[name]) for name in columns})
    quoted = percent[percent["k"] != 10]
    novels = quoted[quoted["dataset"] == "novels"]
    first = novels[novels["k"] == 1]
    return keyed("real.slope.{dataset}.k{k}", quoted, "slope") | {
        **keyed("real.low.novels.k{k}", novels, "low"),
        **keyed("real.high.novels.k{k}", novels, "high"),
        "real.last.novels.k1": first["last"].item(),
        "real.last_low.novels.k1": first["last_low"].item(),
        "real.last_high.novels.k1": first["last_high"].item(),
    }
