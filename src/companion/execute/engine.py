"""papermill's engine for this book: `rbp run` starts kernels with it, and plain papermill fills values into prose.

papermill finds it by its entry point, so that ``papermill notebooks/holds.ipynb out.ipynb`` writes a notebook whose
sentences have their numbers. Notebooks of others are executed as by papermill's own engine.
"""

import logging
import secrets
import signal
import sys
from collections.abc import Callable
from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from papermill.iorw import write_ipynb
from traitlets.config import Config

from companion.execute import prose

KERNEL_ARGUMENTS = [
    # ipykernel 7 warns of plain TCP on 127.0.0.1, and calls the interrupt before a shutdown an error.
    "--IPKernelApp.log_level=50",
    "--IPKernelApp.extra_extensions=companion.execute.kernel",
    "--HistoryManager.enabled=False",
]


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    """papermill's client, which passes on what a kernel writes to stderr, instead of putting it on the page.

    The book's build, which shows no cells (`on_cell`), passes on warnings alone, and no progress.
    """

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        content = msg["content"]
        if msg["msg_type"] == "stream" and content["name"] == "stderr":
            if self.on_cell_start or "Warning" in content["text"]:
                sys.stderr.write(content["text"])
                sys.stderr.flush()
            return None
        return super().process_message(msg, cell, cell_index)


class Engine(NBClientEngine):  # type: ignore[misc]
    """papermill's own engine, with another way to start the kernel."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        kernel_environment: dict[str, str] | None = None,
        kernel_cwd: str = "",
        connection_file: str = "",
        partial: str = "",
        start_timeout: int = 60,
        on_cell: Callable[[int, int], object] | None = None,
        **others: Any,
    ) -> Any:
        """Execute all cells without a time limit; `on_cell` is called as each begins, with its number and the count.

        What there is when a kernel dies is written to `partial`; a cell's error is papermill's own matter.
        Without an environment, as plain papermill calls it, it does as papermill's own, and puts the values into prose.
        """
        if kernel_environment is None:
            super().execute_managed_notebook(nb_man, kernel_name, start_timeout=start_timeout, **others)
            if "rbp" in nb_man.nb.metadata:
                prose.fill_notebook(nb_man.nb.cells)
            return None
        cells = len(nb_man.nb.cells)
        client = _Client(
            nb_man,
            kernel_name=kernel_name,
            config=_connection(connection_file),
            startup_timeout=start_timeout,
            timeout=None,
            extra_arguments=KERNEL_ARGUMENTS,
            shutdown_kernel="immediate",  # all is written by then; of those that are asked to end, half hang for 3 s
            on_cell_start=on_cell and (lambda cell, cell_index: on_cell(cell_index + 1, cells)),
        )
        try:
            return client.execute(env=kernel_environment, cwd=kernel_cwd)
        except Exception:
            write_ipynb(nb_man.nb, partial)
            raise
        finally:  # nbclient leaves a kernel to itself if a signal ends us while it starts
            process = client.km and client.km.provisioner and client.km.provisioner.process
            if process:
                process.send_signal(signal.SIGKILL)
                process.wait()


def _connection(file: str) -> Config:
    """Connect on Linux through sockets of a private name: a free TCP port may be taken before the kernel opens it."""
    kernel = {"connection_file": file}
    if sys.platform == "linux":
        kernel |= {"transport": "ipc", "ip": f"@rbp-{secrets.token_hex(8)}"}
    return Config({"KernelManager": kernel})


# It warns of annotations that its own inspection cannot read; companion.execute.parameters has read them.
logging.getLogger("papermill").setLevel(logging.ERROR)
papermill_engines.register("rbp", Engine)
papermill_engines.register(None, Engine)  # what papermill takes where no engine is named
