"""Very small ladders that are trained, ranked and shipped once: what goes on, what is left alone, what is shipped."""

import fcntl
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import here, refused
from hypothesis import given
from hypothesis import strategies as st
from made_ladder import quiet, write_making
from safetensors.torch import load_file

from ladder import aggregates, shipped
from ladder import making as making_module
from ladder.making import Making
from ladder.shipping import RESOLUTION, read_token_counts, ship
from ladder.training import CHUNK, HeadLoss, Run
from ladder.workspace import Workspace
from rbp.errors import DataError
from rbp.measurements import sources
from rbp.metric import rank
from rbp.store import open_store, store_folders

LAST = "at-0.00256m"
#: the models of seed 0 at the largest budget
KEPT = {"neox": [f"neox-{rung}-{LAST}" for rung in ("narrow", "wide")], "lstm": [f"lstm-narrow-{LAST}"]}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """Transformers and LSTMs, and the folder that they are shipped to; of the transformers two seeds."""
    folder, threads = tmp_path_factory.mktemp("workshop"), torch.get_num_threads()
    making = write_making(folder)
    runs = making.choose(["neox", "lstm"], seeds=[0]) + making.choose(["neox"], seeds=[1])
    for run in runs:
        making_module.train(quiet, making, run)
    for job in aggregates.jobs(making, runs):
        job.work(quiet, *job.arguments)
    torch.set_num_threads(threads)
    ship(making, ["neox", "lstm"], folder / "shipped")
    return making, folder / "shipped"


@given(st.integers(1, 2 * CHUNK + 3), st.integers(1, 9), st.integers(2, 40), st.integers(0, 10**6))
def test_the_head_s_loss_and_gradients_are_those_of_torch(n, d, vocabulary, seed):
    random_ = torch.Generator().manual_seed(seed)
    hidden, head = (torch.randn(rows, d, generator=random_, dtype=torch.float64) * 3 for rows in (n, vocabulary))
    targets = torch.randint(vocabulary, (n,), generator=random_)

    def value_and_gradients(loss):
        h, w = hidden.clone().requires_grad_(), head.clone().requires_grad_()
        value = loss(h, w)
        return [value.detach(), *torch.autograd.grad(2.5 * value, (h, w))]

    ours = value_and_gradients(lambda h, w: HeadLoss.apply(h, w, targets))
    theirs = value_and_gradients(lambda h, w: torch.nn.functional.cross_entropy(h @ w.T, targets))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("family", ["neox", "lstm"])
def test_each_budget_is_a_whole_run_of_its_own(family, workshop, tmp_path):
    made, _ = workshop
    run = made.choose([family], ["narrow"], [0])[0]
    for tokens in made.ladders.training.budgets:
        assert made.is_done(run, tokens, made.rows(run))
        alone = Run(made.course(run, tokens), made.rows(run), tmp_path / str(tokens))
        alone.train()
        folders = (alone.folder, made.place / "training" / run.model_name(tokens))
        ours, theirs = (load_file(folder / "state.safetensors") for folder in folders)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
        assert alone.steps == tokens // 64
        record = made.about(run, tokens)
        assert (record["tokens"], record["digest"]) == (tokens, alone.digest())
    assert made.jobs([run], "cpu") == []


@pytest.mark.long
def test_a_line_goes_on_whatever_is_there(workshop, tmp_path):
    made, _ = workshop
    run = made.choose(["lstm"], ["narrow"], [0])[0]
    for name in ("tokenizer", "rows.npy", "text.json", "evaluation"):
        (tmp_path / name).symlink_to(made.place / name)
    making = Making(made.ladders, made.base, Workspace(tmp_path))
    trunk = Run(making.course(run, None), making.rows(run), tmp_path / "training" / run.name)
    trunk.train(until=13)  # past the first branch, whose state is not there
    making_module.train(quiet, making, run)
    for tokens in made.ladders.training.budgets:
        for file in ("config.json", "tokenizer.json", "model.safetensors"):
            name = Path("models") / run.model_name(tokens) / file
            assert (tmp_path / name).read_bytes() == (made.place / name).read_bytes()


