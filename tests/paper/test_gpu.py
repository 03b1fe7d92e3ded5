import json

import pytest

from rbp.core.errors import DataError
from rbp.paper.appendix.cost import gpu_shown, measured_on, rate_in_words, read_costs
from rbp.study.config import read_study
from rbp.study.gpu import aim_of, failure, rate_of, read_gpu, worked
from rbp.study.plan import A100, make_plan
from rbp.study.report import plan_lines


def way(name, d, ratio, dtype="bfloat16"):
    size = {"rows": 64, "d": d, "vocabulary": {768: 50304, 4096: 128256}[d], "dtype": dtype}
    figures = {"ratio": ratio, "ratio_low": 1, "ratio_high": 2, "extra_memory_mb": 3, "share_of_peak": 0.5}
    return size | {"way": name} | figures


def rows(dtype):
    names = ("bare product", 4096, 1.0), ("ours: linear_rank", 4096, 1.04), ("ours: linear_rank", 768, 1.5)
    return [way(*each, dtype=dtype) for each in names]


def ranked(dtype, size, rate):
    row = {"way": "ours: ranks", "tokens_per_second": 1e6, "ratio": 1.25}
    about = {"dtype": dtype, "parameters": size, "operations_per_second": rate, "reference": "backbone alone"}
    return about | {"question": f"rows from memory, {dtype}", "rows": [row]}


PARTS = {
    "kernels": {"answers": [{"question": "kernels", "kernels": 27, "processes": 16}]},
    "exactness": {"answers": [{"question": "a", "wrong": 0}, {"question": "b", "wrong": 2, "failed": ["2 wrong"]}]},
    "ranking": {
        "answers": [
            {"question": "q", "rows": rows("bfloat16")},
            {"question": "r", "rows": rows("float32")},
            {"question": "s", "error": "out of memory"},
        ],
        "left": ["t", "u"],
        "error": "not done after 95 s",
    },
    "extraction Pythia-70M": {"answers": [ranked("float32", 10, 9e12), ranked("bfloat16", 10, 8e13)]},
    "extraction Pythia-1.4B": {
        "answers": [ranked("float32", 1000, 4e13), {"question": "q", "left_out": "x is not installed"}]
    },
    "several GPUs": {"answers": [], "left_out": "there is one GPU"},
}
RUN = {"device": "a card", "date": "2026-01-02", "interpreter": False, "parts": PARTS}


def write(folder, content):
    (folder / "gpu.json").write_text(json.dumps(content))
    return folder / "gpu.json"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A file of a GPU's results where the plan looks for it; gives what writes it."""
    monkeypatch.setattr("rbp.study.plan.read_gpu", lambda: read_gpu(tmp_path / "gpu.json"))
    return lambda content: write(tmp_path, content)


@pytest.fixture
def study(tmp_path):
    """A small study in a dtype, whose file may say more."""

    def read(dtype="float32", more=""):
        path = tmp_path / "s.toml"
        path.write_text(f'models = ["EleutherAI/pythia-14m"]\ncorpora = ["humaneval"]\ndtype = "{dtype}"\n{more}')
        return read_study(path)

    return read


def test_without_a_file_no_gpu_was_measured(tmp_path):
    assert read_gpu(tmp_path / "gpu.json") is None
    assert measured_on(None) == "No GPU was measured"


def test_the_table_shows_card_date_aims_and_failures(tmp_path):
    run = read_gpu(write(tmp_path, RUN))
    assert measured_on(run) == "Measured on a GPU: a card, 2026-01-02"
    found = gpu_shown(run)
    assert "a card, 2026-01-02" in found["caption"]
    figures = {(row["part"], row["what"]): row["figure"] for row in found["table"].to_dict("records")}
    assert figures["kernels", "kernels compiled, on how many cores"] == "27, 16"
    assert figures["exactness", "wrong ranks, a"] == "0"
    assert figures["exactness", "b: failed"] == "2 wrong"
    beside = "50% of the data sheet’s rate, 3 MB"
    assert (
        figures["ranking", "64 × 4096 × 128256 in bfloat16: ours: linear_rank"] == f"1.04 (aim: at most 1.05), {beside}"
    )
    assert figures["ranking", "64 × 768 × 50304 in bfloat16: ours: linear_rank"] == f"1.50 (aim: at most 1.3), {beside}"
    assert figures["ranking", "64 × 768 × 50304 in float32: ours: linear_rank"] == f"1.50, {beside}"
    assert figures["ranking", "s: failed"] == "out of memory"
    assert figures["ranking", "not asked yet"] == "t; u"
    assert figures["ranking", "failed"] == "not done after 95 s"
    row = "rows from memory, float32: ours: ranks"
    assert figures["extraction Pythia-1.4B", row] == "1,000,000 tokens/s, 1.25 times the backbone alone"
    assert figures["extraction Pythia-1.4B", "q: left out"] == "x is not installed"
    assert figures["several GPUs", "left out"] == "there is one GPU"
    assert {part for part, _ in figures} == set(PARTS)


