import json

import pytest

from companion.chapters.appendix.cost import read_costs
from companion.chapters.appendix.gpu import aim_of, failure, read_gpu, worked
from rbp.errors import DataError


def way(name, d, ratio, dtype="bfloat16"):
    size = {"rows": 64, "d": d, "vocabulary": {768: 50304, 4096: 128256}[d], "dtype": dtype}
    figures = {"ratio": ratio, "ratio_low": 1, "ratio_high": 2, "extra_memory_mb": 3, "share_of_peak": 0.5}
    return size | {"way": name} | figures


def rows(dtype):
    names = ("bare product", 4096, 1.0), ("ours: linear_rank", 4096, 1.04), ("ours: linear_rank", 768, 1.5)
    return [way(*each, dtype=dtype) for each in names]


MISSING = {"rows": 64, "d": 768, "vocabulary": 50304, "dtype": "bfloat16", "way": "Liger", "why": "not installed"}
PARTS = {
    "ranking": {
        "answers": [
            {"question": "q", "rows": rows("bfloat16"), "left_out": [MISSING]},
            {"question": "r", "rows": rows("float32"), "left_out": []},
            {"question": "s", "error": "out of memory"},
        ],
        "left": ["t", "u"],
        "error": "not done after 95 s",
    },
    "tests": {"answers": [], "left_out": "hypothesis is not installed"},
}
RUN = {"device": "a card", "date": "2026-01-02", "interpreter": False, "parts": PARTS}


def write(folder, content):
    (folder / "gpu.json").write_text(json.dumps(content))
    return folder / "gpu.json"


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


@pytest.mark.parametrize("content", [[], {}, RUN | {"parts": {"memory": 3}}, RUN | {"device": None}])
def test_another_file_is_refused(tmp_path, content):
    with pytest.raises(DataError, match="no result of make gpu"):
        read_gpu(write(tmp_path, content))
    with pytest.raises(DataError, match="interpreter's"):
        read_gpu(write(tmp_path, RUN | {"interpreter": True}))


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
