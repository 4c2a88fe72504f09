"""The process that answers a ``Pool``: it calls one function for each request on standard input, until that ends.

It is run as a file (``python -P worker.py MODULE:FUNCTION``), so that it loads what the function needs and nothing more. A
request is a JSON frame (the fields of ``Limits``, and seconds of processor time under ``cpu_seconds``) and a BYTES frame;
the answer is one frame: BYTES, ERROR, DEFECT or MEMORY, after LAST where the process ends with it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import os
import resource
import select
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

from symd.child.frames import BYTES, DEFECT, ERROR, LAST, MEMORY, read_frame, write_frame
from symd.config import Limits
from symd.errors import SymdError, described

Function = Callable[[bytes, Limits], bytes]

_ANY_SIZE: Final = (1 << 63) - 1
"""Requests come from symd itself, and this process's memory is limited."""
_KEPT_BYTES: Final = 384 << 20
"""Resident memory with which a process is kept: beyond it a new one is cheaper than this one."""
_QUIET_SECONDS: Final = 0.05
"""After so long without a request garbage is looked for."""
_TEXT: Final = 300
"""Characters of an exception's text."""
_TRACEBACK: Final = 20_000
"""Characters of a traceback, the last."""


def main(function: str) -> None:
    """Serve until the other end closes. ``function`` is "package.module:name"."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what anybody prints must not look like an answer
    module, _, name = function.partition(":")
    call: Function = getattr(importlib.import_module(module), name)
    gc.disable()  # a call makes no garbage worth a search; what there is goes while nobody waits
    gc.freeze()  # what was imported is never garbage, and looking through it would take longer than most calls
    while True:
        try:
            answer = _answer(sys.stdin.buffer, call)
        except MemoryError:
            write_frame(answers, MEMORY, b"")
            return
        if answer is None:
            return
        last = _resident() > _KEPT_BYTES
        if last:
            write_frame(answers, LAST, b"")
        write_frame(answers, *answer)
        if last:
            return
        del answer
        if not select.select([sys.stdin], [], [], _QUIET_SECONDS)[0]:
            gc.collect()


def _answer(requests: IO[bytes], call: Function) -> tuple[bytes, bytes] | None:
    """The answer to the next request; None when there is none."""
    limits, data = read_frame(requests, _ANY_SIZE), read_frame(requests, _ANY_SIZE)
    if limits is None or data is None:
        return None
    fields = json.loads(limits[1])
    _limit_processor(fields.pop("cpu_seconds"))
    try:
        return BYTES, call(data[1], Limits(**fields))
    except MemoryError:
        raise
    except SymdError as error:
        return ERROR, _json(described(error))
    except Exception as error:  # noqa: BLE001 - told whole to the other end, which logs it
        return DEFECT, _json(_defect(error))


def _limit_processor(seconds: int | None) -> None:
    """Let this process have so much more time of a processor, whatever it used before."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    soft = most if seconds is None else math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, most))


def _defect(error: Exception) -> dict[str, Any]:
    """The fields of ``ending.Defect``."""
    text = "".join(traceback.format_exception(error))
    return {"exception": type(error).__name__, "message": str(error)[:_TEXT], "traceback": text[-_TRACEBACK:]}


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _resident() -> int:
    """Bytes of this process that are in memory (proc(5))."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # who asked was killed: there is nobody to tell
        main(sys.argv[1])
