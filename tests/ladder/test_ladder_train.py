import fcntl
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_ladder import write_ladder
from safetensors import safe_open

from rbp.core.errors import DataError
from rbp.ladder.recipe import read
from rbp.ladder.training import CHUNK, HeadLoss, Run
from rbp.ladder.workspace import Workspace


@given(st.integers(1, 2 * CHUNK + 3), st.integers(1, 9), st.integers(2, 40), st.integers(0, 10**6))
def test_the_head_s_loss_and_gradients_are_those_of_torch(n: int, d: int, vocabulary: int, seed: int) -> None:
    random_ = torch.Generator().manual_seed(seed)
    hidden, head = (torch.randn(rows, d, generator=random_, dtype=torch.float64) * 3 for rows in (n, vocabulary))
    targets = torch.randint(vocabulary, (n,), generator=random_)
    found = []
    for loss in (
        lambda h, w: HeadLoss.apply(h, w, targets),
        lambda h, w: torch.nn.functional.cross_entropy(h @ w.T, targets),
    ):
        h, w = hidden.clone().requires_grad_(), head.clone().requires_grad_()
        value = loss(h, w)
        (2.5 * value).backward()
        found.append((value.detach(), h.grad, w.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


STEPS = 300


def _command(folder: Path, out: Path, *more: str) -> list[str]:
    given = ["--config", str(folder / "small.toml"), "--texts", str(folder / "texts"), "--out", str(out)]
    command = [sys.executable, "-m", "rbp.cli", "ladder", "train", "--rungs", "small", "--seeds", "0"]
    return [*command, "--device", "cpu", "--every", "0.05", *given, *more]


def _steps(state: Path) -> int:
    with safe_open(state, "np") as file:
        return len(file.get_tensor("losses"))


def _wait_until_free(lock: Path) -> None:
    """The worker ends soon after its parent, and the system then lets go of its lock."""
    until = time.monotonic() + 20
    with lock.open("a") as stream:
        while time.monotonic() < until:
            try:
                return fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
    raise AssertionError("the killed run's process goes on")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recipe, the texts, and a ladder trained without a kill in out/."""
    folder = tmp_path_factory.mktemp("trained")
    write_ladder(folder, STEPS)
    done = subprocess.run(_command(folder, folder / "out"), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder / "out" / "models" / "ladder-small")
    assert "ladder-small  done" in done.stderr
    return folder


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_weights(trained: Path, tmp_path: Path) -> None:
    out, whole = tmp_path / "out", trained / "out"
    out.mkdir()
    for name in ("tokenizer", "evaluation"):
        shutil.copytree(whole / name, out / name)
    for name in ("rows.npy", "text.json", "documents.csv"):
        shutil.copy(whole / name, out / name)
    folder = Path("training") / "small-0"
    running = subprocess.Popen(_command(trained, out), stderr=subprocess.DEVNULL)
    while not (out / folder / "state.safetensors").exists():
        assert running.poll() is None
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.1))  # noqa: S311
    running.kill()
    running.wait()
    _wait_until_free(out / folder / "lock")
    assert 0 < _steps(out / folder / "state.safetensors") < STEPS
    assert not (out / "models").exists()
    subprocess.run(_command(trained, out), check=True, capture_output=True, timeout=600)
    for name in (folder / "run.json", Path("runs.json"), Path("training.csv"), Path("models/ladder-small/config.json")):
        ours, theirs = ((place / name).read_text() for place in (out, whole))
        if name.suffix == ".json" and "run" in name.name:
            ours, theirs = (_timeless(json.loads(text)) for text in (ours, theirs))
        assert ours == theirs, name
    model = Path("models/ladder-small/model.safetensors")
    assert (out / model).read_bytes() == (whole / model).read_bytes()
    with (
        safe_open(out / folder / "state.safetensors", "pt") as ours,
        safe_open(whole / folder / "state.safetensors", "pt") as theirs,
    ):
        assert set(ours.keys()) == set(theirs.keys())
        assert all(torch.equal(ours.get_tensor(name), theirs.get_tensor(name)) for name in ours.keys())  # noqa: SIM118


def _timeless(about: dict | list) -> dict | list:
    if isinstance(about, list):
        return [_timeless(each) for each in about]
    return {name: value for name, value in about.items() if not name.endswith("second") and "seconds" not in name}


@pytest.mark.builds
def test_what_is_trained_is_left_alone_and_other_work_is_refused(
    trained: Path, capsys, monkeypatch, in_this_process: None
) -> None:
    from rbp.cli import app

    def run(*more: str) -> tuple[int | str | None, str]:
        monkeypatch.setattr(sys, "argv", ["rbp", *_command(trained, trained / "out", *more)[3:]])
        with pytest.raises(SystemExit) as ended:
            app.main()
        return ended.value.code, capsys.readouterr().err

    state = trained / "out" / "training" / "small-0" / "state.safetensors"
    before = state.stat()
    assert run()[0] == 0
    assert run("--rungs", "middle") == (2, "error: there is no rung 'middle' (--rungs)\nThere is: small, large.\n")
    code, said = run("--seeds", "7")
    assert (code, "There is: 0, 1" in said) == (2, True)
    assert run("--seeds", "x")[0] == run("--steps", "1000")[0] == run("--device", "tpu")[0] == 2
    code, said = run("--steps", "20")
    assert (code, "another recipe, text, device or number of steps" in said) == (2, True)
    with (state.parent / "lock").open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        code, said = run("--steps", "20")
    assert (code, "another process is working on it" in said) == (2, True)
    assert state.stat() == before


@pytest.mark.builds
def test_a_state_of_other_rows_is_not_gone_on_with(trained: Path) -> None:
    recipe, place = read(trained / "small.toml"), Workspace(trained / "out")
    rows, rung = place.rows(recipe), recipe.rung("small")
    folder, course = place.run(rung, 0), recipe.course(rung, 0)
    assert Run(course, rows, folder).resume()
    assert not Run(course, rows[::-1].copy(), folder).resume()
    assert not Run(recipe.course(rung, 1), rows, folder).resume()
    with pytest.raises(DataError, match="too few"):
        Run(course, rows[:-1], folder)
