"""Python programs that start where all they need is imported already (Linux).

A job of the book imports papermill, its kernel pandas and much more: three seconds for each chapter. So a server stands
beside the build, imports that once, and forks for each program: a job (`python -m rbp.book.workers MODULE ARGUMENTS`),
and the job's kernel (`rbp.book.engine`), which ask for one with `start`. Where nobody serves, both start as ever.

A fork copies the locks of all threads and none of the threads, so the server has one thread. A program gets SIGTERM
when the one who asked for it has ended, or the server, and the whole build gets it when `rbp book` has ended.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import secrets
import selectors
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rbp.core.processes import end_with

ADDRESS = "RBP_WORKERS"  # the environment variable that says where the server listens
GRACE = 30.0  # seconds for a program to end after SIGTERM, once the build is over
#: while the server imports: no threads of OpenMP, OpenBLAS or Arrow's allocator, and the backend of every kernel
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}
_INTEGER = struct.Struct("i")
_PEER = struct.Struct("3i")  # process, user and group at the other end of a socket


class Process:
    """A program that the server has started: as much of `subprocess.Popen` as jupyter_client asks for."""

    stdin = stdout = stderr = None

    def __init__(self, server: socket.socket, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """The exit code, once it has ended; a negative one is the signal that ended it."""
        if self.returncode is None:
            code = _receive(self._server)
            self.returncode = -signal.SIGTERM if code is None else code  # the server is gone, and so all its programs
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._server, selectors.EVENT_READ)
                if not selector.select(0):
                    return None
        return self.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def start(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], cwd: str, streams: Sequence[int] = (0, 1, 2)
) -> Process | None:
    """Start `python -m module arguments` in a session of its own; None where nobody serves this process.

    The program has this environment, this working folder, and ``streams`` as its standard ones. It ends with this
    process.
    """
    if not (name := os.environ.get(ADDRESS)):
        return None
    request = json.dumps([module, *arguments, dict(environment), str(cwd)]).encode()
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(f"\0{name}")
        socket.send_fds(server, [_INTEGER.pack(len(request))], streams)
        server.sendall(request)
        pid = _receive(server)
    except OSError:  # of a server that has ended, on another machine, or that serves others only
        pid = None
    if pid is None:
        server.close()
        return None
    return Process(server, pid)


def _receive(connection: socket.socket) -> int | None:
    """The next integer; None from one who has hung up."""
    try:
        content = connection.recv(_INTEGER.size, socket.MSG_WAITALL)
    except ConnectionError:
        return None
    return _INTEGER.unpack(content)[0] if len(content) == _INTEGER.size else None


def serving(command: Sequence[str], modules: Sequence[str]) -> list[str]:
    """``command``, to be run beside a server that has imported ``modules``; as it stands where there is no server."""
    if sys.platform != "linux":  # elsewhere, system libraries start threads of their own, and a fork may crash
        return list(command)
    return [sys.executable, "-m", "rbp.book.workers", "--serve", ",".join(modules), *command]


@contextlib.contextmanager
def served(modules: Sequence[str]) -> Iterator[None]:
    """While a server that has imported ``modules`` serves this process and those that it starts; none elsewhere.

    It ends with the body, or with this process. A program that runs by then is given ``GRACE`` to end.
    """
    wait = ["/bin/sh", "-c", f"echo ${ADDRESS}; exec cat"]  # a command that says where, and ends with its input
    with subprocess.Popen(  # noqa: S603
        serving(wait, modules), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    ) as server:
        assert server.stdout is not None  # noqa: S101  # for the type checker
        os.environ[ADDRESS] = server.stdout.readline().strip()
        try:
            yield
        finally:
            del os.environ[ADDRESS]


class _Server:
    """One thread, which starts programs for the command and for the programs that it has started."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._clients: dict[int, socket.socket] = {}  # by the pid of the program that they asked for
        self._selector = selectors.DefaultSelector()
        # A name without a file, so that none is left behind after a kill.
        os.environ[ADDRESS] = name = f"rbp-{os.getpid()}-{secrets.token_hex(8)}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{name}")
        self._listener.listen(100)
        self._wake, self._waking = socket.socketpair()
        self._waking.setblocking(False)
        for each in (self._listener, self._wake):
            self._selector.register(each, selectors.EVENT_READ)
        # Whoever stops the build tells the command too, for whose end the server waits.
        signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD
        self._handlers = {each: signal.getsignal(each) for each in signals}
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, lambda *_: os.killpg(0, signal.SIGTERM))
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waking.fileno())
        end_with(os.getppid(), signal.SIGHUP)

    def run(self, command: list[str]) -> list[Any] | int:
        """The command's exit code, once it and all programs have ended; in a program's process, what it is to run."""
        first = self._fork()
        if not first:
            try:
                os.execv(command[0], command)  # noqa: S606
            finally:
                os._exit(127)
        self._import(first)
        code: int | None = None
        while code is None or self._clients:
            events = self._selector.select(None if code is None else GRACE)
            if not events:
                for pid in self._clients:
                    os.kill(pid, signal.SIGKILL)
            for key, _ in events:
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    if program := self._start(connection):
                        return program
                elif key.fileobj is self._wake:
                    self._wake.recv(4096)
                else:  # a client hangs up: it has ended
                    self._selector.unregister(key.fileobj)
                    os.kill(key.data, signal.SIGTERM)
            ended = self._reap()
            code = ended.get(first, code)
        return code

    def _import(self, first: int) -> None:
        """Import what is there of the modules: a program that needs the rest says what is wrong.

        It is done beside the command, whose first jobs wait for the rest of it. A command without jobs does not wait:
        this process ends with it.
        """

        def end(*_: object) -> None:
            pid, status = os.waitpid(first, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 1)

        handler = signal.signal(signal.SIGCHLD, end)
        end()  # it may have ended before
        os.environ |= ALONE
        for name in self._modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()  # so that collections in the programs do not copy the pages of all this
        signal.signal(signal.SIGCHLD, handler)

    def _start(self, connection: socket.socket) -> list[Any] | None:
        """Start what a client asks for, or hang up. In the new process: the program, its environment and folder."""
        if not self._serves(connection):
            connection.close()
            return None
        size, streams, *_ = socket.recv_fds(connection, _INTEGER.size, 3)
        with connection.makefile("rb") as stream:
            request = stream.read(_INTEGER.unpack(size)[0])
        pid = self._fork()
        if not pid:
            os.setsid()
            for target, descriptor in enumerate(streams):
                os.dup2(descriptor, target)
        for descriptor in streams:
            os.close(descriptor)
        if not pid:
            for each in (self._listener, self._wake, self._waking, *self._clients.values(), connection):
                each.close()
            program: list[Any] = json.loads(request)
            return program
        self._clients[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, pid)
        _tell(connection, pid)
        return None

    def _serves(self, connection: socket.socket) -> bool:
        """Whether the client belongs to the command, and is none that a scheduler has started in bounds of its own."""
        pid, *_ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        try:
            ours = pid in self._clients or (pid > 0 and os.getsid(pid) == os.getsid(0))
        except ProcessLookupError:
            ours = False
        return ours and _is_alone()

    def _fork(self) -> int:
        """A child's pid; 0 in the child, which ends with this process and takes signals as if it were none of it."""
        server = os.getpid()
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            end_with(server)
        return pid

    def _reap(self) -> dict[int, int]:
        """Tell the clients whose programs have ended; the exit codes of all that have ended, by pid."""
        ended: dict[int, int] = {}
        with contextlib.suppress(ChildProcessError):  # none is left
            while (waited := os.waitpid(-1, os.WNOHANG))[0]:
                pid, code = waited[0], os.waitstatus_to_exitcode(waited[1])
                ended[pid] = code
                if client := self._clients.pop(pid, None):
                    with contextlib.suppress(KeyError):  # it has hung up before
                        self._selector.unregister(client)
                    _tell(client, code)
                    client.close()
        return ended


