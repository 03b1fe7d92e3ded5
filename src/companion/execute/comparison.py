"""Compare runs of a chapter: the law of each family on each dataset at each k."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from companion.execute.rerun import fit_laws
from companion.execute.run import Chapter, text_of
from rbp.errors import ParameterError
from rbp.figures.curves import curves, scaling_panels
from rbp.io import write_file
from rbp.report.display import written
from rbp.report.law import verdicts
from rbp.report.page import write_page

CELL = ["family", "dataset", "metric", "k"]
PANELS = 12  # of measurements, at most
AXES = ("threshold k", "exponent α")


def labels(chapter: Chapter, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each run by its values of the parameters in which the runs differ; numbered where these agree."""
    texts = [{p.name: text_of(p, values[p.name]) for p in chapter.parameters} for values in runs]
    differing = [p.name for p in chapter.parameters if len({run[p.name] for run in texts}) > 1]
    alone = len(differing) == 1 and not texts[0][differing[0]].replace(".", "").isdigit()  # a number needs its name
    named = [", ".join(run[name] if alone else f"{name} = {run[name]}" for name in differing) for run in texts]
    return [f"{name} ({i})" if named.count(name) > 1 else name for i, name in enumerate(named, 1)]


def compare(chapter: Chapter, runs: Sequence[Mapping[str, Any]], page: Path) -> pd.DataFrame:
    """Write a page that compares runs, and a CSV file; returns its table in words, a row for each cell.

    runs: the parameters of each. Raises ParameterError where a run fits no law, or a family by none of the same name.
    """
    every = [chapter.effective(values) for values in runs]
    names, laws = labels(chapter, every), [fit_laws(chapter, values) for values in every]
    fitted = [law for law in laws if law is not None]
    if len(fitted) < len(runs):
        raise ParameterError("the runs have no fits in size", chapter.name, "Compare runs of other chapters.")
    table = pd.concat([law.fits[CELL] for law in fitted]).drop_duplicates()
    for name, law in zip(names, fitted, strict=True):
        fits = law.fits.assign(verdict=verdicts(law.fits))
        columns = {key: f"{key} | {name}" for key in ("alpha", "alpha_low", "alpha_high", "r_squared", "verdict")}
        fits = fits[[*CELL, *columns]].rename(columns=columns)
        table = table.merge(fits, on=CELL, how="left")
    both = pd.concat([law.fits.assign(run=name) for name, law in zip(names, fitted, strict=True)], ignore_index=True)
    ranks = both[both["k"].notna() & both["alpha"].notna()].rename(columns={"alpha_low": "low", "alpha_high": "high"})
    points = pd.concat([law.rows.assign(run=name) for name, law in zip(names, fitted, strict=True)], ignore_index=True)
    points = points[points["k"].notna()].drop_duplicates([*CELL, "model", "value"])
    panels = [f"{dataset}, k = {k}" for dataset, k in zip(points["dataset"], points["k"], strict=True)]
    points = points.assign(family=_lines(points), of=panels)
    shown = len(set(points["run"])) > 1 and len(set(panels)) <= PANELS
    cells = {"Family": table["family"], "Dataset": table["dataset"], "Measure": table["k"].map(_measure)}
    in_words = pd.DataFrame(cells | {name: _laws_in_words(table, name) for name in names})
    write_page(
        page,
        Path(__file__).with_suffix(".html"),
        title=f"{chapter.title}: {len(runs)} runs compared",
        difference=difference(table, names),
        exponents=curves(ranks.assign(line=_lines(ranks)), "k", "alpha", labels=AXES, heights=[0])
        if len(ranks)
        else None,
        measurements=scaling_panels(points, ylabel="−ln RBPₖ", panel="of") if shown else None,
        laws=in_words,
    )
    write_file(page.with_suffix(".csv"), table.to_csv(index=False, lineterminator="\n").encode())
    return in_words


def difference(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Say in a sentence or two what differs between runs.

    table: a row for each cell, with columns "verdict | NAME", "alpha | NAME" and its interval's ends, of each run.
    """
    by_run = {column: table[[f"{column} | {name}" for name in names]] for column in ("alpha", "verdict")}
    shared = by_run["alpha"].notna().all(axis=1)
    verdict = shared & by_run["verdict"].ne(by_run["verdict"].iloc[:, 0], axis=0).any(axis=1)
    highest_low = table[[f"alpha_low | {name}" for name in names]].max(axis=1)
    apart = shared & (highest_low > table[[f"alpha_high | {name}" for name in names]].min(axis=1))
    same = shared & np.isclose(by_run["alpha"].max(axis=1), by_run["alpha"].min(axis=1), rtol=1e-9, atol=0)
    text = f"{int(shared.sum())} of {len(table)} cases of family, dataset and measure have a fit in every run. "
    if not shared.any():
        return text + "So nothing can be compared."
    if same.all() and not verdict.any() and shared.all():
        return text + "The runs do not differ: every exponent and every verdict is the same."
    differing = f"Among them the verdict on the law differs in {int(verdict.sum())}, and the exponent α in "
    return text + f"{differing}{int((shared & ~same).sum())}; in {int(apart.sum())} the intervals of α do not meet."


def _measure(k: Any) -> str:
    return "cross-entropy" if pd.isna(k) else f"k = {k:,}"


def _laws_in_words(table: pd.DataFrame, name: str) -> list[str]:
    columns = [f"{column} | {name}" for column in ("alpha", "alpha_low", "alpha_high", "r_squared", "verdict")]
    rows = table[columns].itertuples(index=False)
    return [written("{:.3f} [{:.3f}, {:.3f}], R² {:.3f}: {}", row) for row in rows]


def _lines(rows: pd.DataFrame) -> list[str]:
    return [f"{family}, {run}" for family, run in zip(rows["family"], rows["run"], strict=True)]
