"""Find what other packages add to the library, by entry points of their distributions: a group for each kind.

    rbp.sources        words of `open_source`: a mapping of each to its `rbp.measurements.sources.Named`; a word that is
                       the entry's name, or has it before a colon, is found without a look at others
    rbp.corpora        a name before a slash; the function opens the rest of the corpus's name
    rbp.architectures  a ``model_type`` of config.json; the function makes transformers know it
    rbp.training       a function of a model's folder: fields of `rbp.models.training.Training`, or {}
    rbp.tokenizers     a function of a model's folder: where its tokenizer lies, or None
    rbp.models         a function: models that are known by hub id, each a mapping with family and sizes
    rbp.commands       a command of `rbp`: a function, or a group of them (`typer.Typer`)

Nothing is imported before it is loaded.
"""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, get_args

Kind = Literal["sources", "corpora", "architectures", "training", "tokenizers", "models", "commands"]


_all_entries = cache(entry_points)  # a look through all distributions, which takes as long for one group


@cache
def entries(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of a kind by their names, sorted."""
    points = {entry.name: entry for entry in _all_entries().select(group=f"rbp.{kind}")}
    return dict(sorted(points.items()))


def modules() -> list[str]:
    """List the modules of installed additions, commands left out: what a measurement may depend on."""
    kinds: list[Kind] = [kind for kind in get_args(Kind) if kind != "commands"]
    return sorted({entry.module for kind in kinds for entry in entries(kind).values()})


def answers(kind: Kind, question: object) -> Iterator[Any]:
    """Yield what each function of a kind gives for a question, without empty answers."""
    for entry in entries(kind).values():
        if answer := entry.load()(question):
            yield answer


def known_models() -> dict[str, dict[str, str]]:
    """Return the models that installed packages know, by hub id: family, non_embedding_params, total_params, …"""
    return {name: row for entry in entries("models").values() for name, row in entry.load()().items()}
