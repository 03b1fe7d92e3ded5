"""A user's own text is read whole, and the summary says how much was; stores are removed and renamed by command."""

import io

import pytest
from commands import here, refused
from tiny import texts, write_texts

from rbp.extract.store import open_store


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A text of which the authors' protocol reads the beginning alone."""
    path = tmp_path_factory.mktemp("text") / "mine.txt"
    path.write_text(" ".join(texts(60, longest=60)))
    return path


def extracted(root, model, text, *more):
    done = here("extract", "--model", str(model), "--corpus", str(text), *more, root=root)
    assert done.returncode == 0, done.stderr
    return open_store(done.stdout.strip()), done.stderr


def test_a_plain_file_is_read_whole(saved, text, tmp_path):
    store, said = extracted(tmp_path, saved("gpt2"), text)
    assert store.protocol["name"] == "windows"
    assert store.protocol["length"] == 256  # what the model reads
    assert store.read == (len(text.read_text()),) * 2
    assert store.tokens > 4 * 256
    assert store.ranks()["position"].tolist() == list(range(1, store.tokens + 1))
    assert "the whole text read" in said
    asked = ("extract", "--model", str(saved("gpt2")), "--corpus", str(text), "--corpus", "humaneval")
    refused(here(*asked, root=tmp_path), "--protocol")  # own texts and the paper's are not mixed


@pytest.mark.parametrize(
    ("more", "tokens"), [(("--protocol", "authors", "--length", "64"), 63), (("--tokens", "100"), 100)]
)
def test_how_much_of_a_text_is_read_is_said(saved, text, tmp_path, tokenizer, more, tokens):
    store, said = extracted(tmp_path, saved("gpt2"), text, *more)
    assert store.tokens == tokens
    whole = text.read_text()
    start = tokenizer.decode(tokenizer(whole)["input_ids"][: tokens + 1])
    assert whole.startswith(start)
    assert store.read == (len(start), len(whole))
    words = f"{len(start):,} of {len(whole):,} characters read"
    assert words in said
    assert words in here("ranks", "summary", "--k", "1", root=tmp_path).stderr


@pytest.fixture
def stores(saved, tmp_path):
    """Two stores of texts of one name, and a file beside them."""
    folders = []
    for name in ("mine.jsonl", "other/mine.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        store, _ = extracted(tmp_path, saved("gpt2"), write_texts(path, texts(3, seed=len(name))))
        folders.append(store.folder)
    (tmp_path / "runs" / "ranks" / "notes.txt").write_text("mine")
    return folders


def test_a_store_is_removed_and_nothing_else(stores, monkeypatch):
    one, other = stores
    assert here("ranks", "rm", str(one), "--yes").returncode == 0
    assert open_store(other).ranks().size
    assert sorted(path.name for path in one.parent.iterdir()) == sorted([other.name, "notes.txt"])
    for answer, code in (("n\n", 1), ("y\n", 0)):
        assert other.exists()
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert here("ranks", "rm", str(other)).returncode == code
    assert not other.exists()


def test_what_is_no_store_is_not_removed(stores, tmp_path):
    one, other = stores
    (other / "thesis.tex").write_text("mine")
    refused(here("ranks", "rm", str(one.parent), "--yes"), "thesis.tex", "nothing was removed")
    link = tmp_path / "link"
    link.symlink_to(one)
    refused(here("ranks", "rm", str(link), "--yes"), "nothing was removed")
    refused(here("ranks", "rm", str(tmp_path / "other"), "--yes"), "no rank store")
    assert one.is_dir()
    assert (other / "thesis.tex").is_file()


def test_a_store_is_renamed(stores, tmp_path):
    one, other = stores
    before = open_store(one).ranks()
    done = here("ranks", "rename", str(one), "--model", "a/b", "--dataset", "poems", "--family", "Mine")
    store = open_store(done.stdout.strip())
    assert (store.model, store.dataset, store.family) == ("a/b", "poems", "Mine")
    assert store.folder.name == f"b-poems-{store.text}-{store.manifest['digest']}"
    assert store.ranks().equals(before)
    assert not one.exists()
    refused(here("ranks", "rename", str(other), "--model", " "), "empty model")
    refused(here("ranks", "rename", str(other)), "no new name")
    refused(here("ranks", "rename", str(tmp_path), "--model", "x"), "no rank store")
    back = here("ranks", "rename", str(store.folder), "--family", "Mine")
    assert back.stdout.strip() == str(store.folder)
