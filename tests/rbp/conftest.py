"""Tiny random models, made once."""

import pytest
from tiny import make_tokenizer, save_model


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def saved(tmp_path_factory, tokenizer):
    """saved(kind): the folder of a tiny model of that architecture, made once; OPT and Llama open each text."""
    root = tmp_path_factory.mktemp("models")

    def save(kind):
        folder = root / kind
        if not folder.exists():
            save_model(folder, kind, make_tokenizer("<|end|> $A") if kind in ("opt", "llama") else tokenizer)
        return folder

    return save
