"""Tiny random models, made once, and corpora."""

import pytest
from tiny import make_tokenizer, save_model, write_texts


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def with_bos():
    """The same, with a special token before every text, as OPT's and Llama's have it."""
    return make_tokenizer("<|end|> $A")


@pytest.fixture(scope="session")
def saved(tmp_path_factory, tokenizer, with_bos):
    """saved(kind): the folder of a tiny model of that architecture, made once."""
    root = tmp_path_factory.mktemp("models")

    def save(kind):
        folder = root / kind
        if not folder.exists():
            save_model(folder, kind, with_bos if kind in ("opt", "llama") else tokenizer)
        return folder

    return save


@pytest.fixture
def write_corpus(tmp_path):
    def write(documents, name="mine.jsonl"):
        return write_texts(tmp_path / name, documents)

    return write
