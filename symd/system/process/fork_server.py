"""Confined programs, started faster than by a process that first confines itself: one small process is kept that starts
them (``fork_server_process``) by fork, which a process with threads must not do.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from symd.system.private_files import OTHERS
from symd.system.process.confinement import LandlockAccess
from symd.system.process.fork_server_process import MESSAGE_BYTES
from symd.system.process.process import ProcessLimits, interpreter_environment, resource_limits

_SCRIPT: Final = Path(__file__).with_name("fork_server_process.py")


class Started:
    """A program that runs, or ran: as much of ``subprocess.Popen`` as ``run`` needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Wait until the program ends; its exit status, or minus the number of the signal that ended it."""
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class Confined(NamedTuple):
    """How a program is confined: who starts it, and files that it is left, with what is below them."""

    fork_server: ForkServer
    allowed: Sequence[tuple[str, LandlockAccess]]


class ForkServer:
    """Starts programs one at a time, and is used by several threads. Its process is started when it is first needed,
    anew where it has died, and ends with ``close`` or with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def begin(self) -> None:
        """Let the process come up while the caller does something else."""
        with self._lock:
            self._begin()

    def start(
        self,
        command: Sequence[str],
        limits: ProcessLimits,
        allowed: Iterable[tuple[str, LandlockAccess]],
        folder: Path,
        environment: Mapping[str, str],
        descriptors: tuple[int, int, int],
    ) -> Started:
        """Run ``command``, whose first word is a path, in ``folder``, in a session of its own, with files of
        ``allowed`` and below them, and nothing else. ``descriptors`` are its standard input, output and error. Raises
        OSError."""
        request = {
            "command": list(command),
            "environment": dict(environment),
            "folder": str(folder),
            "allowed": [(path, int(access)) for path, access in allowed],
            "limits": resource_limits(limits),
        }
        message = json.dumps(request).encode()
        if len(message) > MESSAGE_BYTES:
            raise OSError(7, "the command and its environment are too long")
        with self._lock:
            answer = self._ask(message, descriptors)
        started = Started(int(answer["pid"])) if "pid" in answer else None
        if "errno" in answer:
            if started is not None:
                started.wait()
            raise OSError(answer["errno"], answer["text"])
        if started is None:
            raise OSError(5, "the process that starts programs has not said which one it started")
        return started

    def close(self) -> None:
        """End the process. Programs that run go on."""
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, message: bytes, descriptors: Sequence[int]) -> dict[str, int | str]:
        """Raises OSError where the process dies of it."""
        for _ in range(2):
            begun: dict[str, int | str] = {}
            requests = self._begin()
            with suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(requests, [message], list(descriptors))
                while answer := requests.recv(MESSAGE_BYTES):
                    found: dict[str, int | str] = json.loads(answer)
                    if "begun" not in found:
                        return found
                    begun = {"pid": found["begun"]}
            self._end()  # somebody killed it; programs that it started are children of this process and go on
            if begun:
                return begun  # the process is there, as the program or ended: the program is not to be run twice
        raise OSError(5, "the process that starts programs has died")

    def _begin(self) -> socket.socket:
        if self._requests is None:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with its:
                command = [sys.executable, "-I", "-S", str(_SCRIPT), str(_SCRIPT.parents[2])]
                self._process = subprocess.Popen(
                    command,
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    umask=OTHERS,
                    env=interpreter_environment(),
                )
            self._requests = ours
        return self._requests

    def _end(self) -> None:
        if self._requests is not None and self._process is not None:
            self._requests.close()
            self._process.kill()
            self._process.wait()
            self._requests = self._process = None
