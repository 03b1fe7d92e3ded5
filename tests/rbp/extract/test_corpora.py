import gzip
import io
import json

import pandas as pd
import pytest
import zstandard

from rbp.errors import DataError, ParameterError
from rbp.extract import corpora
from rbp.extract.corpora import given_corpus, open_corpus

ROWS = [{"text": "one", "title": "a"}, {"text": "zwei ü", "title": "b"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "c.jsonl").write_text(LINES + "\n")
    (tmp_path / "c.txt").write_text("one\ntwo\n")
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as stream:
        stream.write(LINES)
    pd.DataFrame(ROWS).to_parquet(tmp_path / "c.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.parquet"])
def test_files_with_fields(files, name):
    corpus = open_corpus(str(files / name))
    assert corpus.name == "c"
    assert list(corpus.documents) == ["one", "zwei ü"]
    assert list(open_corpus(str(files / name), ["title", "text"]).documents) == ["a\none", "b\nzwei ü"]
    with pytest.raises(DataError, match="no field body"):
        open_corpus(str(files / name), ["body"])


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".pretty.json", ".lines.json", ".csv", ".CSV"])
def test_files_that_people_have(tmp_path, suffix, packed):
    """Each as it is and packed; two frames of a .zst are one file, as of a .gz."""
    content = {
        ".jsonl": LINES,
        ".json": json.dumps(ROWS),
        ".pretty.json": json.dumps(ROWS, indent=2),
        ".lines.json": LINES,
        ".csv": pd.DataFrame(ROWS).to_csv(index=False),
    }[suffix.lower()].encode()
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[packed]
    path = tmp_path / f"c{suffix}{packed}"
    path.write_bytes(pack(content[:9]) + pack(content[9:]))
    corpus = open_corpus(str(path))
    assert corpus.name == f"c{suffix}"[: -len(suffix.rpartition(".")[2]) - 1]
    assert list(corpus.documents) == ["one", "zwei ü"]
    assert list(open_corpus(str(path), ["title", "text"]).documents) == ["a\none", "b\nzwei ü"]
    with pytest.raises(DataError, match="no field body"):
        open_corpus(str(path), ["body"])
    if packed:
        path.write_bytes(path.read_bytes()[:-6])
        with pytest.raises(DataError, match="cannot read"):
            open_corpus(str(path))


@pytest.mark.parametrize("name", ["t.txt.gz", "t.txt.zst", "t.md", "t.md.gz"])
def test_a_packed_text_is_the_text(files, name):
    pack = gzip.compress if name.endswith(".gz") else zstandard.compress if name.endswith(".zst") else bytes
    (files / name).write_bytes(pack(b"one\ntwo\n"))
    corpus, plain = open_corpus(str(files / name)), open_corpus(str(files / "c.txt"))
    assert (corpus.name, corpus.documents) == ("t", ["one\ntwo\n"])
    assert corpus.fingerprint == plain.fingerprint


def test_texts_of_other_lists(tmp_path):
    path = tmp_path / "c.json"
    path.write_text('["one", "two"]')
    assert open_corpus(str(path)).documents == ["one", "two"]
    path.write_text('{"text": "one"}')
    assert open_corpus(str(path)).documents == ["one"]
    long = 'x, "y"\n' * 50_000  # in a cell, with commas, quotes and lines
    pd.DataFrame({"n": [1, 2], "text": ["  a ", long]}).to_csv(tmp_path / "c.csv", index=False)
    assert open_corpus(str(tmp_path / "c.csv")).documents == ["  a ", long]


def test_standard_input(monkeypatch):
    for content, fields, documents in ((b"one\ntwo", [], ["one\ntwo"]), (LINES.encode(), ["text"], ["one", "zwei ü"])):
        corpora._standard_input.cache_clear()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert open_corpus("-", fields).documents == documents
        assert open_corpus("-", fields).name == "stdin"  # as often as it is asked for
    corpora._standard_input.cache_clear()


