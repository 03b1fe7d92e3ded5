"""A ladder on any folder of .txt files; the guide's commands are run in tests/test_readme.py."""

import hashlib
import re

import pytest
from commands import here, refused
from hypothesis import given
from hypothesis import strategies as st
from made_ladder import LADDERS, RECIPE, tale
from transformers import AutoTokenizer

from ladder import ranking
from ladder.recipe import read_recipe
from ladder.text import Document, split_by_hash, with_plain_text
from ladder.workspace import Workspace


@pytest.fixture
def train(tmp_path):
    """train(texts): the command that trains one of them on the folder `texts`, which gets these files."""
    (tmp_path / "small.toml").write_text(RECIPE.format(tokens=256))
    config = tmp_path / "ladders.toml"
    config.write_text(LADDERS.replace("budgets = [640, 1_280, 2_560]", "budgets = [128, 256]"))
    options = ("--rungs", "narrow", "--seeds", "0", "--device", "cpu", "--config", str(config), "--texts", "texts")

    def run(texts):
        (tmp_path / "texts").mkdir(exist_ok=True)
        for name, text in texts.items():
            (tmp_path / "texts" / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return here("ladder", "train", *options, cwd=tmp_path, root=tmp_path)

    return run


def is_held_out(text):
    """The rule, another way: the first digits of the hash are below a twentieth of all."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12 < 0.05


@given(st.permutations(range(300)), st.integers(150, 300))
def test_a_twentieth_is_held_out_and_new_documents_move_none(order, count):
    documents = [Document(str(i), tale(i, 5)) for i in order]
    for some in (documents, documents[:count]):
        held = split_by_hash(some)[0]
        assert held == [document for document in some if is_held_out(document.text)]
    assert 5 <= len(split_by_hash(documents)[0]) <= 30


@pytest.mark.long
def test_no_text_that_is_held_out_is_read_and_none_is_replaced(train, tmp_path, in_this_process):
    texts = {f"{i:02}.txt": tale(i) for i in range(60)}
    assert train(texts | {"notes.md": "no text of the ladder", "blank.txt": " \n"}).returncode == 0
    place = Workspace(tmp_path / "runs" / "ladder-texts")
    held = [text for text in texts.values() if is_held_out(text)]
    assert ranking.read_corpus(place, "held-out").documents == held
    tokenizer = AutoTokenizer.from_pretrained(place / "tokenizer")
    for row in place.rows(with_plain_text(place, read_recipe())):
        for piece in re.split(r"<\|endoftext\|>", tokenizer.decode(row)):
            assert any(piece.strip("\ufffd") in text for text in texts.values() if text not in held)
    before = {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()}
    assert train({}).returncode == 0
    refused(train({"60.txt": tale(60)}), f"a ladder of other text, or of another number of tokens ({place.folder})")
    assert {path: path.read_bytes() for path in place.folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"a.md": "text", "b.txt": " \n"}, ["no .txt file with text in it, nor a corpus of the recipe (texts)"]),
        ({"a.txt": tale(0), "b.txt": tale(0)}, ["there is only one text", "cut it into several"]),
        ({"a.txt": tale(0), "b.txt": "naïve".encode("latin-1")}, ["the text is not UTF-8", "texts/b.txt, byte 2)"]),
    ],
)
def test_text_that_will_not_do_is_refused(texts, words, train):
    refused(train(texts), *words)
