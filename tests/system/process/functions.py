"""Functions that the tests call in kept processes."""

from __future__ import annotations

import ctypes
import importlib
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from symd.config import Limits
from symd.errors import BuildFailed

_held: list[bytearray] = []


ATTEMPTS = {
    "read": Path("/etc/hostname").read_bytes,
    "list": lambda: list(Path("/").iterdir()),
    "environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "write": lambda: Path("symd-a-worker-wrote-this").touch(),
    "chmod": lambda: Path("/dev/null").chmod(0o666),
    "connect": lambda: socket.socket(socket.AF_UNIX),
    "network": lambda: socket.socket(socket.AF_INET),
    "fork": os.fork,
    "thread": lambda: threading.Thread(target=int).start(),
    "program": lambda: os.execv("/bin/true", ["true"]),  # noqa: S606
    "signal": lambda: os.kill(os.getppid(), 0),
    "processor": lambda: resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    "survive": lambda: _succeed(ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)),
}
"""What a process could do that runs code which a module's bytes brought in."""


def _succeed(result: int) -> None:
    if result:
        raise PermissionError


def _outcome(attempt: Callable[[], object]) -> bytes:
    try:
        attempt()
    except (PermissionError, ValueError, RuntimeError):  # ValueError of setrlimit, RuntimeError of a thread
        return b"refused"
    return b"done"


def work(data: bytes, limits: Limits, descriptors: Sequence[int]) -> bytes:
    """Does what ``data`` says."""
    match data.split(b" "):
        case [b"pid"]:
            return str(os.getpid()).encode()
        case [b"environment"]:
            return Path("/proc/self/environ").read_bytes() + repr(dict(os.environ)).encode()
        case [b"fail"]:
            raise BuildFailed("no", build_log="log", where="here", hint="do", metadata={"k": "v"})
        case [b"defect"]:
            raise RuntimeError("a defect")
        case [b"kill", number]:
            os.kill(os.getpid(), int(number))
        case [b"memory"]:
            return bytes(1 << 40)
        case [b"hang", path]:
            Path(os.fsdecode(path)).touch()
            while True:
                signal.pause()
        case [b"burn", seconds]:
            until = time.process_time() + float(seconds)
            while time.process_time() < until:
                pass
            return b"burnt"
        case [b"sleep"]:
            time.sleep(0.5)
            return b"slept"
        case [b"grow"]:
            _held.append(bytearray(b"x") * (450 << 20))
            return b"grown"
        case [b"hold"]:
            _held.append(bytearray(350 << 20))  # untouched, so that it takes address space and no memory
            return b"held"
        case [b"large"]:
            bytearray(600 << 20)
            return b"done"
        case [b"print"]:
            print("B" * 100_000, flush=True)
            return b"printed"
        case [b"read"]:
            return b" ".join(os.pread(each, 100, 0) for each in descriptors)
        case [b"write", text]:
            return str(os.pwrite(descriptors[-1], text, 0)).encode()
        case [b"import"]:
            return str(importlib.import_module("wave").__name__).encode()
        case [b"try", attempt]:
            return _outcome(ATTEMPTS[attempt.decode()])
        case [b"limits"]:
            return str(limits.batch).encode()
    return data
