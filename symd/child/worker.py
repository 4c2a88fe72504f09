"""The process that answers a ``Pool``: it calls one function for each request on standard input, until that ends.

It is run as a file (``python -P worker.py MODULE:FUNCTION``), so that it loads what the function needs and nothing more. A
request is a JSON frame (the fields of ``Limits``) and a BYTES frame; the answer is one frame: BYTES, ERROR or MEMORY."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import IO, Final

from symd.child.frames import BYTES, ERROR, MEMORY, read_frame, write_frame
from symd.config import Limits
from symd.errors import SymdError, described

Function = Callable[[bytes, Limits], bytes]

_ANY_SIZE: Final = (1 << 63) - 1
"""Requests come from symd itself, and this process's memory is limited."""


def main(function: str) -> None:
    """Serve until the other end closes. ``function`` is "package.module:name"."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what anybody prints must not look like an answer
    module, _, name = function.partition(":")
    call: Function = getattr(importlib.import_module(module), name)
    gc.disable()  # a call makes no garbage worth a search; what there is goes while nobody waits
    while True:
        try:
            answer = _answer(sys.stdin.buffer, call)
        except MemoryError:
            write_frame(answers, MEMORY, b"")
            return
        if answer is None:
            return
        write_frame(answers, *answer)
        del answer
        gc.collect()


def _answer(requests: IO[bytes], call: Function) -> tuple[bytes, bytes] | None:
    """The answer to the next request; None when there is none."""
    limits, data = read_frame(requests, _ANY_SIZE), read_frame(requests, _ANY_SIZE)
    if limits is None or data is None:
        return None
    try:
        return BYTES, call(data[1], Limits(**json.loads(limits[1])))
    except SymdError as error:
        return ERROR, json.dumps(described(error)).encode()


if __name__ == "__main__":
    main(sys.argv[1])
