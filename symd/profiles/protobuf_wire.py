"""Protocol buffers at the wire level: fields as they stand, so that what is not understood stays byte for byte.

Source: protobuf.dev, "Encoding"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from symd.errors import Malformed
from symd.profiles.profile_format import ProfileBudget

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
