"""What a newcomer meets first: mistakes in arguments, output in other encodings, odd names, texts of one name."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from commands import here, refused

import rbp
from rbp.errors import ParameterError
from rbp.measurements import select

LINES = "".join(f"m{s},$\\bar{{$,text,{s}000000,neg_log_rbp,1,{s**-0.5}\n" for s in (1, 2, 4, 8))
TABLE = f"model,family,dataset,size,metric,k,value\n{LINES}"
ENDS = """
import sys
from rbp.cli import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""
RANK = ["--model", "none", "--corpus", "none.txt"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(TABLE, encoding="utf-8")
    return path


@pytest.mark.builds
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["extract", *RANK, "--dtype", "float8"], "unknown dtype 'float8'"),
        (["extract", *RANK, "--backend", "tiles"], "unknown backend 'tiles'"),
        (["extract", *RANK, "--device", "tpu"], "there is no device 'tpu'"),
        (["law", "none", "--corpus", "none.txt", "--against", "sizes"], "no law against 'sizes'"),
        (["law", "none", "--corpus", "none.txt", "--dtype", "float8"], "unknown dtype 'float8'"),
        (["law", "none", "--corpus", "none.txt", "--device", "tpu"], "there is no device 'tpu'"),
        (["paths", "run", *RANK, "--paths", "dept"], "no path 'dept'"),
        (["extract", *RANK, "--shard", "5/2"], "no shard 5 of 2"),
        (["extract", *RANK], "there is no such file (none.txt)"),
        (["law", "none", "--corpus", "none.txt"], "there is no such file (none.txt)"),
        (["law", "none", "--corpus", "ladder/humaneval", "--bos", "x"], "bos cannot be 'x'"),
        (["law", "none", "--corpus", "ladder/humaneval", "--length", "1"], "length must be at least 2"),
    ],
)
def test_arguments_are_checked_before_torch_is_imported(arguments: list[str], words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert words in done.stderr
    assert done.stdout == "False\n"


@pytest.mark.builds
def test_characters_that_an_encoding_lacks_are_spelled_out(table: Path) -> None:
    command = [sys.executable, "-m", "rbp.cli", "fit", "--measurements", str(table), "--dataset", "text", "--k", "1"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*command, "--family", "$\\bar{$"], capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(rb"\u2212ln RBP_1 = ")


def test_names_with_dollar_signs_are_drawn_as_they_are(table: Path, tmp_path: Path) -> None:
    rbp.plot(table, k=1).savefig(tmp_path / "law.svg")
    assert (tmp_path / "law.svg").stat().st_size


def test_a_table_that_is_not_there() -> None:
    refused(here("law", "none.csv"), "there is no such file of measurements (none.csv)")


def test_texts_of_one_name_are_listed() -> None:
    table = pd.DataFrame({"dataset": ["humaneval-acf85f", "humaneval-ebac60", "other"], "tokens": [17, 3000, 5]})
    with pytest.raises(ParameterError, match="there are 2 texts called humaneval") as error:
        select(table, dataset="humaneval")
    assert error.value.remedy == "Give humaneval-acf85f (17 tokens) or humaneval-ebac60 (3,000 tokens)."
