"""The forecasts of the real model (real.toml, real_damaged.toml and openings.toml in data/predictions), scored."""

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.chapters import lognormal, openings, paths, real, real_damage
from companion.execute.steps import step
from companion.project import DATA
from rbp.figures.wording import dataset_label

PREDICTIONS = DATA / "predictions" / "real.toml"
LATER = DATA / "predictions" / "real_damaged.toml"
OPENINGS = DATA / "predictions" / "openings.toml"
KINDS = {  # a line each in the figure of scores
    "early": "misses: first three",
    "removed": "misses: start token",
    "rare": "misses: rare tokens",
    "ratio": "windows: ratio",
    "within_documents": "windows: in documents",
    "within_blocks": "windows: in 64 tokens",
    "new": "windows: new",
    "spread_models": "spread of damages",
    "spread_all": "spread of all ways",
    "least_k": "ln of the least k",
    "sigma": "lognormal: sigma",
    "excess_ceil": "lognormal: excess",
    "slope": "slope by position",
    "rate": "1 token before: rate",
    "fold": "1 against 33 to 128",
    "fold32": "1 against 9 to 32",
    "cured": "1 to 4: start token",
    "event": "event",
}
_WINDOWS = {
    "ratio": real.WHOLE,
    "within_documents": real.DOCUMENTS,
    "within_blocks": real.BLOCKS,
    "new": real.NEW,
}


def read_predictions(path: Path = PREDICTIONS) -> tuple[pd.DataFrame, float]:
    """Read the predictions in their order, as the appendix's `score` takes them, and their probability."""
    return paths.read_predictions(path, about=("name", "what", "text", "k", "level", "way", "context"))


def describe(table: pd.DataFrame) -> "pd.Series[str]":
    """Describe each prediction in a few words."""

    def words(row: Any) -> str:
        if row.kind == "event":
            return str(row.what)
        parts = [KINDS[row.kind]]
        if isinstance(row.text, str):
            parts.append("mean of texts" if row.text == "mean" else dataset_label(row.text))
        parts += [f"k = {row.k:.0f}"] if pd.notna(row.k) else []
        parts += [f"{row.level:+g} nats"] if pd.notna(row.level) else []
        parts += [real_damage.WAYS[row.way]] if isinstance(row.way, str) else []
        return ", ".join(parts)

    return pd.Series([words(row) for row in table.itertuples()], table.index, dtype="str")


@step("real_fits", reads=["data/real/ranks.parquet"], seconds=6)
def real_fits() -> pd.DataFrame:
    """Fit every distribution to the real model's ranks from rank 1 on: `lognormal.fits`."""
    return lognormal.fits(real.measured(), firsts=(1,))


class Findings:
    """The results of the real model's rankings, each computed when it is first used."""

    @cached_property
    def misses(self) -> pd.DataFrame:
        """The table `real.miss_table`."""
        return real.miss_table((1_000, 10_000))

    @cached_property
    def windows(self) -> pd.DataFrame:
        """The table `real.window_ratios` at N = 10."""
        return real.window_ratios().query("n == 10")

    @cached_property
    def fits(self) -> pd.DataFrame:
        """The table of the step `real_fits`."""
        return real_fits().set_index(["dataset", "distribution"])

    @cached_property
    def slopes(self) -> pd.DataFrame:
        """The slopes of `real.by_position`."""
        return real.by_position()[1].set_index(["dataset", "k"])

    @cached_property
    def spreads(self) -> pd.DataFrame:
        """`real_damage.spread_table` on Wikipedia."""
        return real_damage.spread_table(real_damage.worse("wikipedia"))

    def value(self, row: Any) -> float:
        """Look up the outcome of a number."""
        if row.kind in ("early", "removed", "rare"):
            rows = self.misses[self.misses["k"] == row.k]
            if row.text == "mean":
                return real.mean_removed(rows)["removed"]
            return float(rows.set_index("dataset")[row.kind][row.text])
        if row.kind in _WINDOWS:
            rows = self.windows[self.windows["kind"] == _WINDOWS[row.kind]]
            return float(rows.set_index(["dataset", "k"])["ratio"][row.text, row.k])
        if row.kind == "slope":
            return float(self.slopes["slope"][row.text, row.k])
        if row.kind == "sigma":
            return lognormal.distribution_of(self.fits.loc[(row.text, "lognormal_ceiling")].rename(None)).parameters[
                "sigma"
            ]
        if row.kind == "excess_ceil":
            return float(self.fits["excess"][row.text, "lognormal_ceiling"])
        return _spread(self.spreads, row)


def _spread(spreads: pd.DataFrame, row: Any) -> float:
    rows = spreads[
        (spreads["rise"] == row.level) & (spreads["of"] == ("models" if row.kind == "spread_models" else "all"))
    ]
    if row.kind == "least_k":
        return float(np.log(rows.loc[rows["is_least"], "k"].iloc[0]))
    return float(rows.set_index("k")["spread"][row.k])


def _refuted(findings: Findings, kind: str) -> bool:
    rows = findings.windows.query("kind == @kind and k == 1")
    return len(rows) == 2 and bool((rows["p_explained"] < 0.05).all())


def _reaches_1(high: float) -> float:
    """Compare the end of an interval with 1; NaN, not decided, where too few windows succeed for an interval."""
    return float(high >= 1) if np.isfinite(high) else np.nan


def _advice(spreads: pd.DataFrame) -> bool:
    levels = [rows for _, rows in spreads.query("of == 'all'").groupby("rise")]
    return all(not rows.loc[rows["k"].between(5, 30), "least"].any() for rows in levels)


def _small(spreads: pd.DataFrame) -> bool:
    return bool((spreads.query("of == 'models' and k <= 100")["high"] < 1).all())


def _differ(spreads: pd.DataFrame, text: str) -> bool:
    return not _small(spreads) and bool((real_damage.pairs(real_damage.worse(text))["p_holm"] < 0.05).any())


_EVENTS: dict[str, Callable[[Findings], Any]] = {
    "rare_refuted": lambda findings: (
        findings.misses.query("dataset == 'humaneval' and k == 1000")["p_more"].item() < 0.05
    ),
    "first_refuted": lambda findings: real.mean_removed(findings.misses.query("k == 1000"))["p_fewer"] < 0.05,
    "document_rate_refuted": lambda findings: _refuted(findings, real.DOCUMENTS),
    "stretch_rate_refuted": lambda findings: _refuted(findings, real.BLOCKS),
    "together_refuted": lambda findings: _reaches_1(
        findings.windows.query("kind == @real.NEW and k == 1 and dataset == 'wikipedia'")["high"].item()
    ),
    "sentence_refuted": lambda findings: _small(findings.spreads),
    "sentence_stands": lambda findings: _differ(findings.spreads, "wikipedia"),
    "advice_refuted": lambda findings: _advice(findings.spreads),
    "density_runs": lambda findings: findings.fits.xs("lognormal", level="distribution")["at_limit"].all(),
    "ceil_finite": lambda findings: not findings.fits.xs("lognormal_ceiling", level="distribution")["at_limit"].any(),
    "cutoff_loses": lambda findings: (
        (
            findings.fits.xs("power_law_cutoff", level="distribution")["excess"]
            > findings.fits.xs("zipf_mandelbrot", level="distribution")["excess"]
        ).sum()
        >= 3
    ),
    "stops": lambda findings: (findings.slopes["p"].xs("novels") > 0.05).all(),
}


def measure_outcomes(table: pd.DataFrame) -> pd.DataFrame:
    """Add the outcome to each prediction (`outcome`)."""
    findings = Findings()
    rows: Iterable[Any] = table.rename(columns={"name": "event"}).itertuples()
    values = [float(_EVENTS[row.event](findings)) if row.kind == "event" else findings.value(row) for row in rows]
    return table.assign(outcome=values)


def measure_damaged(table: pd.DataFrame) -> pd.DataFrame:
    """Add the outcome to each prediction of real_damaged.toml (`outcome`)."""
    misses = real_damage.damaged_misses().set_index(["way", "dataset"])
    whole = {text: misses.xs(text, level="dataset") for text in ("humaneval", "wikipedia")}
    falls = (whole["humaneval"]["early_p"] < 0.05) & (whole["humaneval"]["early"] < whole["humaneval"]["early_whole"])
    rises = (whole["wikipedia"]["rare_p"] < 0.05) & (whole["wikipedia"]["rare"] > whole["wikipedia"]["rare_whole"])
    spreads = real_damage.spread_table(real_damage.worse("auslegal"))
    events = {
        "early_falls": falls.all(),
        "rare_gains_wikipedia": rises.all(),
        "sentence_stands_judgments": _differ(spreads, "auslegal"),
        "advice_refuted_judgments": _advice(spreads),
    }

    def outcome(row: Any) -> float:
        if row.kind == "event":
            return float(events[row.event])
        return float(misses[row.kind][row.way, row.text]) if row.kind in ("early", "rare") else _spread(spreads, row)

    rows: Iterable[Any] = table.rename(columns={"name": "event"}).itertuples()
    return table.assign(outcome=[outcome(row) for row in rows])


def measure_openings(table: pd.DataFrame) -> pd.DataFrame:
    """Add the outcome to each prediction of openings.toml (`outcome`)."""
    ks = (10_000, 20_000)
    measured, by_bin = openings.openings(ks).set_index(["dataset", "k"]), openings.rates(ks)
    one = by_bin[(by_bin["bos"] == "never") & (by_bin["among"] == "all")].set_index(["dataset", "k", "context"])["rate"]
    causes = measured["cause"].xs(10_000, level="k")
    events = {
        "openings_stand": (measured["part"].xs(20_000, level="k") == openings.STANDS).all(),
        "no_context": (causes == openings.CAUSES["no_context"]).all(),
        "protocol": (causes == openings.CAUSES["protocol"]).any(),
    }

    def outcome(row: Any) -> float:
        if row.kind == "event":
            return float(events[row.event])
        if row.kind == "rate":
            return float(one[row.text, row.k, row.context])
        return float(measured[row.kind][row.text, row.k])

    rows: Iterable[Any] = table.rename(columns={"name": "event"}).itertuples()
    return table.assign(outcome=[outcome(row) for row in rows])
