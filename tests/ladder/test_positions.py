"""Sums by the position in a window, counted again token by token."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from made_ladder import quiet
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from rbp.core.errors import DataError
from rbp.ladder import positions
from rbp.ladder.making import Making

END = 0


@pytest.fixture(scope="module")
def model() -> GPTNeoXForCausalLM:
    torch.manual_seed(0)
    shape = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    return GPTNeoXForCausalLM(GPTNeoXConfig(**shape, intermediate_size=16, max_position_embeddings=64)).eval()


def test_bins_hold_what_is_nearest_to_a_power_of_two() -> None:
    assert positions.edges(256).tolist() == [1, 2, 3, 6, 12, 23, 46, 91, 182, 256]
    for window in (9, 64, 256):
        edges = positions.edges(window)
        bins = np.searchsorted(edges, np.arange(1, window), side="right") - 1
        powers = np.round(np.log2(np.arange(1, window))).astype(int)
        assert bins.tolist() == powers.clip(max=len(edges) - 2).tolist()


def test_windows_are_whole_and_the_end_of_a_text_is_not_asked_for() -> None:
    rows, of = positions.stream_rows([[5, 6, 7], [8], [9, 10, 11, 12]], END, 4)
    assert [row.ids.tolist() for row in rows] == [[0, 5, 6, 7], [0, 8, 0, 9]]  # 10, 11, 12 fill none
    assert [row.scored.tolist() for row in rows] == [[1, 2, 3], [1, 3]]
    assert [row.start for row in rows] == [0, 4]
    assert of.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2]


def test_sums_are_those_of_each_token(model: GPTNeoXForCausalLM) -> None:
    rng = np.random.default_rng(0)
    documents = [rng.integers(1, 50, length).tolist() for length in (70, 3, 40, 150, 90, 20)]
    window = 32
    rows, of = positions.stream_rows(documents, END, window)
    found = positions.sums(model, rows, of, window, (1, 10))
    wanted: dict[tuple[int, int], list[float]] = {}
    starts = np.cumsum([0, *(1 + len(each) for each in documents)])
    stream = [token for each in documents for token in (END, *each)]
    edges = positions.edges(window).tolist()
    for first in range(0, len(stream) - window + 1, window):
        ids = stream[first : first + window]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([ids])).logits[0].double()
        for at in range(1, window):
            if ids[at] == END:
                continue
            document = max(d for d in range(len(documents)) if starts[d] <= first + at)
            unit = int(starts[document]) * len(documents) // len(stream)
            bin_ = max(i for i, edge in enumerate(edges) if edge <= at)
            rank = int((logits[at - 1] >= logits[at - 1][ids[at]]).sum())
            nll = -torch.log_softmax(logits[at - 1], 0)[ids[at]].item()
            own = wanted.setdefault((unit, edges[bin_]), [0, 0, 0, 0, 0])
            for i, value in enumerate((1, rank <= 1, rank <= 10, nll, np.log(at))):
                own[i] += value
    assert found["tokens"].sum() == sum(len(row.scored) for row in rows)
    assert {*zip(found["unit"], found["first"], strict=True)} == wanted.keys()
    for row in found.itertuples():
        own = wanted[row.unit, row.first]
        assert (row.tokens, row.hits_1, row.hits_10) == tuple(own[:3])
        np.testing.assert_allclose([row.nll, row.positions], own[3:], rtol=1e-5, atol=1e-9)
        assert edges[edges.index(row.first) + 1] == row.last + 1


def test_one_file_for_all_models_that_is_made_where_it_is_missing(
    workshop: tuple[Making, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(workshop[1], tmp_path / "shipped")
    for rung in ("narrow", "wide"):  # the project's own models find it by their place
        own = folder / "families" / "neox" / f"neox-{rung}-at-0.00256m"
        shutil.copytree(folder / "tokenizer", own, dirs_exist_ok=True)
    monkeypatch.setattr(positions, "WINDOW", 32)
    todo = positions.jobs(["neox"], tmp_path / "out", folder)
    assert [job.name for job in todo] == [f"neox-{rung}-at-0.00256m" for rung in ("narrow", "wide")]
    for job in todo:
        job.work(quiet, *job.arguments)
    assert positions.jobs(["neox"], tmp_path / "out", folder) == []
    with pytest.raises(DataError, match=r"cannot read the file.*\n.*rbp ladder positions"):
        positions.read(tmp_path)
    positions.gather(tmp_path / "out", tmp_path / positions.FILE)
    table = positions.read(tmp_path)
    assert list(table) == positions.COLUMNS
    assert set(table["dataset"]) == {"questions", "tales"}
    each = table.groupby(["dataset", "model"])["tokens"].sum().unstack()
    assert (each.iloc[:, 0] == each.iloc[:, 1]).all()
    assert (table["hits_1"] <= table["hits_10"]).all()
    assert (table["hits_100"] <= table["tokens"]).all()
