"""Compute the sums and terms of appendix C, their limits along paths, and whether the entropy of ranks is the loss.

With λ = −μ/σ² and w_k = k^{−(1+λ)} exp(−ln²k/(2σ²)), which is ψ(k)/ψ(1): −ln p₁ = ln Σw, and −Σ p ln p follows from
Σw, Σ w ln k and Σ w ln²k.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import erfcx
from scipy.stats import linregress

from companion.evidence import published
from companion.plots import in_cells, melted
from rbp.arrays import Reals
from rbp.figures.curves import curves
from rbp.figures.style import INK, LABELS, Style
from rbp.laws.table import fit_table
from rbp.measurements.histograms import MeasuredRanks, entropy

HEAD = 10_000  # summed rank by rank; then the integral, with Euler and Maclaurin's terms up to the first derivative
_PARTS = ("log_c", "neg_log_p1", "fraction", "entropy")


def exact_sums(mu: Reals, sigma: Reals) -> Reals:
    """Compute Σ w_k lnⁿk over k = 1, 2, … for n = 0, 1, 2, shape (3, m), of μ and σ > 0 of shape (m,).

    In double precision, with relative errors below 1e-9 where −μ/σ is below a hundred.
    """
    q, ln, end = 1 - mu / sigma**2, np.log(np.arange(1, HEAD))[:, None], np.log(HEAD)
    weight = np.exp(-(q + ln / (2 * sigma**2)) * ln)
    last = np.exp(-(q + end / (2 * sigma**2)) * end)
    slope = q + end / sigma**2  # −d ln w/d ln k
    sums = []
    for power, tail in enumerate(_integrals(mu, sigma, end)):
        term = last * end**power
        sums.append((ln**power * weight).sum(axis=0) + tail + term / 2 + (slope - power / end) * term / (12 * HEAD))
    return np.array(sums)


def approximate_sums(mu: Reals, sigma: Reals) -> Reals:
    """Compute the sums as equations 18 to 20 have them: integrals from 1 on, and half of the first term for n = 0."""
    return np.asarray(_integrals(mu, sigma, 0.0) + np.array([[0.5], [0.0], [0.0]]))


def _integrals(mu: Reals, sigma: Reals, start: float) -> Reals:
    """Compute ∫ lnⁿx ψ(x)/ψ(1) dx from x = e^start on, for n = 0, 1, 2: moments of a truncated normal distribution."""
    edge = np.exp((2 * mu - start) * start / (2 * sigma**2))
    tail = np.sqrt(np.pi / 2) * sigma * erfcx((start - mu) / (np.sqrt(2) * sigma)) * edge
    density = sigma * edge
    return np.array([tail, mu * tail + sigma * density, (mu**2 + sigma**2) * tail + sigma * (mu + start) * density])


def parts(mu: Reals, sigma: Reals, sums: Reals) -> dict[str, Reals]:
    """Compute the terms of equations 16 and 17 from μ, σ and the three sums.

    log_scale: ln(√(2π)σ); square: μ²/(2σ²); log_c; neg_log_p1: the sum of these three; fraction: CE + ln p₁, which with
    the approximate sums is equation 26 as printed; entropy: CE as the appendix has it, −Σ p ln p.
    """
    z, z1, z2 = sums
    log_scale, square = np.log(np.sqrt(2 * np.pi) * sigma), mu**2 / (2 * sigma**2)
    fraction = ((1 - mu / sigma**2) * z1 + z2 / (2 * sigma**2)) / z
    terms = {"log_scale": log_scale, "square": square, "log_c": np.log(z) - log_scale - square}
    return terms | {"neg_log_p1": np.log(z), "fraction": fraction, "entropy": np.log(z) + fraction}


def authors_points() -> pd.DataFrame:
    """Read the authors' μ and σ with each model's size and vocabulary, by size: model, size, vocabulary, mu, sigma."""
    models = published.models().rename(columns={"non_embedding_params": "size", "vocab_size": "vocabulary"})
    table = published.lognormal_parameters().merge(models, on="model")
    return table[["model", "size", "vocabulary", "mu", "sigma"]].sort_values("size", ignore_index=True)


def equation_terms(points: pd.DataFrame) -> pd.DataFrame:
    """Add every term of −ln p₁ and CE at μ and σ to `points`, by exact sums and as equations 18 to 21 have them.

    Adds `parts`; parts that depend on the sums also with `_approx`; log_size; ratio (μ/σ); fraction_share and
    fraction_share_approx: of the respective entropy; c_error (the relative error of equation 20's c); c_over_phi
    (c/φ(μ/σ), of equation 24).
    """
    mu, sigma = points["mu"].to_numpy(), points["sigma"].to_numpy()
    exact, near = exact_sums(mu, sigma), approximate_sums(mu, sigma)
    approximate = parts(mu, sigma, near)
    table = points.assign(log_size=np.log(points["size"]), ratio=mu / sigma, **parts(mu, sigma, exact))
    table = table.assign(**{f"{name}_approx": approximate[name] for name in _PARTS})
    shares = {f"fraction_share{end}": table[f"fraction{end}"] / table[f"entropy{end}"] for end in ("", "_approx")}
    return table.assign(**shares, c_error=near[0] / exact[0] - 1, c_over_phi=exact[0] / sigma)


@dataclass(frozen=True)
class Path:
    """A smooth curve through the fitted parameters, two numbers being linear in ln S.

    name: which are linear; r_squared: of the worse of the two lines; at(sizes): μ and σ; asymptotic: the exponent that
    −ln p₁ and CE share in the end, or None where neither is a power of S.
    """

    name: str
    r_squared: float
    at: Callable[[Reals], tuple[Reals, Reals]]
    asymptotic: float | None


def ways_on(points: pd.DataFrame) -> list[Path]:
    """Extend the authors' path in two ways, each by two lines in ln S through the points (size, mu, sigma).

    The first takes μ and σ as linear: then μ/σ tends to a constant and λ = −μ/σ² to 0. The second takes λ and σ as
    linear: then λ → ∞, rank 2 alone is left (path a), and −ln p₁ ≈ 2^{−(1+λ)} falls as S to the power −b ln 2, b being
    λ's slope; CE falls alike, but for a factor that grows as ln S.
    """
    x = np.log(points["size"].to_numpy(float))
    mu, sigma = points["mu"].to_numpy(float), points["sigma"].to_numpy(float)
    mu_line, sigma_line, lam_line = (linregress(x, y) for y in (mu, sigma, -mu / sigma**2))

    def on(line: Any, size: Reals) -> Reals:
        return np.asarray(line.intercept + line.slope * np.log(size))

    def way(name: str, *lines: Any, at: Callable[[Reals], tuple[Reals, Reals]], asymptotic: float | None) -> Path:
        return Path(name, float(min(line.rvalue**2 for line in lines)), at, asymptotic)

    def by_lam(size: Reals) -> tuple[Reals, Reals]:
        sigma = on(sigma_line, size)
        return -on(lam_line, size) * sigma**2, sigma

    def by_mu(size: Reals) -> tuple[Reals, Reals]:
        return on(mu_line, size), on(sigma_line, size)

    power = float(lam_line.slope * np.log(2))
    return [
        way("μ and σ linear in ln S", mu_line, sigma_line, at=by_mu, asymptotic=None),
        way("λ and σ linear in ln S", lam_line, sigma_line, at=by_lam, asymptotic=power),
    ]


def along(path: Path, sizes: npt.ArrayLike) -> pd.DataFrame:
    """Compute −ln p₁ and CE by exact sums along a path: size, mu, sigma, neg_log_p1, entropy.

    alpha_p1 and alpha_ce: their exponents there, −d ln y/d ln S.
    """
    size = np.asarray(sizes, dtype=np.float64)
    mu, sigma = path.at(size)
    terms = parts(mu, sigma, exact_sums(mu, sigma))
    y = {"neg_log_p1": terms["neg_log_p1"], "entropy": terms["entropy"]}
    alpha = [-np.gradient(np.log(metric), np.log(size)) for metric in y.values()]
    return pd.DataFrame({"size": size, "mu": mu, "sigma": sigma, **y, "alpha_p1": alpha[0], "alpha_ce": alpha[1]})


def summary(terms: pd.DataFrame, ways: Sequence[Path], paths: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """Summarise `equation_terms`, `ways_on`, and the tables of `along` by the ways' names."""
    last, straight = terms.iloc[-1], paths[ways[0].name]
    printed = terms["fraction_share_approx"]
    values = {f"{name}.last": last[name] for name in ("neg_log_p1", "log_c", "log_scale", "square")}
    values |= {f"ratio_r_squared.{x}": terms[x].corr(terms["ratio"]) ** 2 for x in ("size", "log_size")}
    return values | {
        "points": len(terms),
        "c_error_worst": terms["c_error"].abs().max(),
        "c_over_phi_max": terms["c_over_phi"].max(),
        "c_over_phi_min": terms["c_over_phi"].min(),
        "fraction_share_min": printed.min(),
        "fraction_share_max": printed.max(),
        "fraction_share_exact_min": terms["fraction_share"].min(),
        "fraction_share_exact_max": terms["fraction_share"].max(),
        "square_min": terms["square"].min(),
        "log_c_below_0": int((terms["log_c"] < 0).sum()),
        "path_r_squared.linear": ways[0].r_squared,
        "path_r_squared.lambda": ways[1].r_squared,
        "path_turns_at.linear": float(straight["size"].to_numpy()[straight["entropy"].to_numpy().argmin()]),
        "path_asymptotic": ways[1].asymptotic,
    }


def entropies(measured: Iterable[MeasuredRanks]) -> pd.DataFrame:
    """Measure cross-entropy and the entropy of ranks, which equation 17 takes for it, of every model.

    Columns dataset, family, model, size; cross_entropy, rank_entropy (nats); share: the second over the first;
    formula, exact: what the authors' μ and σ give by equation 21 and by exact sums, where there are any.
    """
    points = equation_terms(authors_points())[["model", "entropy_approx", "entropy"]]
    points = points.rename(columns={"entropy_approx": "formula", "entropy": "exact"}).assign(dataset="wikipedia")
    rows = [
        (ranks.dataset, ranks.family, ranks.model, ranks.size, ranks.cross_entropy, entropy(ranks.counts)[0])
        for ranks in measured
    ]
    names = ["dataset", "family", "model", "size", "cross_entropy", "rank_entropy"]
    table = pd.DataFrame(rows, columns=names).merge(points, how="left", on=["dataset", "model"])
    table = table.assign(share=table["rank_entropy"] / table["cross_entropy"])
    return table.sort_values(["dataset", "family", "size"], ignore_index=True)


def entropy_summary(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise `entropies`: of Pythia, and of our small models, a power law of each entropy for each text.

    gap_share: by what share of cross-entropy the entropy of ranks exceeds it, at Pythia's smallest and largest model.
    ours.entropy_high, .entropy_closer: texts on which R² of the entropy of ranks is 0.97 or more, and above that of
    cross-entropy; ours.share_falls: on which its share of cross-entropy is smaller at the largest model.
    """
    share = table.loc[table["family"] == "Pythia", "share"]
    ours = table[table["family"] == "neox"]
    fits = fit_table(
        ours.melt(["dataset", "family", "model", "size"], ["cross_entropy", "rank_entropy"], "metric"),
        ["dataset", "metric"],
    ).pivot_table(index="dataset", columns="metric", values="r_squared")
    shares = ours.groupby("dataset")["share"].agg(["first", "last"])
    return {
        "gap_share.first": share.iloc[0] - 1,
        "gap_share.last": share.iloc[-1] - 1,
        "ours.texts": len(shares),
        "ours.share_min": ours["share"].min(),
        "ours.share_max": ours["share"].max(),
        "ours.share_falls": int((shares["last"] < shares["first"]).sum()),
        "ours.entropy_high": int((fits["rank_entropy"] >= 0.97).sum()),
        "ours.entropy_closer": int((fits["rank_entropy"] > fits["cross_entropy"]).sum()),
        "ours.r_squared_min": fits["rank_entropy"].min(),
    }


# Figures

_TERMS = {
    "square": ("μ²/(2σ²)", Style("#9457C0", "D")),
    "log_scale": ("ln(√(2π) σ)", Style("#5C8A2E", "^")),
    "log_c": ("ln c", Style("#C2447A", "o")),
    "neg_log_p1": ("their sum, −ln p₁", Style(INK, "s", "-", 2.4)),
    "entropy": ("−Σ p ln p", Style("#A0522D", "v")),
}


def terms_figure(terms: pd.DataFrame) -> dict[str, Any]:
    """Plot the terms of equation 16, their sum, and the entropy, against S: a table of `equation_terms`."""
    names = {column: name for column, (name, _) in _TERMS.items()}
    figure = curves(
        melted(terms, names, "size"), "size", "value", labels=(LABELS["size"], "nats"), panel=None,
        styles=dict(_TERMS.values()), name_ends=True, heights=[0], size=(4.6, 3.4),
    )  # fmt: skip
    return {
        "figure": figure,
        "alt": "Lines against size: ln c falls, mu squared over two sigma squared rises, their sum with the third term "
        "falls slowly; the entropy falls faster",
        "data": terms,
    }


def paths_figure(paths: Mapping[str, pd.DataFrame], points: pd.DataFrame) -> dict[str, Any]:
    """Plot −ln p₁ and the entropy along each path (tables of `along`), with the fitted points."""
    looks = {"neg_log_p1": ("−ln p₁", Style("#4E79A7", "o")), "entropy": ("−Σ p ln p", Style("#A0522D", "v"))}
    names = {column: name for column, (name, _) in looks.items()}
    lines = [melted(curve, names, "size").assign(path=name) for name, curve in paths.items()]
    values = pd.concat(lines)["value"]
    return {
        "figure": curves(
            pd.concat([melted(points, names, "size").assign(path=name) for name in paths]), "size", "value",
            labels=(LABELS["size"], "nats"), panel="path", styles=dict(looks.values()), fitted=lines, name_ends=True,
            log="xy", ylim=(0.8 * values.min(), 1.2 * values.max()), size=(4.6, 3.0),
        ),
        "alt": "Two panels: on the left both metrics level off and rise again, on the right both go on falling",
        "data": pd.concat([curve.assign(path=name) for name, curve in paths.items()]),
    }  # fmt: skip


def entropy_figure(table: pd.DataFrame) -> dict[str, Any]:
    """Plot cross-entropy and the entropies that might be it against S, of Pythia and of our models on Wikipedia."""
    looks = {
        "cross_entropy": ("cross-entropy", Style(INK, "", "-", 2.4)),
        "rank_entropy": ("ranks", Style("#9457C0", "", "-", 2.4)),
        "exact": ("authors’ μ, σ", Style("#C2447A", "", "--")),
        "formula": ("equation 21", Style("#5C8A2E", "", ":")),
    }
    cells = in_cells(table[table["dataset"] == "wikipedia"])
    names = {column: name for column, (name, _) in looks.items()}
    return {
        "figure": curves(
            melted(cells, names, "size", by=["cell"]), "size", "value", labels=(LABELS["size"], "nats"), panel="cell",
            styles=dict(looks.values()), name_ends=True, size=(4.6, 3.2),
        ),
        "alt": "For Pythia cross-entropy lies below the entropy of ranks, further below at larger models; for our "
        "small models the two lie close together",
        "data": table,
    }  # fmt: skip
