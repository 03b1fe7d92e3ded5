"""A sample of every store is verified: what is chosen, what is compared, what is caught, and what is kept of it."""

import re
import shutil

import numpy as np
import pytest
from commands import here
from tiny import load, save_model, texts, write_texts

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract import forward, verify
from rbp.extract.extraction import extract
from rbp.extract.forward import Ranker
from rbp.extract.verify import Stored, choose_sample, plain_logits, verify_sample
from rbp.store import Store, open_store
from rbp.texts.protocol import Row, protocol

WINDOWS = protocol("windows", length=64, context=32, pack=4)
QUICK = Settings(backend="reference")


def row(document, length):
    ids = np.random.default_rng(document).integers(3, 300, length)
    return Row(document, 0, ids, np.arange(1, length))


@pytest.fixture
def given(saved, tmp_path):
    corpus = write_texts(tmp_path / "mine.jsonl", texts(15, longest=40))
    return [str(saved("gpt2"))], [str(corpus)], WINDOWS, tmp_path / "out", QUICK


def verified(ranker, rows, ranks):
    return list(verify_sample(plain_logits(ranker, apart=False), rows, ranks))


def stored(rows, ranks, **change):
    columns = {
        "document": np.concatenate([np.full(len(r.scored), r.document) for r in rows]),
        "position": np.concatenate([r.start + r.scored for r in rows]),
        "token": np.concatenate([r.ids[r.scored] for r in rows]),
        **{name: column.copy() for name, column in ranks._asdict().items()},
    }
    for name, (at, value) in change.items():
        columns[name][at] += value
    mixed = np.random.default_rng(0).permutation(len(ranks.nll))  # a store need not be in the order of rows
    return Stored({name: column[mixed] for name, column in columns.items()}, "here")


@pytest.mark.long
def test_every_change_of_a_rank_is_found(saved, monkeypatch):
    """In blocks of 15 positions, as where no more logits fit."""
    monkeypatch.setattr(verify, "VALUES", 5000)
    rows, ranker = [row(i, n) for i, n in enumerate((2, 20, 40))], Ranker(load(saved("llama")), "reference", 1)
    ranks = ranker.rank(rows)
    answers = verified(ranker, rows, stored(rows, ranks))
    assert [(one.tokens, one.differ, wrong) for one, wrong in answers] == [(1, 0, []), (19, 0, []), (39, 0, [])]
    before = (0, 1, 20)  # scored tokens of earlier rows
    for change in ({"greater": (0, 3), "equal": (58, 1)}, {"greater": (40, 3), "equal": (1, 1), "nll": (57, 0.01)}):
        answers = verified(ranker, rows, stored(rows, ranks, **change))
        places = [before[wrong.row.document] + wrong.index for _, some in answers for wrong in some]
        assert sorted(places) == sorted(at for at, _ in change.values())


def off_by_one(count):
    """A kernel that counts one too many where it has more rows than the checks of the beginning give it."""

    def tally(given, *options):
        found = count(given, *options)
        if len(given.hidden) > 64:
            found.greater[7] += 1 if found.greater[7] < 250 else -1
        return found

    return tally


def test_what_breaks_is_caught(saved, tmp_path, monkeypatch):
    """In one place of an otherwise sound extraction, of seven rows: all are verified."""
    monkeypatch.setattr(choose_sample, "__defaults__", (1.0, 2))
    corpus = str(write_texts(tmp_path / "mine.jsonl", [texts(1, seed, 100)[0] for seed in range(7)]))
    given = [str(saved("gpt2"))], [corpus], protocol("windows", length=200), tmp_path / "out", QUICK
    with monkeypatch.context() as patch:
        patch.setattr(forward, "count", off_by_one(forward.count))
        with pytest.raises(DataError, match=r"tokens that were ranked again have other ranks") as caught:
            extract(*given)
    said = str(caught.value)
    assert re.search(r"document \d, position \d+, token \d+: rank \d+ .* and alone \d+", said)
    assert "OMP_NUM_THREADS=1" in said
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
