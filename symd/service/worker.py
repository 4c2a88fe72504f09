"""The process that indexes modules for the daemon: one after the other from standard input, until that ends.

It is run as a file (`python -P worker.py MEMORY`), so that it loads what indexing needs and nothing of gRPC. A request
is a u64 length and the module's bytes behind a u64 length and the limits as JSON; an answer is one byte ("I" index, "E"
a failure as ``store.failures`` writes it), a u64 length and that many bytes."""

from __future__ import annotations

import gc
import json
import os
import resource
import struct
import sys
from typing import BinaryIO

from symd.config import Limits
from symd.errors import LimitExceeded, SymdError
from symd.index.module import build_index
from symd.store import failures

LENGTH = struct.Struct("<Q")
ANSWER = struct.Struct("<cQ")


def main(memory: int) -> None:
    """Serve until the other end closes. ``memory`` is the most address space this process may take, in bytes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints must not look like an answer
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    gc.disable()  # indexing makes no garbage worth a search; what there is goes while nobody waits
    while (limits := _read(sys.stdin.buffer)) is not None:
        data = _read(sys.stdin.buffer)
        if data is None:
            return
        kind, answer = _answer(data, Limits(**json.loads(limits)))
        answers.write(ANSWER.pack(kind, len(answer)))
        answers.write(answer)
        answers.flush()
        gc.collect()


def _answer(data: bytes, limits: Limits) -> tuple[bytes, bytes]:
    try:
        return b"I", build_index(data, limits)
    except SymdError as error:
        return b"E", failures.encode(error).encode()
    except MemoryError:
        large = LimitExceeded(
            f"indexing takes more than {limits.build_memory} bytes of memory", hint="raise the limit build_memory"
        )
        return b"E", failures.encode(large).encode()


def _read(source: BinaryIO) -> bytes | None:
    length = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(length)[0]) if len(length) == LENGTH.size else None


if __name__ == "__main__":
    main(int(sys.argv[1]))
