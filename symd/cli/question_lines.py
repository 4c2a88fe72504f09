"""Questions on standard input, one a line: what can be read without waiting is answered together."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from string import hexdigits

import numpy as np

from symd.errors import LimitExceeded
from symd.model.columns import U64

READ_BYTES = 1 << 20
_FILE_BYTES = 1 << 22
"""So much is read of a file at a time, of which all is there."""
MAX_LINE_BYTES = 1 << 16
_LONGEST_ADDRESS = len(b"0x") + 16
_NEWLINE, _NO_DIGIT = ord("\n"), 255
_DIGITS = np.array([int(chr(letter), 16) if chr(letter) in hexdigits else _NO_DIGIT for letter in range(256)], np.uint8)
"""The number that each letter stands for."""


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
    size = _FILE_BYTES if stat.S_ISREG(os.fstat(handle).st_mode) else READ_BYTES
    rest = b""
    while piece := os.read(handle, size):
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
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


def addresses_in(lines: Sequence[bytes]) -> U64 | None:
    """The numbers of lines that all are ``0x`` and up to 16 hexadecimal digits, as ``model.query_syntax`` reads them; None where one is
    anything else."""
    characters = np.frombuffer(b"\n".join(lines), np.uint8)
    end = np.append(np.flatnonzero(characters == _NEWLINE), len(characters))
    start = np.append(0, end[:-1] + 1)
    size = end - start
    if len(end) != len(lines) or size.min() < len(b"0x0") or size.max() > _LONGEST_ADDRESS:
        return None
    if (characters[start] != ord("0")).any() or (characters[start + 1] != ord("x")).any():
        return None
    digits, found = _DIGITS[characters], np.zeros(len(lines), np.uint64)
    for length in np.flatnonzero(np.bincount(size)).tolist():
        alike = np.flatnonzero(size == length)
        first, numbers = start[alike], np.zeros(len(alike), np.uint64)
        for at in range(len(b"0x"), length):
            digit = digits[first + at]
            if digit.max() == _NO_DIGIT:
                return None
            numbers = numbers << np.uint64(4) | digit
        found[alike] = numbers
    return found
