"""How often intervals over documents cover the truth, on the texts that our small models ranked.

    python -m companion.evidence.interval_coverage                          data/ladder/coverage.csv

The documents of a ranked text are the population, and the text's own value is the truth. Texts are sampled from them
with replacement, and each kind of interval is made of every statistic. `covered`: how often the truth lies inside;
`width`: the mean width; `score`: the mean of the width and 2/(1 − level) times the distance to a truth outside, which a
correct interval minimizes (Gneiting and Raftery 2007, section 6.2). Both are divided by the least of the kinds.
The shipped table is older than `degrees_of_freedom`: it has D − 1 of them.
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
from rbp.laws.resampling import degrees_of_freedom, interval, log_neg_log_share, without_each
from rbp.measurements.counts import Counts

Statistic = Callable[[Any], Any]  # of totals, shape (…, q); shape (…)
KS = (1, 10, 100)
LEVELS = (0.95, 0.8)
DOCUMENTS = (10, 20, 40, 164)  # of a sampled text, and as many as its own; beyond 164 the kinds hardly differ
CELL = ["text", "documents", "statistic", "level"]


def statistics(text: Counts) -> dict[str, tuple[Any, Statistic]]:
    """Return what the book reports of a text, by name: sums by document, shape (D, q), and a function of their totals.

    −ln RBP_k, differences and exponents of it, cross-entropy, and a design effect.
    """
    neox = text.of("neox")
    rungs, tokens = neox.firsts, neox.tokens.astype(float)
    x = np.log(neox.sizes[rungs].astype(float))
    x -= x.mean()
    small, large, count = rungs[0], rungs[-1], len(rungs)

    def y(hits: Any, tokens: Any) -> Any:
        return np.log(-np.log(hits / tokens))

    def slope_in_entropy(totals: Any) -> Any:
        ln_rbp, ln_ce = y(totals[..., :count], totals[..., -1:]), np.log(totals[..., count:-1] / totals[..., -1:])
        centred = ln_ce - ln_ce.mean(axis=-1, keepdims=True)
        return (centred * ln_rbp).sum(axis=-1) / (centred**2).sum(axis=-1)

    cases: dict[str, tuple[Any, Statistic]] = {}
    for i, k in enumerate(KS):
        hits = neox.hits[:, :, i]
        cases[f"ln(−ln RBP), k = {k}"] = np.column_stack([hits[:, large], tokens]), log_neg_log_share
        cases[f"difference of two models, k = {k}"] = (
            np.column_stack([hits[:, large], hits[:, small], tokens]),
            lambda totals: y(totals[..., 0], totals[..., 2]) - y(totals[..., 1], totals[..., 2]),
        )
        cases[f"α, k = {k}"] = (
            np.column_stack([hits[:, rungs], tokens]),
            lambda totals: -(y(totals[..., :-1], totals[..., -1:]) @ x) / (x @ x),
        )
    cases["ln cross-entropy"] = (
        np.column_stack([neox.nll[:, large], tokens]),
        lambda totals: np.log(totals[..., 0] / totals[..., 1]),
    )
    sums = np.column_stack([neox.hits[:, rungs, 0], neox.nll[:, rungs], tokens])
    cases["slope in ln CE, k = 1"] = sums, slope_in_entropy
    a = neox.hits[:, large, 0].astype(float)
    squares = np.column_stack([np.ones_like(a), a, a, tokens, a * a, a * tokens, tokens**2])  # see `cluster_sums`
    cases["ln design effect, k = 1"] = squares, log_design_effect
    return cases


def linearized_error(sums: Any, times: Any, totals: Any, statistic: Statistic) -> Any:
    """Return the statistic's standard error in each sample, from its derivatives, by a complex step."""
    step = 1e-30
    slopes = np.stack([np.imag(statistic(totals + 1j * step * unit)) / step for unit in np.eye(sums.shape[1])], axis=-1)
    influence, count = slopes @ sums.T, len(sums)
    first = np.einsum("rq,rq->r", slopes, totals) / count
    second = np.einsum("rd,rd->r", times, influence**2)
    return np.sqrt(np.maximum(second - count * first**2, 0) * count / (count - 1))


