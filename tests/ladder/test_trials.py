"""Trials: runs beside the grid's, that differ from it in what they say and in nothing else."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from commands import here, refused
from made_ladder import options_of, quiet, write_making
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from companion.project import LADDER
from ladder import aggregates, shipped, shipping, text, training, trials
from ladder import making as making_module
from ladder.making import Line, Making
from ladder.recipe import read_ladders
from ladder.training import Run, loss_of
from rbp.errors import DataError
from rbp.io import sha256

pytestmark = pytest.mark.builds  # it trains
TIMES = {"begun", "seconds", "cpu_seconds", "tokens_per_second"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Making:
    """A grid whose text is made, and nothing is trained."""
    return write_making(tmp_path_factory.mktemp("trials"))


def losses(folder: Path) -> list[float]:
    """The loss of every step of the run in `folder`, in nats."""
    with safe_open(folder / "state.safetensors", "np") as file:
        return file.get_tensor("losses").tolist()


def lines(making: Making, name: str) -> list[Line]:
    (trial,) = trials.choose(making, [name])
    return trials.lines(making, trial)


def test_runs_are_called_by_what_differs_and_narrow_ones_come_first(made: Making) -> None:
    assert {trial.name: [line.name for line in trials.lines(made, trial)] for trial in trials.choose(made, [])} == {
        "rates": [f"{family}-narrow-rate{rate}" for family in ("neox", "lstm") for rate in (0.001, 0.01)],
        "factors": [f"neox-{rung}" for rung in ("narrow-rate0.01", "narrow", "wide-rate0.005", "wide")],
        "seeds": ["neox-narrow", "neox-narrow-seed1", "neox-narrow-seed2"],
        "updates": ["neox-narrow-batch1", "neox-narrow", "neox-narrow-batch4"],
        "data": ["neox-narrow-of0.00064m"],
        "longer": ["neox-narrow-longer"],
    }
    assert lines(made, "longer")[0].at(16_000) == "neox-narrow-at-0.016m"
    assert lines(made, "data")[0].at(2_560) == "neox-narrow-at-0.00256m-of0.00064m"
    of_lstm = trials.lines(made, made.ladders.trials[0], ["lstm"])
    assert [line.name for line in of_lstm] == ["lstm-narrow-rate0.001", "lstm-narrow-rate0.01"]
    assert trials.lines(made, made.ladders.trials[0], rungs=["wide"]) == []


def test_what_a_trial_does_not_change_is_the_grid_s_own_run(made: Making, tmp_path: Path) -> None:
    alone = write_making(tmp_path)  # of the same text
    own = alone.choose(["neox"], ["narrow"], [0])[0]
    making_module.train(quiet, alone, own)
    half, line = lines(made, "factors")[:2]
    for tried in (half, line):
        trials.run(quiet, made, tried)
    for tokens in (640, 1_280):
        name = Path("models") / own.at(tokens) / "model.safetensors"
        assert (made.place / name).read_bytes() == (alone.place / name).read_bytes()
        assert (made.model(half, tokens) / "model.safetensors").read_bytes() != (alone.place / name).read_bytes()
        ours, theirs = (making.about(line, tokens) for making in (made, alone))
        assert {key for key in ours if ours[key] != theirs[key]} <= TIMES
        rates = [[made.course(each, tokens).rate(step) for step in range(tokens // 64)] for each in (half, line)]
        np.testing.assert_allclose(rates[0], np.array(rates[1]) / 2, rtol=1e-12)
        assert made.about(half, tokens)["rate"] == theirs["rate"] / 2


def test_a_loss_is_that_of_the_kept_weights_on_rows_that_no_run_reads(made: Making) -> None:
    line = lines(made, "factors")[1]
    trials.run(quiet, made, line)
    rows = made.rows(line)
    assert len(rows) - made.ladders.unseen >= 2_560 // 32  # the largest budget
    ids = torch.from_numpy(rows[-made.ladders.unseen :].astype(np.int64))
    model = AutoModelForCausalLM.from_pretrained(made.model(line, 640), dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = model(input_ids=ids[:, :-1]).logits
    wanted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert trials.loss(made, line, 640) == pytest.approx(wanted.item(), abs=1e-4)
    assert trials.jobs(made, [line], "cpu") == []
    weights = made.model(line, 640) / "model.safetensors"
    kept = weights.read_bytes()
    weights.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    assert trials.loss(made, line, 640) is None
    assert [job.name for job in trials.jobs(made, [line], "cpu")] == [line.name]
    weights.write_bytes(kept)
    assert trials.loss(made, line, 640) == pytest.approx(wanted.item(), abs=1e-4)


def test_half_the_batch_is_twice_the_steps_over_the_same_tokens(made: Making) -> None:
    small, own, large = lines(made, "updates")
    for line in (small, large):
        trials.run(quiet, made, line)
    for line, steps in ((small, 40), (large, 10)):
        about = made.about(line, 1_280)
        assert (about["steps"], about["tokens"], about["batch"]) == (steps, 1_280, 1_280 // 32 // steps)
    warm, cold = 256 // 32, 1_280 * 3 // 4 // 32  # steps of one row: the schedule's are told in tokens
    rates = [made.course(small, 1_280).rate(step) for step in range(40)]
    highest = 0.01 * 16 / 8
    np.testing.assert_allclose(rates[:warm], highest * np.arange(1, warm + 1) / warm)
    np.testing.assert_allclose(rates[warm:cold], highest)
    np.testing.assert_allclose(rates[cold:], highest * np.arange(40 - cold, 0, -1) / (40 - cold))
    assert own == lines(made, "seeds")[0]


def test_less_text_is_read_over_and_over(made: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = lines(made, "data")
    whole, few = made.place.rows(made.base), made.rows(line)
    assert few.shape == whole.shape
    for i in range(80):
        np.testing.assert_array_equal(few[i], whole[i % 20])
    np.testing.assert_array_equal(few[80:], whole[80:])
    read = []
    monkeypatch.setattr(training, "loss_of", lambda model, rows: read.append(rows.numpy()) or loss_of(model, rows))
    making_module.train(quiet, made, line)
    assert made.about(line, 2_560)["steps"] == len(read) == 40
    np.testing.assert_array_equal(np.concatenate(read), np.concatenate([whole[:20]] * 4))
    assert made.about(line, 2_560)["distinct"] == 640


def test_what_is_ranked_of_trials_is_not_the_grid_s_and_by_sums_alone(
    made: Making, monkeypatch, in_this_process
) -> None:
    both = trials.apart(made, lines(made, "data") + lines(made, "seeds") + lines(made, "data"))
    assert [[line.at(tokens) for tokens in line.budgets] for line in both] == [
        ["neox-narrow-at-0.00256m-of0.00064m"],
        ["neox-narrow-at-0.00128m-seed1"],
        ["neox-narrow-at-0.00128m-seed2"],
    ]
    making_module.train(quiet, made, both[0])
    name = both[0].at(2_560)
    command = ["ladder", "rank", "--family", "neox", *options_of(made.place.folder.parent), "--trials"]
    assert here(*command, "data").returncode == 0
    with monkeypatch.context() as patch:
        patch.setattr(Making, "finished", lambda *_: iter(()))
        refused(here(*command, "rates"), "rbp ladder sweep --trials rates")
    assert set(aggregates.read(made.place / "aggregates" / name)) == set(aggregates.TABLES)
    assert not list(made.place.folder.glob(f"ranks/{name}*"))
    assert aggregates.jobs(made, both[:1]) == []


def test_the_command_fills_the_table_and_leaves_what_is_there(made: Making, in_this_process) -> None:
    folder, table = made.place.folder.parent, made.place.folder.parent / "losses.csv"

    def run(*more: str):
        return here("ladder", "sweep", *options_of(folder), "--to", str(table), "--device", "cpu", "--trials", *more)

    table.write_text(",".join(trials.COLUMNS) + "\nelse,lstm,narrow,0,640,0.1,2,,5.5\n")
    assert run("rates,data", "--family", "neox").stdout == f"{table}\n"
    found = pd.read_csv(table).set_index("model")
    assert found.loc["else", "loss"] == 5.5
    models = ["neox-narrow-at-0.00064m-rate0.001", "neox-narrow-at-0.00064m-rate0.01"]
    assert [*found.index] == ["else", *models, "neox-narrow-at-0.00256m-of0.00064m"]
    assert list(found.loc[models, "rate"]) == [0.001, 0.01]
    assert found.loc[models[1], "loss"] < found.loc[models[0], "loss"] < np.log(280) + 0.2
    assert found.loc[models[0], ["family", "rung", "seed", "budget", "batch"]].tolist() == ["neox", "narrow", 0, 640, 2]
    assert found["distinct"].isna().tolist() == [True, True, True, False]
    before = table.read_bytes()
    assert run("rates,data", "--family", "neox").returncode == 0
    assert table.read_bytes() == before
    refused(run("rate"), "There is: rates, factors, seeds, updates, data, longer")
    (folder / "long.toml").write_text((folder / "ladders.toml").read_text().replace("[2_560]", "[12_800]"))
    refused(run("factors,data", "--config", str(folder / "long.toml")), "a trial reads 12,800 tokens")
    assert not (made.place / "training" / "neox-wide").exists()  # of the other, which would fit
    refused(run("rates", "--rungs", "wide"), "no trial has such a run")


def test_a_longer_run_reads_further_rows_after_all_of_the_text_s(made: Making, tmp_path: Path) -> None:
    (line,) = lines(made, "longer")
    texts = made.place.folder.parent / "texts"
    before = made.place.rows(made.base)
    made.prepare(texts, 3_840)
    rows = made.rows(line)
    np.testing.assert_array_equal(made.place.rows(made.base), before)
    np.testing.assert_array_equal(rows[:400], before)
    assert rows.shape == (520, 33)
    about = json.loads((made.place / "more.json").read_text())
    assert (about["rows"], about["tokens"]) == (120, 3_840)
    assert about["follows"] == json.loads((made.place / "text.json").read_text())["rows"]["sha256"]
    told: list[str] = []
    trials.run(told.append, made, line)
    assert any("of 188 steps" in each for each in told)  # the trunk as well: up to where the last cool-down begins
    whole = Run(made.course(line, 16_000), rows, tmp_path / "alone")
    whole.train()
    np.testing.assert_array_equal(whole.losses, losses(made.place / "training" / line.at(16_000)))
    np.testing.assert_array_equal(whole.losses[:150], losses(made.place / "training" / line.at(12_800))[:150])
    own = made.choose(["neox"], ["narrow"], [0])[0]
    making_module.train(quiet, made, own)  # in the same folder, and of the same text: neither stands in the other's way
    np.testing.assert_array_equal(whole.losses[:30], losses(made.place / "training" / own.at(2_560))[:30])
    assert trials.jobs(made, [line], "cpu") == []
    assert trials.table(made, [line]).empty  # the rows that others are judged by are among those that it read
    record = made.about(line, 16_000)
    assert record["predictions"] == sha256(making_module.LONGER) != made.about(own, 2_560)["predictions"]
    assert (record["budget"], record["tokens"], record["more"]) == (16_000, 16_000, 3_840)
    with pytest.raises(DataError, match="not those that the training text was made of"):
        text.prepare_more(made.place, replace(made.base, text=replace(made.base.text, seed=1)), texts, 3_200)
    assert json.loads((made.place / "more.json").read_text()) == about


def test_sums_of_trials_are_kept_apart_and_beside_those_of_others(workshop, tmp_path: Path) -> None:
    making, folder = workshop
    shutil.copytree(folder, own := tmp_path / "shipped")
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file() and path.name != "families.json"}
    for name in ("updates", "data"):
        chosen = trials.apart(making, lines(making, name))
        with pytest.raises(DataError, match="no model of these trials of neox is ranked"):
            shipping.ship_trials(making, chosen, own)
        for line in chosen:
            making_module.train(quiet, making, line)
        for job in aggregates.jobs(making, chosen):
            job.work(quiet, *job.arguments)
        assert shipping.ship_trials(making, chosen, own) == {"neox-trials": []}
    assert {path: path.read_bytes() for path in before} == before
    assert "neox-trials" not in set(shipped.models(folder=own)["family"])
    table = shipped.models(["neox-trials"], folder=own)
    runs = ["0.00128m-batch1", "0.00128m-batch4", "0.00256m-of0.00064m"]
    assert [*table["model"]] == [f"neox-narrow-at-{run}" for run in runs]
    (one, _) = shipped.counted([1], families=["neox-trials"], folder=own)
    counts = aggregates.read(making.place / "aggregates" / one.names[1])["counts"]
    best = counts[(counts["dataset"] == one.dataset) & (counts["greater"] + counts["equal"] <= 1)]
    assert one.hits[:, 1, 0].sum() == best["tokens"].sum()


def test_the_table_that_is_shipped_is_the_recipe_s(made: Making) -> None:
    making = Making(*read_ladders(), made.place)
    runs = {
        line.at(tokens): making.course(line, tokens).about["rate"]
        for trial in trials.choose(making, [])
        for line in trials.lines(making, trial)
        for tokens in line.budgets
    }
    table = pd.read_csv(LADDER / "trials.csv").set_index("model")
    assert list(table.columns) == trials.COLUMNS[1:]
    assert table.index.is_unique
    for model, row in table.iterrows():
        assert row["rate"] == pytest.approx(runs[model], rel=1e-5), model
    records = {entry["name"]: entry for entry in json.loads((LADDER / "families.json").read_text())}
    both = [name for name in table.index if name in records]
    assert all(table.loc[name, "rate"] == pytest.approx(records[name]["rate"], rel=1e-5) for name in both)