def _tell(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # it may have ended
        client.sendall(_INTEGER.pack(number))


def _is_alone() -> bool:
    """Whether this process has one thread; one that was joined may still be listed for a moment."""
    for _ in range(100):
        if len(list(Path("/proc/self/task").iterdir())) == 1:
            return True
        time.sleep(0.01)
    return False


def _run(module: str, arguments: Sequence[str]) -> None:
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _leave(codes: list[int]) -> NoReturn:
    """End once all else that was registered has run: to take apart what was imported takes a third of a second."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or nobody listens any more
            stream.flush()
    os._exit(codes[-1])


def _serve(modules: list[str], command: list[str]) -> NoReturn:
    codes = [1]
    atexit.register(_leave, codes)  # before all imports, since the first comes last
    del sys.path[0]  # the working folder, which a program puts there itself
    program = _Server(modules).run(command)
    if isinstance(program, int):
        codes.append(program if program >= 0 else 1)
        sys.exit()
    *words, environment, cwd = program
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path.insert(0, cwd)
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()  # as a process of its own would; Python's own generator does so by itself
    try:
        _run(words[0], words[1:])
    except SystemExit as ended:
        codes.append(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise
    codes.append(0)
    sys.exit()


def main() -> None:
    """`python -m rbp.book.workers MODULE ARGUMENTS`: as `python -m MODULE ARGUMENTS`, from a server if there is one."""
    first, *arguments = sys.argv[1:]
    if first == "--serve":
        _serve(arguments[0].split(","), arguments[1:])
    process = start(first, arguments, os.environ, str(Path.cwd()))
    if process is None:
        os.environ.pop(ADDRESS, None)
        _run(first, arguments)
        return
    try:
        code = process.wait()
    except KeyboardInterrupt:
        sys.exit(130)
    if code < 0:
        sys.stderr.write(f"{signal.Signals(-code).name} ended {shlex.join([first, *arguments])}\n")
    sys.exit(code if code >= 0 else 1)


if __name__ == "__main__":
    main()
