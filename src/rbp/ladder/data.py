"""Make what every rung reads: the tokenizer, the rows of tokens, and the documents that are ranked."""

import gzip
import hashlib
import io
import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rbp.errors import DataError
from rbp.files import canonical_json, folder_beside, sha256, swap_in, write_file, write_json
from rbp.ladder.place import Place
from rbp.ladder.recipe import Domain, Recipe, Source
from rbp.ladder.texts import Document, Texts, fingerprint, gather
from rbp.ladder.tokens import make_rows, make_tokenizer, streams


def find_texts(recipe: Recipe, folder: Path | None) -> Texts:
    """The text from the corpora in `folder`, or from their public homes (see `homes`)."""
    if folder is None:
        from rbp.ladder.homes import fetch

        folder = fetch(recipe)
    return gather(recipe, folder)


def write_tokenizer(place: Place, recipe: Recipe, texts: Texts) -> None:
    """Train the tokenizer into tokenizer/."""
    tokenizer = make_tokenizer(texts, recipe)
    with folder_beside(place / "tokenizer") as new:
        tokenizer.save_pretrained(new)
        swap_in(new, place / "tokenizer")


def read_tokenizer(place: Place) -> Any:
    """The tokenizer in tokenizer/. Raises DataError if it is not there."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(place / "tokenizer", trust_remote_code=False)
    except (OSError, ValueError):
        where = str(place / "tokenizer")
        raise DataError("the tokenizer cannot be read", where, "Make it: rbp ladder tokenizer.") from None


def write_data(place: Place, recipe: Recipe, texts: Texts) -> dict[str, Any]:
    """Write rows.npy, text.json, documents.csv and evaluation/; gives what text.json says.

    Raises DataError if a source has too little text, or a document cannot be ranked whole.
    """
    tokenizer = read_tokenizer(place)
    sources = streams(texts, tokenizer)
    rows = make_rows(sources, recipe)
    data = io.BytesIO()
    np.save(data, rows, allow_pickle=False)
    documents, counts = [], {}
    for domain in recipe.domains:
        ranked = texts.evaluation[domain.name][: domain.documents]
        ids = tokenizer([document.text for document in ranked], verbose=False)["input_ids"]
        for document, tokens in zip(ranked, ids, strict=True):
            if not tokens or tokenizer.eos_token_id in tokens:
                what = f"document {document.name} is empty, or holds the end of a text"
                raise DataError(what, domain.name, "Leave it out of the corpus.")
        documents += [(domain.name, i, ranked[i].name, tokens[0]) for i, tokens in enumerate(ids)]
        counts[domain.name] = sum(map(len, ids))
    about = {
        "recipe": recipe.text_digest(),
        "passage": recipe.text.passage,
        "tokenizer": {"vocabulary": len(tokenizer), "sha256": sha256(place / "tokenizer" / "tokenizer.json")},
        "rows": {"rows": len(rows), "tokens": rows[:, 1:].size, "sha256": hashlib.sha256(rows.tobytes()).hexdigest()},
        "training": [
            {
                **_counts(source, texts.training[source.name], len(sources[source.name])),
                "versions": {package: version(package) for package in source.packages},
                "held_out": source.held_out,
                "left_out": texts.left_out[source.name],
            }
            for source in recipe.sources
        ],
        "evaluation": [
            {
                **_counts(domain, texts.evaluation[domain.name][: domain.documents], counts[domain.name]),
                "kept_from_training": len(texts.evaluation[domain.name]),
            }
            for domain in recipe.domains
        ],
    }
    for domain in recipe.domains:
        _write_corpus(place / "evaluation" / f"{domain.name}.jsonl.gz", texts.evaluation[domain.name], domain)
    table = pd.DataFrame(documents, columns=["domain", "document", "name", "first"])
    write_file(place / "documents.csv", table.to_csv(index=False))
    write_file(place / "rows.npy", data.getvalue())
    write_json(place / "text.json", about)
    return about


def write_all(place: Place, recipe: Recipe, texts: Texts) -> dict[str, Any]:
    """`write_data`, with a new tokenizer where there is none.

    If the text will not do, a new tokenizer does not stay: better text would be cut by one made of the worse.
    """
    new = not (place / "tokenizer" / "tokenizer.json").is_file()
    if new:
        write_tokenizer(place, recipe, texts)
    try:
        return write_data(place, recipe, texts)
    except DataError:
        if new:
            shutil.rmtree(place / "tokenizer")
        raise


def prepare(place: Place, recipe: Recipe, folder: Path | None) -> None:
    """Make what is missing of all that training and ranking read, or was made by another recipe or tokenizer."""
    about = _about(place)
    same = about.get("recipe") == recipe.text_digest()
    tokenizer = place / "tokenizer" / "tokenizer.json"
    made = tokenizer.is_file() and (place / "rows.npy").is_file()
    if made and same and about.get("tokenizer", {}).get("sha256") == sha256(tokenizer):
        return
    texts = find_texts(recipe, folder)
    if about and not same:
        write_tokenizer(place, recipe, texts)
    write_all(place, recipe, texts)


def _about(place: Place) -> dict[str, Any]:
    """What text.json says; {} if it is not there, or damaged."""
    try:
        about = json.loads((place / "text.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def lines(about: dict[str, Any]) -> list[str]:
    """What text.json says, for a reader."""
    found = []
    for kind, what in (("training", "trained on"), ("evaluation", "ranked")):
        for part in about[kind]:
            counts = f"{part['documents']:,} documents, {part['characters']:,} characters, {part['tokens']:,} tokens"
            found += [f"{what}: {part['name']}: {counts}", f"    {part['origin']} ({part['licence']})"]
            found.append(f"    fingerprint {part['fingerprint']}")
            if kind == "training" and part["held_out"]:
                found.append(f"    {part['held_out']} documents are held out for evaluation")
            if kind == "training" and part["left_out"]:
                why = f"they share {about['passage']} words in a row with a text kept for evaluation"
                found.append(f"    {len(part['left_out'])} documents are left out: {why}")
    rows = about["rows"]
    found.append(f"every rung reads {rows['tokens']:,} tokens in {rows['rows']:,} rows, the same share of each source")
    return found


def _counts(part: Source | Domain, documents: list[Document], tokens: int) -> dict[str, Any]:
    return {
        "name": part.name,
        "origin": part.origin,
        "licence": part.licence,
        "documents": len(documents),
        "characters": sum(len(document.text) for document in documents),
        "tokens": tokens,
        "fingerprint": fingerprint(documents),
    }


def _write_corpus(path: Path, documents: list[Document], domain: Domain) -> None:
    rows = ({"id": document.name, "text": document.text} for document in documents[: domain.documents])
    text = "".join(canonical_json(row) + "\n" for row in rows)
    write_file(path, gzip.compress(text.encode(), mtime=0))
