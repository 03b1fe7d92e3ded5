"""papermill's engine "rbp": a kernel with its own environment and folder; the caller's stay as they are."""

import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from traitlets.config import Config

from rbp.book import workers

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
        connection_file: str,
        start_timeout: int = 60,
        tell: Callable[[int, int], object] | None = None,
        **_: Any,
    ) -> Any:
        """Execute all cells without a time limit; tells the number of each and of all when it begins."""
        cells = len(nb_man.nb.cells)
        client = PapermillNotebookClient(
            nb_man,
            kernel_name=kernel_name,
            config=_connection(connection_file),
            startup_timeout=start_timeout,
            timeout=None,
            extra_arguments=KERNEL_ARGUMENTS,
            shutdown_kernel="immediate",  # all is written by then; of those that are asked to end, half hang for 3 s
            on_cell_start=tell and (lambda cell, cell_index: tell(cell_index + 1, cells)),
        )
        try:
            return client.execute(env=kernel_environment, cwd=kernel_cwd)
        finally:  # nbclient leaves a kernel to itself if a signal ends us while it starts
            process = client.km and client.km.provisioner and client.km.provisioner.process
            if process:
                process.send_signal(signal.SIGKILL)
                process.wait()


def _connection(file: str) -> Config:
    """On Linux, sockets by a name that nobody else has: a free TCP port may be taken before the kernel opens it."""
    kernel = {"connection_file": file}
    if sys.platform == "linux":
        kernel |= {"transport": "ipc", "ip": f"@rbp-{secrets.token_hex(8)}"}
    return Config({"KernelManager": kernel})


class Provisioner(LocalProvisioner):
    """Kernels from the build's server, where there is one (`rbp.book.workers`)."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel; its connection's description."""
        python, flag, module, *arguments = cmd
        process = None
        if (python, flag) == (sys.executable, "-m"):
            own = {name: value for name, value in kwargs["env"].items() if name != workers.ADDRESS}
            with open(os.devnull) as nothing:  # noqa: PTH123
                process = workers.start(module, arguments, own, kwargs["cwd"], (nothing.fileno(), 1, 2))
        if process is None:
            return await super().launch_kernel(cmd, **kwargs)
        self.process, self.cwd = process, kwargs["cwd"]  # type: ignore[assignment]
        self.pid = self.pgid = process.pid
        return self.connection_info


# It warns of annotations that its own inspection cannot read; rbp.book.parameters has read them.
logging.getLogger("papermill").setLevel(logging.ERROR)
papermill_engines.register("rbp", Engine)
# jupyter_client looks for provisioners among the entry points of installed packages, unless they are in its list.
_factory = KernelProvisionerFactory.instance()
_factory.provisioners["rbp"] = EntryPoint("rbp", f"{__name__}:Provisioner", _factory.GROUP_NAME)
_factory.default_provisioner_name = "rbp"
