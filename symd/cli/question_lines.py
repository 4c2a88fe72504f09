"""Questions on standard input, one a line: all that can be read without waiting are answered together. Lines that come
again, as from profilers that ask for few addresses many times, are answered once (``RepeatedLines``).
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import overload

import numpy as np

from symd.cli.output import write_raw
from symd.cli.process import read
from symd.engine.files import gc_paused
from symd.errors import LimitExceeded
from symd.model.columns import I64, U64

READ_BYTES = 1 << 20
_LONG = 1 << 12
"""A file of so many bytes is taken apart by columns."""
_AT_ONCE = 1 << 22
"""A file of no more is read at once. Of larger ones, whose lines come again as a rule, pieces are better that fit the
processor's caches."""
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
    """The lines of each piece that can be read without waiting for more, stripped. Raises LimitExceeded for one of more
    than ``MAX_LINE_BYTES`` bytes."""
    for lines in arriving_pieces(handle):
        yield [line_text(line) for line in lines]


class Lines(Sequence[bytes]):
    """The lines of a long text, as bytes without their newlines, each made when it is asked for: as many at once as all
    of them would be, they take more time than to read the addresses in them."""

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
    """The lines of a text up to one of more than ``MAX_LINE_BYTES`` bytes. A line of more than ``MAX_LINE_BYTES``
    covers at least one whole block of half that size. So where each such block has a newline, no line is too long."""
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
    """The numbers of lines that all are ``0x`` and up to 16 hexadecimal digits, as ``model.addresses`` reads them; None
    where one is anything else."""
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


_KEPT_LINES = 1 << 17
"""Lines whose answers are kept."""
_KEPT_CHARACTERS = 1 << 26
"""Characters of such lines and their answers, about."""
_LONGEST_KEPT = 1 << 12
"""Bytes of a line that is kept: an address behind a path is no longer, and what is longer does not come again."""
_WRITTEN_AT_ONCE = 1 << 11
"""Answers that are put together before they are written: their text fits the processor's caches."""

AnswerEach = Callable[[Sequence[str]], Sequence[str | None]]
"""The answers to different lines, in their order; None for one that somebody else is asked each time it comes."""
AskAnew = Callable[[str], str]
"""Asks somebody else."""


def _nobody(line: str) -> str:
    raise AssertionError(line)


class RepeatedLines:
    """Answers lines. ``ask_anew`` is called for those to which ``answer_each`` gives no answer of its own."""

    def __init__(self, answer_each: AnswerEach, ask_anew: AskAnew = _nobody) -> None:
        self._answer_each = answer_each
        self._ask_anew = ask_anew
        self._known: dict[bytes, str | None] = {}
        self._characters = 0
        """Characters of the lines and the answers in ``_known``."""
        self._long: list[bytes] = []
        """Lines in ``_known`` that are not kept for another piece."""
        self._others = False
        """Whether there was a line that somebody else is asked."""

    def follow(self, handle: int) -> None:
        """Answer the lines that come from ``handle``, and flush before waiting for more. Raises LimitExceeded for a
        line that is too long."""
        for lines in arriving_pieces(handle):
            with gc_paused():
                self._write(lines)
            sys.stdout.flush()

    def _write(self, lines: Sequence[bytes]) -> None:
        """All are answered before the first is written, so that a tool that is missing is missed before it."""
        lines = lines[:]  # of a long text, whose lines are made when they are looked at: each is looked at twice
        found = self.answers(lines)
        for start in range(0, len(found), _WRITTEN_AT_ONCE):
            write_raw("".join(found[start : start + _WRITTEN_AT_ONCE]))

    def answers(self, lines: Sequence[bytes]) -> list[str]:
        """The answer to each line."""
        self._learn(lines)
        found = list(self._again(lines)) if self._others else [self._known[line] or "" for line in lines]
        self._forget()
        return found

    def _again(self, lines: Sequence[bytes]) -> Iterator[str]:
        for line in lines:
            answer = self._known[line]
            yield self._ask_anew(line_text(line)) if answer is None else answer

    def _learn(self, lines: Sequence[bytes]) -> None:
        new = [line for line in dict.fromkeys(lines) if line not in self._known]
        if not new:
            return
        answered = self._answer_each([line_text(line) for line in new])
        self._known.update(zip(new, answered, strict=True))
        self._characters += sum(map(len, new)) + sum(len(answer) for answer in answered if answer)
        self._long += [line for line in new if len(line) > _LONGEST_KEPT]
        self._others = self._others or None in answered

    def _forget(self) -> None:
        """What need not be kept, or is too much."""
        for line in self._long:
            answer = self._known.pop(line)
            self._characters -= len(line) + len(answer or "")
        self._long.clear()
        if len(self._known) > _KEPT_LINES or self._characters > _KEPT_CHARACTERS:
            self._known.clear()
            self._characters = 0
