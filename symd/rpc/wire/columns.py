"""Packed columns (unsigned little-endian integers, as narrow as they go, without a Python object an entry), the answers
to parts of a batch as one batch, and a count of a message's fields before it is read.

A field of two bytes becomes an object of a hundred, and a parser makes all of them in one go while nothing else runs;
so fields are counted first, in plain Python, which lets other threads run in between.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from symd.errors import LimitExceeded, Malformed
from symd.model.answers import Answers, Candidate, Locations, TextSection, concat

Number = TypeVar("Number", bound=np.unsignedinteger[Any])

WIDTHS: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<u8")}

OTHER_SIDE = "use versions of symd that belong together; where they do, do not trust that daemon"

TAKEN_AT_ONCE = 1 << 15
"""Numbers of a column that are looked up at a time, so that what is made on the way stays in the processor's cache."""

KINDS: dict[type[np.unsignedinteger[Any]], np.dtype[Any]] = {
    np.uint8: np.dtype("<u1"),
    np.uint32: np.dtype("<u4"),
    np.uint64: np.dtype("<u8"),
}


def pack(values: NDArray[Any]) -> bytes:
    """A column in the narrowest width that holds its largest value; empty when all values are 0."""
    top = int(values.max()) if len(values) else 0
    return values.astype(WIDTHS[width_of(top)], copy=False).tobytes() if top else b""


def pack_taken(table: NDArray[Any], numbers: NDArray[Any]) -> bytes:
    """The column ``table[numbers]``, as ``pack``. The numbers must be in the table."""
    taken = np.empty(len(numbers), table.dtype)
    for start in range(0, len(numbers), TAKEN_AT_ONCE):
        part = slice(start, start + TAKEN_AT_ONCE)
        np.take(table, numbers[part], out=taken[part], mode="clip")  # to look whether they are copies all that is taken
    return pack(taken)


def width_of(top: int) -> int:
    """Bytes that hold ``top``: 1, 2, 4 or 8."""
    return next(width for width in WIDTHS if top < 1 << 8 * width)


def column_width(column: bytes, count: int) -> int | None:
    """Bytes of each of the ``count`` numbers in a column that is not empty; None when it is no such column."""
    width, rest = divmod(len(column), count) if count else (0, 1)
    return None if rest or width not in WIDTHS else width


def check_count(answered: int, asked: int) -> None:
    """Raises Malformed where a daemon answers more or fewer addresses than it was asked about."""
    if answered != asked:
        raise Malformed(f"{asked} addresses were asked, {answered} are answered", hint=OTHER_SIDE)


def check_below(numbers: NDArray[Any], count: int, what: str) -> None:
    """Raises ``Malformed`` where one of the numbers of ``what`` is not among the ``count`` things that there are, from
    0 on."""
    top = int(numbers.max()) if len(numbers) else -1
    if top >= count:
        raise Malformed(f"there is no {what} {top}: there are {count}", hint=OTHER_SIDE)


def unpack(column: bytes, count: int, kind: type[Number]) -> NDArray[Number]:
    """The ``count`` numbers of a column as an array of ``kind``; read-only where no conversion was needed.

    Raises ``Malformed`` when the column's length is no multiple of ``count`` or its numbers are wider than ``kind``.
    """
    if not column:
        return np.zeros(count, kind)
    wanted = KINDS[kind]
    if len(column) == count * wanted.itemsize:
        return np.frombuffer(column, wanted)
    width = column_width(column, count)
    if width is None or width > wanted.itemsize:
        raise Malformed(f"a column of {len(column)} bytes does not hold {count} numbers")
    numbers: NDArray[Number] = np.frombuffer(column, WIDTHS[width]).astype(kind, copy=False)
    return numbers


def concatenated(parts: Sequence[Answers]) -> Answers:
    """Answers to the parts of a batch, in order, as answers to the whole."""
    if len(parts) == 1:
        return parts[0]
    whole = AnswersBuilder(sum(map(len, parts)))
    for part in parts:
        whole.add(part)
    return whole.answers()


class AnswersBuilder:
    """Answers to a batch of ``count`` queries whose parts are added in order, as they come. Tables of locations that
    are not the same are put one after another, so a location that several have is there several times."""

    def __init__(self, count: int) -> None:
        self._location = np.empty(count, np.uint32)
        self._section = np.empty(count, np.uint32)
        self._offset = np.empty(count, np.uint64)
        self._filled = 0
        self._tables: dict[int, tuple[int, Locations]] = {}
        self._table_end = 0
        self._sections: dict[TextSection, int] = {}
        self._candidates: dict[int, tuple[Candidate, ...]] = {}

    def add(self, part: Answers) -> None:
        """The answers to the next queries."""
        rows = slice(self._filled, self._filled + len(part))
        np.add(part.location, np.uint32(self._start_of(part.locations)), out=self._location[rows])
        numbers = [self._sections.setdefault(section, len(self._sections) + 1) for section in part.text_sections]
        same = numbers == list(range(1, len(numbers) + 1))
        self._section[rows] = part.text_section if same else np.array([0, *numbers], np.uint32)[part.text_section]
        self._offset[rows] = part.offset
        for query, candidates in part.candidates.items():
            self._candidates[rows.start + query] = candidates
        self._filled = rows.stop

    def answers(self) -> Answers:
        """All that were added. Raises ``Malformed`` where that are fewer than ``count``."""
        check_count(self._filled, len(self._location))
        tables = [table for _, table in self._tables.values()]
        locations = tables[0] if len(tables) == 1 else concat(tables)[0]
        columns = self._location, self._section, self._offset
        return Answers(*columns, locations, list(self._sections), self._candidates)

    def _start_of(self, table: Locations) -> int:
        """The number that entry 0 of the table has among all entries."""
        known = self._tables.get(id(table))
        if known is not None:
            return known[0]
        start = self._table_end
        self._tables[id(table)] = start, table
        self._table_end += len(table)
        return start


COUNTED_BYTES = 1 << 20
"""Messages of fewer bytes are not counted: even where each field has two, they are read quickly."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


def check_fields(data: bytes, kind: Any, most: int) -> None:
    """Raises ``LimitExceeded`` where a message of the type that the descriptor ``kind`` describes, or a large one in
    it, has more than ``most`` fields. What is no message is left to whoever reads it."""
    _count(data, 0, len(data), kind, most, most)


def _count(data: bytes, at: int, end: int, kind: Any, left: int, most: int) -> int:
    """How many more fields there may be after those of ``data[at:end]``."""
    messages = {field.number: field.message_type for field in kind.fields if field.message_type is not None}
    while at < end:
        left -= 1
        if left < 0:
            raise LimitExceeded(
                f"the request has more than {most} fields",
                hint="send several, or a column",
                metadata={"limit": "request_fields", "value": str(most)},
            )
        tag, at = _varint(data, at, end)
        wire = tag & 7
        if wire == _LENGTH:
            size, at = _varint(data, at, end)
            inner = messages.get(tag >> 3)
            if inner is not None and size >= COUNTED_BYTES:
                left = _count(data, at, min(at + size, end), inner, left, most)
            at += size
        elif wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire == _FIXED64:
            at += 8
        elif wire == _FIXED32:
            at += 4
        else:
            return left  # a group, or nothing
    return left


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            break
    return value, at
