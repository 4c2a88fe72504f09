"""The msgpack map of an AMDGPU metadata note as columns of kernels, and msgpack from untrusted files.

The arguments of a note's kernels are half of it, and the same bytes for all kernels of one signature; many kernels
differ in their names alone. Equal bytes are read once.

Sources: the msgpack specification; LLVM's AMDGPU usage guide, "Code Object V3 Metadata".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from symd.errors import Malformed

_KERNELS = "amdhsa.kernels"
_APART = (".args", ".name", ".symbol")
"""The keys of a kernel's map whose values are kept apart."""
_, _NAME, _SYMBOL = _APART
_NOWHERE = (0, 0, 0)
_NOTHING = b"\xc0"
_HEADER = struct.Struct(">BI").pack
"""The header of a list (0xdd) or a map (0xdf): its entries."""
_LISTS = (0xDC, 0xDD)
_MAPS = (0xDE, 0xDF)
_LONG_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes that the length of a text takes, by its first byte; shorter ones have theirs in that."""
_SHORT = 2048
"""Bytes of a note, of three kernels or so, that is read as a whole in less time than it is taken apart."""
_PATTERNS = 16
"""Kernels that were taken apart last and with which the next one is compared."""
_MISSED = 64
"""Kernels in a row that are like none of those before the next ones are compared with ``_FEWER_PATTERNS`` alone."""
_FEWER_PATTERNS = 4


class Kernels(NamedTuple):
    """The kernels of a metadata note, as columns: ``name`` and ``symbol`` of each kernel, of whatever type and None
    where there is none, and the entry of ``kinds`` that ``kind`` numbers for it: what else its map has, and the
    number of its arguments among the ``signatures``, of whatever type. A map that has a key several times has it
    here too: what counts is what is apart."""

    kinds: list[tuple[dict[Any, Any], int]]
    signatures: list[Any]
    kind: list[int]
    name: list[Any]
    symbol: list[Any]


class MetadataNote(NamedTuple):
    """A metadata note: its ``kernels``, and the ``tree`` of all else in it."""

    tree: dict[Any, Any]
    kernels: Kernels


def load(data: bytes) -> MetadataNote | None:
    """Read a note; None where it is no map. Raises Malformed.

    It is walked once before anything is read: msgpack allocates as many elements as a list says that it has.
    """
    reader = reader_of(data)
    try:
        reader.skip()
    except msgpack.OutOfData as error:
        raise Malformed("Unpack failed: incomplete input") from error
    except (ValueError, msgpack.UnpackException) as error:
        raise _malformed(error) from error
    try:
        if reader.tell() < len(data):
            raise msgpack.ExtraData(None, b"")
        if not _is(data, 0, 0x80, _MAPS):
            return None
        return _note(data) if len(data) > _SHORT else _short_note(data)
    except (ValueError, msgpack.UnpackException, TypeError) as error:
        _whole(data)  # says what comes first in the note; its parts are read in another order
        raise _malformed(error) from error


def _whole(data: bytes) -> Any:
    try:
        return _value(data)
    except (ValueError, msgpack.UnpackException, TypeError) as error:
        raise _malformed(error) from error


def _malformed(error: Exception) -> Malformed:
    """The library's own words; some of its errors have none."""
    return Malformed(str(error) or f"is not readable msgpack: {type(error).__name__}")


def _value(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False, ext_hook=extension)


def _short_note(data: bytes) -> MetadataNote:
    tree = _value(data)
    listed = tree.pop(_KERNELS, None)
    kernels = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    arguments, names, symbols = ([each.get(key) for each in kernels] for key in _APART)
    numbers = [*range(len(kernels))]
    return MetadataNote(tree, Kernels([*zip(kernels, numbers, strict=True)], arguments, numbers, names, symbols))


def _note(data: bytes) -> MetadataNote:
    reader = reader_of(data)
    tree, kernels = {}, _Found(b"").kernels()
    for _ in range(reader.read_map_header()):
        key, begin = reader.unpack(), reader.tell()
        if key != _KERNELS:
            tree[key] = reader.unpack()
        elif _is(data, begin, 0x90, _LISTS):
            kernels = _kernels(data, reader)
        else:
            reader.unpack()
            kernels = _Found(b"").kernels()
    return MetadataNote(tree, kernels)


def _kernels(data: bytes, reader: msgpack.Unpacker) -> Kernels:
    """The kernels of the list of ``data`` that ``reader`` is at."""
    found = _Found(data)
    count = reader.read_array_header()
    begin = reader.tell()
    for _ in range(count):
        size = found.take_alike(begin)
        if size:
            reader.read_bytes(size)
            begin += size
            continue
        if _is(data, begin, 0x80, _MAPS):
            found.take_apart(reader)
        else:
            reader.unpack()
        begin = reader.tell()
    return found.kernels()


class _Pattern(NamedTuple):
    """A kernel's map that was taken apart: its bytes before, between and after the values of name and symbol, and its
    kind."""

    before: bytes
    between: bytes
    behind: bytes
    kind: int


