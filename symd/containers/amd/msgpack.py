"""The msgpack map of an AMDGPU metadata note, with the arguments of its kernels apart: they are half of the note, and the
same bytes for all kernels of one signature, so that they are read once.

Source: the msgpack specification; LLVM's AMDGPU usage guide, "Code Object V3 Metadata"."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgpack

from symd.containers.amd.bounded_msgpack import extension, reader_of
from symd.errors import Malformed

_KERNELS, _ARGUMENTS = "amdhsa.kernels", ".args"
_ENCODED_KEY = b"\xa5.args"
_NOTHING = b"\xc0"
_HEADER = struct.Struct(">BI").pack
"""Of a list (0xdd) or a map (0xdf) of so many entries."""
_LISTS = (0xDC, 0xDD)
_MAPS = (0xDE, 0xDF)


class Kernels(NamedTuple):
    """The ``maps`` of the kernels, without arguments; these are the entry of ``signatures`` that ``signature`` numbers for
    each kernel, of whatever type."""

    maps: list[dict[Any, Any]]
    signature: list[int]
    signatures: list[Any]


class Note(NamedTuple):
    """``tree`` is what the note says beside its kernels."""

    tree: dict[Any, Any]
    kernels: Kernels


def load(data: bytes) -> Note | None:
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
        return _note(data) if _is(data, 0, 0x80, _MAPS) else None
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


def _note(data: bytes) -> Note:
    reader = reader_of(data)
    tree, kernels = {}, Kernels([], [], [])
    for _ in range(reader.read_map_header()):
        key, begin = reader.unpack(), reader.tell()
        if key != _KERNELS:
            tree[key] = reader.unpack()
        elif _is(data, begin, 0x90, _LISTS):
            kernels = _kernels(data, reader)
        else:
            reader.unpack()
            kernels = Kernels([], [], [])
    return Note(tree, kernels)


def _kernels(data: bytes, reader: msgpack.Unpacker) -> Kernels:
    """The maps of the list of ``data`` at which ``reader`` stands, each parted in two."""
    rests: list[bytes] = []
    arguments: list[bytes] = []
    count, alike = reader.read_array_header(), b""
    end = reader.tell()
    for _ in range(count):
        begin = end
        reader.skip()
        end = reader.tell()
        rest = _rest_alike(data, begin, end, alike) if alike else None
        if rest is not None:
            arguments.append(arguments[-1])
        elif _is(data, begin, 0x80, _MAPS):
            rest, encoded = _parted(data[begin:end])
            arguments.append(encoded)
            alike = _ENCODED_KEY + encoded
        else:
            _value(data[begin:end])
            continue
        rests.append(rest)
    maps = _value(_HEADER(0xDD, len(rests)) + b"".join(rests))
    number = {encoded: at for at, encoded in enumerate(dict.fromkeys(arguments))}
    return Kernels(maps, [number[encoded] for encoded in arguments], [*map(_value, number)])


def _rest_alike(data: bytes, begin: int, end: int, alike: bytes) -> bytes | None:
    """What is left of the map ``data[begin:end]`` without its first entry, where that stands there as ``alike`` has it; else None.
    LLVM writes the keys in order, and no value in msgpack is the beginning of another."""
    head = data[begin]
    short = head & 0xF0 == 0x80
    first = begin + (1 if short else 3)
    after = first + len(alike)
    if after > end or not (short or head == _MAPS[0]) or not data.startswith(alike, first):
        return None
    size = head & 0xF if short else int.from_bytes(data[begin + 1 : first], "big")
    return _HEADER(0xDF, size - 1) + data[after:end]


def _parted(data: bytes) -> tuple[bytes, bytes]:
    """A map: what is left without its arguments, and these."""
    reader = reader_of(data)
    size = reader.read_map_header()
    first = reader.tell()
    for _ in range(size):
        before = reader.tell()
        key, begin = reader.unpack(), reader.tell()
        reader.skip()
        if key == _ARGUMENTS:
            after = reader.tell()
            return _HEADER(0xDF, size - 1) + data[first:before] + data[after:], data[begin:after]
    return _HEADER(0xDF, size) + data[first:], _NOTHING


def _is(data: bytes, at: int, short: int, long: tuple[int, int]) -> bool:
    """Whether a list or map stands there: its short form's first byte in the high nibble, or one of the long forms."""
    return data[at] & 0xF0 == short or data[at] in long
