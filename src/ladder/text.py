"""The ladder's text: what is trained on and what is evaluated on, the tokenizer, and the rows that every rung reads."""

import gzip
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ladder.homes import fetch
from ladder.recipe import Domain, Recipe, TextSource, read_recipe
from ladder.workspace import Workspace, read_record, write_rows
from rbp.errors import DataError, ParameterError
from rbp.io import canonical_json, files_below, folder_beside, sha256, swap_in, write_file, write_json

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


def gather_texts(recipe: Recipe, folder: Path | None) -> Texts:
    """Gather all text of the ladder from the corpus files in `folder` and the packages installed here.

    Without a folder the files come from their public homes (see `homes`). Raises DataError if a file or a package is
    missing or holds no document, and if none of a source may be trained on.
    """
    folder = fetch(recipe) if folder is None else folder
    sources = {source.name: _documents(source, folder) for source in recipe.sources}
    files = {domain.name: (domain.file, domain.fields) for domain in recipe.domains if domain.file is not None}
    evaluation = {name: _corpus(folder / file, fields) for name, (file, fields) in files.items()}
    for domain in recipe.domains:
        if domain.source is not None:
            count = next(source.held_out for source in recipe.sources if source.name == domain.source)
            held, others = hold_out(sources[domain.source], count, recipe.text.seed)
            evaluation[domain.name], sources[domain.source] = held, others
    length = recipe.text.passage
    passages = Passages((document.text for documents in evaluation.values() for document in documents), length)
    texts = Texts({}, evaluation, {})
    for name, documents in sources.items():
        shared = [passages.shared(document.text) for document in documents]
        texts.training[name] = [document for document, quotes in zip(documents, shared, strict=True) if not quotes]
        texts.left_out[name] = [document.name for document, quotes in zip(documents, shared, strict=True) if quotes]
        if documents and all(shared):
            fault = f"all {len(documents)} documents share {length} words in a row with an evaluation text"
            raise DataError(fault, name, "Remove what they have in common, such as a licence at the end of each.")
    return texts


def hold_out(documents: list[Document], count: int, seed: int) -> tuple[list[Document], list[Document]]:
    """Split off `count` documents chosen at random; both parts in their order."""
    chosen = set(np.random.default_rng(seed).permutation(len(documents))[:count].tolist())
    held = [document for i, document in enumerate(documents) if i in chosen]
    return held, [document for i, document in enumerate(documents) if i not in chosen]


class Passages:
    """All stretches of `length` words in some texts, as a sorted array of hashes."""

    def __init__(self, texts: Iterable[str], length: int) -> None:
        self.length = length
        self.codes: dict[str, int] = {}
        self.known = np.unique(np.concatenate([np.zeros(0, np.uint64), *(self._hashes(text) for text in texts)]))

    def _hashes(self, text: str) -> npt.NDArray[np.uint64]:
        """Return one hash for each stretch of words: polynomial, modulo 2⁶⁴; words in lower case, all else left out."""
        codes = self.codes
        words = np.array([codes.setdefault(word, len(codes) + 1) for word in WORD.findall(text.lower())], np.uint64)
        hashes = np.zeros(max(0, len(words) - self.length + 1), np.uint64)
        for i in range(self.length if len(hashes) else 0):
            hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + words[i : i + len(hashes)]
        return hashes

    def shared(self, text: str) -> bool:
        """Say whether `text` shares a stretch with the texts."""
        hashes = self._hashes(text)
        if not len(self.known) or not len(hashes):
            return False
        place = np.searchsorted(self.known, hashes)
        return bool((self.known[np.minimum(place, len(self.known) - 1)] == hashes).any())


HELD_OUT = 0.05  # the share of plain texts that is kept for evaluation


def is_plain(recipe: Recipe, folder: Path) -> bool:
    """Say whether a folder of text is one of plain text: it holds none of the recipe's corpora."""
    files = [source.file for source in recipe.sources] + [domain.file for domain in recipe.domains]
    return not any((folder / file).is_file() for file in files if file is not None)


