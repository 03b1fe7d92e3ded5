"""Texts from files that people have, packed or not, and what is said of those that cannot be read."""

import gzip
import io
import json

import pandas as pd
import pytest
import zstandard

from rbp.errors import DataError
from rbp.texts import corpora
from rbp.texts.corpora import open_corpus

ROWS = [{"text": "one", "title": "a"}, {"text": "zwei ü", "title": "b"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
CONTENTS = {
    ".jsonl": LINES + "\n",
    ".json": json.dumps(ROWS),
    ".pretty.json": json.dumps(ROWS, indent=2),
    ".lines.json": LINES,
    ".csv": pd.DataFrame(ROWS).to_csv(index=False),
    ".tsv": pd.DataFrame(ROWS).to_csv(index=False, sep="\t"),
}
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize("suffix", CONTENTS)
def test_files_with_fields(write, suffix, packed):
    """Each as it is and packed; two frames of a .zst are one file, as of a .gz."""
    content, pack = CONTENTS[suffix].encode(), PACK[packed]
    path = write(f"c{suffix}{packed}", pack(content[:9]) + pack(content[9:]))
    corpus = open_corpus(path)
    assert (corpus.name, list(corpus.documents)) == (f"c{suffix}".rpartition(".")[0], ["one", "zwei ü"])
    assert list(open_corpus(path, ["title", "text"]).documents) == ["a\none", "b\nzwei ü"]
    with pytest.raises(DataError, match="no field body"):
        open_corpus(path, ["body"])


@pytest.mark.parametrize("table", [True, False])
def test_json_lines_are_known_through_standard_input(table, monkeypatch):
    corpora._standard_input.cache_clear()
    text = LINES if table else "{ x } is a set\n" + LINES
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    corpus = open_corpus("-")
    assert corpus.documents == (["one", "zwei ü"] if table else [text])
    assert open_corpus("-").fingerprint == corpus.fingerprint  # as often as it is asked for
    corpora._standard_input.cache_clear()


@pytest.mark.parametrize("partly", [False, True])
@pytest.mark.parametrize(
    ("name", "content"),
    [("c.csv", "text,n,text\na,1,b\n"), ("c.jsonl", '{"text": "a"}\n{"text": "b", "text": "c"}\n')],
)
def test_a_field_that_is_there_twice_is_refused_if_it_is_asked_for(name, content, partly, write):
    with pytest.raises(DataError, match="text appears twice"):
        list(open_corpus(write(name, content), partly=partly).documents)
    inner = write("d.jsonl", b'{"text": "a", "n": 1, "n": 2, "meta": {"text": 1, "text": 2}}\n')
    assert open_corpus(inner).documents == ["a"]


@pytest.mark.parametrize(("kind", "packed"), [(".txt", ".gz"), (".jsonl", ".zst"), (".csv", ".gz")])
def test_what_is_read_partly_is_the_same_to_its_end(kind, packed, write):
    documents = ["one", "zwei ü", "", "drei\nvier 😀 " * 100_000]
    content = {
        ".txt": "".join(documents),
        ".jsonl": "".join(json.dumps({"text": text}) + "\n" for text in documents),
        ".csv": pd.DataFrame({"text": documents}).to_csv(index=False),
    }[kind]
    path = write(f"c{kind}{packed}", PACK[packed](content.encode()))
    some = open_corpus(path, partly=True).documents
    assert some.has(0)
    assert not some.has(4)
    assert list(some) == list(open_corpus(path).documents)
    assert len(some) == (1 if kind == ".txt" else 4)
    write(f"c{kind}{packed}", PACK[packed](content.encode())[:-9])
    with pytest.raises(DataError, match="cannot read the file"):
        list(open_corpus(path, partly=True).documents)


@pytest.mark.parametrize("name", ["c.txt", "c.jsonl"])
def test_the_mark_that_some_editors_put_before_a_text_is_none_of_it(write, name):
    plain = open_corpus(write(name, LINES))
    marked = open_corpus(write(name, b"\xef\xbb\xbf" + LINES.encode()))
    assert marked.documents == plain.documents
    assert (marked.fingerprint == plain.fingerprint) is (name == "c.txt")  # of other files it is that of the bytes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.txt", b"fine\n\xff\xfe", r"not UTF-8 .*line 2"),
        ("bad.jsonl", b'{"text": "a"}\nno\n', r"not a JSON object .*line 2"),
        ("bad.txt", b" \n", "empty"),
        ("bad.parquet", b"not parquet", "Parquet"),
        ("bad.json", b'[{"text": "a"},\n{"text": }]', r"not JSON .*line 2"),
        ("bad.csv", b'text,n\n"a",1\nb', r"1 cells .*line 3"),
        ("c.jsonl", b'{"text": "a"}\n{"text": "one \\ud83d two"}\n', r"half a character[^(]*\(.*c\.jsonl, line 2\)"),
    ],
)
def test_a_bad_file_is_named_with_the_place_in_it(write, name, content, message):
    with pytest.raises(DataError, match=message):
        open_corpus(write(name, content))


def test_a_published_corpus_has_its_fields_and_all_its_documents(tmp_path, monkeypatch):
    path = tmp_path / "abc" / "openai_humaneval" / "test-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    rows = pd.DataFrame({"prompt": f"def f{i}():", "canonical_solution": f"    return {i}"} for i in range(164))
    rows.to_parquet(path)
    monkeypatch.setattr(corpora, "_snapshot", lambda name, hub: tmp_path / "abc")
    assert open_corpus("humaneval").documents[7] == "def f7():\n    return 7"
    rows[:10].to_parquet(path)
    with pytest.raises(DataError, match="10 documents of 164"):
        open_corpus("humaneval")
