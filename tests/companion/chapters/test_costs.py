"""What ranking costs, from the files of the benchmarks: of processors, and of a GPU."""

import json

import pytest

from companion.chapters.appendix import cost
from rbp.errors import DataError

RATIOS = {"bare product, in our tiles": 1.0, "plain route: logits, softmax": 3.0, "ours: linear_rank": 1.2}


def rows(dtype):
    """Two shapes by three ways; the wider one costs 0.5 more."""
    return [
        {"rows": 2048, "d": d, "vocabulary": 50304, "dtype": dtype, "way": way, "seconds": 1.0, "share_of_peak": 0.5}
        | {"ratio": ratio + d / 1280, "ratio_low": 1, "ratio_high": 2, "extra_memory_mb": 10 * ratio}
        for d in (128, 768)
        for way, ratio in RATIOS.items()
    ]


def test_ranges_come_from_the_rows_of_processors_and_of_a_gpu(tmp_path):
    def write(name, **content):
        (tmp_path / name).write_text(json.dumps({"date": "2026-01-02"} | content))
        return cost.read_costs(tmp_path)

    assert cost.ranges(cost.read_costs(tmp_path)).empty, "without a file there is nothing"
    (row,) = cost.ranges(write("ranking-cpu.json", device="a processor", rows=rows("float32"))).to_dict("records")
    assert row["device"] == "a processor"
    assert [row[f"ours_{what}"] for what in ("min", "max", "memory")] == pytest.approx([1.3, 1.8, 12])
    assert [row[f"plain_{what}"] for what in ("min", "max", "memory")] == pytest.approx([3.1, 3.6, 30])
    answers = [{"question": "q", "rows": rows("bfloat16")}, {"question": "s", "error": "out of memory"}]
    run = {"device": "a card", "interpreter": False, "parts": {"ranking": {"answers": answers}}}
    both = write("gpu.json", **run)
    assert both.gpu.tolist() == 6 * [False] + 3 * [True]
    assert both[both.gpu].ratio.tolist() == [row["ratio"] for row in rows("")[3:]], "of the widths that are shown"
    with pytest.raises(DataError, match="Triton's interpreter"):
        write("gpu.json", **run | {"interpreter": True})
