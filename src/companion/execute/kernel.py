"""An IPython extension for the kernel that executes a chapter: it carries an RbpError out of the kernel.

A kernel reports a failed cell by the exception's name and text alone, and other packages have a DataError
too. So the exception itself is looked at, where it is raised, and written to ``RBP_OUT/error.json``.

And nothing is left of a kernel: it ends with its parent, and removes what it was started from.
"""

import gc
import os
import shutil
import signal
import warnings
from pathlib import Path
from typing import Any

from rbp.errors import RbpError
from rbp.io import write_json
from rbp.processes import end_with

MARKER = "error.json"


def _note(result: Any) -> None:
    error = result.error_in_exec
    if isinstance(error, RbpError):
        write_json(
            Path(os.environ["RBP_OUT"]) / MARKER,
            {"type": type(error).__name__, "what": error.what, "where": error.where, "remedy": error.remedy},
        )


def load_ipython_extension(shell: Any) -> None:
    """Check the outcome of every cell, and collect garbage less often; IPython calls this.

    Figures are made of many small objects: looking them through again and again takes a tenth of a chapter's time.
    """
    end_with(os.getppid(), signal.SIGKILL)
    # An empty profile and the connection's file have been read by now; after a kill, nobody would remove them.
    shutil.rmtree(os.environ.pop("RBP_START"), ignore_errors=True)
    gc.set_threshold(100_000)
    # tqdm's, where a library imports it into a kernel without widgets; whether one has depends on who started it.
    warnings.filterwarnings("ignore", "IProgress not found")
    shell.events.register("post_run_cell", _note)
