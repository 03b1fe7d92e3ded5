"""Documents that are long, empty or of one token, and tokenizers that pad or cut on the left, have no padding token,
or add one before or after a text, declared as special or not: all against one forward pass a token, by hand."""

import shutil
from pathlib import Path

import pytest
import tiny
from by_hand import assert_ranked, token_by_token

from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store

DOCUMENTS = [tiny.texts(1, seed=3, longest=400)[0], "", "the", " ", *tiny.texts(2, seed=4, longest=9), "a", ""]
TOKENIZERS = {
    "plain, without a padding token": {},
    "padding and cutting on the left": {"padding_side": "left", "pad_token": "<|end|>", "truncation_side": "left"},
    "a token before and after": {"template": "<|end|> $A <|end|>", "padding_side": "left", "pad_token": "<|end|>"},
    "letters before and after that are not declared": {"template": "t a $A .", "padding_side": "left"},
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