def import_plain(place: Workspace, recipe: Recipe, folder: Path, tokens: int | None, least: int = 1) -> None:
    """Make corpora of all .txt files below a folder, and a recipe with them (see `with_plain_text`), in texts/.

    Each file is a document. tokens: to be trained on, instead of the recipe's; least: the tokens of one step. Raises
    ParameterError if they are fewer; DataError for a folder without two different texts, for a file that is not
    UTF-8, and if the working folder holds rows of other text, or of another number of tokens.
    """
    text_record = read_record(place / "text.json")
    if tokens is None and text_record:
        tokens = with_plain_text(place, recipe).text.tokens
    if tokens is not None and tokens < least:
        raise ParameterError(f"{tokens:,} tokens are too few for a step", "--tokens", f"Give {least:,} or more.")
    documents = _plain_documents(folder)
    held, others = split_by_hash(documents)
    if not held:
        fault = "there is only one text, and one is held out for evaluation"
        raise DataError(fault, str(folder), "Give more files, or cut it into several.")
    origin, licence = f"plain text, fingerprint {texts_fingerprint(documents)}", "the texts' own"
    source = TextSource("texts", "training.jsonl.gz", origin=origin, licence=licence)
    domain = Domain("held-out", len(held), "held-out.jsonl.gz", origin=origin, licence=licence)
    text = replace(recipe.text, tokens=tokens or recipe.text.tokens)
    plain_recipe = replace(recipe, text=text, sources=(source,), domains=(domain,))
    if text_record and text_record.get("recipe") != plain_recipe.text_digest():
        fault = "the working folder holds a ladder of other text, or of another number of tokens"
        remedy = "Give another (--out); to go on with what it holds, give it as --out, and no --texts."
        raise DataError(fault, str(place.folder), remedy)
    if not text_record:
        _write_corpus(place / "texts" / "training.jsonl.gz", others)
        _write_corpus(place / "texts" / "held-out.jsonl.gz", held)
        write_json(place / PLAIN_RECIPE, asdict(plain_recipe))


PLAIN_RECIPE, MORE = "texts/recipe.json", "more.json"


def with_plain_text(place: Workspace, recipe: Recipe) -> Recipe:
    """Return the recipe on the text in texts/, where there is one. Raises DataError if its recipe is malformed."""
    if not (place / PLAIN_RECIPE).is_file():
        return recipe
    plain_recipe = read_recipe(place / PLAIN_RECIPE)
    return replace(recipe, text=plain_recipe.text, sources=plain_recipe.sources, domains=plain_recipe.domains)


def split_by_hash(documents: list[Document]) -> tuple[list[Document], list[Document]]:
    """Split off a share HELD_OUT of the documents, both parts in their order: a text's SHA-256 says where it goes.

    So other texts move none, and equal ones stay together. At least one text is in each part, where there are two;
    only such a one may move.
    """
    marks = [hashlib.sha256(document.text.encode()).digest() for document in documents]
    ordered = sorted(set(marks))
    count = sum(int.from_bytes(mark) < HELD_OUT * 2**256 for mark in ordered)
    chosen = set(ordered[: min(max(count, 1), len(ordered) - 1)])
    held = [document for document, mark in zip(documents, marks, strict=True) if mark in chosen]
    return held, [document for document, mark in zip(documents, marks, strict=True) if mark not in chosen]


def _plain_documents(folder: Path) -> list[Document]:
    """Read the .txt files below a folder that hold text, by their names. Raises DataError if there is none."""
    if not folder.is_dir():
        raise DataError("there is no such folder", str(folder), "Check the path.")
    root, documents = folder.resolve(), []
    for path in files_below(root):
        if path.suffix.lower() == ".txt":
            try:
                text = path.read_bytes().decode()
            except UnicodeDecodeError as error:
                raise DataError("the text is not UTF-8", f"{path}, byte {error.start}", "Save it as UTF-8.") from None
            except OSError as error:
                raise DataError(f"cannot read the file: {error.strerror}", str(path), "Check the file.") from None
            if text.strip():
                name = os.fsencode(path.relative_to(root).as_posix()).decode(errors="replace")
                documents.append(Document(name, text))
    if not documents:
        fault = "there is no .txt file with text in it, nor a corpus of the recipe"
        raise DataError(fault, str(folder), "Give a folder of plain text.")
    return documents


