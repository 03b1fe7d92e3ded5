"""A disk that is full: a small file system of its own where the system allows one (root), and a limit on the size of
files, which any process may set itself."""

import errno
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import mini
import pytest
import tiny
from apart import apart, content
from commands import rbp

from companion.project import Project
from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store
from rbp.io import write_remedy


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of 400 kB."""
    disk, mount = tmp_path / "disk", shutil.which("mount")
    disk.mkdir()
    command = [mount or "false", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system here")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(30, longest=60)))


def extract_into(out: Path, model: Path, corpus: str) -> Path:
    windows = protocol("windows", length=64, context=32, pack=1)
    return extract([str(model)], [corpus], windows, out, Settings(backend="reference"))[0]


def test_an_extraction_onto_a_full_disk_goes_on_once_there_is_room(small_disk, model, corpus, tmp_path):
    whole = extract_into(tmp_path / "whole", model, corpus)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(330_000))
    with pytest.raises(DataError, match="cannot write: no space left on device") as caught:
        extract_into(small_disk / "out", model, corpus)
    assert "Free some space" in str(caught.value)
    (folder,) = (small_disk / "out").iterdir()
    with pytest.raises(DataError, match="not finished"):
        open_store(folder)
    assert 0 < len(content(folder, "parts/*")) < len(content(whole, "parts/*"))
    assert content(folder, "parts/*").items() <= content(whole, "parts/*").items()
    assert not list(folder.rglob(".*.tmp"))
    filler.unlink()
    assert extract_into(small_disk / "out", model, corpus) == folder
    assert content(folder, "parts/*") == content(whole, "parts/*")
    assert open_store(folder).ranks().equals(open_store(whole).ranks())


def extract_in_small_files(out: Path, model: Path, corpus: str) -> str:
    """What it says where no file may hold more than 1000 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # a manifest is larger, a part too
    try:
        extract_into(out, model, corpus)
    except DataError as error:
        return str(error)
    return ""


def test_a_file_that_must_not_grow_fails_the_same(model, corpus, tmp_path):
    assert "cannot write: file too large" in apart(extract_in_small_files, tmp_path / "out", model, corpus)
    assert not list((tmp_path / "out").glob("*/*"))
    assert open_store(extract_into(tmp_path / "out", model, corpus)).problems() == []


@pytest.mark.builds
def test_a_chapter_run_onto_a_full_disk(small_disk, tmp_path):
    book, run = tmp_path / "book", ["run", "1", "--out", str(small_disk / "out")]
    mini.write_book(Project(book))
    (small_disk / "filler").write_bytes(bytes(398_000))
    done = rbp(*run, cwd=book, root=book)
    assert done.returncode in (1, 2)
    assert "no space left" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    subprocess.run(["mount", "-o", "remount,size=40m", small_disk], check=True)  # a page alone is larger than the disk
    assert rbp(*run, cwd=book, root=book).returncode == 0


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, False)])
def test_what_to_do_follows_from_what_was_wrong(number, full):
    assert write_remedy(OSError(number, "no"), "choose another folder").startswith("Free some space") == full
