"""The process that answers a ``Pool``: it calls one function for each request on standard input, until that ends.

It is run as a file (``python -P worker.py MODULE:FUNCTION PARENT CONFINED``), so that it loads what the function needs
and nothing more. PARENT is the process with which it dies; with CONFINED it keeps, from the first request on, the
descriptors that come with each request and what ``confinement.interpreter`` names, and no other file.

Standard input is a Unix socket. A request is one byte, with which descriptors come; a JSON frame (the fields of
``Limits``); and a BYTES frame. The answer is one frame on standard output: BYTES, ERROR, DEFECT or MEMORY, after LAST
where the process ends with it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final

from symd.config import Limits
from symd.errors import SymdError, error_to_dict
from symd.system.process.confinement import confine, interpreter
from symd.system.process.frames import BYTES, DEFECT, ERROR, LAST, MEMORY, die_with, read_frame, write_frame

Function = Callable[[bytes, Limits, Sequence[int]], bytes]

CONFINED: Final = "confined"
MOST_DESCRIPTORS: Final = 8
"""The most descriptors that come with one request."""
_ANY_SIZE: Final = (1 << 63) - 1
"""Requests come from symd itself, and this process's memory is limited."""
_KEPT_BYTES: Final = 384 << 20
"""Resident memory with which a process is kept: beyond it a new one is cheaper than this one."""
_QUIET_SECONDS: Final = 0.05
"""Seconds without a request after which garbage is collected."""
_FEW_OBJECTS: Final = 10_000
"""Objects by which those that may be garbage can have grown without a search: to look through what is kept takes a
tenth of the time of a small module's index, and most calls leave no garbage."""
_TEXT: Final = 300
"""Characters of an exception's text."""
_TRACEBACK: Final = 20_000
"""Characters of a traceback, the last."""


def main(function: str, parent: int, *, confined: bool) -> None:
    """Serve until the other end closes. ``function`` is "package.module:name"."""
    die_with(parent)
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # a service manager sends it to all processes; PARENT decides what is finished
    answers = os.dup(1)
    os.dup2(2, 1)  # what anybody prints must not look like an answer
    module, _, name = function.partition(":")
    call: Function = getattr(importlib.import_module(module), name)
    gc.disable()  # a call makes no garbage worth a search; what there is goes while nobody waits
    gc.freeze()  # what was imported is never garbage, and looking through it would take longer than most calls
    with socket.socket(fileno=0) as requests, requests.makefile("rb") as stream:
        if confined:
            confine(interpreter())
        while _answered(requests, stream, call, answers):
            has_grown = gc.get_count()[0] > _FEW_OBJECTS
            if has_grown and not select.select([requests], [], [], _QUIET_SECONDS)[0]:
                gc.collect()


def _answered(requests: socket.socket, stream: IO[bytes], call: Function, answers: int) -> bool:
    """Answer the next request; False when it was the last."""
    begin, descriptors, _, _ = socket.recv_fds(requests, 1, MOST_DESCRIPTORS)
    if not begin:
        return False
    try:
        answer = _answer(stream, call, descriptors)
    except MemoryError:
        write_frame(answers, MEMORY, b"")
        return False
    finally:
        for each in descriptors:
            os.close(each)
    if answer is None:
        return False
    last = _resident() > _KEPT_BYTES
    if last:
        write_frame(answers, LAST, b"")
    write_frame(answers, *answer)
    return not last


def _answer(stream: IO[bytes], call: Function, descriptors: Sequence[int]) -> tuple[bytes, bytes] | None:
    """The answer to a request; None when it does not come whole."""
    limits, data = read_frame(stream, _ANY_SIZE), read_frame(stream, _ANY_SIZE)
    if limits is None or data is None:
        return None
    try:
        return BYTES, call(data[1], _read(limits[1]), descriptors)
    except MemoryError:
        raise
    except SymdError as error:
        return ERROR, _json(error_to_dict(error))
    except Exception as error:  # noqa: BLE001 - told whole to the other end, which logs it
        return DEFECT, _json(_defect(error))


@lru_cache(4)
def _read(fields: bytes) -> Limits:
    return Limits(**json.loads(fields))


def _defect(error: Exception) -> dict[str, Any]:
    """The fields of ``ChildException``."""
    text = "".join(traceback.format_exception(error))
    return {"exception": type(error).__name__, "message": str(error)[:_TEXT], "traceback": text[-_TRACEBACK:]}


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _resident() -> int:
    """Bytes of this process that are in memory (proc(5))."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # who asked was killed: there is nobody to tell
        main(sys.argv[1], int(sys.argv[2]), confined=sys.argv[3] == CONFINED)