def texts_fingerprint(documents: Iterable[Document]) -> str:
    """Return the SHA-256 of all texts in order, each with its length before it."""
    digest = hashlib.sha256()
    for document in documents:
        data = document.text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _documents(source: TextSource, folder: Path) -> list[Document]:
    if source.file is not None:
        return _corpus(folder / source.file)
    return [document for package in source.packages for document in _sources(package)]


def _corpus(path: Path, fields: tuple[str, ...] = ("text",)) -> list[Document]:
    """Read the documents of a .jsonl.gz file. Raises DataError if it is missing, malformed or empty."""
    documents: list[Document] = []
    try:
        with gzip.open(path) as lines:
            for line in lines:
                row = json.loads(line)
                documents.append(Document(row["id"], "\n".join(row[field] for field in fields)))
    except FileNotFoundError:
        raise DataError("the corpus is missing", str(path), "Say where the corpora are: --texts FOLDER.") from None
    except (OSError, EOFError, zlib.error) as error:
        fault = f"the corpus cannot be read: {getattr(error, 'strerror', None) or error}"
        raise DataError(fault, str(path), "Fetch it again.") from None
    except (ValueError, KeyError, TypeError):
        fault = f"the line is not a JSON object with the texts {', '.join(('id', *fields))}"
        raise DataError(fault, f"{path}, line {len(documents) + 1}", "Fetch it again.") from None
    if not documents:
        raise DataError("the corpus holds no document", str(path), "Fetch it again.")
    return documents


def _sources(package: str) -> Iterator[Document]:
    """Return the Python files of an installed package without its tests, in the order of their names."""
    try:
        files = sorted(metadata.files(package) or [], key=str)
    except metadata.PackageNotFoundError:
        raise DataError("the package is not installed", package, "Install it: its sources are trained on.") from None
    for file in files:
        if file.suffix == ".py" and not {"tests", "testing", "test", ".."} & set(file.parts):
            text = Path(str(file.locate())).read_text(encoding="utf-8")
            if text.strip():
                yield Document(str(file), text)


END = "<|endoftext|>"


def make_tokenizer(texts: Texts, recipe: Recipe) -> Any:
    """Train the ladder's tokenizer on the same number of characters of each source, whole documents at random.

    Raises DataError if the text gives fewer tokens than the recipe asks for.
    """
    tokenizer = byte_level_bpe(_sample(texts, recipe), recipe.text.vocabulary)
    if len(tokenizer) != recipe.text.vocabulary:
        fault = f"the text gives only {len(tokenizer)} tokens"
        raise DataError(fault, "ladder.toml, vocabulary", "Give more text or a smaller vocabulary.")
    return tokenizer


