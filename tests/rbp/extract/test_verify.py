"""A sample of every store is verified: what is chosen, what is compared, what is caught, and what is kept of it."""

import json
import re
import shutil
import time

import hypothesis
import numpy as np
import pytest
import torch
from commands import here
from hypothesis import strategies as st
from tiny import save_model, texts

from rbp.errors import DataError
from rbp.extract import extraction, forward, probe, verify
from rbp.extract.extraction import Settings, extract, verify_store
from rbp.extract.forward import Ranker
from rbp.extract.models import find_model, load_model
from rbp.extract.protocol import Row, protocol
from rbp.extract.reader import Reader
from rbp.extract.store import SampleCheck, Store, open_store, read_part
from rbp.extract.verify import Stored, choose_sample, plain_logits, verify_sample

CPU = torch.device("cpu")
WINDOWS = protocol("windows", length=64, context=32, pack=4)
QUICK = Settings(backend="reference")


def row(document, length, scored=None):
    ids = np.random.default_rng(document).integers(3, 300, length)
    return Row(document, 0, ids, np.arange(1, length) if scored is None else scored)


@hypothesis.given(
    st.lists(st.integers(2, 500), min_size=1, max_size=300), st.sampled_from(["a", "b"]), st.floats(0.01, 1)
)
def test_what_is_chosen(lengths, seed, share):
    rows = [row(i, n, np.arange(1, n)) for i, n in enumerate(lengths)]
    found = choose_sample(rows, seed, share)
    assert found == sorted(set(found)) == choose_sample(rows, seed, share)
    assert len(found) >= min(2, len(rows))
    assert sum(lengths[i] - 1 for i in found) >= share * sum(n - 1 for n in lengths) * (1 - 1e-12)
    assert {min(lengths), max(lengths)} <= {lengths[i] for i in found}


def test_rows_of_all_lengths_are_chosen_and_each_in_some_sample():
    rows = [row(i, n) for i, n in enumerate([5] * 40 + [50] * 40 + [200] * 40)]
    samples = [choose_sample(rows, str(seed), least=8) for seed in range(200)]
    for found in samples:
        assert min(sum(low <= i < low + 40 for i in found) for low in (0, 40, 80)) >= 2
    assert set().union(*samples) == set(range(120))
    windows = [row(i, 512) for i in range(16)]
    assert {len(choose_sample(windows, str(seed))) for seed in range(20)} == {2}
    assert set().union(*(choose_sample(windows, str(seed)) for seed in range(200))) == set(range(16))


