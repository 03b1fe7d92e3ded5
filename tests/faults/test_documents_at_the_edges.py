"""Faults 7, 8 and 17: documents that are long, empty or of one token; tokenizers that pad or cut on the left, have no
padding token, or add one before or after a text, declared as special or not; and the order of the documents: all
against one forward pass a token, by hand."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
from by_hand import assert_ranked, token_by_token

from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import document_order, protocol
from rbp.extract.store import open_store

DOCUMENTS = [tiny.texts(1, seed=3, longest=400)[0], "", "the", " ", *tiny.texts(3, seed=4, longest=9), "a", ""]
TOKENIZERS = {
    "plain, without a padding token": {},
    "padding on the left": {"padding_side": "left", "pad_token": "<|end|>"},
    "padding on the right": {"padding_side": "right", "pad_token": "<|end|>"},
    "cutting on the left": {"truncation_side": "left"},
    "a token before every text": {"template": "<|end|> $A"},
    "a token before and after": {"template": "<|end|> $A <|end|>", "padding_side": "left", "pad_token": "<|end|>"},
    "letters before and after that are not declared": {"template": "t a $A .", "padding_side": "left"},
    "a letter before, and a token after": {"template": "a $A <|end|>"},
}
LONG = {"windows": (48, 16), "authors": (40, None)}


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    """saved(name): the tiny model with one of the tokenizers."""
    root = tmp_path_factory.mktemp("models")

    def save(name: str) -> Path:
        folder = root / name.replace(" ", "-")
        if not folder.exists():
            shutil.copytree(model, folder)
            for path in folder.glob("*token*"):
                path.unlink()
            tiny.make_tokenizer(**TOKENIZERS[name]).save_pretrained(folder)
        return folder

    return save


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_nothing_is_off_by_one(saved, tokenizer, name, tmp_path):
    length, context = LONG[name]
    corpus = tiny.write_texts(tmp_path / "corpus.jsonl", DOCUMENTS)
    chosen = protocol(name, length=length, context=context)
    (folder,) = extract([str(saved(tokenizer))], [str(corpus)], chosen, tmp_path / "out", Settings(backend="reference"))
    tokens, key = open_store(folder).ranks(), open_store(folder).manifest["key"]
    assert ("added" in key) == ("letter" in tokenizer), "other tokens are ranked than before: another store"
    around = [len(words.split()) for words in TOKENIZERS[tokenizer].get("template", "$A").split("$A")]
    by_hand = token_by_token(saved(tokenizer), DOCUMENTS, length, context, *around)
    expected = {place: (token, logits) for place, token, logits in by_hand}
    assert list(zip(tokens["document"], tokens["position"], strict=True)) == sorted(expected)
    if name == "windows":
        assert (tokens["document"] == 0).sum() > 3 * length, "a text of several windows is among them"
    for row in tokens.itertuples():
        token, logits = expected[row.document, row.position]
        assert row.token == token
        assert_ranked(logits, token, row.greater, row.equal, row.nll)


def test_what_pads_or_not_gives_the_same_bits(saved, tmp_path):
    """The three tokenizers without added tokens differ in nothing that is ranked."""
    corpus = tiny.write_texts(tmp_path / "corpus.jsonl", DOCUMENTS)
    chosen, found = protocol("windows", length=48, context=16), []
    for name in list(TOKENIZERS)[:3]:
        (folder,) = extract([str(saved(name))], [str(corpus)], chosen, tmp_path / "out", Settings(backend="reference"))
        found.append(open_store(folder).ranks())
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_the_order_of_documents_changes_nothing_but_their_numbers(model, tmp_path):
    documents = [f"{text} {number}" for number, text in enumerate(tiny.texts(12, longest=60))]
    chosen = protocol("windows", length=48, context=16, pack=3)
    found = []
    for name, some in (("one", documents), ("other", documents[::-1])):
        corpus = tiny.write_texts(tmp_path / f"{name}.jsonl", some)
        (folder,) = extract([str(model)], [str(corpus)], chosen, tmp_path / "out", Settings(backend="blocked"))
        found.append(open_store(folder).ranks())
    found[1]["document"] = len(documents) - 1 - found[1]["document"]
    again = found[1].sort_values(["document", "position"], ignore_index=True)
    for column in found[0]:
        assert (
            found[0][column].to_numpy().tobytes() == again[column].astype(found[0][column].dtype).to_numpy().tobytes()
        )


def test_the_authors_order_takes_each_document_once():
    assert sorted(document_order(50, protocol("authors")).tolist()) == list(range(50))
    assert json.dumps(document_order(3, protocol("windows")).tolist()) == "[0, 1, 2]"
