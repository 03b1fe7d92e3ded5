"""Trains families of small models, ranks and ships them. Importing it lets `rbp.ranks` open its texts and models."""

from pathlib import Path
from typing import Any

from rbp.core.files import parse_json
from rbp.core.paths import LADDER
from rbp.core.registry import ARCHITECTURES, CORPORA, TRAINING
from rbp.ranks.corpora import Corpus

TEXTS = "ladder/"  # before the name of a domain: the corpus on which the shipped models were ranked


def _open_domain(domain: str) -> Corpus:
    from rbp.ladder.ranking import open_domain

    return open_domain(domain)


def _know_lstm() -> None:
    import rbp.ladder.architectures  # noqa: F401 (registers its class)


def _training_of(folder: Path) -> dict[str, Any]:
    """What the records say of one of the shipped models, or of one trained in a ladder's folder; {} of others."""
    folder = folder.resolve()
    above = folder.parent.parent
    own = above / "training" / folder.name / "run.json"
    try:
        if above == (LADDER / "families").resolve():
            records = parse_json((LADDER / "families.json").read_bytes())
            about = next(each for each in records if each["name"] == folder.name)
        elif folder.parent.name == "models" and own.is_file():
            about = parse_json(own.read_bytes())
        else:
            return {}
        return {"training_tokens": int(about["budget"]), "step": int(about["steps"]), "seed": int(about["seed"])}
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return {}


CORPORA[TEXTS] = _open_domain
ARCHITECTURES["rbp_lstm"] = _know_lstm
TRAINING.append(_training_of)