@pytest.fixture
def threads():
    """threads(n): PyTorch computes on n of them until the test ends."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def given(saved, write_corpus, tmp_path):
    """What `extract` takes for a small measurement."""
    return [str(saved("gpt2"))], [str(write_corpus(texts(20)))], WINDOWS, tmp_path / "out", QUICK


@pytest.fixture
def language(saved):
    return load_model(find_model(str(saved("gpt2"))), "float32", CPU)


def verified(ranker, rows, ranks, **options):
    """What `verify_sample` finds in all rows."""
    return list(verify_sample(plain_logits(ranker, apart=False), rows, ranks, **options))


def stored(rows, ranks, **change):
    """Ranks of rows as a store has them, one of them changed."""
    columns = {
        "document": np.concatenate([np.full(len(r.scored), r.document) for r in rows]),
        "position": np.concatenate([r.start + r.scored for r in rows]),
        "token": np.concatenate([r.ids[r.scored] for r in rows]),
        "greater": ranks.greater.copy(),
        "equal": ranks.equal.copy(),
        "nll": ranks.nll.copy(),
    }
    for name, (at, value) in change.items():
        columns[name][at] += value
    mixed = np.random.default_rng(0).permutation(len(ranks.nll))  # a store need not be in the order of rows
    return Stored({name: column[mixed] for name, column in columns.items()}, "here")


@pytest.mark.parametrize("values", [2**27, 5000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_change_of_a_rank_is_found(saved, monkeypatch, values, dtype):
    """As a whole, and in blocks of 15 positions where no more logits fit."""
    monkeypatch.setattr(verify, "VALUES", values)
    language = load_model(find_model(str(saved("llama"))), dtype, CPU)
    rows = [row(i, n) for i, n in enumerate((2, 40, 90))]
    ranker = Ranker(language, "reference", 1)
    ranks = ranker.rank(rows)
    answers = verified(ranker, rows, stored(rows, ranks))
    assert [one.rows for one, _ in answers] == [1, 1, 1]
    assert [one.tokens for one, _ in answers] == [1, 39, 89]
    assert not any(wrong for _, wrong in answers)
    if dtype == "bfloat16":  # whose own logits are rounded: many ranks differ by that
        assert sum(one.differ for one, _ in answers) > 10
        assert max(one.largest for one, _ in answers) > 0
        return
    assert sum((one for one, _ in answers), SampleCheck()).differ == 0
    for name, change in {"greater": 3, "equal": 1, "nll": 0.01}.items():
        for at in (0, 1, 70, 128):
            changed = stored(rows, ranks, **{name: (at, change)})
            found = [wrong for _, some in verified(ranker, rows, changed) for wrong in some]
            assert len(found) == 1, (name, at)
            (wrong,) = found
            assert wrong.row.ids[wrong.row.scored[wrong.index]] == np.concatenate([r.ids[1:] for r in rows])[at]
    quiet = verified(ranker, rows, stored(rows, ranks, nll=(70, 0.01)), cross_entropies=False)
    assert not any(wrong for _, wrong in quiet)


@pytest.mark.parametrize(("apart", "wrong"), [(1e-6, False), (0.1, True)])
def test_a_leap_that_rounding_makes_is_no_wrong_rank(saved, apart, wrong):
    """A model that takes one of two ways by the sign of a number, as one that chooses experts."""
    rows, way = [row(0, 60)], torch.linspace(-1, 1, 32)
    files = find_model(str(saved("gpt2")))

    def chooses(border):
        def leaps(_, __, out):
            out.last_hidden_state = out[0] * torch.where((out[0] @ way)[..., None] > border, 1.0, -1.0)
            return out

        language = load_model(files, "float32", CPU)
        language.model.transformer.register_forward_hook(leaps)
        return Ranker(language, "reference", 1)

    with torch.inference_mode():
        hidden = load_model(files, "float32", CPU).model.transformer(torch.from_numpy(rows[0].ids)[None])[0]
        border = float((hidden @ way)[0, 30])
    one, other = chooses(border + 1e-7 * abs(border)), chooses(border - apart * abs(border))
    ranks = other.rank(rows)
    assert (ranks.greater != one.rank(rows).greater).any()
    (answer,) = verified(one, rows, stored(rows, ranks))
    assert bool(answer[1]) is wrong


def test_limits_and_rounding_are_those_of_the_store_and_other_tokens_are_no_ranks(language):
    rows = [row(i, 60) for i in range(3)]
    for options in ({"vocabulary": 300}, {"rounding": "bfloat16"}):
        ranker = Ranker(language, "reference", 1, **options)
        ranks = ranker.rank(rows)
        assert not any(wrong for _, wrong in verified(ranker, rows, stored(rows, ranks)))
    plain = Ranker(language, "reference", 1)
    assert any(wrong for _, wrong in verified(plain, rows, stored(rows, ranks)))  # of other logits
    for name in ("token", "position"):
        with pytest.raises(DataError, match=r"is another token, or none .here"):
            verified(plain, rows, stored(rows, ranks, **{name: (100, 1)}))


def bend(_, __, out, length):
    """The hidden states, in a way that depends on a length."""
    out.last_hidden_state = out[0] * torch.linspace(1, 1.5, 32) ** (length / 20)
    return out


def sees_the_length(model):
    model.transformer.register_forward_hook(lambda module, given, out: bend(module, given, out, out[0].shape[1]))


def remembers(model):
    """The length of what it reads lies in a buffer, and is looked at again a little later: as a slow rotation would."""
    model.transformer.register_buffer("length", torch.zeros(()))

    def notes(module, first, named):
        module.length.fill_((first[0] if first else named["input_ids"]).shape[1])
        time.sleep(0.003)

    model.transformer.register_forward_pre_hook(notes, with_kwargs=True)
    model.transformer.register_forward_hook(lambda module, given, out: bend(module, given, out, module.length))


def loading(change):
    def load(files, dtype, device):
        language = load_model(files, dtype, device)
        change(language.model)
        return language

    return load


def off_by_one(linear_rank):
    """A kernel that counts one too many where it has more rows than the checks of the beginning give it."""

    def ranks(hidden, *given, **options):
        found = linear_rank(hidden, *given, **options)
        if len(hidden) > 64:
            found.greater[7] += 1 if found.greater[7] < 250 else -1
        return found

    return ranks


BREAKS = {
    "kernel": lambda patch: patch.setattr(forward, "linear_rank", off_by_one(forward.linear_rank)),
    "buffer": lambda patch: (
        patch.setattr(extraction, "load_model", loading(remembers)),
        patch.setattr(probe, "_steadied", lambda language, *_: Reader(language, steady=True)),
    ),
    "padding": lambda patch: (
        patch.setattr(extraction, "load_model", loading(sees_the_length)),
        patch.setattr(Ranker, "_width", lambda self, row: -(-len(row.ids) // 64) * 64),
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_what_breaks_is_caught(what, saved, write_corpus, threads, tmp_path, monkeypatch):
    """Each in one place of an otherwise sound extraction, of seven rows: all are verified."""
    monkeypatch.setattr(choose_sample, "__defaults__", (1.0, 2))
    corpus = str(write_corpus([texts(1, seed, 100)[0] for seed in range(7)]))
    given = [str(saved("gpt2"))], [corpus], protocol("windows", length=200), tmp_path / "out", QUICK
    threads(3)
    with monkeypatch.context() as patch:
        BREAKS[what](patch)
        with pytest.raises(DataError, match=r"tokens that were asked again have other ranks") as caught:
            extract(*given)
    said = str(caught.value)
    assert re.search(r"document \d, position \d+, token \d+: rank \d+ .* and alone \d+", said)
    assert "OMP_NUM_THREADS=1" in said
    (folder,) = (tmp_path / "out").iterdir()
    with pytest.raises(DataError, match="not finished"):
        open_store(folder)
    if what == "buffer":  # and where its memory is noticed, it is ranked right
        monkeypatch.setattr(extraction, "load_model", loading(remembers))
    shutil.rmtree(folder)
    (again,) = extract(*given)
    assert open_store(again).sampled.tokens == open_store(again).tokens


def test_shards_verify_rows_of_their_own_and_the_sum_is_kept(saved, write_corpus, tmp_path):
    model, corpus = str(saved("neox")), str(write_corpus(texts(80)))
    shards = []
    for i in (2, 1, 3):
        (folder,) = extract([model], [corpus], WINDOWS, tmp_path / "out", QUICK, (i, 3))
        found = json.loads((folder / "checks" / f"{i}-of-3.json").read_text())
        names = sorted(path.name for path in (folder / "parts").iterdir())
        assert sorted(found) == [name for name in names if int(name[:5]) % 3 == i - 1]
        shards.append(sum((SampleCheck(**each) for each in found.values()), SampleCheck()))
        assert shards[-1].rows >= 2
        assert Store(folder).manifest["complete"] is (i == 3)
    sampled = open_store(folder).sampled
    assert sampled == sum(shards, SampleCheck())
    assert sampled.tokens >= 0.02 * open_store(folder).tokens


def begin_again(store):
    """As a store is whose measurement goes on."""
    manifest = store.manifest
    store.begin(manifest["key"], manifest["about"], manifest["packs"], manifest["tokens"])


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
    first, found = open_store(folder).sampled, Store(folder).noted()
    assert first.rows >= 2
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()}  # nothing ranked again

    (folder / "checks" / "all.json").write_text('{"half')  # what cannot be read was not asked
    begin_again(Store(folder))
    extract(*given)
    assert open_store(folder).sampled == first

    path = Store(folder).parts()[0][0]  # damaged, and so made again: what was found of other parts stays
    path.write_bytes(b"PAR1")
    others = {name: one.as_dict() for name, one in found.items() if name != path.name}
    (folder / "checks" / "all.json").write_text(json.dumps(others))
    extract(*given)
    assert open_store(folder).problems() == []
    assert set(Store(folder).noted()) == set(found)
    assert open_store(folder).sampled.tokens >= first.tokens - found[path.name].tokens


def test_a_part_that_was_made_anew_is_verified_again(given, monkeypatch):
    monkeypatch.setattr(choose_sample, "__defaults__", (1.0, 2))
    (folder,) = extract(*given)
    kept = Store(folder)
    path = kept.parts()[0][1]
    columns = {name: column.copy() for name, column in read_part(path).items()}
    columns["greater"][3] += 5
    path.unlink()
    kept.write(1, columns)
    kept.finish({})  # with all checksums right
    assert open_store(folder).sampled is None
    with pytest.raises(DataError, match=r"1 of [\d,]+ tokens that were asked again"):
        verify_store(open_store(folder), given[0][0], given[1], share=1.0)
    begin_again(kept)
    with pytest.raises(DataError, match=r"1 of .* other ranks"):
        extract(*given)


def test_stores_are_verified_by_their_own_model_and_text(given, tmp_path, write_corpus):
    (folder,), ((model,), (corpus,), *_) = extract(*given), given
    other, text = str(save_model(tmp_path / "other", "neox")), str(write_corpus(texts(9, seed=1), "other.jsonl"))
    bare = tmp_path / "bare"
    shutil.copytree(model, bare, ignore=shutil.ignore_patterns("*token*"))
    check = ("ranks", "check", str(folder))
    for options, said in (
        (["--model", other, "--corpus", corpus], "has other weights than"),
        (["--model", model, "--corpus", text], "other is not the text that was ranked"),
        (["--model", model], "unknown corpus 'mine'"),
        (["--corpus", corpus], "without a model asks nothing"),
        (["--tokenizer", model], "without a model asks nothing"),
        (["--model", model, "--corpus", corpus, "--share", "0"], "a share of 0.0"),
        (["--model", model, "--corpus", corpus, "--share", "nan"], "a share of nan"),
        (["--model", str(bare), "--corpus", corpus], "the model has no tokenizer"),
    ):
        done = here(*check, *options)
        assert (done.returncode, said in done.stderr) == (2, True), done
    assert here(*check, "--model", model, "--corpus", corpus, "--share", "1").returncode == 0
    done = here(*check, "--model", str(bare), "--corpus", corpus, "--tokenizer", model)
    assert done.returncode == 0, done
    tokens, said = open_store(folder).tokens, done.stdout + done.stderr
    sampled = int(re.search(r"checked: ([\d,]+) of", said)[1].replace(",", ""))
    assert f"probability {1 - sampled / tokens:.3f}" in said  # that one wrong rank was not among them
    said = here("ranks", "summary", str(folder), "--k", "1").stderr
    assert f"checked: {open_store(folder).sampled.tokens:,} of {tokens:,} tokens, none differs" in said
