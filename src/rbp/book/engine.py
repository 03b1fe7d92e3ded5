"""papermill's engine "rbp": a kernel with its own environment and folder; the caller's stay as they are."""

import logging
from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

KERNEL_ARGUMENTS = [
    # ipykernel 7 warns of plain TCP on 127.0.0.1, and calls the interrupt before a shutdown an error.
    "--IPKernelApp.log_level=50",
    "--IPKernelApp.extra_extensions=rbp.book.kernel",
    "--HistoryManager.enabled=False",
]


class Engine(NBClientEngine):  # type: ignore[misc]
    """papermill's own engine, but for how the kernel is started."""

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: Any,
        kernel_name: str,
        *,
        kernel_environment: dict[str, str],
        kernel_cwd: str,
        start_timeout: int = 60,
        **_: Any,
    ) -> Any:
        """Execute all cells without a time limit."""
        client = PapermillNotebookClient(
            nb_man,
            kernel_name=kernel_name,
            startup_timeout=start_timeout,
            timeout=None,
            extra_arguments=KERNEL_ARGUMENTS,
        )
        return client.execute(env=kernel_environment, cwd=kernel_cwd)


# It warns of annotations that its own inspection cannot read; rbp.book.parameters has read them.
logging.getLogger("papermill").setLevel(logging.ERROR)
papermill_engines.register("rbp", Engine)
