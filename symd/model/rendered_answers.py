"""The lines of many answers as columns of pieces, of which answers share most: joined some at a time, when they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.model.columns import I64, U8, U32, U64

Pieces = NDArray[np.object_]
"""Pieces, each ``bytes``."""
_DIGITS = 4
"""Digits of a number that are looked up together."""
_MOST_DIGITS = 21
"""Fewer than these has every number of 64 bits."""


class Shared(NamedTuple):
    """A piece of each answer: ``texts[number]``."""

    texts: Pieces
    number: I64

    def part(self, start: int, stop: int) -> Pieces:
        """The pieces of some answers."""
        found: Pieces = self.texts[self.number[start:stop]]
        return found


Column = Shared | Sequence[bytes]
"""A piece of each answer."""


class RenderedAnswers:
    """What is written for each answer of a batch: its piece of each of ``columns``; of those that ``instead`` has, by number, that."""

    def __init__(self, columns: Sequence[Column], count: int, instead: Mapping[int, bytes] | None = None) -> None:
        self._columns, self._count = columns, count
        self._instead = instead or {}

    def __len__(self) -> int:
        return self._count

    def text(self, start: int, stop: int) -> bytes:
        """What is written for some answers."""
        return b"".join(self._pieces(start, min(stop, self._count)))

    def each(self) -> list[bytes]:
        """What is written for every answer, by itself."""
        pieces, width = self._pieces(0, self._count), len(self._columns)
        return [b"".join(pieces[at : at + width]) for at in range(0, len(pieces), width)]

    def _pieces(self, start: int, stop: int) -> list[bytes]:
        """Row by row; a list takes a column of references in less time than an array does."""
        width = len(self._columns)
        pieces = [b""] * (width * (stop - start))
        for number, column in enumerate(self._columns):
            some = column.part(start, stop).tolist() if isinstance(column, Shared) else column[start:stop]
            pieces[number::width] = some
        instead, every = self._instead, range(start, stop)
        for number in instead if len(instead) < len(every) else every:
            if number in every and number in instead:
                at = width * (number - start)
                pieces[at : at + width] = [instead[number], *[b""] * (width - 1)]
        return pieces


def encoded(texts: Iterable[str]) -> list[bytes]:
    """The bytes of texts as standard output writes them: UTF-8, and "\\xHH" for what is not text."""
    every = list(texts)
    try:
        return list(map(str.encode, every))
    except UnicodeEncodeError:  # of file names that are no text
        return [text.encode("utf-8", "backslashreplace") for text in every]


def pieces_of(pieces: Sequence[bytes]) -> Pieces:
    """Pieces as a column that is gathered from."""
    found = np.empty(len(pieces), np.object_)
    found[:] = pieces
    return found


def side_by_side(*parts: Pieces | bytes) -> Pieces:
    """Columns, and what stands between them, joined piece by piece: added column by column each piece would be copied as
    often as there are columns. Raises ValueError where there is no column, or they have different lengths."""
    [count] = {len(each) for each in parts if not isinstance(each, bytes)}
    columns = [repeat(each, count) if isinstance(each, bytes) else each.tolist() for each in parts]
    return pieces_of(list(map(b"".join, zip(*columns, strict=True))))


def decimals(columns: Sequence[U64], between: Sequence[bytes]) -> Pieces:
    """For each row its numbers in decimal, the first of ``between`` behind the first of them, and so on."""
    widths = [_digit_counts(column) for column in columns]
    found = np.empty(len(columns[0]), np.object_)
    for alike in _alike(widths):
        counts = [width.item(alike[0]) for width in widths]
        characters = np.empty((len(alike), sum(counts) + sum(map(len, between))), np.uint8)
        at = 0
        for column, count, text in zip(columns, counts, between, strict=True):
            characters[:, at : at + count] = _digits(column[alike], count)
            at += count + len(text)
            characters[:, at - len(text) : at] = np.frombuffer(text, np.uint8)
        found[alike] = characters.view(f"S{at}").ravel()
    return found


def _alike(columns: Sequence[U8]) -> Iterator[I64]:
    """The rows with the same entries, for each such entries that there are."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        key = key * _MOST_DIGITS + column
    for each in np.flatnonzero(np.bincount(key)):
        yield np.flatnonzero(key == each)


def _digit_counts(numbers: U64) -> U8:
    counts, most = np.ones(len(numbers), np.uint8), int(numbers.max(initial=0))
    power = 10
    while power <= most:
        counts += numbers >= np.uint64(power)
        power *= 10
    return counts


def _digits(numbers: U64, count: int) -> U8:
    """The last digits of each number as characters, so many, a row a number."""
    groups = -(-count // _DIGITS)
    found = np.empty((len(numbers), groups), np.uint32)
    for group in reversed(range(groups)):
        left = numbers // np.uint64(10**_DIGITS)
        found[:, group] = _digit_groups()[numbers - left * np.uint64(10**_DIGITS)]
        numbers = left
    return found.view(np.uint8)[:, groups * _DIGITS - count :]


@cache
def _digit_groups() -> U32:
    """Numbers of ``_DIGITS`` digits as characters, four bytes side by side."""
    numbers = np.arange(10**_DIGITS)
    digits = [numbers // 10**place % 10 + ord("0") for place in reversed(range(_DIGITS))]
    return np.stack(digits, axis=1).astype(np.uint8).view(np.uint32).ravel()