def byte_level_bpe(texts: Iterable[str], vocabulary: int) -> Any:
    """Train a byte-level BPE tokenizer of at most `vocabulary` tokens: it writes any text; token 0 ends a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(texts, trainer)
    tokenizer_class: Any = PreTrainedTokenizerFast  # untyped
    return tokenizer_class(tokenizer_object=raw, bos_token=END, eos_token=END)


def _sample(texts: Texts, recipe: Recipe) -> Iterator[str]:
    for documents in texts.training.values():
        left = recipe.text.characters
        for i in np.random.default_rng(recipe.text.seed).permutation(len(documents)):
            if left <= 0:
                break
            yield documents[i].text[:left]
            left -= len(documents[i].text)


def streams(texts: Texts, tokenizer: Any) -> dict[str, npt.NDArray[np.uint16]]:
    """Return the tokens of each source: its documents in order, the end of a text before each; uint16."""
    return {name: _stream(documents, tokenizer) for name, documents in texts.training.items()}


def make_rows(
    sources: dict[str, npt.NDArray[np.uint16]],
    recipe: Recipe,
    left_out: dict[str, list[str]] | None = None,
    more: int = 0,
) -> npt.NDArray[np.uint16]:
    """Cut the training tokens [rows, context + 1], in the order in which they are read; uint16.

    The stream of a source is cut into rows of context + 1 tokens that overlap by one, so that every token is predicted
    once. An equal number of rows of each source is drawn, and all are shuffled. more: so many tokens follow, of other
    rows: the first are the same with and without. Raises DataError if a source has too little text, which names how
    many of its documents are left out.
    """
    random = np.random.default_rng(recipe.text.seed)
    context = recipe.text.context
    parts = [recipe.text.tokens // context, *([more // context] if more else [])]
    chosen: list[list[npt.NDArray[np.uint16]]] = [[] for _ in parts]
    for number, (name, stream) in enumerate(sources.items()):
        shares = [rows // len(sources) + (number < rows % len(sources)) for rows in parts]
        share = sum(shares)
        available = max(0, len(stream) - 1) // context
        if available < share:
            fault = f"{name} has {available * context:,} tokens, and {share * context:,} are wanted"
            if left_out and (count := len(left_out[name])):
                fault += f"; {count} documents are left out: they share a passage with an evaluation text"
            enough = available * context * len(sources)
            fewer = f", or fewer tokens: {enough} at most (--tokens, or in the recipe)"
            raise DataError(fault, "tokens", f"Give more text{fewer if enough else ''}.")
        starts = random.permutation(available)[:share] * context
        for pieces, part in zip(chosen, np.split(starts, np.cumsum(shares)[:-1]), strict=True):
            pieces.append(stream[part[:, None] + np.arange(context + 1)])
    sources_tokens = [np.concatenate(pieces) for pieces in chosen]
    return np.concatenate([part[random.permutation(len(part))] for part in sources_tokens])


def _stream(documents: list[Document], tokenizer: Any) -> npt.NDArray[np.uint16]:
    end = np.array([tokenizer.eos_token_id], np.uint16)
    pieces = [np.zeros(0, np.uint16)]  # nothing is left of a source if all is held out
    for first in range(0, len(documents), 64):
        texts = [document.text for document in documents[first : first + 64]]
        for ids in tokenizer(texts, verbose=False)["input_ids"]:
            pieces += [end, np.array(ids, np.uint16)]
    return np.concatenate(pieces)


def write_tokenizer(place: Workspace, recipe: Recipe, texts: Texts) -> None:
    """Train the tokenizer into tokenizer/."""
    tokenizer = make_tokenizer(texts, recipe)
    with folder_beside(place / "tokenizer") as new:
        tokenizer.save_pretrained(new)
        swap_in(new, place / "tokenizer")


def read_tokenizer(place: Workspace) -> Any:
    """Read the tokenizer in tokenizer/. Raises DataError if it is not there."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(place / "tokenizer", trust_remote_code=False)
    except (OSError, ValueError):
        where = str(place / "tokenizer")
        raise DataError("the tokenizer cannot be read", where, "Make it: rbp ladder train.") from None


