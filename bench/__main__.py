"""`make bench`: what our code costs, each time as a ratio against a reference measured in the same run.

A ratio of 2 means twice the reference's time. Pairs are timed in turn, so that a slow moment hits both.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import linregress

from rbp.evidence import open_source, published
from rbp.stats.offset_law import fit_offset
from rbp.stats.power_law import fit_power_law


def paired(ours: Callable[[], object], reference: Callable[[], object], rounds: int, calls: int) -> list[float]:
    """The ratio ours/reference of each round of `calls` calls; the first round, a warm-up, is left out."""
    ratios = []
    for _ in range(rounds + 1):
        seconds = []
        for call in (ours, reference):
            start = time.perf_counter()
            for _ in range(calls):
                call()
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    return ratios[1:]


def main() -> None:
    """Time every pair and print the table."""
    size = np.geomspace(1e6, 1e10, 10)
    value = 4 * size**-0.08 * np.exp(np.random.default_rng(0).normal(0, 0.02, size.size))
    files = [published.FOLDER / f"{name}.csv" for name in ("models", "rbp", "sequence_success", "gpt2_window_counts")]

    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)  # noqa: S603

    pairs: list[tuple[str, str, Callable[[], object], Callable[[], object], int]] = [
        (
            "fit_power_law, 10 points",
            "scipy.stats.linregress",
            lambda: fit_power_law(size, value),
            lambda: linregress(np.log(size), np.log(value)),
            100,
        ),
        (
            "fit_offset, 10 points, with profile intervals",
            "fit_power_law",
            lambda: fit_offset(size, value),
            lambda: fit_power_law(size, value),
            5,
        ),
        (
            "load the measurement table, all checks",
            "pandas.read_csv of its four main files",
            lambda: open_source("published").table,
            lambda: [pd.read_csv(file) for file in files],
            3,
        ),
        ("rbp --help", "python -c pass", run("-m", "rbp.cli", "--help"), run("-c", "pass"), 3),
    ]
    table = Table("ours", "reference", "ratio (median)", "smallest to largest of 7 rounds")
    for name, reference, ours, other, calls in pairs:
        ratios = paired(ours, other, rounds=7, calls=calls)
        table.add_row(name, reference, f"{median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
