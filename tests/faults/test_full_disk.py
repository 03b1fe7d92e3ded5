"""Fault 2: a disk that is full. On a small file system of its own where the system allows one (root), and by a limit on
the size of files, which any process may set itself."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mini
import pytest
import tiny
from apart import BOUND, apart
from kills import content

from companion.project import ROOT, Project
from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store
from rbp.io import write_remedy

WINDOWS = protocol("windows", length=64, context=32, pack=1)
QUICK = Settings(backend="reference")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of 400 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root may mount a small file system here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_an_extraction_onto_a_full_disk_goes_on_once_there_is_room(small_disk, model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(30)))
    (whole,) = extract([str(model)], [corpus], WINDOWS, tmp_path / "whole", QUICK)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(330_000))
    with pytest.raises(DataError, match="cannot write: no space left on device") as caught:
        extract([str(model)], [corpus], WINDOWS, small_disk / "out", QUICK)
    assert "Free some space" in str(caught.value)
    (folder,) = (small_disk / "out").iterdir()
    with pytest.raises(DataError, match="not finished"):
        open_store(folder)
    assert 0 < len(content(folder, "parts/*")) < len(content(whole, "parts/*"))
    assert content(folder, "parts/*").items() <= content(whole, "parts/*").items()
    assert not list(folder.rglob(".*.tmp"))
    filler.unlink()
    assert extract([str(model)], [corpus], WINDOWS, small_disk / "out", QUICK) == [folder]
    assert content(folder, "parts/*") == content(whole, "parts/*")
    assert open_store(folder).ranks().equals(open_store(whole).ranks())


def extract_in_small_files(model: Path, corpus: str, out: Path) -> str:
    """What it says where no file may hold more than 1000 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # a manifest is larger, a part too
    try:
        extract([str(model)], [corpus], WINDOWS, out, QUICK)
    except DataError as error:
        return str(error)
    return ""


def test_a_file_that_must_not_grow_fails_the_same(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(6)))
    assert "cannot write: file too large" in apart(extract_in_small_files, model, corpus, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*/*"))
    (folder,) = extract([str(model)], [corpus], WINDOWS, tmp_path / "out", QUICK)
    assert open_store(folder).problems() == []


def run(
    project: Path, *arguments: str, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "rbp.cli", "--root", str(project), *arguments]
    more = os.environ | {"PYTHONPATH": str(ROOT / "src")} | (environment or {})
    return subprocess.run(command, cwd=project, env=more, capture_output=True, text=True, check=False, timeout=BOUND)


@pytest.mark.builds
def test_a_chapter_run_onto_a_full_disk(small_disk, tmp_path):
    mini.write_book(Project(tmp_path / "book"))
    (small_disk / "filler").write_bytes(bytes(398_000))
    done = run(tmp_path / "book", "run", "1", "--out", str(small_disk / "out"))
    assert done.returncode in (1, 2)
    assert "no space left" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 2
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    subprocess.run(["mount", "-o", "remount,size=40m", small_disk], check=True)  # a page alone is larger than the disk
    assert run(tmp_path / "book", "run", "1", "--out", str(small_disk / "out")).returncode == 0


def test_a_disk_that_must_not_be_written_is_not_called_full(small_disk, model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(2)))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(DataError, match="read-only file system") as caught:
        extract([str(model)], [corpus], WINDOWS, small_disk / "out", QUICK)
    assert "another folder" in str(caught.value)
    assert "space" not in str(caught.value)


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, False)])
def test_what_to_do_follows_from_what_was_wrong(number, full):
    assert write_remedy(OSError(number, "no"), "choose another folder").startswith("Free some space") == full
