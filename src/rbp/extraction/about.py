"""What a rank store says about itself beyond what determines its ranks."""

import csv
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import torch
from transformers.utils import logging as theirs

from rbp import __version__
from rbp.errors import DataError
from rbp.extraction.forward import Ranker
from rbp.extraction.models import ModelFiles
from rbp.extraction.store import Store
from rbp.paths import DATA

log = logging.getLogger(__name__)


def family(files: ModelFiles) -> str:
    """The paper's name of the family for its 24 models, the model type for others."""
    with (DATA / "published" / "models.csv").open(encoding="utf-8", newline="") as lines:
        families = {row["model"]: row["family"] for row in csv.DictReader(lines)}
    return families.get(files.name) or str(files.config.get("model_type", "unknown"))


def circumstances(ranker: Ranker) -> dict[str, Any]:
    """The size of the model, how it was run, on what, and with which versions."""
    language = ranker.language
    cuda = language.device.type == "cuda"
    packages = ("torch", "transformers", "tokenizers", "pyarrow")
    return {
        "size": language.size,
        "vocabulary": ranker.vocabulary or language.vocabulary,
        "head": "one matrix" if ranker.head is not None else "the model's own logits",
        "rows": "padded" if ranker.padded else "unpadded",
        "versions": {"rbp": __version__, "python": platform.python_version(), **{p: version(p) for p in packages}},
        "device": torch.cuda.get_device_name(language.device) if cuda else platform.machine(),
        "threads": torch.get_num_threads(),
        "batch": ranker.batch,
    }


def warn_of_versions(store: Store) -> None:
    """Say so if a store that goes on was begun with another PyTorch or transformers."""
    try:
        before = store.manifest["about"]["versions"]
    except (DataError, KeyError):
        return
    for name in ("torch", "transformers"):
        if before.get(name) != version(name):
            log.warning("begun with %s %s, going on with %s: last bits may differ", name, before[name], version(name))


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and advice of transformers among our lines."""
    level = theirs.get_verbosity()
    theirs.set_verbosity_error()  # type: ignore[no-untyped-call]
    theirs.disable_progress_bar()  # type: ignore[no-untyped-call]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        yield
    finally:
        theirs.set_verbosity(level)
        theirs.enable_progress_bar()  # type: ignore[no-untyped-call]
