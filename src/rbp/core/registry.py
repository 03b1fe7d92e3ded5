"""What a lower room needs of a higher one, handed in by the higher one's ``__init__``: so no import leads up.

Each entry is a function, which imports what is heavy when it is called.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

#: how a corpus's name begins, and what opens it, given the rest of the name: a `rbp.ranks.corpora.Corpus`
CORPORA: dict[str, Callable[[str], Any]] = {}

#: a ``model_type`` of config.json, and what makes transformers know it
ARCHITECTURES: dict[str, Callable[[], None]] = {}

#: each gives what it knows of the training of the model in a folder (fields of `rbp.ranks.training.Training`), or {}
TRAINING: list[Callable[[Path], dict[str, Any]]] = []
