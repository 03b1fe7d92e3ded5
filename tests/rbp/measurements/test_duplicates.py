"""Which models of data/published and data/outside are measured twice, by comparing all pairs by a rule of its own."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

from companion.chapters import training
from companion.evidence import outside, published
from rbp.measurements import open_source

FEWEST, MEDIAN, LARGEST = 6, 0.003, 0.025  # numbers in common, and by how much they may differ


def one_and_the_same(wide):
    """Pairs of rows that agree; wide: a row for each model, in nats or logits, a column for each measurement."""
    values = {name: row.to_numpy(dtype=float) for name, row in wide.iterrows()}
    for a, b in combinations(values, 2):
        away = np.abs(values[a] - values[b])
        away = away[~np.isnan(away)]
        if len(away) >= FEWEST and np.median(away) < MEDIAN and away.max() < LARGEST:
            yield a, b


def every_file():
    """Each file with its measurements, a row for each model or run: nats, ln of perplexities, logits of shares."""
    columns = ["dataset", "metric", "k"]
    wide = open_source("published").table.fillna({"k": 0}).pivot_table(index="model", columns=columns, values="value")
    yield np.log(wide)
    windows = published.sequence_success().query("0 < p_success < 1")
    yield logit(windows.pivot_table(index="model", columns=["dataset", "k", "n"], values="p_success"))
    words = outside.lambada().query("step >= 1000")  # before it, models are still near their first weights
    yield np.log(words.pivot_table(index=["family", "model"], columns=["shots", "step"], values="perplexity"))
    read = outside.detector_documents()
    yield read.pivot_table(index=["model", "written_by"], columns=["dataset", "document"], values="entropy")
    tried = outside.problem_tries().assign(share=lambda rows: rows["correct"] / rows["samples"]).query("0 < share < 1")
    yield logit(tried.pivot_table(index=["model", "training_tokens"], columns="prompt", values="share"))
    images = pd.concat([outside.image_models(), outside.blind_image_models()])
    images["name"] = images["model"] + "@" + images["img_size"].astype(str)
    # only what has the same parameters: comparing all of 1 556 models would take a minute
    shares = images.pivot_table(index=["param_count", "name"], columns="dataset", values=["top1", "top5"])
    for _, own in logit(shares / 100).groupby(level=0):
        yield own.droplevel(0)


@pytest.mark.slow
def test_what_is_measured_twice_is_what_the_readme_names():
    found = {pair for wide in every_file() for pair in one_and_the_same(wide)}
    levit = {
        tuple(f"levit_{conv}{size}.fb_dist_in1k@224" for conv in ("", "conv_"))
        for size in ("128", "128s", 192, 256, 384)
    }
    assert found == levit | {(("Pythia", "pythia-2.8b"), ("Pythia deduped", "pythia-2.8b"))}
    assert not outside.xlstm_runs().duplicated(["loss", "accuracy"]).any()


def test_what_is_measured_twice_counts_once():
    images = open_source("images").table
    assert images["model"].str.startswith("levit_").any()
    assert not images["model"].str.startswith("levit_conv").any()
    steps = training.read_snapshots()
    assert steps[steps["model"] == "pythia-2.8b"]["family"].unique().tolist() == ["Pythia"]
