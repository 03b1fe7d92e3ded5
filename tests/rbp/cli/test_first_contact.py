"""What a newcomer meets first: mistakes in arguments, and output in other encodings."""

import subprocess
import sys
from pathlib import Path

import pytest

# In one new interpreter: each mistake, and whether torch has been imported by then.
SCRIPT = """
import contextlib, io, sys
from rbp.cli import main
for arguments in {!r}:
    sys.argv, said = ["rbp", *arguments.split()], io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        main()
    print("torch" in sys.modules, said.getvalue().splitlines()[0])
"""
RANK, TEXT = "--model none --corpus none.txt", "law none --corpus ladder/humaneval"
MISTAKES = {
    f"extract {RANK} --dtype float8": "unknown dtype 'float8'",
    f"extract {RANK} --shard 5/2": "no shard 5 of 2",
    f"extract {RANK}": "there is no such file (none.txt)",
    f"paths run {RANK} --paths dept": "no path 'dept'",
    "law none --corpus none.txt": "there is no such file (none.txt)",
    f"{TEXT} --against sizes": "no law against 'sizes'",
}


@pytest.mark.long
def test_arguments_are_checked_before_torch_is_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT.format([*MISTAKES])]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    for line, words in zip(done.stdout.splitlines(), MISTAKES.values(), strict=True):
        assert line.startswith("False error: ")
        assert words in line