def test_a_gpus_costs_in_bfloat16_stand_beside_the_processors(tmp_path):
    assert read_costs(tmp_path).empty
    write(tmp_path, RUN)
    found = read_costs(tmp_path)
    assert found.gpu.all()
    assert found.ratio.tolist() == [1.0, 1.04, 1.5]
    assert set(found.dtype) == {"bfloat16"}
    processor = {"device": "a processor", "dtype": "float32", "date": "2026-01-02", "rows": rows("float32")}
    (tmp_path / "ranking-cpu.json").write_text(json.dumps(processor))
    found = read_costs(tmp_path)
    assert found.gpu.tolist() == 3 * [False] + 3 * [True]
    write(tmp_path, RUN | {"parts": {"ranking": {"answers": [{"question": "q", "error": "out of memory"}]}}})
    assert not read_costs(tmp_path).gpu.any()


@pytest.mark.parametrize(
    "content",
    [[], {}, RUN | {"parts": None}, RUN | {"parts": {"memory": 3}}, RUN | {"device": None}, RUN | {"parts": {"x": {}}}],
)
def test_another_file_is_refused(tmp_path, content):
    with pytest.raises(DataError, match="no result of make gpu"):
        read_gpu(write(tmp_path, content))


def test_the_interpreters_figures_are_never_a_gpus(tmp_path):
    with pytest.raises(DataError, match="interpreter's"):
        read_gpu(write(tmp_path, RUN | {"interpreter": True}))


@pytest.mark.parametrize("part", ["memory", "unknown", "exactness", "ranking"])
def test_a_malformed_part_is_named(part):
    with pytest.raises(DataError, match="malformed"):
        gpu_shown(RUN | {"parts": {part: {"answers": [{"question": "q"}]}}})


def test_what_failed_did_not_work():
    good = {"question": "q", "failed": []}
    assert worked({"answers": [good]})
    assert worked({"answers": [], "left_out": "x is not installed"})
    assert not worked({"answers": [good], "left": ["r"]})
    assert not worked({"answers": [good], "error": "none"})
    assert not worked({"answers": [good, {"question": "r", "failed": ["a rank is wrong"]}]})
    assert not worked({"answers": [{"question": "r", "error": "none"}]})
    assert not worked(None)
    assert failure({"failed": ["a", "b"]}) == "a; b"
    assert aim_of(way("ours: linear_rank", 4096, 1)) == 1.05
    assert aim_of(way("plain route", 4096, 1)) is None
    assert aim_of(way("ours: linear_rank", 4096, 1, "float32")) is None


def test_the_rate_is_that_of_the_largest_model_measured_in_the_dtype():
    assert rate_of(RUN, "float32") == 4e13
    assert rate_of(RUN, "bfloat16") == 8e13
    assert rate_of(RUN, "float64") is None
    ill = [ranked("float32", 10, 1e12) | {"failed": ["x"]}]
    assert rate_of(RUN | {"parts": {"a": {"answers": ill}}}, "float32") is None
    for bad in ({"parameters": "many"}, {"operations_per_second": None}):
        with pytest.raises(DataError, match="malformed"):
            rate_of(RUN | {"parts": {"a": {"answers": [ranked("float32", 10, 1e12) | bad]}}}, "float32")


def test_a_plan_takes_the_measured_rate_and_says_so(here, study):
    assumed = make_plan(study())
    assert assumed.rates.flops == 0.4 * A100["float32"]
    sheet = "an assumed 40% of the rate on the data sheet of the NVIDIA A100 80 GB"
    assert rate_in_words(assumed) == sheet
    said = "\n".join(plan_lines(assumed, [1]))
    assert "Assumed: NVIDIA A100 80 GB at 7.8 TFLOP/s in float32 (40% of its data sheet; not measured), weights" in said
    here(RUN)
    plan = make_plan(study())
    assert plan.rates.flops == 4e13
    (cost,), (before,) = plan.costs, assumed.costs
    assert cost.seconds == pytest.approx(before.seconds * assumed.rates.flops / 4e13)
    said = "\n".join(plan_lines(plan, [1]))
    assert "Measured: a card at 40.0 TFLOP/s in float32 (make gpu, 2026-01-02). Assumed: weights read at" in said
    assert "not measured" not in said
    assert rate_in_words(plan) == "the rate measured on the a card on 2026-01-02"
    assert make_plan(study("bfloat16")).rates.flops == 8e13


@pytest.mark.parametrize(
    ("dtype", "more", "flops"),
    [
        ("float32", "[gpu]\nshare = 0.5", 0.5 * A100["float32"]),  # who says something of a GPU means that one
        ("float32", '[gpu]\nname = "another"\nflops = 1e13', 0.4e13),
        ("float64", "", 0.4 * A100["float64"]),  # which nobody measured
    ],
)
def test_a_plan_for_another_gpu_or_dtype_goes_on_assuming(here, study, dtype, more, flops):
    here(RUN)
    plan = make_plan(study(dtype, more))
    assert plan.rates.flops == flops
    assert "not measured" in "\n".join(plan_lines(plan, [1]))


def test_cpus_are_planned_without_a_gpus_rate(here, study):
    before = make_plan(study(), on_gpu=False)
    here(RUN)
    assert make_plan(study(), on_gpu=False).rates == before.rates


def test_a_plan_refuses_a_malformed_file(here, study):
    here({"parts": 3})
    with pytest.raises(DataError, match="no result of make gpu"):
        make_plan(study())