def intervals(sums: Any, statistic: Statistic, times: Any, tokens: Any) -> Iterator[tuple[str, float, float, float]]:
    """Return each kind of interval of a statistic at each of LEVELS: its name, the level, and its ends.

    sums: shape (D, q), by document; times: how often each document is in every sample, shape (samples, D); tokens: of
    each document, from which Student's t has its degrees of freedom.
    """
    count, totals, df = len(sums), times @ sums, degrees_of_freedom(tokens)
    without = np.real(statistic(without_each(sums) + 0j))
    value, population = without[0], sums.sum(axis=0, keepdims=True)
    (error,) = linearized_error(sums, np.ones((1, count)), population, statistic)
    sampled = np.real(statistic(totals + 0j))
    pivots = (sampled - value) / linearized_error(sums, times, totals, statistic)
    sampled, pivots = np.sort(sampled[np.isfinite(sampled)]), pivots[np.isfinite(pivots)]
    left_out = without[1:].mean() - without[1:]
    acceleration, bias = np.sum(left_out**3) / np.sum(left_out**2) ** 1.5 / 6, norm.ppf(np.mean(sampled < value))
    for level in LEVELS:
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        t, z = t_distribution.ppf(tails, df), norm.ppf(tails)
        quantiles = np.quantile(sampled, tails)
        yield "percentile", level, *quantiles
        yield "basic", level, *(2 * value - quantiles[::-1])
        yield "percentile, widened", level, *np.quantile(sampled, norm.cdf(t * np.sqrt(count / (count - 1))))
        yield "BCa", level, *np.quantile(sampled, norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))))
        yield "bootstrap-t", level, *(value - np.quantile(pivots, tails[::-1]) * error)
        yield "linearised, Student's t", level, *(value + t * error)
        yield "leave one out, Student's t", level, *interval(without, df, level=level)[1:]


def simulate(text: Counts, documents: int, *, texts: int, draws: int, seed: Sequence[int]) -> pd.DataFrame:
    """Return a row for each statistic, level and kind: CELL, kind, covered, width, score."""
    rng = np.random.default_rng(seed)
    cases, rows = statistics(text), []
    truth = {name: float(np.real(statistic(sums.sum(axis=0) + 0j))) for name, (sums, statistic) in cases.items()}
    for _ in range(texts):
        chosen = rng.integers(len(text.tokens), size=documents)
        times = rng.multinomial(documents, np.full(documents, 1 / documents), size=draws).astype(float)
        for name, (sums, statistic) in cases.items():
            with np.errstate(all="ignore"):
                for kind, level, low, high in intervals(sums[chosen], statistic, times, text.tokens[chosen]):
                    outside = max(low - truth[name], truth[name] - high, 0)
                    score = high - low + 2 / (1 - level) * outside
                    rows.append((text.dataset, documents, name, level, kind, outside == 0, high - low, score))
    table = pd.DataFrame(rows, columns=[*CELL, "kind", "covered", "width", "score"])
    means = table.groupby([*CELL, "kind"], sort=False).mean().reset_index()
    least = means.groupby(CELL)[["width", "score"]].transform("min")
    return means.assign(width=means["width"] / least["width"], score=means["score"] / least["score"])


def main() -> None:
    """Write data/ladder/coverage.csv."""
    tables = []
    for i, text in enumerate(counted(KS, families=["neox"])):
        most = min(len(text.tokens), DOCUMENTS[-1])
        for documents in sorted({most, *(n for n in DOCUMENTS if n <= most)}):
            tables.append(simulate(text, documents, texts=1000, draws=1000, seed=(0, i, documents)))
    write_file(LADDER / "coverage.csv", pd.concat(tables).round(4).to_csv(index=False))


if __name__ == "__main__":
    main()
