"""A ladder on any folder of .txt files: what is held out, what the guide says, what is refused."""

import hashlib
import random
import re

import pytest
from commands import here, refused
from hypothesis import given
from hypothesis import strategies as st
from made_ladder import LADDERS, RECIPE, tale
from transformers import AutoTokenizer

from companion.project import ROOT
from ladder import ranking
from ladder.recipe import read_recipe
from ladder.text import Document, split_by_hash, with_plain_text
from ladder.workspace import Workspace
from rbp.store import open_store, store_folders

CONTEXT = 32


@pytest.fixture
def config(tmp_path):
    (tmp_path / "small.toml").write_text(RECIPE.format(tokens=2 * 4 * CONTEXT))
    path = tmp_path / "ladders.toml"
    path.write_text(LADDERS.replace("budgets = [640, 1_280, 2_560]", "budgets = [128, 256]"))
    return path


@pytest.fixture
def train(config, tmp_path):
    """The command that trains one of them on the folder `texts`."""
    options = ("--rungs", "narrow", "--seeds", "0", "--device", "cpu", "--config", str(config), "--texts", "texts")
    return lambda *more: here("ladder", "train", *options, *more, cwd=tmp_path, root=tmp_path)


def write_texts(folder, texts):
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


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
def test_the_guide_s_commands_train_rank_and_fit_a_folder_of_text(tmp_path, in_this_process):
    rng = random.Random(0)  # noqa: S311
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(4000)]
    often = [1 / (i + 1) for i in range(len(words))]
    texts = {f"{i}.txt": " ".join(rng.choices(words, often, k=1200)) for i in range(45)}
    write_texts(tmp_path / "books", texts | {"notes.md": "no text of the ladder", "blank.txt": " \n"})
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```bash\n(.*?)```", guide, re.DOTALL) if "--texts" in block)
    for line in block.splitlines():
        program, *arguments = line.split("#")[0].replace("100000", "10240").split()  # which take a tenth of the time
        assert program == ".venv/bin/rbp"
        done = here(*arguments, cwd=tmp_path, root=tmp_path)
        assert done.returncode == 0, done.stderr
    assert re.search(r"alpha|α", done.stdout)
    place = Workspace(tmp_path / "runs" / "ladder-books")
    held = [texts[name] for name in sorted(texts) if is_held_out(texts[name])]
    assert ranking.read_corpus(place, "held-out").documents == held
    tokenizer = AutoTokenizer.from_pretrained(place / "tokenizer")
    scored = sum(len(tokenizer(text)["input_ids"]) - 1 for text in held)
    stores = [open_store(path) for path in store_folders([place / "ranks"])]
    models = [f"{model}-at-0.01024m" for model in ("lstm-10k", "neox-10k", "neox-22k", "neox-59k")]
    assert sorted(store.model for store in stores) == models
    assert {(store.tokens, store.dataset) for store in stores} == {(scored, "held-out")}
    rows = place.rows(with_plain_text(place, read_recipe()))
    pieces = [piece for row in rows[::20] for piece in re.split(r"<\|endoftext\|>", tokenizer.decode(row))]
    assert all(any(piece in text for text in texts.values() if text not in held) for piece in pieces)


@pytest.mark.long
def test_the_text_of_a_working_folder_is_not_replaced(train, tmp_path, in_this_process):
    write_texts(tmp_path / "texts", {f"{i}.txt": tale(i) for i in range(30)})
    assert train("--tokens", "256").returncode == 0
    out = tmp_path / "runs" / "ladder-texts"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert train().returncode == 0
    write_texts(tmp_path / "texts", {"30.txt": tale(30)})
    refused(train(), f"a ladder of other text, or of another number of tokens ({out})")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"a.md": "text", "b.txt": " \n"}, ["no .txt file with text in it, nor a corpus of the recipe (texts)"]),
        ({"a.txt": tale(0), "b.txt": tale(0)}, ["there is only one text", "cut it into several"]),
        ({"a.txt": tale(0), "b.txt": "naïve".encode("latin-1")}, ["the text is not UTF-8", "texts/b.txt, byte 2)"]),
    ],
)
def test_text_that_will_not_do_is_refused(texts, words, train, tmp_path):
    write_texts(tmp_path / "texts", texts)
    refused(train(), *words)
