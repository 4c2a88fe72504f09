"""The string and function tables that pprof and OTLP share in kind: an entry that is there is found again, a new one
goes to the end, and none is there twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.protobuf_wire import VARINT, Field, fields, length_field, number_field
from symd.profiles.samples import shown_name
from symd.profiles.schemas import Pprof

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
