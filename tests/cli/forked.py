"""Commands in processes of their own that are there at once: a process that has imported symd, and does nothing else, is forked for each.

Their folder, environment and streams are those of whoever starts them, and they end as a program does. A test that is about the start itself, or about
the environment that Python reads at a start, starts ``SYMD`` of the conftest as a program.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_REQUEST_BYTES = 1 << 20
_BEFORE_THE_IMPORT = {
    "OPENBLAS_NUM_THREADS": "1",
    "GRPC_VERBOSITY": "NONE",
    "GRPC_EXPERIMENTS": "-event_engine_listener",
}
"""As ``symd.cli.command_line.main`` and ``symd serve`` at a Unix socket have them, which gRPC reads as it is imported; a thread would not be forked."""
_OF_EXTRAS = frozenset({"symd.cli.mcp"})


class Command:
    """A command that was started; ``told`` is a pipe that gives its process id and, once it has ended, its exit code."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self._process = self._number(60)
        self._code: int | None = None

    def send_signal(self, number: int) -> None:
        os.kill(self._process, number)

    def wait(self, seconds: float) -> int:
        """The exit code, as subprocess has it."""
        if self._code is None:
            self._code = self._number(seconds)
            self._told.close()
        return self._code

    def _number(self, seconds: float) -> int:
        """The next line of the pipe, which is written at once."""
        if not select.select([self._told], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired("symd", seconds)
        line = b""
        while not line.endswith(b"\n"):
            said = self._told.read(1)
            assert said, "the process that waits for the command has ended"
            line += said
        return int(line)


class Parent:
    """The process that is forked."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cli.forked", str(theirs.fileno())],
                cwd=_ROOT,
                env={**os.environ, **_BEFORE_THE_IMPORT},
                stdin=subprocess.PIPE,  # its streams are what a command takes its own for, until it looks closer
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )

    def start(self, arguments: Sequence[object], stdin: int, stdout: int, stderr: int) -> Command:
        request = json.dumps([[*map(str, arguments)], str(Path.cwd()), dict(os.environ)])
        told, tells = os.pipe()
        try:
            socket.send_fds(self._socket, [request.encode()], [stdin, stdout, stderr, tells])
        finally:
            os.close(tells)
        return Command(told)

    def run(self, arguments: Sequence[object], stdin: bytes, seconds: float) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and standard error of a command that ends within ``seconds``."""
        pipes = [os.pipe() for _ in range(3)]
        (theirs, given), (out, their_out), (err, their_err) = pipes
        command = self.start(arguments, theirs, their_out, their_err)
        for each in (theirs, their_out, their_err):
            os.close(each)
        with ThreadPoolExecutor(3) as threads:
            threads.submit(_give, given, stdin)
            said = [threads.submit(_all, each) for each in (out, err)]
            if wait(said, seconds).not_done:
                command.send_signal(signal.SIGKILL)
                raise subprocess.TimeoutExpired([*map(str, arguments)], seconds)
        return command.wait(seconds), said[0].result(), said[1].result()

    def close(self) -> None:
        self._socket.close()
        assert self._process.communicate(timeout=60) == (b"", b"")
        assert self._process.returncode == 0


def _give(pipe: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(pipe, "wb") as stream:
        stream.write(data)


def _all(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as stream:
        return stream.read()


@pytest.fixture(scope="session")
def parent_of_commands() -> Iterator[Parent]:
    parent = Parent()
    yield parent
    parent.close()


def _import_all() -> None:
    """What the verbs import at a start and later."""
    package = importlib.import_module("symd.cli")
    for module in pkgutil.iter_modules(package.__path__, "symd.cli."):
        if module.name not in _OF_EXTRAS:
            importlib.import_module(module.name)
    importlib.import_module("symd.server.server")
    gc.freeze()  # what is looked through is copied
    assert len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - the count alone


def _forked_for_a_command(requests: socket.socket) -> bool:
    """Whether this is the process of a command; False in the parent, when nobody starts any more."""
    while True:
        request, streams, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
        _reap(os.WNOHANG if request else 0)
        if not request:
            return False
        if os.fork() == 0:
            requests.close()
            _become(*json.loads(request), streams)
            return True
        for each in streams:
            os.close(each)


def _reap(options: int) -> None:
    """The processes that waited for commands."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _become(arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> None:
    """Fork once more: the outer process waits for the command and tells how it ended."""
    *standard, tells = streams
    process = os.fork()
    if process:
        for each in standard:
            os.close(each)
        os.write(tells, f"{process}\n".encode())
        _, status = os.waitpid(process, 0)
        os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    for number, each in enumerate(standard):
        os.dup2(each, number)
    os.closerange(3, max(streams) + 1)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments


if __name__ == "__main__":
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        is_command = _forked_for_a_command(requests)
    if is_command:
        from symd.cli.command_line import main

        main()
