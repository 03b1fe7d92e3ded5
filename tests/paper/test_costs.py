import json

import pytest

from rbp.core.errors import DataError
from rbp.paper import costs


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


def test_no_results_are_said_to_be_missing(tmp_path):
    none = costs.read_costs(tmp_path / "none")
    assert none.table.empty
    assert none.statement(gpu=True) == "On a GPU the cost of ranks is still to be measured."


def test_statements_come_from_the_rows(tmp_path):
    (tmp_path / "ranking-cpu.json").write_text(json.dumps(result()))
    (tmp_path / "fits.json").write_text("{}")
    found = costs.read_costs(tmp_path)
    assert len(found.table) == 6
    assert found.statement(gpu=False) == (
        "On a float32 machine the ranks cost 1.30 to 1.80 times the bare matrix product with 12 MB of extra memory, "
        "the plain route 3.10 to 3.60 times with 30 MB."
    )
    assert "still to be measured" in found.statement(gpu=True)
    (tmp_path / "ranking-gpu.json").write_text(json.dumps(result("bfloat16")))
    assert costs.read_costs(tmp_path).statement(gpu=True).startswith("On a bfloat16 machine the ranks cost 1.30")


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": [{"d": 1}]}', json.dumps(result() | {"rows": 3})])
def test_a_malformed_result_is_named(tmp_path, text):
    (tmp_path / "ranking-x.json").write_text(text)
    with pytest.raises(DataError, match="no result of the ranking's benchmark"):
        costs.read_costs(tmp_path)
