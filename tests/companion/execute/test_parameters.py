import pytest

from companion.execute.parameters import declared, parse, sweeps
from rbp.errors import ParameterError

SOURCE = """
measurements: str = "published"  # where the numbers come from: "published", a CSV or Parquet file
level: float = 0.95  # confidence level; 0 < level < 1
k: int = -1  # threshold
log: bool = True  # logarithmic
ks: list[int] = [1, 10]  # thresholds; at most a thousand; 1 ≤ ks ≤ 1000
names: list[str] = []  # families
tie_rule: Literal["paper", "strict", "expected"] = "paper"  # how equal scores count
sets: list[Literal["wiki", "code"]] = [
    "wiki",
]  # datasets
"""
PARAMETERS = declared(SOURCE, "01_a")


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("level=1e-9", 1e-9),
        ("log=false", False),
        ("ks=1,2, 3", [1, 2, 3]),
        ('names=["a,b"]', ["a,b"]),
        ("sets=code,wiki", ["code", "wiki"]),
        ("measurements=a=b.csv", "a=b.csv"),
    ],
)
def test_values_are_read_by_the_declared_type(assignment, expected):
    (result,) = parse(PARAMETERS, [assignment], "01_a").values()
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        (["levle=0.9"], r'no parameter "levle" \(01_a\)\nDid you mean "level"\? There are: measurements, level'),
        (["k=1", "k=2"], "given twice"),
        (["k=1.5"], r"'1.5' is not of type int \(parameter k\)\nIts type is int, its default -1"),
        (["level=1"], r"^1 is out of range \(parameter level\)\nIts range is 0 < level < 1, its default 0.95.$"),
        (["ks=1,10,0"], r"^0 is out of range \(parameter ks\)\nIts range is 1 ≤ ks ≤ 1000, its default \[1, 10\].$"),
        (["tie_rule=Papr"], r"'Papr' is not a choice.*\nDid you mean \"paper\"\? There are: paper, strict, expected"),
        *(([f"k={text}"], "is not of type int") for text in ("ten", "1e999", "__import__('os')", "0x10", "")),
        (["level=nan"], "is not of type float"),
    ],
)
def test_mistakes_are_answered_with_what_there_is(assignments, complaint):
    with pytest.raises(ParameterError, match=complaint):
        parse(PARAMETERS, assignments, "01_a")


def test_several_values_make_several_runs():
    assert sweeps(PARAMETERS, [], "one") == [{}]
    both = [{"level": 0.8, "ks": [1, 2]}, {"level": 0.9, "ks": [1, 2]}]
    assert sweeps(PARAMETERS, ["level=0.8,0.9", "ks=1,2"], "one") == both
    sources = ["measurements=a.csv,b.csv", "measurements=c.csv"]
    assert sweeps(PARAMETERS, sources, "one") == [{"measurements": "a.csv,b.csv"}, {"measurements": "c.csv"}]
