"""Protocol buffers at the wire level: fields as they stand, so that what is not understood stays byte for byte. And the
string and function tables that pprof and OTLP share in kind: an entry that is there is found again, a new one goes to
the end, and none is there twice.

Source: protobuf.dev, "Encoding"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.samples import shown_name
from symd.profiles.schemas import Pprof

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_COUNTED_TOGETHER = 4096


class Field(NamedTuple):
    """One field: its bytes are ``data[begin:end]``; of a LENGTH field ``data[value:end]`` is the content, of a VARINT
    ``value`` is the number."""

    number: int
    wire: int
    value: int
    begin: int
    end: int


def fields(
    data: bytes,
    begin: int = 0,
    end: int | None = None,
    where: str = "the message",
    spending: ProfileBudget | None = None,
) -> list[Field]:
    """The fields of a message in ``data[begin:end]``, in order. Raises Malformed where they do not fill it exactly, and
    LimitExceeded before there are more than may be read."""
    return list(each_field(data, begin, end, where, spending))


def each_field(
    data: bytes,
    begin: int = 0,
    end: int | None = None,
    where: str = "the message",
    spending: ProfileBudget | None = None,
) -> Iterator[Field]:
    """The fields of a message, as ``fields`` gives them, one by one."""
    limit = len(data) if end is None else end
    at, counted = begin, 0
    while at < limit:
        start = at
        counted += 1
        if counted == _COUNTED_TOGETHER and spending is not None:
            spending.read(counted)
            counted = 0
        key = data[at]
        at += 1
        if key > 127:
            key, at = _varint(data, start, limit, where)
        wire = key & 7
        if wire == LENGTH:
            size, value = _varint(data, at, limit, where)
            at = value + size
        elif wire == VARINT:
            value, at = _varint(data, at, limit, where)
        elif wire in (FIXED64, FIXED32):
            value = at
            at += 8 if wire == FIXED64 else 4
        else:
            raise Malformed(f"the field at byte {start} has wire type {wire}", where=where)
        if at > limit or not key >> 3:
            raise Malformed(f"the field at byte {start} leaves the message, or has number 0", where=where)
        yield Field(key >> 3, wire, value, start, at)
    if spending is not None:
        spending.read(counted)


def _varint(data: bytes, at: int, limit: int, where: str) -> tuple[int, int]:
    """(number, where it ends); at most ten bytes, as 64 bits need."""
    if at < limit and data[at] < 128:
        return data[at], at + 1
    result = shift = 0
    while at < limit and shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
    raise Malformed(f"a number at byte {at - 1} does not end", where=where)


def packed(data: bytes, field: Field, where: str) -> list[int]:
    """The numbers of a repeated varint field, packed or a single one."""
    if field.wire == VARINT:
        return [field.value]
    if field.wire != LENGTH:
        raise Malformed(f"field {field.number} at byte {field.begin} is not a list of numbers", where=where)
    result = []
    at = field.value
    while at < field.end:
        number, at = _varint(data, at, field.end, where)
        result.append(number)
    return result


def signed(value: int) -> int:
    """The int64 that a varint field holds: two's complement of 64 bits."""
    return value - (1 << 64) if value >> 63 else value


def fixed(data: bytes, field: Field) -> int:
    """The unsigned number of a FIXED64 or FIXED32 field, little-endian."""
    return int.from_bytes(data[field.value : field.end], "little")


def varint(number: int) -> bytes:
    """An unsigned number below 2^64."""
    result = bytearray()
    while number > 127:
        result.append(number & 127 | 128)
        number >>= 7
    result.append(number)
    return bytes(result)


def number_field(number: int, value: int) -> bytes:
    """A varint field; b"" for 0, which is what an absent field means."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def int64_field(number: int, value: int) -> bytes:
    """A varint field of an int64, which may be negative."""
    return number_field(number, value & 0xFFFFFFFFFFFFFFFF)


def packed_field(number: int, values: Iterable[int]) -> bytes:
    """A packed repeated field of int64 or uint64; b"" where there are none."""
    content = b"".join(varint(value & 0xFFFFFFFFFFFFFFFF) for value in values)
    return length_field(number, content) if content else b""


def text_field(number: int, text: str) -> bytes:
    """A string; protocol buffers hold UTF-8, so lone surrogates are escaped. b"" for "", which is what an absent field
    means."""
    return length_field(number, text.encode("utf-8", "backslashreplace")) if text else b""


def length_field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | LENGTH) + varint(len(content)) + content


FunctionKey = tuple[int, int, int, int]
"""Indexes of name, system name and file name in the string table, and the start line."""


class StringTable:
    """A string table whose entry 0 is ""; ``added`` are the strings that were not there."""

    def __init__(self, known: Sequence[bytes]) -> None:
        self._numbers: dict[bytes, int] = {}
        for number, text in enumerate(known):
            self._numbers.setdefault(text, number)
        self._next = len(known)
        self.added: list[bytes] = []
        self.number("")

    def number(self, text: str | None) -> int:
        """The index of a string; protocol buffers hold UTF-8, so lone surrogates are escaped."""
        data = (text or "").encode("utf-8", "backslashreplace")
        found = self._numbers.get(data)
        if found is None:
            found = self._numbers[data] = self._next
            self._next += 1
            self.added.append(data)
        return found


class ProfileFunctions:
    """A function table. ``first`` is the number that the next new function gets."""

    def __init__(self, known: dict[FunctionKey, int], first: int, strings: StringTable) -> None:
        self._numbers = known
        self._next = first
        self._strings = strings
        self.added: list[tuple[int, FunctionKey]] = []

    def number(self, frame: Frame) -> int:
        """The function of a frame: name as the debug data has it or else its place, system name the mangled one where
        there is one."""
        name = shown_name(frame) if frame.file else frame.function or frame.linkage_name
        key = (
            self._strings.number(name),
            self._strings.number(frame.linkage_name or name),
            self._strings.number(frame.file),
            frame.start_line,
        )
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._next
            self._next += 1
            self.added.append((found, key))
        return found


def line_message(function: int, frame: Frame) -> bytes:
    """A Line, which has the same fields in pprof and in OTLP."""
    position = number_field(Pprof.Line.line, frame.line) + number_field(Pprof.Line.column, frame.column)
    return number_field(Pprof.Line.function_id, function) + position


def function_message(key: FunctionKey, numbers: Sequence[int]) -> bytes:
    """A Function whose fields for what ``key`` has bear these numbers."""
    return b"".join(number_field(number, value) for number, value in zip(numbers, key, strict=True))


def lines_of(field_number: int, frames: Sequence[Frame], functions: ProfileFunctions) -> bytes:
    """The repeated Line field of a location: leaf first, as both formats want it and frames are."""
    return b"".join(length_field(field_number, line_message(functions.number(frame), frame)) for frame in frames)


class StringTableReader:
    """A base for readers of messages whose strings are in a table and are named by their number there; the reader
    fills ``_strings``."""

    def __init__(self, data: bytes, where: str, spending: ProfileBudget) -> None:
        self._data, self._where, self._spending = data, where, spending
        self._strings: list[str] = []

    def _inside(self, item: Field) -> list[Field]:
        return fields(self._data, item.value, item.end, self._where, self._spending)

    def _numbers(self, item: Field) -> dict[int, int]:
        return {one.number: one.value for one in self._inside(item) if one.wire == VARINT}

    def _string(self, number: int) -> str:
        """Raises Malformed for a number that the table does not have."""
        if number >= len(self._strings):
            raise Malformed(f"string {number} is named, and there are {len(self._strings)}", where=self._where)
        return self._strings[number]


def frame_flags(frames: Sequence[Frame]) -> set[int]:
    """The flags of a pprof Mapping for what these frames in it have."""
    flags = {Pprof.Mapping.has_inline_frames}
    for frame in frames:
        flags |= {Pprof.Mapping.has_functions} if frame.function or frame.linkage_name else set()
        flags |= {Pprof.Mapping.has_filenames} if frame.file else set()
        flags |= {Pprof.Mapping.has_line_numbers} if frame.line else set()
    return flags
