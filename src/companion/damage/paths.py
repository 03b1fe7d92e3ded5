"""One model, degraded in many ways (`rbp paths run`): its steps, and its paths as curves that can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from companion.damage.equal_loss import Curve, best_temperature, curve, offset_table, offsets
from companion.damage.sums import CELL, EARLIER, SMALLER, TEMPERATURES, THRESHOLDS, WHOLE, Paths, read_paths
from rbp.errors import DataError
from rbp.io import write_file
from rbp.laws.resampling import without_each
from rbp.store import full_disk

EQUAL, TEMPERED = "cross-entropy", "cross-entropy at the best temperature"
_FALLING = ("context", "depth", "bits", SMALLER)  # the whole model is at the other end of these


@dataclass(frozen=True)
class Worse:
    """Measurements of a model and its degraded versions on one text."""

    measured: Paths

    @property
    def model(self) -> str:
        """Return the model's name."""
        return Path(self.measured.title[0]).name

    @property
    def dataset(self) -> str:
        """Return the text's name."""
        return self.measured.title[1]

    @property
    def thresholds(self) -> list[int]:
        """Return the k at which hits were counted, below the vocabulary's size."""
        return [k for k in THRESHOLDS if k < self.measured.manifest["about"]["vocabulary"]]

    @property
    def documents(self) -> list[int]:
        """Return the documents, by their places in the text."""
        return sorted({*self.measured.sums["document"].tolist()})

    @property
    def tokens(self) -> int:
        """Return how many tokens were scored at each step."""
        return int(self.measured.sums.loc[self.measured.sums["path"] == WHOLE, "tokens"].sum())

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Tabulate every step: CELL, tokens, cross_entropy and entropy (nats a token), temperature, tempered, k1, k2, …

        temperature: the best one; tempered: the cross-entropy there; k1, k2, …: −ln RBP_k at each threshold.
        """
        rows = []
        for cell, step_sums in self.measured.sums.groupby(CELL, sort=False):
            total = step_sums.drop(columns=CELL).astype(np.float64).sum()
            tokens = total["tokens"]
            temperature, nll = best_temperature(*_by_temperature(total.to_frame().T), TEMPERATURES)
            row = dict(zip(CELL, cell, strict=True)) | {
                "tokens": int(tokens),
                "cross_entropy": total["nll_1.0"] / tokens,
            }
            row |= {"entropy": total["entropy"] / tokens, "temperature": temperature[0], "tempered": nll[0] / tokens}
            with np.errstate(divide="ignore"):
                rows.append(row | {f"k{k}": -np.log(total[f"hits_{k}"] / tokens) + 0.0 for k in self.thresholds})
        return pd.DataFrame(rows)

    @cached_property
    def curves(self) -> list[Curve]:
        """Return all paths, a curve for each draw."""
        whole = self.measured.sums[self.measured.sums["path"] == WHOLE]
        curves = []
        for (path, _), sums in self.measured.sums.groupby(["path", "draw"], sort=False):
            if path == WHOLE:
                continue
            order = sums.drop_duplicates(["step", "model"]).sort_values("step", ascending=path not in _FALLING)
            parts = [
                whole,
                *(sums[(sums[["step", "model"]] == at).all(axis=1)] for at in order[["step", "model"]].to_numpy()),
            ]
            names = [
                self.model,
                *(
                    Path(m).name if path in (SMALLER, EARLIER) else f"{s:g}"
                    for s, m in order[["step", "model"]].itertuples(index=False)
                ),
            ]
            curves.append(self._curve(str(path), int(sums["draw"].iloc[0]), names, parts))
        return curves

    def _curve(self, path: str, draw: int, names: Sequence[str], parts: Sequence[pd.DataFrame]) -> Curve:
        sums = [part.set_index("document").sort_index() for part in parts]
        if any(not one["tokens"].equals(sums[0]["tokens"]) for one in sums):
            raise DataError("its steps are of other tokens", f"{self.model} on {self.dataset}", "Measure it again.")
        tokens = sums[0]["tokens"].to_numpy()
        hits = np.stack([one[[f"hits_{k}" for k in self.thresholds]].to_numpy() for one in sums], axis=1)
        nll = np.stack([one["nll_1.0"].to_numpy() for one in sums], axis=1)
        pairs = [_by_temperature(one) for one in sums]
        least = [best_temperature(without_each(v), without_each(s), TEMPERATURES)[1] for v, s in pairs]
        tempered = np.stack(least, axis=1) / without_each(tokens)[:, None]
        return curve(path, draw, names, tokens, hits, nll, tempered)

    @property
    def df(self) -> float:
        """Return the degrees of freedom of intervals by the documents."""
        return self.curves[0].df

    def smaller(self) -> list[str]:
        """Return the models whose cross-entropies are levels, the largest first."""
        return [name for one in self.curves if one.path == SMALLER for name in one.names[1:]]

    def equal(self, *, level: float = 0.95) -> pd.DataFrame:
        """Tabulate all paths' offsets at each smaller model's cross-entropy, and at that after the best temperature.

        Columns at (which of the two), rung, nats (the level), then `offset_table`'s.
        """
        parts = []
        for kind in (EQUAL, TEMPERED):
            for rung in self.smaller():
                path_offsets = offsets(self.curves, SMALLER, rung, tempered=kind == TEMPERED)
                nats = self.steps.loc[self.steps["model"].map(lambda m: Path(m).name) == rung]
                about = {
                    "at": kind,
                    "rung": rung,
                    "nats": nats["tempered" if kind == TEMPERED else "cross_entropy"].iloc[0],
                }
                parts.append(offset_table(path_offsets, self.thresholds, self.df, level=level).assign(**about))
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
        return table if table.empty else table[["at", "rung", "nats", *table.columns.drop(["at", "rung", "nats"])]]


def _by_temperature(sums: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    nll, slope = (sums[[f"{what}_{t}" for t in TEMPERATURES]].to_numpy(np.float64) for what in ("nll", "slope"))
    return nll, slope


def open_paths(folder: Path) -> Worse:
    """Open what `rbp paths run` measured into a folder. Raises DataError where nothing is."""
    return Worse(read_paths(folder))


def write_tables(worse: Worse, folder: Path) -> None:
    """Write steps.csv, and equal.csv where smaller models were measured."""
    with full_disk(folder):
        write_file(folder / "steps.csv", worse.steps.to_csv(index=False, float_format="%.6g"))
        if worse.smaller():
            write_file(folder / "equal.csv", worse.equal().to_csv(index=False, float_format="%.6g"))
