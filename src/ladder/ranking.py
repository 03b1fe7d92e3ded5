"""Rank the documents of a domain, and rebuild them from the ranks."""

import csv
import gzip
import json
import shutil
import zlib
from collections.abc import Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from ladder import LADDER
from ladder.recipe import Recipe
from ladder.shipped import RANKS
from ladder.text import Document, texts_fingerprint
from ladder.workspace import Workspace
from rbp import provenance
from rbp.errors import DataError, ParameterError
from rbp.store import RankStore, open_store, store_folders
from rbp.texts.corpora import Corpus
from rbp.texts.protocol import Protocol

if TYPE_CHECKING:
    from rbp.choices import Settings
    from rbp.models.find import ModelFiles


def evaluation_documents(domain: str, folder: Path = LADDER) -> list[Document]:
    """Read the documents of a domain, in the order of the stores.

    folder: where families are shipped. Raises ParameterError for a domain that has no store, DataError if a file is
    missing.
    """
    from tokenizers import Tokenizer

    path = folder / "documents.csv"
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            firsts = [row for row in csv.DictReader(lines) if row["domain"] == domain]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    except Exception as error:  # of which tokenizers has but the plain kind
        raise DataError(f"cannot read the ladder: {error}", str(folder), _REMEDY) from None
    store = _store(domain, folder)
    provenance.note(path, folder / "tokenizer" / "tokenizer.json", *store.parts)
    ranks = store.ranks()
    others = {document: tokens.tolist() for document, tokens in ranks.groupby("document")["token"]}
    documents = []
    for row in firsts:
        tokens = [int(row["first"]), *others.get(int(row["document"]), [])]
        documents.append(Document(row["name"], tokenizer.decode(tokens, skip_special_tokens=False)))
    return documents


def evaluation_corpus(domain: str, documents: Sequence[Document]) -> Corpus:
    """Return the documents of a domain as `rbp.extract.extraction.extract` takes them; named by their texts."""
    return Corpus(domain, [document.text for document in documents], {"texts": texts_fingerprint(documents)})


_REMEDY = "Restore it: git checkout -- data/ladder; or make it: rbp ladder train, rbp ladder rank, rbp ladder ship."


def _store(domain: str, folder: Path) -> RankStore:
    """Return one store of the domain: all hold the same tokens."""
    families = sorted((folder / RANKS).glob("*/"))
    if not families:
        raise DataError("the ladder has no ranks", str(folder), _REMEDY)
    stores = [open_store(path) for path in store_folders(families)]
    for store in stores:
        if store.dataset == domain:
            return store
    domains = ", ".join(sorted({store.dataset for store in stores}))
    raise ParameterError(f"the ladder has no domain {domain!r}", "domain", f"There is: {domains}.")


PACK = 8192  # rows in a part of a store: few files, as a model is quick


def windows_of(recipe: Recipe) -> Protocol:
    """Read whole documents in windows as long as the models read, with half a window (or all there is) as context."""
    return Protocol("windows", recipe.text.context, recipe.text.context // 2, pack=PACK)


def read_corpus(place: Workspace, domain: str) -> Corpus:
    """Read the documents of a domain that are ranked. Raises DataError if they are missing."""
    path = place / "evaluation" / f"{domain}.jsonl.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    except (OSError, EOFError, ValueError, zlib.error):
        remedy = f"Remove {place / 'text.json'}, and give the same command again."
        raise DataError("the documents cannot be read", str(path), remedy) from None
    return evaluation_corpus(domain, [Document(row["id"], row["text"]) for row in rows])


def stores_of(
    files: "ModelFiles", corpora: Sequence[Corpus], protocol: Protocol, out: Path, settings: "Settings"
) -> list[RankStore]:
    """Rank corpora by one model into stores in `out`; its stores of other weights or texts are removed."""
    from rbp.extract.extraction import extract

    with redirect_stderr(StringIO()):  # whose progress is about one model
        stores = extract([files], corpora, protocol, out, settings)
    for corpus, store in zip(corpora, stores, strict=True):
        for other in out.glob(f"{files.name}-{corpus.name}-*"):
            if other != store:
                shutil.rmtree(other)
    return list(map(open_store, stores))
