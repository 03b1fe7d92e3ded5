"""What the families register with `rbp` by entry points: texts, architectures, and what is known of a model."""

from pathlib import Path
from typing import Any

from ladder import LADDER
from rbp.io import parse_json
from rbp.texts.corpora import Corpus


def open_domain(domain: str) -> Corpus:
    """Open the corpus on which the shipped models were ranked, of a domain such as "humaneval"."""
    from ladder.ranking import evaluation_corpus, evaluation_documents

    return evaluation_corpus(domain, evaluation_documents(domain))


def know_lstm() -> None:
    """Make transformers know the class of our LSTMs."""
    import ladder.architectures  # noqa: F401 (registers it)


def training_of(folder: Path) -> dict[str, Any]:
    """Return what the records say of a shipped model, or of one trained in a ladder's folder; {} of others."""
    folder = folder.resolve()
    above = folder.parent.parent
    record = above / "training" / folder.name / "run.json"
    try:
        if above == (LADDER / "families").resolve():
            records = parse_json((LADDER / "families.json").read_bytes())
            training_record = next(entry for entry in records if entry["name"] == folder.name)
        elif folder.parent.name == "models" and record.is_file():
            training_record = parse_json(record.read_bytes())
        else:
            return {}
        return {
            "training_tokens": int(training_record["budget"]),
            "step": int(training_record["steps"]),
            "seed": int(training_record["seed"]),
        }
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return {}


def tokenizer_of(folder: Path) -> Path | None:
    """Return the one tokenizer of the shipped models; None for others."""
    return LADDER / "tokenizer" if folder.resolve().is_relative_to((LADDER / "families").resolve()) else None