def write_data(place: Workspace, recipe: Recipe, texts: Texts) -> dict[str, Any]:
    """Write rows.npy, text.json, documents.csv and evaluation/; gives what text.json says.

    Raises DataError if a source has too little text, or a document cannot be ranked whole.
    """
    tokenizer = read_tokenizer(place)
    sources = streams(texts, tokenizer)
    rows = make_rows(sources, recipe, texts.left_out)
    evaluation = {domain.name: texts.evaluation[domain.name][: domain.documents] for domain in recipe.domains}
    documents, counts = [], {}
    for domain in recipe.domains:
        ranked = evaluation[domain.name]
        ids = tokenizer([document.text for document in ranked], verbose=False)["input_ids"]
        for document, tokens in zip(ranked, ids, strict=True):
            if not tokens or tokenizer.eos_token_id in tokens:
                fault = f"document {document.name} is empty, or holds the end of a text"
                raise DataError(fault, domain.name, "Leave it out of the corpus.")
        if max(map(len, ids)) < 2:
            fault = "no token can be ranked: no document has two tokens"
            raise DataError(fault, domain.name, "Give longer documents.")
        documents += [(domain.name, i, ranked[i].name, tokens[0]) for i, tokens in enumerate(ids)]
        counts[domain.name] = sum(map(len, ids))
    text_record = {
        "recipe": recipe.text_digest(),
        "passage": recipe.text.passage,
        "tokenizer": {"vocabulary": len(tokenizer), "sha256": sha256(place / "tokenizer" / "tokenizer.json")},
        "rows": _describe_rows(rows),
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
                **_counts(domain, evaluation[domain.name], counts[domain.name]),
                "kept_from_training": len(texts.evaluation[domain.name]),
            }
            for domain in recipe.domains
        ],
    }
    for name, ranked in evaluation.items():
        _write_corpus(place / "evaluation" / f"{name}.jsonl.gz", ranked)
    table = pd.DataFrame(documents, columns=["domain", "document", "name", "first"])
    write_file(place / "documents.csv", table.to_csv(index=False))
    write_rows(place / "rows.npy", rows)
    write_json(place / "text.json", text_record)
    return text_record


def prepare(place: Workspace, recipe: Recipe, folder: Path | None) -> None:
    """Make what is missing of all that training and ranking read, or was made by another recipe or tokenizer.

    If the text will not do, a new tokenizer does not stay: better text would be cut by one made of the worse.
    """
    text_record = read_record(place / "text.json")
    same = text_record.get("recipe") == recipe.text_digest()
    tokenizer = place / "tokenizer" / "tokenizer.json"
    complete = tokenizer.is_file() and (place / "rows.npy").is_file()
    if complete and same and text_record["tokenizer"]["sha256"] == sha256(tokenizer):
        return
    texts = gather_texts(recipe, folder)
    new = not tokenizer.is_file() or (text_record and not same)
    if new:
        write_tokenizer(place, recipe, texts)
    try:
        write_data(place, recipe, texts)
    except DataError:
        if new:
            shutil.rmtree(place / "tokenizer")
        raise


def prepare_more(place: Workspace, recipe: Recipe, folder: Path | None, more: int) -> None:
    """Make the rows that follow the text's, more.npy, and more.json about them, where they are missing.

    The text must exist (`prepare`). Raises DataError if it was made of other corpora.
    """
    first = read_record(place / "text.json")["rows"]["sha256"]
    more_record = read_record(place / MORE)
    if more_record.get("follows") == first and more_record.get("asked") == more and (place / "more.npy").is_file():
        return
    texts = gather_texts(recipe, folder)
    rows = make_rows(streams(texts, read_tokenizer(place)), recipe, texts.left_out, more)
    count = recipe.text.tokens // recipe.text.context
    if hashlib.sha256(rows[:count].tobytes()).hexdigest() != first:
        fault = "the corpora are not those that the training text was made of"
        raise DataError(fault, str(place.folder), "Give the same (--texts), or another working folder (--out).")
    write_rows(place / "more.npy", rows[count:])
    write_json(place / MORE, {"asked": more, "follows": first, **_describe_rows(rows[count:])})


def _describe_rows(rows: npt.NDArray[np.uint16]) -> dict[str, Any]:
    return {"rows": len(rows), "tokens": rows[:, 1:].size, "sha256": hashlib.sha256(rows.tobytes()).hexdigest()}


def _counts(part: TextSource | Domain, documents: list[Document], tokens: int) -> dict[str, Any]:
    return {
        "name": part.name,
        "origin": part.origin,
        "licence": part.licence,
        "documents": len(documents),
        "characters": sum(len(document.text) for document in documents),
        "tokens": tokens,
        "fingerprint": texts_fingerprint(documents),
    }


def _write_corpus(path: Path, documents: list[Document]) -> None:
    rows = ({"id": document.name, "text": document.text} for document in documents)
    text = "".join(canonical_json(row) + "\n" for row in rows)
    write_file(path, gzip.compress(text.encode(), mtime=0))
