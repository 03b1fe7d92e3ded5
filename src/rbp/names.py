"""How the book names what it shows: datasets, models, and cells of a table."""

from collections.abc import Iterable
from typing import Any

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
