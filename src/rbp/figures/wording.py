"""The book's names for what it shows: datasets, models, cells, and lists of them."""

from collections.abc import Iterable
from typing import Any

from rbp.figures.style import OURS

DATASETS = {
    "wikipedia": "Wikipedia",
    "humaneval": "HumanEval",
    "hotpotqa": "HotpotQA",
    "auslegal": "Australian legal",
    "c4": "C4",
    "pile-github": "GitHub (Pile)",
    "dclm": "DCLM",
    "imagenet": "ImageNet",
    "imagenetv2-matched-frequency": "ImageNet V2",
    "sketch": "ImageNet Sketch",
    "imagenet-real": "ImageNet-Real",
    "imagenet-r": "ImageNet-R",
    "imagenet-a": "ImageNet-A",
    "math": "MATH",
    "xsum": "XSum",
    "squad": "SQuAD",
    "writing": "WritingPrompts",
}

FAMILIES = OURS | {"v1": "Our first Transformer (10k–2.7M)", "ablation": "Ours with other heads (59k, 150k)"}
"""The ladder's families by the names that readers know them by."""


def dataset_label(dataset: str) -> str:
    """Return the name of a dataset as a title shows it."""
    return DATASETS.get(dataset, dataset)


def dataset_order(datasets: Iterable[str]) -> list[str]:
    """Sort the datasets, each once: the paper's first and in its order, then others by name."""
    order = list(DATASETS)
    return sorted(set(datasets), key=lambda name: (order.index(name) if name in order else len(order), name))


def model_label(model: str) -> str:
    """Return the name of a model without its owner's: "pythia-70m" of "EleutherAI/pythia-70m"."""
    return model.rsplit("/", 1)[-1]


def family_label(family: str) -> str:
    """Return the name of a family as a title shows it."""
    return FAMILIES.get(family, family)


def cell_label(row: Any) -> str:
    """Name the family and the dataset of a row, or of whatever else has both: "Pythia on Wikipedia"."""
    return f"{family_label(row.family)} on {dataset_label(row.dataset)}"


def listed(names: Iterable[str], *, joint: str = ", ") -> str:
    """Join the names in one line; "none" where there is none."""
    return joint.join(names) or "none"
