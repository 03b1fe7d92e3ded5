"""The command `rbp` in this process, for the tests of all packages."""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from rbp.cli import main


def here(*arguments: str, cwd: Path | None = None, root: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, which has imported all that it needs."""
    command, out, err = ["rbp", *(["--root", str(root)] if root else []), *arguments], io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.object(sys, "argv", command),
        mock.patch("rbp.cli.app.signal"),
        mock.patch("rbp.cli.app.atexit"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main()
    return subprocess.CompletedProcess(command, int(end.value.code or 0), out.getvalue(), err.getvalue())


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The command said what was wrong, in one or two lines, without a traceback."""
    assert done.returncode == 2, done
    # without what it began with, and its progress
    said = re.sub(r"^.* …( cell \d+ of \d+)?\n", "", done.stderr, flags=re.MULTILINE)
    assert said.startswith("error: ") or "Usage:" in said
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr
