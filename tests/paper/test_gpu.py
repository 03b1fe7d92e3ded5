import json

import pytest

from rbp.core.errors import DataError
from rbp.paper.costs import read_costs
from rbp.paper.gpu import aim_of, gpu_shown, measured_on, read_gpu, worked


def way(name, d, ratio):
    size = {"rows": 64, "d": d, "vocabulary": {768: 50304, 4096: 128256}[d]}
    return size | {"way": name, "ratio": ratio, "ratio_low": 1, "ratio_high": 2, "extra_memory_mb": 3}


RANKING = {
    "device": "a card",
    "dtype": "bfloat16",
    "date": "2026-01-02",
    "rows": [way("bare product", 4096, 1.0), way("ours: linear_rank", 4096, 1.04), way("ours: linear_rank", 768, 1.5)],
    "left_out": [way("cross-entropy without logits: Liger", 768, 0) | {"why": "not installed"}],
}
PARTS = {
    "exactness": {"answers": [{"wrong": 0}, {"wrong": 0}], "failed": []},
    "ranking": RANKING,
    "extraction Pythia-14M": {"rows": [{"way": "ours: its packs", "tokens_per_second": 1e6, "ratio": 2.0}]},
    "extraction Pythia-6.9B": {"left_out": "it takes 34 GB"},
    "devices": {"differ": 0.0012, "failed": []},
    "memory": {"batch": 256, "halvings": [[128, None], [64, 0.0]], "failed": []},
    "two processes": {"error": "not done after 60 s"},
    "ladder": {"runs": [{"name": "neox-10k", "tokens_per_second": 12345}], "failed": []},
    "tests": {"said": "1 failed", "failed": ["FAILED test_a"]},
}
RUN = {"device": "a card", "date": "2026-01-02", "interpreter": False, "parts": PARTS}


def write(folder, content):
    (folder / "gpu.json").write_text(json.dumps(content))
    return folder / "gpu.json"


def test_without_a_file_no_gpu_was_measured(tmp_path):
    assert read_gpu(tmp_path / "gpu.json") is None
    assert measured_on(None) == "No GPU was measured"


def test_the_table_shows_card_date_aims_and_failures(tmp_path):
    run = read_gpu(write(tmp_path, RUN))
    assert measured_on(run) == "Measured on a GPU: a card, 2026-01-02"
    found = gpu_shown(run)
    assert "a card, 2026-01-02" in found["caption"]
    figures = {(row["part"], row["what"]): row["figure"] for row in found["table"].to_dict("records")}
    assert figures["exactness", "wrong ranks in 2 problems"] == "0"
    assert figures["ranking", "64 × 4096 × 128256: ours: linear_rank"] == "1.04 (aim: at most 1.05)"
    assert figures["ranking", "64 × 768 × 50304: ours: linear_rank"] == "1.50 (aim: at most 1.3)"
    assert figures["ranking", "64 × 768 × 50304: cross-entropy without logits: Liger"] == "not installed"
    assert figures["extraction Pythia-14M", "ours: its packs"] == "1,000,000 tokens/s, 50% of the rate allowed"
    assert figures["extraction Pythia-6.9B", "left out"] == "it takes 34 GB"
    assert figures["memory", "rows at a time, as memory ran short"] == "256 → 128 → 64"
    assert figures["two processes", "failed"] == "not done after 60 s"
    assert figures["tests", "failed"] == "FAILED test_a"
    assert {part for part, _ in figures} == set(PARTS)


def test_a_gpus_costs_stand_beside_the_processors(tmp_path):
    assert read_costs(tmp_path).empty
    write(tmp_path, RUN)
    found = read_costs(tmp_path)
    assert found.gpu.all()
    assert found.ratio.tolist() == [1.0, 1.04, 1.5]
    (tmp_path / "ranking-cpu.json").write_text(json.dumps(RANKING | {"device": "a processor"}))
    found = read_costs(tmp_path)
    assert found.gpu.tolist() == 3 * [False] + 3 * [True]
    write(tmp_path, RUN | {"parts": PARTS | {"ranking": RANKING | {"error": "out of memory"}}})
    assert not read_costs(tmp_path).gpu.any()


@pytest.mark.parametrize(
    "content", [[], {}, RUN | {"parts": None}, RUN | {"parts": {"memory": 3}}, RUN | {"device": None}]
)
def test_another_file_is_refused(tmp_path, content):
    with pytest.raises(DataError, match="no result of make gpu"):
        read_gpu(write(tmp_path, content))


def test_the_interpreters_figures_are_never_a_gpus(tmp_path):
    with pytest.raises(DataError, match="interpreter's"):
        read_gpu(write(tmp_path, RUN | {"interpreter": True}))


@pytest.mark.parametrize("part", [{"memory": {}}, {"unknown": {}}, {"exactness": {"answers": 3}}])
def test_a_malformed_part_is_named(part):
    with pytest.raises(DataError, match="malformed"):
        gpu_shown(RUN | {"parts": part})


def test_what_failed_did_not_work():
    assert worked({"failed": []})
    assert not worked({"failed": ["a rank is wrong"]})
    assert not worked({"error": "none"})
    assert not worked(None)
    assert aim_of(way("ours: linear_rank", 4096, 1)) == 1.05
    assert aim_of(way("plain route", 4096, 1)) is None