@pytest.mark.long
def test_what_is_trained_is_left_alone_and_other_work_is_refused(workshop, in_this_process):
    making, _ = workshop
    folder = making.place.folder.parent

    def run(*more):
        options = [f"--texts={folder / 'texts'}", f"--config={folder / 'ladders.toml'}", f"--out={folder / 'out'}"]
        return here("ladder", "train", "--rungs", "narrow", "--seeds", "0", "--device", "cpu", *options, *more)

    state = making.place / "training" / "neox-narrow" / "state.safetensors"
    before = state.stat().st_mtime_ns
    models = [making.place / "models" / f"neox-narrow-at-{budget}m" for budget in (0.00064, 0.00128, 0.00256)]
    assert run().stdout == run("--family", "neox").stdout == "".join(f"{model}\n" for model in models)
    refused(run("--rungs", "nine"), "there is no rung 'nine' (--rungs)\nThere is: narrow, wide.")
    models[0].rename(folder / "away")  # so that the line is worked on
    with (state.parent / "lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert "another process is working on it" in run().stderr
    (folder / "away").rename(models[0])
    assert state.stat().st_mtime_ns == before


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("family", KEPT)
def test_the_models_kept_are_those_of_seed_0_at_the_largest_budget(workshop, family):
    making, folder = workshop
    assert sorted(path.name for path in (folder / "families" / family).iterdir()) == KEPT[family]
    stores = [open_store(path) for path in store_folders([folder / "families-ranks" / family])]
    assert sorted({store.model for store in stores}) == KEPT[family]
    for store in stores:
        before = open_store(making.place / "ranks" / store.folder.name)
        assert store.manifest["key"] == before.manifest["key"]
        shipped_ranks, other, beside = store.ranks(), before.ranks(), ["nll", "top"]
        np.testing.assert_array_equal(shipped_ranks.drop(columns=beside), other.drop(columns=beside))
        np.testing.assert_allclose(shipped_ranks["nll"], other["nll"], atol=0.51 / RESOLUTION)


@pytest.mark.long
def test_counts_are_those_of_each_token(workshop):
    folder, rule = workshop[1], "expected"
    found = {counts.dataset: counts for counts in shipped.counted([1, 3, 100], rule=rule, folder=folder)}
    for path in store_folders([folder / "families-ranks" / name for name in KEPT]):
        store = open_store(path)
        ranks, counts = store.ranks(), found[store.dataset]
        m, own = counts.names.index(store.model), np.asarray(rank(ranks["greater"], ranks["equal"], rule))
        for i, k in enumerate(counts.thresholds):
            hits = np.bincount(np.unique(ranks["document"], return_inverse=True)[1], own <= k)
            assert counts.hits[:, m, i].tolist() == hits.tolist()


@pytest.mark.long
def test_shipping_again_changes_nothing_and_families_of_another_text_are_refused(workshop, tmp_path):
    making, folder = workshop
    counts = Counter(making.place.rows(making.base)[: 2_560 // 32].ravel().tolist())  # of the largest budget
    assert read_token_counts(folder).tolist() == [counts[token] for token in range(280)]
    own = shutil.copytree(folder, tmp_path / "shipped")
    assert ship(making, ["lstm"], own) == {"lstm": [f"lstm-narrow-{LAST}-seed{seed}" for seed in (1, 2)]}
    assert contents(own) == contents(folder)
    (own / "text.json").write_text("{}")
    with pytest.raises(DataError, match="of another text"):
        ship(making, ["neox"], own)
    assert contents(own) == contents(folder) | {Path("text.json"): b"{}"}


@pytest.mark.long
def test_each_family_has_a_door(workshop, tmp_path, monkeypatch):
    _, folder = workshop
    monkeypatch.setattr(shipped, "LADDER", tmp_path)
    with pytest.raises(DataError, match="the family lstm is not shipped"):
        _ = sources.open_source("ladder:lstm").table
    monkeypatch.setattr(shipped, "LADDER", folder)
    ladders = [word for word in sources.available_sources() if word.startswith("ladder")]
    assert ladders == ["ladder", "ladder:lstm", "ladder:all"]
    neox, lstm, every = map(sources.open_source, ladders)
    assert set(neox.table["model"]) == set(KEPT["neox"])
    assert set(lstm.table["model"]) == set(KEPT["lstm"])
    times = ("", " at 0.00064 M", " at 0.00128 M")
    assert set(every.table["family"]) == {f"{family}{time}" for family in KEPT for time in times}
