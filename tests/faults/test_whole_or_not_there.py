"""What is written is whole or not there, wherever writing ends: by a failure at a step, by a kill, or beside others."""

import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import tiny
import writes
from apart import apart, begin, content, server, until
from draws import loop_and_slow

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.io import swap_in
from rbp.store import Store, open_store
from rbp.texts.protocol import protocol


@pytest.mark.long
@pytest.mark.parametrize("share", loop_and_slow(0.05, 1))
@pytest.mark.parametrize("name", writes.CASES)
def test_failures_at_steps_of_writing(name, share, model, tmp_path):
    assert apart(writes.count, name, tmp_path / "work", model, share) >= 2


def test_a_folder_that_cannot_be_replaced_stays(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(FileNotFoundError):
        swap_in(tmp_path / "nothing", target)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["folder", "folder/old"]


def extract_or_be_refused(model: Path, corpus: str, out: Path) -> str:
    windows = protocol("windows", length=64, context=32, pack=1)
    try:
        extract([str(model)], [corpus], windows, out, Settings(backend="reference"))
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.long
def test_extractions_at_once_make_one_store(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(20)))
    assert extract_or_be_refused(model, corpus, tmp_path / "whole") == ""
    with ProcessPoolExecutor(3, mp_context=server()) as pool:
        three = [pool.submit(extract_or_be_refused, model, corpus, tmp_path / "out") for _ in range(3)]
    said = sorted(each.result() for each in three)
    assert said[0] == ""
    for words in filter(None, said):  # one that came late finds the work done
        assert "another run is working on this store" in words
    (store,), (whole,) = ((tmp_path / name).iterdir() for name in ("out", "whole"))
    assert content(store, "parts/*") == content(whole, "parts/*")
    assert open_store(store).problems() == []


def hold(folder: Path) -> None:
    with Store(folder).lock((1, 2)):  # of a shard, which the whole waits for
        (folder / "held").touch()
        time.sleep(60)


@pytest.mark.long
def test_a_lock_whose_owner_died_holds_nobody_up(tmp_path):
    store = Store(tmp_path / "store")
    holder = begin(hold, store.folder)
    until((store.folder / "held").exists)
    with pytest.raises(DataError, match="another run is working on this store"), store.lock():
        pass
    holder.kill()
    holder.join(60)
    with store.lock():
        pass
