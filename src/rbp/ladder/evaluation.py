"""The documents that the ladder's ranks are about, rebuilt from the ranks: the texts themselves are not shipped.

A rank store holds the token of every position of a document but the first; documents.csv holds that one. The
tokenizer is byte-level, so the tokens give the text back, byte for byte.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from rbp import published
from rbp.errors import DataError, ParameterError
from rbp.extraction.corpora import Corpus
from rbp.extraction.reader import RankStore, open_store, store_folders
from rbp.ladder.recipe import FOLDER
from rbp.ladder.texts import Document, fingerprint
from rbp.tables import label


def documents(domain: str, folder: Path = FOLDER) -> list[Document]:
    """The documents of a domain, in the order of the stores.

    folder: a ladder's. Raises ParameterError for a domain that has no store, DataError if a file is missing.
    """
    from tokenizers import Tokenizer

    path = folder / "documents.csv"
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            firsts = [row for row in csv.DictReader(lines) if row["domain"] == domain]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    except Exception as error:  # of which tokenizers has but the plain kind
        raise DataError(f"cannot read the ladder: {error}", str(folder), REMEDY) from None
    store = _store(domain, folder)
    published.opened.update(label(name) for name in (path, folder / "tokenizer" / "tokenizer.json", *store.parts))
    ranks = store.ranks()
    others = {document: tokens.tolist() for document, tokens in ranks.groupby("document")["token"]}
    found = []
    for row in firsts:
        tokens = [int(row["first"]), *others.get(int(row["document"]), [])]
        found.append(Document(row["name"], tokenizer.decode(tokens, skip_special_tokens=False)))
    return found


def corpus(domain: str, documents: Sequence[Document]) -> Corpus:
    """The documents of a domain as `rbp.extraction.run.extract` takes them; named by their texts."""
    return Corpus(domain, [document.text for document in documents], {"texts": fingerprint(documents)})


REMEDY = "Make it: rbp ladder train, then rbp ladder rank; or restore it: git checkout -- data/ladder."


def _store(domain: str, folder: Path) -> RankStore:
    """One store of the domain: all hold the same tokens."""
    if not (folder / "ranks").is_dir():
        raise DataError("the ladder has no ranks", str(folder), REMEDY)
    stores = [open_store(path) for path in store_folders([folder / "ranks"])]
    for store in stores:
        if store.dataset == domain:
            return store
    there = ", ".join(sorted({store.dataset for store in stores}))
    raise ParameterError(f"the ladder has no domain {domain!r}", "domain", f"There is: {there}.")
