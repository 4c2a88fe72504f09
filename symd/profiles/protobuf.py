"""Profiles that are protocol buffers: their bytes as generated messages, which keep what they do not know; and the
string and function tables that pprof and OTLP share in kind.

Source: protobuf.dev, "Encoding"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from symd.core.records import FIELDS, LEAF, message_count
from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.samples import shown_name

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
COUNTED_BYTES = 64 << 10
"""The messages of a smaller protocol buffer are not counted before it is parsed."""
MessageType = TypeVar("MessageType", bound=Message)


class Field(NamedTuple):
    """One field of a message; ``content`` is what a LENGTH field holds, and empty for others."""

    number: int
    wire: int
    content: bytes


def each_field(data: bytes, where: str = "the message") -> Iterator[Field]:
    """The fields of a message in order, none of them looked into. Raises Malformed where they do not fill it
    exactly."""
    at = 0
    while at < len(data):
        start = at
        key, at = _varint(data, at, where)
        wire, begin = key & 7, at
        if wire == LENGTH:
            size, begin = _varint(data, at, where)
            at = begin + size
        elif wire == VARINT:
            _, at = _varint(data, at, where)
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
        else:
            raise Malformed(f"the field at byte {start} has wire type {wire}", where=where)
        if at > len(data) or not key >> 3:
            raise Malformed(f"the field at byte {start} leaves the message, or has number 0", where=where)
        yield Field(key >> 3, wire, data[begin:at] if wire == LENGTH else b"")


def _varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    """(number, where it ends); at most ten bytes, as 64 bits need."""
    result = 0
    for shift, byte in enumerate(data[at : at + 10]):
        result |= (byte & 127) << 7 * shift
        if byte < 128:
            return result, at + shift + 1
    raise Malformed(f"a number at byte {at} does not end", where=where)


@cache
def _kinds(descriptor: Descriptor) -> bytes:
    """What ``message_count`` is told of a message and all that it holds."""
    kinds, table = [descriptor], bytearray()
    for each in kinds:
        entries = bytearray(FIELDS)
        for field in each.fields:
            if field.message_type is not None:
                if field.message_type not in kinds:
                    kinds.append(field.message_type)
                entries[field.number] = kinds.index(field.message_type)
            elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
                entries[field.number] = LEAF
        table += entries
    return bytes(table)


def parsed(kind: type[MessageType], data: bytes, where: str, spending: ProfileBudget) -> MessageType:
    """The bytes as a message of this kind. Raises Malformed, and LimitExceeded before the memory is spent."""
    spending.read_message(len(data))
    if len(data) >= COUNTED_BYTES:
        spending.check(message_count(data, _kinds(kind.DESCRIPTOR), spending.left))
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise Malformed("the protocol buffers are damaged", where=where) from error


def encodable(text: str | None) -> str:
    """The text with lone surrogates escaped: protocol buffers hold UTF-8."""
    return (text or "").encode("utf-8", "backslashreplace").decode()


class StringTable:
    """The string table of a message, whose entry 0 is "". A text that is there is found again, a new one is added."""

    def __init__(
        self, table: MutableSequence[str] | MutableSequence[bytes], where: str, *, of_bytes: bool = False
    ) -> None:
        """``table`` holds texts, or is one ``of_bytes``, where texts need not be UTF-8. Raises Malformed."""
        if table and table[0]:
            raise Malformed("the string table does not begin with the empty string", where=where)
        self._where = where
        self._append: Callable[[Any], None] = table.append
        self._is_of_bytes = of_bytes
        self._texts = [each if isinstance(each, str) else each.decode("utf-8", "surrogateescape") for each in table]
        self._numbers: dict[str, int] = {}
        for number, text in enumerate(self._texts):
            self._numbers.setdefault(text, number)

    def text(self, number: int) -> str:
        """Raises Malformed for a number that the table does not have."""
        if not 0 <= number < max(1, len(self._texts)):
            raise Malformed(f"string {number} is named, and there are {len(self._texts)}", where=self._where)
        return self._texts[number] if self._texts else ""

    def number(self, text: str | None) -> int:
        """The index of a text."""
        if not self._texts:
            self._add("")
        text = encodable(text)
        return self._numbers[text] if text in self._numbers else self._add(text)

    def _add(self, text: str) -> int:
        self._append(text.encode() if self._is_of_bytes else text)
        self._texts.append(text)
        return self._numbers.setdefault(text, len(self._texts) - 1)


FunctionKey = tuple[int, int, int, int]
"""Indexes of name, system name and file name in the string table, and the start line."""


class ProfileFunctions:
    """The function table of a message. ``known`` are the functions that it has, by what they say; ``add`` adds one, and
    returns its number."""

    def __init__(self, known: dict[FunctionKey, int], strings: StringTable, add: Callable[[FunctionKey], int]) -> None:
        self._known = known
        self._strings = strings
        self._add = add

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
        if key not in self._known:
            self._known[key] = self._add(key)
        return self._known[key]
