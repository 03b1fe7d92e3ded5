import fcntl

import pytest
import torch
from commands import here, refused
from hypothesis import given
from hypothesis import strategies as st

from ladder.training import CHUNK, HeadLoss


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
