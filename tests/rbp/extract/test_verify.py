"""A sample of every store is verified: what is caught, when, and by which model and text."""

import re
import shutil

import pytest
from commands import here
from tiny import save_model, texts, write_texts

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract import forward
from rbp.extract.extraction import extract
from rbp.extract.verify import choose_sample
from rbp.store import Store, open_store
from rbp.texts.protocol import protocol

WINDOWS = protocol("windows", length=64, context=32, pack=4)
QUICK = Settings(backend="reference")


@pytest.fixture
def given(saved, tmp_path):
    corpus = write_texts(tmp_path / "mine.jsonl", texts(15, longest=40))
    return [str(saved("gpt2"))], [str(corpus)], WINDOWS, tmp_path / "out", QUICK


CHANGES = {
    "greater": lambda tally: tally.greater[7].add_(1 if tally.greater[7] < 250 else -1),
    "equal": lambda tally: tally.equal[7].add_(1),
    "nll": lambda tally: tally.total[7].mul_(1.01),
}


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_one_wrong_rank_is_caught(change, saved, tmp_path, monkeypatch):
    """Of a kernel that is wrong where it has more rows than the checks of the beginning give it."""
    monkeypatch.setattr(choose_sample, "__defaults__", (1.0, 2))  # all are verified
    corpus = str(write_texts(tmp_path / "mine.jsonl", [texts(1, seed, 100)[0] for seed in range(7)]))
    given = [str(saved("gpt2"))], [corpus], protocol("windows", length=200), tmp_path / "out", QUICK
    count = forward.count

    def wrong(problem, *options):
        tally = count(problem, *options)
        if len(problem.hidden) > 64:
            CHANGES[change](tally)
        return tally

    with monkeypatch.context() as patch:
        patch.setattr(forward, "count", wrong)
        with pytest.raises(DataError, match=r"(?s)have other ranks.*document \d, position \d+.*OMP_NUM_THREADS=1"):
            extract(*given)
    (folder,) = (tmp_path / "out").iterdir()
    with pytest.raises(DataError, match="not finished"):
        open_store(folder)
    shutil.rmtree(folder)
    (again,) = extract(*given)
    assert open_store(again).sampled.tokens == open_store(again).tokens


def test_a_run_that_ended_before_it_verified_does_so_when_it_goes_on(given, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Store, "note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            extract(*given)
    (folder,) = given[3].iterdir()
    assert not Store(folder).manifest["complete"]
    assert Store(folder).checked() is None
    before = {path: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()}
    extract(*given)
    assert open_store(folder).sampled.rows >= 2
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()}  # nothing ranked again


def test_stores_are_verified_by_their_own_model_and_text(given, tmp_path):
    (folder,), ((model,), (corpus,), *_) = extract(*given), given
    other, text = save_model(tmp_path / "other", "neox"), write_texts(tmp_path / "other.jsonl", texts(9, seed=1))
    check = ("ranks", "check", str(folder))
    for options, words in (
        (["--model", str(other), "--corpus", corpus], "has other weights than"),
        (["--model", model, "--corpus", str(text)], "other is not the text that was ranked"),
    ):
        done = here(*check, *options)
        assert (done.returncode, words in done.stderr) == (2, True), done
    done = here(*check, "--model", model, "--corpus", corpus)
    assert done.returncode == 0, done
    tokens, said = open_store(folder).tokens, done.stdout + done.stderr
    sampled = int(re.search(r"checked: ([\d,]+) of", said)[1].replace(",", ""))
    assert f"probability {1 - sampled / tokens:.3f}" in said  # that one wrong rank was not among them
