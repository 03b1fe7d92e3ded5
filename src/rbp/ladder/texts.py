"""The ladder's text: what is trained on, what is evaluated on, and that the two share no long passage."""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError
from rbp.ladder.recipe import Recipe, Source

WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Document:
    """A text and what it is called in its corpus."""

    name: str
    text: str


@dataclass(frozen=True)
class Texts:
    """training: documents by source; evaluation: by domain; left_out: names of training documents by source."""

    training: dict[str, list[Document]]
    evaluation: dict[str, list[Document]]
    left_out: dict[str, list[str]]


def gather(recipe: Recipe, folder: Path) -> Texts:
    """All text of the ladder from the corpus files in `folder` and the packages installed here.

    Raises DataError if a file or a package is missing, or holds no document.
    """
    sources = {source.name: _documents(source, folder) for source in recipe.sources}
    evaluation = {}
    for domain in recipe.domains:
        if domain.file is not None:
            evaluation[domain.name] = _corpus(folder / domain.file, domain.fields)
    for domain in recipe.domains:
        if domain.source is not None:
            held_out = next(source.held_out for source in recipe.sources if source.name == domain.source)
            evaluation[domain.name], sources[domain.source] = hold_out(
                sources[domain.source], held_out, recipe.text.seed
            )
    passages = Passages(
        (document.text for documents in evaluation.values() for document in documents), recipe.text.passage
    )
    shares = {name: [passages.shared(document.text) for document in documents] for name, documents in sources.items()}
    training = {
        name: [document for document, shared in zip(documents, shares[name], strict=True) if not shared]
        for name, documents in sources.items()
    }
    left_out = {
        name: [document.name for document, shared in zip(documents, shares[name], strict=True) if shared]
        for name, documents in sources.items()
    }
    return Texts(training, evaluation, left_out)


def hold_out(documents: list[Document], count: int, seed: int) -> tuple[list[Document], list[Document]]:
    """`count` documents drawn at random, and the others, both in their order."""
    drawn = set(np.random.default_rng(seed).permutation(len(documents))[:count].tolist())
    held = [document for i, document in enumerate(documents) if i in drawn]
    return held, [document for i, document in enumerate(documents) if i not in drawn]


class Passages:
    """All stretches of `length` words in some texts, as a sorted array of hashes."""

    def __init__(self, texts: Iterable[str], length: int) -> None:
        self.length = length
        self.codes: dict[str, int] = {}
        self.known = np.unique(np.concatenate([np.zeros(0, np.uint64), *(self._hashes(text) for text in texts)]))

    def _hashes(self, text: str) -> npt.NDArray[np.uint64]:
        """One hash for each stretch of words: polynomial, modulo 2⁶⁴; words in lower case, all else left out."""
        codes = self.codes
        words = np.array([codes.setdefault(word, len(codes) + 1) for word in WORD.findall(text.lower())], np.uint64)
        found = np.zeros(max(0, len(words) - self.length + 1), np.uint64)
        for i in range(self.length if len(found) else 0):
            found = found * np.uint64(0x9E3779B97F4A7C15) + words[i : i + len(found)]
        return found

    def shared(self, text: str) -> bool:
        """Whether `text` shares a stretch with the texts."""
        hashes = self._hashes(text)
        if not len(self.known) or not len(hashes):
            return False
        place = np.searchsorted(self.known, hashes)
        return bool((self.known[np.minimum(place, len(self.known) - 1)] == hashes).any())


def fingerprint(documents: Iterable[Document]) -> str:
    """SHA-256 of all texts in order, each with its length before it."""
    found = hashlib.sha256()
    for document in documents:
        data = document.text.encode()
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()


def _documents(source: Source, folder: Path) -> list[Document]:
    if source.file is not None:
        return _corpus(folder / source.file)
    return [document for package in source.packages for document in _sources(package)]


def _corpus(path: Path, fields: tuple[str, ...] = ("text",)) -> list[Document]:
    """The documents of a .jsonl.gz file. Raises DataError if it is missing, malformed or empty."""
    found: list[Document] = []
    try:
        with gzip.open(path) as lines:
            for line in lines:
                row = json.loads(line)
                found.append(Document(row["id"], "\n".join(row[field] for field in fields)))
    except FileNotFoundError:
        raise DataError("the corpus is missing", str(path), "Say where the corpora are: --texts FOLDER.") from None
    except (OSError, EOFError, zlib.error) as error:
        what = f"the corpus cannot be read: {getattr(error, 'strerror', None) or error}"
        raise DataError(what, str(path), "Fetch it again.") from None
    except (ValueError, KeyError, TypeError):
        what = f"the line is no JSON object with the texts {', '.join(('id', *fields))}"
        raise DataError(what, f"{path}, line {len(found) + 1}", "Fetch it again.") from None
    if not found:
        raise DataError("the corpus holds no document", str(path), "Fetch it again.")
    return found


def _sources(package: str) -> Iterator[Document]:
    """The Python files of an installed package without its tests, in the order of their names."""
    try:
        files = sorted(metadata.files(package) or [], key=str)
    except metadata.PackageNotFoundError:
        raise DataError("the package is not installed", package, "Install it: its sources are trained on.") from None
    for file in files:
        if file.suffix == ".py" and not {"tests", "testing", "test", ".."} & set(file.parts):
            text = Path(str(file.locate())).read_text(encoding="utf-8")
            if text.strip():
                yield Document(str(file), text)
