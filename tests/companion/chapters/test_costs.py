"""What ranking costs, from the files of the benchmarks: of processors, and of a GPU."""

import json

import pytest

from bench.common import worked
from companion.chapters.appendix import cost
from rbp.errors import DataError

PLAIN, OURS = "plain route: logits, softmax, top 10 000, count", "ours: linear_rank"
RATIOS = {"bare product, in our tiles": 1.0, PLAIN: 3.0, OURS: 1.2}


def rows(dtype="float32"):
    """Two shapes by three ways; the wider one costs 0.5 more."""
    return [
        {"rows": 2048, "d": d, "vocabulary": 50304, "dtype": dtype, "way": way, "seconds": 1.0, "share_of_peak": 0.5}
        | {"ratio": ratio + d / 1280, "ratio_low": 1, "ratio_high": 2, "extra_memory_mb": 10 * ratio}
        for d in (128, 768)
        for way, ratio in RATIOS.items()
    ]


def result(dtype="float32"):
    return {"device": f"a {dtype} machine", "dtype": dtype, "date": "2026-01-02", "rows": rows(dtype)}


ANSWERS = [
    {"question": "q", "rows": rows("bfloat16")},
    {"question": "r", "rows": rows("float32")},
    {"question": "s", "error": "out of memory"},
]
RUN = {"device": "a card", "date": "2026-01-02", "interpreter": False, "parts": {"ranking": {"answers": ANSWERS}}}


def write(folder, content, name="gpu.json"):
    (folder / name).write_text(json.dumps(content))
    return folder / name


def test_ranges_and_the_table_come_from_the_rows(tmp_path):
    write(tmp_path, result(), "ranking-cpu.json")
    write(tmp_path, {}, "fits.json")
    found = cost.read_costs(tmp_path)
    assert len(found) == 6
    (row,) = cost.ranges(found).to_dict("records")
    assert row["device"] == "a float32 machine"
    assert [row[f"ours_{what}"] for what in ("min", "max", "memory")] == pytest.approx([1.3, 1.8, 12])
    assert [row[f"plain_{what}"] for what in ("min", "max", "memory")] == pytest.approx([3.1, 3.6, 30])
    shown = cost.costs_table(found)["table"]
    assert shown["T × d × V"].tolist() == ["2,048 × 128 × 50,304", "2,048 × 768 × 50,304"]
    assert shown["plain route, MB"].tolist() == pytest.approx([30, 30])
    write(tmp_path, result("bfloat16"), "ranking-gpu.json")
    both = cost.ranges(cost.read_costs(tmp_path))
    assert both["device"].tolist() == ["a bfloat16 machine", "a float32 machine"]


def test_a_gpus_costs_stand_beside_the_processors(tmp_path):
    assert cost.ranges(cost.read_costs(tmp_path))["ours_max"].tolist() == [], "without a file there is nothing"
    write(tmp_path, RUN)
    found = cost.read_costs(tmp_path)
    assert found.ratio.tolist() == 2 * [row["ratio"] for row in rows()[3:]], "of the widths whose ratio is wanted"
    assert found.dtype.tolist() == 3 * ["bfloat16"] + 3 * ["float32"]
    assert cost.measured_on(found) == "Measured on a GPU: a card, 2026-01-02"
    write(tmp_path, result(), "ranking-cpu.json")
    assert cost.read_costs(tmp_path).gpu.tolist() == 6 * [False] + 6 * [True]
    write(tmp_path, RUN | {"parts": {"ranking": {"answers": ANSWERS[2:]}}})
    assert not cost.read_costs(tmp_path).gpu.any()
    with pytest.raises(DataError, match="Triton's interpreter"):
        cost.read_costs(write(tmp_path, RUN | {"interpreter": True}).parent)


def test_what_failed_did_not_work():
    good = {"question": "q", "failed": []}
    assert worked({"answers": [good]})
    assert worked({"answers": [], "left_out": "x is not installed"})
    for wrong in ({"failed": ["a rank is wrong"]}, {"error": "none"}):
        assert not worked({"answers": [good, {"question": "r"} | wrong]})
    assert not worked({"answers": [good], "left": ["r"]})
