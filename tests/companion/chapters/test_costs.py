import json

import pytest

from companion.chapters.appendix import cost
from rbp.errors import DataError


def result(dtype="float32", ratios=(1.0, 3.0, 1.2)):
    ways = ("bare product, in our tiles", "plain route: logits, softmax, top 10 000, count", "ours: linear_rank")
    shapes = ({"rows": 2048, "d": d, "vocabulary": 50304} for d in (128, 768))
    rows = [
        shape
        | {"way": way, "seconds": 1.0, "ratio": ratio + shape["d"] / 1280, "ratio_low": 1, "ratio_high": 2}
        | {"extra_memory_mb": 10 * ratio}
        for shape in shapes
        for way, ratio in zip(ways, ratios, strict=True)
    ]
    return {"device": f"a {dtype} machine", "dtype": dtype, "date": "2026-01-02", "rows": rows}


def test_ranges_and_the_table_come_from_the_rows(tmp_path):
    (tmp_path / "ranking-cpu.json").write_text(json.dumps(result()))
    (tmp_path / "fits.json").write_text("{}")
    found = cost.read_costs(tmp_path)
    assert len(found) == 6
    (row,) = cost.ranges(found).to_dict("records")
    assert row["device"] == "a float32 machine"
    assert [row[f"ours_{what}"] for what in ("min", "max", "memory")] == pytest.approx([1.3, 1.8, 12])
    assert [row[f"plain_{what}"] for what in ("min", "max", "memory")] == pytest.approx([3.1, 3.6, 30])
    shown = cost.costs_table(found)["table"]
    assert shown["T × d × V"].tolist() == ["2,048 × 128 × 50,304", "2,048 × 768 × 50,304"]
    assert shown["plain route, MB"].tolist() == pytest.approx([30, 30])
    (tmp_path / "ranking-gpu.json").write_text(json.dumps(result("bfloat16")))
    both = cost.ranges(cost.read_costs(tmp_path))
    assert both["device"].tolist() == ["a bfloat16 machine", "a float32 machine"]


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": [{"d": 1}]}', json.dumps(result() | {"rows": 3})])
def test_a_malformed_result_is_named(tmp_path, text):
    (tmp_path / "ranking-x.json").write_text(text)
    with pytest.raises(DataError, match="no result of the ranking's benchmark"):
        cost.read_costs(tmp_path)
