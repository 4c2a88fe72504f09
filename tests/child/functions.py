"""Functions that the tests call in kept processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from symd.config import Limits
from symd.errors import BuildFailed

_held: list[bytearray] = []


def work(data: bytes, limits: Limits) -> bytes:
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
        case [b"limits"]:
            return str(limits.batch).encode()
    return data
