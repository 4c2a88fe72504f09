"""Questions on standard input, one a line: what can be read without waiting is answered together."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import overload

import numpy as np

from symd.cli.blocking_streams import read
from symd.errors import LimitExceeded
from symd.model.columns import I64, U64

READ_BYTES = 1 << 20
_LONG = 1 << 12
"""A file of so many bytes is taken apart by columns."""
_AT_ONCE = 1 << 22
"""A file of no more is read at once. Of larger ones, whose lines come again as a rule, pieces are better that fit the processor's caches."""
MAX_LINE_BYTES = 1 << 16
_BYTE_ORDER_MARK = "\ufeff"
"""Editors and PowerShell put one in front of a file."""
_LONGEST_ADDRESS = len(b"0x") + 16
_NEWLINE, _NO_DIGIT = ord("\n"), 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_DIGITS[list(b"ABCDEF")] = range(10, 16)
"""The number that each letter stands for."""


def arriving_lines(handle: int) -> Iterator[list[str]]:
    """The lines of each piece that can be read without waiting for more, stripped. Raises LimitExceeded for one of more than
    ``MAX_LINE_BYTES`` bytes."""
    for lines in arriving_pieces(handle):
        yield [line_text(line) for line in lines]


class Lines(Sequence[bytes]):
    """The lines of a long text, as bytes without their newlines, each made when it is asked for: as many at once as all of them would be, they take more
    time than to read the addresses in them."""

    def __init__(self, text: bytes, end: I64, begin: int = 0) -> None:
        """``end`` says where the newline behind each line stands, ``begin`` where the first line begins."""
        self.text, self.end, self.begin = text, end, begin

    @classmethod
    def of(cls, lines: Sequence[bytes]) -> Lines:
        """``Lines`` of lines that are in memory already, without their newlines."""
        if isinstance(lines, Lines):
            return lines
        sizes = np.fromiter(map(len, lines), np.int64, len(lines))
        return cls(b"\n".join(lines), np.cumsum(sizes + 1) - 1)

    def __len__(self) -> int:
        return len(self.end)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if not isinstance(at, slice):
            return self.text[self._begin_of(range(len(self))[at]) : self.end.item(at)]
        first, stop, step = at.indices(len(self))
        if step != 1:
            return [self[number] for number in range(first, stop, step)]
        return self.text[self._begin_of(first) : self.end.item(stop - 1)].split(b"\n") if first < stop else []

    def __iter__(self) -> Iterator[bytes]:
        return iter(self[:])

    def part(self, first: int, stop: int) -> Lines:
        """The lines from number ``first`` to before number ``stop``, over the same text."""
        return Lines(self.text, self.end[first:stop], self._begin_of(first))

    def _begin_of(self, number: int) -> int:
        return self.end.item(number - 1) + 1 if number else self.begin


def arriving_pieces(handle: int) -> Iterator[Sequence[bytes]]:
    """The lines of each piece of a file or pipe that can be read without waiting for more: bytes as they come,
    without their newlines. The lines before one that is too long are given first. A pipe is made as large as the
    pieces are, where the system allows it, so that whoever writes into it can go on meanwhile. Raises LimitExceeded
    for a line of more than ``MAX_LINE_BYTES`` bytes."""
    with suppress(OSError):
        fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, READ_BYTES)
    status = os.fstat(handle)
    at_once = stat.S_ISREG(status.st_mode) and _LONG <= status.st_size <= _AT_ONCE
    size = _AT_ONCE if at_once else READ_BYTES
    rest = b""
    while piece := read(handle, size):
        text = rest + piece
        rest = text[text.rfind(b"\n") + 1 :]
        lines = Lines(text, _newlines(text)) if at_once else text.split(b"\n")[:-1]
        short = _before_too_long(lines, text)
        yield short
        if len(short) < len(lines) or len(rest) > MAX_LINE_BYTES:
            raise _too_long()
    if rest:
        yield [rest]


def _before_too_long(lines: Sequence[bytes], text: bytes) -> Sequence[bytes]:
    """The lines of a text up to one of more than ``MAX_LINE_BYTES`` bytes. A line of more than ``MAX_LINE_BYTES`` covers at least one whole
    block of half that size. So where each such block has a newline, no line is too long."""
    half = MAX_LINE_BYTES // 2
    if all(text.find(b"\n", at, at + half) >= 0 for at in range(0, len(text) - half + 1, half)):
        return lines
    return list(takewhile(lambda line: len(line) <= MAX_LINE_BYTES, lines))


def _newlines(text: bytes) -> I64:
    """Where they stand."""
    return np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE)


def line_text(line: bytes) -> str:
    """Raises LimitExceeded for a line of more than ``MAX_LINE_BYTES`` bytes."""
    if len(line) > MAX_LINE_BYTES:
        raise _too_long()
    return line.decode("utf-8", "replace").strip().removeprefix(_BYTE_ORDER_MARK)


def _too_long() -> LimitExceeded:
    return LimitExceeded(f"a line of more than {MAX_LINE_BYTES} bytes", where="standard input", hint="one query a line")


def addresses_in(lines: Sequence[bytes]) -> U64 | None:
    """The numbers of lines that all are ``0x`` and up to 16 hexadecimal digits, as ``model.addresses`` reads them; None where one is
    anything else."""
    every = Lines.of(lines)
    characters, end = np.frombuffer(every.text, np.uint8), every.end
    start = np.append(every.begin, end[:-1] + 1)
    size = end - start
    if size.min() < len(b"0x0") or size.max() > _LONGEST_ADDRESS:
        return None
    if (characters[start] != ord("0")).any() or (characters[start + 1] != ord("x")).any():
        return None
    found = np.zeros(len(lines), np.uint64)
    for length in np.flatnonzero(np.bincount(size)).tolist():
        alike = np.flatnonzero(size == length)
        first, numbers = start[alike], np.zeros(len(alike), np.uint64)
        for at in range(len(b"0x"), length):
            digit = _DIGITS[characters[first + at]]
            if digit.max() == _NO_DIGIT:
                return None
            numbers = numbers << np.uint64(4) | digit
        found[alike] = numbers
    return found
