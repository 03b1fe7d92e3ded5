"""A ladder on any folder of .txt files: what is held out, what the guide says, what is refused."""

import hashlib
import random
import re
import shutil
from pathlib import Path

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
LONG = {f"{i}.txt": tale(i) for i in range(4)}


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


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3), max_size=30))
def test_each_document_is_on_one_side_equal_ones_on_the_same_and_no_side_is_empty(texts):
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    held, others = split_by_hash(documents)
    assert sorted([*held, *others], key=lambda document: int(document.name)) == documents
    assert [held, others] == [sorted(side, key=lambda document: int(document.name)) for side in (held, others)]
    assert not {document.text for document in held} & {document.text for document in others}
    assert bool(held) == (len(set(texts)) > 1)


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
    texts = {f"{'' if i % 3 else 'more/'}{i}.txt": " ".join(rng.choices(words, often, k=1200)) for i in range(45)}
    books = write_texts(tmp_path / "books", texts | {"notes.md": "no text of the ladder", "blank.txt": " \n"})
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    (block,) = (block for block in re.findall(r"```bash\n(.*?)```", guide, re.DOTALL) if "--texts" in block)
    for line in block.splitlines():
        program, *arguments = line.split("#")[0].replace("100000", "10240").split()  # which take a tenth of the time
        assert program == ".venv/bin/rbp"
        done = here(*arguments, cwd=tmp_path, root=tmp_path)
        assert done.returncode == 0, done.stderr
    assert re.search(r"alpha|α", done.stdout)
    place = Workspace(tmp_path / "runs" / "ladder-books")
    held = [texts[name] for name in sorted(texts, key=lambda name: Path(name).parts) if is_held_out(texts[name])]
    assert 1 <= len(held) <= 8
    assert ranking.read_corpus(place, "held-out").documents == held
    tokenizer = AutoTokenizer.from_pretrained(place / "tokenizer")
    scored = sum(len(tokenizer(text)["input_ids"]) - 1 for text in held)
    stores = {store.model: store for store in (open_store(path) for path in store_folders([place / "ranks"]))}
    rungs = [f"neox-{rung}-at-0.01024m" for rung in ("10k", "22k", "59k")]
    assert sorted(stores) == ["lstm-10k-at-0.01024m", *rungs]
    assert {store.tokens for store in stores.values()} == {scored}
    assert {store.dataset for store in stores.values()} == {"held-out"}
    rows = place.rows(with_plain_text(place, read_recipe()))
    assert rows[:, 1:].size == 10240
    pieces = [piece for row in rows[::20] for piece in re.split(r"<\|endoftext\|>", tokenizer.decode(row))]
    assert all(any(piece in text for text in texts.values() if text not in held) for piece in pieces)

    shutil.move(books, tmp_path / "away")  # what was made needs them no longer
    again = ("--rungs", "10k", "--seeds", "0", "--out", str(place.folder))
    done = here("ladder", "train", *again, cwd=tmp_path, root=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, str(place / "models" / "neox-10k-at-0.01024m"))


@pytest.mark.long
def test_the_text_of_a_working_folder_is_not_replaced(train, tmp_path, in_this_process):
    write_texts(tmp_path / "texts", {f"{i}.txt": tale(i) for i in range(30)})
    assert train("--tokens", "256").returncode == 0
    out = tmp_path / "runs" / "ladder-texts"
    assert "plain text, fingerprint" in (out / "text.json").read_text()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert train().returncode == 0
    refused(train("--tokens", "512"), f"a ladder of other text, or of another number of tokens ({out})")
    write_texts(tmp_path / "texts", {"30.txt": tale(30)})
    refused(train(), f"a ladder of other text, or of another number of tokens ({out})")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("texts", "more", "words"),
    [
        (None, [], ["there is no such folder (texts)"]),
        ({"a.md": "text", "b.txt": " \n"}, [], ["no .txt file with text in it, nor a corpus of the recipe (texts)"]),
        ({"a.txt": tale(0), "b.txt": tale(0)}, [], ["there is only one text", "cut it into several"]),
        (LONG | {"b.txt": "naïve".encode("latin-1")}, [], ["the text is not UTF-8", "texts/b.txt, byte 2)"]),
    ],
)
def test_text_that_will_not_do_is_refused(texts, more, words, train, tmp_path):
    if texts is not None:
        write_texts(tmp_path / "texts", texts)
    refused(train(*more), *words)


@pytest.mark.long
def test_too_little_text_is_said_with_what_is_there_and_that_much_will_do(train, tmp_path, in_this_process):
    ((held, *_), _) = split_by_hash([Document(name, text) for name, text in LONG.items()])
    write_texts(tmp_path / "texts", LONG | {"quotes.txt": f"{tale(7)} {held.text}"})
    said = train("--tokens", "1000000").stderr
    lacking = r"texts has ([\d,]+) tokens, and 1,000,000 are wanted.*: (\d+) at most"
    there, most = re.search(lacking, said, re.DOTALL).groups()
    assert "1 documents are left out" in said
    assert int(there.replace(",", "")) == int(most)
    assert train("--tokens", str(int(most) + CONTEXT)).returncode == 2
    assert train("--tokens", most).returncode == 0