class _Found:
    """The kernels of a note as they are found in ``data``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._patterns: list[_Pattern] = []
        self._missed = 0
        self._rests: dict[bytes, int] = {}
        self._signatures: dict[bytes, int] = {}
        self._kinds: dict[tuple[int, int], int] = {}
        self._kind: list[int] = []
        self._names: list[bytes] = []
        self._symbols: list[bytes] = []

    def kernels(self) -> Kernels:
        """The kernels that were taken, as columns."""
        rests, signatures = _values([*self._rests]), _values([*self._signatures])
        kinds = [(rests[rest], signature) for rest, signature in self._kinds]
        return Kernels(kinds, signatures, self._kind, _values(self._names), _values(self._symbols))

    def take_alike(self, begin: int) -> int:
        """Take the map at ``begin`` if it differs from one that was taken apart in name and symbol alone, both texts;
        returns its bytes, or 0 if it was not taken. No value in msgpack is the beginning of another, so that after the
        same bytes and one value the next byte means the same."""
        data = self._data
        patterns = self._patterns if self._missed < _MISSED else self._patterns[:_FEWER_PATTERNS]
        for before, between, behind, kind in patterns:
            if data.startswith(before, begin):
                name = begin + len(before)
                name_end = _after_text(data, name)
                if data.startswith(between, name_end):
                    symbol = name_end + len(between)
                    symbol_end = _after_text(data, symbol)
                    if data.startswith(behind, symbol_end):
                        self._missed = 0
                        self._kind.append(kind)
                        self._names.append(data[name:name_end])
                        self._symbols.append(data[symbol:symbol_end])
                        return symbol_end + len(behind) - begin
        self._missed += 1
        return 0

    def take_apart(self, reader: msgpack.Unpacker) -> None:
        """Take the map that ``reader`` is at, value by value."""
        data, begin = self._data, reader.tell()
        size = reader.read_map_header()
        unpack, skip, tell = reader.unpack, reader.skip, reader.tell
        first = end = tell()
        places = dict[str, tuple[int, int, int]]()
        for _ in range(size):
            at, key = end, unpack()
            if key in _APART:
                value = tell()
                skip()
                end = tell()
                places[key] = at, value, end
            else:
                skip()
                end = tell()
        pieces, edge = [_HEADER(0xDF, size - len(places))], first
        for at, _, after in sorted(places.values()):
            pieces.append(data[edge:at])
            edge = after
        pieces.append(data[edge:end])
        rest = self._number(self._rests, b"".join(pieces))
        arguments, name, symbol = (data[slice(*places.get(key, _NOWHERE)[1:])] or _NOTHING for key in _APART)
        kind = self._kinds.setdefault((rest, self._number(self._signatures, arguments)), len(self._kinds))
        self._kind.append(kind)
        self._names.append(name)
        self._symbols.append(symbol)
        if _NAME in places and _SYMBOL in places and places[_NAME] < places[_SYMBOL]:
            (_, named, after_name), (_, symboled, after_symbol) = places[_NAME], places[_SYMBOL]
            pattern = _Pattern(data[begin:named], data[after_name:symboled], data[after_symbol:end], kind)
            self._patterns = [pattern, *self._patterns[: _PATTERNS - 1]]

    @staticmethod
    def _number(known: dict[bytes, int], encoded: bytes) -> int:
        return known.setdefault(encoded, len(known))


def _values(encoded: Sequence[bytes]) -> list[Any]:
    found: list[Any] = _value(_HEADER(0xDD, len(encoded)) + b"".join(encoded))
    return found


def _after_text(data: bytes, at: int) -> int:
    """Where the text encoded at ``at`` ends; beyond the end of ``data`` if there is none."""
    head = data[at] if at < len(data) else 0
    if head & 0xE0 == 0xA0:
        return at + 1 + (head & 0x1F)
    if head not in _LONG_TEXTS:
        return len(data) + 1
    begin = at + 1 + _LONG_TEXTS[head]
    return begin + int.from_bytes(data[at + 1 : begin], "big")


def _is(data: bytes, at: int, short: int, long: tuple[int, int]) -> bool:
    """Whether a list or map is at ``at``: the high nibble of its first byte is ``short``, or the byte one of
    ``long``."""
    return data[at] & 0xF0 == short or data[at] in long


def unpacked(data: bytes, what: str) -> Any:
    """The one value that ``data`` is. Raises Malformed, which names it as ``what``.

    It is walked once before anything is made of it: msgpack allocates as many elements as a list says that it has.
    """
    reader = reader_of(data)
    try:
        reader.skip()
        return msgpack.unpackb(data, strict_map_key=False, ext_hook=extension)
    except msgpack.OutOfData:
        raise Malformed(f"{what} is cut off") from None
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Malformed(f"{what} is not msgpack that can be read: {error or type(error).__name__}") from error


def extension(kind: int, data: bytes) -> tuple[int, bytes]:
    """The value of an extension type. msgpack's own hook refuses those below 0, which the specification has for
    itself."""
    return kind, data


def reader_of(data: bytes) -> msgpack.Unpacker:
    """Reads ``data`` a value at a time, or skips one without making anything of it."""
    reader = msgpack.Unpacker(strict_map_key=False, ext_hook=extension, max_buffer_size=max(len(data), 1))
    reader.feed(data)
    return reader
