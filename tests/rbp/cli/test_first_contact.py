"""Output in other encodings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LINES = "".join(f"m{s},$\\bar{{$,text,{s}000000,neg_log_rbp,1,{s**-0.5}\n" for s in (1, 2, 4, 8))
TABLE = f"model,family,dataset,size,metric,k,value\n{LINES}"


@pytest.mark.long
def test_characters_that_an_encoding_lacks_are_spelled_out(tmp_path: Path) -> None:
    (table := tmp_path / "mine.csv").write_text(TABLE, encoding="utf-8")
    command = [sys.executable, "-m", "rbp.cli", "fit", "--measurements", str(table), "--dataset", "text", "--k", "1"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([*command, "--family", "$\\bar{$"], capture_output=True, env=environment, check=True)
    assert done.stdout.startswith(rb"\u2212ln RBP_1 = ")
