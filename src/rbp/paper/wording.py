"""How the book names what it shows, and sentences that follow the measurements, whichever they are."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

DATASETS = {
    "wikipedia": "Wikipedia",
    "humaneval": "HumanEval",
    "hotpotqa": "HotpotQA",
    "auslegal": "Australian legal",
    "c4": "C4",
    "pile-github": "GitHub (Pile)",
}


def dataset_label(dataset: str) -> str:
    """The name of a dataset as a title shows it."""
    return DATASETS.get(dataset, dataset)


def dataset_order(datasets: Iterable[str]) -> list[str]:
    """The datasets, each once: the paper's first and in its order, then others by name."""
    known = list(DATASETS)
    return sorted(set(datasets), key=lambda name: (known.index(name) if name in known else len(known), name))


def model_label(model: str) -> str:
    """The name of a model without its owner's: "pythia-70m" of "EleutherAI/pythia-70m"."""
    return model.rsplit("/", 1)[-1]


def cell_label(row: Any) -> str:
    """ "Pythia on Wikipedia": the family and the dataset of a row, or of whatever else has both."""
    return f"{row.family} on {dataset_label(row.dataset)}"


def listed(names: Iterable[str], *, joint: str = ", ", none: str = "none") -> str:
    """The names in one line, or the word for no name."""
    return joint.join(names) or none


def fits_listed(fits: pd.DataFrame, *, r_squared: bool = False, joint: str = ", ") -> str:
    """The cells of fits in one line: "GPT-2 on HumanEval at k = 100", with R² in brackets if wanted; or "none"."""
    ends = [f" ({each:.3f})" for each in fits["r_squared"]] if r_squared else [""] * len(fits)
    rows = zip(fits.itertuples(), ends, strict=True)
    return listed((f"{cell_label(row)} at k = {row.k}{end}" for row, end in rows), joint=joint)


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def word(n: int) -> str:
    """A small number in a sentence: "four", and "13" beyond twelve."""
    return _WORDS[n] if n < len(_WORDS) else str(n)


def joined(names: Sequence[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def beside_print(agree: int, numbers: int, ours: str = "Ours") -> str:
    """How many of our numbers round to those that the paper prints; or that it prints none."""
    if not numbers:
        return "The paper prints nothing for these data."
    return f"{ours} round to the same digits in {agree} of {numbers} numbers."


def leaning(told: pd.DataFrame) -> str:
    """Which way forecasts err: "too hopeful", "too cautious", or neither; `told` comes from `cells.forecasts`."""
    share = float((told["error"] < 0).mean())
    return (
        "too hopeful" if share > 2 / 3 else "too cautious" if share < 1 / 3 else "as often too hopeful as too cautious"
    )


def other_families(told: pd.DataFrame, reference: str) -> str:
    """What became of the forecasts for families other than the `reference`; "" where there is none."""
    few, hopeful = told[told["family"] != reference], told["error"] < 0
    if few.empty:
        return ""
    width = 100 * ((few["high"] - few["low"]) / few["predicted"]).median()
    by_family = hopeful.groupby(told["family"])
    against = [family for family, own in by_family if (own.mean() > 1 / 2) != (hopeful.mean() > 1 / 2)]
    counts = joined([f"{family} ({int(own.sum())} of {len(own)})" for family, own in by_family if family in against])
    exceptions = f"; {'the exception is' if len(against) == 1 else 'exceptions are'} {counts}" if against else ""
    return (
        f"For the other families {int(few['covered'].sum())} of {len(few)} are covered, by intervals that are, at the "
        f"median, {width:.0f} per cent of the forecast wide. Over all families {int(hopeful.sum())} of {len(told)} "
        f"forecasts are too hopeful{exceptions}."
    )


def closest_curve(errors: pd.Series) -> str:
    """Which curve forecast best and which worst; `errors`: the curves' median errors, by name."""
    names = {"power law": "The power law", "offset": "The law with a floor"}
    best, worst = (names.get(str(name), f"The {name}") for name in (errors.idxmin(), errors.idxmax()))
    return f"{best} comes closest; {worst[0].lower()}{worst[1:]} is farthest off."


def same_side(residuals: pd.DataFrame) -> tuple[int, int]:
    """How many neighbours in size lie on the same side of their line, and of how many.

    `residuals` comes from `cells.residuals`.
    """
    same = pairs = 0
    for _, own in residuals.sort_values("size").groupby(["dataset", "k", "family"]):
        sides = np.sign(own["residual"].to_numpy())
        same += int((sides[1:] == sides[:-1]).sum())
        pairs += len(sides) - 1
    return same, pairs


def imitations(drawn: pd.DataFrame, good_fit: float) -> str:
    """How often a high R² comes from a true power law, and how often from a logarithm, at each family's sizes.

    `drawn` comes from `cells.imitations`.
    """
    cells = []
    for family, own in drawn.sort_values(["n", "sampled"]).groupby("sampled", sort=False):
        share = (100 * own.set_index("shape")["share"]).map("{:.0f}".format)
        sizes = f"{word(int(own['n'].iloc[0]))} sizes of {family}"
        cells.append(f"{share['power law']} and {share['logarithm']} per cent at the {sizes}")
    least = drawn.loc[drawn["shape"] == "logarithm", "smooth"].min()
    return (
        f"Without scatter, a plain logarithm at these sizes gives the power law an R² of {least:.4f} or more. "
        f"With scatter, a true power law and the logarithm reach R² = {good_fit:.2f} in so many draws: {joined(cells)}."
    )