def test_half_a_character_is_named_by_file_and_line(tmp_path):
    for name, content, place in (
        ("c.jsonl", '{"text": "a"}\n{"text": "one \\ud83d two"}\n', "line 2"),
        ("c.json", '[{"text": "a"}, "one \\ude00"]', "item 2"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match="half a character") as error:
            open_corpus(str(tmp_path / name))
        assert error.value.where == f"{tmp_path / name}, {place}"
    with pytest.raises(DataError, match="half a character") as error:
        given_corpus(["a", "\ud83d"], "texts")
    assert error.value.where == "texts, text 2"
    (tmp_path / "c.jsonl").write_text('{"text": "\\ud83d\\ude00"}')
    assert open_corpus(str(tmp_path / "c.jsonl")).documents == ["😀"]


def test_a_text_file_is_one_document(files):
    assert list(open_corpus(str(files / "c.txt")).documents) == ["one\ntwo\n"]
    with pytest.raises(ParameterError, match="no fields"):
        open_corpus(str(files / "c.txt"), ["text"])


@pytest.mark.parametrize("name", ["c.txt", "c.jsonl"])
def test_the_mark_that_some_editors_put_before_a_text_is_none_of_it(files, name):
    plain = open_corpus(str(files / name))
    (files / name).write_bytes(b"\xef\xbb\xbf" + (files / name).read_bytes())
    marked = open_corpus(str(files / name))
    assert marked.documents == plain.documents
    assert (marked.fingerprint == plain.fingerprint) == (name == "c.txt")


def test_the_fingerprint_follows_content_and_fields(files):
    first = open_corpus(str(files / "c.jsonl")).fingerprint
    (files / "copy.jsonl").write_bytes((files / "c.jsonl").read_bytes())
    assert open_corpus(str(files / "copy.jsonl")).fingerprint == first
    assert open_corpus(str(files / "c.jsonl"), ["title"]).fingerprint != first
    (files / "copy.jsonl").write_text(LINES.replace("one", "two"))
    assert open_corpus(str(files / "copy.jsonl")).fingerprint != first


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bad.txt", b"fine\n\xff\xfe", r"not UTF-8 .*line 2"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', r"not UTF-8 .*line 2"),
        ("bad.jsonl", b'{"text": "a"}\nno\n', r"no JSON object .*line 2"),
        ("bad.jsonl", b'{"text": 3}\n', "field text is no text"),
        ("bad.jsonl", b'{"text": "a"}\n{"body": "b"}\n', r"no field text .*line 2"),
        ("bad.jsonl", b"", "empty"),
        ("bad.txt", b" \n", "empty"),
        ("bad.jsonl.gz", b"not gzip", "cannot read"),
        ("bad.jsonl.gz", b"\x1f\x8b\x08" + bytes(6) + b"\x03" + b"\xff" * 50, "cannot read .*invalid block"),
        ("bad.parquet", b"not parquet", "Parquet"),
        ("bad.json", b'[{"text": "a"},\n{"text": }]', r"no JSON .*line 2"),
        ("bad.json", b'[{"text": "a"}, 3]', "item 2 is neither"),
        ("bad.csv", b'text,n\n"a",1\nb', r"1 cells .*line 3"),
        ("bad.csv", b'text\n"a"b\n', r"no CSV|not CSV"),
        ("bad.csv", b"text\n", "empty"),
        ("bad.txt.zst", b"no zst", "cannot read"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        open_corpus(str(tmp_path / name))


def test_a_truncated_gzip_file(files):
    path = files / "c.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match="cannot read"):
        open_corpus(str(path))


def test_unknown_names(tmp_path):
    with pytest.raises(ParameterError, match='Did you mean "wikipedia"'):
        open_corpus("wikipdia")
    with pytest.raises(ParameterError, match="unknown corpus"):
        open_corpus(str(tmp_path / "c.docx"))
    with pytest.raises(DataError, match="no such file"):
        open_corpus(str(tmp_path / "none.jsonl"))


@pytest.mark.parametrize("name", corpora.CORPORA)
def test_offline_says_what_to_do(name, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=r"not on this machine.*\n.*file of your own"):
        open_corpus(name)


def snapshot(monkeypatch, folder):
    monkeypatch.setattr(corpora, "_snapshot", lambda name, hub: folder)


def test_fields_of_a_published_corpus(tmp_path, monkeypatch):
    folder = tmp_path / "abc" / "openai_humaneval"
    folder.mkdir(parents=True)
    rows = [{"task_id": i, "prompt": f"def f{i}():", "canonical_solution": f"    return {i}"} for i in range(164)]
    pd.DataFrame(rows).to_parquet(folder / "test-00000-of-00001.parquet")
    snapshot(monkeypatch, tmp_path / "abc")
    corpus = open_corpus("humaneval")
    assert len(corpus.documents) == 164
    assert corpus.documents[7] == "def f7():\n    return 7"
    assert corpus.fingerprint["revision"] == "abc"
    pd.DataFrame(rows[:10]).to_parquet(folder / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match="10 documents of 164"):
        open_corpus("humaneval")


def test_the_github_part_of_the_pile(tmp_path, monkeypatch):
    for file, numbers in (("val", "12"), ("test", "34")):
        rows = [
            {"text": f"{part}{number}", "meta": {"pile_set_name": part}}
            for number in numbers
            for part in ("Github", "ArXiv")
        ]
        (tmp_path / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    snapshot(monkeypatch, tmp_path)
    hub = corpora.CORPORA["pile-github"]
    plain = corpora.Hub(hub.repository, ("val.jsonl", "test.jsonl"), hub.fields, subset=hub.subset)
    monkeypatch.setitem(corpora.CORPORA, "pile-github", plain)
    assert list(open_corpus("pile-github").documents) == ["Github1", "Github2", "Github3", "Github4"]
