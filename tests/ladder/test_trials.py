"""Trials: runs beside the grid's, judged on rows that no run reads, and kept in one table."""

import numpy as np
import pandas as pd
import pytest
import torch
from commands import here, refused
from made_ladder import options_of, quiet, write_making
from transformers import AutoModelForCausalLM

from ladder import trials

pytestmark = pytest.mark.long  # it trains


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return write_making(tmp_path_factory.mktemp("trials"))


def test_a_loss_is_that_of_the_kept_weights_on_rows_that_no_run_reads(made):
    (trial,) = trials.choose(made, ["rates"])
    run = trials.runs_of(made, trial)[1]
    trials.train_and_judge(quiet, made, run)
    rows = made.rows(run)
    assert len(rows) - made.ladders.unseen >= 2_560 // 32  # the largest budget
    ids = torch.from_numpy(rows[-made.ladders.unseen :].astype(np.int64))
    model = AutoModelForCausalLM.from_pretrained(made.model(run, 640), dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = model(input_ids=ids[:, :-1]).logits
    wanted = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert trials.loss(made, run, 640) == pytest.approx(wanted.item(), abs=1e-4)
    assert trials.jobs(made, [run], "cpu") == []


def test_the_command_fills_the_table_and_leaves_what_is_there(made, in_this_process):
    folder, table = made.place.folder.parent, made.place.folder.parent / "losses.csv"

    def run(*more):
        return here("ladder", "sweep", *options_of(folder), "--to", str(table), "--device", "cpu", "--trials", *more)

    table.write_text(",".join(trials.COLUMNS) + "\nelse,lstm,narrow,0,640,0.1,2,,5.5\n")
    assert run("rates,data", "--family", "neox").stdout == f"{table}\n"
    found = pd.read_csv(table).set_index("model")
    assert found.loc["else", "loss"] == 5.5
    models = ["neox-narrow-at-0.00064m-rate0.001", "neox-narrow-at-0.00064m-rate0.01"]
    assert [*found.index] == ["else", *models, "neox-narrow-at-0.00256m-of0.00064m"]
    assert found.loc[models[1], "loss"] < found.loc[models[0], "loss"] < np.log(280) + 0.2
    before = table.read_bytes()
    assert run("rates,data", "--family", "neox").returncode == 0
    assert table.read_bytes() == before
    (folder / "long.toml").write_text((folder / "ladders.toml").read_text().replace("[2_560]", "[12_800]"))
    refused(run("data", "--config", str(folder / "long.toml")), "a trial reads 12,800 tokens")
