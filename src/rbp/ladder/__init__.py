"""Trains families of small models, ranks and ships them. Importing it lets `rbp.ranks` open its texts and models."""

from rbp.core.registry import ARCHITECTURES, CORPORA
from rbp.ranks.corpora import Corpus

TEXTS = "ladder/"  # before the name of a domain: the corpus on which the shipped models were ranked


def _open_domain(domain: str) -> Corpus:
    from rbp.ladder.ranking import open_domain

    return open_domain(domain)


def _know_lstm() -> None:
    import rbp.ladder.architectures  # noqa: F401 (registers its class)


CORPORA[TEXTS] = _open_domain
ARCHITECTURES["rbp_lstm"] = _know_lstm
