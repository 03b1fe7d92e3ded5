"""How the book names what it shows, and sentences that follow the measurements, whichever they are."""

from collections.abc import Iterable, Sequence
from typing import Any

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


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_FEW = 5  # up to so many sizes, a family has few


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


def _sizes(fits: pd.DataFrame) -> str:
    return f"{joined([word(n) for n in sorted(set(fits['n'].astype(int)))], 'or')} sizes"


def _offer(families: Sequence[str]) -> str:
    return f"{joined(families)} {'offers' if len(families) == 1 else 'offer'}"


def precision(fits: pd.DataFrame) -> str:
    """How many sizes the families offer, and how wide the intervals of α are, in families of many sizes and of few.

    `fits` is a `cells.fit_table` without missing fits.
    """
    width = 100 * (fits["alpha_high"] - fits["alpha_low"]) / fits["alpha"]
    small = fits["n"] <= _FEW
    many, few = fits[~small], fits[small]
    if many.empty or few.empty:
        start = f"{_offer(sorted(set(fits['family'])))} {_sizes(fits)}, and the intervals of α"
        return f"{start} are {width.median():.0f} per cent of α wide at the median."
    families = sorted(set(many["family"]))
    return (
        f"Only {_offer(families)} {_sizes(many)}. The other families offer {_sizes(few)}, and their intervals of α are "
        f"{width[small].median():.0f} per cent of α wide at the median, against {width[~small].median():.0f} per cent "
        f"for {joined(families)}."
    )


def spans(points: pd.DataFrame) -> str:
    """By which factor the sizes of a family differ: of the narrowest family, and of the widest if it is another."""
    span = points.groupby("family")["size"].agg(lambda size: size.max() / size.min())
    narrowest = f"{span.min():,.0f} ({span.idxmin()})".replace(",", " ")
    return narrowest if len(span) == 1 else f"{narrowest} to {span.max():,.0f} ({span.idxmax()})".replace(",", " ")
