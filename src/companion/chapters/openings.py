"""Do misses at large k come from the openings of texts? A real model on passages that were cut at random places.

Definitions and rules were registered before the runs (data/predictions/openings.toml); the ranks are in data/real, as
`python -m companion.evidence.real openings` leaves them.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from companion.execute.page import keyed
from companion.project import DATA
from companion.stats.cells import holm
from companion.stats.recovery import DOCUMENTS, SCORED_PER_DOCUMENT
from rbp import provenance
from rbp.arrays import Reals
from rbp.figures.curves import curves
from rbp.laws.resampling import degrees_of_freedom, document_sums, interval, variance, without_each

OPENINGS = DATA / "real" / "openings.parquet"
TEXTS = ("wikipedia", "auslegal", "novels")
WAYS = {"never": "no start token", "always": "with a start token"}
KS = (1_000, 10_000, 20_000, 30_000)
#: how many tokens of left context, without a start token: the last of each bin, and the bins' names
LAST = (0, 1, 2, 4, 8, 32, 128)
BINS = ("0", "1", "2", "3–4", "5–8", "9–32", "33–128")
ONE, EARLY, MIDDLE, LONG = 1, slice(1, 4), 5, 6  # the bins of 1, 1 to 4, 9 to 32 and 33 to 128 tokens
WIDTH = np.diff((-1, *LAST))  # lengths of context in each bin
TWICE, HALF = 2.0, 0.5  # the registered bars: of the fold, and of the share that a start token cures
STANDS, REFUTED, UNDECIDED = "stands", "refuted", "open"
PROTOCOL, NO_CONTEXT = "protocol", "no context"  # causes of the excess: a start token cures it, or does not


@cache
def read_passages() -> pd.DataFrame:
    """Read every ranked token: columns document, passage, context, rank, rare, text, bos."""
    provenance.note(OPENINGS)
    return pd.read_parquet(OPENINGS)


def _df(text: str) -> float:
    rows = read_passages()
    return degrees_of_freedom(rows.loc[(rows["text"] == text) & (rows["bos"] == "never"), "document"].value_counts())


def sums_by_bin(text: str, way: str, k: int) -> Reals:
    """Count misses at k and tokens of each bin, of all documents and of all but each: shape (1 + D, 2, bins).

    Documents are the same for both ways.
    """
    table = read_passages()
    rows = table[(table["text"] == text) & (table["bos"] == way)]
    place = np.searchsorted(LAST, rows["context"])
    inside = place[:, None] == np.arange(len(LAST))
    missed = inside & (rows["rank"].to_numpy() > k)[:, None]
    # by document, in ascending order, so that the ways can be compared without each
    order = np.argsort(rows["document"].to_numpy(), kind="stable")
    columns = np.column_stack([missed, inside])[order]
    sums = document_sums(columns, rows["document"].to_numpy()[order])
    return without_each(sums).reshape(-1, 2, len(LAST))


def miss_rates(ks: Sequence[int] = KS, *, level: float = 0.95) -> pd.DataFrame:
    """Compute how many tokens of each bin are missed, in per cent: dataset, bos, k, context, rate, low, high.

    Also place (of the bin), tokens and missed. Intervals by documents, of the logarithm; missing where nothing is
    missed, or in one document alone.
    """
    rows = []
    for text, way, k in product(TEXTS, WAYS, ks):
        sums = sums_by_bin(text, way, k)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(100 * sums[:, 0] / sums[:, 1])
        rates = np.exp(interval(logs, _df(text), level=level))
        columns = zip(BINS, range(len(BINS)), sums[0, 1].astype(int), sums[0, 0].astype(int), *rates, strict=True)
        rows += [(text, way, k, *values) for values in columns if values[2]]
    names = ["dataset", "bos", "k", "context", "place", "tokens", "missed", "rate", "low", "high"]
    return pd.DataFrame(rows, columns=names)


def _excess(sums: Reals) -> Reals:
    """Misses at contexts 1 to 4 less what so many tokens would miss with a long context, shape (1 + D,)."""
    return np.asarray(sums[:, 0, EARLY].sum(axis=1) - WIDTH[EARLY].sum() / WIDTH[LONG] * sums[:, 0, LONG])


def opening_statistics(ks: Sequence[int] = KS, *, level: float = 0.95) -> pd.DataFrame:
    """Compute the registered statistics of each text and k, with intervals by documents and the rules' outcomes.

    dataset, k, documents, tokens, missed (both without a start token, contexts 1 to 128), excess (misses at contexts 1
    to 4 beyond those of a long context); fold, fold32: the rate after one token over that after 33 to 128, and 9 to 32;
    early: share of the misses at contexts 1 to 4; cured: share of the excess that a start token removes; each with _low
    and _high. p_more, p_fewer: of fold32 at most, and at least, TWICE; p_cured, p_not: of cured at most, and at least,
    HALF (one-sided, Student's t by documents, Holm over texts). part, cause: what the rules say.
    """
    rows = []
    for text, k in product(TEXTS, ks):
        never, always = (sums_by_bin(text, way, k) for way in WAYS)
        missed = never[:, 0, 1:].sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.log(never[:, 0] / never[:, 1])
            logs = {
                "fold": rate[:, ONE] - rate[:, LONG],
                "fold32": rate[:, ONE] - rate[:, MIDDLE],
                "early": np.log(never[:, 0, EARLY].sum(axis=1) / missed),
                "left": np.log(_excess(always) / _excess(never)),
            }
        row = {"dataset": text, "k": k, "documents": len(never) - 1, "tokens": int(never[0, 1, 1:].sum())}
        row |= {"missed": int(missed[0]), "excess": _excess(never)[0]}
        for name, values in logs.items():
            estimate, low, high = np.exp(interval(values, _df(text), level=level))
            if name == "left":
                name, estimate, low, high = "cured", 1 - estimate, 1 - high, 1 - low
            row |= {name: estimate, f"{name}_low": low, f"{name}_high": high}
        for name, bar, (more, fewer) in (
            ("fold32", TWICE, ("p_more", "p_fewer")),
            ("left", HALF, ("p_not", "p_cured")),
        ):
            z = (logs[name][0] - np.log(bar)) / np.sqrt(variance(logs[name]))
            row |= {more: student_t.sf(z, _df(text)), fewer: student_t.cdf(z, _df(text))}
        rows.append(row)
    table = pd.DataFrame(rows)
    for name in ("p_more", "p_fewer", "p_not", "p_cured"):
        table[name] = table.groupby("k")[name].transform(lambda p: holm(p.fillna(1)))
    part = np.select([table["p_more"] < 0.05, table["p_fewer"] < 0.05], [STANDS, REFUTED], UNDECIDED)
    cause = np.select([table["p_cured"] < 0.05, table["p_not"] < 0.05], [PROTOCOL, NO_CONTEXT], UNDECIDED)
    return table.assign(part=part, cause=cause)


def early_and_rare(text: str = "wikipedia", k: int = 10_000) -> dict[str, float]:
    """Cross early (contexts 1 to 4) with rare tokens: the share of misses in each cell, in per cent.

    Without a start token, contexts 1 to 128: early_rare, early_other, late_rare, late_other.
    """
    table = read_passages()
    rows = table[(table["text"] == text) & (table["bos"] == "never") & (table["context"] > 0) & (table["rank"] > k)]
    early, rare = rows["context"] <= LAST[3], rows["rare"]
    cells = {
        "early_rare": early & rare,
        "early_other": early & ~rare,
        "late_rare": ~early & rare,
        "late_other": ~early & ~rare,
    }
    return {name: float(100 * cell.mean()) for name, cell in cells.items()}


def chunk_openings(tokens: int, k: int = 10_000) -> dict[str, float]:
    """Estimate how many misses of the authors' measurement on Wikipedia openings of chunks could be.

    tokens: behind the published counts. Each chunk adds the sum over contexts 1 to 32 of the rate less that of 33 to
    128, both measured here: a transfer from another model, vocabulary and cut of the text. `least`: for as few chunks
    as hold so many tokens, as registered; `most`: for one of each of the authors' documents.
    """
    missed, scored = sums_by_bin("wikipedia", "never", k)[0]
    rate = missed / np.maximum(scored, 1)
    of_one = float(WIDTH[ONE : MIDDLE + 1] @ (rate[ONE : MIDDLE + 1] - rate[LONG]))
    return {"least": tokens / SCORED_PER_DOCUMENT * of_one, "most": DOCUMENTS["wikipedia"] * of_one}


# ── What the page shows and says


def summarize_openings(table: pd.DataFrame, by_bin: pd.DataFrame) -> dict[str, Any]:
    """Collect the numbers of `noise`, counts, ratios and per cent, from `opening_statistics` and `miss_rates`."""
    at_10000, beyond = (table[table["k"] == k] for k in (10_000, 20_000))
    every = by_bin[(by_bin["bos"] == "never") & (by_bin["k"] == 10_000)]
    after_one, long = (every.loc[every["place"] == place, "rate"] for place in (ONE, LONG))
    percent = at_10000.assign(**{name: 100 * at_10000[name] for name in ("cured", "cured_low", "cured_high")})
    cells = early_and_rare()
    return {
        "openings.texts": len(TEXTS),
        "openings.tokens.least": int(table["tokens"].min()),
        "openings.early_tokens": 100 * WIDTH[EARLY].sum() / LAST[-1],
        "openings.early.least.k20000": 100 * beyond["early"].min(),
        "openings.early.most.k20000": 100 * beyond["early"].max(),
        "openings.fold32.least.k20000": beyond["fold32"].min(),
        "openings.fold32.most.k20000": beyond["fold32"].max(),
        "openings.fold32.lowest_end.k20000": beyond["fold32_low"].min(),
        "openings.stand.k20000": int((beyond["part"] == STANDS).sum()),
        "openings.cured.least.k10000": percent["cured"].min(),
        "openings.cured.most.k10000": percent["cured"].max(),
        **keyed("openings.cured.{dataset}.k10000", percent, "cured"),
        **keyed("openings.cured_low.{dataset}.k10000", percent, "cured_low"),
        **keyed("openings.cured_high.{dataset}.k10000", percent, "cured_high"),
        "openings.no_context.k10000": int((at_10000["cause"] == NO_CONTEXT).sum()),
        "openings.protocol.k10000": int((at_10000["cause"] == PROTOCOL).sum()),
        "openings.one.least": after_one.min(),
        "openings.one.most": after_one.max(),
        "openings.long.least": long.min(),
        "openings.long.most": long.max(),
        "openings.early_rare": cells["early_rare"],
        "openings.early_other": cells["early_other"],
        "openings.late_rare": cells["late_rare"],
        "openings.late_other": cells["late_other"],
    }


def rates_figure(table: pd.DataFrame) -> dict[str, Any]:
    """Plot the share of missed tokens against the left context, without a start token: a panel for each text."""
    first = np.array([0, *(last + 1 for last in LAST[:-1])])
    rows = table[table["bos"] == "never"]
    rows = rows.assign(first=first[rows["place"]]).query("missed > 0")
    return {
        "figure": replace(
            curves(
                rows, "first", "rate", labels=("tokens before (bin’s least)", "missed tokens (%)"), line="k",
                log="xy", ylim="shared", size=(3.0, 2.7),
            ),
            columns=3,
        ),
        "alt": "Shares of missed tokens that fall with the number of tokens before, for each k, a panel for each text",
        "data": table,
    }  # fmt: skip
