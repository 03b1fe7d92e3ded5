"""How often intervals over documents cover what they should, on the ladder's own documents: data/ladder/coverage.csv.

    python tests/rbp/laws/interval_coverage.py

The documents of a text that the ladder ranked are all there are: the text's own value is the truth. Texts of some of
its documents are drawn from them, with replacement, and each of KINDS makes its interval of every statistic. `covered`:
how often the truth lies inside; `width`: the mean width; `score`: the mean of the width and 2/(1 − level) times the
distance to a truth outside, which a right interval makes least (Gneiting and Raftery 2007, section 6.2). Both are
divided by the least of the kinds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as t_distribution

from companion.project import LADDER
from companion.stats.clustering import log_design_effect
from ladder.shipped import counted
from rbp.io import write_file
from rbp.laws.resampling import interval, log_neg_log_share, without_each
from rbp.measurements.counts import Counts

Case = tuple[Any, Callable[[Any], Any]]  # sums by document, shape (D, q), and a function of totals, shape (…, q)
KS = (1, 10, 100)
LEVELS = (0.95, 0.8)
CHOSEN = "leave one out, Student's t"
DOCUMENTS = (10, 20, 40, 164)  # of a drawn text, and as many as its own; beyond 164 the kinds hardly differ
CELL = ["text", "documents", "statistic", "level"]


def cases(text: Counts) -> dict[str, Case]:
    """What the book reports of a text: −ln RBP_k, differences and exponents of it, cross-entropy, a design effect."""
    own = text.of("neox")
    rungs, tokens = own.firsts, own.tokens.astype(float)
    x = np.log(own.sizes[rungs].astype(float))
    x -= x.mean()
    small, large, count = rungs[0], rungs[-1], len(rungs)

    def y(hits: Any, tokens: Any) -> Any:
        return np.log(-np.log(hits / tokens))

    def in_entropy(totals: Any) -> Any:
        ln_rbp, ln_ce = y(totals[..., :count], totals[..., -1:]), np.log(totals[..., count:-1] / totals[..., -1:])
        away = ln_ce - ln_ce.mean(axis=-1, keepdims=True)
        return (away * ln_rbp).sum(axis=-1) / (away**2).sum(axis=-1)

    found: dict[str, Case] = {}
    for i, k in enumerate(KS):
        hits = own.hits[:, :, i]
        found[f"ln(−ln RBP), k = {k}"] = np.column_stack([hits[:, large], tokens]), log_neg_log_share
        found[f"difference of two models, k = {k}"] = (
            np.column_stack([hits[:, large], hits[:, small], tokens]),
            lambda totals: y(totals[..., 0], totals[..., 2]) - y(totals[..., 1], totals[..., 2]),
        )
        found[f"α, k = {k}"] = (
            np.column_stack([hits[:, rungs], tokens]),
            lambda totals: -(y(totals[..., :-1], totals[..., -1:]) @ x) / (x @ x),
        )
    found["ln cross-entropy"] = (
        np.column_stack([own.nll[:, large], tokens]),
        lambda totals: np.log(totals[..., 0] / totals[..., 1]),
    )
    found["slope in ln CE, k = 1"] = np.column_stack([own.hits[:, rungs, 0], own.nll[:, rungs], tokens]), in_entropy
    a = own.hits[:, large, 0].astype(float)
    squares = np.column_stack([np.ones_like(a), a, a, tokens, a * a, a * tokens, tokens**2])  # see `cluster_sums`
    found["ln design effect, k = 1"] = squares, log_design_effect
    return found


def linearized(sums: Any, times: Any, totals: Any, statistic: Callable[[Any], Any]) -> Any:
    """The standard error of the statistic in each draw, from its derivatives, taken by a complex step."""
    tiny = 1e-30
    slopes = np.stack([np.imag(statistic(totals + 1j * tiny * unit)) / tiny for unit in np.eye(sums.shape[1])], axis=-1)
    pull, count = slopes @ sums.T, len(sums)
    first = np.einsum("rq,rq->r", slopes, totals) / count
    second = np.einsum("rd,rd->r", times, pull**2)
    return np.sqrt(np.maximum(second - count * first**2, 0) * count / (count - 1))


def kinds(sums: Any, statistic: Callable[[Any], Any], times: Any) -> Iterator[tuple[str, float, float, float]]:
    """Each kind of interval of a statistic at each of LEVELS: its name, the level, and its ends.

    sums: shape (D, q), by document; times: how often each is in every draw, shape (draws, D).
    """
    count, totals = len(sums), times @ sums
    without = np.real(statistic(without_each(sums) + 0j))
    value, whole = without[0], sums.sum(axis=0, keepdims=True)
    (error,) = linearized(sums, np.ones((1, count)), whole, statistic)
    drawn = np.real(statistic(totals + 0j))
    away = (drawn - value) / linearized(sums, times, totals, statistic)
    drawn, away = np.sort(drawn[np.isfinite(drawn)]), away[np.isfinite(away)]
    bent = without[1:].mean() - without[1:]
    speed, middle = np.sum(bent**3) / np.sum(bent**2) ** 1.5 / 6, norm.ppf(np.mean(drawn < value))
    for level in LEVELS:
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        t, z = t_distribution.ppf(tails, count - 1), norm.ppf(tails)
        ends = np.quantile(drawn, tails)
        yield "percentile", level, *ends
        yield "basic", level, *(2 * value - ends[::-1])
        yield "percentile, widened", level, *np.quantile(drawn, norm.cdf(t * np.sqrt(count / (count - 1))))
        yield "BCa", level, *np.quantile(drawn, norm.cdf(middle + (middle + z) / (1 - speed * (middle + z))))
        yield "bootstrap-t", level, *(value - np.quantile(away, tails[::-1]) * error)
        yield "linearised, Student's t", level, *(value + t * error)
        yield CHOSEN, level, *interval(without, level=level)[1:]


def simulate(text: Counts, documents: int, *, texts: int, draws: int, seed: Sequence[int]) -> pd.DataFrame:
    """A row for each statistic, level and kind: CELL, kind, covered, width, score."""
    rng = np.random.default_rng(seed)
    population = cases(text)
    truth = {name: float(np.real(statistic(sums.sum(axis=0) + 0j))) for name, (sums, statistic) in population.items()}
    even, rows = np.full(documents, 1 / documents), []
    for _ in range(texts):
        chosen = rng.integers(len(text.tokens), size=documents)
        times = rng.multinomial(documents, even, size=draws).astype(float)
        for name, (sums, statistic) in population.items():
            with np.errstate(all="ignore"):
                for kind, level, low, high in kinds(sums[chosen], statistic, times):
                    outside = max(low - truth[name], truth[name] - high, 0)
                    score = high - low + 2 / (1 - level) * outside
                    rows.append((text.dataset, documents, name, level, kind, outside == 0, high - low, score))
    found = pd.DataFrame(rows, columns=[*CELL, "kind", "covered", "width", "score"])
    means = found.groupby([*CELL, "kind"], sort=False).mean().reset_index()
    least = means.groupby(CELL)[["width", "score"]].transform("min")
    return means.assign(width=means["width"] / least["width"], score=means["score"] / least["score"])


def main() -> None:
    parts = []
    for i, text in enumerate(counted(KS, families=["neox"])):
        own = len(text.tokens)
        for documents in sorted({n for n in DOCUMENTS if n <= own} | ({own} if own < DOCUMENTS[-1] else set())):
            parts.append(simulate(text, documents, texts=1000, draws=1000, seed=(0, i, documents)))
    write_file(LADDER / "coverage.csv", pd.concat(parts).round(4).to_csv(index=False))


if __name__ == "__main__":
    main()
