"""Questions on standard input, one a line: what can be read without waiting is answered together."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import repeat

import numpy as np

from symd.errors import LimitExceeded
from symd.model.columns import U64

READ_BYTES = 1 << 20
MAX_LINE_BYTES = 1 << 16
_OF_ADDRESSES = b"0123456789abcdefABCDEFx\n"


def arriving_lines(handle: int) -> Iterator[list[str]]:
    """The lines of each piece that can be read without waiting for more, stripped. Raises LimitExceeded for one of more than
    ``MAX_LINE_BYTES`` bytes."""
    for lines in arriving_pieces(handle):
        yield [line_text(line) for line in lines]


def arriving_pieces(handle: int) -> Iterator[list[bytes]]:
    """The same lines as bytes, not stripped, without the newline. A pipe is made as large as pieces are, where the system allows it: whoever writes
    into it goes on meanwhile."""
    with suppress(OSError):
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, READ_BYTES)
    rest = b""
    while piece := os.read(handle, READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise _too_long()
        yield lines
    if rest:
        yield [rest]


def line_text(line: bytes) -> str:
    """Raises LimitExceeded for a line of more than ``MAX_LINE_BYTES`` bytes."""
    if len(line) > MAX_LINE_BYTES:
        raise _too_long()
    return line.decode("utf-8", "replace").strip()


def _too_long() -> LimitExceeded:
    return LimitExceeded(f"a line of more than {MAX_LINE_BYTES} bytes", where="standard input", hint="one query a line")


def addresses_in(lines: Sequence[bytes]) -> tuple[list[str], U64] | None:
    """Lines that all are ``0x`` and hexadecimal digits, and their numbers, as ``model.query_syntax`` reads them; None where one is
    anything else, or has more than 64 bits."""
    joined = b"\n".join(lines)
    if joined.translate(None, _OF_ADDRESSES) or joined.count(b"\n0x") + joined.startswith(b"0x") != len(lines):
        return None
    texts = joined.decode("ascii").split("\n")
    try:
        return texts, np.fromiter(map(int, texts, repeat(16)), np.uint64, len(texts))
    except (ValueError, OverflowError):
        return None
